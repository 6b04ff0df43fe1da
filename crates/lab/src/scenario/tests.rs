//! What a scenario accepts, what it refuses and where it says the mistake is.

use std::path::PathBuf;

use super::*;

fn parse(text: &str) -> Result<Scenario, LabError> {
    Scenario::from_text("s.toml", text, PathBuf::from("/data"))
}

fn fails(text: &str) -> String {
    let error = parse(text).and_then(|s| s.config().map(|_| s)).expect_err(text);
    assert_eq!(error.exit_code(), 3);
    error.to_string()
}

#[test]
fn a_whole_scenario() {
    let s = parse(
        r#"
        title = "t"
        seed = ["1..3", 9]
        [drive]
        preset = "femu-default"
        scale = "1/8"
        gc.victim = "fifo"
        op = { value = "12.5 %", source = "a paper", tag = "assumed" }
        [tenant.B]
        gen = "uniform,size=16MiB,count=1k"
        [tenant.A]
        trace = ["x.csv", "y.csv"]
        loop = 3
        [replay]
        mode = "closed"
        qd = 8
        per-app = true
        precondition = "steady"
        measure-after = "2 s"
        [sweep]
        buffer.policy = ["lru", "cflru"]
        buffer.size = ["1%", "8M"]
        "#,
    )
    .unwrap();
    assert_eq!(s.seeds, [1, 2, 3, 9]);
    assert_eq!(s.replay.mode, Mode::Closed { depth: 8, per_app: true });
    let names: Vec<_> = s.workload.tenants.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["B", "A"], "in the order of the file");
    let keys: Vec<_> = s.sweeps.iter().map(|s| s.key.as_str()).collect();
    assert_eq!(keys, ["buffer.policy", "buffer.size"]);
    let config = s.config().unwrap();
    assert_eq!(config.text("gc.victim"), "fifo");
    let op = config.entries().find(|e| e.0 == "op").unwrap();
    assert_eq!((op.1, op.2.from.as_str()), ("12.5 %", "s.toml:8"));
    assert_eq!(op.2.tag.as_deref(), Some("assumed"));
    s.check().unwrap();
}

/// The last one counted, without a word.
#[test]
fn a_workload_comes_from_one_place() {
    let both = "[workload]\ngen = \"uniform,size=1MiB,count=1\"\ntrace = \"a.vtr\"";
    let told = "s.toml:3: `workload.trace` beside `workload.gen` of line 2; expected one of them";
    assert_eq!(fails(both), told);
    let tenant = "[tenant.A]\ntrace = \"a.vtr\"\ngen = \"uniform,size=1MiB,count=1\"";
    assert!(
        fails(tenant).starts_with("s.toml:3: `tenant.A.gen` beside `tenant.A.trace` of line 2")
    );
    let drive = "[drive]\nfile = \"d.toml\"\npreset = \"femu-default\"";
    assert!(fails(drive).starts_with("s.toml:3: `drive.preset` beside `drive.file` of line 2"));
    let mut scenario = parse("[workload]\ntrace = \"a.vtr\"").unwrap();
    scenario
        .set_pair("workload.gen=uniform,size=1MiB,count=1")
        .expect("the command line replaces it");
}

