//! The `varve` command line.
//!
//! Exit codes: 0 ok, 1 failed, 2 usage, 3 bad configuration or input (with file, line and what was
//! expected), 4 a consistency check failed, 5 a comparison is outside its tolerance, 130
//! interrupted. With `--json` standard output is exactly one JSON document.

mod args;
mod background;
mod cite;
mod compare;
mod conformance;
mod cost;
mod ctl;
mod doctor;
mod experiment;
mod explained;
mod hits;
mod http;
mod list;
mod manual;
mod parent;
mod plan;
mod prove;
mod random;
mod ready;
mod remap;
mod reproduce;
mod serve;
mod slowdown;
mod sqlite;
mod stop;
mod study;
mod table;
mod top;
mod torture;
mod trace;
mod view;
mod volume;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::FromArgMatches;
use lab::LabError;

use args::{Args, Command};

/// Version and commit, as results carry it.
pub const VERSION: &str = env!("VARVE_VERSION");

/// What mount(8) looks for when a file system is of our type.
const HELPER: &str = "mount.fuse.varve";

/// The command line; under the name of the helper, what that stands for.
fn words() -> Vec<OsString> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let name = words.first().and_then(|word| Path::new(word).file_name());
    if name == Some(HELPER.as_ref()) { volume::mount_arguments(&words[1..]) } else { words }
}

/// `--version --json`, in either order: what programs ask before they trust a store of results.
fn asks_version(words: &[OsString]) -> bool {
    let mut asked: Vec<&str> = words.iter().skip(1).filter_map(|word| word.to_str()).collect();
    asked.sort_unstable();
    asked == ["--json", "--version"]
}

fn main() -> ExitCode {
    let words = words();
    if asks_version(&words) {
        return ended(study::version());
    }
    let matches = args::command().get_matches_from(words);
    let args = Args::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    stop::on_interrupt();
    let result = match args.command {
        Command::Sim(sim) => experiment::sim(&sim),
        Command::Run(run) => experiment::run(&run),
        Command::Points(points) => study::points(&points),
        Command::Merge(parts) => study::merge(&parts),
        Command::Compare(compare) => compare::compare(&compare),
        Command::View(of) => view::view(&of),
        Command::Cite(of) => cite::cite(&of),
        Command::Trace(trace) => trace::trace(&trace),
        Command::Reproduce(paper) => reproduce::reproduce(&paper),
        Command::Remap(command) => stop::at_once(|| remap::remap(&command)),
        Command::Sqlite(command) => sqlite::sqlite(&command),
        Command::List(list) => list::list(&list),
        Command::Doctor(doctor) => doctor::doctor(&doctor),
        Command::Prove(search) => match prove::prove(&search) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Command::Torture(wanted) => match torture::torture(&wanted) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Command::Replay(replay) if plan::is_torture(&replay) => torture::replay(&replay),
        Command::Replay(replay) => stop::at_once(|| plan::replay(&replay)),
        Command::Serve(front) => serve::serve(&front),
        Command::Ctl(ctl) => ctl::ctl(&ctl),
        Command::Top(of) => top::top(&of),
        Command::Conformance(checked) => conformance::conformance(&checked),
        Command::Mkfs(mkfs) => volume::mkfs(&mkfs),
        Command::Mount(mount) => volume::mount(&mount),
        Command::Umount(umount) => volume::umount(&umount),
        Command::Fsck(fsck) => return volume::fsck(&fsck),
        Command::Dump(dump) => stop::at_once(|| volume::dump(&dump)),
        Command::Man(of) => manual::man(&of),
        Command::Completions(of) => manual::completions(&of),
    };
    ended(result)
}

/// The exit code of what was done, and why if it was not.
fn ended(result: Result<(), LabError>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "varve: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// Writes to standard output; whether anybody still reads it.
///
/// # Errors
/// Why standard output cannot be written, but for a reader that has seen enough (`| head`).
fn show(text: &str) -> Result<bool, LabError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        result => result.map(|()| true).map_err(|error| LabError::io("standard output", error)),
    }
}

/// Writes to standard output; a reader that has seen enough is no failure.
///
/// # Errors
/// As [`show`].
fn print(text: &str) -> Result<(), LabError> {
    show(text).map(|_| ())
}

/// Writes a line to standard error; nothing depends on whether it can be read.
fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
