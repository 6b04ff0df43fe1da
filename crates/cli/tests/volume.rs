//! `varve mkfs`, `mount`, `umount`, `fsck` and `dump` on images.

#[path = "../../serve/tests/runner/mod.rs"]
mod runner;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A folder that goes away with its owner.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("varve-volume-{}-{n}", std::process::id()));
        fs::create_dir_all(path.join("mounted")).unwrap();
        Folder(path)
    }
    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        for name in ["mounted", "small"] {
            let _ = Command::new("umount").arg("-l").arg(self.0.join(name)).output();
        }
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn varve(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_varve")).args(args).output().unwrap()
}

fn code(args: &[&str]) -> i32 {
    varve(args).status.code().unwrap()
}

fn ok(args: &[&str]) -> String {
    let out = varve(args);
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

fn refused(args: &[&str], exit: i32) -> String {
    let out = varve(args);
    assert_eq!(out.status.code(), Some(exit), "{args:?}");
    String::from_utf8(out.stderr).unwrap()
}

fn dump(image: &str, more: &[&str]) -> Value {
    let text = ok(&[&["dump", image, "--json"], more].concat());
    serde_json::from_str::<Value>(&text).unwrap()["results"].take()
}

const UUID: &str = "00112233-4455-6677-8899-aabbccddeeff";

fn a_volume_is_made_checked_and_shown() {
    let folder = Folder::new();
    let image = folder.path("image");
    refused(&["mkfs", &image], 3);
    let least = refused(&["mkfs", &image, "--size", "1MiB"], 3);
    let words: Vec<&str> = least.split_whitespace().collect();
    let at = words.windows(2).position(|pair| pair == ["least", "is"]).expect("the least size");
    let bytes: u64 = words[at + 2].parse().unwrap();
    ok(&["mkfs", &image, "--size", &format!("{bytes}B")]);
    fs::remove_file(&image).unwrap();
    assert!(!Path::new(&image).exists(), "an image for nothing");
    // What is refused takes nothing from what is there.
    let (long, mut held) = ("x".repeat(512), vec![0; 64 << 20]);
    held[40 << 20] = 7;
    fs::write(&image, &held).unwrap();
    refused(&["mkfs", &image, "--label", &long], 3);
    refused(&["mkfs", &image, "--gap", "62MiB"], 3);
    assert!(fs::read(&image).unwrap() == held, "a refused mkfs wrote");
    fs::remove_file(&image).unwrap();
    ok(&["mkfs", &image, "--size", "64MiB", "--label", "a label", "--uuid", UUID]);
    assert!(refused(&["mkfs", &image], 3).contains("--force"));
    refused(&["mkfs", &image, "--force", "--size", "65MiB"], 3);
    ok(&["mkfs", &image, "--force", "--label", "naïve", "--uuid", UUID, "--gap", "4MiB"]);
    assert!(ok(&["fsck", &image]).contains("clean"));
    let all = dump(&image, &[]);
    assert_eq!(all["superblock"]["uuid"], UUID.replace('-', ""));
    assert_eq!(all["superblock"]["label"], "naïve");
    assert_eq!(all["superblock"]["first_block"]["segment0"], 1024);
    assert_eq!(all["checkpoint"]["valid_inodes"], 1);
    assert_eq!(all["journal"], Value::Null);
    let parts = dump(&image, &["--inode", "3", "--nat", "3", "--sit", "0", "--sit", "1"]);
    assert_eq!(parts["node 3"]["inode"]["kind"], "directory");
    assert_eq!(parts["nat 3"]["block"], parts["node 3"]["block"]);
    assert_eq!(parts["sit 0"]["valid_blocks"], 1);
    assert!(parts.get("superblock").is_none());
    assert!(ok(&["dump", &image]).contains("label: naïve"));
    refused(&["dump", &image, "--inode", "77"], 1);
    // Damage, and what is no volume.
    let file = fs::OpenOptions::new().write(true).open(&image).unwrap();
    use std::os::unix::fs::FileExt;
    let at = all["checkpoint"]["pack_at_block"].as_u64().unwrap() * 4096;
    file.write_all_at(&[0xee; 4096], at).unwrap();
    file.write_all_at(&[0xee; 4096], at + (2 << 20)).unwrap();
    assert_eq!(code(&["fsck", &image]), 4);
    file.set_len(0).unwrap();
    file.set_len(64 << 20).unwrap();
    assert_eq!(code(&["fsck", &image]), 8);
    assert_eq!(code(&["fsck", &folder.path("nothing")]), 8);
}

fn a_volume_is_mounted_once_and_unmounted() {
    let folder = Folder::new();
    let (image, dir) = (folder.path("image"), folder.path("mounted"));
    let socket = folder.path("control");
    ok(&["mkfs", &image, "--size", "64MiB"]);
    refused(&["umount", &dir], 3);
    ok(&["mount", &image, &dir, "-o", "noatime,commit=1", "--control", &socket]);
    let file = folder.path("mounted/file");
    fs::write(&file, "text").unwrap();
    for again in [&["mount", &image, &dir][..], &["mkfs", &image, "--force"], &["dump", &image]] {
        assert!(refused(again, 1).contains("mounted on"), "{again:?}");
    }
    assert_eq!(code(&["fsck", &image]), 8);
    let stats: Value = serde_json::from_str(&ok(&["ctl", &socket, "stats"])).unwrap();
    assert_eq!(stats["server"]["inodes"], 2);
    // In use: it stays.
    let open = fs::File::open(&file).unwrap();
    assert!(refused(&["umount", &dir], 1).contains("in use"));
    drop(open);
    ok(&["umount", &dir]);
    assert!(!Path::new(&file).exists());
    assert!(ok(&["fsck", &image]).contains("2 inodes"));
    // At once again, by the name of the image, and ended by its control socket.
    ok(&["mount", &image, &dir, "--no-scj", "--control", &socket]);
    assert_eq!(fs::read(&file).unwrap(), b"text");
    ok(&["ctl", &socket, "quit"]);
    assert!(!Path::new(&file).exists(), "it has ended when that returns");
    ok(&["mount", &image, &dir, "-o", "ro"]);
    assert!(fs::write(&file, "more").is_err());
    ok(&["umount", &image]);
    refused(&["mount", &image, &dir, "-o", "nonsense"], 3);
}

/// The same counters by the directory and by the control socket.
fn what_a_mount_does_is_watched() {
    let folder = Folder::new();
    let (image, dir) = (folder.path("image"), folder.path("mounted"));
    let socket = folder.path("control");
    ok(&["mkfs", &image, "--size", "64MiB"]);
    ok(&["mount", &image, &dir, "--control", &socket]);
    let file = fs::File::create(folder.path("mounted/file")).unwrap();
    (&file).write_all(&[7; 40_960]).unwrap();
    file.sync_all().unwrap();
    for source in [&dir, &socket] {
        let text = ok(&["top", source, "--metrics"]);
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("{name}: {text}")).parse::<f64>().unwrap()
        };
        assert_eq!(value("varve_host_written_bytes_total"), 40_960.0);
        assert_eq!(value("varve_host_flushes_total"), 1.0);
        // The data of the file, and what else the volume takes for data.
        assert!(value("varve_fs_written_bytes_total{cause=\"data\"}") >= 40_960.0);
        assert!(value("varve_device_written_bytes_total") > 40_960.0);
        assert!(value("varve_write_amplification{layer=\"fs\"}") > 1.0);
        assert!(value("varve_free_segments{layer=\"fs\"}") > 0.0);
        let document = ok(&["top", source, "--interval", "20ms", "--json"]);
        let document: Value = serde_json::from_str(&document).unwrap();
        assert_eq!(document["results"]["host"]["write"]["bytes"], 40_960);
    }
    drop(file);
    ok(&["umount", &dir]);
}

