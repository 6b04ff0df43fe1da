//! `varve top`: lines, documents and metrics of devices that are served, and `varve view` of them, as a user has them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

fn varve(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_varve")).args(arguments).output().expect("varve runs")
}

fn ok(arguments: &[&str]) -> String {
    let out = varve(arguments);
    assert!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("text")
}

/// A program that runs, in a folder of its own, and what it said first.
struct Runs {
    child: Child,
    said: String,
    folder: Option<PathBuf>,
}

impl Runs {
    fn start(arguments: &[&str], folder: Option<PathBuf>) -> Runs {
        let mut command = Command::new(env!("CARGO_BIN_EXE_varve"));
        let mut child = command.args(arguments).stdout(Stdio::piped()).spawn().expect("varve runs");
        let mut said = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        out.read_line(&mut said).expect("a line");
        Runs { child, said: said.trim().to_string(), folder }
    }

    /// A device served over NBD.
    fn served(name: &str, options: &[&str]) -> Runs {
        let folder = std::env::temp_dir().join(format!("varve-top-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let [nbd, control] = ["nbd", "control"].map(|name| folder.join(name).display().to_string());
        let front = ["serve", "nbd", "--socket", &nbd, "--control", &control];
        Runs::start(&[&front[..], options].concat(), Some(folder))
    }

    fn path(&self, name: &str) -> String {
        self.folder.as_ref().expect("a folder").join(name).display().to_string()
    }

    /// Reads, writes, flushes and discards come in.
    fn load(&self) {
        ok(&["conformance", &format!("nbd+unix:///?socket={}", self.path("nbd"))]);
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

const DRIVE: [&str; 14] = [
    "--ssd",
    "mqsim-default",
    "--set",
    "geometry.blocks=0",
    "--set",
    "capacity=40 MiB",
    "--set",
    "geometry.channels=2",
    "--set",
    "geometry.dies=1",
    "--set",
    "line=plane",
    "--set",
    "op=80 %",
];

/// Every sample by its name and labels. The format is held to: each family stands once, HELP and TYPE
/// before its samples, names and types fit each other, histograms rise to their count.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let (mut all, mut families, mut now) = (BTreeMap::new(), BTreeSet::new(), ("", ""));
    let mut helped = "";
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help");
            assert!(name.starts_with("varve_") && help.ends_with('.'), "{line}");
            assert!(families.insert(name), "twice: {line}");
            helped = name;
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            now = rest.split_once(' ').expect("a type");
            assert_eq!(now.0, helped, "HELP stands before TYPE");
            assert!(["counter", "gauge", "histogram"].contains(&now.1), "{line}");
            assert_eq!(now.1 == "counter", now.0.ends_with("_total"), "{line}");
        } else {
            let (key, value) = line.rsplit_once(' ').expect("a value");
            let name = key.split('{').next().expect("a name");
            let tail = name.strip_prefix(now.0).unwrap_or_else(|| panic!("no family: {line}"));
            let tails: &[&str] =
                if now.1 == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(tails.contains(&tail), "{line}");
            let value: f64 = value.parse().expect("a number");
            assert!(value.is_finite() && value >= 0.0, "{line}");
            assert_eq!(all.insert(key.to_string(), value), None, "twice: {line}");
        }
    }
    let mut before = ("", 0.0);
    for line in text.lines().filter(|line| line.contains("_bucket{")) {
        let (key, _) = line.split_once(",le=").expect("an edge");
        let value: f64 = line.rsplit(' ').next().expect("a value").parse().expect("a number");
        assert!(before.0 != key || before.1 <= value, "falls: {line}");
        if line.contains("+Inf") {
            let count = key.replace("_bucket{", "_count{") + "}";
            assert_eq!(all.get(&count), Some(&value), "{count}");
        }
        before = (key, value);
    }
    assert!(text.ends_with('\n') && all.len() > 20, "{text}");
    all
}

/// The second of two looks at one source: counters have not fallen, and what was asked has grown.
fn grown(first: &str, second: &str) -> BTreeMap<String, f64> {
    let (first, second) = (samples(first), samples(second));
    for (key, value) in &first {
        let falls = ["amplification", "free_"].iter().any(|word| key.contains(word));
        assert!(falls || second[key] >= *value, "{key}: {value}, then {}", second[key]);
    }
    for key in ["varve_host_writes_total", "varve_host_read_bytes_total"] {
        assert!(second[key] > first[key], "{key}");
    }
    second
}

#[test]
fn a_modelled_drive_tells_prometheus_what_it_counts() {
    let served = Runs::served("drive", &DRIVE);
    let control = served.path("control");
    let look = || ok(&["top", &control, "--metrics"]);
    served.load();
    let first = look();
    served.load();
    let all = grown(&first, &look());
    for key in [
        "varve_host_written_bytes_total",
        "varve_host_flushes_total",
        "varve_nand_programmed_bytes_total{cause=\"host\"}",
        "varve_free_blocks{layer=\"drive\"}",
        "varve_host_latency_seconds_count{operation=\"write\"}",
    ] {
        assert!(all.get(key).is_some_and(|value| *value > 0.0), "{key}");
    }
    let programmed: f64 = all
        .iter()
        .filter(|(key, _)| key.starts_with("varve_nand_programmed_bytes_total"))
        .map(|(_, bytes)| bytes)
        .sum();
    // The amplification is the model's: bytes programmed for each byte it was given, as `varve sim`
    // has it.
    let stats: Value = serde_json::from_str(&ok(&["ctl", &control, "stats"])).expect("JSON");
    let disk = |key: &str| stats["disk"][key].as_f64().expect(key);
    let waf = disk("nand_programs") * disk("slot_bytes") / disk("host_write_bytes");
    assert!((all["varve_write_amplification{layer=\"drive\"}"] - waf).abs() < 1e-9);
    assert!((programmed - disk("nand_programs") * disk("slot_bytes")).abs() < 0.5);
    // No log, no file system: nothing of them.
    assert!(!all.keys().any(|key| key.contains("free_segments") || key.contains("varve_fs")));
    // And the same for people and for programs.
    let line = ok(&["top", &control, "--interval", "20ms", "--once"]);
    let lines: Vec<&str> = line.lines().collect();
    assert!(lines.len() == 2 && lines[0].contains("drive waf"), "{line}");
    let document = ok(&["top", &control, "--interval", "0.02", "--json"]);
    let document: Value = serde_json::from_str(&document).expect("one document");
    assert_eq!(document["schema"], "varve.top/1");
    assert_eq!(document["results"]["drive"]["free_blocks"], stats["disk"]["free_blocks"]);
    assert!(document["results"].get("log").is_none());
    // Without a request there is no latency.
    assert!(document["results"]["host"]["read"].get("p50_ns").is_none());
}

#[test]
fn memory_counts_no_flash_and_a_host_log_its_segments() {
    let plain = Runs::served("ram", &["--ram", "48MiB"]);
    plain.load();
    let all = samples(&ok(&["top", &plain.path("control"), "--metrics"]));
    assert!(all["varve_host_read_bytes_total"] > 0.0);
    for absent in ["nand", "amplification", "free", "clean"] {
        assert!(!all.keys().any(|key| key.contains(absent)), "{absent}: {all:?}");
    }
    let log = Runs::served("log", &["--ram", "96MiB", "--remap", "log", "--cut-seed", "1"]);
    log.load();
    let control = log.path("control");
    let all = samples(&ok(&["top", &control, "--metrics"]));
    assert!(all["varve_free_segments{layer=\"log\"}"] > 0.0);
    assert_eq!(all["varve_info{stack=\"host log over ram, 96 MiB\"}"], 1.0);
    assert!(all["varve_write_amplification{layer=\"log\"}"] >= 1.0);
    assert_eq!(all["varve_power_on"], 1.0);
    ok(&["ctl", &control, "power-cut"]);
    let off = samples(&ok(&["top", &control, "--metrics"]));
    assert_eq!((off["varve_power_on"], off["varve_power_cuts_total"]), (0.0, 1.0));
    assert_eq!(off["varve_host_writes_total"], all["varve_host_writes_total"]);
    assert!(ok(&["top", &control, "--interval", "10ms", "--once"]).lines().count() == 2);
}

fn http(address: &str, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let length = format!("Content-Length: {}", body.len());
    assert!(request.starts_with("HEAD") || head.contains(&length), "{head}");
    (head.to_string(), body.to_string())
}

#[test]
fn metrics_are_answered_over_http_on_this_machine() {
    let served = Runs::served("http", &DRIVE);
    let control = served.path("control");
    let scraped = Runs::start(&["top", &control, "--listen", "127.0.0.1:0"], None);
    let address = scraped.said.strip_prefix("http://").and_then(|a| a.strip_suffix("/metrics"));
    let address = address.unwrap_or_else(|| panic!("{}", scraped.said));
    served.load();
    let (head, first) = http(address, "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
    assert!(head.starts_with("HTTP/1.0 200 OK\r\n") && head.contains("version=0.0.4"), "{head}");
    served.load();
    grown(&first, &http(address, "GET /metrics?x=1 HTTP/1.0\r\n\r\n").1);
    let (head, body) = http(address, "HEAD /metrics HTTP/1.0\r\n\r\n");
    assert!(head.starts_with("HTTP/1.0 200") && body.is_empty());
    for (request, status) in [
        ("GET / HTTP/1.0\r\n\r\n".to_string(), "404"),
        ("POST /metrics HTTP/1.0\r\n\r\n".to_string(), "405"),
        ("\r\n\r\n".to_string(), "405"),
        (format!("GET /{} HTTP/1.0\r\n", "x".repeat(8191)), "400"),
    ] {
        let (head, _) = http(address, &request);
        assert!(head.starts_with(&format!("HTTP/1.0 {status}")), "{request:.40}: {head}");
    }
    // Those who say nothing take their places, and no more; who leaves gives one back.
    let silent: Vec<TcpStream> =
        (0..20).map(|_| TcpStream::connect(address).expect("connected")).collect();
    drop(silent);
    let again = || {
        let mut stream = TcpStream::connect(address).ok()?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.starts_with("HTTP/1.0 200").then_some(())
    };
    let came_back = (0..6_000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        again().is_some()
    });
    assert!(came_back, "places are given back");
    drop(served);
    let (head, body) = http(address, "GET /metrics HTTP/1.0\r\n\r\n");
    assert!(head.starts_with("HTTP/1.0 503"), "{head}: {body}");
}

#[test]
fn what_counts_nothing_is_refused() {
    let folder = std::env::temp_dir();
    let here = folder.display().to_string();
    let missing = folder.join("varve-top-missing").display().to_string();
    for (arguments, exit, expected) in [
        (vec![&*here, "--metrics"], 3, "no volume of ours"),
        (vec![&*missing, "--once"], 1, "varve-top-missing"),
        (vec!["/dev/null", "--once"], 3, "expected a socket or a directory"),
        (vec![&*here, "--interval", "1ms"], 2, "10 ms to 3600 s"),
        (vec![&*here, "--json", "--metrics"], 2, "cannot be used with"),
    ] {
        let out = varve(&[&["top"], &arguments[..]].concat());
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(exit), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    let served = Runs::served("any", &["--ram", "1MiB"]);
    let any = varve(&["top", &served.path("control"), "--listen", "0.0.0.0:0"]);
    assert_eq!(any.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&any.stderr).contains("of this machine"));
}

fn asked(address: &str, path: &str) -> (String, String) {
    http(address, &format!("GET {path} HTTP/1.0\r\n\r\n"))
}

/// What a live page is sent, until an event of them holds.
fn followed(address: &str, path: &str, holds: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).expect("sent");
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().expect("a line").expect("read");
    assert!(first.starts_with("HTTP/1.0 200"), "{first}");
    let mut events = Vec::new();
    while !holds(&events) {
        let line = lines.next().expect("it goes on").expect("read within a minute");
        if let Some(data) = line.strip_prefix("data: ") {
            events.push(serde_json::from_str(data).expect("JSON"));
        }
    }
    events
}

