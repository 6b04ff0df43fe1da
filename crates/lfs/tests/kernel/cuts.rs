//! Power cuts of crowded volumes that are cleaned all the time, ahead of need or not, as `fsck.f2fs` and a
//! kernel find them. Where a checkpoint lets go what was cleaned, media are plain F2FS at every instant: both take the
//! image that the cut left. With a journal both refuse that, and take what recovery here made of it.
//!
//! **A limit of the checker** (1.15; told by what it says of images whose pointers are changed one by one): before
//! it looks at anything it follows the fsyncs behind the checkpoint, and stops with "record_fsync_data failed" as
//! soon as one of them names a block in the last segments of the main area, as many as there are segments before
//! that area: it numbers segments from segment 0 and takes the count of those of the main area for the limit.
//! Which file system wrote them, and whether the volume was cleaned, does not matter; crowded small volumes get
//! there. So that complaint is expected there, nowhere else, and a kernel has to judge.

use block::{
    BlockDevice, CutDevice, Data, DiskCut, DiskImage, Fate, Lba, Request, Rng, Sectors, Time,
};
use varve_lfs::format::{BLOCK_BYTES, FileType, NodeBlock};
use varve_lfs::fs::{Cleaning, Durable, Scj};
use varve_lfs::{BlockAddr, Fs, FsOptions, Nid};

use super::manifest::of_volume;
use super::tools::crash::{Plan, Run, volume, work};
use super::tools::model::{Mix, Op, Tree, apply, fresh, perform};
use super::tools::{Image, now};

/// The smallest volume of the usual geometry: 52 MiB.
const BLOCKS: u64 = 13_312;
/// Bytes from an image to the next on the disk that the guest gets.
pub const STRIDE: u64 = BLOCKS * BLOCK_BYTES as u64;
/// What the checker says at its limit.
const LIMIT: &str = "record_fsync_data failed";

const CLEANING: Mix = Mix { write: 72, fsync: 12, sync: 0, clean: 6, blocks: 200, names: 40 };
/// Many fsyncs of few files: the chain is long.
const CHAINS: Mix = Mix { write: 56, fsync: 34, sync: 0, clean: 6, blocks: 100, names: 16 };

/// An image for the kernel, and what is to be on it.
pub struct Cut {
    pub image: Image,
    pub listed: Vec<String>,
    pub what: String,
}

/// What was made, and what of it the checker could not follow.
#[derive(Default, Debug)]
pub struct Sum {
    pub volumes: u64,
    pub cleaned: u64,
    pub ahead: u64,
    pub records: u64,
    /// Nodes of fsyncs that the cuts left behind their checkpoints.
    pub chained: u64,
    /// Images at the checker's limit.
    pub beyond: u64,
}

fn journals(seed: u64) -> bool {
    !seed.is_multiple_of(2)
}

fn plan(seed: u64) -> Plan {
    let mut rng = Rng::stream(seed, "kernel/cuts");
    let scj = Scj { slots: 64, threshold: Some(1_000), count_needed: true, batch: 1 };
    let cleaning = if journals(seed) { Cleaning::Scj(scj) } else { Cleaning::Bl6 };
    let options = FsOptions {
        cleaning,
        ahead: *rng.pick(&[0, 1, 3, 8]),
        depth: 1 + rng.below(4) as u32,
        dirty: *rng.pick(&[24, 100, 4_096]),
        ..FsOptions::default()
    };
    let mix = *rng.pick(&[CLEANING, CLEANING, CHAINS]);
    let slow = *rng.pick(&[0, 40]);
    Plan { seed, per_seg: 9, blocks: BLOCKS, options, mix, steps: 600, torn: false, slow }
}

/// A volume that is nearly full of files of many sizes.
fn crowded(plan: &Plan, rng: &mut Rng) -> (DiskImage, Tree) {
    let device = CutDevice::power_on(volume(plan));
    let mut fs = Fs::mount(device, plan.options, now(1)).unwrap();
    let mut tree = fresh();
    let percent = rng.between(70, 92);
    for n in 0_u64.. {
        let usage = fs.usage(now(2)).unwrap();
        if usage.used_blocks * 100 >= usage.blocks * percent {
            break;
        }
        let name = format!("taken-{n}").into_bytes();
        let create = Op::Create(Nid::ROOT, name, FileType::File);
        let ino = perform(&mut fs, now(2), &create).unwrap();
        apply(&mut tree, &create, ino).unwrap();
        let len = rng.between(1, 120) as usize * BLOCK_BYTES;
        let write = Op::Write(ino.unwrap(), 0, vec![n as u8 + 1; len]);
        perform(&mut fs, now(2), &write).unwrap();
        apply(&mut tree, &write, None).unwrap();
    }
    let device = fs.unmount(now(3)).unwrap();
    (device.image(), tree)
}

fn run(seed: u64) -> Run {
    let plan = plan(seed);
    let mut rng = Rng::stream(seed, "kernel/crowded");
    let (image, mut tree) = crowded(&plan, &mut rng);
    work(plan, image, &mut tree, &mut 10, &mut rng)
}

