//! Traces and plans: made, read, replayed.

use super::*;

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
    // What is read stays, and only our own format is written.
    let fails = |args: &[&str], what: &str| {
        let output = folder.run(args);
        assert!(code(&output) == 3 && stderr(&output).contains(what), "{}", stderr(&output));
    };
    let before = std::fs::read(folder.0.join("m.vtr")).unwrap();
    std::os::unix::fs::symlink("m.vtr", folder.0.join("link.vtr")).unwrap();
    fails(&["trace", "convert", "m.vtr", "./m.vtr", "--limit", "1"], "is the trace that is read");
    fails(&["trace", "convert", "link.vtr", "m.vtr", "--limit", "1"], "is the trace that is read");
    fails(&["trace", "merge", "A=a.vtr,m.vtr", "-o", "m.vtr"], "is the trace that is read");
    fails(&["trace", "convert", "m.vtr", "m.csv"], "expected a name that ends in .vtr");
    fails(&["trace", "gen", "uniform,size=8MiB,count=5", "/dev/null"], "ends in .vtr");
    std::os::unix::fs::symlink("/dev/null", folder.0.join("null.vtr")).unwrap();
    fails(&["trace", "gen", "uniform,size=8MiB,count=5", "null.vtr"], "no file");
    assert_eq!(std::fs::read(folder.0.join("m.vtr")).unwrap(), before);
}

/// A merged stream ends with the shortest of its tenants: how much of the others that leaves is said, and two
/// of one name are not one.
#[test]
fn what_a_merged_stream_leaves_of_a_tenant_is_said() {
    let folder = Folder::new("merge-unused");
    let recipe = |count: u64| format!("gen:uniform,size=1MiB,read=0,iat=10us,count={count}");
    let (a, b) = (format!("A={}", recipe(1000)), format!("B={}", recipe(100)));
    let merge = |more: &[&str]| {
        let output = folder.run(&[&["trace", "merge", &a, &b, "-o", "m.vtr"], more].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output)
    };
    let said = merge(&[]);
    let used = "A: 100 of 1000 requests used, because the stream ends with the shortest";
    assert!(said.contains(used) && said.contains("longest or first:A uses all"), "{said}");
    assert!(!said.contains("B:"), "{said}");
    // A second round has no effect where the first does not end; a discard stands between them.
    assert!(merge(&["--loop", "A=2"]).contains("A: 100 of 2001 requests in 2 rounds used"));
    assert_eq!(merge(&["--end", "longest"]), "");
    let twice = folder.run(&["trace", "merge", &a, &a, "-o", "m.vtr"]);
    assert_eq!(code(&twice), 3);
    assert!(stderr(&twice).contains("there is a A already"), "{}", stderr(&twice));
    folder.file(
        "t.toml",
        &format!(
            "[tenant.A]\n{}\n[tenant.B]\n{}\n[replay]\nmode = \"closed\"\n",
            as_key(&a),
            as_key(&b)
        ),
    );
    let run = folder.run(&["run", "t.toml", "--json"]);
    assert!(stderr(&run).contains(used), "{}", stderr(&run));
    let document: Value = serde_json::from_slice(&run.stdout).unwrap();
    let tenants = &document["workload"]["tenants"];
    assert_eq!(
        (&tenants[0]["requests"], &tenants[0]["requests_used"]),
        (&1000.into(), &100.into())
    );
    assert_eq!((&tenants[1]["requests"], &tenants[1]["requests_used"]), (&100.into(), &100.into()));
}

/// The recipe of an application of a merge, as a key of a tenant.
fn as_key(app: &str) -> String {
    format!("gen = \"{}\"", app.split_once("gen:").unwrap().1)
}

/// Rows of MSR Cambridge with three volumes, of SSDsim, and of a table whose columns are told.
fn three_formats(folder: &Folder) {
    let rows = |row: &dyn Fn(u64) -> String| (1..=60).map(row).collect::<String>();
    let msr =
        |i| format!("{},src1,{},Write,{},4096,100\n", 128166372 + i * 10_000, i % 3, i * 8192);
    folder.file("msr.csv", &rows(&msr));
    folder.file("ssd.trace", &rows(&|i| format!("{} 0 {} 8 {}\n", i * 1000, i * 16, i % 2)));
    folder.file("table.txt", &rows(&|i| format!("{};{};8;put\n", i * 7, i * 16)));
}