#[test]
fn errors_name_file_line_and_what_was_expected() {
    for (text, wanted) in [
        ("\n\nmode = 1", "s.toml:3: unknown key `mode`; expected one of title, seed"),
        ("[drive]\ngc.victm = \"fifo\"", "s.toml:2: unknown key `gc.victm`; did you mean"),
        ("[drive]\nop = 7", "s.toml:2: `op` = `7`: expected a share"),
        ("[drive]\npreset = \"x\"", "s.toml:2: no preset `x`"),
        ("[replay]\nqd = \"many\"", "s.toml:2: `replay.qd`: found `many`, expected a whole number"),
        ("[replay]\nmode = \"fast\"", "s.toml:2: `replay.mode`: found `fast`, expected open"),
        ("[replay]\nqdd = 1", "s.toml:2: unknown key `qdd`; expected one of mode, qd"),
        ("[workload]\nfit = \"some\"", "s.toml:2: `workload.fit`: fit `some`: expected exact"),
        ("[workload]\ngen = \"nope\"", "s.toml:2: `workload.gen`: "),
        ("[sweep]\ngc.victm = [\"a\"]", "s.toml:2: unknown key `gc.victm`"),
        ("[sweep]\nbuffer.size = [\"big\"]", "s.toml:2: `buffer.size` = `big`: expected a size"),
        ("[sweep]\nseed = [1, 2]", "s.toml:2: `sweep.seed`: seeds stand above all tables"),
        ("seed = [\"5..1\"]", "s.toml:1: `seed`: found `5..1`"),
        ("seed = 1.5", "s.toml:1: `seed`: expected a string, a whole number"),
        ("a = ", "s.toml:1: "),
        ("[drive]\nop = { value = \"7 %\", sauce = \"x\" }", "s.toml:2: `drive.op`: unknown field"),
    ] {
        let found = fails(text);
        assert!(found.starts_with(wanted), "{text}\n  found {found}\n  wanted {wanted}");
    }
}

#[test]
fn knobs_without_effect_are_refused() {
    let refused = |text: &str| parse(text).unwrap().check().expect_err(text).to_string();
    assert!(refused("[replay]\nmode = \"open\"\nqd = 4").contains("no effect"));
    assert!(refused("[replay]\nmode = \"closed\"\nspeed = \"2\"").contains("no effect"));
    assert!(refused("[workload]\nratio = \"A:B=1:2\"").contains("no effect"));
    assert!(refused("[tenant.A]\nloop = 2").contains("expected `trace` or `gen`"));
}

#[test]
fn a_command_line_overrides_a_file() {
    let mut s = parse("[drive]\npreset = \"femu-default\"\n[sweep]\nop = [\"7 %\"]").unwrap();
    for pair in [
        "gc.victim=fifo",
        "sweep.op=7 %,28 %",
        "replay.qd=4",
        "seed=1..2,5",
        "workload.trace=t.csv",
    ] {
        s.set_pair(pair).unwrap();
    }
    assert_eq!(s.config().unwrap().text("gc.victim"), "fifo");
    assert_eq!(s.sweeps.len(), 1);
    assert_eq!(s.sweeps[0].values, ["7 %", "28 %"]);
    assert_eq!(s.seeds, [1, 2, 5]);
    assert_eq!(s.mode(), Mode::Closed { depth: 4, per_app: false });
    let origin = format!("{:?}", s.workload.origin);
    assert!(origin.contains("\"t.csv\""), "relative to the current folder: {origin}");
    for bad in ["gc.victm=fifo", "victim", "replay.nope=1", "=x"] {
        assert!(s.set_pair(bad).is_err(), "{bad}");
    }
}

#[test]
fn what_is_written_reads_back_as_the_same() {
    let mut s = parse(
        "title = \"a \\\"b\\\"\"\n[drive]\npreset = \"mqsim-default\"\nop = \"9 %\"\n\
         [workload]\ntrace = \"x.csv\"\nfit = \"compact:64K\"\nskip-bad = 3\ntime-unit = \"ms\"\n\
         align-shift = -512\n[replay]\nspeed = \"3/2\"\nmeasure-after = \"1 ms\"\nflush-every = 9\n\
         preload = \"reads\"\n[sweep]\nbuffer.policy = [\"lru\", \"aoi\"]\nbuffer.size = [\"1%\"]",
    )
    .unwrap();
    s.set("seed", "3..4").unwrap();
    let text = s.to_toml().unwrap();
    let again = Scenario::from_text("run.toml", &text, PathBuf::from("/elsewhere")).unwrap();
    let strip = |text: String| -> Vec<String> {
        text.lines().map(|l| l.split("  # ").next().unwrap_or(l).to_string()).collect()
    };
    assert_eq!(strip(again.to_toml().unwrap()), strip(text));
    assert_eq!(again.seeds, [3, 4]);
    assert_eq!(format!("{:?}", again.workload), format!("{:?}", s.workload));
    let texts = |s: &Scenario| -> Vec<String> {
        s.config().unwrap().entries().map(|(k, v, _)| format!("{k}={v}")).collect()
    };
    assert_eq!(texts(&again), texts(&s));
}

