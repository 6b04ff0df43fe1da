//! Volumes that are made here for the kernel to judge, and changes to what it made.

use block::{BlockDevice, Bytes, CutDevice, Rng, Sectors};
use varve_lfs::format::FileType;
use varve_lfs::fs::{Cleaning, Scj};
use varve_lfs::{Fs, FsOptions, MkfsOptions, Nid, mkfs};

use super::manifest::of_volume;
use super::tools::model::{Body, Mix, NEW, Op, apply, draw, fresh, perform};
use super::tools::{Image, now};

const MIX: Mix = Mix { write: 40, fsync: 4, clean: 0, sync: 1, blocks: 60, names: 120 };

fn mounted(seed: u64, size: u64, options: FsOptions) -> Fs<CutDevice> {
    let device = CutDevice::new(Sectors(size / 512));
    let device = mkfs(device, &MkfsOptions::new([seed as u8; 16], 99), now(0)).unwrap().0;
    Fs::mount(device, options, now(1)).unwrap()
}

/// Random work of the model's kinds.
fn work(fs: &mut Fs<CutDevice>, seed: u64, steps: u64) {
    let (mut tree, mut rng) = (fresh(), Rng::stream(seed, "kernel/ours"));
    for step in 0..steps {
        let op = draw(&mut rng, &tree, MIX);
        // The kernel's VFS knows no user attributes of anything but files and directories.
        if let Op::Xattr(ino, ..) = &op
            && !matches!(tree[ino].body, Body::File(_) | Body::Dir(_))
        {
            continue;
        }
        let real = perform(fs, now(step + 2), &op);
        let made = real.as_ref().ok().copied().flatten();
        let _ = apply(&mut tree, &op, made).map_err(|error| assert_eq!(real, Err(error)));
    }
}

/// What random work seldom makes.
fn corners<D: BlockDevice>(fs: &mut Fs<D>) {
    let at = now(10_000);
    let new = |fs: &mut Fs<D>, dir, name: &[u8]| {
        fs.create(at, dir, name, FileType::File, NEW, (0, 0)).unwrap()
    };
    let top = fs.mkdir(at, Nid::ROOT, b"corners", NEW).unwrap();
    // Names of 255 bytes, one below the other.
    let mut dir = top;
    for depth in 0..30 {
        dir = fs.mkdir(at, dir, format!("{depth:d>100}").as_bytes(), NEW).unwrap();
    }
    new(fs, dir, &[b'n'; 255]);
    // Every kind of node.
    let sparse = new(fs, top, b"sparse");
    for (i, index) in
        [0_u64, 922, 923, 2_958, 2_959, 1_039_283, 2_080_000, 900_000_000].into_iter().enumerate()
    {
        fs.write(at, sparse, Bytes(index * 4096), &[i as u8 + 1; 5_000]).unwrap();
    }
    let many = fs.mkdir(at, top, b"many", NEW).unwrap();
    for n in 0..2_000 {
        new(fs, many, format!("{n} of two thousand, some of which go again").as_bytes());
    }
    for n in (0..2_000).step_by(7) {
        let name = format!("{n} of two thousand, some of which go again");
        fs.unlink(at, many, name.as_bytes()).unwrap();
    }
    // Attributes in a node of their own.
    for (index, len) in [(1, 3_000), (4, 900)] {
        fs.set_xattr(at, sparse, index, b"large", Some(&vec![index; len])).unwrap();
    }
    for (name, kind, device) in [
        (&b"pipe"[..], FileType::Fifo, (0, 0)),
        (b"socket", FileType::Socket, (0, 0)),
        (b"small", FileType::Character, (4, 64)),
        (b"wide", FileType::Block, (300, 70_000)),
    ] {
        fs.create(at, top, name, kind, NEW, device).unwrap();
    }
    fs.symlink(at, top, b"long link", &[b'l'; 4_000], NEW).unwrap();
}

/// An orphan: a file without a name that somebody still reads.
fn orphan<D: BlockDevice>(fs: &mut Fs<D>) {
    let ino = fs.create(now(11_000), Nid::ROOT, b"orphan", FileType::File, NEW, (0, 0)).unwrap();
    fs.write(now(11_000), ino, Bytes(0), &[1; 50_000]).unwrap();
    fs.hold(now(11_000), ino).unwrap();
    fs.unlink(now(11_000), Nid::ROOT, b"orphan").unwrap();
}

