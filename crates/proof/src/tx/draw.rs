//! Draws of runs with transactions: tiny drives, so that cleaning is always near, limits so low
//! that they are reached, and hosts that interleave transactions with plain writes.

use block::{Rng, Span};
use nand::Outcome;

use crate::atlas;
use crate::drive::{DriveSpec, Shape};
use crate::plan::Plan;
use crate::step::{Action, Step};
use crate::swarm::{Config, Draw, Keys, buffer, cells, cleaning};

/// Draws the run of a seed, and says how many configurations were refused on the way.
pub fn draw_tx(seed: u64, what: &Draw) -> (Plan, DriveSpec, u64) {
    let mut rng = Rng::stream(seed, "tx/config");
    let mut refused = 0;
    loop {
        let config = config(&mut rng);
        let mut plan = Plan { seed, config, ..Plan::default() };
        let Ok(spec) = DriveSpec::of(&plan) else {
            refused += 1;
            assert!(refused < 10_000, "seed {seed}: every configuration drawn is refused");
            continue;
        };
        let shape = spec.shape();
        let mut rng = Rng::stream(seed, "tx/work");
        plan.bytes = what.bytes > 0 && rng.ratio(1, what.bytes);
        let mut host = Host::draw(&mut rng, &shape);
        let count = rng.between(what.steps.0, what.steps.1);
        plan.work = host.fill(&mut rng, u64::from(spec.params().geometry.slots()));
        plan.work.extend((0..count).map(|_| host.step(&mut rng)));
        if rng.ratio(1, 3) {
            plan.work.push(Step::new(Action::Shutdown));
        }
        let count = rng.between(2, 24);
        plan.after = (0..count).map(|_| host.step(&mut rng)).collect();
        if what.faulty > 0 && rng.ratio(1, what.faulty) {
            // Whatever the drive must cope with by itself.
            let fault = atlas::draw(&mut rng, 2 * count, shape.dies, shape.blocks);
            plan.faults.push(fault);
            plan.faults.retain(|fault| atlas::outcome(fault) != Outcome::Detected);
        }
        let spec = DriveSpec::of(&plan).unwrap_or_else(|_| {
            plan.faults.clear();
            DriveSpec::of(&plan).expect("the same configuration")
        });
        return (plan, spec, refused);
    }
}

/// The run of a seed on a drive that follows the paper's literal rules, as far as these have its
/// steps; without overlap, so that the order of address decides nothing that the paper orders.
pub fn draw_paper(seed: u64, what: &Draw) -> (Plan, DriveSpec) {
    let (mut plan, _, _) = draw_tx(seed, what);
    plan.config.insert("tx.mode".to_string(), "paper".to_string());
    for steps in [&mut plan.work, &mut plan.after] {
        steps.retain(|step| !matches!(step.action, Action::TxTrim { .. } | Action::Remap { .. }));
    }
    let spec = DriveSpec::of(&plan).expect("the same drive");
    (plan, spec)
}

fn config(rng: &mut Rng) -> Config {
    let mut k = Keys { rng, config: Config::new() };
    k.set("nand.oob", "full");
    k.set("unit", "4 KiB");
    let few = k.one_in(2);
    let channels = k.rng.between(1, if few { 2 } else { 4 });
    k.set("geometry.channels", channels);
    k.set("geometry.dies", 1);
    let planes = if k.one_in(5) { 2 } else { 1 };
    k.set("geometry.planes", planes);
    let blocks = k.rng.between(10, if few { 24 } else { 40 }).max(5 * channels * planes)
        / (channels * planes);
    k.set("geometry.blocks", blocks);
    k.pick("geometry.page", &["4 KiB", "4 KiB", "4 KiB", "8 KiB"]);
    if k.one_in(5) {
        cells(&mut k);
    } else {
        let pages = k.rng.between(3, 8);
        k.set("geometry.pages", pages);
        k.maybe(6, "nand.suspend", &["erase", "program", "both"]);
        k.maybe(6, "nand.erase", &["100 us", "20 ms"]);
    }
    k.pick("op", &["40 %", "60 %", "80 %", "100 %", "150 %", "200 %", "300 %"]);
    k.pick("line", &["superblock", "channel", "plane", "plane", "plane"]);
    k.maybe(4, "placement", &["dynamic", "static"]);
    k.maybe(6, "bad.reserve", &["10 %"]);
    cleaning(&mut k);
    buffer(&mut k);
    k.set("tx.mode", "nolog");
    k.pick("tx.commit", &["barrier", "counted"]);
    k.pick("tx.lock", &["prefer", "prefer", "ignore", "hard"]);
    let losers: u64 = k.pick("tx.losers", &["4", "8", "320"]).parse().unwrap_or(4);
    let open = k.rng.between(1, 5.min(losers));
    k.set("tx.max_open", open);
    k.pick("tx.span", &["4", "8", "16384", "16384"]);
    k.pick("tx.pages", &["0", "4", "8", "8", "16", "24", "40"]);
    k.maybe(3, "tx.pairs", &["1", "2", "3"]);
    k.maybe(16, "timing", &["off"]);
    k.config
}

