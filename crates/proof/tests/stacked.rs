//! Whole stacks under proof: every pair of what a stack can hold is searched, or refused by the rule that
//! refuses it in virtual time too; and the alarm, bugs far below that must show at the top.

mod bugs;

use bugs::{caught, is_shown_by};
use stack::Description;
use stack::rules::{Top, World, check};
use varve_proof::{Density, Draw, Judge, Plan, StackSpec, draw_stack, hunt, twice};

const LAYERS: [&str; 7] = ["log", "paper-log", "lfs", "cut", "record", "read-only", "real-time"];
const BASES: [&str; 4] = ["ram", "image", "drive", "drive-image"];
const SHORT: Draw = Draw { steps: (8, 16), faulty: 0, bytes: 0 };
/// A piece of a search, for what many tests do.
const PIECE: Density = Density { operations: 3, nested: 3, resume: 6, limit: 120 };

fn base(name: &str) -> String {
    match name {
        "ram" => "ram(8MiB)".to_string(),
        "drive" => "drive(mqsim-default, geometry.blocks=0, capacity=8 MiB, geometry.pages=32, \
                    geometry.channels=1, geometry.dies=1, geometry.planes=1, line=plane, op=40 %, \
                    buffer.size=64 KiB)"
            .to_string(),
        other => format!("{other}(no-such-file)"),
    }
}

fn layer(name: &str) -> &str {
    match name {
        "log" => "log(segment=64KiB, gc.batch=4)",
        "paper-log" => "paper-log(commit_pairs=7)",
        "cut" => "cut(1)",
        "record" => "record(no-such-file)",
        other => other,
    }
}

fn text(base_name: &str, layers: &[&str]) -> String {
    layers.iter().fold(base(base_name), |text, name| format!("{text}+{}", layer(name)))
}

/// Whether a stack is searched: some cuts of a run go well, but where the paper's log promises what it
/// does not keep. Else what refuses it.
fn searched(text: &str) -> Result<(), String> {
    let described: Description = text.parse().expect(text);
    let rule = check(&described, World::Search, Top::Files).map_err(|e| e.to_string());
    let plan = match (draw_stack(1, text, &SHORT), rule) {
        (Ok(plan), Ok(())) => plan,
        (Ok(_), Err(rule)) => panic!("{text}: drawn against the rule `{rule}`"),
        (Err(error), Ok(())) => panic!("{text}: {error}"),
        (Err(error), Err(rule)) => {
            assert!(error.to_string().ends_with(&rule), "{text}: {error}, {rule}");
            return Err(rule);
        }
    };
    let outcome = hunt(&plan, Density { limit: 12, ..PIECE }).expect(text);
    assert!(outcome.tally.cuts > 0, "{text}: nothing was cut");
    let broken = outcome.broken.map(|broken| broken.failure);
    assert!(broken.is_none() || text.contains("paper-log"), "{text}: {broken:?}");
    Ok(())
}

fn row(name: &str, cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells
        .map(|text| if searched(&text).is_ok() { "yes".to_string() } else { "-".to_string() })
        .collect();
    format!("| `{name}` | {} |\n", cells.join(" | "))
}

#[test]
fn every_pair_is_searched_or_refused_as_the_document_says() {
    let layers = LAYERS.map(|layer| format!(" `+{layer}` |")).concat();
    let mut table =
        format!("| `prove --stack` |{layers}\n|{}\n", " --- |".repeat(LAYERS.len() + 1));
    for base in BASES {
        table += &row(base, LAYERS.iter().map(|layer| text(base, &[layer])));
    }
    for lower in LAYERS {
        let upper = LAYERS.iter().map(|upper| text("drive", &[lower, upper]));
        table += &row(&format!("drive+{lower}"), upper);
    }
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/stack.md");
    let document = std::fs::read_to_string(document).expect("a document");
    assert!(document.contains(&table), "docs/stack.md does not have this table:\n{table}");
}

/// Each judge, over a disk and over a drive, through the log's shells and logs over logs.
#[test]
fn no_cut_of_a_stack_breaks_a_promise() {
    let stacks: [(&str, &[&str], Judge); 8] = [
        ("ram", &[], Judge::Pages),
        ("drive", &[], Judge::Pages),
        ("ram", &["log"], Judge::Order),
        ("drive", &["log"], Judge::Order),
        ("drive", &["log", "log"], Judge::Order),
        ("ram", &["lfs"], Judge::Files),
        ("drive", &["lfs"], Judge::Files),
        ("drive", &["log", "lfs"], Judge::Files),
    ];
    for (base, layers, judge) in stacks {
        let text = text(base, layers);
        let (mut cuts, mut live) = (0, 0);
        for seed in 1..=4 {
            let plan = draw_stack(seed, &text, &SHORT).expect(&text);
            assert_eq!(StackSpec::of(&plan).expect(&text).judge(), judge, "{text}");
            let outcome = hunt(&plan, PIECE).expect(&text);
            assert!(outcome.broken.is_none(), "{text}, seed {seed}: {:?}", outcome.broken);
            cuts += outcome.tally.cuts;
            live += u64::from(plan.config.contains_key("stack.live"));
            if seed == 1 {
                twice(&plan).unwrap_or_else(|failure| panic!("{text}: {failure}"));
            }
        }
        assert!(cuts > 60, "{text}: {cuts} cuts are too few to mean anything");
        assert_eq!(live > 0, layers.first() == Some(&"log") && layers.get(1) != Some(&"log"));
    }
}

/// A bug of the drive is seen by whoever stands on the log above it, and one of the file system by
/// whoever reads its files.
#[test]
fn bugs_far_below_show_at_the_top() {
    let log = text("drive", &["log"]);
    let draw = |seed: u64| {
        let plan = draw_stack(seed, &log, &Draw { steps: (20, 60), ..SHORT }).expect("a stack");
        let spec = StackSpec::of(&plan).expect("a stack");
        (plan, spec, 0)
    };
    for bug in [ssd::Bug::AckBeforeDrain, ssd::Bug::FlushSkipsNewest] {
        let (plan, _) = caught(bug, 100_000, draw, PIECE);
        is_shown_by(&plan);
    }
    let volume = text("ram", &["lfs"]);
    let draw = |seed: u64| {
        let plan = draw_stack(seed, &volume, &Draw { steps: (20, 60), ..SHORT }).expect("a stack");
        (plan, (), 0)
    };
    let (plan, _) =
        caught(lfs::fs::Bug::DataFlush, 40_000, draw, Density { operations: 1, ..PIECE });
    is_shown_by(&plan);
}

#[test]
fn what_a_plan_of_a_stack_says_wrongly_is_named() {
    for (key, value, said) in [
        ("stack", "disk(3)", "found `disk` at the bottom"),
        ("stack", "ram(8MiB)+cut(1)", "cut: for what is served"),
        ("stack", "ram(8MiB)+log(segment=64KiB)+log(gc.victim=oldest)", "gc.victim"),
        ("stack.live", "x", "stack.live"),
        ("stack.live", "3", "expected one log"),
        ("lfs.slots", "3", "expected stack or stack.live"),
    ] {
        let mut plan = Plan::default();
        plan.config.insert("stack".to_string(), "ram(8MiB)".to_string());
        plan.config.insert(key.to_string(), value.to_string());
        let error = StackSpec::of(&plan).expect_err(value).to_string();
        assert!(error.contains(said), "{key} = {value}: {error}");
    }
}
