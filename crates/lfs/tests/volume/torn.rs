//! Power cuts on a device that keeps sectors of 512 bytes whole, and no more.

use crate::tools::{Image, now};
use block::{Bytes, CutDevice, DiskCut, DiskImage, Fate, Sectors, UNIT_BYTES};
use varve_lfs::format::{FileType, NodeBlock};
use varve_lfs::fs::{Bug, Cleaning, Durable, NewInode, Scj};
use varve_lfs::{Fs, FsOptions, MkfsOptions, Nid, mkfs};

const NEW: NewInode = NewInode { permissions: 0o600, uid: 0, gid: 0 };
/// Blocks of the file; one of them is written over.
const BLOCKS: u64 = 600;
const CHANGED: u64 = 77;

fn content(block: u64, version: u8) -> Vec<u8> {
    vec![version ^ (block as u8).rotate_left(3) | 1; 4096]
}

/// A file that was synced, and of which one block was written over and synced: the device, the file, and
/// the first operation of the second fsync.
fn rewritten(options: FsOptions, unit: u64) -> (CutDevice, Nid, u64) {
    let device = CutDevice::new(Sectors(64 << 8 << 3)).with_atomic_unit(Bytes(unit));
    let device = mkfs(device, &MkfsOptions::new([3; 16], 1_000), now(0)).unwrap().0;
    let device = CutDevice::power_on(device.image()).with_atomic_unit(Bytes(unit));
    let mut fs = Fs::mount(device, options, now(1)).unwrap();
    let ino = fs.create(now(2), Nid::ROOT, b"file", FileType::File, NEW, (0, 0)).unwrap();
    for block in 0..BLOCKS {
        fs.write(now(3), ino, Bytes(block * UNIT_BYTES), &content(block, 1)).unwrap();
    }
    fs.fsync(now(4), ino).unwrap();
    fs.write(now(5), ino, Bytes(CHANGED * UNIT_BYTES), &content(CHANGED, 2)).unwrap();
    let from = fs.device().ops();
    fs.fsync(now(6), ino).unwrap();
    (fs.abandon(), ino, from)
}

/// What is wrong with what a cut left.
fn wrong(image: DiskImage, ino: Nid, options: FsOptions) -> Option<String> {
    let mut fs = match Fs::mount(CutDevice::power_on(image), options, now(7)) {
        Ok(fs) => fs,
        Err(error) => return Some(format!("mount: {error}")),
    };
    match fs.lookup(now(8), Nid::ROOT, b"file") {
        Ok(found) if found == ino => {}
        other => return Some(format!("the name: {other:?}")),
    }
    let found = fs.attributes(now(8), ino).unwrap();
    if (found.size.0, found.links, found.mode & 0o777) != (BLOCKS * UNIT_BYTES, 1, 0o600) {
        return Some(format!("attributes: {found:?}"));
    }
    let mut out = vec![0; 4096];
    let mut lost = 0;
    for block in 0..BLOCKS {
        fs.read(now(8), ino, Bytes(block * UNIT_BYTES), &mut out).unwrap();
        let new = block == CHANGED && out == content(block, 2);
        lost += u64::from(out != content(block, 1) && !new);
    }
    if lost > 0 {
        return Some(format!("{lost} acknowledged blocks are lost"));
    }
    fs.check(now(9)).err().map(|error| format!("check: {error}"))
}

fn scj() -> FsOptions {
    let scj = Scj { slots: 24, ..Scj::default() };
    FsOptions { cleaning: Cleaning::Scj(scj), ..FsOptions::default() }
}

/// How many of so many cuts inside the writes of the second fsync lose something, and what first.
fn cuts(options: FsOptions, count: u64) -> (u64, Option<String>) {
    let (device, ino, from) = rewritten(options, 512);
    let (mut lost, mut first) = (0, None);
    let ops = device.ops() - from;
    for seed in 0..count {
        let op = from + seed % ops;
        let (torn, rest) = (Fate::Sectors(seed), Fate::Sectors(seed ^ 0x5A5A));
        let cut = DiskCut { op, inside: true, torn, rest };
        let (image, _) = device.image_at_cut(&cut).unwrap();
        let recover = FsOptions { bug: options.bug, ..options };
        if let Some(what) = wrong(image, ino, recover) {
            lost += 1;
            first = first.or(Some(format!("{cut:?}: {what}")));
        }
    }
    (lost, first)
}

/// F2FS nodes carry no checksum: a node whose footer is new and whose pointers are not was taken for the
/// newest, and the good one given up.
#[test]
fn a_torn_node_costs_nothing_that_was_acknowledged() {
    for options in [FsOptions::default(), scj()] {
        let (lost, first) = cuts(options, 500);
        assert_eq!(lost, 0, "{first:?}");
    }
}

