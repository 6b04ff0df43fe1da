//! Draws runs: each seed a tiny drive, a configuration, a mix of operations and perhaps faults.
//! Weights are drawn too, and wildly, so that each seed leans another way.

use std::collections::BTreeMap;

use block::{Rng, Span};
use nand::Fault;

use crate::atlas;
use crate::drive::{DriveSpec, Shape};
use crate::plan::Plan;
use crate::step::{Action, Step};

/// What the caller fixes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Draw {
    /// Steps of the workload.
    pub steps: (u64, u64),
    /// One in so many runs has faults of the array; 0: none has.
    pub faulty: u64,
    /// One in so many runs sends bytes instead of stamps; 0: none does.
    pub bytes: u64,
}

impl Draw {
    /// Short runs, every operation of which is cut.
    pub const SHORT: Draw = Draw { steps: (20, 90), faulty: 6, bytes: 24 };
    /// Short runs of healthy flash.
    pub const HEALTHY: Draw = Draw { faulty: 0, ..Draw::SHORT };
    /// Short runs, each with faults of the medium.
    pub const FAULTY: Draw = Draw { faulty: 1, ..Draw::SHORT };
}

pub(crate) type Config = BTreeMap<String, String>;

/// Draws the run of a seed, and says how many configurations were refused on the way.
pub fn draw(seed: u64, what: &Draw) -> (Plan, DriveSpec, u64) {
    let mut rng = Rng::stream(seed, "swarm/config");
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
        let mut rng = Rng::stream(seed, "swarm/work");
        plan.bytes = what.bytes > 0 && rng.ratio(1, what.bytes);
        let lean = Weights::draw(&mut rng, plan.bytes);
        let count = rng.between(what.steps.0, what.steps.1);
        plan.work = lean.steps(&mut rng, &shape, count);
        if rng.ratio(1, 2) {
            plan.work.push(Step::new(Action::Shutdown));
        }
        let count = rng.between(2, 14);
        plan.after = lean.steps(&mut rng, &shape, count);
        if what.faulty > 0 && rng.ratio(1, what.faulty) && !plan.bytes {
            plan.faults = faults(&mut rng, &shape, 2 * count);
        }
        let spec = DriveSpec::of(&plan).unwrap_or_else(|_| {
            // Its bad blocks would leave too little space.
            plan.faults.clear();
            DriveSpec::of(&plan).expect("the same configuration")
        });
        return (plan, spec, refused);
    }
}

/// One to three faults of the array.
fn faults(rng: &mut Rng, shape: &Shape, ops: u64) -> Vec<Fault> {
    (0..rng.between(1, 3)).map(|_| atlas::draw(rng, ops, shape.dies, shape.blocks)).collect()
}

/// Sets keys of a configuration from draws.
pub(crate) struct Keys<'a> {
    pub(crate) rng: &'a mut Rng,
    pub(crate) config: Config,
}

impl Keys<'_> {
    pub(crate) fn set(&mut self, key: &str, value: impl ToString) {
        self.config.insert(key.to_string(), value.to_string());
    }
    pub(crate) fn pick(&mut self, key: &str, values: &[&str]) -> String {
        let value = (*self.rng.pick(values)).to_string();
        self.set(key, &value);
        value
    }
    /// Sets the key in one of `n` cases.
    pub(crate) fn maybe(&mut self, n: u64, key: &str, values: &[&str]) {
        if self.rng.ratio(1, n) {
            self.pick(key, values);
        }
    }
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.rng.ratio(1, n)
    }
}

fn config(rng: &mut Rng) -> Config {
    let mut k = Keys { rng, config: Config::new() };
    k.set("nand.oob", "full");
    shape(&mut k);
    cells(&mut k);
    if k.one_in(48) {
        return wide(k);
    }
    cleaning(&mut k);
    buffer(&mut k);
    // The rest: where the map lies, and checkpoints.
    if k.one_in(2) {
        k.set("ckpt.mode", "interval");
        k.pick("ckpt.interval", &["3 %", "6.25 %", "12 %", "25 %", "50 %", "90 %"]);
    }
    if k.one_in(4) {
        k.set("map.mode", "paged");
        k.pick("map.cache", &["8 KiB", "16 KiB", "32 KiB", "64 KiB"]);
        k.pick("map.evict", &["clock", "lru"]);
    }
    k.maybe(12, "timing", &["off"]);
    k.config
}

