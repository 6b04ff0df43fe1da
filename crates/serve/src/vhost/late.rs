//! Chains that are handed back later: a drive emulated in real time has done its work, and the answer waits for the
//! drive's time. A thread for each queue that needs it.
//!
//! Invariant: no more chains wait than a queue has.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use super::device::Ring;

/// A chain and the bytes written into it.
type Used = (Ring, u16, u32);

#[derive(Default)]
struct Queue {
    /// By the time they are due, then in the order they came.
    waiting: BTreeMap<(Instant, u64), Used>,
    came: u64,
    /// One is being handed back.
    busy: bool,
    over: bool,
}

#[derive(Default)]
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

/// The late chains of a queue.
#[derive(Default)]
pub struct Late {
    both: Arc<Both>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Late {
    /// Hands a chain back when it is due.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn push(&self, due: Instant, used: Used) -> io::Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let both = Arc::clone(&self.both);
            let work = move || run(&both);
            *thread = Some(std::thread::Builder::new().name("late".to_string()).spawn(work)?);
        }
        let mut queue = self.both.lock();
        queue.came += 1;
        let key = (due, queue.came);
        queue.waiting.insert(key, used);
        self.both.changed.notify_all();
        Ok(())
    }

    /// Returns when all were handed back.
    pub fn drain(&self) {
        let mut queue = self.both.lock();
        while queue.busy || !queue.waiting.is_empty() {
            queue = self.both.wait(queue);
        }
    }
}

/// The machine is gone: what waits is for nobody.
impl Drop for Late {
    fn drop(&mut self) {
        self.both.lock().over = true;
        self.both.changed.notify_all();
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // It only hands chains back.
            let _ = thread.join();
        }
    }
}

fn run(both: &Both) {
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
        let Some((ring, head, written)) = queue.waiting.remove(&key) else { continue };
        queue.busy = true;
        drop(queue);
        // A ring that takes nothing back is one whose memory is gone, and its machine with it.
        let _ = ring.hand_back(head, written).and_then(|()| ring.call());
        queue = both.lock();
        queue.busy = false;
        both.changed.notify_all();
    }
}
