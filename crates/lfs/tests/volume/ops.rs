//! Random work on a volume and on a map in memory: the same answers, the same tree, and a checker
//! that is content.

use crate::tools::model::{Mix, Tree, apply, difference, draw, fresh, perform, read_tree};
use crate::tools::{Image, now};
use block::{RamDevice, Rng, Sectors};
use varve_lfs::{Fs, FsError, FsOptions, MkfsOptions, mkfs};

const MIX: Mix = Mix { write: 40, fsync: 5, clean: 0, sync: 2, blocks: 40, names: 60 };

fn volume(mib: u64) -> RamDevice {
    let device = RamDevice::new(Sectors(mib << 11));
    mkfs(device, &MkfsOptions::new([3; 16], 77), now(0)).unwrap().0
}

/// Works for so many steps; time goes on from `clock`.
fn work(
    fs: &mut Fs<RamDevice>,
    tree: &mut Tree,
    rng: &mut Rng,
    mix: Mix,
    clock: &mut u64,
    steps: u64,
) {
    for step in 0..steps {
        let op = draw(rng, tree, mix);
        *clock += 1;
        let real = perform(fs, now(*clock), &op);
        if real == Err(FsError::NoSpace) {
            continue;
        }
        let model = apply(tree, &op, real.as_ref().ok().copied().flatten());
        assert_eq!(real.map(|_| ()), model, "step {step}: {op:?}");
        if step % 64 == 0 {
            fs.check(now(*clock)).unwrap_or_else(|e| panic!("step {step}, {op:?}: {e}"));
        }
    }
}

fn one(seed: u64, device: RamDevice, mix: Mix, steps: u64) {
    let mut rng = Rng::new(seed);
    let (mut tree, mut clock) = (fresh(), 1);
    let mut device = device;
    for round in 0..3 {
        let mut fs = Fs::mount(device, FsOptions::default(), now(clock)).unwrap();
        assert_eq!(difference(&read_tree(&mut fs, now(clock)).unwrap(), &tree), None);
        work(&mut fs, &mut tree, &mut rng, mix, &mut clock, steps);
        assert_eq!(difference(&read_tree(&mut fs, now(clock)).unwrap(), &tree), None);
        fs.check(now(clock)).unwrap();
        device = fs.unmount(now(clock)).unwrap();
        let complaints = Image::of(&mut device).complaints();
        assert_eq!(complaints, [""; 0], "seed {seed}, round {round}");
    }
    let options = FsOptions { read_only: true, ..FsOptions::default() };
    let mut fs = Fs::mount(device, options, now(clock)).unwrap();
    assert_eq!(difference(&read_tree(&mut fs, now(clock)).unwrap(), &tree), None);
    assert!(matches!(fs.sync(now(clock)), Err(FsError::ReadOnly(_))));
}

#[test]
fn random_work_leaves_what_the_model_has() {
    for seed in 0..6 {
        one(seed, volume(64), MIX, 300);
    }
}

#[test]
fn a_volume_of_mkfs_f2fs_is_worked_on_alike() {
    for seed in 20..22 {
        one(seed, Image::made_by_f2fs_tools(64 << 20, &["-l", "theirs"]).device(), MIX, 200);
    }
}

#[test]
fn what_may_not_be_written_is_read_or_refused_by_name() {
    let said = |features: &str, read_only: bool| {
        let casefold = if features == "casefold" { &["-C", "utf8"][..] } else { &[] };
        let options = [&["-O", features][..], casefold].concat();
        let image = Image::made_by_f2fs_tools(64 << 20, &options);
        let options = FsOptions { read_only, ..FsOptions::default() };
        match Fs::mount(image.device(), options, now(1)) {
            Ok(mut fs) => Ok(fs.readdir(now(1), varve_lfs::Nid::ROOT).unwrap().len()),
            Err(error) => Err(error.to_string()),
        }
    };
    // The last one named is what hinders; the others are what it needs.
    for features in [
        "extra_attr",
        "extra_attr,inode_checksum",
        "extra_attr,flexible_inline_xattr",
        "extra_attr,inode_crtime",
        "quota",
    ] {
        let name = features.split(',').next_back().unwrap();
        let refused = format!("unsupported: writing to a volume with the feature {name}");
        assert_eq!(said(features, false), Err(refused));
        assert_eq!(said(features, true), Ok(2), "{features}");
    }
    for name in ["encrypt", "verity", "sb_checksum", "casefold", "ro"] {
        let refused = format!("unsupported: the volume's feature {name}");
        assert_eq!(said(name, true), Err(refused));
    }
    assert_eq!(said("lost_found", false), Ok(3));
}

