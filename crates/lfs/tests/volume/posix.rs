//! Operations that programs ask a mounted file system for beside the usual ones: space set apart,
//! holes, names that change places, directories listed in parts.

use crate::tools::{Image, now};
use block::{Bytes, RamDevice, Sectors};
use varve_lfs::format::FileType;
use varve_lfs::fs::{NewInode, SetAttributes};
use varve_lfs::{Fs, FsError, FsOptions, MkfsOptions, Nid, mkfs};

const NEW: NewInode = NewInode { permissions: 0o644, uid: 1, gid: 2 };

fn mounted(mib: u64) -> Fs<RamDevice> {
    let device = RamDevice::new(Sectors(mib << 11));
    let device = mkfs(device, &MkfsOptions::new([5; 16], 9), now(0)).unwrap().0;
    Fs::mount(device, FsOptions::default(), now(1)).unwrap()
}

fn file(fs: &mut Fs<RamDevice>, name: &str) -> Nid {
    fs.create(now(2), Nid::ROOT, name.as_bytes(), FileType::File, NEW, (0, 0)).unwrap()
}

/// Checks it, unmounts it, lets `fsck.f2fs` look, and mounts it again.
fn remounted(mut fs: Fs<RamDevice>) -> Fs<RamDevice> {
    fs.check(now(50)).unwrap();
    let mut device = fs.unmount(now(51)).unwrap();
    assert_eq!(Image::of(&mut device).complaints(), [""; 0]);
    Fs::mount(device, FsOptions::default(), now(52)).unwrap()
}

#[test]
fn space_set_apart_is_counted_reads_as_zeroes_and_is_no_data() {
    let mut fs = mounted(64);
    let ino = file(&mut fs, "a");
    fs.write(now(3), ino, Bytes(5000), &[7; 100]).unwrap();
    let before = fs.usage(now(3)).unwrap().used_blocks;
    fs.allocate(now(4), ino, Bytes(0), Bytes(1 << 20), false).unwrap();
    let after = fs.usage(now(4)).unwrap().used_blocks;
    assert_eq!(after - before, 255, "256 blocks, one of them was there");
    assert_eq!(fs.attributes(now(4), ino).unwrap().size, Bytes(1 << 20));
    let mut fs = remounted(fs);
    let mut bytes = vec![1; 1 << 20];
    assert_eq!(fs.read(now(60), ino, Bytes(0), &mut bytes).unwrap(), 1 << 20);
    assert!(
        bytes.iter().enumerate().all(|(i, b)| *b == if (5000..5100).contains(&i) { 7 } else { 0 })
    );
    assert_eq!(fs.seek(now(60), ino, Bytes(0), false), Ok(Some(Bytes(4096))));
    assert_eq!(fs.seek(now(60), ino, Bytes(4097), true), Ok(Some(Bytes(8192))));
    assert_eq!(fs.seek(now(60), ino, Bytes(8192), false), Ok(None));
    assert_eq!(fs.seek(now(60), ino, Bytes(1 << 20), true), Ok(None));
    // What is reserved is written without taking more.
    fs.write(now(61), ino, Bytes(8192), &[9; 4096]).unwrap();
    assert_eq!(fs.usage(now(61)).unwrap().used_blocks, after);
    remounted(fs);
}

#[test]
fn space_behind_the_end_stays_until_it_is_cut_or_punched() {
    let mut fs = mounted(64);
    let ino = file(&mut fs, "a");
    fs.write(now(3), ino, Bytes(0), &[1; 4096]).unwrap();
    let one = fs.usage(now(3)).unwrap().used_blocks;
    fs.allocate(now(4), ino, Bytes(4096), Bytes(100 * 4096), true).unwrap();
    assert_eq!(fs.attributes(now(4), ino).unwrap().size, Bytes(4096));
    assert_eq!(fs.usage(now(4)).unwrap().used_blocks, one + 100);
    let mut fs = remounted(fs);
    fs.punch(now(60), ino, Bytes(51 * 4096), Bytes(50 * 4096)).unwrap();
    assert_eq!(fs.usage(now(60)).unwrap().used_blocks, one + 50);
    let mut fs = remounted(fs);
    fs.truncate(now(61), ino, Bytes(100)).unwrap();
    assert_eq!(fs.usage(now(61)).unwrap().used_blocks, one);
    remounted(fs);
}

