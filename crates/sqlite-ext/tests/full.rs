//! A full store. A DELETE of a tenth failed, and after it every statement of every connection, reads too,
//! until all were closed, with no reason given.
//!
//! `VARVE_FULL_CUTS=500` for more power cuts in each journal mode than the few of every day.

mod python;

#[test]
fn a_full_store_answers_deletes_and_says_why_it_takes_no_more() {
    let cuts = std::env::var("VARVE_FULL_CUTS").unwrap_or_else(|_| "12".to_string());
    let folder = python::folder(&std::env::temp_dir(), "full");
    let output =
        python::script("full").arg(&folder).arg(cuts).output().expect("this test needs python3");
    let error = String::from_utf8_lossy(&output.stderr);
    let wanted =
        ["DELETE", "TRUNCATE", "PERSIST", "WAL"].map(|m| format!("{m} power cuts: True\n"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), wanted.concat(), "{error}");
    sqlite::image::check(&folder.join("a.varve")).unwrap();
    let _ = std::fs::remove_dir_all(&folder);
}
