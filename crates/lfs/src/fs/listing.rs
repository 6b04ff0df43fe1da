//! Directories listed a part at a time.
//!
//! Invariant: a position is a place (block and slot), so that an entry that stays is listed exactly
//! once, whatever comes and goes meanwhile.

use block::BlockDevice;

use super::Fs;
use super::dir::DirEntry;
use crate::format::{Area, Entry};
use crate::{FsError, Nid, Now};

impl<D: BlockDevice> Fs<D> {
    /// Entries of a directory from a position on (0: the first), `.` and `..` too; each with the
    /// position behind it. Not more than `most`; none: there are no more.
    ///
    /// # Errors
    /// As [`Fs::lookup`].
    pub fn entries(
        &mut self,
        now: Now,
        dir: Nid,
        from: u64,
        most: usize,
    ) -> Result<Vec<(u64, DirEntry)>, FsError> {
        self.look(now, |fs| {
            fs.expect_dir(dir)?;
            let mut found = Vec::new();
            if fs.is_inline_dir(dir)? {
                let bytes = fs.inline_entries(dir)?;
                gather(Area::INLINE, bytes, 0, from, most, &mut found);
                return Ok(found);
            }
            let per = Area::BLOCK.slots as u64;
            for index in from / per..fs.directory_blocks(dir)? {
                if found.len() >= most {
                    break;
                }
                if let Some(page) = fs.page(dir, index)? {
                    gather(Area::BLOCK, page, index * per, from, most, &mut found);
                }
            }
            Ok(found)
        })
    }
}

fn gather(
    area: Area,
    bytes: &[u8],
    first: u64,
    from: u64,
    most: usize,
    found: &mut Vec<(u64, DirEntry)>,
) {
    let entry = |(slot, entry, name): (usize, Entry, &[u8])| {
        let entry = DirEntry { name: name.to_vec(), ino: entry.ino, kind: entry.kind };
        (first + slot as u64 + 1, entry)
    };
    let room = most - found.len();
    let listed = area.entries(bytes).filter(|(slot, ..)| first + *slot as u64 >= from);
    found.extend(listed.take(room).map(entry));
}
