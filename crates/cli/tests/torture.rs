//! `varve torture` and the plans that it leaves, on small programs.

#[path = "../../serve/tests/runner/mod.rs"]
mod runner;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("varve-tortured-{}-{n}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs the program with its temporary files in a folder of this test.
fn varve(folder: &Folder, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_varve"));
    command.args(args).env("TMPDIR", &folder.0).current_dir(&folder.0).output().unwrap()
}

/// Runs a crash test; the exit code and the document.
fn torture(folder: &Folder, args: &[&str]) -> (i32, Value) {
    let out = varve(folder, &[&["torture", "--json"], args].concat());
    let text = String::from_utf8_lossy(&out.stdout);
    let value = serde_json::from_str(&text);
    let value =
        value.unwrap_or_else(|e| panic!("{e}: {text}{}", String::from_utf8_lossy(&out.stderr)));
    (out.status.code().unwrap(), value)
}

fn nothing() -> Result<(), String> {
    Ok(())
}

fn lfs() -> Result<(), String> {
    runner::device("/dev/fuse")?;
    let helper = Command::new("fusermount3").arg("--version").output().map(drop);
    helper.map_err(|error| format!("fusermount3: {error}"))
}

fn ext4() -> Result<(), String> {
    lfs()?;
    runner::root("loop devices, mounts")?;
    runner::device("/dev/loop-control")?;
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    match known.split_whitespace().any(|word| word == "ext4") {
        true => Ok(()),
        false => Err("this kernel has no ext4".to_string()),
    }
}

/// A file for each promise; with `SYNC` both it and its folder are made durable first.
const PROGRAM: &str = r#"
mkdir "$VARVE_DIR/d"; echo ready >"$VARVE_ACK"
for i in 1 2 3 4; do
  echo "begin $i" >"$VARVE_ACK"
  echo "$i" >"$VARVE_DIR/d/$i"
  if [ "$0" = SYNC ]; then sync "$VARVE_DIR/d/$i" "$VARVE_DIR/d"; fi
  echo "$i" >"$VARVE_ACK"
done"#;
const CHECK: &str = r#"
lost=; while read -r i; do [ "$(cat "$VARVE_DIR/d/$i" 2>/dev/null)" = "$i" ] || lost="$lost $i"; done <"$VARVE_ACKED"
[ -z "$lost" ] || { echo "lost:$lost"; exit 1; }"#;

fn lists_and_refusals() {
    let folder = Folder::new();
    let out = varve(&folder, &["torture", "--list", "--json"]);
    let list: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert!(list["results"].as_array().unwrap().len() >= 10);
    for (args, code) in [
        (&["torture"][..], 3),
        (&["torture", "--recipe", "nonsense"], 3),
        (&["torture", "--recipe", "rename", "nonsense=1"], 3),
        (&["torture", "--sector", "1000", "true"], 2),
        (&["torture", "--cuts", "0", "true"], 2),
        (&["torture", "--mode", "live", "true"], 3),
        (&["torture", "--mode", "dead", "true"], 2),
        (&["torture", "--fs", "strict", "--recoveries", "1", "true"], 3),
        (&["torture", "--log", "/nowhere.vlog", "--check", "true", "--fs", "lfs"], 3),
        (&["torture", "--stack", STACK, "true"], 2),
        (&["torture", "--mode", "live", "--stack", STACK, "--size", "1GiB", "true"], 2),
    ] {
        let out = varve(&folder, args);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(code), "{args:?}: {said}");
    }
    for (stack, more, says) in [
        ("ram(64MiB)", &[][..], "nothing cuts its power: expected cut(SEED)"),
        ("image(x, size=1GiB)+cut(1)", &[], "each run begins with a new one in memory"),
        ("drive(nonsense)+log", &[], "nonsense"),
        ("drive(samsung-970pro)+nonsense", &[], "expected log(OPTION=VALUE..), "),
        ("ram(1MiB)+cut(1)", &[], "1048576 bytes: expected 67108864 at least, on ext4"),
        (STACK, &["--fs", "strict"], "--fs strict is no file system on a drive"),
        (STACK, &["--recoveries", "1"], "expected no --recoveries"),
    ] {
        let words = ["torture", "--mode", "live", "--stack", stack];
        let out = varve(&folder, &[&words[..], more, &["--check", "true", "true"]].concat());
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.code() == Some(3) && said.contains(says), "{stack}: {said}");
    }
    fs::write(folder.path("bad.toml"), "plan = 2\nkind = \"torture\"\n").unwrap();
    let out = varve(&folder, &["replay", &folder.path("bad.toml")]);
    assert_eq!(out.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&out.stderr).contains("is missing"));
}

