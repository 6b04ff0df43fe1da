//! Draws runs of file systems: all short sequences of operations, and random ones on tiny volumes
//! that are cleaned all the time. Random steps are drawn on the model, so that most make sense.

use block::Rng;

use super::model::Tree;
use super::spec::FsSpec;
use super::step::{FsAction, NAMES, Path};
use crate::plan::Plan;
use crate::step::{Action, Step};
use crate::swarm::{Config, Draw, Keys};

/// What short sequences are made of, on the small tree: `/a`, `/c` with a hole, `/d/c`.
fn alphabet() -> Vec<FsAction> {
    let path = |text: &str| text.parse::<Path>().expect("a path");
    let (a, b, c, d) = (path("/a"), path("/b"), path("/c"), path("/d"));
    let (db, dc, e) = (path("/d/b"), path("/d/c"), path("/e"));
    vec![
        FsAction::Create(b),
        FsAction::Create(db),
        FsAction::Mkdir(e),
        FsAction::Symlink(b, 30),
        FsAction::Write(a, 0, 4_096),
        FsAction::Write(a, 4_000, 300),
        FsAction::Write(b, 0, 5_000),
        FsAction::Append(a, 6_000),
        FsAction::Append(dc, 100),
        FsAction::Truncate(a, 5_000),
        FsAction::Truncate(a, 0),
        FsAction::Punch(a, 4_096, 4_096),
        FsAction::Allocate(a, 12_288, 8_192, true),
        FsAction::Rename(a, b),
        FsAction::Rename(a, dc),
        FsAction::Rename(dc, b),
        FsAction::Rename(d, e),
        FsAction::Exchange(a, dc),
        FsAction::Link(a, b),
        FsAction::Link(c, db),
        FsAction::Unlink(a),
        FsAction::Unlink(dc),
        FsAction::Rmdir(d),
        FsAction::SetXattr(a, 1, 100),
        FsAction::SetXattr(c, 2, 900),
        FsAction::Chmod(a, 0o600),
        FsAction::Fsync(a),
        FsAction::Fsync(b),
        FsAction::Fsync(c),
        FsAction::Fsync(dc),
        FsAction::Fsync(d),
        FsAction::Sync,
        FsAction::Remount,
    ]
}

/// How many short sequences there are: of one to three operations.
pub fn sequences() -> u64 {
    let n = alphabet().len() as u64;
    n + n * n + n * n * n
}

/// Sequence `i`: short ones first, in a scattered order within a length.
fn sequence(i: u64) -> Vec<FsAction> {
    let alphabet = alphabet();
    let n = alphabet.len() as u64;
    let (length, all, mut at) = match i % sequences() {
        i if i < n + n * n => (if i < n { 1 } else { 2 }, 0, if i < n { i } else { i - n }),
        i => (3, n * n * n, i - n - n * n),
    };
    if all > 0 {
        // 20,011 is prime and larger than no power of the alphabet's size.
        at = at * 20_011 % all;
    }
    let mut steps = Vec::new();
    for _ in 0..length {
        steps.push(alphabet[(at % n) as usize]);
        at /= n;
    }
    steps
}

/// Draws the run of a seed: odd seeds are short sequences, the others random; if `long` all are
/// random and long. Says how many configurations were refused on the way.
pub fn draw_lfs(seed: u64, what: &Draw) -> (Plan, FsSpec, u64) {
    let long = what.steps.0 > 100;
    let mut rng = Rng::stream(seed, "lfs/config");
    let mut refused = 0;
    loop {
        let short = !long && seed % 2 == 1;
        let config = if short { small(&mut rng) } else { config(&mut rng, long) };
        let mut plan = Plan { seed, config, ..Plan::default() };
        let Ok(spec) = FsSpec::of(&plan) else {
            refused += 1;
            assert!(refused < 10_000, "seed {seed}: every configuration drawn is refused");
            continue;
        };
        let mut rng = Rng::stream(seed, "lfs/work");
        let mut host = Host::draw(&mut rng, spec.start().clone());
        if plan.config.get("lfs.dirty").is_some_and(|dirty| dirty == "200") && rng.ratio(3, 4) {
            host.chains(&mut rng);
        }
        if Rng::stream(seed, "lfs/far").ratio(1, 8) {
            host.reach();
        }
        if short {
            let steps = sequence(seed / 2);
            plan.work = steps.into_iter().map(file_step).collect();
            plan.work.push(file_step(host.last(&mut rng)));
        } else {
            let count = rng.between(what.steps.0, what.steps.1);
            plan.work = (0..count).map(|_| file_step(host.step(&mut rng))).collect();
            if rng.ratio(1, 4) {
                plan.work.push(Step::new(Action::Shutdown));
            }
        }
        host.tree = spec.start().clone();
        let after = rng.between(2, 12);
        plan.after = (0..after).map(|_| file_step(host.step(&mut rng))).collect();
        return (plan, spec, refused);
    }
}

