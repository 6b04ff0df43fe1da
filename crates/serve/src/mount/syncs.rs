//! Fsyncs: those that wait at the same time share the device's flushes, and nobody else waits for them.
//!
//! Invariants: the volume's lock is not held while the device flushes; an answer comes after the flush
//! that made the file durable; what was asked of one mount is not answered for by the next one.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use block::{BlockDevice, Request};
use fuser::Errno;
use lfs::Nid;
use lfs::fs::Syncing;
use stack::disk::Asked;

use super::volume::{Flushing, Volume};

/// Who is told what came of it.
type Answer = Box<dyn FnOnce(Result<(), Errno>) + Send>;

/// Somebody waits until a file is durable.
struct Waiting {
    answer: Answer,
    since: Instant,
}

#[derive(Default)]
struct Asks {
    new: Vec<(Nid, Waiting)>,
    ended: bool,
}

#[derive(Default)]
struct Shared {
    asks: Mutex<Asks>,
    told: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Asks> {
        self.asks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was asked meanwhile; with nothing else to do waits for it. None: nothing will be.
    fn next(&self, idle: bool) -> Option<Vec<(Nid, Waiting)>> {
        let mut asks = self.lock();
        while idle && asks.new.is_empty() {
            if asks.ended {
                return None;
            }
            asks = self.told.wait(asks).unwrap_or_else(PoisonError::into_inner);
        }
        Some(std::mem::take(&mut asks.new))
    }
}

/// The fsyncs of one mount, and the thread that answers them.
pub(super) struct Syncs {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Syncs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Syncs").finish_non_exhaustive()
    }
}

impl Syncs {
    /// For the file system that a volume serves now.
    pub(super) fn new(volume: &Arc<Volume>) -> std::io::Result<Syncs> {
        let shared = Arc::new(Shared::default());
        let (asks, volume, mount) = (Arc::clone(&shared), Arc::clone(volume), volume.mounts());
        let body = move || serve(&volume, mount, &asks);
        let thread = std::thread::Builder::new().name("fsync".to_string()).spawn(body)?;
        Ok(Syncs { shared, thread: Some(thread) })
    }

    /// Makes a file durable; `answer` is told when it is, or why it is not.
    pub(super) fn ask(&self, ino: Nid, answer: impl FnOnce(Result<(), Errno>) + Send + 'static) {
        let waiting = Waiting { answer: Box::new(answer), since: Instant::now() };
        self.shared.lock().new.push((ino, waiting));
        self.shared.told.notify_all();
    }
}

impl Drop for Syncs {
    /// What was asked for before is answered.
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.told.notify_all();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked answers nobody; the kernel tells its callers of the end.
            let _ = thread.join();
        }
    }
}

fn serve(volume: &Volume, mount: u64, asks: &Shared) {
    let (mut files, mut waiting) = (Vec::new(), Vec::new());
    let mut flushed = None;
    while let Some(new) = asks.next(files.is_empty()) {
        for (ino, one) in new {
            files.push(Syncing::new(ino));
            waiting.push(one);
        }
        let round = volume.sync(mount, flushed.take(), &mut files);
        let failed = round.as_ref().err().copied();
        let mut left = Vec::new();
        for (file, one) in std::mem::take(&mut files).into_iter().zip(std::mem::take(&mut waiting))
        {
            match failed {
                Some(error) => answer(volume, one, Err(error)),
                None if file.is_done() => {
                    answer(volume, one, file.result().map_err(|e| super::errors::errno(&e)))
                }
                None => left.push((file, one)),
            }
        }
        (files, waiting) = left.into_iter().unzip();
        if let Ok(Some(Flushing { mark, mut device, now })) = round {
            flushed = Some((mark, device.submit(now.at, Request::flush()).map(|_| ())));
        }
    }
}

fn answer(volume: &Volume, one: Waiting, result: Result<(), Errno>) {
    match result {
        Ok(()) => volume.meter().answered(Asked::Flush, one.since, None),
        Err(_) => volume.meter().refused(),
    }
    (one.answer)(result);
}