/// A scaled drive written as values says what it was scaled from, and so does the next file.
#[test]
fn a_scaled_drive_is_written_with_what_it_was() {
    for (drive, more) in [
        ("preset = \"femu-default\"\nscale = \"1/16\"", &[][..]),
        ("preset = \"femu-default\"\nscale = \"1/16\"", &["geometry.pages=32", "nand.erase=1 ms"]),
        ("preset = \"mqsim-default\"\nscale = \"1/32\"", &["buffer.policy=none"]),
    ] {
        let mut s = parse(&format!("[drive]\n{drive}")).unwrap();
        more.iter().for_each(|pair| s.set_pair(pair).unwrap());
        let text = s.to_toml().unwrap();
        let again = Scenario::from_text("run.toml", &text, PathBuf::from("/elsewhere")).unwrap();
        let (one, two) = (s.config().unwrap(), again.config().unwrap());
        let mut scaled = one.scaled().expect("it is scaled").clone();
        assert!(!scaled.changed.is_empty(), "{scaled:?}");
        for (key, _, after) in &scaled.changed {
            assert_eq!(one.text(key), after, "what is said to be is");
        }
        scaled.changed.sort_unstable();
        assert_eq!(two.scaled(), Some(&scaled), "{text}");
        let third = Scenario::from_text("x", &again.to_toml().unwrap(), PathBuf::new()).unwrap();
        assert_eq!(third.config().unwrap().scaled(), Some(&scaled));
    }
    let written = "[drive]\nscaled = \"1/16\"\n";
    let refused = fails(&format!("{written}scale = \"1/2\""));
    assert!(refused.starts_with("s.toml:2: `scaled` = `1/16`: the values here"), "{refused}");
    let refused = fails("[drive]\nscaled = \"a lot\"");
    assert!(
        refused.starts_with("s.toml:2: `drive.scaled`: found `a lot`, expected 1/n"),
        "{refused}"
    );
    let refused = fails("[drive]\nop = { value = \"7 %\", was = \"9 %\" }");
    assert!(refused.starts_with("s.toml:2: `op`: `was` without"), "{refused}");
}

/// What a preset said is not asked for, wherever it is written down; what somebody wrote over it is.
#[test]
fn a_value_changed_by_hand_is_its_changers() {
    let mut s = parse("[drive]\npreset = \"paper-nolog\"").unwrap();
    s.set_pair("capacity=1 GiB").unwrap();
    let text = s.to_toml().unwrap();
    let read = |text: &str| {
        let s = Scenario::from_text("run.toml", text, PathBuf::new()).unwrap();
        s.config().unwrap()
    };
    let (key, value, from) = {
        let config = s.config().unwrap();
        let mut all = config.entries().filter(|(_, _, from)| from.source.is_some());
        let (key, value, from) = all.find(|(key, ..)| *key == "nand.erase").unwrap();
        (key, value.to_string(), from.clone())
    };
    let origin = |config: &Config| config.entries().find(|e| e.0 == key).unwrap().2.clone();
    assert_eq!(origin(&read(&text)), from);
    assert!(!read(&text).is_asked(key) && read(&text).is_asked("capacity"));
    let line = text.lines().position(|line| line.starts_with(key)).unwrap();
    let edited: Vec<String> = text
        .lines()
        .enumerate()
        .map(|(at, text)| match at == line {
            true => text.replacen(&format!("value = \"{value}\""), "value = \"7 ms\"", 1),
            false => text.to_string(),
        })
        .collect();
    let config = read(&edited.join("\n"));
    assert_eq!(config.text(key), "7 ms");
    let mine = ssd::Origin { from: format!("run.toml:{}", line + 1), source: None, tag: None };
    assert_eq!(origin(&config), mine);
    assert!(config.is_asked(key));
}

