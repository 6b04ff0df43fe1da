//! Write-ahead logs: page images lie on pages of their own, headers apart.
//!
//! Invariants:
//! * on the device a log is a page with the file header, then stretches of one page of frame
//!   headers and the images of these frames;
//! * what was written since the last sync is in memory only, as in any file system's cache; SQLite's
//!   checksums tell what of it a power cut has left;
//! * after a remapping the log on the device has no file header, so it is empty for any recovery.
//!   Before another frame is added to it, everything that was moved is copied back.

use std::collections::BTreeMap;

use block::{DeviceError, Lpn};

use super::core::{Core, Done, Id, PAGE_BYTES};
use super::space::EXTENT;
use super::table::{Meta, PAGE};

const HEADER: u64 = 32;
const FRAME: u64 = 24;
/// Frames of a stretch: their headers fit a page, and their images fill whole pages at any page
/// size.
const STRETCH: u64 = 168;
/// Pages in memory before they are written without waiting for a sync.
const MOST_DIRTY: usize = 2_048;

/// A log that is open.
#[derive(Default)]
pub(super) struct Wal {
    /// The file header as SQLite sees it.
    header: [u8; HEADER as usize],
    /// The length as SQLite sees it.
    pub(super) size: u64,
    /// Pages that are newer here than on the device.
    dirty: BTreeMap<u64, Box<[u8]>>,
    /// Frames whose image is now a page of the database.
    moved: BTreeMap<u64, u64>,
    /// The frame that was read last, whole.
    read: Option<u64>,
    /// Inside a checkpoint: database pages that are to become the images of frames.
    pub(super) pairs: BTreeMap<u64, u64>,
}

impl Wal {
    fn page_size(&self) -> u64 {
        match u64::from(word(&self.header, 8)) {
            1 => 65_536,
            size if size.is_power_of_two() && (512..=32_768).contains(&size) => size,
            _ => PAGE_BYTES,
        }
    }

    fn stretch_bytes(&self) -> u64 {
        PAGE_BYTES + STRETCH * self.page_size()
    }

    /// Where byte `at` of SQLite's file lies in the object, for how many bytes, and if it belongs
    /// to an image, the frame.
    fn place(&self, at: u64) -> (u64, u64, Option<u64>) {
        if at < HEADER {
            return (at, HEADER - at, None);
        }
        let size = self.page_size();
        let (frame, inside) = ((at - HEADER) / (FRAME + size), (at - HEADER) % (FRAME + size));
        let stretch = PAGE_BYTES + frame / STRETCH * self.stretch_bytes();
        let number = frame % STRETCH;
        if inside < FRAME {
            (stretch + number * FRAME + inside, FRAME - inside, None)
        } else {
            let image = stretch + PAGE_BYTES + number * size;
            (image + inside - FRAME, FRAME + size - inside, Some(frame))
        }
    }

    fn image(&self, frame: u64) -> u64 {
        self.place(HEADER + frame * (FRAME + self.page_size()) + FRAME).0
    }

