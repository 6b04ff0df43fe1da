//! Answers that leave later: a drive emulated in real time has done its work, and its answer waits
//! for the drive's time. One thread for each connection that needs it; it is the only writer then.
//!
//! Invariant: at most [`REPLIES`] answers and about [`BYTES`] bytes wait; who brings more waits.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use super::output::write_all;
use super::transport::Transport;

/// Answers that wait at most.
const REPLIES: usize = 1024;
/// Bytes that wait at most, one answer more or less.
const BYTES: usize = 2 << 20;

#[derive(Debug, Default)]
struct Queue {
    /// By the time they are due, then in the order they came.
    waiting: BTreeMap<(Instant, u64), Vec<u8>>,
    bytes: usize,
    came: u64,
    /// One is being written.
    writing: bool,
    over: bool,
    failed: bool,
}

/// Shared by the connection and its writer.
#[derive(Debug, Default)]
struct Both {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Both {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn wait<'a>(&self, queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner)
    }
}

/// The connection's end of it.
#[derive(Debug)]
pub struct Delay {
    both: Arc<Both>,
    writer: Option<JoinHandle<()>>,
}

fn broken() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

impl Delay {
    /// A writer for `stream`.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start<T: Transport>(mut stream: T) -> io::Result<Delay> {
        let both = Arc::new(Both::default());
        let shared = Arc::clone(&both);
        let work = move || run(&shared, &mut stream);
        let writer = std::thread::Builder::new().name("late".to_string()).spawn(work)?;
        Ok(Delay { both, writer: Some(writer) })
    }

    /// Lets `bytes` leave when they are due.
    ///
    /// # Errors
    /// The client takes nothing any more.
    pub fn push(&self, due: Instant, bytes: Vec<u8>) -> io::Result<()> {
        let mut queue = self.both.lock();
        while !queue.failed && (queue.waiting.len() >= REPLIES || queue.bytes >= BYTES) {
            queue = self.both.wait(queue);
        }
        if queue.failed {
            return Err(broken());
        }
        queue.came += 1;
        queue.bytes += bytes.len();
        let key = (due, queue.came);
        queue.waiting.insert(key, bytes);
        self.both.changed.notify_all();
        Ok(())
    }

    /// Returns when everything has left.
    ///
    /// # Errors
    /// The client takes nothing any more.
    pub fn drain(&self) -> io::Result<()> {
        let mut queue = self.both.lock();
        while !queue.failed && (queue.writing || !queue.waiting.is_empty()) {
            queue = self.both.wait(queue);
        }
        if queue.failed { Err(broken()) } else { Ok(()) }
    }
}

/// What waits is dropped: who wants it to leave drains before.
impl Drop for Delay {
    fn drop(&mut self) {
        self.both.lock().over = true;
        self.both.changed.notify_all();
        if let Some(writer) = self.writer.take() {
            // It cannot have panicked: it only writes.
            let _ = writer.join();
        }
    }
}

fn run<T: Transport>(both: &Both, stream: &mut T) {
    let mut queue = both.lock();
    while !queue.over {
        let Some((&(due, number), _)) = queue.waiting.first_key_value() else {
            queue = both.wait(queue);
            continue;
        };
        let left = due.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            let waited = both.changed.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            continue;
        }
        let bytes = queue.waiting.remove(&(due, number)).unwrap_or_default();
        queue.bytes -= bytes.len();
        queue.writing = true;
        drop(queue);
        let result = write_all(stream, &bytes);
        queue = both.lock();
        queue.writing = false;
        queue.failed |= result.is_err();
        both.changed.notify_all();
        if queue.failed {
            return;
        }
    }
}