#[test]
fn lists_split_outside_parentheses() {
    assert_eq!(split_list("lru, cflru(a,b) ,x,"), ["lru", "cflru(a,b)", "x"]);
}

#[test]
fn a_stack_in_one_text_is_its_drive_and_its_layers() {
    let text = "stack = \"drive(paper-nolog, op=20 %)+log(gc.victim=fifo)+lfs(cleaning=bl6)\"\n\
                [workload]\nfiles = \"fio\"\n";
    let scenario = Scenario::from_text("s.toml", text, PathBuf::new()).unwrap();
    let config = scenario.config().unwrap();
    assert_eq!(config.text("op"), "20 %");
    assert_eq!(scenario.stack.layers().len(), 2);
    assert_eq!(scenario.stack.lfs().unwrap().cleaning, lfs::fs::Cleaning::Bl6);
    // Written out, the drive is a drive's, and the layers are the stack's.
    let again = scenario.to_toml().unwrap();
    assert!(again.contains("stack = \"+log(gc.victim=fifo)+lfs(cleaning=bl6)\""), "{again}");
    let again = Scenario::from_text("again.toml", &again, PathBuf::new()).unwrap();
    assert_eq!(again.stack.layers(), scenario.stack.layers());
    assert_eq!(again.workload.files, scenario.workload.files);
}

#[test]
fn what_a_stack_of_a_scenario_cannot_be_is_said_where_it_stands() {
    let wrong = [
        (
            "stack = \"ram(1GiB)\"",
            "s.toml:1: `stack`: found `ram(1 GiB)` at the bottom, expected drive(PRESET)",
        ),
        ("stack = \"drive(no-such)\"", "s.toml:1: "),
        ("stack = \"drive(paper-nolog)+cut(1)\"", "s.toml:1: cut: for what is served"),
        ("stack = \"+lfs+log\"", "s.toml:1: `stack`: log: above lfs"),
        ("stack = \"+log(gc.polic=x)\"", "s.toml:1: "),
        ("[workload]\nfiles = \"nfs\"", "s.toml:2: "),
        ("[sweep]\nstack = [\"log\"]", "s.toml:2: `sweep.stack`: found `log`, expected `+`"),
    ];
    for (text, begins) in wrong {
        let error = Scenario::from_text("s.toml", text, PathBuf::new()).unwrap_err().to_string();
        assert!(error.starts_with(begins), "{text}: {error}");
    }
}

#[test]
fn a_trace_may_be_named_by_its_digest() {
    let digest = "0123456789abcdef".repeat(4);
    let with = |value: &str| {
        let text = format!(
            "[drive]\npreset = \"mqsim-default\"\n[workload]\nformat = \"msr\"\ntrace = {value}\n"
        );
        parse(&text)
    };
    let name = format!("sha256:{digest}@https://host/a.vtr");
    let table = format!("{{ url = \"https://host/a.vtr\", sha256 = \"{digest}\" }}");
    for value in [format!("\"{name}\""), table.clone(), format!("[{table}, \"b.vtr\"]")] {
        let text = with(&value).unwrap().to_toml().unwrap();
        assert!(text.contains(&format!("\"{name}\"")), "{text}");
    }
    for (value, said) in [
        (table.replace(&digest, "12"), "`workload.trace`: `sha256:12"),
        (table.replace("url", "uri"), "unknown field `uri`; expected sha256, url"),
        (table.replace("\"https://host/a.vtr\"", "7"), "`workload.trace.url`: expected a string"),
        ("\"sha256:12\"".to_string(), "expected sha256: and 64 digits"),
    ] {
        let error = with(&value).expect_err(&value).to_string();
        assert!(error.starts_with("s.toml:5: ") && error.contains(said), "{error}");
    }
}