/// A drive large enough for more translation pages than the map cache holds.
fn wide(mut k: Keys<'_>) -> Config {
    k.set("geometry.channels", 1);
    k.set("geometry.dies", 2);
    k.set("geometry.planes", 1);
    k.set("geometry.cell_bits", 1);
    k.set("geometry.page", "4 KiB");
    k.set("geometry.pages", 32);
    k.set("geometry.blocks", 36);
    k.set("nand.page_types", "uniform");
    k.set("nand.one_shot", "off");
    k.set("unit", "4 KiB");
    k.set("op", "60 %");
    k.set("line", "plane");
    k.set("map.mode", "paged");
    k.set("map.cache", "8 KiB");
    k.pick("map.evict", &["clock", "lru"]);
    if k.one_in(2) {
        k.set("ckpt.mode", "interval");
        k.pick("ckpt.interval", &["0.5 %", "1 %", "3 %"]);
    }
    cleaning(&mut k);
    buffer(&mut k);
    k.config
}

fn shape(k: &mut Keys<'_>) {
    k.pick("geometry.channels", &["1", "1", "2"]);
    k.pick("geometry.dies", &["1", "1", "2"]);
    k.pick("geometry.planes", &["1", "1", "1", "2"]);
    let blocks = k.rng.between(5, 16);
    k.set("geometry.blocks", blocks);
    k.pick("geometry.page", &["4 KiB", "4 KiB", "8 KiB", "16 KiB"]);
    k.pick("unit", &["4 KiB", "4 KiB", "4 KiB", "8 KiB", "16 KiB"]);
    k.pick("op", &["12 %", "25 %", "40 %", "70 %", "100 %", "200 %"]);
    k.pick("line", &["auto", "superblock", "channel", "die", "plane", "plane"]);
    k.maybe(4, "order", &["WCDP", "PCWD", "DPWC", "CPWD"]);
    k.maybe(3, "placement", &["dynamic", "static"]);
    k.maybe(4, "nand.multi_plane", &["off"]);
    k.maybe(4, "bad.reserve", &["5 %", "10 %", "20 %"]);
    k.maybe(10, "bad.factory", &["2 %", "8 %"]);
}

pub(crate) fn cells(k: &mut Keys<'_>) {
    match k.rng.below(6) {
        0 => {
            k.set("geometry.cell_bits", 2);
            k.set("nand.page_types", "mlc-pairs");
            k.pick("geometry.pages", &["8", "8", "10", "12"]);
            k.set("nand.program", "200 us, 900 us");
        }
        1 => {
            let bits = k.rng.between(2, 4);
            k.set("geometry.cell_bits", bits);
            k.set("nand.page_types", "lsb-msb");
            let lines = k.rng.between(1, 8 / bits);
            k.set("geometry.pages", bits * lines);
            k.set("nand.program", "200 us, 500 us, 900 us");
            k.maybe(2, "nand.one_shot", &["on"]);
        }
        _ => {
            let pages = k.rng.between(2, 8);
            k.set("geometry.pages", pages);
        }
    }
    k.maybe(4, "nand.cache_ops", &["on"]);
    k.maybe(4, "nand.suspend", &["erase", "program", "both"]);
    k.maybe(5, "nand.independent_planes", &["on"]);
    k.maybe(4, "bus.page_time", &["5 us", "40 us"]);
    k.maybe(4, "nand.erase", &["100 us", "20 ms"]);
}