/// Every process of which a file or a variable is in the folder.
fn processes_in(place: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let path = entry.path();
        if path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok())
            == Some(std::process::id())
        {
            continue;
        }
        let read = |name: &str| fs::read(path.join(name)).unwrap_or_default();
        let told = [read("environ"), read("cmdline"), read("maps")].concat();
        if String::from_utf8_lossy(&told).contains(place) {
            found.push(String::from_utf8_lossy(&read("cmdline")).replace('\0', " "));
        }
    }
    found
}

fn nothing_is_left(folder: &Folder) {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let place = folder.0.display().to_string();
    assert_eq!(processes_in(&place), Vec::<String>::new());
    assert!(!mounts.contains(&place), "{mounts}");
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let file = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        assert!(!file.contains(&place), "{file}");
    }
    let left: Vec<_> = fs::read_dir(&folder.0).unwrap().flatten().map(|e| e.file_name()).collect();
    assert!(
        !left.iter().any(|name| name.to_string_lossy().starts_with("varve-torture-")),
        "{left:?}"
    );
}

fn unsynced_files_are_lost_and_synced_ones_kept_on_lfs() {
    let folder = Folder::new();
    let options = ["--fs", "lfs", "--jobs", "1", "--random", "10", "--check", CHECK, "--"];
    let (code, kept) = torture(&folder, &[&options[..], &["sh", "-c", PROGRAM, "SYNC"]].concat());
    assert_eq!((code, kept["results"]["verdict"].as_str()), (0, Some("kept")), "{kept:#}");
    assert_eq!(kept["results"]["recorded"]["promises"], 4);
    let (code, lost) = torture(&folder, &[&options[..], &["sh", "-c", PROGRAM, "NO"]].concat());
    assert_eq!((code, lost["results"]["verdict"].as_str()), (4, Some("lost")), "{lost:#}");
    let blame = &lost["results"]["blame"];
    assert_eq!(blame["missing_fsync"], "the folder /d", "{blame:#}");
    nothing_is_left(&folder);
}

fn what_cannot_be_measured_is_said() {
    let folder = Folder::new();
    let run = |check: &str, program: &str| {
        let options =
            ["--fs", "lfs", "--jobs", "1", "--random", "2", "--limit", "2s", "--check", check];
        let (code, all) =
            torture(&folder, &[&options[..], &["--", "sh", "-c", program, "SYNC"]].concat());
        let text = |name: &str| all["results"][name].as_str().unwrap_or_default().to_string();
        (code, text("verdict"), text("why"))
    };
    let (code, verdict, why) = run("true", PROGRAM);
    assert_eq!((code, verdict.as_str()), (1, "not measured"), "{why}");
    assert!(why.contains("content with a drive that forgot"), "{why}");
    let (code, verdict, why) = run(CHECK, "exit 0");
    assert_eq!((code, verdict.as_str()), (1, "not measured"), "{why}");
    for (check, says) in
        [("exit 7", "ended with 7"), ("exit 1", "no reason"), ("sleep 100", "within")]
    {
        let (code, verdict, why) = run(check, PROGRAM);
        assert_eq!((code, verdict.as_str()), (1, "harness broken"), "{check}: {why}");
        assert!(why.contains(says), "{check}: {why}");
    }
    let (code, verdict, why) = run(CHECK, "exit 3");
    assert_eq!((code, verdict.as_str()), (1, "harness broken"), "{why}");
    nothing_is_left(&folder);
}

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