/// What a drawn host asks of a volume: before the first cut, and after each power-on.
pub(crate) fn work(rng: &mut Rng, spec: &FsSpec, what: &Draw) -> (Vec<Step>, Vec<Step>) {
    let mut host = Host::draw(rng, spec.start().clone());
    let count = rng.between(what.steps.0, what.steps.1);
    let mut work: Vec<Step> = (0..count).map(|_| file_step(host.step(rng))).collect();
    if rng.ratio(1, 4) {
        work.push(Step::new(Action::Shutdown));
    }
    host.tree = spec.start().clone();
    let after = rng.between(2, 12);
    (work, (0..after).map(|_| file_step(host.step(rng))).collect())
}

fn file_step(action: FsAction) -> Step {
    Step::new(Action::File(action))
}

/// A volume for a short sequence.
fn small(rng: &mut Rng) -> Config {
    let mut k = Keys { rng, config: Config::new() };
    k.pick("lfs.cleaning", &["bl415", "bl6", "scj", "scj"]);
    k.set("lfs.segment", 8);
    k.set("lfs.blocks", 500);
    k.set("lfs.slots", 4);
    k.set("lfs.tree", "on");
    torn(&mut k);
    k.config
}

fn config(rng: &mut Rng, long: bool) -> Config {
    let mut k = Keys { rng, config: Config::new() };
    let cleaning = k.pick("lfs.cleaning", &["bl415", "bl6", "scj", "scj", "scj"]);
    if cleaning != "scj" {
        k.maybe(4, "lfs.threaded", &["on"]);
    }
    k.maybe(4, "lfs.discard", &["on"]);
    if !k.config.contains_key("lfs.threaded") {
        k.maybe(8, "lfs.recover", &["bl415", "bl6", "scj"]);
    }
    let per_seg = *k.rng.pick(&[8_u64, 8, 16, 16, 32]);
    k.set("lfs.segment", per_seg);
    let segments = k.rng.between(26, 60);
    // Packs and tables take some more.
    k.set("lfs.blocks", segments * per_seg + 500);
    k.pick("lfs.slots", &["2", "4", "24", "80"]);
    k.pick("lfs.threshold", &["20", "60", "160", "2000"]);
    k.maybe(4, "lfs.count", &["valid"]);
    k.maybe(2, "lfs.batch", &["2", "4", "16"]);
    k.maybe(3, "lfs.gc.victim", &["cost-benefit"]);
    k.pick("lfs.dirty", &["8", "24", "60", "200"]);
    k.pick("lfs.prefree", &["5", "20", "100"]);
    k.maybe(3, "lfs.cached", &["0", "4", "16"]);
    k.maybe(2, "lfs.tree", &["on"]);
    k.pick("lfs.fill", &["0", "50", "80", "90", "95"]);
    if long {
        k.set("lfs.check", 16);
    }
    if k.one_in(3) {
        long_epochs(&mut k);
    }
    torn(&mut k);
    if cleaning != "bl415" {
        ahead(&mut k);
    }
    late(&mut k);
    turns(&mut k);
    k.config
}

/// Cleaning ahead of need.
fn ahead(k: &mut Keys<'_>) {
    if k.one_in(2) {
        k.pick("lfs.ahead", &["1", "1", "2", "4", "16"]);
        k.pick("lfs.depth", &["1", "2", "8"]);
    }
}

/// Nobody waits for the device while he has the volume, and somebody else has it meanwhile.
fn turns(k: &mut Keys<'_>) {
    if k.one_in(2) {
        let seed = k.rng.below(1 << 20);
        k.set("lfs.turns", seed);
        k.pick("lfs.cached", &["0", "2", "8", "64"]);
    }
}

