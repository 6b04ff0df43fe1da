//! What a plan of a file system says: the volume, how it is mounted, and what it holds at first.

use std::cell::OnceCell;

use block::{
    Bytes, CutDevice, DeviceError, Plant, SECTOR_BYTES, Sectors, Span, UNIT_BYTES, parse_switch,
};
use lfs::fs::{Bug, Cleaning, Scj, Victim};
use lfs::{Fs, FsError, FsOptions, MkfsOptions, mkfs};

use super::model::Tree;
use super::oracle::perform;
use super::step::{FsAction, Path};
use super::subject::moment;
use crate::plan::{Plan, PlanError};
use crate::shared::{Remains, SharedDisk};
use crate::stack::StackSpec;

/// What a volume is built from.
#[derive(Clone, Debug)]
pub struct FsSpec {
    /// How it is mounted at first.
    pub options: FsOptions,
    /// How it is mounted after a cut.
    pub recover: FsOptions,
    /// The whole volume is checked after one in so many steps.
    pub(super) check_every: u32,
    /// What the disk keeps whole.
    atomic: Bytes,
    answers: Answers,
    /// Nobody waits for the device while he has the volume; the seed of who has it then.
    pub(super) turns: Option<u64>,
    /// From the end of a step to the next.
    pub(super) pause: Span,
    volume: Volume,
    start: Tree,
    image: OnceCell<Remains>,
    /// What the volume lies on, if not on a disk.
    stack: Option<StackSpec>,
}

/// The volume before the run.
#[derive(Clone, Copy, Debug)]
struct Volume {
    blocks: u64,
    /// Log2 of the blocks of a segment.
    per_seg: u32,
    gap: u32,
    /// It holds a few files of a few blocks.
    tree: bool,
    /// Percent of the room for users that files take beside them.
    fill: u32,
}

/// How a disk answers.
#[derive(Clone, Copy, Default, Debug)]
struct Answers {
    read: Span,
    /// At least: writes take up to four times this.
    write: Span,
    flush: Span,
    /// Forced writes take this longer.
    forced: Span,
    /// A flush covers only what was answered.
    strict: bool,
}

/// A span of a key, in microseconds.
fn micros(text: &str) -> Result<Span, String> {
    let found = text.parse().ok().filter(|us| *us <= 1_000_000);
    found.map(Span::from_us).ok_or_else(|| "microseconds, a second at most".to_string())
}

/// A number of a key.
fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "a whole number".to_string())
}

fn cleaning(text: &str, scj: Scj) -> Result<Cleaning, String> {
    match text {
        "bl415" => Ok(Cleaning::Bl415),
        "bl6" => Ok(Cleaning::Bl6),
        "scj" => Ok(Cleaning::Scj(scj)),
        _ => Err("bl415, bl6 or scj".to_string()),
    }
}

impl FsSpec {
    /// The volume of a plan.
    ///
    /// # Errors
    /// If its configuration makes none.
    pub fn of(plan: &Plan) -> Result<FsSpec, PlanError> {
        let mut spec = FsSpec {
            options: FsOptions { cached_nodes: 256, ..FsOptions::default() },
            recover: FsOptions::default(),
            check_every: 1,
            atomic: Bytes(UNIT_BYTES),
            answers: Answers::default(),
            turns: None,
            pause: Span::from_us(1),
            volume: Volume { blocks: 1_000, per_seg: 4, gap: 64, tree: false, fill: 0 },
            start: Tree::default(),
            image: OnceCell::new(),
            stack: None,
        };
        let mut scj = Scj { slots: 24, threshold: Some(160), count_needed: true, batch: 1 };
        let (mut mode, mut after) = ("bl6", None);
        for (key, text) in &plan.config {
            let name = key.strip_prefix("lfs.");
            match name {
                Some("cleaning") => mode = text,
                Some("recover") => after = Some(text),
                _ => {}
            }
            let set = match name {
                Some("cleaning" | "recover") => Ok(()),
                Some("slots") => number(text).map(|n| scj.slots = n),
                Some("batch") => number(text).map(|n| scj.batch = n),
                Some("threshold") => number(text).map(|n| scj.threshold = Some(n)),
                Some(name) => spec.set(name, text, &mut scj),
                None => Err("a key of lfs".to_string()),
            };
            set.map_err(|e| PlanError::Config(format!("`{key} = {text}`: expected {e}")))?;
        }
        let mode_of = |key: &str, text: &str| {
            let bad = |e| PlanError::Config(format!("`{key} = {text}`: expected {e}"));
            cleaning(text, scj).map_err(bad)
        };
        spec.options.cleaning = mode_of("lfs.cleaning", mode)?;
        spec.options.bug = crate::planted::of(plan, Bug::ALL, "the file system")?;
        spec.recover = spec.options;
        if let Some(text) = after {
            spec.recover.cleaning = mode_of("lfs.recover", text)?;
            if spec.recover.cleaning == Cleaning::Bl415 {
                spec.recover.ahead = 0;
            }
        }
        // What the journal's records need.
        let unit = 1 << spec.volume.per_seg;
        spec.volume.gap = (64 + 2 * scj.slots).next_multiple_of(unit);
        spec.prepare().map_err(|e| PlanError::Config(format!("no volume: {e}")))?;
        Ok(spec)
    }

