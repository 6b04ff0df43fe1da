//! Programs of others judge the mounted file system: `scripts/posix` in its short form.

#[path = "../../serve/tests/runner/mod.rs"]
mod runner;

use std::path::Path;
use std::process::{Command, ExitCode};

fn mounting_for_others() -> Result<(), String> {
    runner::root("the judges become other users")?;
    runner::device("/dev/fuse")
}

fn programs_of_others_find_nothing_wrong() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let told = Command::new(root.join("scripts/posix"))
        .args(["--quick", "--program", env!("CARGO_BIN_EXE_varve")])
        .status()
        .expect("scripts/posix starts");
    assert!(told.success());
}

fn main() -> ExitCode {
    let tests = runner::tests![programs_of_others_find_nothing_wrong: mounting_for_others];
    runner::run("posix", &tests)
}