#[test]
fn what_has_no_room_is_refused_as_a_whole() {
    let mut fs = mounted(64);
    let ino = file(&mut fs, "a");
    let before = fs.usage(now(3)).unwrap();
    let refused = fs.allocate(now(4), ino, Bytes(0), Bytes(1 << 30), false);
    assert_eq!(refused, Err(FsError::NoSpace));
    assert_eq!(fs.usage(now(4)).unwrap(), before);
    assert_eq!(fs.attributes(now(4), ino).unwrap().size, Bytes(0));
}

#[test]
fn an_fsync_keeps_reserved_space() {
    let mut fs = mounted(64);
    let ino = file(&mut fs, "a");
    fs.sync(now(3)).unwrap();
    fs.allocate(now(4), ino, Bytes(0), Bytes(2000 * 4096), false).unwrap();
    fs.write(now(4), ino, Bytes(1500 * 4096), &[3; 4096]).unwrap();
    fs.fsync(now(5), ino).unwrap();
    let used = fs.usage(now(5)).unwrap().used_blocks;
    // As after a power cut: nothing but what was written is known.
    let mut fs = Fs::mount(fs.device().clone(), FsOptions::default(), now(6)).unwrap();
    assert_eq!(fs.usage(now(6)).unwrap().used_blocks, used);
    let mut byte = [0];
    fs.read(now(6), ino, Bytes(1500 * 4096), &mut byte).unwrap();
    assert_eq!(byte, [3]);
    remounted(fs);
}

#[test]
fn two_names_change_places() {
    let mut fs = mounted(64);
    let (a, b) = (file(&mut fs, "a"), fs.mkdir(now(2), Nid::ROOT, b"d", NEW).unwrap());
    let inner = fs.mkdir(now(2), b, b"inner", NEW).unwrap();
    assert_eq!(
        fs.exchange(now(3), (Nid::ROOT, b"d"), (inner, b"x")),
        Err(FsError::NotFound),
        "both must be there"
    );
    assert!(matches!(
        fs.exchange(now(3), (Nid::ROOT, b"d"), (b, b"inner")),
        Err(FsError::Invalid(_))
    ));
    fs.exchange(now(3), (Nid::ROOT, b"a"), (b, b"inner")).unwrap();
    assert_eq!(fs.lookup(now(3), Nid::ROOT, b"a"), Ok(inner));
    assert_eq!(fs.lookup(now(3), b, b"inner"), Ok(a));
    assert_eq!(fs.lookup(now(3), inner, b".."), Ok(Nid::ROOT));
    let mut fs = remounted(fs);
    fs.exchange(now(60), (Nid::ROOT, b"a"), (b, b"inner")).unwrap();
    assert_eq!(fs.lookup(now(60), inner, b".."), Ok(b));
    // What is left behind may be a whiteout.
    fs.rename_and_cover(now(61), (Nid::ROOT, b"a"), (b, b"moved"), NEW).unwrap();
    let cover = fs.lookup(now(61), Nid::ROOT, b"a").unwrap();
    let cover = fs.attributes(now(61), cover).unwrap();
    assert_eq!((cover.kind, cover.device), (FileType::Character, (0, 0)));
    assert_eq!(fs.lookup(now(61), b, b"moved"), Ok(a));
    remounted(fs);
}

#[test]
fn a_directory_is_listed_in_parts_while_it_changes() {
    let mut fs = mounted(64);
    for i in 0..700 {
        file(&mut fs, &format!("file-{i}"));
    }
    let (mut at, mut seen) = (0, Vec::new());
    loop {
        let part = fs.entries(now(3), Nid::ROOT, at, 50).unwrap();
        assert!(part.len() <= 50);
        let Some((next, _)) = part.last() else { break };
        at = *next;
        for (_, entry) in part {
            if entry.name.starts_with(b"file-") {
                // What was listed goes at once, as `rm -r` does.
                fs.unlink(now(4), Nid::ROOT, &entry.name).unwrap();
            }
            seen.push(entry.name);
        }
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 702, "every name once, and the two dots");
    assert_eq!(fs.entries(now(5), Nid::ROOT, 0, 10).unwrap().len(), 2);
}

#[test]
fn times_are_set_as_they_are_told() {
    let mut fs = mounted(64);
    let ino = file(&mut fs, "a");
    let stamp = |seconds| varve_lfs::Stamp { seconds, nanos: 999_999_999 };
    let set = SetAttributes {
        accessed: Some(stamp(1)),
        modified: Some(stamp(2)),
        changed: Some(stamp(3)),
        ..SetAttributes::default()
    };
    fs.set_attributes(now(4), ino, set).unwrap();
    let mut fs = remounted(fs);
    let found = fs.attributes(now(60), ino).unwrap();
    assert_eq!([found.accessed, found.modified, found.changed], [stamp(1), stamp(2), stamp(3)]);
}
