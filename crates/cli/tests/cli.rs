//! The command line as scripts see it: exit codes, one JSON document, errors with file and line,
//! the same bytes from equal runs.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A folder of one test's own, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("varve-cli-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_varve"));
        command.current_dir(&self.0).args(args).output().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}
fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}
fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

const SMALL: &[&str] = &[
    "--set",
    "capacity=32 MiB",
    "--set",
    "op=12.5 %",
    "--set",
    "geometry.channels=2",
    "--set",
    "geometry.dies=2",
    "--set",
    "geometry.pages=64",
    "--buffer",
    "1M",
];
const RECIPE: &str = "gen:uniform,size=32MiB,count=20k,read=30,iat=40us";

fn sim<'a>(source: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["sim", source], SMALL, more].concat()
}

#[test]
fn usage_is_2_and_success_is_0() {
    let folder = Folder::new("usage");
    assert_eq!(code(&folder.run(&["no-such-command"])), 2);
    assert_eq!(code(&folder.run(&["sim"])), 2);
    assert_eq!(code(&folder.run(&["sim", "x", "--no-such-flag"])), 2);
    assert_eq!(code(&folder.run(&["compare", "one"])), 2);
    assert_eq!(code(&folder.run(&["--help"])), 0);
    for what in [
        "policies",
        "victims",
        "presets",
        "sheets",
        "formats",
        "scenarios",
        "generators",
        "keys",
        "columns",
    ] {
        let plain = folder.run(&["list", what]);
        assert_eq!(code(&plain), 0, "{what}");
        assert!(stdout(&plain).lines().count() > 2, "{what}");
        let json: Value =
            serde_json::from_slice(&folder.run(&["list", what, "--json"]).stdout).unwrap();
        assert!(!json["results"].as_array().unwrap().is_empty(), "{what}");
    }
}

#[test]
fn json_is_exactly_one_document_and_equal_runs_give_equal_bytes() {
    let folder = Folder::new("json");
    let more = [
        "--json",
        "--deterministic",
        "--seed",
        "1..2",
        "--policy",
        "lru,fifo",
        "--precondition",
        "seq",
    ];
    let args = sim(RECIPE, &more);
    let first = folder.run(&args);
    assert_eq!(code(&first), 0, "{}", stderr(&first));
    let document: Value = serde_json::from_slice(&first.stdout).expect("one document, no more");
    assert_eq!(document["schema"], "varve.run/2");
    assert_eq!(document["seed"], serde_json::json!([1, 2]));
    let results = document["results"].as_array().unwrap();
    assert_eq!(results.len(), 4);
    assert_eq!(results[1]["name"], "buffer.policy=lru seed=2");
    assert_eq!(document["config"]["op"]["value"], "12.5 %");
    assert_eq!(document["config"]["op"]["from"], "command line");
    assert!(document.get("run").is_none(), "nothing of this machine");
    assert_ne!(results[0]["event_hash"], results[1]["event_hash"], "the seed matters");
    for result in results {
        check_identities(result);
    }
    for threads in ["1", "2", "7"] {
        let again = folder.run(&[&args[..], &["--threads", threads]].concat());
        assert_eq!(again.stdout, first.stdout, "{threads} threads");
    }
    let with_cost = folder.run(&sim(RECIPE, &["--json"]));
    let document: Value = serde_json::from_slice(&with_cost.stdout).unwrap();
    assert!(document["run"]["wall_s"].is_number());
}

/// C8 from the document alone, as any reader can check it.
fn check_identities(result: &Value) {
    let sum = |map: &Value| -> u64 {
        let map = map.as_object().unwrap();
        map.iter().filter(|(k, _)| *k != "total").map(|(_, v)| v.as_u64().unwrap()).sum()
    };
    let programs = &result["nand"]["programs"];
    assert_eq!(sum(programs), programs["total"].as_u64().unwrap());
    let reads = &result["nand"]["reads"];
    assert_eq!(sum(reads), reads["total"].as_u64().unwrap());
    assert_eq!(result["host"]["submitted"], result["host"]["served"]);
    let number = |value: &Value| value.as_f64().unwrap();
    let waf =
        number(&result["nand"]["programmed_bytes"]) / number(&result["host"]["write"]["bytes"]);
    assert!((waf - number(&result["waf"])).abs() < 1e-6);
    let per_slot = number(&programs["total"]) / number(&result["host"]["write_slots"]);
    assert!((per_slot - number(&result["programs_per_slot"])).abs() < 1e-6);
    let windows = result["series"]["programs"]["gc"].as_array().unwrap();
    assert!(windows.len() > 10);
    let writes = &result["latency_ns"]["write"];
    let buckets = writes["histogram"].as_array().unwrap();
    let count: u64 = buckets.iter().map(|pair| pair[1].as_u64().unwrap()).sum();
    assert_eq!(count, writes["count"].as_u64().unwrap());
    assert!(writes["p50"].as_f64().unwrap() <= writes["p99"].as_f64().unwrap());
    assert!(writes.get("p9999").is_none(), "14,000 samples do not know their p99.99");
}

