//! Answers that leave later: a drive emulated in real time has done its work, and its answer waits
//! for the drive's time. One thread for each connection or ring that needs it; it is the only one that answers then.
//!
//! Invariants: at most [`REPLIES`] answers and about [`BYTES`] bytes wait; who brings more waits. Whether an answer still
//! stands is asked when it is due, not before.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use stack::disk::Done;

/// Answers that wait at most.
pub const REPLIES: usize = 1024;
/// Bytes that wait at most, one answer more or less.
const BYTES: usize = 2 << 20;

struct Late<T> {
    answer: T,
    bytes: usize,
    done: Done,
}

struct Queue<T> {
    /// By the time they are due, then in the order they came.
    waiting: BTreeMap<(Instant, u64), Late<T>>,
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
    /// A thread that lets answers leave by `leave`, which is told whether the power stayed on: the answer is not true
    /// otherwise. Once that fails nothing leaves any more.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(
        leave: impl FnMut(T, bool) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Delay<T>> {
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
    pub fn push(&self, done: Done, answer: T, bytes: usize) -> io::Result<()> {
        let due = done.due().unwrap_or_else(Instant::now);
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
        queue.waiting.insert(key, Late { answer, bytes, done });
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

fn run<T>(both: &Both<T>, mut leave: impl FnMut(T, bool) -> io::Result<()>) {
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
        let Some(late) = queue.waiting.remove(&key) else { continue };
        queue.bytes -= late.bytes;
        queue.busy = true;
        drop(queue);
        let result = leave(late.answer, late.done.stands().is_ok());
        queue = both.lock();
        queue.busy = false;
        queue.failed |= result.is_err();
        both.changed.notify_all();
        if queue.failed {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use stack::disk::Lives;

    use super::*;

    #[derive(Default, Debug)]
    struct Cuts(AtomicU64);

    impl Lives for Cuts {
        fn life(&self) -> u64 {
            self.0.load(Ordering::SeqCst)
        }
    }

    #[test]
    fn whether_an_answer_stands_is_asked_when_it_is_due() {
        let (cuts, (tell, left)) = (Arc::new(Cuts::default()), channel());
        let delay = Delay::start(move |answer: u8, stands| {
            tell.send((answer, stands)).map_err(|_| broken())
        });
        let delay = delay.unwrap();
        let of = |ms| {
            let due = Instant::now() + Duration::from_millis(ms);
            Done::at(due).within(Arc::clone(&cuts) as _, cuts.life())
        };
        delay.push(of(0), 1, 1).unwrap();
        assert_eq!(left.recv().unwrap(), (1, true));
        delay.push(of(300), 2, 1).unwrap();
        cuts.0.store(1, Ordering::SeqCst);
        delay.push(of(0), 3, 1).unwrap();
        assert_eq!(left.recv().unwrap(), (3, true));
        assert_eq!(left.recv().unwrap(), (2, false));
        delay.drain().unwrap();
    }
}
