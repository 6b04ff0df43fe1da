//! Damaged volumes: any bytes are an answer or a typed error, never a panic, and end in time.

use crate::tools::crash::{Plan, volume, work};
use crate::tools::model::{Mix, NEW, difference, draw, fresh, perform, read_tree};
use crate::tools::now;
use block::{BlockDevice, Bytes, CutDevice, Data, DiskImage, Lba, Request, Rng, Sectors, Time};
use varve_lfs::format::{FileType, NodeBlock};
use varve_lfs::fs::{Cleaning, Durable, Scj};
use varve_lfs::scj::{STATE_AT, State};
use varve_lfs::{BlockAddr, Fs, FsError, FsOptions, MkfsOptions, Nid, mkfs};

const MIX: Mix = Mix { write: 40, fsync: 10, clean: 0, sync: 2, blocks: 30, names: 30 };

/// A volume with files, with which something was done.
fn worked() -> Plan {
    Plan {
        seed: 1,
        per_seg: 4,
        blocks: 2_000,
        options: FsOptions::default(),
        mix: MIX,
        steps: 120,
        torn: false,
        slow: 0,
    }
}

#[test]
fn damage_is_an_error_and_no_panic() {
    let plan = worked();
    let (mut tree, mut clock, mut rng) = (fresh(), 1, Rng::new(1));
    let run = work(plan, volume(&plan), &mut tree, &mut clock, &mut rng);
    let image = run.device.image();
    let used: Vec<u64> = (0..plan.blocks)
        .filter(|at| {
            let mut block = [0; 4096];
            image.read_at(Lba(at * 8), &mut block).unwrap();
            block != [0; 4096]
        })
        .collect();
    // Superblocks, packs and tables come first.
    let tables: Vec<u64> = used.iter().copied().filter(|at| *at < 760).collect();
    let (mut refused, mut worked) = (0, 0);
    for seed in 0..2_000 {
        let mut rng = Rng::new(seed);
        let mut device = CutDevice::power_on(image.clone());
        for _ in 0..=rng.below(6) {
            let half = rng.ratio(1, 2);
            let at = Lba(*rng.pick(if half { &tables } else { &used }) * 8);
            let mut block = [0; 4096];
            device
                .submit(Time::ZERO, Request::read(at, Sectors(8)).with(Data::Read(&mut block)))
                .unwrap();
            for _ in 0..=rng.below(8) {
                let i = rng.below(4096) as usize;
                // Small numbers in the right places do most harm.
                block[i] = *rng.pick(&[0, 1, 2, 3, 0x7F, 0x80, 0xFF, rng.clone().next_u64() as u8]);
            }
            device
                .submit(Time::ZERO, Request::write(at, Sectors(8)).with(Data::Write(&block)))
                .unwrap();
        }
        let Ok(mut fs) = Fs::mount(device, plan.options, now(1 << 20)) else {
            refused += 1;
            continue;
        };
        worked += 1;
        for ino in tree.keys() {
            let (late, mut bytes) = (now(1 << 20), [0; 70_000]);
            let _ = fs.attributes(late, *ino);
            let _ = fs.readdir(late, *ino);
            let _ = fs.read(late, *ino, Bytes(5), &mut bytes);
            let _ = fs.xattrs(late, *ino);
        }
        let _ = fs.check(now(1 << 20));
        for _ in 0..40 {
            let op = draw(&mut rng, &tree, MIX);
            let _ = perform(&mut fs, now(1 << 20), &op);
        }
        let _ = fs.unmount(now(1 << 20));
    }
    assert!(refused > 20 && worked > 100, "{refused} refused, {worked} worked");
}

/// A state block that is whole, but names more slots than there can be: no walk over the volume, and no
/// address beyond 32 bits.
#[test]
fn a_journal_that_leaves_its_gap_is_refused() {
    let scj = Scj { slots: 24, ..Scj::default() };
    let plan = Plan {
        seed: 1,
        per_seg: 4,
        blocks: 2_000,
        options: FsOptions { cleaning: Cleaning::Scj(scj), ..FsOptions::default() },
        mix: MIX,
        steps: 20,
        torn: true,
        slow: 0,
    };
    let (mut tree, mut clock, mut rng) = (fresh(), 1, Rng::new(1));
    let image = work(plan, volume(&plan), &mut tree, &mut clock, &mut rng).device.image();
    let at = Lba(u64::from(STATE_AT.0) * 8);
    let mut block = Box::new([0; 4096]);
    image.read_at(at, &mut block[..]).unwrap();
    let state = State::decode(&block).expect("a volume that was not unmounted");
    assert_eq!(state.slots, 24);
    for (slots, fits) in [(24, true), (0, false), (0x1000, false), (1 << 31, false)] {
        let mut device = CutDevice::power_on(image.clone());
        let forged = State { slots, ..state }.encode();
        let write = Request::write(at, Sectors(8)).with(Data::Write(&forged[..]));
        device.submit(Time::ZERO, write).unwrap();
        match Fs::mount(device, FsOptions { read_only: true, ..plan.options }, now(1 << 20)) {
            Ok(_) => assert!(fits, "{slots} slots"),
            Err(error) => assert!(!fits && matches!(error, FsError::Corrupt(_)), "{error}"),
        }
    }
}