pub(crate) fn cleaning(k: &mut Keys<'_>) {
    k.pick(
        "gc.victim",
        &[
            "greedy",
            "greedy",
            "fifo",
            "random",
            "dchoice(2)",
            "dchoice(3)",
            "cost-benefit",
            "age-threshold",
        ],
    );
    k.maybe(2, "gc.pace", &["burst"]);
    k.maybe(4, "gc.background", &["on"]);
    k.maybe(6, "gc.exact", &["on", "off"]);
    let policy = k.pick(
        "streams.policy",
        &[
            "user+gc", "user+gc", "user+gc", "single", "hotcold", "app", "hint", "buffer",
            "lifetime", "lifetime",
        ],
    );
    if policy == "lifetime" {
        many_lines(k);
    } else if !matches!(policy.as_str(), "user+gc" | "single") {
        k.pick("streams.count", &["2", "2", "3"]);
        k.maybe(3, "gc.per_stream", &["on"]);
    }
    if k.one_in(3) {
        k.pick("wl.mode", &["none", "dynamic+static"]);
        k.pick("wl.delta", &["1", "2", "5"]);
        k.pick("wl.period", &["1", "3", "10"]);
    }
}

/// Six open lines, and a reserve for as many, are a small part of many lines only.
fn many_lines(k: &mut Keys<'_>) {
    let blocks = k.rng.between(28, 40);
    k.set("geometry.blocks", blocks);
    k.set("geometry.channels", 1);
    k.set("geometry.dies", 1);
    k.set("geometry.planes", 1);
    k.pick("op", &["100 %", "150 %", "200 %", "300 %"]);
}

/// Every policy that needs no knowledge of the future, small enough for tiny buffers.
const POLICIES: &[&str] = &[
    "fifo",
    "clock",
    "sieve",
    "2q",
    "arc",
    "lirs",
    "s3-fifo",
    "w-tinylfu",
    "2-level-lru",
    "cflru",
    "lru-wsr",
    "ccf-lru",
    "ad-lru",
    "pt-lru",
    "vbbms(random_block=4, sequential_block=3)",
    "bplru",
    "fab",
    "aoi(cap=1, chunk=16 KiB, threshold=8 KiB)",
    "aoi(cap=2, chunk=8 KiB, threshold=8 KiB, lat=sweep)",
    "aoi(cap=1, chunk=32 KiB, threshold=4 KiB, lat=literal)",
    "aoi(cap=1, chunk=16 KiB, threshold=4 KiB, read_hit_to_bar=on)",
];

/// Isolation before every kind of policy, always and behind a gate; of larger buffers only.
const ISOLATIONS: &[&str] = &[
    "aoi(inner=s3-fifo, gate=shadow, period=2, cap=4, chunk=8 KiB, threshold=4 KiB)",
    "aoi(inner=lirs, gate=shadow, period=3, cap=8, chunk=16 KiB, threshold=8 KiB, weight=page)",
    "aoi(inner=s3-fifo, cap=3, chunk=8 KiB, threshold=4 KiB)",
    "aoi(inner=lru-wsr, cap=2, chunk=8 KiB, threshold=4 KiB, lat=sweep)",
    "aoi(inner=2-level-lru, cap=4, chunk=8 KiB, threshold=4 KiB)",
    "aoi(inner=arc, cap=4, chunk=8 KiB, threshold=4 KiB)",
    "aoi(inner=bplru, cap=4, chunk=8 KiB, threshold=4 KiB)",
    "aoi(inner=vbbms(random_block=4, sequential_block=3), cap=4, chunk=8 KiB, threshold=4 KiB)",
];

pub(crate) fn buffer(k: &mut Keys<'_>) {
    if k.pick("buffer.policy", &["none", "lru", "other", "other"]) == "none" {
        return;
    }
    let mut sizes: &[&str] = &["8 KiB", "16 KiB", "32 KiB", "64 KiB", "256 KiB"];
    if k.config["buffer.policy"] == "other" {
        if k.one_in(4) {
            k.pick("buffer.policy", ISOLATIONS);
            sizes = &["256 KiB"];
        } else {
            k.pick("buffer.policy", POLICIES);
        }
    }
    k.pick("buffer.size", sizes);
    k.maybe(4, "buffer.write", &["through"]);
    k.maybe(3, "buffer.staging", &["1", "2", "4"]);
    k.maybe(6, "buffer.subunit", &["mask"]);
    if k.one_in(6) && k.pick("plp.mode", &["full", "capacitor"]) == "capacitor" {
        k.pick("plp.pages", &["1", "4", "16"]);
    }
}

