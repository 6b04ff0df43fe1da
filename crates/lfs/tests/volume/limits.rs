//! As much as there can be of something, and one more. `VARVE_LFS_LARGE=1` adds a million files.

use crate::tools::model::NEW;
use crate::tools::{FileDevice, Image, now};
use block::{BlockDevice, Bytes, RamDevice, Sectors};
use varve_lfs::format::FileType;
use varve_lfs::fs::{Cleaning, Scj};
use varve_lfs::{Fs, FsError, FsOptions, MkfsOptions, Nid, mkfs};

/// Bytes of the largest file.
const LARGEST: u64 = (923 + 2 * 1018 + 2 * 1018 * 1018 + 1018 * 1018 * 1018) * 4096;

fn mounted<D: BlockDevice>(device: D, options: FsOptions) -> Fs<D> {
    let device = mkfs(device, &MkfsOptions::new([4; 16], 9), now(0)).unwrap().0;
    Fs::mount(device, options, now(1)).unwrap()
}

fn ram(mib: u64) -> RamDevice {
    RamDevice::new(Sectors(mib << 11))
}

fn create<D: BlockDevice>(fs: &mut Fs<D>, dir: Nid, name: &str) -> Result<Nid, FsError> {
    fs.create(now(2), dir, name.as_bytes(), FileType::File, NEW, (0, 0))
}

fn content<D: BlockDevice>(fs: Fs<D>) -> Fs<D> {
    let mut device = fs.unmount(now(1_000)).unwrap();
    assert_eq!(Image::of(&mut device).complaints(), [""; 0]);
    let mut fs = Fs::mount(device, FsOptions::default(), now(1_001)).unwrap();
    fs.check(now(1_002)).unwrap();
    fs
}

#[test]
fn a_directory_of_65536_entries_is_searched_level_by_level() {
    let mut fs = mounted(ram(256), FsOptions::default());
    let dir = fs.mkdir(now(2), Nid::ROOT, b"many", NEW).unwrap();
    let one = create(&mut fs, Nid::ROOT, "one").unwrap();
    // Links to few files: entries are the matter here, not inodes.
    let mut files = vec![one];
    for n in 0..65_536_u32 {
        let name = format!("entry {n} with a longer name");
        if n.is_multiple_of(20_000) {
            files.push(create(&mut fs, dir, &name).unwrap());
        } else {
            fs.link(now(3), files[files.len() - 1], dir, name.as_bytes()).unwrap();
        }
    }
    let mut fs = content(fs);
    assert_eq!(fs.readdir(now(1_003), dir).unwrap().len(), 65_538);
    for n in (0..65_536_u32).step_by(31) {
        fs.lookup(now(1_003), dir, format!("entry {n} with a longer name").as_bytes()).unwrap();
    }
    assert_eq!(fs.lookup(now(1_003), dir, b"entry 65536"), Err(FsError::NotFound));
    for n in 0..65_000_u32 {
        fs.unlink(now(1_004), dir, format!("entry {n} with a longer name").as_bytes()).unwrap();
    }
    assert_eq!(content(fs).readdir(now(1_005), dir).unwrap().len(), 538);
}

#[test]
fn names_links_and_paths_have_their_lengths() {
    let mut fs = mounted(ram(64), FsOptions::default());
    let longest = "n".repeat(255);
    let ino = create(&mut fs, Nid::ROOT, &longest).unwrap();
    assert_eq!(create(&mut fs, Nid::ROOT, &"n".repeat(256)), Err(FsError::NameTooLong));
    assert_eq!(fs.lookup(now(3), Nid::ROOT, longest.as_bytes()), Ok(ino));
    let target = vec![b't'; 4096];
    let too_long = fs.symlink(now(3), Nid::ROOT, b"link", &target, NEW);
    assert_eq!(too_long, Err(FsError::NameTooLong));
    fs.symlink(now(3), Nid::ROOT, b"link", &target[1..], NEW).unwrap();
    let mut dir = Nid::ROOT;
    for depth in 0..300 {
        dir = fs.mkdir(now(4), dir, format!("{depth}").as_bytes(), NEW).unwrap();
    }
    let into_itself = fs.rename(now(5), (Nid::ROOT, b"0"), (dir, b"0"));
    assert!(matches!(into_itself, Err(FsError::Invalid(_))));
    for n in 1..32_000 {
        fs.link(now(6), ino, Nid::ROOT, format!("l{n}").as_bytes()).unwrap();
    }
    assert_eq!(fs.link(now(6), ino, Nid::ROOT, b"more"), Err(FsError::TooManyLinks));
    content(fs);
}