/// Both ends of a pack say the same, and the last one is written when all others are durable: where the first one rots, no
/// older state is served.
#[test]
fn a_pack_that_loses_its_first_block_loses_nothing() {
    let plan = worked();
    let (mut tree, mut clock, mut rng) = (fresh(), 1, Rng::new(1));
    let late = now(1 << 20);
    let image = work(plan, volume(&plan), &mut tree, &mut clock, &mut rng).device.image();
    let unmounted = |image: DiskImage| {
        let mut fs = Fs::mount(CutDevice::power_on(image), plan.options, late).unwrap();
        let tree = read_tree(&mut fs, late).unwrap();
        (tree, fs.unmount(late).unwrap().image())
    };
    let (tree, image) = unmounted(image);
    assert!(tree.len() > 3, "{} files and directories", tree.len());
    let durable = |image: &DiskImage| Durable::open(CutDevice::power_on(image.clone())).unwrap();
    let found = durable(&image);
    let (newest, version) = (found.pack_at(), found.checkpoint().version);
    let other = [0, 1].map(|which| found.layout().pack(which)).into_iter().find(|at| *at != newest);
    let hit = |image: &DiskImage, block: BlockAddr, byte: usize| {
        let (mut device, at) = (CutDevice::power_on(image.clone()), Lba(u64::from(block.0) * 8));
        let mut bytes = [0; 4096];
        let read = Request::read(at, Sectors(8)).with(Data::Read(&mut bytes));
        device.submit(Time::ZERO, read).unwrap();
        bytes[byte] ^= 4;
        let write = Request::write(at, Sectors(8)).with(Data::Write(&bytes));
        device.submit(Time::ZERO, write).unwrap();
        device.image()
    };
    for byte in [0, 16, 132, 136, 164, 200, 3_000, 4_092] {
        let one = hit(&image, newest, byte);
        for image in [hit(&one, other.unwrap(), 7), one] {
            let found = durable(&image);
            assert_eq!((found.checkpoint().version, found.pack_at()), (version, newest));
            assert!(found.has_lost_its_head(), "byte {byte}");
            let (there, after) = unmounted(image);
            assert_eq!(difference(&there, &tree), None, "byte {byte}");
            assert!(!durable(&after).has_lost_its_head(), "it was written anew");
        }
    }
    // The last block alone may be what a cut left of a pack: the one before counts.
    let last = BlockAddr(newest.0 + durable(&image).checkpoint().pack_blocks - 1);
    let mut found = durable(&hit(&image, last, 0));
    assert_eq!(found.begun(), Some(newest));
    assert_eq!(durable(&image).begun(), None);
    assert!(found.checkpoint().version == version - 1 && !found.has_lost_its_head());
    // A pack of which nobody knows that its next was not begun: neither counts.
    let lost = hit(&hit(&hit(&image, newest, 0), last, 0), other.unwrap(), 0);
    assert!(Durable::open(CutDevice::power_on(lost)).is_err());
}

/// The number of the inode where one of its nodes should be: as a node of addresses, of numbers, and of numbers of these.
#[test]
fn an_inode_that_is_a_node_of_its_own_tree_is_damage() {
    let late = now(1 << 20);
    for which in 0..5 {
        let device = block::RamDevice::new(Sectors(64 << 11));
        let device = mkfs(device, &MkfsOptions::new([5; 16], 9), now(0)).unwrap().0;
        let mut fs = Fs::mount(device, FsOptions::default(), now(1)).unwrap();
        let ino = fs.create(now(2), Nid::ROOT, b"a", FileType::File, NEW, (0, 0)).unwrap();
        let (per, own) = (1018, 923);
        let first = [0, per, 2 * per, 2 * per + per * per, 2 * per + 2 * per * per][which];
        let places = [own + first + 100, own + first + 11 * per + 950];
        fs.write(now(3), ino, Bytes(0), &[1; 5_000]).unwrap();
        fs.truncate(now(4), ino, Bytes((places[1] + 1) * 4096)).unwrap();
        let mut device = fs.unmount(now(5)).unwrap();
        let at = Durable::open(device.clone()).unwrap().node(ino).unwrap().1;
        let mut node = NodeBlock(Box::new([0; 4096]));
        let at = Lba(u64::from(at.0) * 8);
        let read = Request::read(at, Sectors(8)).with(Data::Read(&mut node.0[..]));
        device.submit(Time::LIMIT, read).unwrap();
        node.set_child(which, ino);
        let write = Request::write(at, Sectors(8)).with(Data::Write(&node.0[..]));
        device.submit(Time::LIMIT, write).unwrap();
        let (clock, mut out) = (late, [0; 4096]);
        let mounted = || Fs::mount(device.clone(), FsOptions::default(), clock).unwrap();
        for place in places.map(|block| Bytes(block * 4096)) {
            // Behind what the first two children reach lies the next one's.
            let beside = which < 2 && place.0 > (own + first + per) * 4096;
            let found = [
                mounted().read(late, ino, place, &mut out).map(drop),
                mounted().write(late, ino, place, &[1; 100]),
                mounted().allocate(late, ino, place, Bytes(9_000), false),
                mounted().punch(late, ino, place, Bytes(4096)),
                mounted().seek(late, ino, place, false).map(drop),
            ];
            for done in found {
                assert_eq!(matches!(done, Err(FsError::Corrupt(_))), !beside, "{which}: {done:?}");
            }
        }
        let gone = mounted().unlink(late, Nid::ROOT, b"a");
        assert!(matches!(gone, Err(FsError::Corrupt(_))), "{which}: {gone:?}");
    }
}
