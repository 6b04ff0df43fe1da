//! The part that runs inside the guest: random work on a mounted folder through system calls.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use block::Rng;
use rustix::fs::{FallocateFlags, FileType as Kind, Mode, XattrFlags};

use super::manifest;

type Answer = Result<(), Box<dyn std::error::Error>>;

/// `work SEED STEPS FOLDER`, `manifest FOLDER`, `fsynced SEED FOLDER`, `fill SEED FOLDER`.
pub fn main(words: &[String]) -> Answer {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["work", seed, steps, folder] => work(seed.parse()?, steps.parse()?, Path::new(folder)),
        ["fill", seed, folder] => fill(seed.parse()?, Path::new(folder)),
        ["fsynced", seed, folder] => fsynced(seed.parse()?, Path::new(folder)),
        ["manifest", folder] => {
            manifest::of_folder(Path::new(folder))?.iter().for_each(|line| println!("{line}"));
            Ok(())
        }
        _ => Err("work SEED STEPS FOLDER, fill, fsynced SEED FOLDER, or manifest FOLDER".into()),
    }
}

fn bytes(rng: &mut Rng, len: usize) -> Vec<u8> {
    (0..len.div_ceil(8)).flat_map(|_| rng.next_u64().to_le_bytes()).take(len).collect()
}

struct Work {
    rng: Rng,
    dirs: Vec<PathBuf>,
    files: Vec<PathBuf>,
    made: u64,
}

impl Work {
    fn name(&mut self) -> PathBuf {
        self.made += 1;
        let dir = self.rng.pick(&self.dirs).clone();
        let n = self.made;
        match self.rng.below(8) {
            0 => dir.join(format!("{n:0>180}")),
            1 => dir.join(format!("ünï-{n}")),
            // An extension that mkfs.f2fs thinks cold.
            2 => dir.join(format!("film-{n}.mp4")),
            _ => dir.join(format!("n{n}")),
        }
    }

    fn file(&mut self) -> Option<PathBuf> {
        (!self.files.is_empty()).then(|| self.rng.pick(&self.files).clone())
    }

    fn write(&mut self, path: &Path) -> Answer {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        let at = match self.rng.below(6) {
            0..=2 => 0,
            3 => self.rng.below(20_000),
            4 => self.rng.below(8 << 20),
            // Behind indirect nodes.
            _ => 12 << 30,
        };
        let len = match self.rng.below(4) {
            0 => self.rng.below(200),
            1 => self.rng.below(3_000),
            2 => 4096 * (1 + self.rng.below(8)),
            _ => self.rng.below(300_000),
        };
        let data = bytes(&mut self.rng, len as usize);
        file.write_all_at(&data, at)?;
        if self.rng.ratio(1, 8) {
            file.sync_all()?;
        }
        Ok(())
    }

    fn special(&mut self) -> Answer {
        let path = self.name();
        let kinds = [Kind::Fifo, Kind::Socket, Kind::CharacterDevice, Kind::BlockDevice];
        let kind = *self.rng.pick(&kinds);
        let (major, minor) = *self.rng.pick(&[(8, 1), (300, 70_000), (4, 64)]);
        let device = rustix::fs::makedev(major, minor);
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, Mode::from_raw_mode(0o600), device)?;
        Ok(())
    }

    fn xattr(&mut self, path: &Path) -> Answer {
        let name = format!("{}.a{}", self.rng.pick(&["user", "trusted"]), self.rng.below(4));
        if self.rng.ratio(1, 4) {
            // It may not be there.
            let _ = rustix::fs::removexattr(path, &name);
            return Ok(());
        }
        let len = *self.rng.pick(&[0, 10, 100, 700, 1_500]);
        let value = bytes(&mut self.rng, len);
        match rustix::fs::setxattr(path, &name, &value, XattrFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOSPC | rustix::io::Errno::RANGE) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn remove(&mut self, path: &Path) -> Answer {
        self.files.retain(|known| known != path);
        Ok(std::fs::remove_file(path)?)
    }

    fn change(&mut self, path: PathBuf) -> Answer {
        let file = OpenOptions::new().write(true).open(&path)?;
        match self.rng.below(6) {
            0 => file.set_len(self.rng.below(100_000))?,
            1 => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                let at = self.rng.below(50_000);
                rustix::fs::fallocate(&file, flags, at, 1 + self.rng.below(60_000))?;
            }
            2 => rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 40_000)?,
            3 => rustix::fs::fallocate(&file, FallocateFlags::empty(), 8_192, 30_000)?,
            4 => {
                let mode = 0o400 | self.rng.below(0o1000) as u32;
                std::fs::set_permissions(&path, PermissionsExt::from_mode(mode))?;
            }
            _ => self.xattr(&path)?,
        }
        Ok(())
    }

    fn step(&mut self) -> Answer {
        let draw = self.rng.below(20);
        match (draw, self.file()) {
            (0, _) => {
                let path = self.name();
                std::fs::create_dir(&path)?;
                self.dirs.push(path);
            }
            (1, _) => {
                let path = self.name();
                symlink("x".repeat(1 + self.rng.below(300) as usize), path)?;
            }
            (2, _) => self.special()?,
            (3..=5, Some(path)) => self.change(path)?,
            (6, Some(path)) => {
                let to = self.name();
                std::fs::rename(&path, &to)?;
                self.files.retain(|known| *known != path);
                self.files.push(to);
            }
            (7, Some(path)) => std::fs::hard_link(path, self.name())?,
            (8..=9, Some(path)) => self.remove(&path)?,
            (10..=14, Some(path)) => self.write(&path)?,
            (15, _) => {
                let dir = self.rng.pick(&self.dirs).clone();
                self.xattr(&dir)?;
            }
            _ => {
                let path = self.name();
                self.write(&path)?;
                self.files.push(path);
            }
        }
        Ok(())
    }
}

