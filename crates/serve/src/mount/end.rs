//! What a mount says when it fails, and how the one who unmounts it learns how it ended.
//!
//! Invariants: the first cause is said at once, and once; a mount that did not end well leaves a report
//! in a file of its own, before it lets go of what it was mounted from; who unmounts asks for the name
//! of that file before, and removes it.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use lfs::{Fs, Nid, Now};

use super::behind::Behind;

/// The attribute of the mounted directory that names the file a report would be in.
pub const END: &str = "user.varve.end";
/// Files that are named in a report.
const NAMED: usize = 8;

/// Says something to the one who looks after the mount: on standard error, or, where nobody has that any
/// more (a mount in the background without a log), in the kernel's log.
pub(super) fn say(dir: &Path, text: &str) {
    let line = format!("varve: {}: {text}\n", dir.display());
    if io::stderr().write_all(line.as_bytes()).is_err()
        && let Ok(mut log) = OpenOptions::new().write(true).open("/dev/kmsg")
    {
        // There is nobody left to tell.
        let _ = log.write_all(line.as_bytes());
    }
}

/// Where a report of this process goes.
pub(super) fn place() -> PathBuf {
    let own = if rustix::process::geteuid().is_root() {
        Some(PathBuf::from("/run"))
    } else {
        std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from)
    };
    let folder = own.filter(|path| path.is_dir()).unwrap_or_else(std::env::temp_dir);
    folder.join(format!("varve-mount-{}.end", std::process::id()))
}

/// Leaves a report.
pub(super) fn leave(path: &Path, text: &str) -> io::Result<()> {
    // Of an older process of this number.
    let _ = std::fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Takes the report that a mount left, if it left one. Only files of that kind are taken.
///
/// # Errors
/// It is there and cannot be read.
pub fn take_report(path: &Path) -> io::Result<Option<String>> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !(name.starts_with("varve-mount-") && name.ends_with(".end")) {
        return Err(io::Error::other(format!("{}: not the name of a report", path.display())));
    }
    match File::open(path).and_then(io::read_to_string) {
        Ok(text) => {
            std::fs::remove_file(path)?;
            Ok(Some(text))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// What of a volume that failed is not durable, in words.
pub(super) fn lost(fs: &mut Fs<Behind>, now: Now) -> String {
    let unsaved: Vec<Nid> = fs.unsaved().into_iter().collect();
    let seconds = now.wall.seconds.saturating_sub(fs.settled().seconds);
    let mut text = format!(
        "not durable: what was changed since the last checkpoint, {seconds} s before, and not synced \
         ({} files and directories",
        unsaved.len()
    );
    let named = unsaved.iter().filter_map(|ino| {
        let name = fs.last_name(now, *ino)?;
        Some(format!("`{}`", String::from_utf8_lossy(&name)))
    });
    for (i, name) in named.take(NAMED).enumerate() {
        let _ = write!(text, "{}{name}", if i == 0 { ": " } else { ", " });
    }
    if unsaved.len() > NAMED {
        text.push_str(", ..");
    }
    text.push_str("), and what an fsync failed for since");
    text
}
