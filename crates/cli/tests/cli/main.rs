//! The command line as scripts see it: exit codes, one JSON document, errors with file and line,
//! the same bytes from equal runs.

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
