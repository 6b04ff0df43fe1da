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
