//! Answers that leave later: a drive emulated in real time has done its work, and its answer waits
//! for the drive's time. One thread for each connection or ring that needs it; it is the only one that answers then.
//!
//! Invariant: at most [`REPLIES`] answers and about [`BYTES`] bytes wait; who brings more waits.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// Answers that wait at most.
pub const REPLIES: usize = 1024;
/// Bytes that wait at most, one answer more or less.
const BYTES: usize = 2 << 20;

struct Queue<T> {
    /// By the time they are due, then in the order they came; each with its bytes.
    waiting: BTreeMap<(Instant, u64), (T, usize)>,
    bytes: usize,
    came: u64,
    /// One is leaving.
    busy: bool,
    over: bool,
    failed: bool,
}

/// Shared by those who answer and the thread.
struct Both<T> {
    queue: Mutex<Queue<T>>,
    changed: Condvar,
}

impl<T> Both<T> {
    fn lock(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn wait<'a>(&self, queue: MutexGuard<'a, Queue<T>>) -> MutexGuard<'a, Queue<T>> {
        self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers of one kind that leave one after the other.
pub struct Delay<T> {
    both: Arc<Both<T>>,
    thread: Option<JoinHandle<()>>,
}

impl<T> fmt::Debug for Delay<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delay").finish_non_exhaustive()
    }
}

fn broken() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

impl<T: Send + 'static> Delay<T> {
    /// A thread that lets answers leave by `leave`. Once that fails nothing leaves any more.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(leave: impl FnMut(T) -> io::Result<()> + Send + 'static) -> io::Result<Delay<T>> {
        let queue = Queue {
            waiting: BTreeMap::new(),
            bytes: 0,
            came: 0,
            busy: false,
            over: false,
            failed: false,
        };
        let both = Arc::new(Both { queue: Mutex::new(queue), changed: Condvar::new() });
        let shared = Arc::clone(&both);
        let work = move || run(&shared, leave);
        let thread = std::thread::Builder::new().name("late".to_string()).spawn(work)?;
        Ok(Delay { both, thread: Some(thread) })
    }

    /// Lets an answer of so many bytes leave when it is due.
    ///
    /// # Errors
    /// The client takes nothing any more.
    pub fn push(&self, due: Instant, answer: T, bytes: usize) -> io::Result<()> {
        let mut queue = self.both.lock();
        while !queue.failed && (queue.waiting.len() >= REPLIES || queue.bytes >= BYTES) {
            queue = self.both.wait(queue);
        }
        if queue.failed {
            return Err(broken());
        }
        queue.came += 1;
        queue.bytes += bytes;
        let key = (due, queue.came);
        queue.waiting.insert(key, (answer, bytes));
        self.both.changed.notify_all();
        Ok(())
    }

    /// Returns when everything has left.
    ///
    /// # Errors
    /// The client takes nothing any more.
    pub fn drain(&self) -> io::Result<()> {
        let mut queue = self.both.lock();
        while !queue.failed && (queue.busy || !queue.waiting.is_empty()) {
            queue = self.both.wait(queue);
        }
        if queue.failed { Err(broken()) } else { Ok(()) }
    }
}

/// What waits is dropped: who wants it to leave drains before.
impl<T> Drop for Delay<T> {
    fn drop(&mut self) {
        self.both.lock().over = true;
        self.both.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It cannot have panicked: it only lets answers leave.
            let _ = thread.join();
        }
    }
}

fn run<T>(both: &Both<T>, mut leave: impl FnMut(T) -> io::Result<()>) {
    let mut queue = both.lock();
    while !queue.over {
        let Some((&key, _)) = queue.waiting.first_key_value() else {
            queue = both.wait(queue);
            continue;
        };
        let left = key.0.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            let waited = both.changed.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            continue;
        }
        let Some((answer, bytes)) = queue.waiting.remove(&key) else { continue };
        queue.bytes -= bytes;
        queue.busy = true;
        drop(queue);
        let result = leave(answer);
        queue = both.lock();
        queue.busy = false;
        queue.failed |= result.is_err();
        both.changed.notify_all();
        if queue.failed {
            return;
        }
    }
}
