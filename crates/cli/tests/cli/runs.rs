//! What a run, a preset, the demo and the doctor say.

use super::*;

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
