//! Sweeps that stop and go on, in parts and in one: whatever is killed, and wherever the points were run,
//! the results have the bytes of one machine. Real processes, and real kills.

mod rig;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lab::study::{Finished, Index};
use report::json::{Json, MapExt};
use rig::{Folder, code, signal, stderr, until};
use serde_json::Value;

const DRIVE: &str = "[drive]\ncapacity = '32 MiB'\nop = '12.5 %'\ngeometry.channels = 2\n\
    geometry.dies = 2\ngeometry.pages = 64\n[replay]\nmode = 'closed'\nqd = 4\n";

/// 8 policies, 6 sizes, 6 seeds.
fn of_288() -> String {
    format!(
        "title = '288'\nseed = ['1..6']\n{DRIVE}\
         [workload]\ngen = 'zipf,size=32MiB,count=3k,read=40'\n\
         [sweep]\nbuffer.policy = ['lru', 'fifo', 'clock', 'sieve', 'arc', 's3-fifo', 'cflru', 'aoi']\n\
         buffer.size = ['256 KiB', '512 KiB', '768 KiB', '1 MiB', '1 %', '2 MiB']\n"
    )
}

/// 2 loads, 3 policies, 4 seeds.
fn of_24() -> String {
    format!(
        "seed = ['1..4']\n{DRIVE}[sweep]\nworkload.trace = ['gen:zipf,size=32MiB,count=3k,read=40', \
         'gen:uniform,size=16MiB,count=3k']\nbuffer.policy = ['lru', 'sieve', 'aoi']\n"
    )
}

const DOCUMENT: [&str; 2] = ["--deterministic", "--quiet"];

fn args<'a>(first: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [first, &DOCUMENT, more].concat()
}

#[test]
fn a_sweep_that_was_killed_goes_on_and_has_the_bytes_of_one_that_was_not() {
    let folder = Folder::new("killed");
    folder.write("s.toml", &of_288());
    folder.ok(&args(&["run", "s.toml", "--out", "whole", "--csv", "whole.csv"], &[]));
    let whole = folder.read("whole/results.json");
    assert_eq!(folder.there("whole").len(), 288);
    for (sent, out) in [("KILL", "k"), ("INT", "i")] {
        // Killed over and over, each time once something was done.
        let mut kills = 0;
        for least in [20, 90, 180] {
            let before = folder.there(out);
            let start = args(&["run", "s.toml", "--out", out, "--threads", "2"], &["--resume"]);
            let mut child = folder.start(&start);
            until("points end", || {
                folder.there(out).len() >= least || child.try_wait().unwrap().is_some()
            });
            signal(sent, child.id());
            let output = child.wait_with_output().unwrap();
            if output.status.success() {
                break;
            }
            kills += 1;
            let kept = folder.there(out);
            assert!(kept.is_superset(&before), "what is there stays");
            assert!(!folder.0.join(out).join("results.json").exists(), "no half result");
            if sent == "INT" {
                assert_eq!(code(&output), 130);
                let said = stderr(&output);
                let count = kept.len();
                assert!(
                    said.contains(&format!("{count} of 288 runs are finished and kept")),
                    "{said}"
                );
            }
            // All that is under a point's name is a whole point.
            for id in &kept {
                let text =
                    String::from_utf8(folder.read(&format!("{out}/points/{id}.json"))).unwrap();
                assert_eq!(Finished::read(&text).unwrap().id, *id);
            }
        }
        assert!(kills >= 1, "{sent}: it was never killed");
        let (there, csv) = (folder.there(out).len(), format!("{out}.csv"));
        let end = ["run", "s.toml", "--out", out, "--threads", "2", "--csv", &csv];
        let said = folder.ok(&args(&end, &["--resume"]));
        assert!(said.contains(&format!("{there} of 288 points were there")), "{said}");
        assert_eq!(folder.read(&format!("{out}/results.json")), whole, "{sent}");
        assert_eq!(folder.read(&csv), folder.read("whole.csv"), "{sent}");
        assert_eq!(folder.there(out), folder.there("whole"));
        assert_eq!(folder.parts(out), [""; 0], "no part stays");
        // And then there is nothing to do.
        let said = folder.ok(&args(&["run", "s.toml", "--out", out], &["--resume"]));
        assert!(said.contains("288 of 288 points were there"), "{said}");
        assert_eq!(folder.read(&format!("{out}/results.json")), whole, "{sent}");
    }
}

