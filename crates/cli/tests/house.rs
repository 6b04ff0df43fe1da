//! The house as ARCHITECTURE.md draws it is the one that cargo and the compiler see: its table of crates, its arrows,
//! and the parts of its rooms.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

/// Crates by their short names, and what each names.
fn crates() -> BTreeMap<String, BTreeSet<String>> {
    let arguments = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let said = Command::new(env!("CARGO")).args(arguments).current_dir(root()).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let said: Value = serde_json::from_slice(&said.stdout).unwrap();
    let packages = said["packages"].as_array().unwrap();
    let short = |name: &Value| name.as_str().unwrap().trim_start_matches("varve-").to_string();
    let ours: BTreeSet<String> = packages.iter().map(|p| short(&p["name"])).collect();
    let names = |package: &Value| {
        let all = package["dependencies"].as_array().unwrap().iter();
        let built = all.filter(|d| d["kind"].is_null()).map(|d| short(&d["name"]));
        built.filter(|name| ours.contains(name)).collect()
    };
    let found: BTreeMap<_, _> = packages.iter().map(|p| (short(&p["name"]), names(p))).collect();
    assert!(found.len() > 15, "{found:?}");
    found
}

/// Every crate has its row in ARCHITECTURE.md, with just the crates that it names.
#[test]
fn the_table_of_crates_is_what_cargo_says() {
    let text = read("ARCHITECTURE.md");
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    let mut wrong = Vec::new();
    for (name, wanted) in crates() {
        let wanted = Vec::from_iter(wanted).join(", ");
        let wanted = if wanted.is_empty() { "-".to_string() } else { wanted };
        match rows.iter().find(|row| row[1] == format!("`{name}`")) {
            None => wrong.push(format!("no row for `{name}`, which names {wanted}")),
            Some(row) => {
                let mut said: Vec<&str> = row[2].split(", ").collect();
                said.sort_unstable();
                let said = said.join(", ");
                if said != wanted {
                    wrong.push(format!("`{name}` names {wanted}; the table says {said}"));
                }
            }
        }
    }
    none("ARCHITECTURE.md, table of crates", &wrong);
}

/// The line of the drawing in which each crate stands, from the top.
fn drawn(text: &str) -> BTreeMap<String, usize> {
    let house = text.split("## The house").nth(1).expect("the house");
    let drawing = house.split("```").nth(1).expect("a drawing");
    let mut found = BTreeMap::new();
    for (at, line) in drawing.lines().enumerate() {
        for part in line.split(':').rev().skip(1) {
            let word = |c: char| !(c.is_ascii_alphanumeric() || c == '-');
            let name = part.rsplit(word).next().unwrap_or_default();
            let before = found.insert(name.to_string(), at);
            assert_eq!(before, None, "{name} is drawn twice");
        }
    }
    found
}

/// Whoever is named stands in a line below: not above, and not beside.
#[test]
fn the_arrows_of_the_drawing_go_down() {
    let (text, crates) = (read("ARCHITECTURE.md"), crates());
    let drawn = drawn(&text);
    let there: Vec<&String> = drawn.keys().collect();
    assert_eq!(there, Vec::from_iter(crates.keys()), "crates of the drawing, and those there are");
    let arrows = crates.iter().flat_map(|(from, to)| to.iter().map(move |to| (from, to)));
    let wrong: Vec<String> = arrows
        .filter(|(from, to)| drawn[*from] >= drawn[*to])
        .map(|(from, to)| format!("{from} names {to}, which is not drawn below it"))
        .collect();
    none("ARCHITECTURE.md, drawing of the house", &wrong);
}

/// A room: its folder, and the files that are its parts.
struct Room {
    folder: &'static str,
    parts: &'static [&'static str],
}

const ROOMS: [Room; 2] = [
    Room {
        folder: "crates/ssd/src/ftl",
        parts: &[
            "map",
            "lines",
            "free",
            "heads",
            "clock",
            "erases",
            "trim",
            "spares",
            "staging",
            "gc/cleaner",
        ],
    },
    Room {
        folder: "crates/lfs/src/fs",
        parts: &[
            "segs",
            "nat",
            "nodes",
            "pages",
            "durable",
            "orphans",
            "cleaner",
            "ahead",
            "summaries",
            "stats",
        ],
    },
];

