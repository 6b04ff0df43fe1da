//! The habits of the project as a test: sizes, no stubs, no unsafe code, documents that name
//! everything there is and nothing that is not.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Lines of a source file at most. Beyond about 500 a file is more than a reader holds in mind.
const MOST_LINES: usize = 800;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Every text file of the project: path from its root, contents.
fn texts() -> Vec<(String, String)> {
    let (root, mut found) = (root(), Vec::new());
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let built =
                ["target", "out", "varve-demo", "varve-reproduce", ".git"].contains(&name.as_str());
            if path.is_dir() && !built {
                folders.push(path);
            } else if path.is_file()
                && let Ok(text) = std::fs::read_to_string(&path)
            {
                let short = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
                found.push((short, text));
            }
        }
    }
    found.sort();
    assert!(found.len() > 100, "{} files in {}", found.len(), root.display());
    found
}

fn ends(path: &str, with: &[&str]) -> bool {
    with.iter().any(|end| path.ends_with(end))
}

fn none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

#[test]
fn no_file_has_grown_past_what_one_reader_holds_in_mind() {
    let long = |(path, text): (String, String)| {
        let lines = text.lines().count();
        (ends(&path, &[".rs", ".py", ".sh"]) && lines > MOST_LINES)
            .then(|| format!("{path}: {lines} lines"))
    };
    let found: Vec<String> = texts().into_iter().filter_map(long).collect();
    none("longer than 800 lines", &found);
}

#[test]
fn nothing_is_a_stub_and_no_test_is_switched_off() {
    // Put together here, so that this file does not find itself.
    let banned = [["todo", "!("], ["unimplemented", "!("], ["#[", "ignore"], ["FIX", "ME"]]
        .map(|w| w.concat());
    let mut found = Vec::new();
    for (path, text) in texts().iter().filter(|(path, _)| ends(path, &[".rs"])) {
        for (i, line) in text.lines().enumerate() {
            if banned.iter().any(|word| line.contains(word)) {
                found.push(format!("{path}:{}: {}", i + 1, line.trim()));
            }
        }
    }
    none("stubs", &found);
}

/// Edges whose other side is C or Python, and the module of each that may hold unsafe code.
const UNSAFE: [(&str, &str); 5] = [
    ("sqlite-vfs", "abi"),
    ("sqlite-ext", "entry"),
    ("sqlite-count", "preload"),
    ("sqlite-suite", "entry"),
    ("py", "foreign"),
];

/// No file but those of `module` lifts the ban.
fn only_in(source: &std::path::Path, module: &str) {
    for entry in std::fs::read_dir(source).unwrap() {
        let path = entry.unwrap().path();
        if path.file_stem().is_some_and(|stem| stem == module) {
            continue;
        }
        if path.is_dir() {
            only_in(&path, module);
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            let lifted = text.lines().any(|line| {
                line.contains("allow(unsafe_code)") && !line.contains(&format!("mod {module};"))
            });
            let next = text.contains(&format!("#[allow(unsafe_code)]\nmod {module};"))
                || text.contains(&format!("#[allow(unsafe_code)]\npub mod {module};"));
            assert!(!lifted || next, "{}: unsafe code outside {module}", path.display());
        }
    }
}

#[test]
fn every_crate_inherits_the_lints_and_has_a_readme() {
    assert!(read("Cargo.toml").contains("unsafe_code = \"forbid\""));
    let mut crates = 0;
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let manifest = folder.join("Cargo.toml");
        let Ok(text) = std::fs::read_to_string(&manifest) else { continue };
        crates += 1;
        assert!(text.contains("\nversion.workspace = true\n"), "{}", manifest.display());
        match UNSAFE.iter().find(|(name, _)| folder.ends_with(name)) {
            None => assert!(text.contains("[lints]\nworkspace = true"), "{}", manifest.display()),
            Some((_, module)) => {
                assert!(text.contains("unsafe_code = \"deny\""), "{}", manifest.display());
                only_in(&folder.join("src"), module);
            }
        }
        assert!(folder.join("README.md").is_file(), "{} has no README.md", folder.display());
    }
    assert!(crates >= 8, "{crates} crates");
}

#[test]
fn no_line_names_a_place_of_one_machine() {
    let banned = ["work", "home", "root"].map(|folder| ["/", folder, "/"].concat());
    let mut found = Vec::new();
    for (path, text) in texts() {
        let checked = ends(&path, &[".rs", ".md", ".toml", ".sh", ".py", ".txt", ".html", ".css"])
            || !path.contains('.')
            || path.starts_with(".ci/");
        // Samples of traces hold what other people's machines wrote.
        if !checked || path.contains("tests/samples/") {
            continue;
        }
        for (i, line) in text.lines().enumerate() {
            let named = banned.iter().any(|place| {
                line.match_indices(place.as_str()).any(|(at, _)| {
                    let before = line[..at].chars().next_back();
                    before.is_none_or(|c| c.is_whitespace() || "\"'`(=:".contains(c))
                })
            });
            if named {
                found.push(format!("{path}:{}: {}", i + 1, line.trim()));
            }
        }
    }
    none("paths of one machine", &found);
}

