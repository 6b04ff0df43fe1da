//! A real file system on the served device, and power cuts under it: a few cycles, for every
//! change. The whole is `scripts/filesystems`.
//!
//! Its own runner, for the same reason as `fuse`.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use live::{FileMedium, Medium};
use serve::Disk;
use serve::disk::MediumDisk;
use serve::fuse::{Mount, Options, Stopped};
use serve::power::{Power, Switch, When};

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

fn command(power: &dyn Power, line: &str) -> Result<String, String> {
    let said = |error: serve::power::PowerError| error.to_string();
    match line.split_whitespace().collect::<Vec<_>>()[..] {
        ["power-cut"] => power.cut(When::Now).map_err(said)?,
        ["power-cut", "--at", when] => power.cut(when.parse()?).map_err(said)?,
        ["power-on"] => power.on().map_err(said)?,
        ["stats"] => {}
        _ => return Err(format!("{line}: unknown")),
    }
    Ok(format!("{{\"operations\": {}}}", power.state().operations))
}

fn main() {
    println!();
    if let Some(reason) = missing() {
        println!("test ext4_keeps_what_fsync_acknowledged ... skipped: {reason}");
        return;
    }
    let folder = std::env::temp_dir().join(format!("varve-filesystems-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let image = folder.join("image");
    File::create(&image).unwrap().set_len(BYTES).unwrap();
    let file = File::options().read(true).write(true).open(&image).unwrap();
    let open = |medium: Arc<dyn Medium>| {
        MediumDisk::new(medium).map(|disk| Arc::new(disk) as Arc<dyn Disk>)
    };
    let switch = Switch::new(Arc::new(FileMedium(file)), 1, Box::new(open)).unwrap();
    let switch = Arc::new(switch);
    let power = switch.clone();
    let options = Options {
        threads: 4,
        stats: Arc::new(String::new),
        command: Some(Arc::new(move |line: &str| command(&*power, line))),
    };
    let dir = folder.join("served");
    let mount = Mount::new(switch, &dir, options).unwrap();
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
