//! The alarm works: a toy translation layer that is right passes every cut, and each way of
//! breaking it is caught.

mod toy;

use block::Rng;
use proof::{Action, Contract, Density, PageOracle, Prover, Step};
use toy::{Break, Spec, Toy};

const PAGES: u32 = 16;

fn steps(seed: u64, count: usize) -> Vec<Step> {
    let mut rng = Rng::stream(seed, "steps");
    let page = |rng: &mut Rng| {
        if rng.ratio(1, 2) { rng.below(3) as u32 } else { rng.below(u64::from(PAGES) - 1) as u32 }
    };
    (0..count)
        .map(|_| {
            let (page, count) = (page(&mut rng), 1 + rng.below(2) as u32);
            let action = match rng.below(20) {
                0..12 => Action::Write { page, count, fua: rng.ratio(1, 8) },
                12..14 => Action::Discard { page, count },
                14..16 => Action::Flush,
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
        let (work, after) = (steps(seed, 80), steps(seed ^ 0xFFFF, 12));
        let mut prover: Prover<'_, Toy, PageOracle> =
            Prover::new(&spec, &work, &after, seed, Density::SHORT);
        let result = prover.hunt();
        cuts += prover.tally.cuts;
        if let Err(broken) = result {
            let mut again: Prover<'_, Toy, PageOracle> =
                Prover::new(&spec, &work, &after, seed, Density::SHORT);
            let replayed = again.walk(&broken.cuts).expect_err("the cuts alone show it again");
            assert_eq!(replayed.failure.contract, broken.failure.contract);
            return (cuts, Some(broken));
        }
    }
    (cuts, None)
}

#[test]
fn a_right_one_passes_every_cut() {
    let (cuts, broken) = hunt(Break::Nothing, 20);
    assert!(broken.is_none(), "{broken:?}");
    assert!(cuts > 10_000, "{cuts} cuts are too few to mean anything");
}

#[test]
fn each_way_of_breaking_it_is_caught() {
    for (broken, contracts) in [
        (Break::AckBeforeProgram, vec![Contract::C1, Contract::C5]),
        (Break::EraseBeforeCopies, vec![Contract::C1, Contract::C5]),
        (Break::NewestByAddress, vec![Contract::C1, Contract::C5, Contract::C6]),
        (Break::TrimForgotten, vec![Contract::C5, Contract::C1]),
        (Break::FreshSeqOnCopy, vec![Contract::C1, Contract::C5]),
        (Break::WrongPlace, vec![Contract::C6, Contract::C5]),
    ] {
        let (cuts, found) = hunt(broken, 50);
        let found = found.unwrap_or_else(|| panic!("{broken:?} was not caught in {cuts} cuts"));
        println!("{broken:?}: {} after {cuts} cuts", found.failure);
        assert!(contracts.contains(&found.failure.contract), "{broken:?}: {}", found.failure);
    }
}
