//! The script of every page, run: it must not die, and what is drawn must say its numbers under the
//! pointer. `pages/dom.js` stands for the browser; node runs it (`scripts/setup` installs it).

use std::path::Path;
use std::process::Command;

use report::round::quotient;
use report::study::{Plot, Section, Study, Table, book};
use report::values;
use serde_json::{Value, json};

/// What the page's script did, as `dom.js` saw it.
fn run(html: &str) -> Value {
    run_at(html, "")
}

/// The same where a link with a hash leads.
fn run_at(html: &str, hash: &str) -> Value {
    let file = tempfile(html);
    let dom = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pages/dom.js");
    let said = Command::new("node").arg(dom).arg(&file).arg(hash).output();
    let said = said.unwrap_or_else(|e| panic!("node: {e}; scripts/setup installs it"));
    std::fs::remove_file(&file).unwrap();
    let error = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "the script died: {error}");
    serde_json::from_slice(&said.stdout).unwrap()
}

fn tempfile(html: &str) -> std::path::PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name =
        format!("varve-page-{}-{}.html", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, html).unwrap();
    path
}

fn study() -> Study {
    let mut table = Table::new([("fill", "fill"), ("policy", "policy"), ("mb_s", "MB/s")]);
    table.row(values!["50 %", "lru", quotient(21, 2, 1)]);
    table.row(values!["80 %", "lru", quotient(19, 2, 1)]);
    table.row(values!["50 %", "aoi", quotient(25, 2, 1)]);
    let section = Section::new("speed", "Speed", "how fast", table);
    let section = section.plot(Plot::bars("Speed <1>", "fill", ["mb_s"]).by("policy")).unwrap();
    let section = section.plot(Plot::lines("Speed again", "fill", ["mb_s"]).by("policy")).unwrap();
    Study { title: "A study".to_string(), sections: vec![section], ..Study::default() }
}

#[test]
fn pages_of_studies_answer_the_pointer() {
    let (one, many) = (study(), [("one".to_string(), study()), ("two".to_string(), study())]);
    for (html, times) in [(one.html("0"), 1), (book("All", "note", &many, "0", "command"), 2)] {
        let found = run(&html);
        assert_eq!(found["figures"], 2 * times, "{found}");
        assert_eq!(found["marks"], 6 * times, "{found}");
        assert_eq!(found["marks_with_tip"], found["marks"], "{found}");
    }
}

#[test]
fn a_link_unfolds_what_it_leads_to() {
    let many = [("one".to_string(), study()), ("two".to_string(), study())];
    let html = book("All", "note", &many, "0", "command");
    let found = run_at(&html, "#two-speed");
    assert_eq!((&found["unfolded"], &found["scrolled"]), (&json!(["two"]), &json!(["two-speed"])));
    assert_eq!(run(&html)["unfolded"], json!([]));
}

#[test]
fn reports_answer_the_pointer() {
    let document = json!({
        "schema": "varve.run/1", "title": "t", "version": "0",
        "results": [{
            "params": {"seed": 1},
            "time_ns": 3e9,
            "series": {
                "time_ns": [1e9, 2e9, 3e9],
                "host_read_units": [0, 0, 0],
                "host_write_units": [100, 100, 100],
                "waf": [2.0, 3.0, 2.5],
                "free_blocks": [9, 8, 9],
                "requests_per_window": 100,
                "requests_in_last_window": 100,
            },
        }]
    });
    let html =
        varve_lab::report::html(&[Shown { name: "", value: &document, command: "varve sim" }]);
    let found = run(&html);
    assert_eq!(found["charts"], 2, "{found}");
    assert_eq!(found["charts_with_tip"], found["charts"], "{found}");
}