fn a_hostile_program_ends_within_its_limit_on_lfs() {
    hostile("lfs");
}

fn a_hostile_program_ends_within_its_limit_on_ext4() {
    hostile("ext4");
}

/// There a state is files in a folder, and no mount.
fn a_hostile_program_ends_within_its_limit_on_the_strict_one() {
    hostile("strict");
}

/// Whoever looks what is on a device has it open, and the kernel keeps what it read of it: a state must not be
/// seen through what was there before. (With this, a control lost 77 of 81 worst cases.)
fn another_who_has_the_device_open_changes_nothing() {
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

/// What it saved it keeps in a log; who recovers moves it elsewhere, and forgets one fsync.
const LOGGING: &str = r#"
mkdir "$VARVE_DIR/d"; : >"$VARVE_DIR/d/log"; sync "$VARVE_DIR/d/log" "$VARVE_DIR/d"; echo ready >"$VARVE_ACK"
for i in 1 2 3; do
  echo "$i" >>"$VARVE_DIR/d/log"; sync "$VARVE_DIR/d/log"; echo "$i" >"$VARVE_ACK"
done"#;
const RECOVERS: &str = r#"
cd "$VARVE_DIR/d" || exit 2
if [ -e log ]; then
  cp log new || exit 2
  if [ "$careful" = yes ]; then sync new; fi
  mv new data; [ "$careful" != yes ] || sync .
  rm log; sync .
fi
while read -r i; do grep -qx "$i" data || { echo "lost $i"; exit 1; }; done <"$VARVE_ACKED""#;

fn a_cut_within_a_recovery_is_looked_at() {
    for (careful, code, verdict) in [("yes", 0, "kept"), ("no", 4, "lost")] {
        let folder = Folder::new();
        let check = format!("careful={careful}; {RECOVERS}");
        let options = ["--random", "2", "--recoveries", "3", "--out", "out", "--check", &check];
        let words = [&options[..], &["--", "sh", "-c", LOGGING]].concat();
        let (found, all) = torture(&folder, &words);
        let results = &all["results"];
        assert_eq!((found, results["verdict"].as_str()), (code, Some(verdict)), "{all:#}");
        // What one cut leaves is good either way.
        assert_eq!(
            (&results["worst"]["failed"], &results["drawn"]["failed"]),
            (&0.into(), &0.into())
        );
        let recoveries = results["recoveries"].as_array().unwrap();
        assert!(recoveries.iter().all(|one| one["looked_at"].as_u64() > Some(3)), "{all:#}");
        if verdict == "lost" {
            let plan = results["plans"][0].as_str().expect("a plan");
            let out = varve(&folder, &["replay", plan]);
            let said = String::from_utf8_lossy(&out.stdout).into_owned();
            assert!(out.status.code() == Some(4) && said.contains("as written"), "{said}");
        }
        nothing_is_left(&folder);
    }
}

/// Whoever goes on promising when fsync fails loses what he promised; who stops does not.
fn a_program_whose_drive_fails_is_judged_by_what_it_goes_on_to_promise() {
    let careful = PROGRAM.replace("d\"; fi", "d\" || exit 1; fi");
    assert_ne!(careful, PROGRAM);
    for (program, code, verdict) in [(PROGRAM, 4, "lost"), (&careful, 0, "kept")] {
        let folder = Folder::new();
        let options = ["--mode", "live", "--cuts", "9", "--out", "out", "--check", CHECK, "--"];
        let words = [&options[..], &["sh", "-c", program, "SYNC"]].concat();
        let (found, all) = torture(&folder, &words);
        let results = &all["results"];
        assert_eq!((found, results["verdict"].as_str()), (code, Some(verdict)), "{all:#}");
        let live = &results["live"];
        assert!(live["runs"] == 9 && live["struck"].as_u64() > Some(4), "{live:#}");
        if verdict == "lost" {
            let plan = results["plans"][0].as_str().expect("a plan");
            let out = varve(&folder, &["replay", plan]);
            let said = String::from_utf8_lossy(&out.stdout).into_owned();
            assert!(out.status.code() == Some(4) && said.contains("as written"), "{said}");
        } else {
            assert!(live["complained"].as_u64() > Some(4), "{live:#}");
        }
        nothing_is_left(&folder);
    }
}

/// Small, with a buffer that is lost and a log that recovers.
const STACK: &str = "drive(femu-default, scale=1/64, buffer.policy=lru, buffer.size=1MiB)+log";

/// Runs the program on a stack whose power goes; what came of it.
fn on_a_stack(folder: &Folder, fs: &str, stack: &str, (runs, how): (&str, &str)) -> (i32, Value) {
    let options = ["--mode", "live", "--fs", fs, "--stack", stack, "--cuts", runs, "--out", how];
    let words = [&options[..], &["--check", CHECK, "--", "sh", "-c", PROGRAM, how]].concat();
    torture(folder, &words)
}

fn a_stack_keeps_what_was_synced_and_no_more(fs: &str) {
    let folder = Folder::new();
    let (code, all) = on_a_stack(&folder, fs, STACK, ("10", "SYNC"));
    let results = &all["results"];
    assert_eq!((code, results["verdict"].as_str()), (0, Some("kept")), "{all:#}");
    let stack = &results["stack"];
    assert!(stack["runs"] == 10 && stack["failed"] == 0, "{stack:#}");
    assert!(stack["cut_within"].as_u64() > Some(3), "{stack:#}");
    assert!(stack["operations"].as_u64() > Some(3), "{stack:#}");
    let (code, all) = on_a_stack(&folder, fs, STACK, ("5", "NO"));
    let results = &all["results"];
    assert_eq!((code, results["verdict"].as_str()), (4, Some("lost")), "{all:#}");
    // What it came up with is there, and judged again.
    let plan = results["plans"][0].as_str().expect("a plan");
    let out = varve(&folder, &["replay", plan, "--json"]);
    let again: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(out.status.code(), Some(4), "{again:#}");
    assert_eq!(again["results"]["as_written"], true, "{again:#}");
    assert_eq!(again["results"]["state"], results["failures"][0]["state"], "{again:#}");
    nothing_is_left(&folder);
}

fn a_stack_keeps_what_was_synced_and_no_more_on_lfs() {
    a_stack_keeps_what_was_synced_and_no_more("lfs");
}

fn a_stack_keeps_what_was_synced_and_no_more_on_ext4() {
    a_stack_keeps_what_was_synced_and_no_more("ext4");
}

/// Paper 1's log passes flushes down and does not commit: what was acknowledged is lost with its table.
fn a_stack_that_loses_what_it_acknowledged_is_caught() {
    let folder = Folder::new();
    let stack = "drive(femu-default, scale=1/64, buffer.policy=lru, buffer.size=1MiB)+paper-log";
    let (code, all) = on_a_stack(&folder, "lfs", stack, ("5", "SYNC"));
    assert_eq!((code, all["results"]["verdict"].as_str()), (4, Some("lost")), "{all:#}");
    // A checker that is content with everything measures no stack.
    let options = ["--mode", "live", "--fs", "lfs", "--stack", STACK, "--cuts", "1"];
    let words = [&options[..], &["--check", "true", "--", "sh", "-c", PROGRAM, "SYNC"]].concat();
    let (code, all) = torture(&folder, &words);
    assert_eq!((code, all["results"]["verdict"].as_str()), (1, Some("not measured")), "{all:#}");
    nothing_is_left(&folder);
}

fn a_ci_server_reads_what_came_out() {
    let folder = Folder::new();
    let check = "echo 'lost <&\">'; exit 1";
    let options = ["--fs", "lfs", "--random", "2", "--junit", "it.xml", "--check", check, "--"];
    let (code, _) = torture(&folder, &[&options[..], &["sh", "-c", PROGRAM, "NO"]].concat());
    assert_eq!(code, 4);
    let text = fs::read_to_string(folder.path("it.xml")).unwrap();
    assert!(text.contains("tests=\"2\" failures=\"2\" errors=\"0\""), "{text}");
    assert!(text.contains("lost &lt;&amp;&quot;&gt;\"/></testcase>"), "{text}");
    let options = ["--fs", "lfs", "--random", "2", "--junit", "it.xml", "--check", "exit 9", "--"];
    let (code, _) = torture(&folder, &[&options[..], &["sh", "-c", PROGRAM, "NO"]].concat());
    assert_eq!(code, 1);
    let text = fs::read_to_string(folder.path("it.xml")).unwrap();
    assert!(text.contains("failures=\"0\" errors=\"1\""), "{text}");
    assert!(text.contains("<error message=\"harness broken: "), "{text}");
}

/// The same log, in other processes and any number of them: the same states, the same fates.
fn the_same_again(folder: &Folder, one: &Value, log: &str, options: &[&str]) {
    for jobs in ["1", "3"] {
        let log = ["--log", log, "--jobs", jobs, "--keep-going"];
        let (_, other) = torture(folder, &[&log[..], options].concat());
        assert_eq!(other["results"]["states"], one["results"]["states"]);
        assert_eq!(other["results"]["failures"], one["results"]["failures"]);
    }
}

fn what_is_found_is_found_again(fs: &str) {
    let folder = Folder::new();
    let options = ["--fs", fs, "--recipe", "rename-fsync", "--random", "20", "count=6"];
    let first = ["--jobs", "1", "--keep-going", "--out", "out"];
    let (code, one) = torture(&folder, &[&first[..], &options[..]].concat());
    assert_eq!((code, one["results"]["verdict"].as_str()), (4, Some("lost")), "{one:#}");
    let failures = one["results"]["failures"].as_array().unwrap();
    assert!(failures.len() > 1, "{one:#}");
    the_same_again(&folder, &one, "out/rename-fsync.vlog", &options);
    let plan = one["results"]["plans"][0].as_str().expect("a plan");
    let out = varve(&folder, &["replay", plan, "--json", "--times", "3"]);
    let again: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(again["results"]["times_as_written"], 3, "{again:#}");
    nothing_is_left(&folder);
}

fn what_is_found_is_found_again_on_lfs() {
    what_is_found_is_found_again("lfs");
}

fn what_is_found_is_found_again_on_the_strict_one() {
    what_is_found_is_found_again("strict");
}

fn a_rename_without_its_folder_is_lost_on_ext4_and_replayed() {
    let folder = Folder::new();
    let options = ["--recipe", "rename-fsync", "--random", "20", "--out", "out", "count=6"];
    let (code, one) = torture(&folder, &[&["--jobs", "1", "--keep-going"], &options[..]].concat());
    assert_eq!((code, one["results"]["verdict"].as_str()), (4, Some("lost")), "{one:#}");
    let blame = &one["results"]["blame"];
    assert_eq!(blame["missing_fsync"], "the folder /kept", "{blame:#}");
    let plan = one["results"]["plans"][0].as_str().expect("a plan");
    for times in [1, 5] {
        let out = varve(&folder, &["replay", plan, "--json", "--times", &times.to_string()]);
        let again: Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(out.status.code(), Some(4), "{again:#}");
        assert_eq!(again["results"]["as_written"], true, "{again:#}");
        assert_eq!(again["results"]["times_as_written"], times, "{again:#}");
    }
    let log = "out/rename-fsync.vlog";
    the_same_again(&folder, &one, log, &[&options[..4], &["count=6"]].concat());
    let image = folder.path("drive.img");
    varve(&folder, &["replay", plan, "--image", &image]);
    assert_eq!(fs::metadata(&image).unwrap().len(), 64 << 20);
    // A log that was changed is not believed.
    let path = folder.0.join(log);
    let mut bytes = fs::read(&path).unwrap();
    bytes[100] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert_eq!(varve(&folder, &["replay", plan]).status.code(), Some(3));
    nothing_is_left(&folder);
}

/// Syncs each file and never its folder: ext4 keeps the names of new files that are synced.
const NAMELESS: &str = r#"
mkdir "$VARVE_DIR/d"; echo ready >"$VARVE_ACK"
for i in 1 2 3 4; do
  echo "$i" >"$VARVE_DIR/d/$i"; sync "$VARVE_DIR/d/$i"; echo "$i" >"$VARVE_ACK"
done"#;

fn what_ext4_hides_is_seen_by_the_strict_one() {
    let folder = Folder::new();
    let run = |fs: &str, program: &str| {
        let options = ["--fs", fs, "--random", "20", "--jobs", "2", "--keep-going", "--out", fs];
        let words = [&options[..], &["--check", CHECK, "--", "sh", "-c", program, "SYNC"]].concat();
        torture(&folder, &words)
    };
    let (code, all) = run("ext4", NAMELESS);
    assert_eq!(code, 0, "{all:#}");
    let (code, all) = run("strict", NAMELESS);
    let results = &all["results"];
    assert_eq!((code, results["verdict"].as_str()), (4, Some("lost")), "{all:#}");
    assert_eq!(results["blame"]["missing_fsync"], "the folder /d", "{all:#}");
    assert_eq!(results["blame"]["names"][0], "names: +/w/d/1", "{all:#}");
    let out = varve(&folder, &["replay", results["plans"][0].as_str().expect("a plan")]);
    assert_eq!(out.status.code(), Some(4));
    // With an fsync of each folder nothing is lost.
    let (code, all) = run("strict", PROGRAM);
    assert_eq!((code, all["results"]["verdict"].as_str()), (0, Some("kept")), "{all:#}");
    nothing_is_left(&folder);
}

/// A file that another user made and one that was given away: to whom they belong is as durable as their `fsync`.
const OWNED: &str = r#"
cd "$VARVE_DIR" || exit 1
mkdir d; chown 7:9 d; chmod 2750 d
as() { setpriv --reuid=7 --regid=8 --clear-groups -- "$@"; }
is() { [ "$(stat -c %u:%g:%a "$1")" = "$2" ] || { echo "$1: $(stat -c %u:%g:%a "$1"), not $2" >&2; exit 1; }; }
umask 022
as sh -c 'echo made >d/made; mkdir d/below; ln -s made d/link' || exit 1
echo given >d/given; chown 5 d/given
ln -s made d/link2; chown -h 6:6 d/link2
is d 7:9:2750; is d/made 7:9:644; is d/below 7:9:2755; is d/link 7:9:777; is d/given 5:9:644; is d/link2 6:6:777
if as chown 5 d/made 2>/dev/null; then echo 'gave a file away' >&2; exit 1; fi
echo ready >"$VARVE_ACK"
for i in 1 2 3; do
  chown "1$i" d/given d/below; chmod "70$i" d/given d/below
  if [ "$0" = SYNC ]; then sync d/given d/below; fi
  echo "$i" >"$VARVE_ACK"
done"#;
const OWNERS: &str = r#"
cd "$VARVE_DIR" || exit 2
is() { [ "$(stat -c %u:%g:%a "$1")" = "$2" ] || { echo "$1: $(stat -c %u:%g:%a "$1"), not $2"; exit 1; }; }
is d 7:9:2750; is d/made 7:9:644; is d/link 7:9:777; is d/link2 6:6:777
given=$(stat -c %u d/given) below=$(stat -c %u d/below) i=$(tail -n 1 "$VARVE_ACKED")
if [ -z "$i" ]; then
  case "$given $below" in [51]*' '[71]*) exit 0 ;; *) echo "belong to $given and $below"; exit 1 ;; esac
