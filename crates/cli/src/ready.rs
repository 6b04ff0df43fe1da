//! Telling whoever started a server that it can be used: on a descriptor he gave, and to the system's
//! manager of services (`sd_notify`).

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;

use lab::LabError;

/// Where a manager of services listens.
const SOCKET: &str = "NOTIFY_SOCKET";

/// Clients can come: a line on the descriptor, if one was given, and `READY=1`.
///
/// # Errors
/// Nobody can be told.
pub fn ready(descriptor: Option<u32>) -> Result<(), LabError> {
    if let Some(number) = descriptor {
        // The same file, opened anew: the descriptor itself is whose it was.
        let path = PathBuf::from(format!("/proc/self/fd/{number}"));
        let told = OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|mut file| file.write_all(b"ready\n"));
        told.map_err(|error| LabError::Input(format!("--ready-fd {number}: {error}")))?;
    }
    notify("READY=1")
}

/// The server is about to end.
///
/// # Errors
/// As [`ready`].
pub fn stopping() -> Result<(), LabError> {
    notify("STOPPING=1")
}

fn notify(state: &str) -> Result<(), LabError> {
    let Some(name) = std::env::var_os(SOCKET).filter(|name| !name.is_empty()) else {
        return Ok(());
    };
    let address = || -> io::Result<SocketAddr> {
        // A name that begins so lies in no folder.
        match name.to_str().and_then(|name| name.strip_prefix('@')) {
            Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name),
            None => SocketAddr::from_pathname(&name),
        }
    };
    let told =
        address().and_then(|to| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &to));
    told.map(|_| ())
        .map_err(|error| LabError::Failed(format!("{SOCKET}={}: {error}", name.to_string_lossy())))
}
