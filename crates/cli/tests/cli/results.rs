//! Folders of results, their comparison, and counts of hits.

use super::*;

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
        &["--set", "sweep.buffer.size=1M,1024K"],
        &["--hits", "--policy", "lru,lru"],
    ] {
        let output = folder.run(&sim(RECIPE, twice));
        assert_eq!(code(&output), 3, "{twice:?}: {}", stdout(&output));
        assert!(stderr(&output).contains("twice"), "{}", stderr(&output));
    }
}

/// Two files of one name were one that is there twice, and results had one name for both.
#[test]
fn two_traces_of_one_name_are_told_apart() {
    let folder = Folder::new("one-name");
    for (at, name) in ["a", "b"].iter().enumerate() {
        std::fs::create_dir(folder.0.join(name)).unwrap();
        let (recipe, file) =
            (format!("uniform,size=1MiB,count={}", 30 + at), format!("{name}/t.vtr"));
        let output = folder.run(&["trace", "gen", &recipe, &file]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
    }
    let drive = "[drive]\ncapacity = '32 MiB'\nop = '28 %'\n[replay]\nmode = 'closed'\n[sweep]\n";
    let traces = |list: &str| folder.file("s.toml", &format!("{drive}workload.trace = [{list}]\n"));
    traces("'a/t.vtr', 'b/t.vtr'");
    let output = folder.run(&["run", "s.toml", "--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<&str> = (0..2)
        .map(|at| document["results"][at]["params"]["workload.trace"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["a/t.vtr", "b/t.vtr"]);
    traces("'a/t.vtr', './a/t.vtr'");
    assert!(stderr(&folder.run(&["run", "s.toml"])).contains("is there twice"));
}

#[test]
fn what_a_count_of_hits_cannot_do_is_said() {
    let folder = Folder::new("hits-said");
    folder.file("through.toml", "[buffer]\nwrite = \"through\"\n");
    for (more, what) in [
        (&["--buffer", "3"][..], "a buffer of one entry"),
        (&["--buffer", "0%"], "a buffer of one entry"),
        (&["--policy", "lru,none", "--buffer", "1M"], "without a buffer nothing hits"),
        (&["--buffer", "1M", "--measure-after", "50"], "replay.measure-after = 50: of runs"),
        (&["--buffer", "1M", "--flush-every", "2"], "replay.flush-every = 2: of runs"),
        (&["--buffer", "1M", "--set", "buffer.write=through"], "buffer.write = through: of runs"),
        (&["--set", "sweep.buffer.size=1M,2M"], "sweep.buffer.size = 1M,2M: of runs"),
        (&["--buffer", "1M", "--seed", "1..3"], "--seed: --hits counts one, found 3"),
        (&["--buffer", "1M", "--mode", "closed"], "replay.mode = closed: of runs"),
        (&["--buffer", "1M", "--qd", "4"], "replay.qd = 4: of runs"),
        (&["--buffer", "1M", "--precondition", "seq"], "replay.precondition = seq: of runs"),
        // They changed nothing, and nobody said so.
        (&["--buffer", "1M", "--set", "remap.mode=log"], "stack = log: of runs"),
        (&["--buffer", "1M", "--set", "stack=+log"], "stack = log: of runs"),
        (&["--buffer", "1M", "--ssd", "./through.toml"], "buffer.write = through: of runs"),
    ] {
        let policy = if more.contains(&"--policy") { &[][..] } else { &["--policy", "lru"] };
        let output = folder.run(&[&["sim", RECIPE, "--hits"], policy, more].concat());
        assert!(code(&output) == 3 && stderr(&output).contains(what), "{}", stderr(&output));
    }
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

/// A window that lies beyond the run is known only once it is over: an hour's run was lost to it.
#[test]
fn what_cannot_be_written_costs_no_results() {
    let folder = Folder::new("unwritten");
    let late = ["--timeline", "900s..901s", "--timeline-out", "a/x.pftrace", "--out", "a"];
    let output = folder.run(&sim(RECIPE, &[&late[..], &["--csv", "a/x.csv"]].concat()));
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    let said = "varve: a/x.pftrace: nothing happens from 900 s to 901 s";
    assert!(stderr(&output).contains(said), "{}", stderr(&output));
    assert!(stdout(&output).contains("WAF by cause"), "{}", stdout(&output));
    let names = ["results.json", "report.html", "run.toml", "x.csv"];
    assert!(names.iter().all(|name| folder.0.join("a").join(name).is_file()));
    assert!(!folder.0.join("a/x.pftrace").exists());
    let json = folder.run(&sim(RECIPE, &[&late[..], &["--json"]].concat()));
    assert_eq!(code(&json), 3);
    let document: Value = serde_json::from_slice(&json.stdout).expect("the document");
    assert_eq!(document["results"].as_array().unwrap().len(), 1);
    // What can be known before the run is: nothing is run, and no folder is left behind.
    for (more, exit) in [
        (&["--timeline", "0s..1s", "--timeline-out", "no/x.pftrace"][..], 1),
        (&["--timeline", "0s..1s", "--timeline-out", "."], 1),
        (&["--timeline", "2s..1s", "--timeline-out", "x.pftrace"], 3),
        (&["--timeline", "0s..1s", "--timeline-out", "x.pftrace", "--timeline-max", "0"], 3),
        (&["--requests-out", "no/x.csv"], 1),
        (&["--csv", "no/x.csv"], 1),
    ] {
        let endless = "gen:uniform,size=32MiB,count=4G,read=30,iat=40us";
        let output = folder.run(&sim(endless, &[more, &["--out", "b"]].concat()));
        assert_eq!(code(&output), exit, "{more:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty() && !folder.0.join("b").exists(), "{more:?}");
    }
}

/// A command that overwrote its trace had nothing left to be repeated on.
#[test]
fn no_output_takes_the_place_of_what_is_read() {
    let folder = Folder::new("keeps");
    let made = folder.run(&["trace", "gen", "uniform,size=8MiB,count=500,read=50", "t.vtr"]);
    assert_eq!(code(&made), 0, "{}", stderr(&made));
    std::fs::copy(folder.0.join("t.vtr"), folder.0.join("t.csv")).unwrap();
    let drive = "capacity = '32 MiB'\nop = '28 %'\n";
    folder.file("drive.toml", drive);
    let scenario =
        "[drive]\nfile = 'drive.toml'\n[workload]\ntrace = 't.vtr'\n[replay]\nmode = 'closed'\n";
    std::fs::create_dir_all(folder.0.join("mine")).unwrap();
    folder.file("s.toml", scenario);
    folder.file("mine/run.toml", &scenario.replace("'drive", "'../drive").replace("'t.", "'../t."));
    folder.file("mine/x.csv", "");
    let trace = |more: &[&'static str]| [&["sim", "t.csv", "--mode", "closed"], more].concat();
    for (args, what) in [
        (trace(&["--csv", "./t.csv"]), "./t.csv: is the trace that is read, too"),
        (trace(&["--requests-out", "t.csv"]), "t.csv: is the trace"),
        (trace(&["--timeline", "0s..1s", "--timeline-out", "t.csv"]), "t.csv: is the trace"),
        (
            trace(&["--csv", "x.csv", "--requests-out", "x.csv"]),
            "x.csv: is written for two options",
        ),
        (vec!["run", "s.toml", "--csv", "s.toml"], "s.toml: is the scenario that is read"),
        (vec!["run", "s.toml", "--csv", "drive.toml"], "drive.toml: is the drive that is read"),
        (vec!["run", "s.toml", "--csv", "t.vtr"], "t.vtr: is the trace that is read"),
        (
            vec!["run", "s.toml", "--set", "sweep.workload.trace=t.csv", "--csv", "t.csv"],
            "is the trace",
        ),
        (
            vec!["run", "mine/run.toml", "--out", "mine"],
            "mine/run.toml: is the scenario that is read",
        ),
        (
            vec!["run", "s.toml", "--out", "mine"],
            "mine/run.toml: a file that no run wrote is there",
        ),
    ] {
        let output = folder.run(&args);
        assert_eq!(code(&output), 3, "{args:?}");
        assert!(stderr(&output).contains(what), "{args:?}: {}", stderr(&output));
    }
    assert_eq!(
        std::fs::read(folder.0.join("t.csv")).unwrap(),
        std::fs::read(folder.0.join("t.vtr")).unwrap()
    );
    assert_eq!(std::fs::read_to_string(folder.0.join("drive.toml")).unwrap(), drive);
}

/// Three runs of one trace are one run: an interval of zero would say that it was measured well.
#[test]
fn seeds_that_change_nothing_are_no_means() {
    let folder = Folder::new("seeds");
    let note = |recipe: &str| {
        let output = folder.run(&sim(recipe, &["--seed", "1..3"]));
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        stdout(&output).contains("the 3 seeds are one run")
    };
    let fixed = format!("{RECIPE},seed=7");
    assert_eq!((note(&fixed), note(RECIPE)), (true, false));
}

/// A study that is changed runs into its own folder again, and says what it replaces.
#[test]
fn results_of_another_study_are_replaced_with_a_word() {
    let folder = Folder::new("replaces");
    let run = |more: &[&str]| {
        let output =
            folder.run(&sim(RECIPE, &[&["--out", "o", "--title", "first"], more].concat()));
        (code(&output), stderr(&output))
    };
    assert_eq!(run(&[]), (0, String::new()));
    assert_eq!(run(&[]), (0, String::new()));
    let said = "o/results.json: results of another study (first) are replaced\n";
    assert_eq!(run(&["--seed", "2"]), (0, said.to_string()));
    assert_eq!(run(&["--hits"]), (0, said.to_string()));
    assert_eq!(run(&["--hits"]), (0, String::new()));
    folder.file("o/results.json", "{ \"mine\": 1 }");
    let (exit, said) = run(&[]);
    assert!(
        exit == 3 && said.contains("o/results.json: a file that no run wrote is there"),
        "{said}"
    );
}

/// Paths of a scenario are as seen from its own folder, those of a command line from where it is given.
/// What is left behind repeats the run from everywhere.
#[test]
fn what_is_left_of_a_run_repeats_it_from_every_folder() {
    let folder = Folder::new("anywhere");
    for name in ["study", "else/where"] {
        std::fs::create_dir_all(folder.0.join(name)).unwrap();
    }
    for (seed, name) in [("1", "study/a.vtr"), ("2", "study/b.vtr")] {
        let recipe = "uniform,size=8MiB,count=500,read=50";
        let made = folder.run(&["trace", "gen", recipe, name, "--seed", seed]);
        assert_eq!(code(&made), 0, "{}", stderr(&made));
    }
    let drive = "capacity = '32 MiB'\nop = '28 %'\n";
    folder.file("study/drive.toml", drive);
    let scenarios = [
        "[drive]\nfile = 'drive.toml'\n[workload]\ntrace = ['a.vtr', 'b.vtr']\n",
        "[drive]\nfile = 'drive.toml'\n[tenant.A]\ntrace = 'a.vtr'\n[tenant.B]\ntrace = 'b.vtr'\n",
        "[drive]\nfile = 'drive.toml'\n[sweep]\nworkload.trace = ['a.vtr', 'b.vtr']\n",
        "[workload]\ntrace = 'a.vtr'\n[sweep]\ndrive.file = ['drive.toml']\n",
    ];
    for (at, scenario) in scenarios.iter().enumerate() {
        folder.file("study/s.toml", &format!("{scenario}[replay]\nmode = 'closed'\n"));
        let out = format!("out{at}");
        let first =
            folder.run(&["run", "study/s.toml", "--json", "--deterministic", "--out", &out]);
        assert_eq!(code(&first), 0, "{}", stderr(&first));
        let first: Value = serde_json::from_slice(&first.stdout).unwrap();
        let mut again = Command::new(env!("CARGO_BIN_EXE_varve"));
        again.current_dir(folder.0.join("else/where"));
        again.args(["run", &format!("../../{out}/run.toml"), "--json", "--deterministic"]);
        let again = again.output().unwrap();
        assert_eq!(code(&again), 0, "{scenario}: {}", stderr(&again));
        let again: Value = serde_json::from_slice(&again.stdout).unwrap();
        assert_eq!(again["results"], first["results"], "{scenario}");
    }
}
