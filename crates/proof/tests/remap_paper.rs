//! What paper mode loses and varve mode keeps: the plans P1 to P8 in `plans/paper`. They are also the
//! proof that the harness sees such bugs.

use std::path::{Path, PathBuf};

use varve_proof::{Density, Draw, LogKind, Plan, draw_remap, hunt, replay};

fn plans() -> Vec<(PathBuf, Plan)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("plans/paper");
    let entries = std::fs::read_dir(&folder).expect("the folder of plans");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("its entries").path()).collect();
    paths.sort();
    let load = |path: PathBuf| {
        let plan = Plan::load(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        (path, plan)
    };
    paths.into_iter().map(load).collect()
}

#[test]
fn paper_mode_breaks_each_promise_as_its_plan_says() {
    let plans = plans();
    assert_eq!(plans.len(), 8);
    for (path, plan) in plans {
        let outcome = replay(&plan).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        println!("{}: {outcome}", path.display());
        assert!(plan.contract.is_some() && outcome.as_written(), "{}: {outcome}", path.display());
        assert!(outcome.reached, "{}: {outcome}", path.display());
    }
}

#[test]
fn the_search_finds_that_paper_mode_promises_nothing() {
    let mut broken = std::collections::BTreeSet::new();
    for seed in 0..300 {
        let (plan, _, _) = draw_remap(seed, LogKind::PaperLog, &Draw::HEALTHY);
        let outcome = hunt(&plan, Density::SHORT).expect("a log");
        broken.extend(outcome.broken.map(|broken| broken.failure.contract.to_string()));
    }
    for line in ["C1", "C2", "C3", "C4", "C5", "C6"] {
        assert!(broken.contains(line) || line == "C4", "{line}: {broken:?}");
    }
}

#[test]
fn varve_mode_keeps_what_paper_mode_loses() {
    for (path, mut plan) in plans() {
        plan.config.insert("remap.mode".to_string(), "log".to_string());
        let outcome = replay(&plan).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert!(outcome.failure.is_none(), "{}: {outcome}", path.display());
        // The plan's cuts are numbered for the other mode: here every operation is cut.
        let outcome = hunt(&plan, Density { nested: 1, ..Density::SHORT }).expect("a log");
        assert!(outcome.tally.cuts > 10, "{}: {} cuts", path.display(), outcome.tally.cuts);
        assert!(outcome.broken.is_none(), "{}: {:?}", path.display(), outcome.broken);
    }
}