#[test]
fn the_largest_file_ends_where_its_pointers_do() {
    let mut fs = mounted(ram(64), FsOptions::default());
    let ino = create(&mut fs, Nid::ROOT, "f").unwrap();
    fs.write(now(2), ino, Bytes(LARGEST - 3), b"end").unwrap();
    assert_eq!(fs.write(now(2), ino, Bytes(LARGEST - 2), b"end"), Err(FsError::TooLarge));
    assert_eq!(fs.truncate(now(2), ino, Bytes(LARGEST + 1)), Err(FsError::TooLarge));
    // From end to end over what is not there: three nodes and a block are.
    assert_eq!(fs.attributes(now(3), ino).unwrap().blocks, 5);
    assert_eq!(fs.seek(now(3), ino, Bytes(1), false), Ok(Some(Bytes(LARGEST - 4096))));
    fs.punch(now(3), ino, Bytes(0), Bytes(LARGEST - 4096)).unwrap();
    let mut fs = content(fs);
    let mut bytes = [9; 8];
    assert_eq!(fs.read(now(1_003), ino, Bytes(LARGEST - 5), &mut bytes), Ok(5));
    assert_eq!(bytes[..5], *b"\0\0end");
    fs.truncate(now(1_004), ino, Bytes(0)).unwrap();
    assert_eq!(fs.attributes(now(1_005), ino).unwrap().blocks, 1);
    content(fs);
}

#[test]
fn a_volume_full_to_its_last_block_still_writes_over_fills_what_it_set_apart_and_renames() {
    let mut fs = mounted(ram(64), FsOptions::default());
    let (apart, there) = (create(&mut fs, Nid::ROOT, "a").unwrap(), "there");
    fs.allocate(now(2), apart, Bytes(0), Bytes(3_000 * 4096), false).unwrap();
    let dir = fs.mkdir(now(2), Nid::ROOT, b"dir", NEW).unwrap();
    let ino = create(&mut fs, Nid::ROOT, there).unwrap();
    fs.write(now(2), ino, Bytes(0), &[1; 40 * 4096]).unwrap();
    for n in 0..100 {
        create(&mut fs, Nid::ROOT, &format!("empty {n}")).unwrap();
    }
    // Large writes, one block each, and files without any: each takes what the one before left.
    let big = create(&mut fs, Nid::ROOT, "big").unwrap();
    for len in [1 << 20, 4096] {
        let mut at = 0;
        while fs.write(now(3), big, Bytes(at), &vec![7; len]).is_ok() {
            at += len as u64;
        }
    }
    let more = (0..).take_while(|n| create(&mut fs, dir, &format!("more {n}")).is_ok()).count();
    assert!(more < 10, "{more}");
    let usage = fs.usage(now(3)).unwrap();
    assert!(usage.available_blocks < 10 && usage.used_blocks < usage.blocks, "{usage:?}");
    fs.sync(now(3)).unwrap();
    let usage = fs.usage(now(3)).unwrap();
    for at in 0..3_000 {
        fs.write(now(4), apart, Bytes(at * 4096), &[at as u8; 4096]).unwrap();
    }
    fs.write(now(4), ino, Bytes(5_000), &[2; 30 * 4096]).unwrap();
    assert_eq!(fs.write(now(4), ino, Bytes(39 * 4096 + 1), &[2; 4096]), Err(FsError::NoSpace));
    assert_eq!(fs.usage(now(4)).unwrap().used_blocks, usage.used_blocks);
    for n in 0..100 {
        let (old, new) = (format!("empty {n}"), format!("renamed {n}"));
        fs.rename(now(5), (Nid::ROOT, old.as_bytes()), (dir, new.as_bytes())).unwrap();
    }
    fs.rename(now(5), (Nid::ROOT, b"big"), (Nid::ROOT, b"larger")).unwrap();
    fs.exchange(now(5), (Nid::ROOT, b"larger"), (dir, b"renamed 0")).unwrap();
    fs.sync(now(6)).unwrap();
    let mut fs = content(fs);
    let mut bytes = [0; 4096];
    fs.read(now(1_007), apart, Bytes(2_999 * 4096), &mut bytes).unwrap();
    assert_eq!(bytes, [2_999_u32 as u8; 4096]);
    fs.read(now(1_007), ino, Bytes(30 * 4096), &mut bytes).unwrap();
    assert_eq!(bytes, [2; 4096]);
}