#[test]
fn without_a_look_at_seals_it_costs() {
    for options in [FsOptions::default(), scj()] {
        let (lost, _) = cuts(FsOptions { bug: Bug::SealUnchecked.into(), ..options }, 200);
        assert!(lost > 4, "{lost} of 200");
    }
}

#[test]
fn a_node_that_keeps_its_seal_is_lost() {
    let options = FsOptions { bug: Bug::SealKept.into(), ..FsOptions::default() };
    let (device, ino, _) = rewritten(options, 512);
    let mut fs = Fs::mount(CutDevice::power_on(device.image()), options, now(7)).unwrap();
    let mut out = vec![0; 4096];
    fs.read(now(8), ino, Bytes(CHANGED * UNIT_BYTES), &mut out).unwrap();
    assert_ne!(out, content(CHANGED, 2), "the second fsync was answered");
}

/// The first block of a file whose pointer is in a node of its own.
const FAR: u64 = 923;

/// How many cuts inside an fsync of two nodes leave one of both.
fn halves(options: FsOptions, count: u64) -> u64 {
    let device = CutDevice::new(Sectors(64 << 8 << 3));
    let device = mkfs(device, &MkfsOptions::new([3; 16], 1_000), now(0)).unwrap().0;
    let device = CutDevice::power_on(device.image());
    let mut fs = Fs::mount(device, options, now(1)).unwrap();
    let ino = fs.create(now(2), Nid::ROOT, b"file", FileType::File, NEW, (0, 0)).unwrap();
    let mut from = 0;
    for version in [1, 2] {
        for block in [0, FAR] {
            let data = content(block, version);
            fs.write(now(3), ino, Bytes(block * UNIT_BYTES), &data).unwrap();
        }
        from = fs.device().ops();
        fs.fsync(now(4), ino).unwrap();
    }
    let device = fs.abandon();
    let cut = |seed: u64| {
        let op = from + seed % (device.ops() - from);
        let fate = Fate::Sectors(seed);
        DiskCut { op, inside: true, torn: fate, rest: fate }
    };
    let is_half = |seed: &u64| {
        let (image, _) = device.image_at_cut(&cut(*seed)).unwrap();
        let mut fs = Fs::mount(CutDevice::power_on(image), options, now(5)).unwrap();
        let mut versions = [0, FAR].map(|block| {
            let mut out = vec![0; 4096];
            fs.read(now(6), ino, Bytes(block * UNIT_BYTES), &mut out).unwrap();
            (1..3).find(|version| out == content(block, *version)).unwrap_or(0)
        });
        versions.sort_unstable();
        versions != [1, 1] && versions != [2, 2]
    };
    (0..count).filter(is_half).count() as u64
}

#[test]
fn an_fsync_of_several_nodes_is_all_or_nothing() {
    assert_eq!(halves(FsOptions::default(), 600), 0);
    let past = FsOptions { bug: Bug::PastTorn.into(), ..FsOptions::default() };
    assert!(halves(past, 600) > 0, "roll-forward went on behind a torn node");
}

/// What a device that keeps blocks whole gets is what it got before: no seals, no copies.
#[test]
fn where_blocks_are_whole_nothing_is_sealed() {
    for options in [FsOptions::default(), scj()] {
        let counts = [512, 4096].map(|unit| {
            let (device, ..) = rewritten(options, unit);
            let sealed = Durable::open(CutDevice::power_on(device.image())).unwrap();
            assert_eq!(sealed.checkpoint().seal.is_some(), unit == 512);
            (device.ops(), device.written().0)
        });
        // A mount with a journal writes its state before its first checkpoint and after it.
        let copies = if options == scj() { 2 } else { 0 };
        assert_eq!(counts[0], (counts[1].0 + copies, counts[1].1 + 8 * copies), "{options:?}");
    }
}

/// A volume whose chain was sealed is recovered by a mount that seals no more, and the other way round.
#[test]
fn a_volume_may_move_between_devices() {
    for options in [FsOptions::default(), scj()] {
        for (from, to) in [(512, 4096), (4096, 512)] {
            let (device, ino, _) = rewritten(options, from);
            let mut image = device.image();
            for (i, recover) in [scj(), FsOptions::default(), scj()].into_iter().enumerate() {
                let unit = if i == 1 { from } else { to };
                assert_eq!(wrong(image.clone(), ino, recover), None);
                let device = CutDevice::power_on(image).with_atomic_unit(Bytes(unit));
                let mut fs = Fs::mount(device, recover, now(7)).unwrap();
                let data = content(CHANGED, 2);
                fs.write(now(8), ino, Bytes(CHANGED * UNIT_BYTES), &data).unwrap();
                fs.fsync(now(9), ino).unwrap();
                image = fs.abandon().image();
            }
        }
    }
}

