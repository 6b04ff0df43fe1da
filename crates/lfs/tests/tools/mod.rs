//! Devices and the checker of f2fs-tools, for tests.
#![allow(dead_code)] // each test uses its own part

pub mod crash;
pub mod model;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use block::{BlockDevice, Data, Lba, Request, Sectors, Time};
use varve_lfs::{Now, Stamp};

/// A file that goes away with its owner.
pub struct Image(pub PathBuf);

impl Image {
    pub fn new() -> Image {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        Image(std::env::temp_dir().join(format!("varve-lfs-{}-{n}.img", std::process::id())))
    }

    /// An image of `mkfs.f2fs`.
    pub fn made_by_f2fs_tools(bytes: u64, options: &[&str]) -> Image {
        let image = Image::new();
        File::create(&image.0).unwrap().set_len(bytes).unwrap();
        let out = tool("mkfs.f2fs").arg("-f").args(options).arg(&image.0).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        image
    }

    /// The contents of a device, holes kept.
    pub fn of(device: &mut impl BlockDevice) -> Image {
        let image = Image::new();
        let file = File::create(&image.0).unwrap();
        let bytes = device.capacity().bytes().0;
        file.set_len(bytes).unwrap();
        const PIECE: u64 = 1 << 20;
        for at in (0..bytes).step_by(PIECE as usize) {
            let mut data = vec![0; PIECE.min(bytes - at) as usize];
            let sectors = Sectors(data.len() as u64 / 512);
            let request = Request::read(Lba(at / 512), sectors).with(Data::Read(&mut data));
            device.submit(Time::LIMIT, request).unwrap();
            if data.iter().any(|byte| *byte != 0) {
                file.write_all_at(&data, at).unwrap();
            }
        }
        image
    }

    /// Its contents as a device.
    pub fn device(&self) -> block::RamDevice {
        let data = std::fs::read(&self.0).unwrap();
        let mut device = block::RamDevice::new(Sectors(data.len() as u64 / 512));
        let all = Request::write(Lba(0), device.capacity()).with(Data::Write(&data));
        device.submit(Time::ZERO, all).unwrap();
        device
    }

    /// What `fsck.f2fs --dry-run` complains of; empty if it is content.
    pub fn complaints(&self) -> Vec<String> {
        let out = tool("fsck.f2fs").arg("--dry-run").arg(&self.0).output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let bad = |line: &&str| line.contains("[Fail]") || line.contains("[ASSERT]");
        let mut found: Vec<String> = text.lines().filter(bad).map(str::to_string).collect();
        if !out.status.success() {
            found.push(format!("{}: {text}", out.status));
        }
        assert!(
            !found.is_empty() || text.contains("other corrupted bugs"),
            "the checker did not check: {text}"
        );
        found
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// An image file as a device; what was never written takes no room.
pub struct FileDevice {
    file: File,
    sectors: Sectors,
    /// Goes away with the device.
    image: Image,
}

impl FileDevice {
    pub fn new(bytes: u64) -> FileDevice {
        let image = Image::new();
        let file = File::options().create_new(true).read(true).write(true).open(&image.0).unwrap();
        file.set_len(bytes).unwrap();
        FileDevice { file, sectors: Sectors(bytes / 512), image }
    }

    pub fn image(&self) -> &Image {
        &self.image
    }
}

impl BlockDevice for FileDevice {
    fn capacity(&self) -> Sectors {
        self.sectors
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, block::DeviceError> {
        let place = request.lba.0 * 512;
        match request.data {
            Data::Read(out) => self.file.read_exact_at(out, place).unwrap(),
            Data::Write(bytes) if bytes.iter().any(|byte| *byte != 0) => {
                self.file.write_all_at(bytes, place).unwrap();
            }
            // Zeroes over what is a hole stay a hole.
            Data::Write(bytes) => {
                let mut there = vec![0; bytes.len()];
                self.file.read_exact_at(&mut there, place).unwrap();
                if there.iter().any(|byte| *byte != 0) {
                    self.file.write_all_at(bytes, place).unwrap();
                }
            }
            _ => {}
        }
        Ok(at)
    }
}

/// A program of f2fs-tools, which `scripts/setup` installs where no user's path may lead.
pub fn tool(name: &str) -> Command {
    let place = ["/usr/sbin", "/sbin", "/usr/bin", "/usr/local/sbin"]
        .iter()
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.exists());
    Command::new(place.unwrap_or_else(|| panic!("{name} is missing: run scripts/setup")))
}

/// The `n`th second.
pub fn now(n: u64) -> Now {
    Now { at: Time::from_us(n), wall: Stamp { seconds: 1_600_000_000 + n, nanos: 7 } }
}
