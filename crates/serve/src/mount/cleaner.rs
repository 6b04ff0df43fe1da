//! Cleaning beside the requests: a thread reads what it needs, and takes it on.
//!
//! Invariants: the volume's lock is not held while it reads; the thread has ended when its owner is gone.

use std::sync::Arc;
use std::thread::JoinHandle;

use super::volume::Volume;

/// The thread that cleans for one mount.
pub(super) struct Cleaner {
    volume: Arc<Volume>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Cleaner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cleaner").finish_non_exhaustive()
    }
}

impl Cleaner {
    /// For the file system that a volume serves now.
    pub(super) fn new(volume: &Arc<Volume>) -> std::io::Result<Cleaner> {
        let (volume, mount) = (Arc::clone(volume), volume.mounts());
        let beside = Arc::clone(&volume);
        let body = move || while beside.clean(mount) {};
        let thread = std::thread::Builder::new().name("clean".to_string()).spawn(body)?;
        Ok(Cleaner { volume, thread: Some(thread) })
    }
}

impl Drop for Cleaner {
    fn drop(&mut self) {
        self.volume.rest();
        if let Some(thread) = self.thread.take() {
            // Requests read for themselves what they need.
            let _ = thread.join();
        }
    }
}
