//! Runs of an experiment on several threads, results in order.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::LabError;

/// Does `one` for all of `cells` on `threads` threads.
pub(super) fn run_all<C: Sync, R: Send>(
    cells: &[C],
    threads: usize,
    one: impl Fn(&C) -> Result<R, LabError> + Sync,
) -> Result<Vec<R>, LabError> {
    let next = AtomicUsize::new(0);
    let results: Vec<_> = cells.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let (Some(cell), Some(slot)) = (cells.get(i), results.get(i)) else { return };
            let result = one(cell);
            if let Ok(mut slot) = slot.lock() {
                *slot = Some(result);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(cells.len()).max(1) {
            scope.spawn(work);
        }
        work();
    });
    let ended = || LabError::Failed("a run ended without a result".to_string());
    results.into_iter().map(|slot| slot.into_inner().ok().flatten().ok_or_else(ended)?).collect()
}
