//! A fresh volume against `mkfs.f2fs` and `fsck.f2fs`.

use crate::tools::{Image, now};
use block::{RamDevice, Sectors};
use varve_lfs::format::{Block, Checkpoint, MAGIC, NodeBlock, Superblock};
use varve_lfs::{FsError, Layout, MkfsOptions, mkfs, provision, superblock};

fn block(image: &Image, at: u32) -> Box<Block> {
    use std::os::unix::fs::FileExt;
    let mut block = Box::new([0; 4096]);
    let file = std::fs::File::open(image.path()).unwrap();
    file.read_exact_at(&mut block[..], u64::from(at) * 4096).unwrap();
    block
}

fn ours(bytes: u64) -> Image {
    let device = RamDevice::new(Sectors(bytes / 512));
    let options = MkfsOptions { label: "varve".into(), ..MkfsOptions::new([7; 16], 0x1234_5678) };
    Image::of(&mut mkfs(device, &options, now(5)).unwrap().0)
}

#[test]
fn the_checker_is_content_with_a_fresh_volume() {
    for mib in [64, 128, 300] {
        assert_eq!(ours(mib << 20).complaints(), [""; 0], "{mib} MiB");
    }
}

#[test]
fn sizes_and_places_are_those_of_mkfs_f2fs() {
    // With 48 segments two shares leave the same space.
    let tied = |mib: &u64| {
        let sb = superblock(mib << 8, &MkfsOptions::new([0; 16], 1));
        sb.and_then(|sb| Layout::of(&sb, mib << 8)).is_ok_and(|layout| layout.main_segs == 48)
    };
    let tied = (60..200).find(tied).expect("a size with 48 segments");
    for mib in [
        tied, 52, 60, 64, 72, 90, 128, 168, 200, 288, 300, 511, 540, 700, 1024, 3000, 4096, 16_384,
        57_344, 262_144, 2_097_152,
    ] {
        let theirs = Image::made_by_f2fs_tools(mib << 20, &[]);
        let sb = Superblock::expect(&block(&theirs, 0), MAGIC).unwrap();
        let made = superblock(mib << 8, &MkfsOptions::new(sb.uuid, 1)).unwrap();
        let same = Superblock {
            label: sb.label,
            extension_count: sb.extension_count,
            extensions: sb.extensions,
            writer: sb.writer,
            maker: sb.maker,
            rest: sb.rest,
            ..made
        };
        assert_eq!(sb, same, "{mib} MiB");
        let layout = Layout::of(&sb, mib << 8).unwrap();
        let cp = Checkpoint::decode(&block(&theirs, layout.pack(0).0)).unwrap();
        let (reserved, provisioned) = provision(layout.main_segs);
        let found = (cp.reserved_segments, cp.overprovision_segments);
        assert_eq!(found, (reserved, provisioned), "{mib} MiB");
        let user = u64::from(layout.main_segs - provisioned) * 512;
        assert_eq!(cp.user_blocks, user, "{mib} MiB");
        assert_eq!(cp.sit_bitmap.len(), layout.sit_bitmap_bytes());
        assert_eq!(cp.nat_bitmap.len(), layout.nat_bitmap_bytes());
    }
}

#[test]
fn the_first_checkpoint_and_root_are_those_of_mkfs_f2fs() {
    let (theirs, ours) = (Image::made_by_f2fs_tools(128 << 20, &[]), ours(128 << 20));
    let checkpoint = |image: &Image| Checkpoint::decode(&block(image, 512)).unwrap();
    let (a, b) = (checkpoint(&theirs), checkpoint(&ours));
    let same = Checkpoint {
        // Chosen freely: version, places of the data logs, how summaries are kept.
        version: a.version,
        data_heads: a.data_heads,
        flags: a.flags,
        pack_blocks: a.pack_blocks,
        ..b
    };
    assert_eq!(a, same);
    let root = |image: &Image| NodeBlock(block(image, 4096));
    let (mut a, b) = (root(&theirs), root(&ours));
    a.set_word(0, b.word(0));
    a.stamp(b.written_after(), b.next());
    assert_eq!(a.head()[..32], b.head()[..32]);
    assert_eq!(a.0[68..], b.0[68..]);
}

#[test]
fn what_cannot_be_is_refused() {
    let options = MkfsOptions::new([0; 16], 1);
    for (blocks, options) in [
        (5_000, options.clone()),
        (0, options.clone()),
        ((1 << 29) + 1, options.clone()),
        (32_768, MkfsOptions { gap: 100, ..options.clone() }),
        (32_768, MkfsOptions { log_blocks_per_seg: 10, ..options.clone() }),
        (32_768, MkfsOptions { label: "x".repeat(512), ..options.clone() }),
    ] {
        assert!(matches!(superblock(blocks, &options), Err(FsError::Invalid(_))), "{options:?}");
    }
    let sb = superblock(32_768, &options).unwrap();
    assert!(matches!(Layout::of(&sb, 32_767), Err(FsError::Corrupt(_))));
    let mut moved = sb.clone();
    moved.places[3].0 += 512;
    assert!(matches!(Layout::of(&moved, 32_768), Err(FsError::Corrupt(_))));
    // The main area ends where the volume does, or before it.
    let end = u64::from(sb.places[5].0) + u64::from(sb.segments[4]) * 512;
    let ending = |at| varve_lfs::format::Superblock { block_count: at, ..sb.clone() };
    assert!(Layout::of(&ending(end), 32_768).is_ok());
    assert!(matches!(Layout::of(&ending(end - 1), 32_768), Err(FsError::Corrupt(_))));
}

/// Whoever asks for too little is told what is enough.
#[test]
fn the_least_volume_is_one_and_a_block_less_is_none() {
    for (log, gap) in [(9, 512), (9, 2048), (4, 64), (2, 64)] {
        let options = MkfsOptions { log_blocks_per_seg: log, gap, ..MkfsOptions::new([1; 16], 1) };
        let least = varve_lfs::least_blocks(&options).unwrap();
        let made = |blocks: u64| {
            let device = RamDevice::new(Sectors(blocks * 8));
            let device = varve_lfs::mkfs(device, &options, now(0))?.0;
            varve_lfs::Fs::mount(device, varve_lfs::FsOptions::default(), now(1)).map(drop)
        };
        assert_eq!(made(least), Ok(()), "{least} blocks");
        assert!(made(least - 1).is_err(), "{} blocks", least - 1);
        for blocks in (least..least + 4096).step_by(97) {
            assert!(varve_lfs::superblock(blocks, &options).is_ok(), "{blocks} blocks");
        }
    }
}