/// A drive named after one of 64 dies that writes them one at a time was made without a word.
#[test]
fn a_scaled_drive_keeps_its_lines_and_one_that_loses_its_dies_is_refused() {
    let folder = Folder::new("scale");
    let base = ["sim", "gen:uniform,size=512MiB,count=2k,read=50", "--ssd", "femu-default"];
    let how = ["--mode", "closed", "--qd", "4", "--quiet"];
    let run = |more: &[&str]| folder.run(&[&base[..], &how, more].concat());
    for more in [&["--scale", "1/16"][..], &["--fit-drive"], &["--set", "scale=1/16"]] {
        let output = run(&[more, &["--json", "--out", "a"]].concat());
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let lines = &document["results"][0]["lines"];
        assert_eq!(
            (lines["kind"].as_str(), lines["count"].as_u64()),
            (Some("superblock"), Some(256))
        );
        assert_eq!(lines["bytes"].as_u64(), Some(64 * 16 * 4096));
        let needed = ["logical", "heads", "reserve"].map(|part| lines[part].as_u64().unwrap());
        assert_eq!(lines["needed"].as_u64(), Some(needed.iter().sum()));
        assert_eq!(document["scale"]["by"].as_str(), Some("1/16"), "{more:?}");
        let erase = &document["scale"]["changed"]["nand.erase"];
        assert_eq!((erase["from"].as_str(), erase["to"].as_str()), (Some("2 ms"), Some("125 us")));
        // What it came to is what is repeated, and it says what it came from.
        let again = folder.run(&["run", "a/run.toml", "--json", "--quiet"]);
        let again: Value = serde_json::from_slice(&again.stdout).unwrap();
        assert_eq!(again["results"], document["results"], "{more:?}");
        assert_eq!(again["scale"], document["scale"], "{more:?}");
        let shown = |output: Output| {
            assert_eq!(code(&output), 0, "{}", stderr(&output));
            let text = stdout(&output);
            let known = |line: &&str| !line.contains("CPU");
            text.lines().filter(known).map(str::to_string).collect::<Vec<_>>()
        };
        let (first, second) =
            (shown(run(more)), shown(folder.run(&["run", "a/run.toml", "--quiet"])));
        assert_eq!(first, second, "{more:?}");
    }
    let shown = stdout(&run(&["--scale", "1/16"]));
    assert!(
        shown.contains("\nlines: 256 superblock, 4 MiB each; 2 open, 4 in reserve\n"),
        "{shown}"
    );
    assert!(shown.contains("scaled 1/16: capacity "), "{shown}");
    assert!(shown.contains("geometry.pages 16 for 256"), "{shown}");
    assert_eq!(code(&run(&["--scale", "1/16", "--fit-drive"])), 2);
    for (more, said) in [
        (&["--scale", "1/7"][..], "`scale` = `1/7`: expected 1/n"),
        (&["--scale", "1/64"], "192 MiB"),
        (
            &["--ssd", "mqsim-default", "--set", "geometry.blocks=0", "--set", "capacity=1GiB"],
            "line: auto would collect and write a die at a time here",
        ),
        (
            &["--ssd", "femu-default", "--set", "capacity=16100MiB"],
            "and a reserve of 4 (1 to collect into, 1 for discards",
        ),
    ] {
        let base = if more[0] == "--ssd" { &base[..2] } else { &base[..] };
        let output = folder.run(&[base, &how, more].concat());
        assert_eq!(code(&output), 3, "{more:?}");
        assert!(stderr(&output).contains(said), "{more:?}: {}", stderr(&output));
    }
}