fi
[ "$given" -ge "1$i" ] || { echo "$i: the file belongs to $given"; exit 1; }
[ "$below" -ge "1$i" ] || { echo "$i: the folder belongs to $below"; exit 1; }"#;

fn strict_as_root() -> Result<(), String> {
    lfs()?;
    runner::root("files are given away")
}

fn owners_are_kept_by_the_strict_one_from_their_fsync_on() {
    let folder = Folder::new();
    for (how, code, verdict) in [("SYNC", 0, "kept"), ("NO", 4, "lost")] {
        let options = ["--fs", "strict", "--random", "20", "--jobs", "2", "--keep-going"];
        let options = [&options[..], &["--no-self-check", "--out", how]].concat();
        let words = [&options[..], &["--check", OWNERS, "--", "sh", "-c", OWNED, how]].concat();
        let (found, all) = torture(&folder, &words);
        let results = &all["results"];
        assert_eq!((found, results["verdict"].as_str()), (code, Some(verdict)), "{all:#}");
        if verdict == "lost" {
            let names = results["blame"]["names"].to_string();
            assert!(names.contains("/w/d/given") || names.contains("/w/d/below"), "{all:#}");
            let out = varve(&folder, &["replay", results["plans"][0].as_str().expect("a plan")]);
            assert_eq!(out.status.code(), Some(4));
        }
    }
    nothing_is_left(&folder);
}