fn start(seed: u64, folder: &Path) -> Work {
    let dir = folder.join(format!("kernel-{seed}"));
    let dirs = vec![dir.clone(), dir.join("many")];
    Work { rng: Rng::stream(seed, "kernel/guest"), dirs, files: Vec::new(), made: 0 }
}

/// Files, directories and what else there is; and changes to what was there before.
fn work(seed: u64, steps: u64, folder: &Path) -> Answer {
    let before: Vec<PathBuf> = known_files(folder)?;
    let mut work = start(seed, folder);
    std::fs::create_dir(&work.dirs[0])?;
    std::fs::create_dir(&work.dirs[1])?;
    for n in 0..300 {
        File::create(work.dirs[1].join(format!("one of several hundred {n}")))?;
    }
    work.files = before;
    for step in 0..steps {
        work.step().map_err(|error| format!("step {step}: {error}"))?;
    }
    for n in (0..300).step_by(3) {
        std::fs::remove_file(work.dirs[1].join(format!("one of several hundred {n}")))?;
    }
    Ok(())
}

fn known_files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let (mut found, mut open) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                open.push(entry.path());
            } else if entry.file_type()?.is_file() {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Half full and full of holes, so that new blocks go into the holes; then as full as can be.
fn fill(seed: u64, folder: &Path) -> Answer {
    let mut rng = Rng::stream(seed, "kernel/fill");
    for n in 0..400 {
        std::fs::write(folder.join(format!("half-{n}")), bytes(&mut rng, 4096 * 6))?;
    }
    rustix::fs::sync();
    for n in (0..400).step_by(2) {
        std::fs::remove_file(folder.join(format!("half-{n}")))?;
    }
    rustix::fs::sync();
    for n in 0..150 {
        std::fs::write(folder.join(format!("hole-{n}")), bytes(&mut rng, 4096 * 3))?;
    }
    rustix::fs::sync();
    if seed.is_multiple_of(2) {
        until_full(&mut rng, folder, "last", 4)?;
    }
    Ok(())
}

/// Files of so many blocks until there is no room for another; returns how many.
fn until_full(
    rng: &mut Rng,
    folder: &Path,
    name: &str,
    blocks: usize,
) -> Result<u32, Box<dyn std::error::Error>> {
    for n in 0.. {
        let path = folder.join(format!("{name}-{n}"));
        match std::fs::write(&path, bytes(rng, 4096 * blocks)) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {
                std::fs::remove_file(path)?;
                return Ok(n);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(0)
}

/// A checkpoint, and then files that only fsync makes durable; the manifest of those.
fn fsynced(seed: u64, folder: &Path) -> Answer {
    let mut rng = Rng::stream(seed, "kernel/fsynced");
    let dir = folder.join("fsynced");
    std::fs::create_dir(&dir)?;
    for n in 0..20 {
        std::fs::write(dir.join(format!("old-{n}")), bytes(&mut rng, 10_000))?;
    }
    rustix::fs::sync();
    for n in 0..40 {
        // Inline ones, and some with direct nodes of their own.
        let len = *rng.pick(&[100, 100, 3_000, 3_000, 50_000, 50_000, 50_000, 4_200_000]);
        let name = if n % 3 == 0 { format!("old-{}", n / 3) } else { format!("new-{n}") };
        let file =
            OpenOptions::new().create(true).truncate(false).write(true).open(dir.join(name))?;
        file.write_all_at(&bytes(&mut rng, len), rng.below(3) * 9_000)?;
        file.sync_all()?;
    }
    manifest::of_folder(&dir)?.iter().for_each(|line| println!("{line}"));
    for n in 0..5 {
        std::fs::write(folder.join(format!("lost-{n}")), b"not durable")?;
    }
    Ok(())
}