#[test]
fn shards_of_many_processes_are_merged_to_the_bytes_of_one() {
    let folder = Folder::new("shards");
    folder.write("s.toml", &of_24());
    let whole = folder.ok(&args(&["run", "s.toml", "--json"], &[]));
    let ids: BTreeSet<String> =
        folder.ok(&["points", "s.toml", "--ids"]).lines().map(str::to_string).collect();
    assert_eq!(ids.len(), 24);
    for shards in [1, 3, 7, 100] {
        let name = |shard: usize| format!("of-{shards}-{shard}");
        // Numbered from 1, as arrays of jobs often are: the last one is shard 0.
        let mut running: Vec<Child> = Vec::new();
        for shard in 1..=shards {
            let (part, out) = (format!("{shard}/{shards}"), name(shard));
            let child = folder.start(&args(&["run", "s.toml", "--out", &out], &["--shard", &part]));
            running.push(child);
            if running.len() == 8 {
                running.drain(..).for_each(|mut child| assert!(child.wait().unwrap().success()));
            }
        }
        running.drain(..).for_each(|mut child| assert!(child.wait().unwrap().success()));
        let each: Vec<BTreeSet<String>> = (1..=shards).map(|n| folder.there(&name(n))).collect();
        assert_eq!(each.iter().map(BTreeSet::len).sum::<usize>(), 24, "no overlap");
        assert_eq!(each.into_iter().flatten().collect::<BTreeSet<_>>(), ids);
        // In any order.
        let names: Vec<String> = (1..=shards).rev().map(name).collect();
        let folders: Vec<&str> = names.iter().map(String::as_str).collect();
        let merged =
            folder.ok(&[&["merge"], &folders[..], &["--out", "merged", "--json"]].concat());
        assert!(merged == whole, "{shards} shards");
        assert!(folder.read("merged/results.json") == whole.as_bytes());
        // The merged folder repeats all of it.
        let again = folder.ok(&args(&["run", "merged/run.toml", "--json"], &[]));
        let results = |text: &str| serde_json::from_str::<Value>(text).unwrap()["results"].clone();
        assert_eq!(results(&again), results(&whole), "{shards} shards");
    }
}

