//! `varve prove --seeds`: what a range of seeds comes to is one document, the same on any number of threads, in any
//! process and from any parts. Real processes, and real kills.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use proof::RunsDigest;
use report::format::grouped;
use serde_json::Value;

/// A folder of one test's own, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("varve-prove-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
    /// `varve prove` with words separated by blanks.
    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_varve"));
        command.current_dir(&self.0).arg("prove").args(words.split(' '));
        command
    }
    fn run(&self, words: &str) -> Output {
        self.command(words).output().unwrap()
    }
    fn ok(&self, words: &str) -> String {
        let output = self.run(words);
        assert_eq!(output.status.code(), Some(0), "{words}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    }
    fn fails(&self, words: &str, with: i32, said: &str) {
        let output = self.run(words);
        assert_eq!(output.status.code(), Some(with), "{words}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{words}: {}", stderr(&output));
    }
    fn names(&self, folder: &str) -> BTreeSet<String> {
        let entries = std::fs::read_dir(self.0.join(folder)).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn until(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Every kind of search, with how many seeds of it are asked for here: the twentieth is made twice (C9).
const KINDS: [(&str, u64); 10] = [
    ("", 24),
    ("--tx", 24),
    ("--remap", 6),
    ("--remap --faulty", 6),
    ("--remap --paper", 9),
    ("--lfs", 4),
    ("--lfs --sequences", 12),
    ("--long", 3),
    ("--remap --healthy --long", 3),
    ("--stack ram(2MiB)+log(segment=64KiB)", 3),
];

#[test]
fn a_range_is_the_same_bytes_on_any_number_of_threads_and_from_any_parts() {
    let folder = Folder::new("threads");
    for (number, (kind, last)) in KINDS.into_iter().enumerate() {
        // The paper's log breaks promises, and those are in the document, too.
        let code = i32::from(kind.ends_with("--paper"));
        let whole = |threads: u64, first: u64, last: u64, out: &str| {
            let words =
                format!("{kind} --seeds {first}..{last} --threads {threads} --json --out {out}");
            let ran = folder.run(words.trim_start());
            assert!(
                ran.status.code() == Some(0) || ran.status.code() == Some(code),
                "{words}: {}",
                stderr(&ran)
            );
            String::from_utf8(ran.stdout).unwrap()
        };
        let one = whole(1, 1, last, "one");
        let found = json(&one);
        assert_eq!(found["tally"]["seeds"], last, "{kind}");
        assert!(found["tally"]["cuts"].as_u64().unwrap() > last, "{kind}: {one}");
        assert_eq!(found["violations"].as_u64().unwrap() > 0, code == 1, "{kind}: {one}");
        assert!(one == whole(3, 1, last, "three"), "{kind}: other bytes on three threads");
        let out = format!("parts-{number}");
        let middle = last / 3;
        whole(2, middle + 1, last, &out);
        whole(1, 1, middle, &out);
        let merged = folder.run(&format!("--merge {out} --json"));
        let documents = folder.names(&out).into_iter().filter(|name| name.ends_with(".json"));
        assert_eq!(documents.count(), 2, "{kind}");
        assert!(one.as_bytes() == merged.stdout, "{kind}: {}", stderr(&merged));
    }
}

#[test]
fn ten_ranges_one_of_them_killed_and_repeated_are_the_whole() {
    let folder = Folder::new("ten");
    // Neither a number of cuts nor a time ends them.
    let whole = folder.ok("--seeds 1..200 --cuts 10 --seconds 0 --json");
    let range = |n: u64| format!("--seeds {}..{} --out parts --threads 1", n * 20 + 1, n * 20 + 20);
    let mut killed =
        folder.command("--seeds 61..100000 --out parts").stdout(Stdio::null()).spawn().unwrap();
    until("its folder is made", || folder.0.join("parts").exists());
    std::thread::sleep(Duration::from_millis(200));
    killed.kill().unwrap();
    killed.wait().unwrap();
    for n in (0..10).rev().filter(|n| *n != 3) {
        folder.ok(&range(n));
    }
    assert_eq!(
        folder.names("parts").len(),
        9,
        "one that was killed leaves nothing: {:?}",
        folder.names("parts")
    );
    folder.fails("--merge parts", 1, "seeds 61..80 are missing between");
    folder.ok(&range(3));
    assert!(whole == folder.ok("--merge parts --json"));
    let said = folder.ok("--merge parts --out merged");
    let found = json(&whole);
    let digest = found["digest"].as_str().unwrap();
    assert!(
        said.contains("seeds 1..200, 0 violations, digest sum2:") && said.contains(digest),
        "{said}"
    );
    // What was merged can be merged.
    folder.ok("--seeds 201..210 --out merged");
    assert!(folder.ok("--seeds 1..210 --json") == folder.ok("--merge merged --json"));
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let folder = Folder::new("refused");
    folder.ok("--seeds 1..4 --out a");
    folder.ok("--seeds 4..6 --out b");
    folder.ok("--seeds 5..6 --out tx --tx");
    folder.ok("--seeds 5..6 --out healthy --healthy");
    folder.ok("--seeds 5..6 --out other --commit other");
    folder.fails(
        "--merge a b",
        3,
        "seeds 1..4 (a/drive-1-4.json) and 4..6 (b/drive-4-6.json) overlap",
    );
    folder.fails("--merge a a/drive-1-4.json", 3, "overlap");
    folder.fails("--merge a tx", 3, "kind `tx`, expected `drive` as in a/drive-1-4.json");
    folder.fails("--merge a healthy", 3, "flags `[\"healthy\"]`, expected `[]`");
    folder.fails("--merge a other", 3, "commit `other`, expected ``");
    folder.fails("--merge nothing", 1, "nothing");
    std::fs::create_dir(folder.0.join("empty")).unwrap();
    folder.fails("--merge empty", 3, "no range of seeds");
    let text = std::fs::read_to_string(folder.0.join("a/drive-1-4.json")).unwrap();
    let damaged = [
        ("\"last\": 4", "\"last\": 5", "4 runs, expected 5 of 1..5"),
        ("\"last\": 4", "\"last\": 0", "expected A..B"),
        ("varve.prove/1", "varve.prove/9", "schema `varve.prove/9`, expected `varve.prove/1`"),
        ("sum2:", "sum1:", "`digest`: found `sum1:"),
        ("\"steps\"", "\"stops\"", "`tally.steps`: expected a whole number"),
    ];
    for (was, is, said) in damaged {
        assert!(text.contains(was), "{text}");
        std::fs::write(folder.0.join("damaged.json"), text.replace(was, is)).unwrap();
        folder.fails("--merge damaged.json", 3, said);
    }
    folder.fails("--seeds 5..3", 2, "expected A..B with A not above B");
    folder.fails("--seeds 5", 2, "both ends included");
    folder.fails("--seeds 1..2 --seed 3", 2, "cannot be used with");
    folder.fails("--json --cuts 1", 3, "--json: expected --seeds or --merge");
    folder.fails("--lfs --sequences --seeds 0..3", 3, "--seeds 0..3: expected sequences, 1..");
    folder.fails("--seeds 1..2 --out a/drive-1-4.json", 1, "--out");
}

#[test]
fn a_range_with_broken_promises_is_searched_to_its_end() {
    let folder = Folder::new("bug");
    if proof::bug_names().is_empty() {
        folder.fails("--seeds 1..2 --bug FlushSkipsNewest", 3, proof::WITHOUT_BUGS);
        return;
    }
    folder.fails("--seeds 1..2 --bug Ssa", 3, "--bug Ssa: plan: `bug`: no bug `Ssa` of");
    let run = |words: &str| {
        let ran = folder.run(words);
        assert_eq!(ran.status.code(), Some(1), "{words}: {}", stderr(&ran));
        String::from_utf8(ran.stdout).unwrap()
    };
    let whole = run("--seeds 1..30 --bug FlushSkipsNewest --json --out plans --threads 3");
    let found = json(&whole);
    assert_eq!(found["tally"]["seeds"], 30);
    let broken = found["broken"].as_array().unwrap();
    assert!(broken.len() > 1 && found["violations"] == broken.len(), "{whole}");
    assert!(broken[0]["what"].as_str().unwrap().starts_with('C'), "{whole}");
    assert!(folder.names("plans").iter().any(|name| name.ends_with(".toml")));
    run("--seeds 1..10 --bug FlushSkipsNewest --out parts");
    run("--seeds 11..30 --bug FlushSkipsNewest --out parts");
    assert!(whole == run("--merge parts --json"));
}

/// Whether a process is there and no zombie.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[test]
fn a_range_ends_with_who_asked_for_it_and_leaves_nothing() {
    let folder = Folder::new("parent");
    let script = "\"$0\" prove --seeds 1..100000000 --out o & echo $! >pid; wait";
    let mut parent = Command::new("sh");
    parent.current_dir(&folder.0).args(["-c", script, env!("CARGO_BIN_EXE_varve")]);
    let mut parent = parent.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let pid =
        || std::fs::read_to_string(folder.0.join("pid")).unwrap_or_default().trim().to_string();
    until("it runs", || folder.0.join("o").exists() && runs(&pid()));
    std::thread::sleep(Duration::from_millis(300));
    assert!(runs(&pid()));
    parent.kill().unwrap();
    parent.wait().unwrap();
    until("it ends", || !runs(&pid()));
    assert_eq!(folder.names("o"), BTreeSet::new());
}

/// docs/record.md is written from docs/record.json: the ranges of each search tile, their digests are that of all of
/// them, and the page says how many cuts there are.
#[test]
fn the_page_of_the_record_says_what_its_data_do() {
    let docs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let read = |name: &str| std::fs::read_to_string(docs.join(name)).unwrap();
    let (data, page) = (json(&read("record.json")), read("record.md"));
    let (mut cuts, mut seeds) = (0, 0);
    for (name, search) in data["searches"].as_object().unwrap() {
        let (mut next, mut sum, mut all) = (1, RunsDigest::default(), 0);
        for range in search["ranges"].as_array().unwrap() {
            let count = |at: usize| range[at].as_u64().unwrap();
            assert_eq!(count(0), next, "{name}: {range}");
            next = count(1) + 1;
            all += count(2);
            sum.merge(&format!("sum2:{}", range[3].as_str().unwrap()).parse().unwrap());
        }
        assert_eq!(search["digest"], sum.to_string(), "{name}");
        assert!(page.contains(&format!("| 1..{} | **{}** |", next - 1, grouped(all))), "{name}");
        (cuts, seeds) = (cuts + all, seeds + next - 1);
    }
    let said = format!("**{} power cuts** in {} seeds", grouped(cuts), grouped(seeds));
    assert!(cuts > 0 && page.contains(&said), "the page does not say: {said}");
    assert!(page.contains(data["commit"].as_str().unwrap()));
}