/// Every preset stands beside what is published of its drive.
#[test]
fn presets_say_how_near_they_are_to_their_source() {
    let folder = Folder::new("sheets");
    let presets = stdout(&folder.run(&["list", "presets"]));
    assert!(presets.contains("data sheet: ") && presets.contains("measurement: "), "{presets}");
    assert!(presets.lines().any(|l| l.starts_with("mqsim-default") && l.ends_with("assumed")));
    let json = folder.run(&["list", "sheets", "--json"]).stdout;
    let json: Value = serde_json::from_slice(&json).unwrap();
    let points = json["results"].as_array().unwrap();
    let far = |p: &&Value| {
        let off = p["off"].as_str().unwrap().trim_end_matches(" %").parse::<f64>();
        off.is_ok_and(|off| off.abs() > 10.0)
    };
    for point in points.iter().filter(far) {
        assert!(!point["reason"].as_str().unwrap().is_empty(), "{point}");
    }
    let reads = points.iter().find(|p| {
        (p["preset"].as_str(), p["load"].as_str(), p["QD"].as_str())
            == (Some("samsung-970pro"), Some("random read"), Some("128"))
    });
    let reads = reads.expect("the point that was eight times off");
    assert_eq!(reads["published"].as_str(), Some("370,000 IOPS"));
    assert!(!far(&reads), "{reads}");
}

#[test]
fn bad_input_is_3_and_says_where() {
    let folder = Folder::new("input");
    let scenario = folder.file("s.toml", "title = \"x\"\n\n[replay]\nmode = \"fast\"\n");
    let output = folder.run(&["run", scenario.to_str().unwrap()]);
    assert_eq!(code(&output), 3);
    assert!(stderr(&output).contains("s.toml:4: `replay.mode`: found `fast`, expected open"));
    let drive = folder.file("d.toml", "[gc]\nvictm = \"fifo\"\n");
    let output = folder.run(&["sim", RECIPE, "--ssd", drive.to_str().unwrap()]);
    assert_eq!(code(&output), 3);
    assert!(
        stderr(&output).contains("d.toml:2: unknown key `gc.victm`; did you mean `gc.victim`?")
    );
    folder.file(
        "t.csv",
        "128166372003061629,hm,0,Read,0,4096,10\n128166372003061630,hm,0,Raed,0,4096,10\n",
    );
    let output = folder.run(&sim("t.csv", &["--format", "msr"]));
    assert_eq!(code(&output), 3);
    let text = stderr(&output);
    assert!(
        text.contains("t.csv:2:") && text.contains("Raed") && text.contains("expected"),
        "{text}"
    );
    for args in [
        sim("no-such-file.csv", &[]),
        sim(RECIPE, &["--policy", "no-such-policy"]),
        sim(RECIPE, &["--ssd", "no-such-preset"]),
        sim(RECIPE, &["--set", "gc.victim=no-such-victim"]),
        sim(RECIPE, &["--set", "nonsense"]),
        sim(RECIPE, &["--speed", "0"]),
        sim(RECIPE, &["--mode", "open", "--qd", "4"]),
        sim(RECIPE, &["--measure-after", "1M"]),
        sim(RECIPE, &["--seed", "5..1"]),
        sim("gen:no-such-generator", &[]),
        sim("gen:uniform,size=64MiB,count=10", &[]),
        vec!["run", "no-such-scenario.toml"],
        vec!["compare", "no-such-run", "no-such-run"],
        vec!["replay", "no-such-plan.toml"],
        vec!["trace", "info", "no-such-trace"],
    ] {
        let output = folder.run(&args);
        assert_eq!(code(&output), 3, "{args:?}: {}", stderr(&output));
        assert!(stdout(&output).is_empty(), "{args:?}");
        assert!(stderr(&output).starts_with("varve: "), "{args:?}");
    }
}