/// Whether a process runs: one that nobody has waited for yet does not.
fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// A client starts three workers, each a shard of one store. A worker is killed, then the client; no
/// worker stays behind, and a client that starts again ends with the bytes of one machine.
#[test]
fn a_worker_and_a_client_are_killed() {
    let folder = Folder::new("client");
    let long = of_24().replace("count=3k", "count=60k");
    folder.write("s.toml", &long);
    let script = "for i in 1 2 3; do varve run s.toml --out o --quiet --shard $i/3 --threads 1 & \
                  echo $! >> pids; done; wait";
    let client = || {
        let mut command = Command::new("sh");
        let binary = Path::new(env!("CARGO_BIN_EXE_varve"));
        let mut path = binary.parent().unwrap().as_os_str().to_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        command.current_dir(&folder.0).args(["-c", script]).env("PATH", path);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut first = client();
    let pids = || -> Vec<u32> {
        let text = std::fs::read_to_string(folder.0.join("pids")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    };
    until("points end", || folder.there("o").len() >= 2 && pids().len() == 3);
    let workers = pids();
    signal("KILL", workers[1]);
    let before = folder.there("o").len();
    until("the others go on", || folder.there("o").len() > before || folder.there("o").len() == 24);
    let alive = workers.iter().any(|pid| runs(*pid));
    signal("KILL", first.id());
    first.wait().unwrap();
    let killed = Instant::now();
    until("workers end with their client", || workers.iter().all(|pid| !runs(*pid)));
    let took = killed.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?} after a client that was killed");
    let kept = folder.there("o").len();
    assert!(alive && kept < 24, "{kept} of 24: nothing was left to be stopped");
    // A file that was damaged meanwhile is run again.
    let damaged = folder.there("o").into_iter().next().unwrap();
    folder.write(&format!("o/points/{damaged}.json"), "{\"schema\": \"varve.point/1\"");
    std::fs::remove_file(folder.0.join("pids")).unwrap();
    assert!(client().wait().unwrap().success());
    assert_eq!(folder.there("o").len(), 24);
    let merged = folder.ok(&["merge", "o", "--json"]);
    assert!(merged == folder.ok(&args(&["run", "s.toml", "--json"], &[])));
    assert_eq!(folder.parts("o"), [""; 0], "no part stays");
}

fn ids(folder: &Folder, more: &[&str]) -> Vec<String> {
    let text = folder.ok(&[&["points", "s.toml", "--json"], more].concat());
    let index = Index::read(&text).unwrap();
    index.ids().map(|(_, id)| id.to_string()).collect()
}

#[test]
fn just_what_changed_has_another_id() {
    let folder = Folder::new("ids");
    folder.ok(&["trace", "gen", "uniform,size=8MiB,count=1k", "a.vtr"]);
    folder.ok(&["trace", "gen", "zipf,size=8MiB,count=1k", "b.vtr"]);
    folder.write(
        "s.toml",
        &format!(
            "seed = [1, 2]\n{DRIVE}[sweep]\nworkload.trace = ['a.vtr', 'b.vtr']\n\
             buffer.policy = ['lru', 'sieve']\n"
        ),
    );
    let first = ids(&folder, &[]);
    assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 8, "each has its own");
    assert_eq!(ids(&folder, &["--set", "title=another"]), first);
    // Another value of the sweep and another seed leave the others as they are.
    let more = ids(&folder, &["--set", "sweep.buffer.policy=lru,fifo,sieve", "--set", "seed=1..3"]);
    assert_eq!(more.len(), 18);
    assert!(first.iter().all(|id| more.contains(id)));
    // A key of the drive or of the replay touches all.
    for set in ["gc.victim=fifo", "replay.qd=5", "workload.drop-flushes=on", "remap.mode=off"] {
        assert!(ids(&folder, &["--set", set]).iter().all(|id| !first.contains(id)), "{set}");
    }
    // The same bytes in another folder are the same; another trace under the name of one is not.
    std::fs::create_dir(folder.0.join("moved")).unwrap();
    for name in ["a.vtr", "b.vtr"] {
        std::fs::copy(folder.0.join(name), folder.0.join("moved").join(name)).unwrap();
    }
    let moved = std::fs::read_to_string(folder.0.join("s.toml")).unwrap();
    let here = folder.0.join("s.toml");
    std::fs::write(&here, moved.replace("'a.vtr', 'b.vtr'", "'moved/a.vtr', 'moved/b.vtr'"))
        .unwrap();
    assert_eq!(ids(&folder, &[]), first);
    std::fs::write(&here, moved).unwrap();
    folder.ok(&["trace", "gen", "zipf,size=8MiB,count=1k", "b.vtr", "--seed", "2"]);
    let changed = ids(&folder, &[]);
    assert_eq!(changed[..4], first[..4], "the points of the other trace");
    assert!(changed[4..].iter().all(|id| !first.contains(id)));
    // So a store does just these.
    folder.ok(&args(&["run", "s.toml", "--out", "o"], &[]));
    folder.ok(&["trace", "gen", "uniform,size=8MiB,count=1k", "a.vtr", "--seed", "3"]);
    let said = folder.ok(&args(&["run", "s.toml", "--out", "o"], &["--resume"]));
    assert!(said.contains("4 of 8 points were there"), "{said}");
}