#[test]
fn long_files_and_large_directories_reach_every_level() {
    use crate::tools::model::NEW;
    use block::Bytes;
    let mut fs = Fs::mount(volume(128), FsOptions::default(), now(1)).unwrap();
    let file = varve_lfs::format::FileType::File;
    let ino = fs.create(now(2), varve_lfs::Nid::ROOT, b"sparse", file, NEW, (0, 0)).unwrap();
    // Inode, direct, both indirect and the double indirect nodes.
    let places: [u64; 7] = [0, 922, 923, 2_958, 2_959, 1_039_283, 2_080_000_000];
    for (i, index) in places.into_iter().enumerate() {
        let index = index.min(1_057_053_438);
        fs.write(now(3), ino, Bytes(index * 4096), &[i as u8 + 1; 4096]).unwrap();
    }
    for n in 0..2_000 {
        let name = format!("file with a name that takes several slots {n}");
        fs.create(now(4), varve_lfs::Nid::ROOT, name.as_bytes(), file, NEW, (0, 0)).unwrap();
    }
    fs.check(now(5)).unwrap();
    let mut device = fs.unmount(now(6)).unwrap();
    assert_eq!(Image::of(&mut device).complaints(), [""; 0]);
    let mut fs = Fs::mount(device, FsOptions::default(), now(7)).unwrap();
    let mut bytes = [0; 4096];
    fs.read(now(8), ino, Bytes(2_959 * 4096), &mut bytes).unwrap();
    assert_eq!(bytes, [5; 4096]);
    let used = fs.usage(now(8)).unwrap().used_nodes;
    fs.truncate(now(9), ino, Bytes(923 * 4096)).unwrap();
    // Seven direct and indirect nodes and more went.
    assert!(fs.usage(now(9)).unwrap().used_nodes + 7 <= used);
    for n in 0..2_000 {
        let name = format!("file with a name that takes several slots {n}");
        fs.unlink(now(10), varve_lfs::Nid::ROOT, name.as_bytes()).unwrap();
    }
    fs.check(now(11)).unwrap();
    let mut device = fs.unmount(now(12)).unwrap();
    assert_eq!(Image::of(&mut device).complaints(), [""; 0]);
}

#[test]
fn the_last_one_to_let_go_frees_what_has_no_name() {
    use crate::tools::model::NEW;
    use block::Bytes;
    let mut fs = Fs::mount(volume(64), FsOptions::default(), now(1)).unwrap();
    let file = varve_lfs::format::FileType::File;
    let before = fs.usage(now(1)).unwrap();
    let ino = fs.create(now(2), varve_lfs::Nid::ROOT, b"f", file, NEW, (0, 0)).unwrap();
    fs.write(now(3), ino, Bytes(0), &[7; 40_960]).unwrap();
    (0..2).for_each(|_| fs.hold(now(4), ino).unwrap());
    fs.unlink(now(5), varve_lfs::Nid::ROOT, b"f").unwrap();
    fs.release(now(6), ino).unwrap();
    let mut bytes = [0; 10];
    fs.read(now(7), ino, Bytes(0), &mut bytes).unwrap();
    assert_eq!((bytes, fs.release(now(8), ino)), ([7; 10], Ok(())));
    assert_eq!(fs.attributes(now(9), ino), Err(FsError::NotFound));
    assert_eq!(fs.usage(now(9)).unwrap(), before);
    assert!(matches!(fs.release(now(9), ino), Err(FsError::Invalid(_))));
    fs.check(now(10)).unwrap();
}

#[test]
fn what_is_held_outlives_its_name() {
    use crate::tools::model::NEW;
    use block::Bytes;
    let mut fs = Fs::mount(volume(64), FsOptions::default(), now(1)).unwrap();
    let file = varve_lfs::format::FileType::File;
    let ino = fs.create(now(2), varve_lfs::Nid::ROOT, b"f", file, NEW, (0, 0)).unwrap();
    fs.write(now(3), ino, Bytes(0), b"still here").unwrap();
    fs.hold(now(4), ino).unwrap();
    fs.unlink(now(5), varve_lfs::Nid::ROOT, b"f").unwrap();
    fs.sync(now(6)).unwrap();
    fs.check(now(6)).unwrap();
    let mut bytes = [0; 10];
    fs.read(now(7), ino, Bytes(0), &mut bytes).unwrap();
    assert_eq!(&bytes, b"still here");
    // Unmounted with an orphan: the next mount deletes it, and the checker knows of it.
    let mut device = fs.unmount(now(8)).unwrap();
    let orphaned = Image::of(&mut device);
    assert_eq!(orphaned.complaints(), [""; 0]);
    let mut fs = Fs::mount(device, FsOptions::default(), now(9)).unwrap();
    assert_eq!(fs.attributes(now(10), ino), Err(FsError::NotFound));
    fs.check(now(11)).unwrap();
}