#[test]
fn a_folder_repeats_its_run_and_comparison_has_a_tolerance() {
    let folder = Folder::new("folder");
    let more = ["--deterministic", "--out", "a", "--precondition", "steady", "--title", "t <b>&\""];
    let output = folder.run(&sim(RECIPE, &more));
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    assert!(
        text.contains("WAF by cause") && text.contains("reproduce: varve run a/run.toml"),
        "{text}"
    );
    let names = |path: &Path| {
        let mut names: Vec<_> =
            std::fs::read_dir(path).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let a = folder.0.join("a");
    assert_eq!(names(&a), ["report.html", "results.json", "run.toml"], "no part is left");
    let again = folder.run(&["run", "a/run.toml", "--deterministic", "--out", "b"]);
    assert_eq!(code(&again), 0, "{}", stderr(&again));
    let results = |dir: &str| -> Value {
        let text = std::fs::read(folder.0.join(dir).join("results.json")).unwrap();
        serde_json::from_slice(&text).unwrap()
    };
    assert_eq!(results("a")["results"], results("b")["results"]);
    let html = std::fs::read_to_string(a.join("report.html")).unwrap();
    assert!(html.contains("t &lt;b&gt;&amp;&quot;") && !html.contains("<b>&"));
    // Nothing is asked for over a network: no address, no file. (A copied figure names what SVG is; nobody goes there.)
    let html = html.replace("http://www.w3.org/2000/svg", "");
    for outside in ["http://", "https://", "src=", "url(", "@import", "//cdn"] {
        assert!(!html.contains(outside), "{outside}");
    }
    assert_eq!(code(&folder.run(&["compare", "a", "b", "--fail-over", "waf=0"])), 0);
    let other = folder.run(&[
        "run",
        "a/run.toml",
        "--set",
        "gc.victim=fifo",
        "--set",
        "op=28 %",
        "--out",
        "c",
    ]);
    assert_eq!(code(&other), 0, "{}", stderr(&other));
    let compared = folder.run(&["compare", "a", "c", "--fail-over", "waf=2"]);
    assert_eq!(code(&compared), 5);
    let text = stdout(&compared);
    assert!(text.find("gc.victim").unwrap() < text.find("waf").unwrap(), "configuration first");
    assert!(stderr(&compared).contains("waf"));
    assert_eq!(code(&folder.run(&["compare", "a", "c", "--fail-over", "wfa=2"])), 3);
    let json = folder.run(&["compare", "a", "c", "--json"]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["schema"], "varve.compare/1");
}

/// The star goes by bytes: 4 KiB writes on units of 16 KiB rewrite four times as much, and touch as
/// many units as they are.
#[test]
fn the_star_is_for_the_fewest_bytes_and_only_where_seeds_tell_them_apart() {
    let folder = Folder::new("stars");
    let starred = |more: &[&str]| -> Vec<bool> {
        let output = folder.run(&sim("gen:uniform,size=32MiB,count=40k,read=0", more));
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let (out, stars) = (stdout(&output), |line: &str| line.contains("* "));
        let rows: Vec<bool> = out.lines().filter(|l| l.starts_with("lru")).map(stars).collect();
        assert!(rows.iter().any(|star| *star) == out.contains("* best WAF"), "{out}");
        rows
    };
    let untimed = ["--mode", "untimed", "--precondition", "seq"];
    let page = ["--set", "geometry.page=16 KiB", "--set", "op=40 %"];
    let units = ["--set", "sweep.unit=4 KiB,16 KiB"];
    assert_eq!(starred(&[&untimed[..], &page, &units].concat()), [true, false]);
    // Two cores and one: no write amplification depends on them.
    let same = ["--set", "sweep.fw.cores=1,2", "--seed", "1,2,3"];
    assert_eq!(starred(&[&untimed[..], &same].concat()), [false, false]);
}

#[test]
fn the_same_run_twice_is_no_spread() {
    let folder = Folder::new("twice");
    for twice in [
        &["--policy", "lru,lru"][..],
        &["--seed", "1,2,1"],
        &["--set", "sweep.op=28 %,28 %"],
        &["--hits", "--policy", "lru,lru"],
    ] {
        let output = folder.run(&sim(RECIPE, twice));
        assert_eq!(code(&output), 3, "{twice:?}: {}", stdout(&output));
        assert!(stderr(&output).contains("twice"), "{}", stderr(&output));
    }
}

/// At more than the drive can do, the table says so, and the latencies are those from arrival.
#[test]
fn an_open_replay_that_is_too_fast_says_so() {
    let folder = Folder::new("saturated");
    let recipe = "gen:uniform,size=32MiB,count=20k,read=100,iat=1us";
    let slow = ["--preload", "reads", "--set", "queue_depth=4"];
    let output = folder.run(&sim(recipe, &slow));
    let text = stdout(&output);
    assert!(text.contains("saturated: offered 1.00 M/s, served "), "{text}");
    let json = folder.run(&sim(recipe, &[&slow[..], &["--json"]].concat()));
    let result = &serde_json::from_slice::<Value>(&json.stdout).unwrap()["results"][0];
    let number = |value: &Value| value.as_f64().unwrap();
    let (reads, queue) = (&result["latency_ns"]["read"], &result["host_queue"]);
    let cause = &reads["mean_by_cause"];
    let sum = number(&cause["host_queue"]) + number(&cause["device"]);
    assert!((sum - number(&reads["mean"])).abs() < 0.01, "{reads}");
    assert!(number(&cause["host_queue"]) > 10.0 * number(&cause["device"]), "{cause}");
    // From arrival the last requests waited for about all of the run.
    assert!(number(&reads["max"]) > 0.8 * number(&result["time_ns"]), "{queue}");
    assert_eq!(queue["saturated"], true);
    let calm = folder.run(&sim(&recipe.replace("iat=1us", "iat=1ms"), &slow));
    assert!(!stdout(&calm).contains("saturated"), "{}", stdout(&calm));
}

#[test]
fn results_of_another_definition_are_not_compared() {
    let folder = Folder::new("schema");
    folder.file("old.json", "{\"schema\":\"varve.run/1\",\"results\":[{\"waf\":1.0}]}");
    let output = folder.run(&["compare", "old.json", "old.json"]);
    assert_eq!(code(&output), 3);
    let text = stderr(&output);
    assert!(text.contains("`waf` counts mapping units, not bytes"), "{text}");
}

#[test]
fn hit_counts_are_a_document_like_a_run() {
    let folder = Folder::new("hits");
    let cells = ["--policy", "lru,sieve", "--buffer", "1 MiB,2 MiB"];
    let output = folder.run(&[&["sim", RECIPE, "--hits", "--json"], &cells[..]].concat());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).expect("one document, no more");
    assert_eq!(document["schema"], "varve.hits/1");
    assert_eq!(document["seed"], 1);
    assert!(document["version"].is_string() && document["config"]["op"]["value"].is_string());
    let results = document["results"].as_array().unwrap();
    assert_eq!(results.len(), 4);
    assert_eq!(results[3]["policy"], "sieve");
    let hits = |at: usize| results[at]["unit_hits"].as_u64().unwrap();
    assert!(0 < hits(0) && hits(0) < hits(1), "the larger buffer holds what the smaller does");
}

