//! `varve serve`, `varve ctl` and `varve conformance` as a user has them.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

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

#[test]
fn what_does_not_fit_together_is_refused() {
    let folder = Folder::new("serve-wrong");
    let (socket, missing) = (folder.path("s"), folder.path("missing"));
    let cases: [(&[&str], &str); 9] = [
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
    for options in [&["--size", "4KiB", "--remap", "varve"][..], &["--size", "9000TiB"]] {
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
