//! Going into the background: the program is started anew, and tells the first one, which ends then, when all is
//! well.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use lab::LabError;

use crate::print;

/// Starts this program with the words `given`, and waits until it says `ready` on a line of its own; whatever it
/// says before is said here. Its errors go to the end of the file `log` from then on, if there is one.
///
/// # Errors
/// What the program said when it ended instead.
pub fn start(
    given: &[OsString],
    log: Option<&Path>,
    ready: &str,
    what: &str,
) -> Result<(), LabError> {
    let failed = |error| LabError::io("/proc/self/exe", error);
    let program = std::env::current_exe().map_err(failed)?;
    let stderr = match log {
        None => Stdio::piped(),
        Some(path) => {
            let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
            file.map_err(|error| LabError::io(path, error))?.into()
        }
    };
    let mut child = Command::new(program)
        .args(given)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()
        .map_err(failed)?;
    let mut said = String::new();
    if let Some(out) = child.stdout.take() {
        let mut lines = BufReader::new(out);
        while lines.read_line(&mut said).map_err(failed)? > 0 {
            if said.trim_end() == ready {
                return Ok(());
            }
            print(&said)?;
            said.clear();
        }
    }
    let mut errors = String::new();
    if let Some(mut err) = child.stderr.take() {
        err.read_to_string(&mut errors).map_err(failed)?;
    }
    let code = child.wait().map_err(failed)?;
    let told = errors.trim().trim_start_matches("varve: ");
    let told = if told.is_empty() { format!("{what} ended: {code}") } else { told.to_string() };
    match code.code() {
        Some(3) => Err(LabError::Input(told)),
        Some(130) => Err(LabError::Interrupted),
        _ => Err(LabError::Failed(told)),
    }
}

/// What runs in the background belongs to no terminal.
pub fn leave_terminal() {
    // A leader of a group cannot leave; then it was started as what it is to be.
    let _ = rustix::process::setsid();
}