#[test]
fn hit_counts_are_written_where_out_says() {
    let folder = Folder::new("hits-out");
    let cells = ["--policy", "lru,sieve", "--buffer", "1 MiB,2 MiB", "--out", "h"];
    let plain = folder.run(&[&["sim", RECIPE, "--hits"], &cells[..]].concat());
    assert_eq!(code(&plain), 0, "{}", stderr(&plain));
    assert!(stdout(&plain).contains("wrote h/results.json"), "{}", stdout(&plain));
    let written = std::fs::read(folder.0.join("h/results.json")).unwrap();
    let json = folder.run(&[&["sim", RECIPE, "--hits", "--json"], &cells[..]].concat());
    assert_eq!(code(&json), 0, "{}", stderr(&json));
    assert_eq!(json.stdout, written, "the document that --json prints");
    // One value beside a list is no list: none of the two would be counted.
    let both = ["--policy", "lru", "--set", "buffer.policy=fifo"];
    assert_eq!(code(&folder.run(&[&["sim", RECIPE, "--hits"], &both[..]].concat())), 3);
}

#[test]
fn a_value_beside_a_sweep_and_a_name_that_nobody_knows_are_refused() {
    let folder = Folder::new("swept");
    let refused = |args: &[&str], what: &str| {
        let output = folder.run(args);
        assert_eq!(code(&output), 3, "{args:?}: {}", stdout(&output));
        assert!(stderr(&output).contains(what), "{args:?}: {}", stderr(&output));
    };
    let swept = ["--policy", "lru,fifo", "--set"];
    refused(&sim(RECIPE, &[&swept[..], &["buffer.policy=sieve"]].concat()), "is swept");
    refused(&sim(RECIPE, &[&swept[..], &["buffer.policy=zzz"]].concat()), "zzz");
    refused(&sim(RECIPE, &["--policy", "lru,zzz"]), "zzz");
    refused(&sim(RECIPE, &["--set", "gc.victim=zzz"]), "zzz");
    let file = "[drive]\ncapacity = \"32 MiB\"\nbuffer.policy = \"zzz\"\n\
                [workload]\ngen = \"uniform,size=8MiB,count=1k\"\n\
                [sweep]\nbuffer.policy = [\"lru\", \"fifo\"]\n";
    folder.file("base.toml", file);
    refused(&["run", "base.toml"], "zzz");
    folder.file("sweep.toml", &file.replace("zzz", "lru"));
    refused(&["run", "sweep.toml", "--set", "buffer.policy=sieve"], "sweep.toml:");
    let one = ["run", "sweep.toml", "--set", "sweep.buffer.policy=sieve", "--json"];
    let output = folder.run(&one);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["results"].as_array().unwrap().len(), 1);
}

