//! Draws runs of host logs: tiny disks and segments, so that cleaning and checkpoints are always
//! near; options and hosts that lean wildly.

use block::{Rng, Span};
use nand::Fault;

use crate::plan::Plan;
use crate::remap::spec::{LogKind, RemapSpec};
use crate::step::{Action, Step};
use crate::swarm::{Config, Draw, Keys};

/// Draws the run of a seed of a log of this kind, and says how many configurations
/// were refused on the way.
pub fn draw_remap(seed: u64, kind: LogKind, what: &Draw) -> (Plan, RemapSpec, u64) {
    let mut rng = Rng::stream(seed, "remap/config");
    let mut refused = 0;
    loop {
        // Three in five of the logs to use are live ones: what a server runs.
        let config = config(&mut rng, kind, kind == LogKind::Log && seed % 5 < 3);
        let mut plan = Plan { seed, config, bytes: true, ..Plan::default() };
        let Ok(spec) = RemapSpec::of(&plan) else {
            refused += 1;
            assert!(refused < 10_000, "seed {seed}: every configuration drawn is refused");
            continue;
        };
        let mut rng = Rng::stream(seed, "remap/work");
        let count = rng.between(what.steps.0, what.steps.1);
        let host = Host::draw(&mut rng, spec.pages(), kind == LogKind::PaperLog);
        plan.work = host.fill(&mut rng);
        plan.work.extend((0..count).map(|_| host.step(&mut rng)));
        if rng.ratio(1, 3) {
            plan.work.push(Step::new(Action::Shutdown));
        }
        let after = rng.between(2, 20);
        plan.after = (0..after).map(|_| host.step(&mut rng)).collect();
        if what.faulty > 0 && rng.ratio(1, what.faulty) {
            plan.faults.push(fault(&mut rng, &spec, 3 * count));
        }
        let spec = RemapSpec::of(&plan).expect("the same log");
        return (plan, spec, refused);
    }
}

/// A fault of the disk after the log was made, within about so many operations.
fn fault(rng: &mut Rng, spec: &RemapSpec, ops: u64) -> Fault {
    let made = spec.made();
    let at = made.ops + rng.below(ops);
    match rng.below(6) {
        0 | 1 => Fault::ProgramFail { at, always: rng.ratio(1, 2) },
        2 => Fault::ProgramNoop { at },
        3 => Fault::MisdirectWrite { at },
        4 => Fault::ReadUncorrectable { read: made.reads + rng.below(ops) },
        _ => Fault::BitRot { at, oob: rng.ratio(1, 2) },
    }
}

pub(super) fn config(rng: &mut Rng, kind: LogKind, live: bool) -> Config {
    let mut k = Keys { rng, config: Config::new() };
    k.set("remap.mode", kind.name());
    k.maybe(2, "disk.write", &["1 ns", "20 us", "1 ms"]);
    k.maybe(2, "disk.flush", &["1 ns", "100 us", "5 ms"]);
    match kind {
        LogKind::PaperLog => paper(&mut k),
        LogKind::Log => log(&mut k, live),
    }
    k.config
}

fn log(k: &mut Keys<'_>, live: bool) {
    if live {
        let seed = k.rng.below(1 << 32);
        k.set("remap.live", seed);
        k.maybe(2, "log.inflight", &["1", "3"]);
    }
    if k.one_in(3) {
        k.set("log.ack", "buffer");
        k.pick("log.buffer", &["4 KiB", "16 KiB", "64 KiB", "1 MiB"]);
    }
    // Its heads need space beside what the client has.
    let apart = k.one_in(4);
    if apart {
        k.pick("log.placement", &["sepbit", "sepbit", "auto", "known"]);
        k.pick("log.reserve", &["75", "85", "90"]);
    }
    let segment = *k.rng.pick(&[16, 16, 16, 32]);
    k.set("log.segment", format!("{} KiB", segment * 4));
    let most = if k.one_in(3) { 60 } else { 26 };
    let segments = if apart { k.rng.between(36, 66) } else { k.rng.between(17, most) };
    k.set("disk.blocks", segment * (segments + 1));
    k.maybe(2, "log.atomic_max", &["4 KiB", "8 KiB", "16 KiB", "32 KiB"]);
    k.maybe(3, "disk.strict", &["on"]);
    k.maybe(3, "log.discard", &["off"]);
    k.maybe(2, "log.gc.batch", &["1", "3", "16"]);
    k.maybe(3, "log.gc.order", &["lba"]);
    let policies = ["greedy", "cost-benefit", "age-threshold", "fifo", "random"];
    k.maybe(2, "log.gc.victim", &policies);
    k.maybe(3, "log.gc.start", &["1", "4", "8", "100"]);
    if !apart {
        k.maybe(3, "log.reserve", &["5", "30", "60"]);
    }
    k.maybe(3, "log.seal_after", &["1 ns", "10 us"]);
    k.maybe(3, "log.self_flush", &["64 KiB", "256 KiB"]);
    k.maybe(4, "log.verify", &["read"]);
    k.maybe(5, "log.map_memory", &["4 KiB", "8 KiB"]);
    if k.one_in(4) {
        let pages = k.rng.between(4, 40);
        k.set("log.capacity", format!("{} KiB", pages * 4));
    }
}

