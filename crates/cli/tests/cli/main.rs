//! The command line as scripts see it: exit codes, one JSON document, errors with file and line,
//! the same bytes from equal runs.

mod carried;
mod input;
mod results;
mod runs;
mod signals;
mod traces;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A folder of one test's own, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("varve-cli-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_varve"));
        command.current_dir(&self.0).args(args).output().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}
fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}
fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

const SMALL: &[&str] = &[
    "--set",
    "capacity=32 MiB",
    "--set",
    "op=12.5 %",
    "--set",
    "geometry.channels=2",
    "--set",
    "geometry.dies=2",
    "--set",
    "geometry.pages=64",
    "--buffer",
    "1M",
];
const RECIPE: &str = "gen:uniform,size=32MiB,count=20k,read=30,iat=40us";

fn sim<'a>(source: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["sim", source], SMALL, more].concat()
}

/// C8 from the document alone, as any reader can check it.
fn check_identities(result: &Value) {
    let sum = |map: &Value| -> u64 {
        let map = map.as_object().unwrap();
        map.iter().filter(|(k, _)| *k != "total").map(|(_, v)| v.as_u64().unwrap()).sum()
    };
    let programs = &result["nand"]["programs"];
    assert_eq!(sum(programs), programs["total"].as_u64().unwrap());
    let reads = &result["nand"]["reads"];
    assert_eq!(sum(reads), reads["total"].as_u64().unwrap());
    assert_eq!(result["host"]["submitted"], result["host"]["served"]);
    let number = |value: &Value| value.as_f64().unwrap();
    let waf =
        number(&result["nand"]["programmed_bytes"]) / number(&result["host"]["write"]["bytes"]);
    assert!((waf - number(&result["waf"])).abs() < 1e-6);
    let per_slot = number(&programs["total"]) / number(&result["host"]["write_slots"]);
    assert!((per_slot - number(&result["programs_per_slot"])).abs() < 1e-6);
    let windows = result["series"]["programs"]["gc"].as_array().unwrap();
    assert!(windows.len() > 10);
    let writes = &result["latency_ns"]["write"];
    let buckets = writes["histogram"].as_array().unwrap();
    let count: u64 = buckets.iter().map(|pair| pair[1].as_u64().unwrap()).sum();
    assert_eq!(count, writes["count"].as_u64().unwrap());
    assert!(writes["p50"].as_f64().unwrap() <= writes["p99"].as_f64().unwrap());
    assert!(writes.get("p9999").is_none(), "14,000 samples do not know their p99.99");
}