/// A block in each leaf of the tree: all of them change, and a checkpoint writes them anew, into segments that are free.
#[test]
fn a_punch_changes_no_more_nodes_at_once_than_there_is_room_for() {
    let options = MkfsOptions { log_blocks_per_seg: 2, gap: 512, ..MkfsOptions::new([4; 16], 9) };
    let device = mkfs(ram(48), &options, now(0)).unwrap().0;
    let mut fs = Fs::mount(device, FsOptions::default(), now(1)).unwrap();
    let ino = create(&mut fs, Nid::ROOT, "f").unwrap();
    let place = |n: u64| Bytes((923 + n * 1018) * 4096);
    let leaves = (0..).take_while(|n| fs.write(now(2), ino, place(*n), &[1; 4096]).is_ok()).count();
    assert!(leaves > 1_000, "{leaves} leaves");
    fs.sync(now(3)).unwrap();
    let before = fs.usage(now(3)).unwrap();
    fs.punch(now(4), ino, Bytes(0), Bytes(LARGEST)).unwrap();
    fs.sync(now(5)).unwrap();
    assert_eq!((fs.failed(), fs.seek(now(5), ino, Bytes(0), false)), (None, Ok(None)));
    let after = fs.usage(now(5)).unwrap();
    assert_eq!(before.used_blocks - after.used_blocks, leaves as u64);
    fs.check(now(6)).unwrap();
    let device = fs.unmount(now(7)).unwrap();
    let mut fs = Fs::mount(device, FsOptions::default(), now(8)).unwrap();
    assert_eq!(fs.seek(now(9), ino, Bytes(0), false), Ok(None));
    fs.check(now(9)).unwrap();
}

/// Zeroes take the places of what is there: nobody is refused for want of room, and nobody else gets it.
#[test]
fn a_full_volume_still_zeroes_and_keeps_what_it_cannot() {
    let mut fs = mounted(ram(64), FsOptions::default());
    let ino = create(&mut fs, Nid::ROOT, "a").unwrap();
    fs.write(now(2), ino, Bytes(0), &[3; 3_000 * 4096]).unwrap();
    let big = create(&mut fs, Nid::ROOT, "big").unwrap();
    for len in [1 << 20, 4096] {
        let mut at = 0;
        while fs.write(now(3), big, Bytes(at), &vec![7; len]).is_ok() {
            at += len as u64;
        }
    }
    let usage = fs.usage(now(4)).unwrap();
    let refused = fs.zero_range(now(4), ino, Bytes(4096), Bytes(4_000 * 4096), false);
    assert_eq!(refused, Err(FsError::NoSpace));
    let mut bytes = [0; 4096];
    for at in [0, 1, 2_999] {
        fs.read(now(4), ino, Bytes(at * 4096), &mut bytes).unwrap();
        assert_eq!(bytes, [3; 4096], "block {at}: nothing is lost where there is no room");
    }
    fs.zero_range(now(5), ino, Bytes(5_000), Bytes(2_999 * 4096 - 5_000), false).unwrap();
    assert_eq!(fs.usage(now(5)).unwrap().used_blocks, usage.used_blocks);
    fs.sync(now(5)).unwrap();
    let mut all = vec![9; 3_000 * 4096];
    fs.read(now(6), ino, Bytes(0), &mut all).unwrap();
    let kept = |at: usize| !(5_000..2_999 * 4096).contains(&at);
    assert!(all.iter().enumerate().all(|(at, byte)| *byte == if kept(at) { 3 } else { 0 }));
    for at in 2..2_999 {
        fs.write(now(7), ino, Bytes(at * 4096), &[4; 4096]).unwrap();
    }
    content(fs);
}

