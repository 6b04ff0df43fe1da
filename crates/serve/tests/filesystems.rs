//! A real file system on the served device, and power cuts under it: a few cycles, for every
//! change. The whole is `scripts/filesystems`.
//!
//! Its own runner, for the same reason as `fuse`.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use block::Bytes;
use serve::control::Control;
use serve::disk::Timing;
use serve::fuse::{Mount, Options, Stopped};
use serve::stack::{Backing, Remap, StackOptions};

const BYTES: u64 = 160 << 20;

/// Why it cannot run here.
fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("loop devices and mount need root".to_string());
    }
    for device in ["/dev/fuse", "/dev/loop-control"] {
        if let Err(e) = File::options().read(true).write(true).open(device) {
            return Some(format!("{device}: {e}"));
        }
    }
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !known.split_whitespace().any(|word| word == "ext4") {
        return Some("the kernel here has no ext4".to_string());
    }
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    ["mkfs.ext4", "e2fsck", "losetup"].into_iter().find_map(|program| {
        let found = path.split(':').any(|folder| Path::new(folder).join(program).exists());
        (!found).then(|| format!("no {program}"))
    })
}

fn main() {
    println!();
    if let Some(reason) = missing() {
        println!("test ext4_keeps_what_fsync_acknowledged ... skipped: {reason}");
        return;
    }
    let folder = std::env::temp_dir().join(format!("varve-filesystems-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let stack = StackOptions {
        backing: Backing::Image(folder.join("image"), Some(Bytes(BYTES))),
        remap: Remap::Off,
        timing: Timing::Off,
        cut_seed: Some(1),
        read_only: false,
        record: None,
    };
    let stack = stack.build().unwrap();
    let control = Control::new(stack.clone(), Box::new(|| ()));
    let options = Options {
        threads: 4,
        stats: Arc::new(String::new),
        command: Some(Arc::new(move |line: &str| Ok(control.command(line)?.to_string()))),
    };
    let dir = folder.join("served");
    let mount = Mount::new(stack.disk, &dir, options).unwrap();
    let ran = Command::new(env!("CARGO_BIN_EXE_power-cuts"))
        .arg("--file")
        .arg(mount.file())
        .args(["--fs", "ext4", "--cycles", "3", "--longest", "150", "--probes", "4", "--mount"])
        .arg(folder.join("mounted"))
        .status();
    let mut looks = 0;
    let stopped = mount.stop(|_| {
        looks += 1;
        looks < 200
    });
    let passed = ran.unwrap().success() && stopped.unwrap() == Stopped::Clean;
    std::fs::remove_dir_all(&folder).unwrap();
    println!(
        "test ext4_keeps_what_fsync_acknowledged ... {}",
        if passed { "ok" } else { "FAILED" }
    );
    std::process::exit(i32::from(!passed));
}
