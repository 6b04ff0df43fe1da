//! Which mutant runs, and which were reached.
//!
//! `MUTANT=7` turns the seventh on. `MUTANTS_REACHED=FILE` appends each id once, when it is asked for first, so
//! that a process that is killed has told what it reached.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

const UNKNOWN: u32 = u32::MAX;
const MOST: usize = 1 << 15;

static ACTIVE: AtomicU32 = AtomicU32::new(UNKNOWN);
static SEEN: [AtomicBool; MOST] = [const { AtomicBool::new(false) }; MOST];
static FILE: OnceLock<Option<File>> = OnceLock::new();

/// Whether a mutant runs; ids begin at 1.
#[inline]
pub fn on(id: u32) -> bool {
    if !SEEN[id as usize % MOST].load(Relaxed) {
        first(id);
    }
    ACTIVE.load(Relaxed) == id
}

#[cold]
fn first(id: u32) {
    if ACTIVE.load(Relaxed) == UNKNOWN {
        let active = std::env::var("MUTANT").ok().and_then(|id| id.parse().ok()).unwrap_or(0);
        ACTIVE.store(active, Relaxed);
    }
    if SEEN[id as usize % MOST].swap(true, Relaxed) {
        return;
    }
    let file = FILE.get_or_init(|| {
        let path = std::env::var_os("MUTANTS_REACHED")?;
        OpenOptions::new().append(true).create(true).open(path).ok()
    });
    if let Some(mut file) = file.as_ref() {
        // A whole line in one write, for several processes append.
        let _ = file.write_all(format!("{id}\n").as_bytes());
    }
}
