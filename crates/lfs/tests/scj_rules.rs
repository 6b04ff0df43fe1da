//! The crash rules of segment cleaning journaling, on an executable model: a tiny log-structured
//! file system (14 segments of 4 blocks, 4 files of 3 blocks, 4 journal slots) over a device with a
//! volatile cache, random operations, a crash inside any flush, a random half of the unflushed
//! blocks surviving, and recovery from what is durable. Afterwards each file must be in its last
//! stable state (checkpoint or fsync), or in that of the operation that was cut.
//!
//! Each rule that the paper leaves open is a switch, and each must be needed: switched off, some
//! run loses or corrupts data. The model merges with the crate's own [`varve_lfs::scj::merge`].
//! Not modelled: directories, shadow copies of NAT and SIT, crashes inside recovery, torn blocks.

mod scj_model;

use scj_model::{FILES, Mix, Model, Pointers, Rule};

const ALL: [Rule; 8] = [
    Rule::Raw,
    Rule::FsyncJ,
    Rule::Pin,
    Rule::Trans,
    Rule::Ssa,
    Rule::Order,
    Rule::Flush,
    Rule::DataFlush,
];
/// What the paper's text does not say (barriers and verbatim copies are granted to it).
const NOT_IN_THE_PAPER: [Rule; 4] = [Rule::FsyncJ, Rule::Pin, Rule::Trans, Rule::Ssa];

const USUAL: Mix =
    Mix { write: 62, truncate: 6, fsync: 14, clean: 15, files: FILES, steps: (20, 160) };
/// Many fsyncs of few files, and cleaning: the chain becomes long and its segments sparse.
const CHAINS: Mix =
    Mix { write: 30, truncate: 2, fsync: 43, clean: 25, files: 2, steps: (20, 100) };

/// What is wrong after one run, or none; and how many segments it cleaned.
fn run(seed: u64, off: &[Rule], mix: Mix) -> (Option<String>, u64) {
    let mut model = Model::new(seed, off);
    if matches!(model.work(mix), Ok(false)) {
        return (None, model.cleans);
    }
    let found = model.recover();
    for (file, found) in found.iter().enumerate() {
        let good = |wanted: &Pointers| found.as_ref() == Ok(wanted);
        if !good(&model.stable[file]) && !model.in_flight[file].as_ref().is_some_and(good) {
            let wanted = (model.stable[file], model.in_flight[file]);
            let text = format!("seed {seed}: file {file} is {found:?}, wanted {wanted:?}");
            return (Some(text), model.cleans);
        }
    }
    (None, model.cleans)
}

/// The first failure within so many seeds.
fn search(runs: u64, off: &[Rule], mix: Mix) -> Option<String> {
    (0..runs).find_map(|seed| run(seed, off, mix).0)
}

#[test]
fn with_all_rules_no_crash_loses_anything() {
    for mix in [USUAL, CHAINS] {
        let mut cleans = 0;
        for seed in 0..20_000 {
            let (wrong, n) = run(seed, &[], mix);
            assert_eq!(wrong, None);
            cleans += n;
        }
        assert!(cleans > 20_000, "cleaning is what is looked at: {cleans}");
    }
}

#[test]
fn without_any_one_rule_some_crash_does() {
    for rule in ALL {
        let mixes = [USUAL, CHAINS];
        let caught = mixes.iter().any(|mix| search(6_000, &[rule], *mix).is_some());
        assert!(caught, "nothing fails without {rule:?}");
    }
}

#[test]
fn what_the_paper_says_alone_is_not_enough() {
    let wrong = (0..1_000).filter(|seed| run(*seed, &NOT_IN_THE_PAPER, USUAL).0.is_some()).count();
    assert!(wrong > 20, "{wrong} of 1000 runs");
}