fn pytest() -> Result<(), String> {
    lfs()?;
    let out = Command::new("python3").args(["-m", "pytest", "--version"]).output();
    match out.is_ok_and(|out| out.status.success()) {
        true => Ok(()),
        false => Err("there is no pytest".to_string()),
    }
}

fn a_test_of_pytest_fails_with_the_report() {
    let folder = Folder::new();
    fs::write(folder.path("program.sh"), PROGRAM.replace("$0", "$1")).unwrap();
    fs::write(folder.path("check.sh"), CHECK).unwrap();
    let tests = "
def test_careful(varve_torture):
    result = varve_torture(['sh', 'program.sh', 'SYNC'], check='sh check.sh', random=5)
    assert result.verdict == 'kept'
def test_careless(varve_torture):
    varve_torture(['sh', 'program.sh', 'NO'], check='sh check.sh', random=5)
def test_elsewhere(varve_torture, monkeypatch):
    monkeypatch.setenv('VARVE', '/nowhere/varve')
    varve_torture(['true'])
";
    fs::write(folder.path("test_it.py"), tests).unwrap();
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
    let mut command = Command::new("python3");
    command.args(["-m", "pytest", "-p", "varve.torture", "-p", "no:cacheprovider", "-rs", "-v"]);
    command.arg("test_it.py").current_dir(&folder.0).env("TMPDIR", &folder.0);
    command.env("PYTHONPATH", python).env("PYTHONDONTWRITEBYTECODE", "1");
    let out = command.env("VARVE", env!("CARGO_BIN_EXE_varve")).output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(said.contains("1 failed, 1 passed, 1 skipped"), "{said}");
    assert!(said.contains("an fsync of the folder /d is missing"), "{said}");
    assert!(said.contains("/nowhere/varve: No such file"), "{said}");
    nothing_is_left(&folder);
}

