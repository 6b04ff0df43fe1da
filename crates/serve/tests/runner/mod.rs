//! A runner for tests that need more of a machine than others: what it does not allow (no
//! /dev/fuse, no root) must be reported as skipped, with the reason, and the usual runner knows
//! only passed and failed. Their files are listed with `harness = false` in `Cargo.toml`.

use std::fs::OpenOptions;
use std::process::ExitCode;

/// A test, and what it needs of the machine: the reason why it cannot run here.
pub struct Test {
    pub name: &'static str,
    pub test: fn(),
    pub needs: fn() -> Result<(), String>,
}

/// The tests of a file: `test: needs, ..`.
macro_rules! tests {
    ($($test:ident: $needs:expr),* $(,)?) => {
        [$($crate::runner::Test { name: stringify!($test), test: $test, needs: $needs }),*]
    };
}
pub(crate) use tests;

/// Runs `tests` one after the other; those whose name holds a word of the command line, if there is
/// any. Options of the usual runner are of no use here and passed over.
pub fn run(file: &str, tests: &[Test]) -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    println!();
    for Test { name, test, needs } in tests {
        if !wanted.is_empty() && !wanted.iter().any(|word| name.contains(word.as_str())) {
            continue;
        }
        match std::panic::catch_unwind(|| needs().map(|()| test())) {
            Ok(Err(reason)) => {
                skipped += 1;
                println!("test {name} ... skipped: {reason}");
            }
            Ok(Ok(())) => {
                passed += 1;
                println!("test {name} ... ok");
            }
            Err(_) => {
                failed += 1;
                println!("test {name} ... FAILED");
            }
        }
    }
    println!("\n{file}: {passed} passed, {failed} failed, {skipped} skipped");
    ExitCode::from(u8::from(failed > 0))
}

/// Needs root, and what for.
pub fn root(why: &str) -> Result<(), String> {
    match rustix::process::geteuid().is_root() {
        true => Ok(()),
        false => Err(format!("needs root: {why}")),
    }
}

/// Needs a device that may be read and written.
pub fn device(path: &str) -> Result<(), String> {
    let opened = OpenOptions::new().read(true).write(true).open(path);
    opened.map(drop).map_err(|error| format!("{path}: {error}"))
}