#[test]
fn what_does_not_belong_together_is_not_merged() {
    let folder = Folder::new("refused");
    folder.write("s.toml", &of_24());
    let ids = ids(&folder, &[]);
    let ran = folder.ok(&args(
        &["run", "s.toml", "--out", "a", "--point", "0..2", "--json"],
        &["--point", &ids[5]],
    ));
    let ran: Value = serde_json::from_str(&ran).unwrap();
    assert_eq!((&ran["ran"], &ran["there"], &ran["of"]), (&4.into(), &0.into(), &24.into()));
    assert_eq!(folder.there("a"), [0, 1, 2, 5].map(|n| ids[n].clone()).into());
    folder.fails(&["merge", "a"], 1, "20 of 24 points are missing, the first is 3 (");
    let partial: Value =
        serde_json::from_str(&folder.ok(&["merge", "a", "--partial", "--json"])).unwrap();
    assert_eq!(partial["partial"]["finished"], 4);
    assert_eq!(partial["results"].as_array().unwrap().len(), 4);
    assert!(folder.ok(&["merge", "a", "--partial"]).contains("partial: 4 of 24 runs"));
    // Files of points beside a folder; one that is there twice and says the same is no harm.
    folder.ok(&args(&["run", "s.toml", "--out", "b"], &["--point", "0..23"]));
    let files: Vec<String> = ids.iter().map(|id| format!("b/points/{id}.json")).collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let whole = folder.ok(&args(&["run", "s.toml", "--json"], &[]));
    assert!(folder.ok(&[&["merge", "a", "--json"], &files[..]].concat()) == whole);
    folder.fails(&["merge", files[0]], 3, "expected at least one folder");
    // Of another study.
    folder.ok(&args(&["run", "s.toml", "--out", "c", "--set", "op=28 %"], &["--shard", "0/2"]));
    folder.fails(&["merge", "a", "c"], 3, "digests");
    let other = folder.there("c").into_iter().next().unwrap();
    folder.fails(&["merge", "b", &format!("c/points/{other}.json")], 3, "which b does not have");
    // Two results of one point that differ: one of the machines is wrong.
    let path = format!("b/points/{}.json", ids[0]);
    let mut result = Finished::read(&String::from_utf8(folder.read(&path)).unwrap()).unwrap();
    if let Json::Map(map) = &mut result.result {
        map.int("erases", 1_000_000);
    }
    folder.write(&path, &result.text());
    folder.fails(&["merge", "a", "b"], 4, "has two results that differ");
    // A digit that was damaged on the way.
    let text = result.text().replace("1000000", "1000001");
    folder.write(&path, &text);
    folder.fails(&["merge", "b"], 3, "it is damaged");
    // Another program's.
    let index = String::from_utf8(folder.read("a/points.json")).unwrap();
    let index = index.replace("\"engine\": \"", "\"engine\": \"0");
    folder.write("a/points.json", &index);
    folder.fails(&["merge", "c", "a"], 3, "engines");
    folder.fails(&["merge", "no-such"], 3, "expected at least one folder");
    folder.fails(&["merge", "."], 3, "points.json");
}

#[test]
fn a_part_that_is_not_there_is_refused_before_anything_runs() {
    let folder = Folder::new("part");
    folder.write("s.toml", &of_24());
    let refused = |more: &[&str], with: i32, said: &str| {
        folder.fails(&args(&["run", "s.toml", "--out", "o"], more), with, said);
        assert!(folder.there("o").is_empty());
    };
    refused(&["--point", "24"], 3, "there is no point 24");
    refused(&["--point", "3..x"], 3, "no range");
    refused(&["--point", "9..3"], 3, "there is none of it");
    refused(&["--point", "0123456789abcdef"], 3, "there is none of it");
    refused(&["--shard", "4/3"], 3, "expected I/N");
    refused(&["--shard", "1"], 3, "expected I/N");
    refused(&["--shard", "0/0"], 3, "expected I/N");
    refused(&["--shard", "0/2", "--point", "1"], 2, "cannot be used with");
    refused(&["--shard", "0/2", "--csv", "x"], 3, "varve merge");
    refused(&["--set", "sweep.buffer.policy=lru,zzz"], 3, "zzz");
    refused(&["--set", "workload.trace=a.vtr"], 3, "is swept");
    for alone in [&["--point", "1"][..], &["--shard", "0/2"], &["--resume"]] {
        let output = folder.run(&args(&["run", "s.toml"], alone));
        assert_eq!(code(&output), 2, "{alone:?}");
    }
    folder.write("plain", "a file");
    folder.fails(&["points", "s.toml", "--out", "plain/x"], 1, "--out");
    let listed = folder.ok(&["points", "s.toml", "--out", "o"]);
    assert_eq!(listed.lines().count(), 25, "{listed}");
    assert!(!folder.0.join("o").exists(), "looking leaves nothing behind");
}

