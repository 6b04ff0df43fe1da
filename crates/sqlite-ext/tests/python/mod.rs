//! Scripts of Python that load the library, as it was built with their test.
#![allow(dead_code)] // each test uses its own part

use std::path::{Path, PathBuf};
use std::process::Command;

/// The library.
pub fn library() -> PathBuf {
    let here = std::env::current_exe().expect("a program");
    here.parent().expect("a folder").join("libvarve_sqlite.so")
}

/// `tests/NAME.py`, without its arguments.
pub fn script(name: &str) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new("python3");
    command.arg(root.join(format!("tests/{name}.py"))).env("PYTHONPATH", root.join("../../python"));
    command.env("VARVE_SQLITE_LIBRARY", library()).env_remove("VARVE_SQLITE_RAM_FOR_TESTS");
    command
}

/// A new folder of this process.
pub fn folder(top: &Path, name: &str) -> PathBuf {
    let folder = top.join(format!("varve-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}