/// A disk that answers late, in another order than it was asked, and whose flushes cover what was
/// answered: slow in reading, in flushing, or in forced writes.
fn late(k: &mut Keys<'_>) {
    if k.one_in(2) {
        return;
    }
    k.set("lfs.strict", "on");
    k.pick("lfs.read", &["0", "4", "100", "2000"]);
    k.pick("lfs.write", &["1", "3", "30"]);
    k.pick("lfs.flush", &["0", "5", "200"]);
    k.pick("lfs.forced", &["0", "6", "100"]);
    k.pick("lfs.pause", &["1", "20", "500"]);
}

/// Most disks tear a block.
fn torn(k: &mut Keys<'_>) {
    k.pick("lfs.atomic", &["512", "512", "512", "4096"]);
}

/// The first byte whose pointer is in no inode: a file that reaches so far has nodes beside it.
const FAR: u64 = 923 * 4096;

/// So few checkpoints that what fsync wrote is cleaned before the next one; [`Host::chains`] goes
/// with it.
fn long_epochs(k: &mut Keys<'_>) {
    k.set("lfs.slots", 80);
    k.set("lfs.threshold", 2_000);
    k.set("lfs.dirty", 200);
    k.set("lfs.prefree", 100);
    k.pick("lfs.fill", &["0", "20", "50"]);
}

/// How a host leans, and what it believes to be there.
struct Host {
    tree: Tree,
    version: u32,
    /// Weights of kinds of operations, in the order of [`Host::step`].
    weights: [u64; 17],
    /// Names that it uses in a directory.
    names: u64,
    /// Objects at most, about.
    most: usize,
    /// Blocks of a file at most, about.
    blocks: u64,
    /// One in so many operations is on a file of the first few.
    hot: u64,
    /// Some writes go behind what an inode points to.
    far: bool,
}

impl Host {
    fn draw(rng: &mut Rng, tree: Tree) -> Host {
        let mut wild = |choices: &[u64]| *rng.pick(choices);
        let weights = [
            wild(&[4, 20, 60, 120]), // write
            wild(&[0, 4, 20, 60]),   // append
            wild(&[0, 4, 12, 60]),   // fsync
            wild(&[2, 6, 20]),       // create
            wild(&[0, 2, 6]),        // mkdir, symlink
            wild(&[0, 0, 2, 8]),     // link
            wild(&[1, 6, 20]),       // unlink, rmdir
            wild(&[0, 2, 8]),        // rename, exchange
            wild(&[0, 2, 8]),        // truncate
            wild(&[0, 2, 8]),        // punch, allocate
            wild(&[0, 2, 8]),        // attributes
            wild(&[0, 0, 1, 4]),     // sync
            wild(&[0, 0, 0, 1]),     // remount
            wild(&[0, 2, 10, 40]),   // cleaning
            wild(&[0, 0, 6, 30]),    // somebody waits for a file
            wild(&[0, 0, 12, 60]),   // those that wait are taken on
            wild(&[0, 4, 20]),       // somebody reads a file
        ];
        let (names, most) = (wild(&[3, 6, u64::from(NAMES)]), wild(&[5, 12, 30, 60]) as usize);
        let (blocks, hot) = (wild(&[2, 6, 20, 40]), wild(&[1, 2, 1000]));
        Host { tree, version: 0, weights, names, most, blocks, hot, far: false }
    }

    /// Some writes go far; reading all of such a file costs.
    fn reach(&mut self) {
        self.far = true;
        self.most = self.most.min(8);
    }

    /// Many fsyncs of few small files, cleaned all the time: the chain becomes long and its segments
    /// sparse.
    fn chains(&mut self, rng: &mut Rng) {
        let mut wild = |choices: &[u64]| *rng.pick(choices);
        let names = wild(&[0, 1, 6]);
        self.weights = [0; 17];
        self.weights[0] = wild(&[20, 40]);
        self.weights[2] = wild(&[10, 20, 40]);
        (self.weights[3], self.weights[6], self.weights[13]) =
            (2 + names, names, wild(&[4, 12, 30]));
        self.weights[14] = wild(&[0, 0, 10, 30]);
        self.weights[15] = 2 * self.weights[14];
        (self.blocks, self.most) = (wild(&[2, 4]), wild(&[3, 8, 20]) as usize);
    }

    fn name(&self, rng: &mut Rng, dirs: &[Path]) -> Path {
        let deep = |dir: &Path| dir.names().count() < 4;
        let dirs: Vec<Path> = dirs.iter().copied().filter(deep).collect();
        rng.pick(&dirs).join(1 + rng.below(self.names) as u8)
    }

