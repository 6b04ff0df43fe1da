//! The alarm for devices that promise order works: a device that is right passes every cut, and each
//! way of breaking it is caught by its own line.

mod shadow;

use block::Rng;
use proof::{Action, Contract, Density, LogOracle, Prover, Step};
use shadow::{Break, Shadow, Spec};

const PAGES: u32 = 6;

fn steps(seed: u64, count: usize) -> Vec<Step> {
    let mut rng = Rng::stream(seed, "steps");
    (0..count)
        .map(|_| {
            let page = rng.below(u64::from(PAGES)) as u32;
            let count = 1 + rng.below(u64::from(PAGES - page)) as u32;
            let sector = page * 8 + rng.below(8) as u32;
            let action = match rng.below(20) {
                0..10 => Action::Write { page, count, fua: rng.ratio(1, 8) },
                10..12 => Action::WriteBytes { sector, count: PAGES * 8 - sector, fua: false },
                12..15 => Action::Discard { page, count },
                15..18 => Action::Flush,
                _ => Action::Read { page, count },
            };
            Step { action, overlap: rng.ratio(1, 3), app: 0 }
        })
        .collect()
}

/// Cuts made until the first broken promise, over at most so many seeds.
fn hunt(broken: Break, seeds: u64) -> (u64, Option<proof::Broken>) {
    let spec = Spec { broken, pages: PAGES };
    let mut cuts = 0;
    for seed in 0..seeds {
        let (work, after) = (steps(seed, 30), steps(seed ^ 0xFFFF, 8));
        let prover = || -> Prover<'_, Shadow, LogOracle> {
            Prover::new(&spec, &work, &after, seed, Density::SHORT)
        };
        let mut first = prover();
        let result = first.hunt();
        cuts += first.tally.cuts;
        if let Err(broken) = result {
            let again = prover().walk(&broken.cuts).expect_err("the cuts alone show it again");
            assert_eq!(again.failure.contract, broken.failure.contract);
            return (cuts, Some(broken));
        }
    }
    (cuts, None)
}

#[test]
fn a_right_one_passes_every_cut() {
    let (cuts, broken) = hunt(Break::Nothing, 20);
    assert!(broken.is_none(), "{broken:?}");
    assert!(cuts > 3000, "{cuts} cuts are too few to mean anything");
}

#[test]
fn each_way_of_breaking_it_is_caught() {
    for (broken, contracts) in [
        (Break::NoFlush, vec![Contract::C1, Contract::C5]),
        (Break::CrcIgnored, vec![Contract::C2, Contract::C3, Contract::C4]),
        (Break::PageAtATime, vec![Contract::C4]),
        (Break::TrimForgotten, vec![Contract::C5, Contract::C3, Contract::C1]),
        (Break::SamePlace, vec![Contract::C1, Contract::C5]),
    ] {
        let (cuts, found) = hunt(broken, 40);
        let found = found.unwrap_or_else(|| panic!("{broken:?} was not caught in {cuts} cuts"));
        println!("{broken:?}: {} after {cuts} cuts", found.failure);
        assert!(contracts.contains(&found.failure.contract), "{broken:?}: {}", found.failure);
    }
}
