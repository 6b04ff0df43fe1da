//! The socket an operator's commands come through: a unix socket of the user's own.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::Control;
use crate::nbd::address::{Address, Listener};
use crate::nbd::transport::Socket;

/// Bytes of a line at most.
const LINE: u64 = 4096;
/// Operators at a time.
const MOST: usize = 8;
/// How often it looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(100);
/// For a line that has begun, and for an answer. Between lines an operator may be silent for as long
/// as he likes: a guest's serial line cannot connect again.
const PATIENCE: Duration = Duration::from_secs(60);

/// Listens in a thread of its own until it is dropped.
#[derive(Debug)]
pub struct ControlSocket {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ControlSocket {
    /// Listens at `path`.
    ///
    /// # Errors
    /// What the system said.
    pub fn bind(path: &Path, control: Arc<Control>) -> io::Result<ControlSocket> {
        let listener = Listener::bind(&Address::Unix(path.to_path_buf()))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("control".to_string())
            .spawn(move || listen(&listener, &stopped, &control))?;
        Ok(ControlSocket { stop, thread: Some(thread) })
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Whatever became of it, the socket is closed.
            let _ = thread.join();
        }
    }
}

fn listen(listener: &Listener, stop: &AtomicBool, control: &Arc<Control>) {
    let open = Arc::new(AtomicUsize::new(0));
    while !stop.load(Ordering::Relaxed) {
        match listener.accept_within(LOOK) {
            Ok(Some(Socket::Unix(stream))) if open.load(Ordering::Relaxed) < MOST => {
                open.fetch_add(1, Ordering::Relaxed);
                let (control, seat) = (Arc::clone(control), Seat(Arc::clone(&open)));
                // Without a thread the operator's stream is closed, and says so.
                let _ = std::thread::Builder::new().name("operator".to_string()).spawn(move || {
                    // An operator who leaves in the middle is no concern of ours.
                    let _ = talk(stream, &control);
                    drop(seat);
                });
            }
            Ok(_) => {}
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}

struct Seat(Arc<AtomicUsize>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn talk(stream: UnixStream, control: &Control) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(stream.try_clone()?);
    let mut out = stream;
    loop {
        out.set_read_timeout(None)?;
        if lines.fill_buf()?.is_empty() {
            return Ok(());
        }
        out.set_read_timeout(Some(PATIENCE))?;
        let mut line = String::new();
        let count = (&mut lines).take(LINE).read_line(&mut line)?;
        if count == 0 {
            return Ok(());
        }
        if !line.ends_with('\n') && count as u64 == LINE {
            return writeln!(out, r#"{{"ok":false,"error":"a line of more than {LINE} bytes"}}"#);
        }
        writeln!(out, "{}", control.answer(line.trim()))?;
    }
}

/// Asks the server behind a control socket; its answer as it came.
///
/// # Errors
/// What the system said.
pub fn ask(path: &Path, line: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(line.as_bytes())?;
    stream.write_all(b"\n")?;
    let mut answer = String::new();
    BufReader::new(stream).take(16 << 20).read_line(&mut answer)?;
    match answer.is_empty() {
        true => Err(io::ErrorKind::UnexpectedEof.into()),
        false => Ok(answer.trim().to_string()),
    }
}
