//! `varve remap` on an image that a server has left.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

fn varve(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_varve")).args(words).output().expect("varve runs")
}

fn document(words: &[&str]) -> (Option<i32>, Value) {
    let output = varve(words);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let wrong = |e| panic!("{words:?}: {e}: {text}{}", String::from_utf8_lossy(&output.stderr));
    (output.status.code(), serde_json::from_str(&text).unwrap_or_else(wrong))
}

struct Served(Child);

impl Served {
    /// Serves a host log over `image`, which is made if it is not there.
    fn start(folder: &Path, image: &str, more: &[&str]) -> Served {
        let (socket, control) = (folder.join("nbd"), folder.join("control"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_varve"));
        command.args(["serve", "nbd", "--image", image, "--size", "64MiB", "--remap", "log"]);
        command.arg("--socket").arg(&socket).arg("--control").arg(&control).args(more);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let served = Served(child);
        let begun = Instant::now();
        while !socket.exists() {
            assert!(begun.elapsed() < Duration::from_secs(60), "no server");
            std::thread::sleep(Duration::from_millis(20));
        }
        served
    }

    /// Stops it; what it said to the operator.
    fn stop(mut self) -> String {
        let stop = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status().unwrap();
        assert!(stop.success());
        assert_eq!(self.0.wait().unwrap().code(), Some(0));
        let mut said = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        said
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Gone already if the test went well.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Serves a host log over `image` until 64 KiB are written and flushed, twice in one place.
fn written(folder: &Path, image: &str) {
    let served = Served::start(folder, image, &[]);
    let uri = format!("nbd+unix:///?socket={}", folder.join("nbd").display());
    let wrote = Command::new("qemu-io")
        .args([
            "-f",
            "raw",
            "-c",
            "write -P 7 0 64k",
            "-c",
            "write -P 9 8k 4k",
            "-c",
            "flush",
            &uri,
        ])
        .output()
        .expect("qemu-io: scripts/setup installs it");
    assert!(wrote.status.success(), "{}", String::from_utf8_lossy(&wrote.stderr));
    let busy = varve(&["remap", "check", image]);
    assert!(String::from_utf8_lossy(&busy.stderr).contains("in use"), "{busy:?}");
    served.stop();
}

#[test]
fn what_was_written_is_found_and_damage_is_told() {
    let folder = std::env::temp_dir().join(format!("varve-remap-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let image = folder.join("image");
    let path = image.to_str().unwrap();
    written(&folder, path);

    let (code, sound) = document(&["remap", "check", path, "--json"]);
    assert_eq!(code, Some(0), "{sound}");
    assert_eq!(sound["results"]["mapped"], 16);
    assert_eq!(sound["results"]["checked"], 16);
    assert_eq!(sound["results"]["clean"], true);
    let (_, stats) = document(&["remap", "stats", path, "--json"]);
    assert_eq!(stats["results"]["mapped"], 16);

    let dump = varve(&["remap", "dump", path, "--block", "2"]);
    let text = String::from_utf8_lossy(&dump.stdout).into_owned();
    assert_eq!(text.matches("Write").count(), 2, "{text}");
    let now = text.rsplit("At(Pba(").next().unwrap();
    let place: u64 = now.split(')').next().unwrap().parse().unwrap();
    let beyond = varve(&["remap", "dump", path, "--block", "4294967295"]);
    assert_eq!(beyond.status.code(), Some(3), "{beyond:?}");
    // A reader who has seen enough is no failure, however little there is.
    let mut command = Command::new(env!("CARGO_BIN_EXE_varve"));
    command.args(["remap", "dump", path]).stdout(Stdio::piped());
    let mut unread = command.stderr(Stdio::piped()).spawn().unwrap();
    drop(unread.stdout.take());
    let unread = unread.wait_with_output().unwrap();
    assert_eq!(unread.status.code(), Some(0), "{unread:?}");

    // One byte of the newest copy of block 2.
    let mut bytes = std::fs::read(&image).unwrap();
    bytes[place as usize * 4096 + 5] ^= 1;
    std::fs::write(&image, &bytes).unwrap();
    let (code, hurt) = document(&["remap", "check", path, "--json"]);
    assert_eq!(code, Some(4), "{hurt}");
    assert_eq!(hurt["results"]["damaged_blocks"], serde_json::json!([2]));

    // Whoever reads it is refused, and the operator is told once which block it is and why.
    let served = Served::start(&folder, path, &[]);
    let read = |from: &str, bytes: &str| {
        let uri = format!("nbd+unix:///?socket={}", folder.join("nbd").display());
        let command = format!("read {from} {bytes}");
        Command::new("qemu-io").args(["-f", "raw", "-c", &command, &uri]).output().unwrap()
    };
    assert!(!read("8k", "4k").status.success());
    assert!(!read("0", "64k").status.success());
    assert!(read("12k", "4k").status.success() && read("0", "8k").status.success());
    let control = folder.join("control");
    let metrics = varve(&["top", control.to_str().unwrap(), "--metrics"]);
    let metrics = String::from_utf8_lossy(&metrics.stdout).into_owned();
    assert!(metrics.contains("varve_damaged_blocks_total{layer=\"log\"} 1\n"), "{metrics}");
    let (_, top) = document(&["top", control.to_str().unwrap(), "--interval", "10ms", "--json"]);
    assert_eq!(top["results"]["log"]["damaged_blocks"], 1);
    let said = served.stop();
    assert_eq!(said.matches("block 2 of the host log is damaged: CRC32C").count(), 1, "{said}");
    // By name it is served as it is.
    let served = Served::start(&folder, path, &["--verify", "off"]);
    assert!(read("8k", "4k").status.success());
    served.stop();
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_is_no_log_is_refused() {
    let path = std::env::temp_dir().join(format!("varve-no-log-{}", std::process::id()));
    std::fs::write(&path, vec![1u8; 1 << 20]).unwrap();
    let output = varve(&["remap", "stats", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    std::fs::remove_file(&path).unwrap();
    let missing = varve(&["remap", "check", "/nonexistent/image"]);
    assert!(String::from_utf8_lossy(&missing.stderr).contains("/nonexistent/image"));
}