/// Nodes in the log of the chain behind the durable checkpoint, and whether one of them is, or names, what is
/// beyond the checker's limit.
fn chain(image: &DiskImage) -> (u64, bool) {
    let mut device = CutDevice::power_on(image.clone());
    let durable = Durable::open(CutDevice::power_on(image.clone())).unwrap();
    let (layout, checkpoint) = (*durable.layout(), durable.checkpoint());
    let before =
        layout.block(varve_lfs::SegNo(0), 0).0 / layout.per_seg - layout.gap() / layout.per_seg;
    let beyond = |addr: BlockAddr| {
        layout.place(addr).is_some_and(|(seg, _)| seg.0 + before >= layout.main_segs)
    };
    let heads = &checkpoint.node_heads;
    let mut at = layout.block(heads.segments[1], u32::from(heads.offsets[1]));
    let (mut nodes, mut past) = (0, false);
    while layout.place(at).is_some() && nodes < layout.main_blocks() {
        let mut block = [0; BLOCK_BYTES];
        let read = Request::read(Lba(u64::from(at.0) * 8), Sectors(8)).with(Data::Read(&mut block));
        device.submit(Time::LIMIT, read).unwrap();
        let node = NodeBlock(Box::new(block));
        if node.written_after() as u32 != checkpoint.version as u32 {
            break;
        }
        past |= beyond(at) || node.words(0).any(|word| beyond(BlockAddr(word)));
        (nodes, at) = (nodes + 1, node.next());
    }
    (nodes, past)
}

/// The image that a cut left (with a journal: what recovery made of it), judged by `fsck.f2fs`.
fn judge(run: &Run, cut: &DiskCut, sum: &mut Sum) -> Cut {
    let what = format!("seed {}, {:?}, {cut:?}", run.plan.seed, run.plan.options.cleaning);
    let (image, _) = run.device.image_at_cut(cut).unwrap();
    let found = run.judge_image(image.clone(), cut.op);
    let (mut fs, _) = found.unwrap_or_else(|wrong| panic!("{what}: {wrong}"));
    let listed = of_volume(&mut fs, now(1 << 30)).unwrap();
    let mut expected = false;
    let image = if journals(run.plan.seed) {
        Image::of(&mut fs.unmount(now(1 << 30)).unwrap())
    } else {
        let (nodes, past) = chain(&image);
        sum.chained += nodes;
        expected = past;
        Image::of(&mut CutDevice::power_on(image))
    };
    let complaints = image.complaints();
    let limit = complaints.iter().all(|text| text.contains(LIMIT));
    assert!(complaints.is_empty() || expected && limit, "{what}: {complaints:?}");
    sum.beyond += u64::from(!complaints.is_empty());
    Cut { image, listed, what }
}

/// A cut somewhere in a run: of a few, that with the longest chain behind its checkpoint.
fn drawn(run: &Run, rng: &mut Rng) -> DiskCut {
    let cuts = (0..5).map(|_| {
        let op = rng.below(run.device.ops());
        let rest = Fate::Blocks(rng.next_u64());
        match rng.below(3) {
            0 => DiskCut { op, inside: false, torn: Fate::Old, rest: Fate::Old },
            _ => DiskCut { op, inside: true, torn: Fate::Old, rest },
        }
    });
    let long = |cut: &DiskCut| match run.device.image_at_cut(cut) {
        Some((image, _)) if !journals(run.plan.seed) => chain(&image).0,
        _ => 0,
    };
    cuts.max_by_key(long).expect("one cut at least")
}

/// Makes the volume of a seed and cuts it: `fsck.f2fs` judges the image, and the kernel is to.
pub fn make(seed: u64, sum: &mut Sum) -> Cut {
    let run = run(seed);
    let mut rng = Rng::stream(seed, "kernel/places");
    sum.volumes += 1;
    sum.cleaned += run.cleaned.segments;
    sum.ahead += run.cleaned.ahead;
    sum.records += run.cleaned.records;
    let cut = drawn(&run, &mut rng);
    judge(&run, &cut, sum)
}

/// Images one behind the other, as one disk for the guest.
pub fn disk(cuts: &[Cut]) -> Image {
    use std::os::unix::fs::FileExt;
    let all = Image::new();
    let file = std::fs::File::create(all.path()).unwrap();
    file.set_len(STRIDE * cuts.len() as u64).unwrap();
    for (n, cut) in cuts.iter().enumerate() {
        let bytes = std::fs::read(cut.image.path()).unwrap();
        for (i, piece) in bytes.chunks(1 << 16).enumerate() {
            if piece.iter().any(|byte| *byte != 0) {
                file.write_all_at(piece, STRIDE * n as u64 + ((i as u64) << 16)).unwrap();
            }
        }
    }
    all
}

/// Lines as a kernel can tell them: it knows no attributes of users on anything but files and directories.
pub fn known(lines: &[String]) -> Vec<String> {
    let line = |line: &String| {
        let kind = line.split(' ').nth(1).and_then(|word| word.chars().next());
        let keeps = matches!(kind, Some('-' | 'd'));
        let words = line.split(' ').filter(|word| keeps || !word.starts_with("1."));
        words.collect::<Vec<&str>>().join(" ")
    };
    let mut all: Vec<String> = lines.iter().map(line).collect();
    all.sort();
    all
}
