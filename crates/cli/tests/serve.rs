//! `varve serve`, `varve ctl` and `varve conformance` as a user has them.

use std::io::{BufRead, BufReader};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

fn varve(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_varve")).args(arguments).output().expect("varve runs")
}

fn text(output: &Output) -> String {
    let of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    of(&output.stdout) + &of(&output.stderr)
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("varve-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }
    fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server that runs; what it said first.
struct Served {
    child: Child,
    said: Vec<String>,
}

impl Served {
    fn start(folder: &Folder, options: &[&str]) -> Served {
        let mut command = Command::new(env!("CARGO_BIN_EXE_varve"));
        command.args(["serve", "nbd", "--socket", &folder.path("nbd")]);
        command.args(["--control", &folder.path("control")]).args(options);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("varve runs");
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        let mut said = Vec::new();
        for _ in 0..3 {
            let mut line = String::new();
            out.read_line(&mut line).expect("a line");
            said.push(line.trim().to_string());
        }
        Served { child, said }
    }
    /// The exit code after a signal.
    fn signal(mut self, name: &str) -> Option<i32> {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &pid]).status().expect("kill runs");
        assert!(sent.success());
        self.child.wait().expect("it ended").code()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It has ended already, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn conformance(folder: &Folder, more: &[&str]) -> serde_json::Value {
    let uri = format!("nbd+unix:///?socket={}", folder.path("nbd"));
    let control = folder.path("control");
    let mut arguments = vec!["conformance", &uri, "--control", &control, "--json"];
    arguments.extend(more);
    let output = varve(&arguments);
    assert!(output.status.success(), "{}", text(&output));
    serde_json::from_slice(&output.stdout).expect("one document")
}

fn verdict(document: &serde_json::Value, number: usize) -> &str {
    document["results"][number - 1]["verdict"].as_str().expect("a verdict")
}

#[test]
fn a_server_says_what_it_can_and_stops_when_told() {
    let folder = Folder::new("serve-nbd");
    let served = Served::start(&folder, &["--ram", "48MiB", "--cut-seed", "3"]);
    assert!(served.said[0].starts_with("nbd+unix:///"), "{:?}", served.said);
    assert!(served.said[2].contains("fua, trim") && served.said[2].contains("write back"));
    let control = folder.path("control");
    let stats: serde_json::Value =
        serde_json::from_slice(&varve(&["ctl", &control, "stats"]).stdout).expect("a document");
    assert_eq!(stats["capabilities"]["size"], 48 << 20);
    let document = conformance(&folder, &[]);
    let passed = (1..=18).filter(|n| verdict(&document, *n) == "pass").count();
    assert_eq!(passed, 16, "{document:#}");
    let off = varve(&["ctl", &control, "power-cut", "--at", "op:1"]);
    assert!(!off.status.success() && text(&off).contains("is over"), "{}", text(&off));
    let wrong = varve(&["ctl", &control, "power-cut", "--at", "noon"]);
    assert!(!wrong.status.success() && text(&wrong).contains("expected now"), "{}", text(&wrong));
    assert_eq!(served.signal("-TERM"), Some(0));
    assert!(!Path::new(&folder.path("nbd")).exists());
}

/// What was flushed is there after a stop under load, by a server that is started again.
#[test]
fn a_stop_under_load_and_a_clean_start() {
    let folder = Folder::new("serve-restart");
    let image = folder.path("image");
    let options = ["--image", &image, "--size", "16MiB", "--cut-seed", "3"];
    let mut served = Served::start(&folder, &options);
    let again = format!(
        "exec {} serve nbd --socket {} --control {} --image {image} --cut-seed 4 > {}",
        env!("CARGO_BIN_EXE_varve"),
        folder.path("nbd"),
        folder.path("control"),
        folder.path("log"),
    );
    let document = conformance(&folder, &["--restart", &again]);
    assert_eq!(verdict(&document, 18), "pass", "{document:#}");
    assert_eq!(served.child.wait().expect("it ended").code(), Some(0));
    let quit = varve(&["ctl", &folder.path("control"), "quit"]);
    assert!(quit.status.success(), "{}", text(&quit));
}

#[test]
fn a_drive_on_an_image_is_served_and_survives() {
    let folder = Folder::new("serve-drive");
    let image = folder.path("image");
    let options = ["--ssd", "image", "--image", &image, "--size", "16MiB", "--cut-seed", "9"];
    let served = Served::start(&folder, &options);
    let document = conformance(&folder, &[]);
    for number in [3, 4, 5, 6, 12] {
        assert_eq!(verdict(&document, number), "pass", "{document:#}");
    }
    assert_eq!(served.signal("-INT"), Some(0));
    let served = Served::start(&folder, &["--ssd", "image", "--image", &image]);
    let cut = varve(&["ctl", &folder.path("control"), "power-cut"]);
    assert!(!cut.status.success() && text(&cut).contains("--cut-seed"), "{}", text(&cut));
    assert_eq!(served.signal("-INT"), Some(0));
}

#[test]
fn what_clients_asked_can_be_replayed() {
    let folder = Folder::new("serve-record");
    let (trace, image) = (folder.path("asked.vtr"), folder.path("image"));
    // The power is off at the end: the trace is whole all the same.
    let options = ["--image", &image, "--size", "16MiB", "--cut-seed", "3", "--record", &trace];
    let served = Served::start(&folder, &options);
    conformance(&folder, &[]);
    assert!(varve(&["ctl", &folder.path("control"), "power-cut"]).status.success());
    assert_eq!(served.signal("-TERM"), Some(0));
    let info = varve(&["trace", "info", &trace, "--json"]);
    let info: serde_json::Value = serde_json::from_slice(&info.stdout).expect("a document");
    let asked = &info["results"];
    for kind in ["read", "write", "flush", "discard", "zero"] {
        assert!(asked[kind]["requests"].as_u64() > Some(0), "{kind}: {asked:#}");
    }
    let ram = varve(&[
        "serve",
        "nbd",
        "--socket",
        &folder.path("s"),
        "--ram",
        "1MiB",
        "--record",
        &trace,
    ]);
    assert!(text(&ram).contains("asked.vtr") && !ram.status.success(), "{}", text(&ram));
}

/// Whoever started a server is told when clients can come, on a descriptor or as a manager of services is.
#[test]
fn it_says_when_it_is_ready() {
    let folder = Folder::new("serve-ready");
    let (nbd, told) = (folder.path("nbd"), folder.path("told"));
    let manager = UnixDatagram::bind(folder.path("manager")).expect("a socket");
    manager.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
    let script = format!(
        "exec {} serve nbd --socket {nbd} --ram 1MiB --ready-fd 7 7>{told} >{}",
        env!("CARGO_BIN_EXE_varve"),
        folder.path("log"),
    );
    let child = Command::new("sh")
        .args(["-c", &script])
        .env("NOTIFY_SOCKET", folder.path("manager"))
        .spawn()
        .expect("sh runs");
    let served = Served { child, said: Vec::new() };
    let mut said = [0; 64];
    let n = manager.recv(&mut said).expect("it is ready");
    assert_eq!(&said[..n], b"READY=1");
    assert_eq!(std::fs::read_to_string(&told).expect("a file"), "ready\n");
    assert!(Path::new(&nbd).exists());
    assert_eq!(served.signal("-TERM"), Some(0));
    let n = manager.recv(&mut said).expect("it stopped");
    assert_eq!(&said[..n], b"STOPPING=1");
    let closed = varve(&["serve", "nbd", "--socket", &nbd, "--ram", "1MiB", "--ready-fd", "99"]);
    assert_eq!(closed.status.code(), Some(3));
    assert!(text(&closed).contains("--ready-fd 99"), "{}", text(&closed));
}

/// A server in the background is there when the command returns, and ends when it is told.
#[test]
fn it_goes_into_the_background() {
    let folder = Folder::new("serve-background");
    let (nbd, control, log) = (folder.path("nbd"), folder.path("control"), folder.path("log"));
    let words = ["serve", "nbd", "--socket", &nbd, "--ram", "1MiB", "--control", &control];
    let started = varve(&[&words[..], &["--background", "--log", &log]].concat());
    assert!(started.status.success(), "{}", text(&started));
    let stats = varve(&["ctl", &control, "stats"]);
    // A second one cannot have the socket: that is said by the command, with its exit code.
    let again = varve(&[&words[..], &["--background"]].concat());
    let quit = varve(&["ctl", &control, "quit"]);
    assert!(text(&started).contains(&nbd) && !text(&started).contains("serving"));
    assert!(stats.status.success(), "{}", text(&stats));
    assert!(!again.status.success() && text(&again).contains("in use"), "{}", text(&again));
    assert!(quit.status.success(), "{}", text(&quit));
    // It is gone when that returns: the next one has its place.
    assert!(!Path::new(&nbd).exists(), "{}", std::fs::read_to_string(&log).unwrap_or_default());
    let next = varve(&[&words[..], &["--background"]].concat());
    let quit = varve(&["ctl", &control, "quit"]);
    assert!(next.status.success() && quit.status.success(), "{}", text(&next));
}

/// Those who only keep a control connection keep no operator out.
#[test]
fn idle_operators_keep_nobody_out() {
    let folder = Folder::new("serve-idle");
    let served = Served::start(&folder, &["--ram", "1MiB"]);
    let control = folder.path("control");
    let idle: Vec<UnixStream> =
        (0..600).map(|_| UnixStream::connect(&control).expect("connected")).collect();
    for _ in 0..20 {
        let stats = varve(&["ctl", &control, "stats"]);
        assert!(stats.status.success(), "{}", text(&stats));
    }
    drop(idle);
    assert_eq!(served.signal("-TERM"), Some(0));
}

/// A device served as a file in `dir`, with what it says to the operator in a file; none where this machine
/// does not allow it.
fn served_by_fuse(folder: &Folder, dir: &str, more: &[&str]) -> Result<Served, String> {
    let (log, words) = (folder.path("log"), more.join(" "));
    let script = format!(
        "exec {} serve fuse {dir} --ram 8MiB --ready-fd 1 {words} 2>{log}",
        env!("CARGO_BIN_EXE_varve"),
    );
    let mut child =
        Command::new("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn().expect("sh runs");
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    while line != "ready\n" {
        line.clear();
        if out.read_line(&mut line).expect("a line") == 0 {
            child.wait().expect("it ended");
            return Err(std::fs::read_to_string(log).expect("a log"));
        }
    }
    Ok(Served { child, said: Vec::new() })
}

/// What a killed server leaves is called by its name, with the command that takes it away.
#[test]
fn a_dead_mount_is_told_and_taken_away() {
    let folder = Folder::new("serve-dead");
    let dir = folder.path("dir");
    if std::fs::File::open("/dev/fuse").is_err() {
        eprintln!("not run: there is no /dev/fuse");
        return;
    }
    let kill = |served: Served| assert_eq!(served.signal("-KILL"), None);
    kill(served_by_fuse(&folder, &dir, &[]).expect("served"));
    let told = format!("a dead mount is there: varve umount {dir}");
    let again = served_by_fuse(&folder, &dir, &[]).map(|_| ()).expect_err("a dead mount");
    assert!(again.contains(&told), "{again}");
    let doctor = varve(&["doctor", "--json"]);
    assert!(text(&doctor).contains(&format!("varve umount {dir}")), "{}", text(&doctor));
    let gone = varve(&["umount", &dir]);
    assert!(gone.status.success(), "{}", text(&gone));
    let none = varve(&["umount", &dir]);
    assert_eq!(none.status.code(), Some(3), "{}", text(&none));
    // By force it is taken away on the way.
    kill(served_by_fuse(&folder, &dir, &[]).expect("served"));
    let served = served_by_fuse(&folder, &dir, &["--force"]).expect("served");
    assert_eq!(served.signal("-TERM"), Some(0));
}

/// Whoever keeps a server from ending is named after a while; `--force` does not wait for him.
#[test]
fn who_keeps_a_server_from_ending_is_named() {
    let folder = Folder::new("serve-held");
    if std::fs::File::open("/dev/fuse").is_err() {
        eprintln!("not run: there is no /dev/fuse");
        return;
    }
    let dir = folder.path("dir");
    let hold = || {
        let file = std::fs::File::open(format!("{dir}/disk.img")).expect("there");
        Command::new("sleep").arg("1000").stdin(file).spawn().expect("sleep runs")
    };
    let release = |mut holder: Child| {
        holder.kill().expect("killed");
        holder.wait().expect("ended");
    };
    let terminate = |served: &Served| {
        let pid = served.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
    };
    let mut served = served_by_fuse(&folder, &dir, &[]).expect("served");
    let holder = hold();
    terminate(&served);
    let who = format!("process {} (sleep): {dir}/disk.img", holder.id());
    let named = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        std::fs::read_to_string(folder.path("log")).expect("a log").contains(&who)
    });
    assert!(named, "{}", std::fs::read_to_string(folder.path("log")).expect("a log"));
    assert!(served.child.try_wait().expect("asked").is_none(), "it waits on");
    release(holder);
    assert_eq!(served.child.wait().expect("it ended").code(), Some(0));

    let mut served = served_by_fuse(&folder, &dir, &["--force"]).expect("served");
    let holder = hold();
    terminate(&served);
    assert_eq!(served.child.wait().expect("it ended").code(), Some(0));
    let said = std::fs::read_to_string(folder.path("log")).expect("a log");
    assert!(said.contains("cut off") && said.contains(&holder.id().to_string()), "{said}");
    release(holder);
}

/// The disk below an image is full: clients are told just that, and the operator at once which file.
#[test]
fn a_full_disk_below_is_told() {
    let folder = Folder::new("serve-full");
    let small = folder.path("small");
    std::fs::create_dir(&small).expect("a folder");
    let words = ["-t", "tmpfs", "-o", "size=2m", "none", &small];
    let mounted = Command::new("mount").args(words).output().expect("mount runs");
    if !mounted.status.success() {
        // Nowhere else can a disk be full for one program alone.
        eprintln!("not run: needs root to mount a small disk: {}", text(&mounted));
        return;
    }
    for layer in ["off", "log"] {
        let image = format!("{small}/image-{layer}");
        let (nbd, log) = (folder.path("nbd"), folder.path("log"));
        let script = format!(
            "exec {} serve nbd --socket {nbd} --image {image} --size 16MiB --remap {layer} \
             --ready-fd 1 2>{log}",
            env!("CARGO_BIN_EXE_varve"),
        );
        let mut child =
            Command::new("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn().expect("runs");
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        while line != "ready\n" {
            line.clear();
            assert!(out.read_line(&mut line).expect("a line") > 0, "it ended");
        }
        let served = Served { child, said: Vec::new() };
        let uri = format!("nbd+unix:///?socket={nbd}");
        let write = ["-f", "raw", "-c", "write -P 7 0 8M", "-c", "flush", &uri];
        let wrote = Command::new("qemu-io").args(write).output().expect("scripts/setup has it");
        assert!(text(&wrote).contains("No space left on device"), "{layer}: {}", text(&wrote));
        let said = std::fs::read_to_string(&log).expect("a log");
        let cause = said.lines().find(|line| line.contains(&image));
        assert!(cause.is_some_and(|line| line.contains("No space left")), "{layer}: {said}");
        served.signal("-TERM");
        std::fs::remove_file(&image).expect("removed");
    }
    let gone = Command::new("umount").arg(&small).status().expect("umount runs");
    assert!(gone.success());
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let folder = Folder::new("serve-wrong");
    let (socket, missing) = (folder.path("s"), folder.path("missing"));
    let cases: [(&[&str], &str); 10] = [
        (&["--ram", "1MiB", "--verify", "off"], "--remap log"),
        (&[], "--ram, --image, --device, --ssd"),
        (&["--image", &missing], "missing"),
        (&["--device", "/dev/null"], "not a block device"),
        (&["--ram", "1MiB", "--timing", "model"], "--ssd PRESET"),
        (&["--ram", "1000"], "multiple of 4096"),
        (&["--ssd", "nothing"], "nothing"),
        (&["--ssd", "image"], "--image FILE"),
        (&["--ram", "1MiB", "--size", "2MiB"], "--size"),
        (&["--ram", "1MiB", "--set", "op=7"], "--set"),
    ];
    for (options, expected) in cases {
        let output = varve(&[&["serve", "nbd", "--socket", &socket], options].concat());
        assert!(!output.status.success());
        assert!(text(&output).contains(expected), "{options:?}: {}", text(&output));
    }
    // What was made for a stack that does not start is gone again.
    for options in [&["--size", "4KiB", "--remap", "log"][..], &["--size", "9000TiB"]] {
        let made = [&["serve", "nbd", "--socket", &socket, "--image", &missing], options].concat();
        let output = varve(&made);
        assert!(!output.status.success() && !Path::new(&missing).exists(), "{}", text(&output));
    }
    let any = varve(&["serve", "nbd", "--tcp", "0.0.0.0:0", "--ram", "1MiB"]);
    assert_eq!(any.status.code(), Some(3));
    assert!(text(&any).contains("--listen-any"), "{}", text(&any));
    let nobody = varve(&["conformance", &format!("nbd+unix:///?socket={missing}")]);
    assert_eq!(nobody.status.code(), Some(1), "{}", text(&nobody));
    assert!(!text(&nobody).contains("checks failed"), "{}", text(&nobody));
    let file = varve(&["conformance", &missing]);
    assert!(text(&file).contains("--overwrite"), "{}", text(&file));
}