/// How a run leans.
struct Weights {
    write: u64,
    read: u64,
    flush: u64,
    discard: u64,
    idle: u64,
    /// One in so many writes is forced.
    fua: u64,
    /// One in so many steps does not wait.
    overlap: u64,
    /// Pages of the hot set.
    hot: u64,
    /// Of 16 draws, so many are hot.
    hot_share: u64,
    longest: u64,
    bytes: bool,
}

impl Weights {
    fn draw(rng: &mut Rng, bytes: bool) -> Weights {
        let mut wild = |choices: &[u64]| *rng.pick(choices);
        Weights {
            write: wild(&[20, 40, 60]),
            read: wild(&[0, 2, 10]),
            flush: wild(&[0, 1, 4, 12]),
            discard: wild(&[0, 0, 2, 6, 20]),
            idle: wild(&[0, 0, 1, 4]),
            fua: wild(&[1, 3, 10, 1000]),
            overlap: wild(&[1, 2, 4, 1000]),
            hot: wild(&[1, 3, 6]),
            hot_share: wild(&[0, 8, 8, 15]),
            longest: wild(&[1, 1, 3, 8]),
            bytes,
        }
    }

    fn steps(&self, rng: &mut Rng, shape: &Shape, count: u64) -> Vec<Step> {
        (0..count).map(|_| self.step(rng, shape)).collect()
    }

    /// A range of pages: half the starts from a tiny hot set.
    fn range(&self, rng: &mut Rng, pages: u32, longest: u64) -> (u32, u32) {
        let all = u64::from(pages);
        let page = if rng.ratio(self.hot_share, 16) {
            rng.below(self.hot.min(all))
        } else {
            rng.below(all)
        };
        let count = 1 + rng.below(longest.min(all - page));
        (page as u32, count as u32)
    }

    fn step(&self, rng: &mut Rng, shape: &Shape) -> Step {
        let total = self.write + self.read + self.flush + self.discard + self.idle;
        let mut at = rng.below(total);
        let mut falls = |weight: u64| {
            let here = at < weight;
            at = at.wrapping_sub(weight);
            here
        };
        let action = if falls(self.write) {
            self.write(rng, shape)
        } else if falls(self.read) {
            let (page, count) = self.range(rng, shape.pages, self.longest * 2);
            Action::Read { page, count }
        } else if falls(self.flush) {
            Action::Flush
        } else if falls(self.discard) {
            self.discard(rng, shape)
        } else {
            Action::Idle(Span::from_us(*rng.pick(&[1, 100, 3_000, 15_000, 100_000])))
        };
        let overlap = rng.ratio(1, self.overlap) && !matches!(action, Action::Idle(_));
        Step { action, overlap, app: rng.below(3) as u8 }
    }

    fn write(&self, rng: &mut Rng, shape: &Shape) -> Action {
        let (page, count) = self.range(rng, shape.pages, self.longest);
        let fua = rng.ratio(1, self.fua);
        if !self.bytes {
            return Action::Write { page, count, fua };
        }
        let sectors = count * 8;
        let from = if rng.ratio(1, 2) { rng.below(u64::from(sectors)) as u32 } else { 0 };
        let count = 1 + rng.below(u64::from(sectors - from)) as u32;
        let whole = if rng.ratio(1, 3) { sectors - from } else { count };
        Action::WriteBytes { sector: page * 8 + from, count: whole, fua }
    }

    fn discard(&self, rng: &mut Rng, shape: &Shape) -> Action {
        let (page, count) = self.range(rng, shape.pages, self.longest * 4);
        if rng.ratio(1, 12) {
            return Action::Discard { page: 0, count: shape.pages };
        }
        // Mostly whole units, else a part may stay and little can be said.
        let grain = shape.grain;
        if rng.ratio(1, 4) || grain == 1 {
            return Action::Discard { page, count };
        }
        let page = page / grain * grain;
        let count = count.next_multiple_of(grain).min(shape.pages - page);
        Action::Discard { page, count }
    }
}
