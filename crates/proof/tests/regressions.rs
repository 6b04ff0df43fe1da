//! Every plan ever kept: the smallest one of each real bug found, followed again.

use std::path::Path;

use varve_proof::{Plan, replay_file};

#[test]
fn no_old_bug_is_back() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("plans");
    let mut plans: Vec<_> = std::fs::read_dir(&folder)
        .expect("the folder of plans")
        .map(|entry| entry.expect("its entries").path())
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .collect();
    plans.sort();
    assert!(!plans.is_empty(), "no plan in {}", folder.display());
    for path in plans {
        let name = path.display();
        let plan = Plan::load(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        let outcome = replay_file(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        if plan.bug.is_some() {
            assert!(outcome.as_written(), "{name}: a planted bug is not seen any more: {outcome}");
        } else {
            assert!(outcome.failure.is_none(), "{name}: {outcome}");
        }
    }
}
