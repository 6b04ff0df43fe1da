//! What a volume counts is what its device saw, what its events say, and what is on media.

use std::collections::BTreeMap;

use crate::tools::model::{Mix, Op, apply, draw, fresh, perform};
use crate::tools::now;
use block::{
    BlockDevice, Bytes, DeviceError, Op as Asked, RamDevice, Request, Rng, Sectors, Span, Time,
};
use varve_lfs::fs::{Cleaning, Durable, Event, Scj, Stats};
use varve_lfs::{Cause, Fs, FsError, FsOptions, MkfsOptions, SegNo, mkfs};

/// A device that counts for itself, and takes time.
struct Counted {
    below: RamDevice,
    blocks: u64,
    flushes: u64,
}

impl BlockDevice for Counted {
    fn capacity(&self) -> Sectors {
        self.below.capacity()
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        match request.op {
            Asked::Write => self.blocks += request.sectors.0 / 8,
            Asked::Flush => self.flushes += 1,
            Asked::Read | Asked::Discard => {}
        }
        Ok(self.below.submit(at, request)? + Span::from_us(7))
    }
}

/// A volume that is worked on.
struct Work {
    fs: Fs<Counted>,
    tree: crate::tools::model::Tree,
    rng: Rng,
    clock: u64,
    /// Bytes that were written; and whether some write met the end of the space.
    written: u64,
    full: bool,
}

const MIX: Mix = Mix { write: 66, fsync: 8, clean: 0, sync: 1, blocks: 40, names: 24 };

impl Work {
    fn new(seed: u64, cleaning: Cleaning) -> Work {
        let format = MkfsOptions { log_blocks_per_seg: 4, ..MkfsOptions::new([3; 16], 9) };
        let device = mkfs(RamDevice::new(Sectors(1_500 * 8)), &format, now(0)).unwrap().0;
        let device = Counted { below: device, blocks: 0, flushes: 0 };
        let options = FsOptions { dirty: 24, cleaning, ..FsOptions::default() };
        let fs = Fs::mount(device, options, now(1)).unwrap();
        let (tree, rng) = (fresh(), Rng::new(seed));
        Work { fs, tree, rng, clock: 1, written: 0, full: false }
    }

    fn steps(&mut self, count: u64) {
        for _ in 0..count {
            let op = draw(&mut self.rng, &self.tree, MIX);
            self.clock += 1;
            match perform(&mut self.fs, now(self.clock), &op) {
                Err(FsError::NoSpace) => self.full |= matches!(op, Op::Write(..)),
                real => {
                    let done = apply(&mut self.tree, &op, real.as_ref().ok().copied().flatten());
                    if let (Op::Write(_, _, data), Ok(())) = (&op, done) {
                        self.written += data.len() as u64;
                    }
                }
            }
        }
        self.clock += 1;
        self.fs.sync(now(self.clock)).unwrap();
    }
}

fn all() -> impl Iterator<Item = Work> {
    let scj = Cleaning::Scj(Scj { slots: 24, threshold: Some(160), count_needed: true, batch: 2 });
    let each = [Cleaning::Bl415, Cleaning::Bl6, scj].into_iter().enumerate();
    each.map(|(seed, cleaning)| {
        let mut work = Work::new(seed as u64, cleaning);
        work.steps(400);
        work
    })
}

#[test]
fn what_was_written_is_what_the_device_saw() {
    let mut roomy = 0;
    for work in all() {
        let (stats, device) = (work.fs.stats(), work.fs.device());
        assert_eq!((stats.all_written(), stats.flushes), (device.blocks, device.flushes));
        if !work.full {
            roomy += 1;
            assert_eq!(stats.app, [Bytes(work.written), Bytes(0)]);
        }
        let named: BTreeMap<_, _> = stats.named().into_iter().collect();
        assert_eq!(named.len(), stats.named().len(), "two counts have one name");
        let logged = [Cause::Data, Cause::Dentry, Cause::Node, Cause::MovedData, Cause::MovedNode];
        assert_eq!(named["LFS blocks"], logged.map(|cause| stats.of(cause)).iter().sum());
        let apart = stats.of(Cause::Super) + stats.of(Cause::Journal);
        let bytes = ["data", "node", "meta", "gc data", "gc node", "cp data", "cp node", "cp meta"];
        let bytes: u64 = bytes.iter().map(|name| named[format!("fs {name}").as_str()]).sum();
        assert_eq!(bytes, (stats.all_written() - apart) * 4096);
        assert!(named["fs cp meta"] >= named["cp blocks"] * 4096, "packs are parts of checkpoints");
    }
    assert!(roomy > 0);
}

#[test]
fn what_was_read_is_counted() {
    let mut work = all().next().unwrap();
    let ino = work.fs.create(
        now(9_000),
        varve_lfs::Nid::ROOT,
        b"read",
        varve_lfs::format::FileType::File,
        crate::tools::model::NEW,
        (0, 0),
    );
    let ino = ino.unwrap();
    work.fs.write(now(9_001), ino, Bytes(0), &[5; 5000]).unwrap();
    let before = work.fs.stats();
    let mut out = vec![0; 8192];
    assert_eq!(work.fs.read(now(9_002), ino, Bytes(100), &mut out), Ok(4900));
    let since = work.fs.stats().since(&before);
    assert_eq!(since.app, [Bytes(0), Bytes(4900)]);
}