#[test]
fn a_cell_that_cannot_be_says_why_and_the_others_run() {
    let folder = Folder::new("impossible");
    let text = "seed = [1, 2]\n[drive]\nop = '12.5 %'\ngeometry.channels = 2\ngeometry.dies = 2\n\
        geometry.pages = 64\nbuffer.size = '1 MiB'\n[replay]\nmode = 'closed'\nqd = 4\n[sweep]\n\
        workload.trace = ['gen:uniform,size=64MiB,count=2k', 'gen:uniform,size=16MiB,count=2k']\n\
        capacity = ['32 MiB', '96 MiB']\n";
    folder.write("s.toml", text);
    let out = folder.ok(&args(&["run", "s.toml", "--out", "o", "--csv", "o.csv"], &[]));
    let bad = "capacity=32 MiB";
    assert!(out.contains("impossible: ") && out.contains(bad), "{out}");
    let document: Value = serde_json::from_slice(&folder.read("o/results.json")).unwrap();
    let results = document["results"].as_array().unwrap();
    assert_eq!(results.len(), 8);
    for (place, result) in results.iter().enumerate() {
        let reason = result["impossible"].as_str();
        assert_eq!(reason.is_some(), place < 2, "{result}");
        assert!(reason.is_none_or(|reason| reason.contains("32 MiB")), "{reason:?}");
        assert_eq!(result["waf"].is_number(), place >= 2, "{result}");
    }
    assert_eq!(document["settings"].as_array().unwrap().len(), 2);
    assert!(document["config"]["op"]["value"].is_string() && document["workload"].is_null());
    let html = String::from_utf8(folder.read("o/report.html")).unwrap();
    assert!(html.contains("2 of the runs cannot be"), "the report says so");
    // Shards and merging keep it.
    for shard in ["0/2", "1/2"] {
        folder.ok(&args(&["run", "s.toml", "--out", "p"], &["--shard", shard]));
    }
    folder.ok(&["merge", "p", "--out", "m", "--csv", "m.csv"]);
    assert_eq!(folder.read("m/results.json"), folder.read("o/results.json"));
    assert_eq!(folder.read("m.csv"), folder.read("o.csv"));
    folder.fails(&args(&["run", "s.toml", "--out", "p"], &["--point", "1"]), 3, "cannot be");
    let ids = folder.ok(&["points", "s.toml", "--ids"]);
    assert_eq!(ids.lines().count(), 6);
    // A value that fits with nothing is wrong itself.
    let wrong = text.replace("'96 MiB'", "'8 MiB'");
    folder.write("w.toml", &wrong);
    folder.fails(&["run", "w.toml", "--out", "w"], 3, "expected");
    assert!(!folder.0.join("w").exists());
}

