//! Values of one process. What a child of fork inherits is nobody's: a lock that another thread
//! held is held for good, and what it guards may be half changed.
//!
//! Invariants:
//! * a process only ever reads the value it has made itself, and no inherited one is dropped;
//! * the number of a process is its own: nobody reads what was remembered before a fork;
//! * a value is found without a lock, so none is waited for that was held at the fork.

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Number of this process. It is asked in every call of SQLite's, so the kernel is asked once: it empties the page
/// that remembers the answer in whatever process is forked, by libc or without it.
pub fn here() -> u32 {
    /// Where the kernel cannot do that, and nothing is remembered.
    static NOWHERE: AtomicU32 = AtomicU32::new(0);
    static PLACE: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());
    let mut place = PLACE.load(Ordering::Acquire);
    if place.is_null() {
        let fresh = forgotten_by_children().unwrap_or(std::ptr::from_ref(&NOWHERE).cast_mut());
        // Of two threads here at once one page is left over.
        let first = PLACE.compare_exchange(
            std::ptr::null_mut(),
            fresh,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        place = first.map_or_else(|other| other, |_| fresh);
    }
    // SAFETY: the static, or a page that is never given back; both are only used as this type.
    let known = unsafe { &*place };
    match known.load(Ordering::Relaxed) {
        0 => {
            let process = std::process::id();
            if !std::ptr::eq(known, &NOWHERE) {
                known.store(process, Ordering::Relaxed);
            }
            process
        }
        process => process,
    }
}

/// A number, 0 at first, that is 0 again in a forked process.
#[cfg(target_os = "linux")]
fn forgotten_by_children() -> Option<*mut AtomicU32> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    // What is asked for becomes whole pages, whatever they are here.
    let bytes = size_of::<AtomicU32>();
    // SAFETY: a new mapping at no given place, and advice for it alone; it is given back only if nobody has seen it.
    unsafe {
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        let page = mmap_anonymous(std::ptr::null_mut(), bytes, flags, MapFlags::PRIVATE).ok()?;
        if madvise(page, bytes, Advice::LinuxWipeOnFork).is_err() {
            // It cannot be of use; a page that cannot be given back either is left over.
            let _ = munmap(page, bytes);
            return None;
        }
        Some(page.cast())
    }
}

#[cfg(not(target_os = "linux"))]
fn forgotten_by_children() -> Option<*mut AtomicU32> {
    None
}

/// One value for each process, made when that process first asks.
pub struct PerProcess<T> {
    newest: AtomicPtr<Node<T>>,
}

struct Node<T> {
    process: u32,
    value: T,
    /// The one of the process this one was forked from: never used, and never freed.
    _older: *mut Node<T>,
}

// SAFETY: only shared references to `T` are handed out, and it is dropped by whoever owns all of
// this.
unsafe impl<T: Send + Sync> Send for PerProcess<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for PerProcess<T> {}

impl<T> Default for PerProcess<T> {
    fn default() -> PerProcess<T> {
        PerProcess::new()
    }
}

impl<T> PerProcess<T> {
    /// No value yet.
    pub const fn new() -> PerProcess<T> {
        PerProcess { newest: AtomicPtr::new(std::ptr::null_mut()) }
    }
}

impl<T: Default> PerProcess<T> {
    /// This process's value.
    pub fn get(&self) -> &T {
        let process = here();
        let mut newest = self.newest.load(Ordering::Acquire);
        loop {
            // SAFETY: null, or a node that came from `into_raw` and lives as long as `self`; its
            // number is never changed.
            match unsafe { newest.as_ref() } {
                Some(node) if node.process == process => return &node.value,
                _ => {}
            }
            let node = Box::new(Node { process, value: T::default(), _older: newest });
            let node = Box::into_raw(node);
            match self.newest.compare_exchange(newest, node, Ordering::AcqRel, Ordering::Acquire) {
                // SAFETY: in the list from now on, as above.
                Ok(_) => return unsafe { &(*node).value },
                Err(other) => {
                    // SAFETY: nobody else has seen this node.
                    drop(unsafe { Box::from_raw(node) });
                    newest = other;
                }
            }
        }
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        let newest = *self.newest.get_mut();
        // SAFETY: null, or a node from `into_raw` that nobody refers to any more.
        unsafe {
            if newest.as_ref().is_some_and(|node| node.process == here()) {
                drop(Box::from_raw(newest));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn every_process_has_its_own_number() {
        let own = std::process::id();
        assert_eq!((here(), here()), (own, own));
        #[cfg(target_os = "linux")]
        {
            let page = forgotten_by_children();
            assert!(page.is_some(), "this kernel does not empty pages at a fork");
        }
    }

    #[test]
    fn threads_share_one_value_which_is_dropped_with_it() {
        let all: PerProcess<std::sync::Mutex<Vec<Arc<()>>>> = PerProcess::default();
        let token = Arc::new(());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| all.get().lock().unwrap().push(Arc::clone(&token)));
            }
        });
        assert_eq!(all.get().lock().unwrap().len(), 8);
        drop(all);
        assert_eq!(Arc::strong_count(&token), 1);
    }
}
