//! Every metric of a run stands under its id in result documents, with its unit; what one document
//! leaves out (layers above the drive, flushes), another has.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use serde_json::Value;
use varve_lab::metric::{self, Metric, Unit};
use varve_lab::replay::Watch;
use varve_lab::scenario::Scenario;
use varve_lab::{Document, Experiment};

fn document(text: &str) -> Document {
    let scenario = Scenario::from_text("test", text, PathBuf::new()).unwrap();
    let (stop, nobody) = (AtomicBool::new(false), |_| ());
    let watch = Watch { stop: &stop, progress: &nobody };
    Experiment::new(&scenario).unwrap().run(1, "test", watch).unwrap()
}

/// A timed run with a buffer and flushes, one with a log above the drive, and one of two applications.
fn documents() -> [Document; 3] {
    let timed = "[drive]\npreset = \"paper-nolog\"\nscale = \"1/64\"\nbuffer.policy = \"lru\"\nbuffer.size = \"1 MiB\"\n\
        [workload]\ngen = \"zipf,size=64MiB,read=50,count=60k\"\n[replay]\nmode = \"closed\"\nqd = 8\nflush-every = 50\n";
    let layered = format!(
        "stack = \"drive(paper-nolog, scale=1/64)+log\"\n{}",
        timed.split_once("[workload]").map(|(_, rest)| format!("[workload]{rest}")).unwrap()
    );
    let two = "[drive]\npreset = \"paper-nolog\"\nscale = \"1/64\"\n[tenant.a]\ngen = \"uniform,size=16MiB,read=100,count=2k,iat=20us\"\n\
        [tenant.b]\ngen = \"uniform,size=16MiB,read=0,count=2k,iat=20us\"\n[replay]\nprecondition = \"seq\"\nshare = \"a:b=2:1\"\nslowdown = true\n";
    [document(timed), document(&layered), document(two)]
}

fn look<'a>(run: &'a Value, id: &str) -> Option<&'a Value> {
    id.split('.').try_fold(run, |at, key| at.get(key))
}

#[test]
fn every_metric_is_a_number_of_some_run_in_its_unit() {
    let documents = documents();
    let values: Vec<Value> = documents.iter().map(Document::value).collect();
    for metric in metric::ALL {
        let found: Vec<&Value> =
            values.iter().filter_map(|value| look(&value["results"][0], metric.id())).collect();
        assert!(!found.is_empty(), "no document has {}", metric.id());
        for value in found {
            match metric.unit() {
                Unit::Count | Unit::Bytes | Unit::PerSecond => {
                    assert!(value.is_u64(), "{metric:?}: {value}")
                }
                Unit::Ratio | Unit::Nanoseconds => {
                    assert!(value.is_number(), "{metric:?}: {value}")
                }
            }
        }
        let typed = documents.iter().zip(&values).all(|(document, value)| {
            document.number(0, *metric) == metric.of(&value["results"][0])
        });
        assert!(typed, "{}: the document and its value say different things", metric.id());
    }
    for column in metric::COLUMNS {
        let found = values.iter().find(|value| !column.of(&value["results"][0]).is_empty());
        assert!(found.is_some(), "no document has {}", column.id());
    }
    assert_eq!(documents[0].number(1, metric::WAF), None, "there is one run");
}

/// Without times and beginning in the middle; a drive with log blocks; a buffer that holds all that is written.
fn others() -> [Document; 3] {
    let load = "[workload]\ngen = \"zipf,size=32MiB,read=30,count=40k\"\n[replay]\nmode = \"closed\"\nqd = 8\n";
    let untimed = load.replace("closed", "untimed").replace("qd = 8", "measure-after = 7001");
    let small = "[drive]\npreset = \"femu-default\"\nscale = \"fit\"\n";
    [
        document(&format!("{small}buffer.policy = \"arc\"\nbuffer.size = \"3 MiB\"\n{untimed}")),
        document(&format!("{small}ftl = \"hybrid-log\"\n{load}")),
        document(&format!("{small}buffer.policy = \"lru\"\nbuffer.size = \"40 MiB\"\n{load}")),
    ]
}

#[test]
fn windows_and_what_the_drive_does_behind_them_sum_to_the_run() {
    let mut drained = 0;
    for document in documents().iter().chain(&others()) {
        let value = document.value();
        let run = &value["results"][0];
        let series = &run["series"];
        let ps = |value: &Value| (value.as_f64().unwrap() * 1000.0).round() as u64;
        let sum = |of: &Value| of.as_array().unwrap().iter().map(ps).sum::<u64>();
        for cause in run["nand"]["programs"].as_object().unwrap().keys().filter(|of| *of != "total")
        {
            let (windows, rest) = (&series["programs"][cause], &series["drain"]["programs"][cause]);
            assert_eq!(sum(windows) + ps(rest), ps(&run["nand"]["programs"][cause]), "{cause}");
            drained += rest.as_u64().unwrap();
        }
        for (window, whole) in [("gc_victims", "gc.victims"), ("gc_stall_ns", "gc.stall_ns")] {
            let all = sum(&series[window]) + ps(&series["drain"][window]);
            assert_eq!(all, ps(look(run, whole).unwrap()), "{window}");
        }
        for (window, whole) in [
            ("host_read_units", "host.read.units"),
            ("host_write_units", "host.write.units"),
            ("host_write_bytes", "host.write.bytes"),
        ] {
            assert_eq!(sum(&series[window]), ps(look(run, whole).unwrap()), "{window}");
        }
        let windows = series["waf"].as_array().unwrap().len() as u64;
        let requests = (windows - 1) * series["requests_per_window"].as_u64().unwrap()
            + series["requests_in_last_window"].as_u64().unwrap();
        // All but the flush that empties the drive.
        assert_eq!(requests + 1, run["host"]["served"].as_u64().unwrap());
        if let Some(time) = run.get("time_ns") {
            assert_eq!(series["time_ns"].as_array().unwrap().last(), Some(time));
        }
    }
    assert!(drained > 4_000, "{drained}: the last of them keeps all until then");
}

#[test]
fn the_value_of_a_document_is_what_its_text_says() {
    for document in documents() {
        let read: Value = serde_json::from_str(&document.text()).unwrap();
        assert_eq!(same(&document.value()), same(&read));
    }
}

/// Numbers as texts of so many digits as a document writes: reading a decimal back may differ from
/// the quotient by the last bit of a float.
fn same(value: &Value) -> Value {
    match value {
        Value::Number(number) if !number.is_u64() => {
            Value::from(format!("{:.6}", number.as_f64().unwrap()))
        }
        Value::Array(items) => items.iter().map(same).collect(),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(key, value)| (key.clone(), same(value))).collect())
        }
        other => other.clone(),
    }
}

#[test]
fn what_people_name_is_found_by_name_and_by_id() {
    for metric in metric::ALL {
        assert_eq!(Metric::find(metric.id()), Some(*metric));
        if let Some(name) = metric.name() {
            assert_eq!(Metric::find(name), Some(*metric));
        }
    }
}
