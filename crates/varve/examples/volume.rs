//! A volume of the file system over a host log over memory; the power goes without a word.
//!
//! `cargo run --release -p varve --example volume`

use varve::block::{Bytes, RamDevice, Sectors};
use varve::fs::{FileType, Fs, FsOptions, MkfsOptions, NewInode, Nid, Now, mkfs};
use varve::log::{HostLog, LogOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let log = HostLog::format(RamDevice::new(Sectors(256 << 11)), &LogOptions::default())?;
    let now = Now { at: log.now(), ..Now::default() };
    let (log, made) = mkfs(log, &MkfsOptions::new([7; 16], 1), now)?;

    let now = Now { at: made, ..now };
    let mut volume = Fs::mount(log, FsOptions::default(), now)?;
    let new = NewInode { permissions: 0o644, uid: 0, gid: 0 };
    let file = volume.create(now, Nid::ROOT, b"ledger", FileType::File, new, (0, 0))?;
    volume.write(now, file, Bytes(0), b"synced")?;
    volume.fsync(now, file)?;
    let done = volume.done();

    // Nobody unmounts the volume or closes the log: each recovers.
    let device = volume.abandon().into_device();
    let log = HostLog::open(device, done, &LogOptions::default())?;
    let now = Now { at: log.now(), ..now };
    let mut volume = Fs::mount(log, FsOptions::default(), now)?;
    let file = volume.lookup(now, Nid::ROOT, b"ledger")?;
    let mut bytes = [0; 6];
    volume.read(now, file, Bytes(0), &mut bytes)?;
    println!("after the cut: {}", String::from_utf8_lossy(&bytes));
    let log = volume.unmount(now)?;
    println!("the log wrote {} blocks, {} of them headers", log.traffic().0, log.counters().header);
    Ok(())
}