#[test]
fn a_live_page_tells_a_power_cut_and_what_comes_after_and_loses_nothing_when_opened_again() {
    let served = Runs::served("live", &DRIVE);
    let control = served.path("control");
    let view = Runs::start(&["view", &control, "--interval", "0.05"], None);
    let (address, secret) =
        view.said.strip_prefix("http://").expect("a URL").split_once('/').expect("a path");
    let (page, events) = (format!("/{secret}"), format!("/{secret}events"));
    // The page holds the counters, for who has no script, and asks nobody but its server.
    let body = asked(address, &page).1;
    assert!(body.contains("connect-src 'self'") && body.contains("new EventSource"));
    assert!(body.contains("nand_programs_host"), "counters in the page itself");
    served.load();
    let on = |events: &[Value]| {
        let wrote = |e: &Value| e["is"]["drive"]["bytes_by_cause"]["host"].as_u64() > Some(0);
        events.iter().any(wrote) && events.iter().any(|e| e["blocks"]["erases"].is_array())
    };
    let before = followed(address, &events, on);
    let blocks = before.iter().find(|e| e["blocks"].is_object()).expect("a map");
    let erases = blocks["blocks"]["erases"].as_array().expect("a list").len();
    assert_eq!(Some(erases), blocks["blocks"]["valid"].as_array().map(Vec::len));
    assert_eq!(erases as u64 % blocks["blocks"]["planes"].as_u64().expect("a number"), 0);
    ok(&["ctl", &control, "power-cut"]);
    followed(address, &events, |events| {
        events.last().is_some_and(|e| e["is"]["power"]["on"] == false)
    });
    ok(&["ctl", &control, "power-on"]);
    let after = followed(address, &events, |events| {
        let state = |e: &Value| e["is"]["power"]["on"].as_bool();
        let off = events.iter().position(|e| state(e) == Some(false));
        off.is_some_and(|off| events[off..].iter().any(|e| state(e) == Some(true)))
    });
    // Who opens it again is told what was before, too.
    let times = |of: &[Value]| of.iter().filter_map(|e| e["at"].as_u64()).collect::<Vec<_>>();
    assert!(times(&after).starts_with(&times(&before)), "the same events first");
    // The same counters, a line each interval, for who reads lines.
    let lines = Runs::start(&["ctl", &control, "watch", "--every", "20"], None);
    let first: Value = serde_json::from_str(&lines.said).expect("JSON");
    assert!(first["asked"].is_object() && first["power"]["cuts"] == 1, "{first}");
    let map: Value = serde_json::from_str(&ok(&["ctl", &control, "blocks"])).expect("JSON");
    assert_eq!(map["erases"].as_array().map(Vec::len), Some(erases));
    // With the server gone the page says so, and goes on.
    drop(served);
    let gone = |events: &[Value]| events.last().is_some_and(|e| e["gone"].is_string());
    followed(address, &events, gone);
    for wrong in ["/", "/events", &format!("/{secret}x")] {
        assert!(asked(address, wrong).0.starts_with("HTTP/1.0 404"), "{wrong}");
    }
}
