//! Several clients of one live log: threads that take turns, and power cuts at every operation.

use remap::Planted;
use varve_proof::Clients;

#[test]
fn no_client_loses_what_a_flush_covered_and_none_takes_back_what_another_wrote() {
    // `VARVE_CUTS=all` searches a night's worth.
    let runs =
        if std::env::var("VARVE_CUTS").is_ok_and(|cuts| cuts == "all") { 20_000 } else { 300 };
    let mut cuts = 0;
    for seed in 1..=runs {
        cuts += Clients::draw(seed, block::Plant::default())
            .search()
            .unwrap_or_else(|what| panic!("{what}"));
    }
    println!("{cuts} cuts");
}

#[test]
fn bugs_that_only_several_clients_show_are_caught() {
    for bug in [Planted::RmwWithoutLock, Planted::AckBeforeFlush] {
        let found = (1..=60).find_map(|seed| Clients::draw(seed, bug.into()).search().err());
        println!("{bug:?}: {}", found.unwrap_or_else(|| panic!("{bug:?} was not seen")));
    }
}