fn paper(k: &mut Keys<'_>) {
    let blocks = k.rng.between(40, 120);
    k.set("disk.blocks", blocks);
    k.pick("paper-log.log_blocks", &["2", "3", "8"]);
    k.pick("paper-log.commit_pairs", &["1", "2", "7", "510"]);
    k.maybe(2, "paper-log.commit_after", &["1 ms", "100 ms"]);
    k.pick("paper-log.clean_below", &["5", "20", "50"]);
    k.pick("paper-log.clean_moves", &["1", "3", "256"]);
    k.maybe(3, "paper-log.partition", &["trans"]);
    k.maybe(3, "paper-log.partition_blocks", &["16", "40"]);
    k.maybe(3, "paper-log.trim", &["invalidate"]);
    k.maybe(4, "paper-log.flush", &["commit"]);
    k.maybe(6, "paper-log.memory", &["1 KiB", "4 KiB"]);
    // Below the data area, so that there is something to clean with.
    let share = k.rng.between(10, 70);
    k.set("paper-log.blocks", (blocks * share / 100).saturating_sub(8).max(4));
}

/// How a host leans.
struct Host {
    pages: u64,
    write: u64,
    bytes: u64,
    read: u64,
    flush: u64,
    discard: u64,
    idle: u64,
    /// One in so many writes is forced.
    fua: u64,
    /// One in so many steps does not wait.
    overlap: u64,
    hot: u64,
    hot_share: u64,
    longest: u64,
    fill: bool,
}

impl Host {
    fn draw(rng: &mut Rng, pages: u32, whole: bool) -> Host {
        let mut wild = |choices: &[u64]| *rng.pick(choices);
        Host {
            pages: u64::from(pages),
            write: wild(&[20, 40, 60]),
            bytes: if whole { 0 } else { wild(&[0, 0, 4, 20]) },
            read: wild(&[0, 2, 10]),
            flush: wild(&[0, 1, 4, 12, 30]),
            discard: wild(&[0, 0, 2, 6, 20]),
            idle: wild(&[0, 0, 1, 4]),
            fua: wild(&[1, 3, 10, 1000]),
            overlap: wild(&[1, 2, 4, 1000]),
            hot: wild(&[1, 3, 12]),
            hot_share: wild(&[0, 8, 8, 15]),
            longest: wild(&[1, 1, 3, 8, 24]),
            fill: wild(&[0, 1]) == 1,
        }
    }

    /// Perhaps everything is written once, in long requests.
    fn fill(&self, rng: &mut Rng) -> Vec<Step> {
        let (mut steps, mut page) = (Vec::new(), 0);
        while self.fill && page < self.pages {
            let count = rng.between(1, 64).min(self.pages - page);
            let action = Action::Write { page: page as u32, count: count as u32, fua: false };
            steps.push(Step::new(action));
            page += count;
        }
        if self.fill && rng.ratio(1, 2) {
            steps.push(Step::new(Action::Flush));
        }
        steps
    }

    fn range(&self, rng: &mut Rng, longest: u64) -> (u32, u32) {
        let page = if rng.ratio(self.hot_share, 16) {
            rng.below(self.hot.min(self.pages))
        } else {
            rng.below(self.pages)
        };
        (page as u32, 1 + rng.below(longest.min(self.pages - page)) as u32)
    }

    fn step(&self, rng: &mut Rng) -> Step {
        let total = self.write + self.bytes + self.read + self.flush + self.discard + self.idle;
        let mut at = rng.below(total);
        let mut falls = |weight: u64| {
            let here = at < weight;
            at = at.wrapping_sub(weight);
            here
        };
        let fua = |rng: &mut Rng| rng.ratio(1, self.fua);
        let action = if falls(self.write) {
            let (page, count) = self.range(rng, self.longest);
            Action::Write { page, count, fua: fua(rng) }
        } else if falls(self.bytes) {
            let (page, count) = self.range(rng, self.longest);
            let from = rng.below(u64::from(count) * 8) as u32;
            let count = 1 + rng.below(u64::from(count * 8 - from)) as u32;
            Action::WriteBytes { sector: page * 8 + from, count, fua: fua(rng) }
        } else if falls(self.read) {
            let (page, count) = self.range(rng, self.longest * 2);
            Action::Read { page, count }
        } else if falls(self.flush) {
            Action::Flush
        } else if falls(self.discard) {
            let (page, count) = self.range(rng, self.longest * 4);
            match rng.ratio(1, 16) {
                true => Action::Discard { page: 0, count: self.pages as u32 },
                false => Action::Discard { page, count },
            }
        } else {
            Action::Idle(Span::from_us(*rng.pick(&[1, 100, 15_000, 1_100_000, 6_000_000])))
        };
        let overlap = rng.ratio(1, self.overlap) && !matches!(action, Action::Idle(_));
        Step { action, overlap, app: 0 }
    }
}
