//! A real file system on the served device, and power cuts under it: a few cycles, for every
//! change. The whole is `scripts/filesystems`.

mod runner;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use stack::live::Stack;
use varve_serve::control::Control;
use varve_serve::fuse::{Mount, Options, Patience, Stopped};

const BYTES: u64 = 160 << 20;

fn ext4_works() -> Result<(), String> {
    runner::root("loop devices and mounts")?;
    runner::device("/dev/fuse")?;
    runner::device("/dev/loop-control")?;
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !known.split_whitespace().any(|word| word == "ext4") {
        return Err("the kernel here has no ext4".to_string());
    }
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let there = |program: &str| path.split(':').any(|dir| Path::new(dir).join(program).exists());
    match ["mkfs.ext4", "e2fsck", "losetup"].into_iter().find(|program| !there(program)) {
        None => Ok(()),
        Some(program) => Err(format!("no {program}")),
    }
}

fn ext4_keeps_what_fsync_acknowledged() {
    let folder = std::env::temp_dir().join(format!("varve-filesystems-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let image = folder.join("image").display().to_string();
    let stack = format!("image(\"{image}\", size={BYTES})+cut(1)+log");
    let stack = Stack::start(&stack.parse().unwrap()).unwrap();
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
    let stopped = mount.stop(|_, _| {
        looks += 1;
        if looks < 200 { Patience::Wait } else { Patience::Leave }
    });
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(ran.unwrap().success());
    assert_eq!(stopped.unwrap(), Stopped::Clean);
}

fn main() -> ExitCode {
    let tests = runner::tests![ext4_keeps_what_fsync_acknowledged: ext4_works];
    runner::run("filesystems", &tests)
}