/// Of three formats each refused what was said of the others.
#[test]
fn an_option_is_for_the_traces_of_a_merge_that_know_it() {
    let folder = Folder::new("merge-options");
    three_formats(&folder);
    let merge = |more: &[&str]| folder.run(&[&["trace", "merge", "-o", "m.vtr"], more].concat());
    let table = ["--columns", "at=1:us,off=2:sector,len=3:sector,op=4", "--op", "W=put"];
    let own = ["--set", "tenant.M.app=src1_1", "--set", "tenant.S.format=ssdsim"];
    let all = ["M=msr.csv", "S=ssd.trace", "T=table.txt", "--end", "longest", "--time-unit", "us"];
    let told = ["--set", "tenant.M.format=msr"];
    let output = merge(&[&all[..], &table, &own, &told].concat());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let info = |name: &str, more: &[&str]| -> Value {
        let output = folder.run(&[&["trace", "info", name, "--json"], more].concat());
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let merged = info("m.vtr", &[]);
    // Each tenant is what its trace is by itself, with the same words.
    let alone = [
        info("msr.csv", &["--app", "src1_1"]),
        info("ssd.trace", &["--format", "ssdsim", "--time-unit", "us"]),
        info("table.txt", &table),
    ];
    for (at, alone) in alone.iter().enumerate() {
        let (tenant, alone) = (&merged["results"]["apps"][at], &alone["results"]);
        for what in ["requests", "footprint_pages", "written_pages", "sequential"] {
            assert_eq!(tenant[what], alone[what], "tenant {at}: {what}");
        }
    }
    assert_eq!(merged["results"]["apps"][0]["requests"], 20);
    assert_eq!(merged["results"]["requests"], 140);
    // What none of them knows is refused, with what was asked and what was found.
    for (more, what) in [
        (
            &["M=msr.csv", "G=gen:uniform,size=1MiB,count=9", "--time-unit", "us"][..],
            "--time-unit: of ssdsim; found msr.csv in msr",
        ),
        (
            &["G=gen:uniform,size=1MiB,count=9", "--op", "R=0"],
            "`op-map`: of trace files; found gen:",
        ),
        (
            &["M=msr.csv", "--set", "tenant.M.time-unit=us"],
            "tenant M: --time-unit: of ssdsim; found",
        ),
        (&["M=msr.csv", "N=msr.csv", "--app-is-comm", "--size-unit", "page"], "--size-unit: of"),
        (&["M=msr.csv", "--set", "tenant.N.app=x"], "with one of M"),
        (&["M=msr.csv", "--set", "tenant.M.app=x"], "no request of `x`"),
        (&["M=msr.csv", "--set", "tenant.M.skip-bad=x"], "tenant.M.skip-bad"),
        // Rows that are like a format's may be a table's: nobody guesses.
        (
            &["M=msr.csv", "T=table.txt", table[0], table[1]],
            "fits msr, and columns of a table are told",
        ),
        (
            &["M=msr.csv", "S=ssd.trace", "--time-unit", "us"],
            "fit several formats: disksim, ssdsim",
        ),
    ] {
        let output = merge(more);
        assert!(code(&output) == 3 && stderr(&output).contains(what), "{}", stderr(&output));
    }
}

/// Tenants took the only volume of a trace, or none.
#[test]
fn how_a_trace_is_read_is_refused_where_none_is() {
    let folder = Folder::new("unread");
    for (source, more, wanted) in [
        ("@demo", ["--app", "db"], "`app`: of trace files; found @demo"),
        ("gen:uniform,count=9", ["--format", "msr"], "`format`: of trace files; found gen:uniform"),
        ("@demo", ["--set", "workload.time-unit=us"], "`time-unit`: of trace files"),
    ] {
        let output = folder.run(&sim(source, &[&more[..], &["--fit-drive"]].concat()));
        assert_eq!(code(&output), 3, "{source} {more:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(wanted), "{source} {more:?}: {}", stderr(&output));
    }
}

#[test]
fn a_tenant_is_one_volume_of_a_trace() {
    let folder = Folder::new("volumes");
    three_formats(&folder);
    folder.file(
        "s.toml",
        "[drive]\ncapacity = '32 MiB'\nop = '28 %'\n[replay]\nmode = 'closed'\n\
         [tenant.one]\ntrace = 'msr.csv'\napp = 'src1_1'\n[tenant.two]\ntrace = 'msr.csv'\napp = 'src1_2'\n",
    );
    let output = folder.run(&["run", "s.toml", "--json", "--deterministic", "--out", "o"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["workload"]["tenants"][1]["app"], "src1_2");
    assert_eq!(document["workload"]["requests"], 40);
    let count =
        |app: &str| document["results"][0]["latency_ns"]["by_app"][app]["write"]["count"].clone();
    assert_eq!((count("0"), count("1")), (20.into(), 20.into()));
    let again = folder.run(&["run", "o/run.toml", "--json", "--deterministic"]);
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again["results"], document["results"]);
    let without = folder.run(&["run", "s.toml", "--set", "tenant.one.app=nobody"]);
    assert!(
        stderr(&without).contains("no request of `nobody`; the 3 found"),
        "{}",
        stderr(&without)
    );
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