#[test]
fn the_counts_are_those_of_the_events() {
    for mut work in all() {
        let stats = work.fs.stats();
        let (mut cleaned, mut copied, mut early, mut checkpoints) = (0, 0, 0, 0);
        let (mut cleaning, mut checkpoint) = (stats.cleaning.wait, Span::ZERO);
        for event in work.fs.take_events() {
            match event {
                Event::Cleaned { copied: blocks, pre_invalid, time, .. } => {
                    cleaned += 1;
                    copied += u64::from(blocks);
                    early += u64::from(pre_invalid);
                    cleaning += time.total();
                }
                Event::Checkpoint { time, .. } => {
                    checkpoints += 1;
                    checkpoint += time.total();
                }
            }
        }
        assert_eq!(stats.events_forgotten, 0);
        assert!(work.fs.take_events().is_empty(), "each is told once");
        assert_eq!(stats.gc_segments.iter().sum::<u64>(), cleaned);
        assert!(stats.gc_segments.iter().all(|n| *n > 0), "{:?}", stats.gc_segments);
        assert_eq!(stats.moved, [copied, early]);
        assert_eq!((stats.cp_calls, stats.triggers.values().sum()), (checkpoints, checkpoints));
        assert_eq!((stats.cleaning.total(), stats.checkpoint.total()), (cleaning, checkpoint));
        assert!(cleaning > Span::ZERO && checkpoint > Span::ZERO);
    }
}

/// Segments full and partly valid, and by log: full, partly valid, valid blocks.
type Seen = ([u64; 2], BTreeMap<u8, [u64; 3]>);

#[test]
fn segments_are_as_the_media_have_them() {
    let mut peak = 0;
    for work in all() {
        let stats = work.fs.stats();
        let mut durable = Durable::open(work.fs.device().below.clone()).unwrap();
        let (per_seg, segments) = (durable.layout().per_seg, durable.layout().main_segs);
        let (mut seen, mut partly): (Seen, u64) = Default::default();
        for seg in 0..segments {
            let entry = durable.sit(SegNo(seg)).unwrap().0;
            let (valid, full) = (u64::from(entry.valid), u32::from(entry.valid) == per_seg);
            if valid > 0 {
                let log = seen.1.entry(entry.kind).or_default();
                seen.0[usize::from(!full)] += 1;
                log[usize::from(!full)] += 1;
                log[2] += valid;
                partly += if full { 0 } else { valid };
            }
        }
        let logs = (0..)
            .zip(&stats.logs)
            .map(|(kind, log)| (kind, [log.full_seg, log.dirty_seg, log.valid_blk]));
        let logs: BTreeMap<u8, [u64; 3]> = logs.filter(|(_, counts)| counts[2] > 0).collect();
        let [full, dirty, waiting, free] = stats.segments;
        assert_eq!(([full, dirty], logs), seen);
        assert_eq!(stats.avg_vblocks, partly / dirty);
        assert_eq!(waiting, 0, "a checkpoint was just made");
        let heads = u64::from(segments) - full - dirty - free;
        assert!(heads <= 6, "{heads} segments are heads without valid blocks");
        let checkpoint = durable.checkpoint();
        assert_eq!(stats.utilization, checkpoint.valid_blocks * 100 / checkpoint.user_blocks);
        assert_eq!(stats.pre_invalid[0], 0);
        peak = peak.max(stats.pre_invalid[1]);
    }
    assert!(peak > 0, "with a journal blocks are pre-invalid for a while");
}

#[test]
fn a_difference_is_what_happened_between() {
    let flows = |stats: &Stats| {
        let mut flows: Vec<u64> = stats.written.iter().flatten().copied().collect();
        flows.extend([stats.cp_calls, stats.flushes, stats.app[0].0, stats.app[1].0]);
        flows.extend(
            stats.gc_segments.iter().chain(&stats.moved).chain(&stats.ahead).chain(&stats.journal),
        );
        flows.extend([stats.cleaning.total().as_ps(), stats.checkpoint.total().as_ps()]);
        flows
    };
    for mut work in all() {
        let before = work.fs.stats();
        work.steps(100);
        let after = work.fs.stats();
        let since = after.since(&before);
        let sums: Vec<u64> =
            flows(&since).iter().zip(flows(&before)).map(|(new, old)| new + old).collect();
        assert_eq!(sums, flows(&after));
        for (trigger, count) in &after.triggers {
            let new = since.triggers.get(trigger).copied().unwrap_or(0);
            assert_eq!(new + before.triggers.get(trigger).copied().unwrap_or(0), *count);
        }
        assert_eq!((since.utilization, since.segments), (after.utilization, after.segments));
        assert_eq!(flows(&after.since(&after)), vec![0; flows(&after).len()]);
    }
}
