//! Programs and others on the machine that do their worst, and what of ours is in the way of others.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::place::{Folder, PROGRAM, nothing_is_left, torture};

/// Hangs, becomes a daemon that keeps a file of the drive open, fills the disk, and forks without end.
const HOSTILE: &str = r#"
exec 3>"$VARVE_DIR/open"
(setsid sh -c 'exec 4<"$VARVE_DIR"; while :; do sleep 1; done' &)
head -c 1000000000 /dev/zero >"$VARVE_DIR/full" 2>/dev/null
for i in $(seq 50); do (sleep 1000 &) ; done
yes & sleep 1000"#;

fn hostile(fs: &str) {
    let folder = Folder::new();
    let since = Instant::now();
    let options =
        ["--fs", fs, "--jobs", "1", "--run-limit", "3s", "--limit", "3s", "--random", "1"];
    let words = [&options[..], &["--check", "true", "--", "sh", "-c", HOSTILE]].concat();
    let (code, all) = torture(&folder, &words);
    assert_eq!((code, all["results"]["verdict"].as_str()), (1, Some("harness broken")));
    nothing_is_left(&folder);
    // The same of a checker, of each of two states.
    let words = [&options[..], &["--check", HOSTILE, "--", "sh", "-c", PROGRAM, "NO"]].concat();
    let (code, all) = torture(&folder, &words);
    assert_eq!((code, all["results"]["verdict"].as_str()), (1, Some("harness broken")), "{all:#}");
    assert!(since.elapsed() < Duration::from_secs(180));
    nothing_is_left(&folder);
}

pub fn a_hostile_program_ends_within_its_limit_on_lfs() {
    hostile("lfs");
}

pub fn a_hostile_program_ends_within_its_limit_on_ext4() {
    hostile("ext4");
}

/// There a state is files in a folder, and no mount.
pub fn a_hostile_program_ends_within_its_limit_on_the_strict_one() {
    hostile("strict");
}

/// Whoever looks what is on a device has it open, and the kernel keeps what it read of it: a state must not be
/// seen through what was there before. (With this, a control lost 77 of 81 worst cases.)
pub fn another_who_has_the_device_open_changes_nothing() {
    let folder = Folder::new();
    let place = folder.0.display().to_string();
    let done = std::sync::atomic::AtomicBool::new(false);
    let held = std::thread::scope(|scope| {
        let look = scope.spawn(|| {
            let mut held = Vec::new();
            while !done.load(Ordering::SeqCst) {
                for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
                    let file = fs::read_to_string(entry.path().join("loop/backing_file"));
                    let ours = |file: String| file.contains(&place) && file.contains("worker-");
                    if held.is_empty() && file.is_ok_and(ours) {
                        let device = Path::new("/dev").join(entry.file_name());
                        held.extend(fs::File::open(device));
                    }
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            held.len()
        });
        let options = ["--recipe", "rename-fsync-folder", "--random", "10", "--jobs", "1"];
        // Its end waits until the device is let go.
        let words = [&options[..], &["--keep-going", "count=4"]].concat();
        let (code, all) = torture(&folder, &words);
        done.store(true, Ordering::SeqCst);
        assert_eq!((code, all["results"]["verdict"].as_str()), (0, Some("kept")), "{all:#}");
        look.join().unwrap()
    });
    assert_eq!(held, 1, "nobody looked");
    nothing_is_left(&folder);
}

/// A worker has mounts of its own, and lives as long as the test: a file system that somebody unmounts meanwhile
/// must not stay in use by it. Where mounts are shared, as an init makes them, they go there, too.
pub fn what_others_unmount_is_not_kept_by_a_worker() {
    let folder = Folder::new();
    let check =
        r#"grep -q ' master:' /proc/self/mountinfo || { echo 'mounts of its own alone'; exit 1; }"#;
    let words =
        ["--mount", "--propagation", "shared", "--", env!("CARGO_BIN_EXE_varve"), "torture"];
    let options = ["--random", "1", "--jobs", "1", "--no-self-check", "--check", check, "--"];
    let mut command = Command::new("unshare");
    command.args(words).args(options).args(["sh", "-c", PROGRAM, "SYNC"]);
    let out = command.env("TMPDIR", &folder.0).current_dir(&folder.0).output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert_eq!(out.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&out.stderr));
    nothing_is_left(&folder);
}
