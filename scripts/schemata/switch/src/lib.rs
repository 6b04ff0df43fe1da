//! Which mutant runs, and which were reached.
//!
//! `MUTANT=7` turns the seventh on. `MUTANTS_REACHED=FILE` appends each id once, when it is asked for first, so
//! that a process that is killed has told what it reached.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// Nothing was asked yet.
const UNKNOWN: u32 = u32::MAX;
/// No mutant runs: what is reached is told.
const TELLS: u32 = u32::MAX - 1;
const MOST: usize = 1 << 15;

static ACTIVE: AtomicU32 = AtomicU32::new(UNKNOWN);
static SEEN: [AtomicBool; MOST] = [const { AtomicBool::new(false) }; MOST];
static FILE: OnceLock<Option<File>> = OnceLock::new();

/// Whether a mutant runs; ids begin at 1.
#[inline]
pub fn on(id: u32) -> bool {
    let active = ACTIVE.load(Relaxed);
    active == id || active >= TELLS && !SEEN[id as usize % MOST].load(Relaxed) && first(id)
}

#[cold]
#[inline(never)]
fn first(id: u32) -> bool {
    if ACTIVE.load(Relaxed) == UNKNOWN {
        let active = std::env::var("MUTANT").ok().map_or(TELLS, |id| id.parse().expect("MUTANT: a number"));
        ACTIVE.store(active, Relaxed);
    }
    let active = ACTIVE.load(Relaxed);
    if active == TELLS && !SEEN[id as usize % MOST].swap(true, Relaxed) {
        tell(id);
    }
    active == id
}

fn tell(id: u32) {
    let file = FILE.get_or_init(|| {
        let path = std::env::var_os("MUTANTS_REACHED")?;
        OpenOptions::new().append(true).create(true).open(path).ok()
    });
    if let Some(mut file) = file.as_ref() {
        // A whole line in one write, for several processes append.
        let _ = file.write_all(format!("{id}\n").as_bytes());
    }
}