#[test]
fn a_folder_that_takes_no_files_is_refused_before_the_run() {
    let folder = Folder::new("no-out");
    folder.file("plain", "a file");
    // The run itself would fail at its end, with another word.
    let args = sim(RECIPE, &["--measure-after", "1000000", "--out", "plain/x"]);
    let output = folder.run(&args);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("--out"), "{}", stderr(&output));
    let hits = ["sim", RECIPE, "--hits", "--policy", "lru", "--buffer", "1M", "--out", "plain"];
    let output = folder.run(&hits);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("--out") && stdout(&output).is_empty());
}

#[test]
fn an_interrupted_sweep_keeps_what_is_finished() {
    let folder = Folder::new("partial");
    let more = ["--seed", "1..10000", "--threads", "2", "--quiet", "--out", "o"];
    let mut child = Command::new(env!("CARGO_BIN_EXE_varve"))
        .current_dir(&folder.0)
        .args(sim(RECIPE, &more))
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let points = folder.0.join("o/points");
    while std::fs::read_dir(&points).map_or(0, Iterator::count) < 3 {
        assert!(child.try_wait().unwrap().is_none(), "ended before anything was kept");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 130, "{}", stderr(&output));
    assert!(stderr(&output).contains("of 10000 runs are finished and kept"), "{}", stderr(&output));
    assert!(!folder.0.join("o/results.json").exists());
    let partial = folder.run(&["merge", "o", "--partial", "--json"]);
    let document: Value = serde_json::from_slice(&partial.stdout).unwrap();
    assert_eq!(document["schema"], "varve.run/2");
    let results = document["results"].as_array().unwrap();
    assert_eq!(document["partial"]["finished"].as_u64().unwrap(), results.len() as u64);
    assert_eq!(document["partial"]["of"], 10_000);
    results.iter().for_each(check_identities);
    // What is there of one result is what the whole run says of it, and then nothing is partial.
    let output = folder.run(&sim(RECIPE, &["--seed", "1..2", "--quiet", "--out", "o"]));
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let whole: Value =
        serde_json::from_slice(&std::fs::read(folder.0.join("o/results.json")).unwrap()).unwrap();
    assert!(whole.get("partial").is_none());
    assert!(results.contains(&whole["results"][0]) || results[0]["params"]["seed"] != 1);
}

#[test]
fn traces_are_made_read_and_merged() {
    let folder = Folder::new("trace");
    let run = |args: &[&str]| {
        let output = folder.run(args);
        assert_eq!(code(&output), 0, "{args:?}: {}", stderr(&output));
        stdout(&output)
    };
    run(&["trace", "gen", "uniform,size=8MiB,count=5k,read=50", "a.vtr"]);
    run(&["trace", "gen", "sequential,size=4MiB,count=3k", "b.vtr", "--seed", "2"]);
    let again = std::fs::read(folder.0.join("a.vtr")).unwrap();
    run(&["trace", "gen", "uniform,size=8MiB,count=5k,read=50", "a.vtr"]);
    assert_eq!(std::fs::read(folder.0.join("a.vtr")).unwrap(), again);
    run(&[
        "trace",
        "merge",
        "A=a.vtr",
        "B=b.vtr",
        "--stretch",
        "A=2",
        "--end",
        "longest",
        "-o",
        "m.vtr",
    ]);
    let info: Value = serde_json::from_str(&run(&["trace", "info", "m.vtr", "--json"])).unwrap();
    assert_eq!(info["results"]["requests"], 8000);
    assert_eq!(info["results"]["apps"].as_array().unwrap().len(), 2);
    run(&["trace", "convert", "m.vtr", "c.vtr", "--limit", "1000"]);
    assert!(run(&["trace", "info", "c.vtr"]).contains("1,000"));
    let args = sim(
        "m.vtr",
        &["--json", "--deterministic", "--fit", "wrap", "--mode", "closed", "--qd", "8"],
    );
    let document: Value = serde_json::from_str(&run(&args)).unwrap();
    let by_app = &document["results"][0]["hit_ratio"]["by_app"];
    assert!(by_app["0"]["total"].is_number() && by_app["1"]["total"].is_number(), "{by_app}");
    let latency = &document["results"][0]["latency_ns"]["by_app"];
    assert_eq!(
        latency["0"]["write"]["count"].as_u64().unwrap()
            + latency["0"]["read"]["count"].as_u64().unwrap(),
        5000
    );
    assert!(!folder.0.join("x.vtr").exists());
    assert_eq!(code(&folder.run(&["trace", "convert", "none.csv", "x.vtr"])), 3);
    assert!(!folder.0.join("x.vtr").exists() && !folder.0.join("x.vtr.part").exists());
}