/// The first column of `varve list WHAT`, and the aliases.
fn listed(what: &str) -> Vec<String> {
    let out =
        Command::new(env!("CARGO_BIN_EXE_varve")).args(["list", what, "--json"]).output().unwrap();
    let json: Value = serde_json::from_slice(&out.stdout).unwrap();
    let first = ["policy", "victim", "preset", "format", "scenario", "generator"];
    let rows = json["results"].as_array().unwrap();
    let name = |row: &Value| first.iter().find_map(|key| row[key].as_str()).map(str::to_string);
    let names: Vec<String> = rows.iter().filter_map(name).collect();
    assert_eq!(names.len(), rows.len(), "{what}");
    assert!(!names.is_empty(), "{what}");
    names
}

#[test]
fn documents_name_everything_that_has_a_name() {
    let mut found = Vec::new();
    let mut named = |document: &str, names: Vec<String>| {
        let text = read(document);
        for name in names.iter().filter(|name| !text.contains(&format!("`{name}`"))) {
            found.push(format!("{document} does not name `{name}`"));
        }
    };
    for what in ["policies", "victims", "presets"] {
        named("crates/ssd/README.md", listed(what));
    }
    for what in ["formats", "generators"] {
        named("crates/workload/README.md", listed(what));
    }
    named("docs/tour.md", listed("scenarios").iter().map(|s| format!("scenarios/{s}")).collect());
    // The names of faults stand in one match, beside their kinds.
    let atlas = read("crates/proof/src/atlas.rs");
    let kinds: BTreeSet<String> = atlas
        .lines()
        .filter(|line| line.trim().starts_with("Fault::"))
        .filter_map(|line| line.split_once("=> \"")?.1.split_once('"'))
        .map(|(name, _)| name.to_string())
        .collect();
    assert!(kinds.len() >= 12, "{kinds:?}");
    for document in ["docs/faults.md", "docs/formats.md"] {
        named(document, kinds.iter().cloned().collect());
    }
    named("docs/faults.md", proof::bug_names());
    none("documents are behind", &found);
}

#[test]
fn the_contract_and_the_harness_have_the_same_lines() {
    let text = read("docs/contract.md");
    for n in 1..=12 {
        assert!(text.contains(&format!("\n## C{n}\n")), "C{n}");
    }
    for contract in proof::Contract::ALL {
        let name = contract.to_string();
        assert!(name == "Panic" || text.contains(&format!("\n## {name}\n")), "{name}");
    }
}

/// Adds every key of a document, but those of maps whose keys are names of the user's.
fn keys(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                into.insert(key.clone());
                if !["config", "by_app", "recipe", "params"].contains(&key.as_str()) {
                    keys(value, into);
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| keys(value, into)),
        _ => {}
    }
}

#[test]
fn every_key_of_a_result_is_described() {
    let text = read("docs/formats.md");
    let drive = "capacity=32MiB geometry.channels=2 geometry.dies=2 geometry.pages=64 op=12.5% \
                 buffer.policy=lru buffer.size=1MiB map.mode=paged map.cache=32KiB \
                 ckpt.mode=interval";
    let mut command = Command::new(env!("CARGO_BIN_EXE_varve"));
    command.args(["sim", "gen:uniform,size=32MiB,count=20k,read=30,discard=1,flush=100,iat=40us"]);
    command.args(["--json", "--quiet", "--title", "keys"]);
    for pair in drive.split_whitespace() {
        command.args([
            "--set",
            &pair.replace("MiB", " MiB").replace("KiB", " KiB").replace('%', " %"),
        ]);
    }
    let out = command.output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let mut found = BTreeSet::new();
    keys(&serde_json::from_slice(&out.stdout).unwrap(), &mut found);
    let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let described: BTreeSet<&str> = text.split(word).collect();
    let missing: Vec<String> =
        found.into_iter().filter(|key| !described.contains(key.as_str())).collect();
    none("keys of a result that docs/formats.md does not describe", &missing);
}

#[test]
fn what_documents_point_at_is_there() {
    let mut found = Vec::new();
    for (path, text) in texts().iter().filter(|(path, _)| ends(path, &[".md"])) {
        let folder = root().join(path).parent().unwrap().to_path_buf();
        // Links: ](target), without the place inside it.
        for part in text.split("](").skip(1) {
            let target = part.split([')', '#']).next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") && !folder.join(target).exists() {
                found.push(format!("{path}: link to {target}"));
            }
        }
        // Files named by their path from the root, or from the crate of a README.
        for part in text.split('`').skip(1).step_by(2) {
            let tops =
                ["crates/", "docs/", "scripts/", "scenarios/", "data/", "bench/", "src/", "tests/"];
            let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
            if tops.iter().any(|top| part.starts_with(top))
                && part.chars().all(plain)
                && !root().join(part).exists()
                && !folder.join(part).exists()
            {
                found.push(format!("{path}: `{part}`"));
            }
        }
    }
    none("documents point at what is not there", &found);
}
