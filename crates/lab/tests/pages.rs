//! The script of every page, run: it must not die, and what is drawn must say its numbers under the
//! pointer. `pages/dom.js` stands for the browser; node runs it (`scripts/setup` installs it).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use report::round::quotient;
use report::study::{Plot, Section, Study, Table, book};
use report::values;
use serde_json::{Value, json};
use varve_lab::Experiment;
use varve_lab::explain::{Drawing, Spent, TimelineWanted, Wanted};
use varve_lab::replay::Watch;
use varve_lab::report::{Beside, Shown, html, html_beside, timeline_html};
use varve_lab::scenario::Scenario;

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

/// A small run with all that a page can show.
fn results() -> Value {
    let text = "[drive]\ncapacity = \"32 MiB\"\nop = \"12.5 %\"\ngeometry.channels = 2\ngeometry.dies = 2\n\
        geometry.pages = 64\nbuffer.size = \"1 MiB\"\n\
        [workload]\ngen = \"zipf,size=32MiB,read=50,count=60k\"\n[replay]\nmode = \"closed\"\nqd = 8\nflush-every = 50\n\
        [sweep]\nbuffer.policy = [\"lru\", \"aoi(cap=32, lat=mapped-any)\"]\n";
    let scenario = Scenario::from_text("test", text, PathBuf::new()).unwrap();
    let (stop, nobody) = (AtomicBool::new(false), |_| ());
    let watch = Watch { stop: &stop, progress: &nobody };
    Experiment::new(&scenario).unwrap().run(1, "test", watch).unwrap().value()
}

fn shown<'a>(name: &'a str, value: &'a Value) -> Shown<'a> {
    Shown { name, value, command: "varve sim" }
}

#[test]
fn a_page_of_results_draws_its_panels_and_answers_the_pointer() {
    let results = results();
    let page = html(&[shown("", &results)]);
    let found = run(&page);
    let panels = [
        "read", "write", "waf", "clean", "victims", "buffer", "pace", "flush", "tail", "map",
        "pair",
    ];
    assert_eq!(found["panels"], json!(panels), "{found}");
    assert_eq!(found["lanes"], 2 * 11, "{found}");
    assert_eq!(
        (&found["empty"], &found["wrong"], &found["unsaid"]),
        (&json!(0), &json!(0), &json!([]))
    );
    assert!(found["strokes"].as_u64().unwrap() > 1000, "{found}");
    assert_eq!((&found["fields"], &found["tips"]), (&json!(16), &json!(16)), "{found}");
    assert_eq!(found["answers"], found["led"], "{found}");
    assert!(
        found["answers"].as_u64().unwrap() >= 3 && found["sorted"].as_u64().unwrap() > 5,
        "{found}"
    );
    let address = found["address"].as_str().unwrap();
    assert!(
        address.contains("range=") && address.contains("at="),
        "a drag is in the address: {address}"
    );
    // The address shows the same: one run, a range.
    let one = run_at(&page, "#runs=1&range=2048-8192&zoom=1");
    assert_eq!(one["lanes"], 10 + 2, "one of each panel, and the pair: {one}");
    assert!(one["address"].as_str().unwrap().contains("runs=1"), "{one}");
    // The blocks at the start of the run and at its end.
    let most = |hash: &str| run_at(&page, hash)["most_erased"].clone();
    let (start, end) = (most("#runs=0&frame=0"), most("#runs=0"));
    let frames = &results["results"][0]["blocks"]["frames"]["erases"][0];
    let (first, last) = (list_of(frames), list_of(&results["results"][0]["blocks"]["erases"]));
    for (said, erases) in
        [(&start, first.iter().skip(1).step_by(2).max()), (&end, last.iter().max())]
    {
        assert!(
            said.as_str().unwrap().ends_with(&format!(", {} erases", erases.unwrap())),
            "{said}"
        );
    }
    assert_ne!(start, end);
    assert_eq!(most("#runs=0&frame=99"), end);
    // What is not in the page cannot be shown.
    let wrong = run_at(&page, "#runs=7.x&range=9-3&a=99&m=none&sort=77a&panel=none");
    assert_eq!(wrong["lanes"], found["lanes"], "{wrong}");
    // An address that is no text, and what it becomes.
    for broken in ["#panel=%", "#sort=%25&m=%zz"] {
        let broken = run_at(&page, broken);
        assert_eq!(broken["lanes"], found["lanes"], "{broken}");
        let again = run_at(&page, broken["address"].as_str().unwrap());
        assert_eq!(again["lanes"], found["lanes"], "{again}");
    }
    // Files may be called anything.
    let odd = run(&html(&[shown("two\nlines, \"quoted\"\r", &results), shown("one", &results)]));
    assert_eq!((&odd["empty"], &odd["lanes"]), (&json!(0), &json!(4 * 10 + 2)), "{odd}");
}