#[test]
fn columns_have_numbers_of_one_unit() {
    let folder = Folder::new("columns");
    let text = of_24()
        .replace("[sweep]", "[sweep]\nop = ['12.5 %', '28 %']\nbuffer.size = ['1 %', '2 MiB']");
    folder.write("s.toml", &text);
    let csv = folder.ok(&args(&["run", "s.toml", "--csv", "-", "--set", "seed=1"], &[]));
    let mut lines = csv.lines();
    let heading: Vec<&str> = lines.next().unwrap().split(',').collect();
    let first = [
        "buffer.policy",
        "buffer.size",
        "buffer.size.bytes",
        "op",
        "op.share",
        "workload.trace",
        "seed",
    ];
    assert_eq!(heading[..7], first);
    let listed = folder.ok(&["list", "columns", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    for column in listed["results"].as_array().unwrap() {
        assert!(heading.contains(&column["column"].as_str().unwrap()), "{column}");
    }
    let rows: Vec<&str> = lines.collect();
    assert_eq!(rows.len(), 24);
    // A share of the drive is bytes there; recipes have commas.
    assert!(rows[0].starts_with("lru,1 %,331776,12.5 %,0.125000,\"gen:zipf,"), "{}", rows[0]);
    folder.fails(&args(&["run", "s.toml", "--csv", "-", "--json"], &[]), 3, "two documents");
    folder.fails(&["sim", "gen:uniform,size=8MiB,count=1k", "--hits", "--csv", "-"], 3, "--hits");
    let one = folder.ok(&["sim", "gen:uniform,size=8MiB,count=1k", "--csv", "-", "--quiet"]);
    assert_eq!(one.lines().count(), 2, "{one}");
}

#[test]
fn presets_replays_and_traces_are_swept() {
    let folder = Folder::new("presets");
    folder.write(
        "s.toml",
        "title = 'presets'\n[drive]\nscale = 'fit'\nbuffer.policy = 'lru'\nbuffer.size = '4 MiB'\n\
         [workload]\ngen = 'zipf,size=512MiB,read=50,count=2k'\n[replay]\nmode = 'closed'\n\
         [sweep]\npreset = ['femu-default', 'mqsim-default']\nreplay.qd = [1, 8]\n\
         buffer.policy = ['lru', 'fifo']\n",
    );
    let text = folder.ok(&args(&["run", "s.toml", "--json", "--out", "o"], &[]));
    let document: Value = serde_json::from_str(&text).unwrap();
    let results = document["results"].as_array().unwrap();
    assert_eq!(results.len(), 8);
    let name = "drive.preset=femu-default replay.qd=1 buffer.policy=lru seed=1";
    assert_eq!(results[0]["name"], name);
    let settings = document["settings"].as_array().unwrap();
    assert_eq!(settings.len(), 4);
    assert!(settings.iter().all(|setting| setting["config"]["geometry.pages"].is_object()));
    assert_eq!(settings[1]["replay"]["qd"], 8);
    assert!(
        document["workload"]["extent_bytes"].is_number(),
        "what all have in common is said once"
    );
    // Each is what it would be alone.
    let alone = ["--set", "sweep.preset=mqsim-default", "--set", "sweep.replay.qd=8"];
    let alone = folder.ok(&args(&["run", "s.toml", "--json"], &alone));
    let alone: Value = serde_json::from_str(&alone).unwrap();
    assert_eq!(alone["results"].as_array().unwrap()[..], results[6..]);
    // The table has the keys, and the report names the settings.
    let table = folder.ok(&args(&["run", "o/run.toml"], &[]));
    assert!(table.contains("mqsim-default") && table.contains("replays differ"), "{table}");
    // What each drive was scaled by, as a run alone says it.
    let one = ["--set", "sweep.preset=femu-default", "--set", "sweep.replay.qd=1"];
    let one = folder.ok(&args(&["run", "s.toml"], &one));
    let line = one.lines().find(|line| line.starts_with("scaled 1/16: capacity ")).unwrap();
    let of = "1/16 (drive.preset=femu-default replay.qd=1 and 1 more):";
    assert!(table.contains(&line.replacen("1/16:", of, 1)), "{table}\n{line}");
    let csv = folder.ok(&args(&["run", "s.toml", "--csv", "-"], &[]));
    let column = csv.split('\n').next().unwrap().split(',').position(|name| name == "scaled");
    let scaled = |row: &str| row.split(',').nth(column.unwrap()).unwrap().to_string();
    let scaled: Vec<String> = csv.lines().skip(1).map(scaled).collect();
    let by = |setting: &Value| setting["scale"]["by"].as_str().unwrap().to_string();
    assert_eq!(scaled, settings.iter().flat_map(|s| [by(s), by(s)]).collect::<Vec<_>>());
    let html = String::from_utf8(folder.read("o/report.html")).unwrap();
    assert!(html.contains("<h3>drive.preset=femu-default replay.qd=1</h3>"));
    // What differs is seen by a comparison.
    folder.ok(&args(&["run", "s.toml", "--set", "sweep.replay.qd=1,9", "--out", "p"], &[]));
    let compared = folder.ok(&["compare", "o", "p"]);
    assert!(compared.contains("replay.qd"), "{compared}");
    let cited = folder.ok(&["cite", "o"]);
    for said in [
        "presets femu-default, mqsim-default",
        "8 runs, seed 1",
        "@software{varve",
        "replay.qd (1, 8)",
    ] {
        assert!(cited.contains(said), "{said}: {cited}");
    }
    let version: Value = serde_json::from_str(&folder.ok(&["--version", "--json"])).unwrap();
    assert_eq!(version["version"], document["version"]);
    assert_eq!(version["engine"].as_str().unwrap().len(), 32);
}
