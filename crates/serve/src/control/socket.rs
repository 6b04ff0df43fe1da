//! The socket an operator's commands come through: a unix socket of the user's own.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Control;
use crate::stream::{Address, Listener, Socket};

/// Bytes of a line at most.
const LINE: u64 = 4096;
/// Operators at a time.
const MOST: usize = 32;
/// How often it looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(100);
/// For a line that has begun, and for an answer. Between lines an operator may be silent for as long
/// as nobody else needs his place: a guest's serial line cannot connect again.
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
    let seats = Arc::new(Seats::default());
    while !stop.load(Ordering::Relaxed) {
        match listener.accept_within(LOOK) {
            Ok(Some(Socket::Unix(stream))) => {
                // Where all others are being answered this one is closed.
                let Some(seat) = seats.take(&stream) else { continue };
                let (control, seats) = (Arc::clone(control), Arc::clone(&seats));
                // Without a thread the operator's stream is closed, and says so.
                let _ = std::thread::Builder::new().name("operator".to_string()).spawn(move || {
                    // An operator who leaves in the middle is no concern of ours.
                    let _ = talk(stream, &control, &seats, seat);
                    seats.leave(seat);
                });
            }
            Ok(_) => {}
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}

/// Who is connected. When all seats are taken whoever has asked nothing for the longest time gives his
/// to the next who comes: those who only wait keep nobody out.
#[derive(Debug, Default)]
struct Seats(Mutex<(u64, Vec<Seat>)>);

#[derive(Debug)]
struct Seat {
    number: u64,
    stream: UnixStream,
    since: Instant,
    /// He is being answered.
    busy: bool,
}

impl Seats {
    fn lock(&self) -> MutexGuard<'_, (u64, Vec<Seat>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A seat for whoever came, if there is one or somebody idle gives his up.
    fn take(&self, stream: &UnixStream) -> Option<u64> {
        let stream = stream.try_clone().ok()?;
        let mut seats = self.lock();
        let (last, taken) = &mut *seats;
        if taken.len() >= MOST {
            let idle = taken.iter().enumerate().filter(|(_, seat)| !seat.busy);
            let (oldest, _) = idle.min_by_key(|(_, seat)| seat.since)?;
            // His thread sees the end of what he sends. If he is gone, all the better.
            let _ = taken.swap_remove(oldest).stream.shutdown(Shutdown::Both);
        }
        *last += 1;
        taken.push(Seat { number: *last, stream, since: Instant::now(), busy: false });
        Some(*last)
    }

    /// He is being answered from now on, or not any more; false if his seat was taken.
    fn set_busy(&self, number: u64, busy: bool) -> bool {
        let mut seats = self.lock();
        let seat = seats.1.iter_mut().find(|seat| seat.number == number);
        seat.map(|seat| (seat.busy, seat.since) = (busy, Instant::now())).is_some()
    }

    fn leave(&self, number: u64) {
        self.lock().1.retain(|seat| seat.number != number);
    }
}

fn talk(stream: UnixStream, control: &Control, seats: &Seats, seat: u64) -> io::Result<()> {
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
        if count == 0 || !seats.set_busy(seat, true) {
            return Ok(());
        }
        if !line.ends_with('\n') && count as u64 == LINE {
            return writeln!(out, r#"{{"ok":false,"error":"a line of more than {LINE} bytes"}}"#);
        }
        if let Some(every) = control.watched(line.trim()) {
            return watch(&mut out, control, every);
        }
        writeln!(out, "{}", control.answer(line.trim()))?;
        seats.set_busy(seat, false);
    }
}

/// A line each interval, until he leaves or says anything.
fn watch(out: &mut UnixStream, control: &Control, every: Duration) -> io::Result<()> {
    loop {
        writeln!(out, "{}", control.answer("stats"))?;
        out.set_read_timeout(Some(every))?;
        match out.read(&mut [0; 64]) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            ended => return ended.map(drop),
        }
    }
}

/// Asks the server behind a control socket; its answer as it came.
///
/// # Errors
/// What the system said.
pub fn ask(path: &Path, line: &str) -> io::Result<String> {
    asked(path, line).map(|(answer, _)| answer)
}

/// The same of a line that ends the server: answers when its process is gone, and with it what it held of its image
/// and its sockets, so that another one may be started.
///
/// # Errors
/// What the system said; [`ErrorKind::TimedOut`] if it goes on.
pub fn ask_to_end(path: &Path, line: &str) -> io::Result<String> {
    let (answer, mut stream) = asked(path, line)?;
    // Nobody closes the stream there but the system, when the process ends.
    match stream.read(&mut [0; 1]) {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Err(io::Error::new(ErrorKind::TimedOut, "it was told to end, and is still there"))
        }
        _ => Ok(answer),
    }
}

fn asked(path: &Path, line: &str) -> io::Result<(String, UnixStream)> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(line.as_bytes())?;
    stream.write_all(b"\n")?;
    let mut answer = String::new();
    BufReader::new(&stream).take(16 << 20).read_line(&mut answer)?;
    match answer.is_empty() {
        true => Err(io::ErrorKind::UnexpectedEof.into()),
        false => Ok((answer.trim().to_string(), stream)),
    }
}

/// Asks the server behind a control socket, and tells each line that comes until `told` has enough or it ends.
///
/// # Errors
/// What the system said.
pub fn follow(path: &Path, line: &str, told: &mut dyn FnMut(&str) -> bool) -> io::Result<()> {
    let mut stream = UnixStream::connect(path)?;
    writeln!(stream, "{line}")?;
    for line in BufReader::new(stream).lines() {
        if !told(&line?) {
            break;
        }
    }
    Ok(())
}