/// The code of a file, without comments and tests.
fn code(path: &str) -> String {
    let text = read(path);
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let bare = |line: &str| line.split("//").next().unwrap_or_default().to_string();
    text.lines().map(bare).collect::<Vec<_>>().join("\n")
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}

/// What a file takes from its own crate: all words of such uses, and of paths in the code.
fn taken(code: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for start in ["super::", "crate::"] {
        for (at, _) in code.match_indices(start) {
            let rest = &code[at..];
            let is_use = code[..at].trim_end().ends_with("use");
            let end = rest.find(|c: char| match is_use {
                true => c == ';',
                false => !(c.is_alphanumeric() || c == '_' || c == ':'),
            });
            found.extend(words(&rest[..end.unwrap_or(rest.len())]));
        }
    }
    found
}

/// Types that a file makes.
fn makes(code: &str) -> Vec<&str> {
    let all: Vec<&str> = words(code).collect();
    let made = all.windows(2).filter(|two| ["struct", "enum", "trait"].contains(&two[0]));
    made.map(|two| two[1]).collect()
}

/// The first circle that can be walked from `at`.
fn circle<'a>(
    arrows: &BTreeMap<&'a str, BTreeSet<&'a str>>,
    walked: &mut Vec<&'a str>,
    at: &'a str,
) -> Option<Vec<&'a str>> {
    if let Some(first) = walked.iter().position(|one| *one == at) {
        return Some(walked[first..].to_vec());
    }
    walked.push(at);
    let found = arrows[at].iter().find_map(|next| circle(arrows, walked, next));
    walked.pop();
    found
}

#[test]
fn no_parts_of_a_room_stand_in_a_circle() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for room in &ROOMS {
        let codes: Vec<(&str, String)> = room
            .parts
            .iter()
            .map(|part| (*part, code(&format!("{}/{part}.rs", room.folder))))
            .collect();
        let name = |part: &'static str| part.rsplit('/').next().unwrap();
        let mut arrows = BTreeMap::new();
        for (part, code) in &codes {
            let taken = taken(code);
            let others = codes.iter().filter(|(other, _)| other != part);
            let named = others.filter(|(other, code)| {
                taken.contains(name(other)) || makes(code).iter().any(|made| taken.contains(made))
            });
            let named: BTreeSet<&str> = named.map(|(other, _)| *other).collect();
            arrows.insert(*part, named);
        }
        seen += arrows.values().map(BTreeSet::len).sum::<usize>();
        for part in room.parts {
            if let Some(circle) = circle(&arrows, &mut Vec::new(), part) {
                wrong.push(format!("{}: a circle of {}", room.folder, circle.join(", ")));
            }
        }
    }
    assert!(seen > 0, "no part names another: this reader sees nothing");
    none("parts of rooms", &wrong);
}

#[test]
fn the_reader_of_code_sees_what_is_named() {
    let code = "use super::{Map, free::{Free, Line}};\nfn f(x: super::heads::Head) -> crate::Other { y(x) }\nstruct Mine;";
    let found = taken(code);
    for word in ["Map", "free", "Free", "Line", "heads", "Head", "Other"] {
        assert!(found.contains(word), "{word} in {found:?}");
    }
    assert!(!found.contains("f") && !found.contains("y"), "{found:?}");
    assert_eq!(makes(code), ["Mine"]);
    let arrows = BTreeMap::from([
        ("a", BTreeSet::from(["b"])),
        ("b", BTreeSet::from(["c"])),
        ("c", BTreeSet::from(["b"])),
    ]);
    assert_eq!(circle(&arrows, &mut Vec::new(), "a"), Some(vec!["b", "c"]));
    let drawing = "## The house\n```\n  top   cli: the program   bench: speed\n  low   sqlite-vfs: files\n```";
    let drawn = drawn(drawing);
    assert_eq!(
        drawn,
        BTreeMap::from([("cli".into(), 1), ("bench".into(), 1), ("sqlite-vfs".into(), 2)])
    );
}
