//! Where a file has data, and where it has holes, with what the kernel has not written yet.
//!
//! What a program writes into a shared mapping is in the kernel's pages only, until it is synced, and the kernel asks
//! for holes without writing these first. So before a hole is answered the kernel is told that the contents there have
//! changed: it writes what it has of them, and gives up its pages.
//!
//! Invariants: pages of data are left to the kernel; no thread that takes requests waits for the kernel, which waits
//! for them to take its writes.

use std::ops::Range;
use std::sync::Arc;

use block::Bytes;
use fuser::{Errno, INodeNo, ReplyLseek};
use lfs::fs::Seeking;

use super::attributes::nid;
use super::volume::Volume;
use crate::kernel::answer_offset;

/// What was found, and the hole because of which it was not found before, or that it is.
type Found = (Option<u64>, Range<u64>);

/// Answers with the first byte from `at` on that is data, or is not.
pub(super) fn answer(volume: &Arc<Volume>, file: INodeNo, asked: (u64, bool), reply: ReplyLseek) {
    let found = look(volume, file, asked);
    let Ok((_, gap)) = &found else { return tell(found, reply) };
    if gap.is_empty() {
        return tell(found, reply);
    }
    let (volume, gap) = (Arc::clone(volume), gap.clone());
    // Without a thread the reply goes, and says so.
    let _ = std::thread::Builder::new().name("seek".to_string()).spawn(move || {
        tell(look_with_pages(&volume, file, asked, gap), reply);
    });
}

fn tell(found: Result<Found, Errno>, reply: ReplyLseek) {
    answer_offset(found.and_then(|(at, _)| at.ok_or(Errno::ENXIO)), reply);
}

/// Looks anew for as long as there is another hole than the one before, which has become data.
fn look_with_pages(
    volume: &Volume,
    file: INodeNo,
    (at, hole): (u64, bool),
    mut gap: Range<u64>,
) -> Result<Found, Errno> {
    loop {
        volume.kernel.writes(file, &gap);
        let found = look(volume, file, (at, hole))?;
        if !hole || found.1.is_empty() || found.1.start <= gap.start {
            return Ok(found);
        }
        gap = found.1;
    }
}

fn look(volume: &Volume, file: INodeNo, (at, hole): (u64, bool)) -> Result<Found, Errno> {
    let ino = nid(file)?;
    let seek = |from: u64, hole: bool| {
        let mut how = Seeking::new(Bytes(from), hole);
        let found = volume.with(|fs, now| fs.seek_on(now, ino, &mut how))?;
        Ok::<_, Errno>(found.map(|at| at.0))
    };
    let found = seek(at, hole)?;
    let (from, to) = match found {
        Some(first) if hole => (first, seek(first, false)?),
        None if hole => return Ok((None, 0..0)),
        data => (at, data),
    };
    let to = match to {
        Some(to) => to,
        None => volume.with(|fs, now| fs.attributes(now, ino))?.size.0,
    };
    Ok((found, from..to))
}