#[test]
fn the_blocks_of_a_document_are_those_that_it_counts() {
    for run in results()["results"].as_array().unwrap() {
        let list = |name: &str| -> Vec<u64> {
            run["blocks"][name].as_array().unwrap().iter().filter_map(Value::as_u64).collect()
        };
        let (erases, valid) = (list("erases"), list("valid"));
        assert_eq!(valid.iter().sum::<u64>(), run["valid_units"].as_u64().unwrap());
        assert_eq!(erases.iter().max().copied(), run["wear"]["max"].as_u64());
        let counted: u64 = list_of(&run["wear"]["histogram"]).iter().sum();
        assert_eq!(erases.len() as u64, counted, "bad blocks are null");
        let all = run["blocks"]["erases"].as_array().unwrap().len() as u64;
        assert_eq!(all % run["blocks"]["planes"].as_u64().unwrap(), 0);
        assert_eq!(all, counted + run["bad_blocks"].as_u64().unwrap());
        // Moments of the run: none later than its end, and none more than it.
        let frames = &run["blocks"]["frames"];
        let (requests, lists) =
            (list_of(&frames["requests"]), frames["erases"].as_array().unwrap());
        assert!(requests.len() >= 4 && requests.len() == lists.len() && requests[0] == 0);
        assert!(*requests.last().unwrap() < run["host"]["submitted"].as_u64().unwrap());
        let mut then = vec![0; erases.len()];
        for list in lists.iter().map(list_of) {
            let each = list.chunks(2).flat_map(|pair| vec![pair[1]; pair[0] as usize]);
            assert_eq!(list.chunks(2).map(|pair| pair[0]).sum::<u64>(), all);
            then.iter_mut().zip(each).for_each(|(sum, more)| *sum += more);
        }
        assert!(then.iter().zip(&erases).all(|(then, end)| then <= end));
        assert!(then.iter().sum::<u64>() > erases.iter().sum::<u64>() / 2);
    }
}

/// A timeline of a small run.
fn drawing() -> Drawing {
    let text = "[drive]\ncapacity = \"32 MiB\"\nop = \"20 %\"\ngeometry.channels = 2\ngeometry.dies = 2\n\
        geometry.pages = 32\nbuffer.size = \"1 MiB\"\n\
        [workload]\ngen = \"zipf,size=32MiB,read=40,count=20k\"\n[replay]\nmode = \"closed\"\nqd = 8\nprecondition = \"seq\"\n";
    let scenario = Scenario::from_text("test", text, PathBuf::new()).unwrap();
    let (stop, nobody) = (AtomicBool::new(false), |_| ());
    let watch = Watch { stop: &stop, progress: &nobody };
    let path = tempfile("").with_extension("pftrace");
    let window = "100ms..200ms".parse().unwrap();
    let timeline = TimelineWanted { window, path: path.clone(), most: 100_000 };
    let mut experiment = Experiment::new(&scenario).unwrap();
    experiment.explain(Wanted { timeline: Some(timeline), ..Wanted::default() }).unwrap();
    experiment.run(1, "test", watch).unwrap();
    let drawing = Drawing::load(&path, 100_000);
    std::fs::remove_file(&path).unwrap();
    drawing.unwrap()
}