#[test]
fn a_tree_that_sload_f2fs_loaded_reads_equal() {
    use block::Bytes;
    let host = std::env::temp_dir().join(format!("varve-lfs-tree-{}", std::process::id()));
    std::fs::create_dir_all(host.join("deep/er")).unwrap();
    let mut wanted = Vec::new();
    // Lengths around a block, the inode's pointers and the first direct node.
    for len in [0, 1, 3_000, 4_096, 4_097, 923 * 4_096 + 5, 2_500 * 4_096] {
        let data: Vec<u8> = (0..len).map(|i: u32| (i * 7 + i / 4_096) as u8).collect();
        let name = format!("file-{len}");
        std::fs::write(host.join("deep/er").join(&name), &data).unwrap();
        wanted.push((name, data));
    }
    for n in 0..300 {
        std::fs::write(host.join(format!("deep/{n}-of-many")), n.to_string()).unwrap();
    }
    std::os::unix::fs::symlink("deep/er", host.join("link")).unwrap();
    let image = Image::made_by_f2fs_tools(100 << 20, &[]);
    let out =
        crate::tools::tool("sload.f2fs").arg("-f").arg(&host).arg(image.path()).output().unwrap();
    std::fs::remove_dir_all(&host).unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
    let mut fs = Fs::mount(image.device(), FsOptions::default(), now(1)).unwrap();
    fs.check(now(1)).unwrap();
    let deep = fs.lookup(now(2), varve_lfs::Nid::ROOT, b"deep").unwrap();
    assert_eq!(fs.readdir(now(2), deep).unwrap().len(), 300 + 1 + 2);
    let deeper = fs.lookup(now(2), deep, b"er").unwrap();
    for (name, data) in wanted {
        let ino = fs.lookup(now(3), deeper, name.as_bytes()).unwrap();
        let mut found = vec![0; data.len() + 1];
        let n = fs.read(now(3), ino, Bytes(0), &mut found).unwrap();
        assert!(found[..n] == data, "{name}: {n} bytes");
        fs.write(now(4), ino, Bytes(data.len() as u64), b"and more").unwrap();
    }
    let link = fs.lookup(now(5), varve_lfs::Nid::ROOT, b"link").unwrap();
    let mut target = [0; 100];
    let n = fs.read(now(5), link, Bytes(0), &mut target).unwrap();
    assert_eq!(&target[..n], b"deep/er");
    for n in 0..150 {
        fs.unlink(now(6), deep, format!("{n}-of-many").as_bytes()).unwrap();
    }
    fs.check(now(7)).unwrap();
    let mut device = fs.unmount(now(8)).unwrap();
    assert_eq!(Image::of(&mut device).complaints(), [""; 0]);
}

/// A write of more than one chunk (32 blocks) at an offset within a block: every byte where it
/// belongs, and none beside it.
#[test]
fn a_long_write_at_an_offset_lands_where_it_was_sent() {
    use crate::tools::model::NEW;
    use block::Bytes;
    let mut fs = Fs::mount(volume(64), FsOptions::default(), now(1)).unwrap();
    let file = varve_lfs::format::FileType::File;
    let ino = fs.create(now(2), varve_lfs::Nid::ROOT, b"long", file, NEW, (0, 0)).unwrap();
    let mut expected = vec![0u8; 100 * 4096 + 9];
    // Before, within and beyond a chunk; from the middle of a block to the middle of another.
    for (round, (at, len)) in
        [(0, 9), (4095, 33 * 4096), (31 * 4096 + 5, 64 * 4096 + 3), (7, 40 * 4096)]
            .into_iter()
            .enumerate()
    {
        let bytes: Vec<u8> = (0..len).map(|i| (i % 251) as u8 ^ (round as u8 + 1)).collect();
        fs.write(now(3), ino, Bytes(at as u64), &bytes).unwrap();
        expected[at..at + len].copy_from_slice(&bytes);
        let end = fs.attributes(now(4), ino).unwrap().size.0 as usize;
        let mut found = vec![0xEE; end];
        assert_eq!(fs.read(now(4), ino, Bytes(0), &mut found).unwrap(), end);
        assert!(found == expected[..end], "round {round}");
    }
    fs.check(now(5)).unwrap();
}
