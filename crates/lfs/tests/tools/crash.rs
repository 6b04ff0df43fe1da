//! Work on a disk whose power can be cut, and what must be there after each cut.
#![allow(dead_code)]

use block::{
    BlockDevice, Bytes, CutDevice, DiskCut, DiskImage, Fate, Rng, SECTOR_BYTES, Sectors, Span,
    UNIT_BYTES,
};
use varve_lfs::fs::{CleaningCounts, Trigger};
use varve_lfs::{Fs, FsError, FsOptions, MkfsOptions, Nid, mkfs};

use super::model::{
    Body, Mix, Op, Tree, apply, difference, draw, entries, fresh, perform, read_tree,
};
use super::now;

/// What is run.
#[derive(Clone, Copy)]
pub struct Plan {
    pub seed: u64,
    /// Segments have so many blocks: log2.
    pub per_seg: u32,
    pub blocks: u64,
    pub options: FsOptions,
    pub mix: Mix,
    pub steps: u64,
    /// The device keeps sectors whole, and no more.
    pub torn: bool,
    /// Reads take so many microseconds on a device that answers late and in another order, and whose
    /// flushes cover only what was answered; 0: one that answers at once.
    pub slow: u64,
}

impl Plan {
    fn power_on(&self, image: DiskImage) -> CutDevice {
        let unit = if self.torn { SECTOR_BYTES } else { UNIT_BYTES };
        let device = CutDevice::power_on(image).with_atomic_unit(Bytes(unit));
        if self.slow == 0 {
            return device;
        }
        // Forced writes slower than flushes, so that records of two writes can overtake each other.
        device
            .with_latency(Span::from_us(3), Span::from_us(5))
            .with_slow_reads(Span::from_us(self.slow))
            .with_slow_forced_writes(Span::from_us(40))
            .strict(true)
    }
}

/// What may be found after a cut within operations of the device `from..`.
struct Epoch {
    from: u64,
    allowed: Vec<Tree>,
    what: String,
}

/// A run that is over.
pub struct Run {
    pub plan: Plan,
    pub device: CutDevice,
    epochs: Vec<Epoch>,
    pub checkpoints: u64,
    pub cleaned: CleaningCounts,
    /// Segments that logs were threaded through.
    pub threaded: u64,
}

/// The state that recovery must bring back, with one file as fsync has just made it durable.
fn overlay(durable: &Tree, now: &Tree, ino: Nid) -> Tree {
    let mut tree = durable.clone();
    let known = tree.insert(ino, now[&ino].clone()).is_some();
    if known {
        return tree;
    }
    for (dir, node) in now {
        let Body::Dir(names) = &node.body else { continue };
        for name in names.iter().filter(|(_, named)| **named == ino).map(|(name, _)| name) {
            let old = entries(&tree, *dir).get(name).copied();
            if old.is_some() {
                apply(&mut tree, &Op::Unlink(*dir, name.clone()), None).unwrap();
            }
            let Body::Dir(names) = &mut tree.get_mut(dir).unwrap().body else { panic!() };
            names.insert(name.clone(), ino);
        }
    }
    tree
}

fn count<D: BlockDevice>(fs: &Fs<D>) -> u64 {
    fs.checkpoints().values().sum()
}

/// An empty volume.
pub fn volume(plan: &Plan) -> DiskImage {
    let device = CutDevice::new(Sectors(plan.blocks * 8));
    let options =
        MkfsOptions { log_blocks_per_seg: plan.per_seg, ..MkfsOptions::new([9; 16], 1_000) };
    mkfs(device, &options, now(0)).unwrap().0.image()
}

/// Works from an image on; `tree` is what it holds, `clock` goes on.
pub fn work(plan: Plan, image: DiskImage, tree: &mut Tree, clock: &mut u64, rng: &mut Rng) -> Run {
    let mut fs = Fs::mount(plan.power_on(image), plan.options, now(*clock)).unwrap();
    let mut durable = tree.clone();
    let mut epochs = vec![Epoch { from: 0, allowed: vec![tree.clone()], what: "the mount".into() }];
    for step in 0..plan.steps {
        let op = draw(rng, tree, plan.mix);
        *clock += 1;
        let (from, before) = (fs.device().ops(), count(&fs));
        let adaptive = |fs: &Fs<_>| fs.checkpoints().get(&Trigger::PreInvalid).copied();
        let adapted = adaptive(&fs);
        let real = perform(&mut fs, now(*clock), &op);
        let mut allowed = vec![durable.clone(), tree.clone()];
        if count(&fs) > before {
            durable = tree.clone();
        }
        if real != Err(FsError::NoSpace) {
            let model = apply(tree, &op, real.as_ref().ok().copied().flatten());
            let real = real.map(|_| ());
            assert_eq!(real, model, "seed {}, step {step}: {op:?}", plan.seed);
            if let Op::Fsync(ino) = op {
                durable = overlay(&durable, tree, ino);
            }
        }
        if adaptive(&fs) != adapted {
            // The one that comes after the operation.
            durable = tree.clone();
        }
        allowed.push(durable.clone());
        let what = format!("step {step}: {}", short(&op));
        epochs.push(Epoch { from, allowed, what });
    }
    epochs.push(Epoch { from: fs.device().ops(), allowed: vec![durable], what: "the end".into() });
    fs.check(now(*clock)).unwrap();
    let checkpoints = count(&fs);
    let (cleaned, threaded) = (fs.cleaning(), fs.threaded());
    let device = fs.device().clone();
    Run { plan, device, epochs, checkpoints, cleaned, threaded }
}

