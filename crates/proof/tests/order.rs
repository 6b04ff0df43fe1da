//! The alarm for devices that promise order works: a device that is right passes every cut, and each
//! way of breaking it is caught by its own line.

mod breaks;
mod shadow;

use block::Rng;
use shadow::{Break, Shadow, Spec};
use varve_proof::{Action, Broken, Contract, LogOracle, Step};

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

fn hunt(broken: Break, seeds: u64) -> (u64, Option<Broken>) {
    let spec = Spec { broken, pages: PAGES };
    let work = |seed| (steps(seed, 30), steps(seed ^ 0xFFFF, 8));
    breaks::hunt::<Shadow, LogOracle>(&spec, work, seeds)
}

#[test]
fn a_right_one_passes_every_cut() {
    let (cuts, broken) = hunt(Break::Nothing, 20);
    assert!(broken.is_none(), "{broken:?}");
    assert!(cuts > 3000, "{cuts} cuts are too few to mean anything");
}

#[test]
fn each_way_of_breaking_it_is_caught() {
    let ways: [(Break, &[Contract]); 5] = [
        (Break::NoFlush, &[Contract::C1, Contract::C5]),
        (Break::CrcIgnored, &[Contract::C2, Contract::C3, Contract::C4]),
        (Break::PageAtATime, &[Contract::C4]),
        (Break::TrimForgotten, &[Contract::C5, Contract::C3, Contract::C1]),
        (Break::SamePlace, &[Contract::C1, Contract::C5]),
    ];
    breaks::all_are_caught(ways, |broken| hunt(broken, 40));
}