/// A volume after work, cleanly unmounted, and what is on it.
pub fn volume(seed: u64, size: u64) -> (Image, Vec<String>) {
    let cleaning = if seed % 2 == 1 { Cleaning::Scj(Scj::default()) } else { Cleaning::Bl6 };
    let threaded = cleaning == Cleaning::Bl6;
    let mut fs = mounted(seed, size, FsOptions { cleaning, threaded, ..FsOptions::default() });
    work(&mut fs, seed, 400);
    corners(&mut fs);
    orphan(&mut fs);
    let listed = of_volume(&mut fs, now(12_000)).unwrap();
    (Image::of(&mut fs.unmount(now(12_000)).unwrap()), listed)
}

/// A volume that was never unmounted: a checkpoint, and a chain of fsyncs behind it; and what
/// recovery here finds on it.
pub fn crash(seed: u64, size: u64) -> (Image, Vec<String>) {
    let threaded = seed.is_multiple_of(3);
    let mut fs = mounted(seed, size, FsOptions { threaded, ..FsOptions::default() });
    work(&mut fs, seed ^ 77, 200);
    let dir = fs.mkdir(now(10_000), Nid::ROOT, b"fsynced", NEW).unwrap();
    orphan(&mut fs);
    fs.sync(now(12_001)).unwrap();
    let mut rng = Rng::stream(seed, "kernel/crash");
    let mut files = Vec::new();
    for n in 0..60 {
        let at = now(12_002 + n);
        if n % 3 == 0 {
            let name = format!("file-{n}");
            files.push(fs.create(at, dir, name.as_bytes(), FileType::File, NEW, (0, 0)).unwrap());
        }
        let ino = *rng.pick(&files);
        let len = *rng.pick(&[10, 5_000, 60_000, 1_500_000]);
        let data = vec![n as u8 + 1; len];
        fs.write(at, ino, Bytes(rng.below(4) * 2_000_000), &data).unwrap();
        match rng.below(8) {
            0 => fs.truncate(at, ino, Bytes(rng.below(1_000_000))).unwrap(),
            // Some of it is not durable.
            1 => continue,
            _ => {}
        }
        fs.fsync(at, ino).unwrap();
    }
    fs.create(now(12_100), Nid::ROOT, b"lost", FileType::File, NEW, (0, 0)).unwrap();
    let image = fs.device().image();
    drop(fs);
    let left = Image::of(&mut CutDevice::power_on(image.clone()));
    let options = FsOptions { read_only: true, ..FsOptions::default() };
    let mut fs = Fs::mount(CutDevice::power_on(image), options, now(12_200)).unwrap();
    (left, of_volume(&mut fs, now(12_200)).unwrap())
}

/// Changes of every kind to whatever is there, and what random work seldom makes.
pub fn change<D: BlockDevice>(fs: &mut Fs<D>, seed: u64) {
    let mut rng = Rng::stream(seed, "kernel/change");
    let at = now(4_000_000_000);
    let mut open = vec![Nid::ROOT];
    while let Some(dir) = open.pop() {
        for entry in fs.readdir(at, dir).unwrap() {
            let draw = rng.below(12);
            let (ino, name) = (entry.ino, &entry.name[..]);
            match entry.kind {
                FileType::Directory if name != b"." && name != b".." => open.push(ino),
                FileType::File if draw < 4 => {
                    let place = Bytes(rng.below(30_000));
                    // A volume that was filled may have no room for it.
                    let data = vec![draw as u8; 1 + rng.below(9_000) as usize];
                    let _ = fs.write(at, ino, place, &data);
                }
                FileType::File if draw == 4 => {
                    fs.truncate(at, ino, Bytes(rng.below(20_000))).unwrap();
                }
                FileType::File if draw == 5 => {
                    fs.punch(at, ino, Bytes(3_000), Bytes(9_000)).unwrap();
                }
                FileType::File if draw == 6 => {
                    let _ = fs.set_xattr(at, ino, 1, b"here", Some(b"now"));
                }
                FileType::File if draw == 7 => {
                    let new = [b"moved ".as_slice(), &name[..name.len().min(200)]].concat();
                    let _ = fs.rename(at, (dir, name), (Nid::ROOT, &new));
                }
                FileType::Directory => {}
                _ if draw == 8 => fs.unlink(at, dir, name).unwrap(),
                _ => {}
            }
        }
    }
    let used = fs.usage(at).unwrap();
    if used.blocks - used.used_blocks > 4_000 && fs.lookup(at, Nid::ROOT, b"corners").is_err() {
        corners(fs);
    }
}