#[test]
fn a_full_volume_refuses_more_keeps_all_and_works_on_when_something_goes() {
    let scj = Cleaning::Scj(Scj { slots: 16, threshold: Some(500), count_needed: true, batch: 1 });
    for cleaning in [Cleaning::Bl415, Cleaning::Bl6, scj] {
        let mut fs = mounted(ram(64), FsOptions { cleaning, ..FsOptions::default() });
        let mut files = Vec::new();
        let full = loop {
            let n = files.len();
            let made = create(&mut fs, Nid::ROOT, &format!("f{n}")).and_then(|ino| {
                fs.write(now(2), ino, Bytes(0), &vec![n as u8; 30_000])?;
                Ok(ino)
            });
            match made {
                Ok(ino) => files.push(ino),
                Err(error) => break error,
            }
        };
        assert_eq!(full, FsError::NoSpace, "{cleaning:?}");
        let usage = fs.usage(now(3)).unwrap();
        assert!(usage.blocks - usage.used_blocks < 32, "{cleaning:?}: {usage:?}");
        fs.sync(now(3)).unwrap();
        // In place is not in place here, and still goes on: space goes round.
        for (n, ino) in files.iter().enumerate().step_by(3) {
            let _ = fs.write(now(4), *ino, Bytes(4096), &[n as u8; 4096]);
            fs.fsync(now(4), *ino).unwrap();
        }
        let mut bytes = vec![0; 30_000];
        for (n, ino) in files.iter().enumerate() {
            assert_eq!(fs.read(now(5), *ino, Bytes(0), &mut bytes), Ok(30_000));
            assert!(bytes.iter().all(|byte| *byte == n as u8), "{cleaning:?}: file {n}");
        }
        for n in 0..files.len() / 2 {
            fs.unlink(now(6), Nid::ROOT, format!("f{n}").as_bytes()).unwrap();
        }
        for ino in &files[files.len() / 2..] {
            fs.truncate(now(6), *ino, Bytes(20_000)).unwrap();
        }
        for round in 0..2 {
            for n in 0..files.len() / 3 {
                let ino = create(&mut fs, Nid::ROOT, &format!("again{round}-{n}")).unwrap();
                fs.write(now(7), ino, Bytes(0), &[7; 30_000]).unwrap();
            }
            for n in 0..files.len() / 3 {
                fs.unlink(now(8), Nid::ROOT, format!("again{round}-{n}").as_bytes()).unwrap();
            }
        }
        content(fs);
    }
}

#[test]
fn orphans_fill_several_blocks_of_a_checkpoint() {
    let mut fs = mounted(ram(100), FsOptions::default());
    for n in 0..2_500 {
        let ino = create(&mut fs, Nid::ROOT, &format!("f{n}")).unwrap();
        fs.hold(now(2), ino).unwrap();
        fs.write(now(2), ino, Bytes(0), b"read by somebody").unwrap();
        fs.unlink(now(2), Nid::ROOT, format!("f{n}").as_bytes()).unwrap();
    }
    fs.sync(now(3)).unwrap();
    let used = fs.usage(now(3)).unwrap().inodes;
    let mut device = fs.abandon();
    assert_eq!(Image::of(&mut device).complaints(), [""; 0]);
    let mut fs = Fs::mount(device, FsOptions::default(), now(4)).unwrap();
    assert_eq!(fs.usage(now(4)).unwrap().inodes, used - 2_500);
    fs.check(now(5)).unwrap();
    content(fs);
}

fn with_files(fs: &mut Fs<RamDevice>, from: usize) -> usize {
    let made = |n: &usize| match create(fs, Nid::ROOT, &format!("{n}")) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error, FsError::NoSpace);
            false
        }
    };
    (from..).take_while(made).count()
}

/// Numbers of nodes come back with their nodes, however often the search for a free one has passed them by.
#[test]
fn a_volume_full_of_files_takes_as_many_again_whichever_were_removed() {
    let options = MkfsOptions { log_blocks_per_seg: 3, gap: 512, ..MkfsOptions::new([4; 16], 9) };
    let device = mkfs(ram(44), &options, now(0)).unwrap().0;
    let mut fs = Fs::mount(device, FsOptions::default(), now(1)).unwrap();
    let all = with_files(&mut fs, 0);
    // There are more numbers than nodes, by so few that all are needed if a half of them was lost.
    let usage = fs.usage(now(2)).unwrap();
    assert!(usage.nodes * 3 < all as u64 * 4, "{all} files: {usage:?}");
    // From now on it is known of no block of the table whether it has a free number.
    let device = fs.unmount(now(2)).unwrap();
    let mut fs = Fs::mount(device, FsOptions::default(), now(3)).unwrap();
    // The newer half goes, the search goes round, past the older one; then that goes.
    for (gone, from) in [(all / 2..all, all), (0..all / 2, 2 * all)] {
        let count = gone.len();
        for n in gone {
            fs.unlink(now(4), Nid::ROOT, format!("{n}").as_bytes()).unwrap();
        }
        fs.sync(now(5)).unwrap();
        assert_eq!(with_files(&mut fs, from), count, "as many as went");
    }
    fs.check(now(6)).unwrap();
}