/// The directory of `varve serve fuse` tells, too.
fn a_device_as_a_file_is_watched() {
    let folder = Folder::new();
    let dir = folder.path("mounted");
    let mut child = Command::new(env!("CARGO_BIN_EXE_varve"))
        .args(["serve", "fuse", &dir, "--ram", "16MiB"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let disk = fs::OpenOptions::new().write(true).open(folder.path("mounted/disk.img")).unwrap();
    (&disk).write_all(&[7; 8192]).unwrap();
    drop(disk);
    let text = ok(&["top", &dir, "--metrics"]);
    assert!(text.contains("\nvarve_host_written_bytes_total 8192\n"), "{text}");
    let pid = child.id().to_string();
    assert!(Command::new("kill").arg(&pid).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

fn as_mount_calls_it() {
    let folder = Folder::new();
    let (image, dir) = (folder.path("image"), folder.path("mounted"));
    let helper = folder.path("mount.fuse.varve");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_varve"), &helper).unwrap();
    ok(&["mkfs", &image, "--size", "64MiB"]);
    let words = [&image, &dir, "-n", "-o", "rw,noatime", "-t", "fuse.varve"];
    let run = |more: &[&str]| {
        let out = Command::new(&helper).args(words).args(more).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    assert_eq!(run(&["-f"]), "");
    ok(&["fsck", &image]);
    assert_eq!(run(&[]), "");
    fs::write(folder.path("mounted/file"), "text").unwrap();
    ok(&["umount", &dir]);
    assert!(run(&["-v"]).contains("a power cut leaves"));
    ok(&["umount", &dir]);
    // A stack in memory needs no image.
    ok(&["mount", &dir, "--ram", "64MiB", "--mkfs", "--label", "memory"]);
    fs::write(folder.path("mounted/file"), "text").unwrap();
    ok(&["umount", &dir]);
    // Over the host log, and over a modelled drive in memory.
    let log = folder.path("log");
    let stack = ["--image", &log, "--size", "256MiB", "--remap", "log", "--mkfs"];
    ok(&[&["mount", dir.as_str()][..], &stack].concat());
    fs::write(folder.path("mounted/file"), "text").unwrap();
    ok(&["umount", &log]);
    assert!(ok(&["fsck", &log, "--remap", "log"]).contains("2 inodes"));
}

/// The kernel keeps attributes for good: that a write took the set-user bit away, it has to be told. It went on to show the bit
/// (and to run the file as its owner) until it forgot the file.
fn who_writes_to_a_program_takes_its_set_user_bit_away_at_once() {
    for how in ["rw", "writeback"] {
        who_writes_takes_bits_away(how);
    }
}

fn who_writes_takes_bits_away(options: &str) {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let (image, dir) = (folder.path("image"), folder.path("mounted"));
    // Others come here, too.
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o755)).unwrap();
    ok(&["mkfs", &image, "--size", "64MiB"]);
    ok(&["mount", &image, &dir, "-o", options]);
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    let file = folder.path("mounted/program");
    let other = folder.path("mounted/other");
    fs::write(&other, [7; 8192]).unwrap();
    fs::write(&file, [1; 8192]).unwrap();
    for how in [
        "dd if=/dev/zero of=FILE bs=4096 count=1 conv=notrunc",
        "dd if=/dev/zero of=FILE bs=4096 count=1 conv=notrunc oflag=direct",
        "fallocate -l 16384 FILE",
        "fallocate --punch-hole -o 0 -l 4096 FILE",
        "truncate -s 4096 FILE",
        "python3 -c 'import os; os.copy_file_range(os.open(\"OTHER\", 0), os.open(\"FILE\", 1), 4096)'",
    ] {
        fs::set_permissions(&file, fs::Permissions::from_mode(0o6777)).unwrap();
        let mode = || fs::metadata(&file).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(), 0o6777);
        let script = how.replace("FILE", &file).replace("OTHER", &other);
        let words = ["--reuid=7", "--regid=8", "--clear-groups", "--", "sh", "-c", &script];
        let out = Command::new("setpriv").args(words).output().unwrap();
        assert!(out.status.success(), "{how}: {}", String::from_utf8_lossy(&out.stderr));
        assert_eq!(mode(), 0o777, "{options}: {how}");
    }
    // Who may do what he wants changes nothing of it.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o6777)).unwrap();
    fs::write(&other, [8; 8192]).unwrap();
    fs::OpenOptions::new().write(true).open(&file).unwrap().write_all(&[2; 4096]).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o6777);
    ok(&["umount", &dir]);
}

/// Whoever unmounts by umount(8) does not wait for the last checkpoint; who mounts the device next does. One that
/// others hold is refused at once.
fn a_device_is_mounted_again_as_soon_as_it_is_free() {
    let folder = Folder::new();
    let (image, dir) = (folder.path("image"), folder.path("mounted"));
    fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    let run = |words: &[&str]| {
        let out = Command::new(words[0]).args(&words[1..]).output().unwrap();
        assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    let device = run(&["losetup", "--find", "--show", &image]);
    let device = device.trim();
    let loop_device = Detached(device.to_string());
    ok(&["mkfs", device]);
    for i in 0..20 {
        ok(&["mount", device, &dir]);
        fs::write(folder.path("mounted/file"), vec![i; 1 << 20]).unwrap();
        run(&["umount", &dir]);
    }
    ok(&["fsck", device]);
    run(&["mkfs.ext4", "-q", "-F", device]);
    run(&["mount", device, &dir]);
    let (since, out) = (Instant::now(), varve(&["mount", device, &dir]));
    run(&["umount", &dir]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success() && said.contains("busy"), "{said}");
    assert!(since.elapsed() < Duration::from_secs(20), "it waited for nothing");
    drop(loop_device);
}

/// A loop device that goes with its test.
struct Detached(String);

impl Drop for Detached {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

/// A mount in the foreground, once it is there.
fn foreground(args: &[&str]) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_varve"))
        .arg("mount")
        .args(args)
        .arg("--foreground")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let relies = lines.next().unwrap().unwrap();
    assert!(relies.contains("pieces of 512 bytes"), "{relies}");
    assert_eq!(lines.next().unwrap().unwrap(), "mounted");
    child
}

/// The device takes no more while the volume is mounted: that is said at once, with what was lost, and by the
/// unmount, which fails; and the volume is judged as recovery leaves it.
fn a_device_that_fails_is_told_of() {
    let folder = Folder::new();
    let (dir, log, small) = (folder.path("mounted"), folder.path("log"), folder.path("small"));
    fs::create_dir(&small).unwrap();
    let tmpfs = ["-t", "tmpfs", "-o", "size=16m", "tmpfs", &small];
    assert!(Command::new("mount").args(tmpfs).status().unwrap().success());
    let image = folder.path("small/image");
    ok(&["mkfs", &image, "--size", "128MiB"]);
    ok(&["mount", &image, &dir, "--log", &log]);
    let synced = fs::File::create(folder.path("mounted/synced")).unwrap();
    (&synced).write_all(&[5; 100_000]).unwrap();
    synced.sync_all().unwrap();
    fs::write(folder.path("mounted/unsynced"), "text").unwrap();
    let big = fs::File::create(folder.path("mounted/big")).unwrap();
    let failed =
        (0..64).any(|_| (&big).write_all(&[7; 1 << 20]).and_then(|()| big.sync_all()).is_err());
    assert!(failed, "16 MiB hold 64");
    let said = fs::read_to_string(&log).unwrap();
    assert!(said.contains("read-only until") && said.contains("`unsynced`"), "{said}");
    assert!(fs::write(folder.path("mounted/more"), "text").is_err());
    drop((synced, big));
    let told = refused(&["umount", &dir], 1);
    assert!(told.contains("not durable") && told.contains("`unsynced`"), "{told}");
    // Told once, and nothing is left of it.
    let told: Value = serde_json::from_slice(&varve(&["fsck", &image, "--json"]).stdout).unwrap();
    assert_eq!(told["results"]["state"], "not unmounted", "{told}");
    let room = ["-o", "remount,size=256m", &small];
    assert!(Command::new("mount").args(room).status().unwrap().success());
    assert_eq!(code(&["fsck", &image, "--recover"]), 1);
    ok(&["mount", &image, &dir]);
    assert_eq!(fs::read(folder.path("mounted/synced")).unwrap(), [5; 100_000]);
    ok(&["umount", &dir]);
    assert!(Command::new("umount").arg(&small).status().unwrap().success());
}

fn damage_that_a_reader_meets_is_in_the_log() {
    use std::os::unix::fs::{FileExt, MetadataExt};
    let folder = Folder::new();
    let (image, dir) = (folder.path("image"), folder.path("mounted"));
    let (log, file) = (folder.path("log"), folder.path("mounted/file"));
    ok(&["mkfs", &image, "--size", "64MiB"]);
    ok(&["mount", &image, &dir]);
    fs::write(&file, vec![7; 50_000]).unwrap();
    let ino = fs::metadata(&file).unwrap().ino().to_string();
    ok(&["umount", &dir]);
    let node = dump(&image, &["--inode", &ino]);
    let block = node[&format!("node {ino}")]["block"].as_u64().unwrap();
    // The number of the node in its footer.
    let device = fs::OpenOptions::new().write(true).open(&image).unwrap();
    device.write_all_at(&[0xee], (block + 1) * 4096 - 24).unwrap();
    ok(&["mount", &image, &dir, "--log", &log]);
    for _ in 0..3 {
        assert!(fs::read(&file).is_err());
    }
    ok(&["umount", &dir]);
    let said = fs::read_to_string(&log).unwrap();
    assert_eq!(said.matches("could not be read").count(), 1, "{said}");
    assert!(said.contains("varve fsck"), "{said}");
}

fn after_a_crash_it_is_recovered() {
    let folder = Folder::new();
    let (image, dir) = (folder.path("image"), folder.path("mounted"));
    ok(&["mkfs", &image, "--size", "64MiB"]);
    let mut child = foreground(&[&image, &dir]);
    fs::write(folder.path("mounted/synced"), "text").unwrap();
    fs::File::open(folder.path("mounted/synced")).unwrap().sync_all().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    ok(&["umount", &dir]);
    let found = dump(&image, &[]);
    assert_eq!(
        (&found["superblock"]["live"], &found["journal"]["slots"]),
        (&Value::Bool(true), &Value::from(64))
    );
    // Looking changes nothing; recovery does, once.
    let before = fs::read(&image).unwrap();
    let told: Value = serde_json::from_slice(&varve(&["fsck", &image, "--json"]).stdout).unwrap();
    assert_eq!(told["results"]["exit"], 4);
    assert!(fs::read(&image).unwrap() == before);
    assert_eq!(code(&["fsck", &image, "--recover"]), 1);
    assert_eq!(code(&["fsck", &image, "--recover"]), 0);
    assert_eq!(dump(&image, &["--superblock"])["superblock"]["live"], false);
    // And so does the next mount.
    let mut child = foreground(&[&image, &dir]);
    assert_eq!(fs::read(folder.path("mounted/synced")).unwrap(), b"text");
    child.kill().unwrap();
    child.wait().unwrap();
    ok(&["umount", &dir]);
    ok(&["mount", &image, &dir]);
    assert_eq!(fs::read(folder.path("mounted/synced")).unwrap(), b"text");
    ok(&["umount", &dir]);
    assert_eq!(code(&["fsck", &image]), 0);
}

/// What a server has taken and nobody waits for may still be in its memory when it is killed; what was synced is not.
fn a_server_killed_beside_writers_loses_nothing_that_was_synced() {
    let folder = Folder::new();
    let (image, dir) = (folder.path("image"), folder.path("mounted"));
    ok(&["mkfs", &image, "--size", "256MiB"]);
    let mut synced: Vec<(String, usize)> = Vec::new();
    for round in 0..3_usize {
        let mut child = foreground(&[&image, &dir]);
        let count = [AtomicUsize::new(0), AtomicUsize::new(0)];
        let writer = |client: usize| {
            let mut synced = Vec::new();
            loop {
                let n = synced.len();
                let (name, len) = (format!("{dir}/r{round}c{client}n{n}"), 1 + n * 7919 % 30_000);
                let write = || {
                    let mut file = fs::File::create(&name)?;
                    file.write_all(&vec![n as u8; len])?;
                    // Nobody waits for this.
                    fs::write(format!("{name}-unsynced"), [1; 20_000])?;
                    file.sync_all()
                };
                match write() {
                    Ok(()) => {
                        synced.push((name, len));
                        count[client].fetch_add(1, Ordering::SeqCst);
                    }
                    Err(_) => return synced,
                }
            }
        };
        std::thread::scope(|scope| {
            let writer = &writer;
            let clients: Vec<_> = (0..2).map(|n| scope.spawn(move || writer(n))).collect();
            let since = Instant::now();
            while count.iter().any(|count| count.load(Ordering::SeqCst) < 40 + 23 * round) {
                assert!(since.elapsed() < Duration::from_secs(60), "nothing is synced");
                std::thread::sleep(Duration::from_millis(1));
            }
            child.kill().unwrap();
            child.wait().unwrap();
            for client in clients {
                synced.extend(client.join().unwrap());
            }
        });
        let told = refused(&["mount", &image, &dir], 1);
        assert!(told.contains(&format!("a dead mount is there: varve umount {dir}")), "{told}");
        ok(&["umount", &dir]);
        ok(&["mount", &image, &dir]);
        for (name, len) in &synced {
            let n: usize = name.rsplit('n').next().unwrap().parse().unwrap();
            assert!(fs::read(name).unwrap() == vec![n as u8; *len], "{name}");
        }
        ok(&["umount", &dir]);
        assert_eq!(code(&["fsck", &image]), 0);
    }
}

fn mounting() -> Result<(), String> {
    runner::root("mounting")?;
    runner::device("/dev/fuse")
}

fn loops() -> Result<(), String> {
    mounting()?;
    runner::device("/dev/loop-control")?;
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    match known.split_whitespace().any(|word| word == "ext4") {
        true => Ok(()),
        false => Err("this kernel has no ext4".to_string()),
    }
}

fn main() -> ExitCode {
    let tests = runner::tests![
        a_volume_is_made_checked_and_shown: || Ok(()),
        a_volume_is_mounted_once_and_unmounted: mounting,
        a_server_killed_beside_writers_loses_nothing_that_was_synced: mounting,
        what_a_mount_does_is_watched: mounting,
        a_device_as_a_file_is_watched: mounting,
        as_mount_calls_it: mounting,
        who_writes_to_a_program_takes_its_set_user_bit_away_at_once: mounting,
        a_device_is_mounted_again_as_soon_as_it_is_free: loops,
        after_a_crash_it_is_recovered: mounting,
        damage_that_a_reader_meets_is_in_the_log: mounting,
        a_device_that_fails_is_told_of: mounting,
    ];
    runner::run("volume", &tests)
}