    /// The volume on a stack, as its `lfs(..)` says: a few files, a fifth of the room taken.
    ///
    /// # Errors
    /// The stack has no room for a volume, or none for what is to lie on it.
    pub(crate) fn over(stack: StackSpec, options: FsOptions) -> Result<FsSpec, PlanError> {
        let slots = if let Cleaning::Scj(scj) = options.cleaning { scj.slots } else { 0 };
        let (per_seg, blocks) = (4, u64::from(stack.pages()));
        let gap = (64 + 2 * slots).next_multiple_of(1 << per_seg);
        let mut spec = FsSpec {
            options,
            recover: options,
            check_every: 1,
            atomic: Bytes(UNIT_BYTES),
            answers: Answers::default(),
            turns: None,
            pause: Span::from_us(1),
            volume: Volume { blocks, per_seg, gap, tree: true, fill: 20 },
            start: Tree::default(),
            image: OnceCell::new(),
            stack: Some(stack),
        };
        spec.prepare().map_err(|e| PlanError::Config(format!("no volume: {e}")))?;
        Ok(spec)
    }

    fn set(&mut self, name: &str, text: &str, scj: &mut Scj) -> Result<(), String> {
        let (volume, options) = (&mut self.volume, &mut self.options);
        match name {
            "blocks" => volume.blocks = number(text)?,
            "segment" => {
                let blocks: u32 = number(text)?;
                let fits = blocks.is_power_of_two() && (4..=512).contains(&blocks);
                volume.per_seg = fits.then_some(blocks).ok_or("4 to 512 blocks")?.ilog2();
            }
            "atomic" => {
                self.atomic = match text {
                    "512" => Bytes(SECTOR_BYTES),
                    "4096" => Bytes(UNIT_BYTES),
                    _ => return Err("512 or 4096".to_string()),
                }
            }
            "tree" => volume.tree = parse_switch(text).map_err(|e| e.expected)?,
            "fill" => volume.fill = number(text)?,
            "count" => {
                scj.count_needed = match text {
                    "needed" => true,
                    "valid" => false,
                    _ => return Err("needed or valid".to_string()),
                }
            }
            "gc.victim" => {
                options.victim = match text {
                    "greedy" => Victim::Greedy,
                    "cost-benefit" => Victim::CostBenefit,
                    _ => return Err("greedy or cost-benefit".to_string()),
                }
            }
            "ahead" => options.ahead = number(text)?,
            "depth" => options.depth = number(text)?,
            "read" => self.answers.read = micros(text)?,
            "write" => self.answers.write = micros(text)?,
            "flush" => self.answers.flush = micros(text)?,
            "forced" => self.answers.forced = micros(text)?,
            "strict" => self.answers.strict = parse_switch(text).map_err(|e| e.expected)?,
            "turns" => self.turns = Some(number(text)?),
            "pause" => self.pause = micros(text)?,
            "dirty" => options.dirty = number(text)?,
            "prefree" => options.prefree = number(text)?,
            "cached" => options.cached_nodes = number(text)?,
            "threaded" => options.threaded = parse_switch(text).map_err(|e| e.expected)?,
            "discard" => options.discard = parse_switch(text).map_err(|e| e.expected)?,
            "check" => self.check_every = number::<u32>(text)?.max(1),
            _ => {
                return Err(
                    "one of cleaning, recover, atomic, blocks, segment, tree, fill, slots, threshold, \
                     batch, count, gc.victim, ahead, depth, dirty, prefree, cached, threaded, discard, \
                     check, read, write, flush, forced, strict, pause, turns"
                        .to_string(),
                );
            }
        }
        Ok(())
    }

