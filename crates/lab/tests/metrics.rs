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

/// A timed run with a buffer and flushes, and one with a log above the drive.
fn documents() -> [Document; 2] {
    let timed = "[drive]\npreset = \"paper-nolog\"\nscale = \"1/64\"\nbuffer.policy = \"lru\"\nbuffer.size = \"1 MiB\"\n\
        [workload]\ngen = \"zipf,size=64MiB,read=50,count=60k\"\n[replay]\nmode = \"closed\"\nqd = 8\nflush-every = 50\n";
    let layered = format!(
        "stack = \"drive(paper-nolog, scale=1/64)+log\"\n{}",
        timed.split_once("[workload]").map(|(_, rest)| format!("[workload]{rest}")).unwrap()
    );
    [document(timed), document(&layered)]
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