/// What is wrong first after cuts inside a mount that changes how the journal is laid out, and inside
/// the one after it.
fn cut_mounts(bug: Option<Bug>, seeds: u64) -> Option<String> {
    let (device, ino, _) = rewritten(scj(), 512);
    let device = CutDevice::power_on(device.image());
    let cleaning = Cleaning::Scj(Scj { slots: 60, ..Scj::default() });
    let other = FsOptions { cleaning, bug: bug.into(), ..scj() };
    let device = Fs::mount(device, other, now(7)).unwrap().abandon();
    let ops = device.ops();
    (0..seeds).flat_map(|seed| (0..ops).map(move |op| (op, seed))).find_map(|(op, seed)| {
        let torn = Fate::Sectors(seed * 977 + op);
        let cut = DiskCut { op, inside: true, torn, rest: torn };
        let (image, _) = device.image_at_cut(&cut).unwrap();
        let mut images = vec![image.clone()];
        if let Ok(fs) = Fs::mount(CutDevice::power_on(image), other, now(7)) {
            let again = fs.abandon();
            let torn = Fate::Sectors(seed * 1009 + op + 1);
            let cut =
                DiskCut { op: (seed * 31 + op) % again.ops(), inside: true, torn, rest: torn };
            images.push(again.image_at_cut(&cut).unwrap().0);
        }
        let wrongs = images.into_iter().find_map(|image| wrong(image, ino, other));
        wrongs.map(|what| format!("{cut:?}: {what}"))
    })
}

/// The state block of the journal is written in place at every mount: a mount that was cut there could not
/// be repeated.
#[test]
fn a_mount_that_was_cut_is_repeated() {
    assert_eq!(cut_mounts(None, 20), None);
    assert!(cut_mounts(Some(Bug::StateTogether), 300).is_some(), "both copies were torn at once");
    assert!(cut_mounts(Some(Bug::WholeFirst), 300).is_some(), "one after the other was torn");
}

/// A kernel that mounts what a cut left, finds nothing to recover, and goes on before it makes a checkpoint:
/// its nodes have no seals, and what it synced is not given up.
#[test]
fn nodes_of_a_kernel_that_went_on_are_taken() {
    let (device, ino, _) = rewritten(FsOptions::default(), 512);
    let image = Image::of(&mut CutDevice::power_on(device.image()));
    let durable = Durable::open(CutDevice::power_on(device.image())).unwrap();
    let version = durable.checkpoint().version as u32;
    let heads = durable.checkpoint().node_heads;
    let head = durable.layout().block(heads.segments[1], u32::from(heads.offsets[1]));
    let bytes = std::fs::read(image.path()).unwrap();
    let at = head.0 as usize * 4096;
    let mut node = NodeBlock(Box::new(bytes[at..at + 4096].try_into().unwrap()));
    assert_eq!((node.nid(), node.written_after() as u32), (ino, version));
    for (upper, taken) in [(0, true), (node.written_after() >> 32 ^ 1, false)] {
        node.stamp(u64::from(version) | upper << 32, varve_lfs::BlockAddr(0));
        let mut all = bytes.clone();
        all[at..at + 4096].copy_from_slice(&node.0[..]);
        std::fs::write(image.path(), all).unwrap();
        let mut fs = Fs::mount(image.device(), FsOptions::default(), now(7)).unwrap();
        assert_eq!(fs.lookup(now(8), Nid::ROOT, b"file").is_ok(), taken, "{upper:#x}");
    }
}

/// A sealed volume is F2FS: the checker takes it as a crash left it, and after recovery.
#[test]
fn the_checker_takes_a_sealed_volume() {
    let (device, ino, _) = rewritten(FsOptions::default(), 512);
    let before = Image::of(&mut CutDevice::power_on(device.image())).complaints();
    let (plain, ..) = rewritten(FsOptions::default(), 4096);
    let mut plain = CutDevice::power_on(plain.image());
    assert_eq!(before, Image::of(&mut plain).complaints());
    let crashed = CutDevice::power_on(device.image());
    let mut fs = Fs::mount(crashed, FsOptions::default(), now(7)).unwrap();
    fs.lookup(now(8), Nid::ROOT, b"file").unwrap();
    assert_eq!(fs.attributes(now(8), ino).unwrap().size.0, BLOCKS * UNIT_BYTES);
    let mut device = CutDevice::power_on(fs.unmount(now(9)).unwrap().image());
    assert_eq!(Image::of(&mut device).complaints(), [""; 0]);
    let left = Durable::open(CutDevice::power_on(device.image())).unwrap();
    assert_eq!(left.checkpoint().seal, None, "a kernel may go on");
}
