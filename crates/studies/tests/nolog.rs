//! The experiments at their smallest: pages are those of the independent counter, and the same
//! command gives the same bytes (with `VARVE_CUTS=all` of the whole study, else of one part: unit test of `nolog`).

use varve_studies::nolog::run;
use varve_studies::{Options, Scale};

#[test]
fn the_quick_study_agrees_with_the_independent_counter() {
    let options = |threads| Options { threads, ..Options::new(Scale::Quick, "a test") };
    let study = run(&options(2)).unwrap();
    let text = study.text();
    println!("{text}");
    for statement in [
        "the model writes exactly the pages",
        "pages are within 1 %",
        "NORMAL: NoLgn programs fewer pages than SW-WAL",
        "FULL: NoLgn programs fewer pages than SW-WAL",
        "TPC-C's consistency conditions",
    ] {
        let check = study.checks.iter().find(|check| check.what.starts_with(statement));
        let check = check.unwrap_or_else(|| panic!("nobody says {statement}"));
        assert!(check.holds, "{}: {}", check.what, check.found);
    }
    if std::env::var("VARVE_CUTS").is_ok_and(|value| value == "all") {
        assert_eq!(run(&options(1)).unwrap().text(), text);
    }
}