/// Of segments of four blocks an odd number has half a byte of versions.
#[test]
fn a_table_of_an_odd_number_of_small_segments_is_used_to_its_end() {
    let options = MkfsOptions { log_blocks_per_seg: 2, gap: 512, ..MkfsOptions::new([4; 16], 9) };
    let device = mkfs(ram(48), &options, now(0)).unwrap().0;
    let mut fs = Fs::mount(device, FsOptions::default(), now(1)).unwrap();
    let all = with_files(&mut fs, 0);
    assert!(all > 1_000, "{all} files");
    fs.sync(now(2)).unwrap();
    (0..all).for_each(|n| fs.unlink(now(3), Nid::ROOT, format!("{n}").as_bytes()).unwrap());
    fs.sync(now(4)).unwrap();
    assert_eq!(with_files(&mut fs, all), all);
    let device = fs.unmount(now(5)).unwrap();
    let mut fs = Fs::mount(device, FsOptions::default(), now(6)).unwrap();
    assert_eq!(fs.readdir(now(7), Nid::ROOT).unwrap().len(), all + 2);
    fs.check(now(7)).unwrap();
}

#[test]
fn attributes_fill_their_node_and_no_more() {
    let mut fs = mounted(ram(64), FsOptions::default());
    let ino = create(&mut fs, Nid::ROOT, "f").unwrap();
    let room = 4072 - 24 - 4;
    let value = vec![5; room - 4 - 4];
    fs.set_xattr(now(2), ino, 1, b"full", Some(&value)).unwrap();
    assert_eq!(fs.set_xattr(now(2), ino, 1, b"x", Some(b"")), Err(FsError::NoSpace));
    let more = vec![5; value.len() + 1];
    assert_eq!(fs.set_xattr(now(2), ino, 1, b"full", Some(&more)), Err(FsError::NoSpace));
    assert_eq!(fs.xattr(now(3), ino, 1, b"full").unwrap(), value);
    let mut fs = content(fs);
    fs.set_xattr(now(4), ino, 1, b"full", None).unwrap();
    assert_eq!(fs.attributes(now(5), ino).unwrap().blocks, 1);
    content(fs);
}

/// A file on a volume of this size, with so many others; seconds are for whoever looks.
fn large(gib: u64, files: u32) {
    let device = FileDevice::new(gib << 30);
    let mut fs = mounted(device, FsOptions::default());
    let mut dir = Nid::ROOT;
    for n in 0..files {
        if n.is_multiple_of(1_000) {
            dir = fs.mkdir(now(2), Nid::ROOT, format!("{n}").as_bytes(), NEW).unwrap();
        }
        create(&mut fs, dir, &format!("file {n}")).unwrap();
    }
    let ino = create(&mut fs, Nid::ROOT, "last").unwrap();
    fs.write(now(3), ino, Bytes(1 << 40), b"far away").unwrap();
    let device = fs.unmount(now(4)).unwrap();
    assert_eq!(device.image().complaints(), [""; 0], "{gib} GiB");
    let mut fs = Fs::mount(device, FsOptions::default(), now(5)).unwrap();
    let usage = fs.usage(now(6)).unwrap();
    assert_eq!(usage.inodes, u64::from(files) + u64::from(files.div_ceil(1_000)) + 2);
    let mut bytes = [0; 8];
    fs.read(now(6), ino, Bytes(1 << 40), &mut bytes).unwrap();
    assert_eq!(&bytes, b"far away");
}

#[test]
fn large_volumes_are_made_and_worked_on() {
    large(16, 3_000);
    large(300, 3_000);
    if std::env::var_os("VARVE_LFS_LARGE").is_some() {
        large(2_048, 3_000);
        large(16, 1_000_000);
    }
}
