//! `GET` of a few paths over HTTP/1.0, on this machine only.
//!
//! Invariants: a client holds one of a fixed number of places for at most [`PATIENCE`], and costs at
//! most [`LARGEST`] bytes; every answer says how long it is and closes the connection. Events are the
//! exception: who follows them keeps one of fewer places for as long as it takes what it is sent.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lab::LabError;

use crate::{note, print, stop};

/// Bytes of a request at most.
const LARGEST: usize = 8 << 10;
/// Clients at a time.
const MOST: usize = 8;
/// Of them, those that follow events.
const MOST_FOLLOWERS: usize = 4;
/// For all of a request to arrive.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(50);

/// What is answered to who asks for a path, or why not now; `None`: there is no such path.
pub type Pages = dyn Fn(&str) -> Option<Result<Page, LabError>> + Send + Sync;

/// What stands at a path.
pub enum Page {
    /// A text.
    Text {
        /// Its media type.
        kind: &'static str,
        /// The text.
        body: String,
    },
    /// Events from now on, as the `text/event-stream` of HTML has them.
    Events(Box<Events>),
}

/// The next texts of a stream of events, each one line; it may wait [`LOOK`], and has none to tell then.
pub type Events = dyn FnMut() -> Vec<String> + Send;

/// What is served, and how to speak of it.
#[derive(Clone)]
pub struct Served {
    /// The path that is printed when it can be asked for.
    pub path: String,
    /// What is expected, for who asks for another.
    pub expected: &'static str,
    /// The answers.
    pub pages: Arc<Pages>,
}

struct Answer {
    status: &'static str,
    page: Page,
}

fn plain(status: &'static str, body: &str) -> Answer {
    let page = Page::Text { kind: "text/plain; charset=utf-8", body: format!("{body}\n") };
    Answer { status, page }
}

/// Answers until the program is to stop.
///
/// # Errors
/// The address is not of this machine alone, or cannot be listened at.
pub fn serve(address: SocketAddr, served: &Served) -> Result<(), LabError> {
    if !address.ip().is_loopback() {
        let what = format!("--listen {address}: expected an address of this machine, as 127.0.0.1");
        return Err(LabError::Input(what));
    }
    let failed = |error: io::Error| LabError::Failed(format!("{address}: {error}"));
    let listener = TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    print(&format!("http://{}{}\n", listener.local_addr().map_err(failed)?, served.path))?;
    let open = Arc::new(AtomicUsize::new(0));
    while !stop::flag().load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, _)) => welcome(stream, &open, served),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(LOOK),
            Err(error) => {
                note(&format!("varve: {address}: {error}"));
                std::thread::sleep(LOOK);
            }
        }
    }
    Ok(())
}

struct Seat(Arc<AtomicUsize>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn welcome(stream: TcpStream, open: &Arc<AtomicUsize>, served: &Served) {
    if open.fetch_add(1, Ordering::Relaxed) >= MOST {
        // Closed at once; whoever asks comes again.
        drop(Seat(Arc::clone(open)));
        return;
    }
    let (seat, served) = (Seat(Arc::clone(open)), served.clone());
    // Without a thread the stream is closed, and says so.
    let _ = std::thread::Builder::new().name("answer".to_string()).spawn(move || {
        // A client who leaves in the middle is no concern of ours.
        let _ = talk(stream, &served);
        drop(seat);
    });
}

/// The first line of the request, once all of its head is there; none if that is too long, or late.
fn request(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let (until, mut head, mut part) = (Instant::now() + PATIENCE, Vec::new(), [0; 1024]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && !head.windows(2).any(|e| e == b"\n\n") {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() + part.len() > LARGEST {
            return Ok(None);
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part)? {
            0 => break,
            count => head.extend_from_slice(&part[..count]),
        }
    }
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(Some(String::from_utf8_lossy(line).trim().to_string()))
}

fn answer(line: &str, served: &Served) -> Answer {
    let mut words = line.split_whitespace();
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    if !matches!(method, "GET" | "HEAD") {
        return plain("405 Method Not Allowed", &format!("expected GET {}", served.expected));
    }
    match (served.pages)(target.split('?').next().unwrap_or_default()) {
        Some(Ok(page)) => Answer { status: "200 OK", page },
        Some(Err(error)) => plain("503 Service Unavailable", &error.to_string()),
        None => plain("404 Not Found", &format!("expected {}", served.expected)),
    }
}

/// Who follows events now.
static FOLLOWERS: AtomicUsize = AtomicUsize::new(0);

/// Tells events until the program is to stop, or the client takes no more.
fn follow(mut stream: TcpStream, mut events: Box<Events>) -> io::Result<()> {
    struct Follower;
    impl Drop for Follower {
        fn drop(&mut self) {
            FOLLOWERS.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let before = FOLLOWERS.fetch_add(1, Ordering::Relaxed);
    let _follower = Follower;
    if before >= MOST_FOLLOWERS {
        return stream.write_all(b"HTTP/1.0 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
    }
    stream.write_all(
        b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n\r\n",
    )?;
    let mut told = Instant::now();
    while !stop::flag().load(Ordering::Relaxed) {
        let texts = events();
        let mut all: String = texts.iter().map(|text| format!("data: {text}\n\n")).collect();
        // A client that left is noticed by a line it would not have seen.
        if all.is_empty() && told.elapsed() > PATIENCE {
            all = ":\n".to_string();
        }
        if !all.is_empty() {
            stream.write_all(all.as_bytes())?;
            told = Instant::now();
        }
    }
    Ok(())
}

fn talk(mut stream: TcpStream, served: &Served) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let line = request(&mut stream)?;
    let Answer { status, page } = match &line {
        Some(line) => answer(line, served),
        None => plain("400 Bad Request", "a request of more than 8 KiB, or an unfinished one"),
    };
    let (kind, body) = match page {
        Page::Text { kind, body } => (kind, body),
        Page::Events(events) => return follow(stream, events),
    };
    let head = format!(
        "HTTP/1.0 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len(),
    );
    stream.write_all(head.as_bytes())?;
    if !line.is_some_and(|line| line.starts_with("HEAD ")) {
        stream.write_all(body.as_bytes())?;
    }
    stream.flush()?;
    // A client that still sends would be reset, and might not see the answer.
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(LOOK))?;
    let (mut left, mut part) = (LARGEST, [0; 1024]);
    while left > 0 {
        match stream.read(&mut part)? {
            0 => break,
            count => left = left.saturating_sub(count),
        }
    }
    Ok(())
}