/// How a host leans.
struct Host {
    pages: u64,
    plain: u64,
    trim: u64,
    flush: u64,
    tx: u64,
    commit: u64,
    abort: u64,
    many: u64,
    remap: u64,
    hot: u64,
    tx_hot: u64,
    longest: u64,
    overlap: u64,
    names: u64,
}

impl Host {
    fn draw(rng: &mut Rng, shape: &Shape) -> Host {
        let mut wild = |choices: &[u64]| *rng.pick(choices);
        Host {
            pages: u64::from(shape.pages),
            plain: wild(&[4, 10, 25]),
            trim: wild(&[0, 2, 6]),
            flush: wild(&[0, 1, 4]),
            tx: wild(&[15, 30, 50]),
            commit: wild(&[1, 6, 10, 20]),
            abort: wild(&[0, 2, 6]),
            many: wild(&[0, 2, 4]),
            remap: wild(&[0, 0, 4, 12]),
            hot: wild(&[4, 8, 16, 1000]),
            tx_hot: wild(&[4, 8, 16, 1000, 1000]),
            longest: wild(&[1, 2, 4, 8]),
            overlap: wild(&[2, 4, 1000]),
            names: wild(&[1, 2, 3, 5]),
        }
    }

    /// Writes as much as the drive holds or nearly so, so that cleaning is near.
    fn fill(&self, rng: &mut Rng, slots: u64) -> Vec<Step> {
        let total = slots * *rng.pick(&[0, 60, 80, 100, 120]) / 100;
        let mut steps = Vec::new();
        let (mut page, mut written) = (0, 0);
        while written < total {
            let count = (1 + rng.below(16)).min(self.pages - page);
            let action = Action::Write { page: page as u32, count: count as u32, fua: false };
            steps.push(Step { action, overlap: false, app: rng.below(3) as u8 });
            written += count;
            // Once in order, then anywhere.
            page = if written < self.pages { page + count } else { rng.below(self.pages) };
        }
        steps
    }

    fn range(&self, rng: &mut Rng, hot: u64, longest: u64) -> (u32, u32) {
        let all = if rng.ratio(7, 8) { hot.min(self.pages) } else { self.pages };
        let page = rng.below(all);
        let count = 1 + rng.below(longest.min(self.pages - page));
        (page as u32, count as u32)
    }

    fn step(&mut self, rng: &mut Rng) -> Step {
        let weights = [
            self.plain,
            self.trim,
            self.flush,
            self.tx,
            self.commit,
            self.abort,
            self.many,
            self.remap,
            4,
            3,
        ];
        let mut at = rng.below(weights.iter().sum());
        let mut which = 0;
        while at >= weights[which] {
            at -= weights[which];
            which += 1;
        }
        let tx = rng.below(self.names) as u8;
        let hot = if matches!(which, 3 | 7) { self.tx_hot } else { self.hot };
        let (page, count) = self.range(rng, hot, self.longest);
        let action = match which {
            0 => Action::Write { page, count, fua: rng.ratio(1, 5) },
            1 if rng.ratio(1, 2) => Action::TxTrim { tx, page, count },
            1 => Action::Discard { page, count },
            2 => Action::Flush,
            3 => Action::TxWrite { tx, page, count },
            4 => Action::Commit { set: 1 << tx },
            5 => Action::Abort { tx },
            6 => Action::Commit { set: rng.below(1 << self.names) as u32 },
            7 => {
                let count = (1 + rng.below(4)).min(self.pages - u64::from(page)) as u32;
                let from = rng.below(self.pages - u64::from(count) + 1) as u32;
                Action::Remap { to: page, from, count }
            }
            8 if rng.ratio(1, 2) => Action::Read { page, count },
            8 => Action::TxRead { tx, page, count },
            _ if rng.ratio(1, 2) => Action::Begin { tx },
            _ => Action::Idle(Span::from_us(*rng.pick(&[1, 300, 5_000, 50_000]))),
        };
        let overlap = rng.ratio(1, self.overlap) && !matches!(action, Action::Idle(_));
        Step { action, overlap, app: rng.below(3) as u8 }
    }
}