    fn range(&self, rng: &mut Rng) -> (u32, u32) {
        let at = rng.below(self.blocks * 4096);
        let at = if rng.ratio(1, 2) { at & !4095 } else { at };
        let at = if self.far && rng.ratio(1, 4) { FAR - 4096 + at } else { at };
        // No longer than what is written between two looks at free space.
        let most = (self.blocks * 4096).min(100_000);
        let longest = *rng.pick(&[64, 4096, 12_000, most]);
        let len = 1 + rng.below(longest);
        let len = if rng.ratio(1, 2) { len.next_multiple_of(4096) } else { len };
        (at as u32, len as u32)
    }

    /// Something to do, which is done on the model.
    fn step(&mut self, rng: &mut Rng) -> FsAction {
        let action = self.choose(rng);
        self.version += 1;
        // What is refused here is refused there.
        let _ = self.tree.apply(action, self.version);
        action
    }

    /// What makes a short sequence durable.
    fn last(&mut self, rng: &mut Rng) -> FsAction {
        let paths = ["/a", "/b", "/d/c", "/d/b", "/c", "/e"];
        match rng.below(7) {
            6 => FsAction::Sync,
            i => FsAction::Fsync(paths[i as usize].parse().expect("a path")),
        }
    }

    fn choose(&self, rng: &mut Rng) -> FsAction {
        let (dirs, others) = self.tree.paths();
        let total: u64 = self.weights.iter().sum();
        let mut at = rng.below(total);
        let kind = self.weights.iter().position(|weight| {
            let here = at < *weight;
            at = at.wrapping_sub(*weight);
            here
        });
        let any = |rng: &mut Rng| {
            let few = if rng.ratio(1, self.hot) { others.len().min(2) } else { others.len() };
            if few == 0 { Path::ROOT.join(1) } else { others[rng.below(few as u64) as usize] }
        };
        let (at, len) = self.range(rng);
        let full = self.tree.objects() >= self.most;
        match kind.unwrap_or(0) {
            0 => FsAction::Write(any(rng), at, len),
            1 => self.append(any(rng), len),
            2 if rng.ratio(1, 12) => FsAction::Fsync(*rng.pick(&dirs)),
            2 => FsAction::Fsync(any(rng)),
            3 if full => FsAction::Unlink(any(rng)),
            3 => FsAction::Create(self.name(rng, &dirs)),
            4 if rng.ratio(1, 3) => FsAction::Symlink(self.name(rng, &dirs), at.min(3_000)),
            4 => FsAction::Mkdir(self.name(rng, &dirs)),
            5 => FsAction::Link(any(rng), self.name(rng, &dirs)),
            6 if rng.ratio(1, 3) => FsAction::Rmdir(*rng.pick(&dirs)),
            6 => FsAction::Unlink(any(rng)),
            7 if rng.ratio(1, 4) => FsAction::Exchange(any(rng), any(rng)),
            7 if rng.ratio(1, 4) => FsAction::Rename(*rng.pick(&dirs), self.name(rng, &dirs)),
            7 => FsAction::Rename(any(rng), self.name(rng, &dirs)),
            8 => FsAction::Truncate(any(rng), at),
            9 if rng.ratio(1, 2) => FsAction::Allocate(any(rng), at, len, rng.ratio(1, 2)),
            9 => FsAction::Punch(any(rng), at, len),
            10 => self.attribute(rng, any),
            11 => FsAction::Sync,
            12 => FsAction::Remount,
            14 => FsAction::Ask(any(rng)),
            15 => FsAction::Round,
            16 => FsAction::Peek(any(rng)),
            _ if rng.ratio(1, 4) => FsAction::Background(1 + rng.below(3) as u32),
            _ => FsAction::Clean(1 + rng.below(3) as u32),
        }
    }

    /// Files do not grow without end.
    fn append(&self, path: Path, len: u32) -> FsAction {
        match self.tree.size(path) {
            Some(size) if size > 2 * self.blocks * 4096 => FsAction::Truncate(path, len),
            _ => FsAction::Append(path, len),
        }
    }

    fn attribute(&self, rng: &mut Rng, any: impl Fn(&mut Rng) -> Path) -> FsAction {
        let (path, name) = (any(rng), rng.below(4) as u8);
        match rng.below(4) {
            0 => FsAction::Chmod(path, rng.below(0o1000) as u32),
            1 => FsAction::DropXattr(path, name),
            _ => FsAction::SetXattr(path, name, rng.below(700) as u32),
        }
    }
}
