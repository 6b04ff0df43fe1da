//! Ends with the program that started this one: a worker that is killed must not leave a run of hours
//! behind, nor a second one beside that of its successor.
//!
//! The parent is looked at now and then. (The kernel could send a signal instead, but it does so when
//! the *thread* ends that started this program, and schedulers start programs from threads that come and go.)
//! Whoever was left by his parent before the first look is not noticed.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::process::getppid;

use crate::stop;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(100);
/// Time to come to an end by oneself.
const GRACE: Duration = Duration::from_millis(400);

/// From now on this program ends, as if interrupted, within half a second of its parent.
pub fn end_with_it() {
    let parent = getppid();
    std::thread::spawn(move || {
        while getppid() == parent {
            std::thread::sleep(LOOK);
        }
        stop::flag().store(true, Ordering::SeqCst);
        std::thread::sleep(GRACE);
        std::process::exit(stop::INTERRUPTED);
    });
}