    /// Frames that fit an object of `bytes`.
    fn frames_in(&self, bytes: u64) -> u64 {
        let bytes = bytes.saturating_sub(PAGE_BYTES);
        let rest = (bytes % self.stretch_bytes()).saturating_sub(PAGE_BYTES) / self.page_size();
        bytes / self.stretch_bytes() * STRETCH + rest.min(STRETCH)
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl Core {
    fn wal(&mut self, id: Id) -> Done<&mut Wal> {
        let none = DeviceError::Unsupported("the log is not open");
        self.objects.get_mut(&id).and_then(|o| o.wal.as_mut()).ok_or(none.into())
    }

    /// The database whose write-ahead log has this name.
    pub(super) fn log_of(&self, name: &str) -> Option<Id> {
        name.strip_suffix("-wal").and_then(|database| self.id_of(database))
    }

    /// Opens an object as a log, once for all its files.
    pub(super) fn wal_open(&mut self, id: Id) -> Done<()> {
        if self.objects.get(&id).is_some_and(|o| o.wal.is_some()) {
            return Ok(());
        }
        let mut wal = Wal::default();
        let bytes = self.size_of(None, id);
        if bytes >= PAGE_BYTES {
            self.read(None, id, &mut wal.header, 0)?;
            if wal.header[..3] == [0x37, 0x7f, 0x06] {
                wal.size = HEADER + wal.frames_in(bytes) * (FRAME + wal.page_size());
            } else {
                wal.header = [0; HEADER as usize];
            }
        }
        if let Some(object) = self.objects.get_mut(&id) {
            object.wal = Some(wal);
        }
        Ok(())
    }

    /// Bytes of an open log, as SQLite sees it.
    pub(super) fn wal_size(&mut self, id: Id) -> Done<u64> {
        self.wal(id).map(|wal| wal.size)
    }

    fn wal_page(&mut self, id: Id, page: u64, out: &mut [u8]) -> Done<()> {
        if let Some(kept) = self.wal(id)?.dirty.get(&page) {
            out.copy_from_slice(kept);
            return Ok(());
        }
        self.read_page(None, id, page, out)
    }

    /// Bytes of the object, through what is in memory.
    fn wal_bytes(&mut self, id: Id, at: u64, out: &mut [u8]) -> Done<()> {
        let (mut page, mut done) = (vec![0u8; PAGE], 0);
        while done < out.len() {
            let from = at + done as u64;
            let inside = (from % PAGE_BYTES) as usize;
            let take = (PAGE - inside).min(out.len() - done);
            self.wal_page(id, from / PAGE_BYTES, &mut page)?;
            out[done..done + take].copy_from_slice(&page[inside..inside + take]);
            done += take;
        }
        Ok(())
    }

    fn wal_patch(&mut self, id: Id, at: u64, data: &[u8]) -> Done<()> {
        let (mut page, mut done) = (vec![0u8; PAGE], 0);
        while done < data.len() {
            let to = at + done as u64;
            let (number, inside) = (to / PAGE_BYTES, (to % PAGE_BYTES) as usize);
            let take = (PAGE - inside).min(data.len() - done);
            if take < PAGE {
                self.wal_page(id, number, &mut page)?;
            }
            page[inside..inside + take].copy_from_slice(&data[done..done + take]);
            self.wal(id)?.dirty.insert(number, page.as_slice().into());
            done += take;
        }
        Ok(())
    }

    /// Reads; answers how many bytes there were. `database`: where moved images are.
    pub(super) fn wal_read(
        &mut self,
        id: Id,
        database: Option<Id>,
        out: &mut [u8],
        at: u64,
    ) -> Done<usize> {
        let wal = self.wal(id)?;
        let there = wal.size.saturating_sub(at).min(out.len() as u64) as usize;
        let size = wal.page_size();
        wal.read = None;
        let mut done = 0;
        while done < there {
            let wal = self.wal(id)?;
            let (place, length, frame) = wal.place(at + done as u64);
            let take = (length as usize).min(there - done);
            let moved = frame.and_then(|frame| wal.moved.get(&frame).copied());
            if take as u64 == size {
                wal.read = frame;
            }
            let header = wal.header;
            let part = &mut out[done..done + take];
            match (moved, database) {
                (Some(page), Some(database)) => {
                    let inside = size - length;
                    self.read(None, database, part, page * size + inside)?;
                }
                _ if place < HEADER => {
                    part.copy_from_slice(&header[place as usize..place as usize + take]);
                }
                _ => self.wal_bytes(id, place, part)?,
            }
            done += take;
        }
        Ok(there)
    }

    pub(super) fn wal_write(
        &mut self,
        id: Id,
        database: Option<Id>,
        data: &[u8],
        at: u64,
    ) -> Done<()> {
        self.usable()?;
        if at < HEADER {
            // A new header begins the log anew: no frame of the old one is read again.
            self.wal(id)?.moved.clear();
        } else {
            self.wal_bring_back(id, database)?;
            self.wal_reserve(id, database, data, at)?;
        }
        let mut done = 0;
        while done < data.len() {
            let wal = self.wal(id)?;
            let (place, length, _) = wal.place(at + done as u64);
            let take = (length as usize).min(data.len() - done);
            let part = &data[done..done + take];
            if place < HEADER {
                wal.header[place as usize..place as usize + take].copy_from_slice(part);
            }
            self.wal_patch(id, place, part)?;
            done += take;
        }
        let wal = self.wal(id)?;
        wal.size = wal.size.max(at + data.len() as u64);
        if wal.dirty.len() > MOST_DIRTY { self.wal_write_out(id) } else { Ok(()) }
    }

    /// What a frame grows the database to must be there when a checkpoint wants it: the log would
    /// else take what the store has no room for, and never end. `data` at `at` may be the header of a frame.
    fn wal_reserve(&mut self, id: Id, database: Option<Id>, data: &[u8], at: u64) -> Done<()> {
        let size = self.wal(id)?.page_size();
        let Some(database) = database.filter(|_| (at - HEADER).is_multiple_of(FRAME + size)) else {
            return Ok(());
        };
        if data.len() < 4 {
            return Ok(());
        }
        let end = u64::from(word(data, 0)) * size;
        self.may_grow(None, database, end)?;
        let have = self.shared_meta(database).extents.len();
        let fresh = self.take_extents(database, Meta::extents_for(end).saturating_sub(have))?;
        if let Some(object) = self.objects.get_mut(&database)
            && !fresh.is_empty()
        {
            object.meta.extents.extend(fresh);
            object.stale = true;
        }
        Ok(())
    }

    pub(super) fn wal_truncate(&mut self, id: Id, size: u64) -> Done<()> {
        self.usable()?;
        let wal = self.wal(id)?;
        wal.size = wal.size.min(size);
        if size == 0 {
            wal.header = [0; HEADER as usize];
            wal.moved.clear();
            wal.dirty.clear();
            self.wal_patch(id, 0, &[0; HEADER as usize])?;
        }
        Ok(())
    }

    pub(super) fn wal_sync(&mut self, id: Id) -> Done<()> {
        self.wal_write_out(id)?;
        self.sync_plain()
    }

    fn wal_write_out(&mut self, id: Id) -> Done<()> {
        while let Some((page, bytes)) = self.wal(id)?.dirty.pop_first() {
            if let Err(error) = self.write_plain(id, &bytes, page * PAGE_BYTES) {
                self.wal(id)?.dirty.insert(page, bytes);
                return Err(error);
            }
        }
        // The record counts whole extents: it need not change with every frame, and what lies
        // behind the last one does not pass SQLite's checksums.
        if let Some(object) = self.objects.get_mut(&id) {
            let whole = object.meta.extents.len() as u64 * EXTENT * PAGE_BYTES;
            if object.meta.size != whole {
                object.meta.size = whole;
                object.stale = true;
            }
        }
        Ok(())
    }

    // Checkpoints.

    /// Whether a page SQLite writes to the database is the frame it has just read: then it waits
    /// for the end of the checkpoint.
    pub(super) fn wal_pair(&mut self, id: Id, data: &[u8], at: u64) -> Done<bool> {
        let wal = self.wal(id)?;
        let Some(frame) = wal.read.take() else { return Ok(false) };
        let size = wal.page_size();
        let fits = size == PAGE_BYTES && data.len() as u64 == size && at.is_multiple_of(size);
        if !fits || wal.moved.contains_key(&frame) {
            return Ok(false);
        }
        let image = wal.image(frame);
        let mut bytes = vec![0u8; PAGE];
        self.wal_bytes(id, image, &mut bytes)?;
        if bytes != data {
            return Ok(false);
        }
        self.wal(id)?.pairs.insert(at / size, frame);
        Ok(true)
    }

    /// The end of a checkpoint: moves what can be moved as a whole, copies otherwise.
    pub(super) fn wal_settle(&mut self, id: Id, database: Id) -> Done<()> {
        let pairs = std::mem::take(&mut self.wal(id)?.pairs);
        if pairs.is_empty() {
            return Ok(());
        }
        // With the log's header, which goes with its pages.
        let fits = pairs.len() < self.device.remap_most();
        if !fits || self.wal_newest(id)? != pairs || self.is_passed(database) {
            for (page, frame) in pairs {
                let image = self.wal(id)?.image(frame);
                let mut bytes = vec![0u8; PAGE];
                self.wal_bytes(id, image, &mut bytes)?;
                self.write_plain(database, &bytes, page * PAGE_BYTES)?;
            }
            return Ok(());
        }
        self.wal_write_out(id)?;
        let end = (pairs.last_key_value().map_or(0, |(page, _)| *page) + 1) * PAGE_BYTES;
        self.grow_plain(database, end)?;
        self.sync_plain()?;
        let mut moves = Vec::new();
        let none = || DeviceError::Unsupported("a page without a place");
        for (page, frame) in &pairs {
            let image = self.wal(id)?.image(*frame) / PAGE_BYTES;
            let to = self.place(None, database, *page).ok_or_else(none)?;
            let from = self.place(None, id, image).ok_or_else(none)?;
            moves.push((Lpn(to), Lpn(from)));
        }
        let header = self.place(None, id, 0).ok_or_else(none)?;
        moves.push((Lpn(self.layout.spare()), Lpn(header)));
        self.now = self.device.remap(self.now, &moves)?;
        self.stats.remapped += pairs.len() as u64;
        self.wal(id)?.moved.extend(pairs.into_iter().map(|(page, frame)| (frame, page)));
        Ok(())
    }

    /// The newest committed frame of each page of the database that the whole log knows.
    fn wal_newest(&mut self, id: Id) -> Done<BTreeMap<u64, u64>> {
        let (mut newest, mut open) = (BTreeMap::new(), BTreeMap::new());
        let (header, size) = (self.wal(id)?.header, self.wal(id)?.page_size());
        let frames = self.wal(id)?.size.saturating_sub(HEADER) / (FRAME + size);
        let mut pages = u64::MAX;
        for frame in 0..frames {
            let (place, ..) = self.wal(id)?.place(HEADER + frame * (FRAME + size));
            let mut bytes = [0u8; FRAME as usize];
            self.wal_bytes(id, place, &mut bytes)?;
            if bytes[8..16] != header[16..24] {
                break;
            }
            open.insert(u64::from(word(&bytes, 0)).saturating_sub(1), frame);
            if word(&bytes, 4) != 0 {
                newest.append(&mut open);
                pages = u64::from(word(&bytes, 4));
            }
        }
        newest.retain(|page, _| *page < pages);
        Ok(newest)
    }

    /// Copies moved images back into the log, which is then whole again at its next sync.
    fn wal_bring_back(&mut self, id: Id, database: Option<Id>) -> Done<()> {
        let Some(database) = database else { return Ok(()) };
        // Until the end, which may be an error, these frames are read from the database: on the
        // device the log has lost them.
        let moved = self.wal(id)?.moved.clone();
        if moved.is_empty() {
            return Ok(());
        }
        for (frame, page) in moved {
            let image = self.wal(id)?.image(frame);
            let mut bytes = vec![0u8; PAGE];
            self.read(None, database, &mut bytes, page * PAGE_BYTES)?;
            self.wal_patch(id, image, &bytes)?;
        }
        // The header last: while it is missing, the log is empty for a recovery, which is right,
        // because the database has everything.
        self.wal_write_out(id)?;
        self.sync_plain()?;
        let header = self.wal(id)?.header;
        self.wal_patch(id, 0, &header)?;
        self.wal(id)?.moved.clear();
        Ok(())
    }

    /// Lets an object grow to `end` bytes outside any transaction.
    fn grow_plain(&mut self, id: Id, end: u64) -> Done<()> {
        while self.objects.get(&id).is_some_and(|o| o.meta.extents.len() < Meta::extents_for(end)) {
            let fresh = self.take_extents(id, 1)?;
            if let Some(object) = self.objects.get_mut(&id) {
                object.meta.extents.extend(fresh);
                object.stale = true;
            }
        }
        if let Some(object) = self.objects.get_mut(&id)
            && object.meta.size < end
        {
            object.meta.size = end;
            object.stale = true;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wal(page_size: u32) -> Wal {
        let mut wal = Wal::default();
        wal.header[8..12].copy_from_slice(&page_size.to_be_bytes());
        wal
    }

    /// Section 4.1 of SQLite's file format: a power of two from 512 to 32768, or 1 for 65536. What is
    /// none of these is a header that SQLite has not written yet.
    #[test]
    fn the_page_size_of_a_header_is_one_that_sqlite_has() {
        for size in [512, 1024, 4096, 32_768] {
            assert_eq!(wal(size).page_size(), u64::from(size));
        }
        assert_eq!(wal(1).page_size(), 65_536);
        for none in [0, 2, 256, 511, 513, 4095, 65_536, u32::MAX] {
            assert_eq!(wal(none).page_size(), PAGE_BYTES, "{none}");
        }
    }

    #[test]
    fn images_lie_apart_from_headers_and_are_counted_back() {
        for size in [512, 4096, 65_536_u32] {
            let wal = wal(if size == 65_536 { 1 } else { size });
            let mut taken: Vec<(u64, u64)> = vec![(0, HEADER)];
            for frame in 0..2 * STRETCH + 3 {
                let at = HEADER + frame * (FRAME + u64::from(size));
                let (header, long, none) = wal.place(at);
                assert_eq!((long, none), (FRAME, None));
                let (image, long, owner) = wal.place(at + FRAME);
                assert_eq!((long, owner), (u64::from(size), Some(frame)));
                assert_eq!(image, wal.image(frame));
                taken.extend([(header, FRAME), (image, u64::from(size))]);
                assert_eq!(wal.frames_in(image + u64::from(size)), frame + 1, "{size}, {frame}");
            }
            taken.sort_unstable();
            assert!(taken.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0), "{size}");
        }
    }
}
