//! What is refused, with the place and what was expected.

use super::*;

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

#[cfg(not(feature = "vhost-user"))]
#[test]
fn a_front_that_was_left_out_of_the_build_says_how_to_have_it() {
    let folder = Folder::new("vhost");
    let output = folder.run(&["serve", "vhost-user", "--ram", "16MiB", "--socket", "s"]);
    assert_eq!(code(&output), 3);
    let said = stderr(&output);
    assert!(said.contains("`cargo build --release --features vhost-user`"), "{said}");
    assert!(!folder.0.join("s").exists());
}