#[test]
fn the_demo_runs_and_says_where_its_report_is() {
    let folder = Folder::new("demo");
    let output = folder.run(&["sim", "@demo"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("wrote varve-demo/results.json  varve-demo/report.html"), "{text}");
    assert!(folder.0.join("varve-demo/report.html").exists());
    let json = folder.run(&["sim", "@demo", "--json", "--out", "here", "--quiet"]);
    let document: Value = serde_json::from_slice(&json.stdout).unwrap();
    let result = &document["results"][0];
    assert!(result["waf"].as_f64().unwrap() > 1.2, "cleaning really runs: {}", result["waf"]);
    assert!(result["latency_ns"]["read"]["p99"].is_number());
    assert!(folder.0.join("here/results.json").exists());
}

#[test]
fn the_doctor_tells_what_it_found() {
    let folder = Folder::new("doctor");
    let output = folder.run(&["doctor", "--json"]);
    assert_eq!(code(&output), 0);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["machine"]["threads"].is_string());
    assert!(document.get("results").is_none(), "what was not checked has no result");
    assert_eq!(code(&folder.run(&["doctor", "--quick"])), 2);
}

#[cfg(unix)]
#[test]
fn control_c_is_130() {
    let folder = Folder::new("stop");
    let recipe = "gen:uniform,size=32MiB,count=500M";
    let mut child = Command::new(env!("CARGO_BIN_EXE_varve"))
        .current_dir(&folder.0)
        .args(sim(recipe, &["--out", "o", "--quiet", "--mode", "untimed"]))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(700));
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!folder.0.join("o").exists(), "no half result");
}

/// A study looks at nothing while it runs: it ends at once, and the folder is as a later start wants it.
#[test]
fn control_c_ends_a_study() {
    use std::io::{BufRead, BufReader};
    let folder = Folder::new("interrupted-study");
    let mut command = Command::new(env!("CARGO_BIN_EXE_varve"));
    command.args(["reproduce", "all", "--quick", "--threads", "1", "--out"]).arg(&folder.0);
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data");
    command.args(["--data", data]).stdout(std::process::Stdio::null());
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.starts_with("[1/5]"), "{said}");
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let left: Vec<_> =
        std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["made-by"]);
}

#[test]
fn a_plan_replays_and_a_broken_promise_is_4() {
    let folder = Folder::new("plan");
    let path = folder.0.join("p.toml");
    let replay = || folder.run(&["replay", "p.toml", "--json"]);
    let (plan, _, _) = proof::draw_run(7, &proof::Draw::HEALTHY);
    plan.save(&path).unwrap();
    let output = replay();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["results"]["holds"], true);
    // The same harness, with a bug planted in the drive: some seed's run breaks a promise.
    let broken = (0..40).find_map(|seed| {
        let (mut plan, _, _) = proof::draw_run(seed, &proof::Draw::HEALTHY);
        plan.bug = Some("AckBeforeDrain".to_string());
        let broken = proof::hunt(&plan, proof::Density::SHORT).unwrap().broken?;
        plan.cuts = broken.cuts;
        Some(plan)
    });
    broken.expect("a planted bug is found").save(&path).unwrap();
    let output = replay();
    assert_eq!(code(&output), 4, "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["results"]["holds"], false);
    std::fs::write(&path, "plan = 1\nwork = 7\n").unwrap();
    let output = replay();
    assert_eq!(code(&output), 3);
    assert!(stderr(&output).contains("p.toml"), "{}", stderr(&output));
}
