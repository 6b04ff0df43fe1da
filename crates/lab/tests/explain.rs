//! Where the time went, in every run of every bundled scenario that has times: the parts sum to the
//! latency of each request (or the run fails), nothing is left unexplained, and what is measured is the
//! same as without.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use serde_json::Value;
use varve_lab::explain::{Wanted, rows, slowest_lines};
use varve_lab::replay::Watch;
use varve_lab::scenario::Scenario;
use varve_lab::{Experiment, LabError};

const CAUSES: Wanted = Wanted { causes: true, requests: None, listener: None, timeline: None };

fn run(scenario: &Scenario, wanted: Wanted) -> Result<Value, LabError> {
    let (stop, nobody) = (AtomicBool::new(false), |_| ());
    let watch = Watch { stop: &stop, progress: &nobody };
    let mut experiment = Experiment::new(scenario)?;
    experiment.explain(wanted)?;
    Ok(experiment.run(1, "test", watch)?.value())
}

fn of_text(text: &str) -> Scenario {
    Scenario::from_text("test", text, PathBuf::new()).unwrap()
}

/// Removes what only an explained run has.
fn without_causes(value: &mut Value) {
    for run in value["results"].as_array_mut().into_iter().flatten() {
        for op in ["read", "write", "flush", "discard"] {
            if let Some(of) = run["latency_ns"].get_mut(op).and_then(Value::as_object_mut) {
                of.remove("by_cause");
            }
        }
    }
}

fn ps(value: &Value) -> u64 {
    (value.as_f64().unwrap() * 1000.0).round() as u64
}

/// Every row sums to its mean, and the mean of all is that of the latencies.
fn sums(run: &Value) -> f64 {
    let mut other = 0.0;
    for op in ["read", "write", "flush"] {
        let of = &run["latency_ns"][op];
        let Some(rows) = of["by_cause"].as_object() else { continue };
        assert_eq!(ps(&of["by_cause"]["all"]["mean"]), ps(&of["mean"]), "{}", run["name"]);
        assert_eq!(of["by_cause"]["all"]["requests"], of["count"], "{}", run["name"]);
        assert_eq!(of["by_cause"]["slowest"]["latency_ns"], of["max"], "{}", run["name"]);
        for (name, row) in rows {
            let total = if name == "slowest" { &row["latency_ns"] } else { &row["mean"] };
            let parts = row["causes"].as_object().unwrap().values().map(ps).sum::<u64>();
            assert_eq!(parts, ps(total), "{}: {op} {name}", run["name"]);
            other += row["causes"]["other"].as_f64().unwrap();
        }
    }
    other
}

#[test]
fn every_request_of_every_bundled_scenario_is_explained() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let (mut timed, mut untimed) = (Vec::new(), 0);
    for entry in std::fs::read_dir(folder).expect("scenarios") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if name == "buffer-study" {
            // 1,440 points, of the demo's kind, that need more than an hour: a study is explained point by point.
            continue;
        }
        let scenario = Scenario::load(&path).unwrap();
        match run(&scenario, CAUSES) {
            Ok(value) => timed.push((name, value)),
            // Without times there is no latency to explain, and that is said.
            Err(error) => {
                assert!(error.to_string().contains("untimed"), "{name}: {error}");
                untimed += 1;
            }
        }
    }
    timed.sort_by(|a, b| a.0.cmp(&b.0));
    let names: Vec<&str> = timed.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["demo", "isolation-latency", "neighbours", "remap-log-on-log"]);
    assert_eq!(untimed, 3);
    for (name, value) in &timed {
        for run in value["results"].as_array().unwrap() {
            let other = sums(run);
            assert_eq!(other, 0.0, "{name}: {}: unexplained", run["name"]);
        }
        assert!(rows(value).is_some_and(|all| all.rows.len() > 2));
    }
    let demo = &timed[0].1["results"][0];
    let lines = slowest_lines(demo);
    assert!(lines[0].starts_with("slowest read: request "), "{lines:?}");
    assert!(lines[0].contains("behind cleaning"), "{lines:?}");
}

const SMALL: &str = "[drive]\ngeometry.channels = 2\ngeometry.dies = 2\ngeometry.pages = 32\n\
    capacity = \"32 MiB\"\nop = \"20 %\"\nbuffer.policy = \"lru\"\nbuffer.size = \"1 MiB\"\n\
    [workload]\ngen = \"zipf,size=32MiB,read=40,count=30k\"\n\
    [replay]\nmode = \"closed\"\nqd = 8\nprecondition = \"seq\"\nflush-every = 100\n";

#[test]
fn nothing_that_is_measured_changes() {
    for text in ordered(SMALL) {
        let scenario = of_text(&text);
        let plain = run(&scenario, Wanted::default()).unwrap();
        let mut explained = run(&scenario, CAUSES).unwrap();
        assert!(explained["results"][0]["latency_ns"]["read"]["by_cause"].is_object());
        without_causes(&mut explained);
        assert_eq!(plain, explained);
    }
}

/// The same drive with each order in which its dies may serve.
fn ordered(text: &str) -> [String; 3] {
    ["in-order", "read-first", "read-first(suspend)"]
        .map(|sched| text.replace("[workload]", &format!("sched = \"{sched}\"\n[workload]")))
}

#[test]
fn whatever_goes_first_the_parts_sum_and_nothing_is_unexplained() {
    let mut means = Vec::new();
    for text in ordered(SMALL) {
        let value = run(&of_text(&text), CAUSES).unwrap();
        let one = &value["results"][0];
        assert_eq!(sums(one), 0.0, "{text}");
        means.push(ps(&one["latency_ns"]["read"]["mean"]));
    }
    // There is much to overtake: cleaning, and what leaves the buffer.
    assert!(means[0] > means[1] && means[1] > means[2], "{means:?}");
}

#[test]
fn the_queue_of_the_host_is_a_cause_and_warm_up_is_left_out() {
    let text = SMALL.replace("mode = \"closed\"\nqd = 8", "mode = \"open\"\nmeasure-after = 20000");
    let text = text.replace("flush-every = 100\n", "").replace("count=30k", "count=30k,iat=10us");
    let value = run(&of_text(&text), CAUSES).unwrap();
    let one = &value["results"][0];
    assert_eq!(sums(one), 0.0);
    for op in ["read", "write"] {
        let of = &one["latency_ns"][op];
        assert_eq!(
            ps(&of["by_cause"]["all"]["causes"]["queue"]),
            ps(&of["mean_by_cause"]["host_queue"]),
            "{op}"
        );
        assert!(ps(&of["mean_by_cause"]["host_queue"]) > 0, "{op}: more is offered than served");
    }
}

#[test]
fn what_has_no_requests_or_no_time_is_refused() {
    let untimed = SMALL.replace("mode = \"closed\"\nqd = 8", "mode = \"untimed\"");
    let error = run(&of_text(&untimed), CAUSES).unwrap_err();
    assert!(error.to_string().contains("replay.mode is untimed: expected"), "{error}");
    assert_eq!(error.exit_code(), 3);
}