fn short(op: &Op) -> String {
    let mut text = format!("{op:?}");
    text.truncate(120);
    text
}

impl Run {
    /// What is wrong after a cut; and what was found.
    pub fn judge(&self, cut: &DiskCut) -> Result<(Fs<CutDevice>, Tree), String> {
        let Some((image, _)) = self.device.image_at_cut(cut) else {
            return Err(format!("operation {} was not come to", cut.op));
        };
        self.judge_image(image, cut.op)
    }

    /// What is wrong with an image that a cut at an operation left.
    pub fn judge_image(&self, image: DiskImage, op: u64) -> Result<(Fs<CutDevice>, Tree), String> {
        let i = self.epochs.partition_point(|epoch| epoch.from <= op) - 1;
        // Operations that took no device operation share one place.
        let from = self.epochs[i].from;
        let same = self
            .epochs
            .iter()
            .filter(|epoch| epoch.from == from || epoch.what == self.epochs[i].what);
        let what = &self.epochs[i].what;
        let mut fs = Fs::mount(self.plan.power_on(image), self.plan.options, now(1 << 30))
            .map_err(|e| format!("{what}: mount: {e}"))?;
        let found = read_tree(&mut fs, now(1 << 30)).map_err(|e| format!("{what}: read: {e}"))?;
        let mut wrong = Vec::new();
        for tree in same.flat_map(|epoch| &epoch.allowed) {
            match difference(&found, tree) {
                None => {
                    wrong.clear();
                    break;
                }
                Some(text) => wrong.push(text),
            }
        }
        if !wrong.is_empty() {
            wrong.dedup();
            return Err(format!("{what}: {}", wrong.join("; or ")));
        }
        fs.check(now(1 << 30)).map_err(|e| format!("{what}: check: {e}"))?;
        Ok((fs, found))
    }

    /// The fates that a cut at an operation is tried with.
    pub fn cuts(&self, op: u64) -> [DiskCut; 3] {
        let kept = if self.plan.torn { Fate::Sectors } else { Fate::Blocks };
        let blocks = |n: u64| kept(self.plan.seed ^ op << 8 ^ n);
        [
            DiskCut { op, inside: false, torn: Fate::Old, rest: Fate::Old },
            DiskCut { op, inside: true, torn: blocks(1), rest: blocks(2) },
            DiskCut { op, inside: true, torn: Fate::New, rest: blocks(3) },
        ]
    }
}

/// Runs a plan and cuts it at every `stride`th operation; the first thing that is wrong.
pub fn first_wrong(plan: Plan, stride: u64) -> Option<String> {
    let (mut tree, mut clock, mut rng) = (fresh(), 1, Rng::new(plan.seed));
    let run = work(plan, volume(&plan), &mut tree, &mut clock, &mut rng);
    let from = rng.below(stride);
    (from..run.device.ops()).step_by(stride as usize).find_map(|op| {
        run.cuts(op).iter().find_map(|cut| {
            let wrong = run.judge(cut).err()?;
            Some(format!("seed {}, {cut:?}: {wrong}", plan.seed))
        })
    })
}

/// The same, and after each cut the work goes on, and is cut at every `again`th operation, those of the mount first: what
/// a recovery has written by then may have nothing that the next one needs, and what it left must be worked on.
pub fn first_wrong_twice(plan: Plan, stride: u64, again: u64) -> Option<String> {
    let (mut tree, mut clock, mut rng) = (fresh(), 1, Rng::new(plan.seed));
    let run = work(plan, volume(&plan), &mut tree, &mut clock, &mut rng);
    let from = rng.below(stride);
    (from..run.device.ops()).step_by(stride as usize).find_map(|op| {
        let first = &run.cuts(op)[op as usize % 3];
        let (image, _) = run.device.image_at_cut(first)?;
        let told = |wrong| Some(format!("seed {}, {first:?}{wrong}", plan.seed));
        let (mut found, mut clock) = match run.judge_image(image.clone(), op) {
            Ok((_, found)) => (found, 1 << 31),
            Err(wrong) => return told(format!(": {wrong}")),
        };
        let mut rng = Rng::new(plan.seed ^ op);
        let next = work(Plan { steps: 60, ..plan }, image, &mut found, &mut clock, &mut rng);
        let from = rng.below(again);
        (from..next.device.ops()).step_by(again as usize).find_map(|op| {
            let second = &next.cuts(op)[op as usize % 3];
            told(format!(", then {second:?}: {}", next.judge(second).err()?))
        })
    })
}