fn main() -> ExitCode {
    let tests = runner::tests![
        lists_and_refusals: nothing,
        unsynced_files_are_lost_and_synced_ones_kept_on_lfs: lfs,
        what_cannot_be_measured_is_said: lfs,
        a_hostile_program_ends_within_its_limit_on_lfs: lfs,
        a_hostile_program_ends_within_its_limit_on_ext4: ext4,
        a_hostile_program_ends_within_its_limit_on_the_strict_one: lfs,
        another_who_has_the_device_open_changes_nothing: ext4,
        a_cut_within_a_recovery_is_looked_at: ext4,
        a_program_whose_drive_fails_is_judged_by_what_it_goes_on_to_promise: ext4,
        a_stack_keeps_what_was_synced_and_no_more_on_lfs: lfs,
        a_stack_keeps_what_was_synced_and_no_more_on_ext4: ext4,
        a_stack_that_loses_what_it_acknowledged_is_caught: lfs,
        a_ci_server_reads_what_came_out: lfs,
        what_ext4_hides_is_seen_by_the_strict_one: ext4,
        owners_are_kept_by_the_strict_one_from_their_fsync_on: strict_as_root,
        a_test_of_pytest_fails_with_the_report: pytest,
        a_rename_without_its_folder_is_lost_on_ext4_and_replayed: ext4,
        what_is_found_is_found_again_on_lfs: lfs,
        what_is_found_is_found_again_on_the_strict_one: lfs,
    ];
    runner::run("torture", &tests)
}