#[test]
fn a_page_of_a_timeline_draws_its_rows_and_tells_what_a_request_stood_behind() {
    let drawing = drawing();
    let page = timeline_html("a <name>", "0", &drawing);
    let found = run(&page);
    assert_eq!(found["panels"], json!(["timeline", "levels"]), "{found}");
    assert_eq!(found["lanes"], 3, "{found}");
    assert_eq!(
        (&found["empty"], &found["wrong"], &found["unsaid"]),
        (&json!(0), &json!(0), &json!([]))
    );
    let slices = drawing.requests.len() + drawing.operations.len() + drawing.victims.len();
    assert!(found["strokes"].as_u64().unwrap() > slices as u64 / 4, "{slices}: {found}");
    assert_eq!((&found["fields"], &found["tips"]), (&json!(3), &json!(3)), "{found}");
    let address = found["address"].as_str().unwrap();
    assert!(address.contains("range="), "a drag is in the address: {address}");
    // The slowest request, picked: what is told of it is what the file says.
    let slow = drawing.requests.iter().max_by_key(|one| one.latency_ns).unwrap();
    let picked = run_at(&page, &format!("#pick=r{}", slow.number));
    assert_eq!(picked["panels"], json!(["timeline", "picked", "levels"]), "{picked}");
    let told = picked["picked"].as_str().unwrap();
    assert!(told.contains(&format!("request {}: {}", slow.number, slow.op)), "{told}");
    for (name, ns) in ["behind cleaning", "own flash operations"]
        .into_iter()
        .zip([slow.causes[Spent::Gc as usize], slow.causes[Spent::Own as usize]])
    {
        assert!(ns == 0 || told.contains(&format!("{name} {ns} ns")), "{name}: {told}");
    }
    assert_eq!(picked["listed"], json!(slow.operations.len().min(60) + 1), "{picked}");
    let one = run_at(&page, "#pick=o3&range=1000-500000&zoom=1");
    assert!(one["picked"].as_str().unwrap().contains(&drawing.operations[3].name), "{one}");
    for wrong in ["#pick=r0", "#pick=%", "#pick=o99999999", "#pick=constructor"] {
        assert_eq!(run_at(&page, wrong)["panels"], found["panels"], "{wrong}");
    }
    // Without a script its numbers are there, and it asks for nothing.
    assert!(page.contains("<table id=\"slowest\">") && page.contains("default-src 'none'"));
    assert!(page.contains(&format!("{},{}", slow.start_ns, slow.end_ns)));
    let nothing = run(&timeline_html("nothing", "0", &Drawing::default()));
    assert_eq!(nothing["panels"], json!([]), "{nothing}");
}

#[test]
fn a_timeline_beside_the_only_run_opens_at_the_range_that_is_chosen() {
    let mut results = results();
    let beside = [Beside { name: "t <1>".into(), href: "t".into(), span_ns: (5, 1 << 60) }];
    let led = |value: &Value, hash: &str| {
        run_at(&html_beside(&[shown("", value)], &beside), hash)["beside"].clone()
    };
    assert_eq!(led(&results, "#range=2048-8192"), json!(["t"]), "of two runs it may be either's");
    results["results"].as_array_mut().unwrap().truncate(1);
    assert_eq!(led(&results, ""), json!(["t"]));
    let per = results["results"][0]["series"]["requests_per_window"].as_u64().unwrap();
    let ends = list_of(&results["results"][0]["series"]["time_ns"]);
    let hash = format!("#range={}-{}", 2 * per, 5 * per);
    let expected = format!("t#range={}-{}&zoom=1", ends[1] - 5, ends[4] - 5);
    assert_eq!(led(&results, &hash), json!([expected]));
}

fn list_of(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().filter_map(Value::as_u64).collect()
}

#[test]
fn several_documents_share_a_page_and_old_ones_have_what_they_know() {
    let now = results();
    let mut old = now.clone();
    for run in old["results"].as_array_mut().unwrap() {
        let series = run["series"].as_object_mut().unwrap();
        series.retain(|name, _| {
            !name.contains("latency") && !name.starts_with("gc_") && !name.starts_with("buffer_")
        });
    }
    let found = run(&html(&[shown("before <old>", &old), shown("after", &now)]));
    assert_eq!(
        (&found["empty"], &found["wrong"], &found["unsaid"]),
        (&json!(0), &json!(0), &json!([]))
    );
    // Four runs of two documents; the old ones have neither a buffer's series nor cleaning's.
    assert_eq!(found["lanes"], 4 * 6 + 2 * 4 + 2, "{found}");
    let none = json!({"schema": "varve.run/2", "title": "t", "version": "0", "results": [{"params": {"seed": 1}, "waf": 2.0}]});
    let found = run(&html(&[shown("", &none)]));
    assert_eq!((&found["panels"], &found["answers"]), (&json!([]), &json!(0)), "{found}");
}

#[test]
fn every_number_of_a_document_is_in_its_page() {
    let results = results();
    let page = html(&[shown("", &results)]);
    let words = |c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '-');
    let there: std::collections::BTreeSet<&str> = page.split(words).collect();
    let mut leaves = Vec::new();
    walk(&results["results"], &mut leaves);
    assert!(leaves.len() > 5_000, "{}", leaves.len());
    let lost: Vec<&String> = leaves.iter().filter(|n| !there.contains(n.as_str())).collect();
    assert!(
        lost.is_empty(),
        "{} of {}: {:?}",
        lost.len(),
        leaves.len(),
        &lost[..lost.len().min(9)]
    );
    // It asks for nothing, and may ask for nothing.
    assert!(page.contains("default-src 'none'"));
    for asks in ["src=\"", "fetch(", "XMLHttp", "WebSocket", "import(", "@import", "url("] {
        assert!(!page.contains(asks), "{asks}");
    }
}

fn walk(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::Number(number) => out.push(number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| walk(item, out)),
        Value::Object(map) => map.values().for_each(|item| walk(item, out)),
        _ => {}
    }
}