    /// Makes the volume and what it holds at first.
    fn prepare(&mut self) -> Result<(), FsError> {
        let volume = self.volume;
        let options = MkfsOptions {
            log_blocks_per_seg: volume.per_seg,
            gap: volume.gap,
            ..MkfsOptions::new([9; 16], 1_000)
        };
        let disk = match &self.stack {
            Some(stack) => stack.fresh().map_err(DeviceError::Io)?,
            None => {
                let disk = CutDevice::new(Sectors(volume.blocks * 8));
                SharedDisk::new(disk.with_atomic_unit(self.atomic))
            }
        };
        let (disk, _) = mkfs(disk, &options, moment(1))?;
        let mut fs = Fs::mount(disk, FsOptions::default(), moment(1))?;
        let usage = fs.usage(moment(1))?;
        let mut steps = if volume.tree { few_files() } else { Vec::new() };
        let share = (usage.blocks - usage.used_blocks) * u64::from(volume.fill) / 100;
        steps.extend(filling(share));
        for (action, version) in steps.into_iter().zip(1..) {
            match perform(&mut fs, moment(1), action, version) {
                Ok(()) => {}
                Err(FsError::NoSpace) => break,
                Err(error) => return Err(error),
            }
            let applied = self.start.apply(action, version);
            applied.map_err(|_| FsError::Invalid("what a volume holds at first"))?;
        }
        let disk = fs.unmount(moment(1))?;
        disk.get().stop()?;
        let image = disk.get().image().map_err(|failure| DeviceError::Io(failure.what))?;
        self.image = OnceCell::from(image);
        // Every option must be one that a volume can be mounted with.
        for options in [self.options, self.recover] {
            Fs::mount(
                self.power_on(self.image()).map_err(DeviceError::Io)?,
                FsOptions { bug: Plant::default(), ..options },
                moment(2),
            )?;
        }
        Ok(())
    }

    /// The disk of an image, as it answers.
    pub(super) fn power_on(&self, image: Remains) -> Result<SharedDisk, String> {
        if let Some(stack) = &self.stack {
            return stack.again(image);
        }
        let Answers { read, write, flush, forced, strict } = self.answers;
        let disk = CutDevice::power_on(image.disk())
            .with_atomic_unit(self.atomic)
            .with_slow_reads(read)
            .with_latency(write, flush)
            .with_slow_forced_writes(forced)
            .strict(strict);
        Ok(SharedDisk::new(disk))
    }

    /// The volume before the run.
    pub(super) fn image(&self) -> Remains {
        self.image.get().expect("it was prepared").clone()
    }

    /// What it holds.
    pub(crate) fn start(&self) -> &Tree {
        &self.start
    }
}

/// A small tree: files with data, a hole, an attribute; a directory with a file.
fn few_files() -> Vec<FsAction> {
    let (a, c, d) = (Path::ROOT.join(1), Path::ROOT.join(3), Path::ROOT.join(4));
    vec![
        FsAction::Create(a),
        FsAction::Write(a, 0, 10_000),
        FsAction::SetXattr(a, 1, 40),
        FsAction::Create(c),
        FsAction::Write(c, 20_000, 5_000),
        FsAction::Mkdir(d),
        FsAction::Create(d.join(3)),
        FsAction::Write(d.join(3), 0, 4_096),
    ]
}

/// Files that take so many blocks.
fn filling(blocks: u64) -> Vec<FsAction> {
    let mut steps = Vec::new();
    let each = (blocks / 24).clamp(1, 24);
    let mut left = blocks;
    for dir in [12, 13].map(|name| Path::ROOT.join(name)) {
        if left > 0 {
            steps.push(FsAction::Mkdir(dir));
        }
        for name in 1..=13 {
            if left == 0 {
                break;
            }
            let size = each.min(left);
            left -= size;
            steps.push(FsAction::Create(dir.join(name)));
            steps.push(FsAction::Write(dir.join(name), 0, (size * 4096) as u32));
        }
    }
    steps
}
