//! A drive that grows.
//!
//! While the blocks of the larger drive are the same, and its share of spare ones, it gets more of them, behind the last.
//! Where a drive of that size has larger ones, or is to have a log of commits that is more than half as long again, a whole
//! image for it is made behind this one in the same file, and gets all that this one holds; what the old one took is given
//! back. Either way the sector that says so is written last (`pointer`).
//!
//! Invariants:
//! * until then nothing that the old drive relies on is written, and whatever fails leaves it as it was: it goes on;
//! * what the pointer names is durable before it is written, and the old place is given back when it is durable;
//! * transactions that are open are gone, and what lies in the annex: who has any does not let it grow.

use std::io::ErrorKind;
use std::sync::Arc;

use block::{
    BlockDevice, Bytes, Data, DeviceError, Growth, Lba, Request, Sectors, Time, UNIT_BYTES,
};

use crate::drive::ImageDrive;
use crate::error::LiveError;
use crate::image::{differ_in_size, format, made_for, recognise, text_of, write_headers};
use crate::layout::Version;
use crate::planted::Planted;
use crate::pointer::{BEFORE, Pointer};
use crate::power::{Powered, start_at};
use crate::region::Region;

/// A drive that holds so much is not copied for a longer log: its blocks are as large as they get, too.
const LEFT_ALONE: Bytes = Bytes(256 << 20);
/// Sectors of a page.
const PAGE: Sectors = Sectors(UNIT_BYTES / 512);

impl ImageDrive {
    /// Bytes that it may hold one day.
    pub fn limit(&self) -> Bytes {
        let limit = self.pointer.map_or(0, |pointer| pointer.limit);
        Bytes(limit.max(self.capacity().bytes().0))
    }

    /// Bytes of the file, from its beginning to the end of the drive.
    pub fn end(&self) -> Bytes {
        Bytes(self.file.base() + self.file.end())
    }

    /// Lets it hold `capacity` bytes, whatever its limit was; `log`: bytes of the log of commits, if it gets a new one.
    ///
    /// # Errors
    /// [`LiveError`]; it is as it was, unless the file fails just when it is told of the new size: then nothing is
    /// written any more, and the next power-on finds the one or the other.
    pub fn grow(&mut self, capacity: Bytes, log: Bytes) -> Result<(), LiveError> {
        let path = self.path.clone();
        let device = |error| LiveError::Device { path: path.clone(), error };
        self.usable().map_err(device)?;
        if self.is_beside() || self.file.layout().version == Version::One {
            let what = "growing an image of version 1, or one that is only read: expected one of version 2 or 3; \
                        export its database and import that";
            return Err(device(DeviceError::Unsupported(what)));
        }
        if capacity <= self.capacity().bytes() {
            let what = "an image does not become smaller: expected more than it holds";
            return Err(device(DeviceError::Unsupported(what)));
        }
        let (wanted, _) = made_for(capacity)?;
        self.submit(self.drive().now(), Request::flush()).map_err(device)?;
        self.file.let_go().map_err(|text| device(DeviceError::Io(text)))?;
        let before = self.below.size();
        let same = differ_in_size(&text_of(&wanted), &self.file.config());
        let short = is_short(self.file.log().0, log.0, self.capacity().bytes());
        let mut done = match self.pointer {
            Some(pointer) if same && !short => self.add_blocks(pointer, capacity),
            _ => self.move_behind(capacity, log),
        };
        self.give_back(&done, &before);
        if let (Err(LiveError::Io { error, .. }), Some(pointer)) = (&done, self.pointer)
            && is_full(error.kind())
            && same
            && short
            && self.stands()
        {
            // There may be room for blocks, if not for a longer log.
            done = self.add_blocks(pointer, capacity);
            self.give_back(&done, &before);
        }
        done
    }

    /// After a growth that failed: what was made behind the end is nothing to anybody, and the room is wanted. If it cannot
    /// be given back it is the next growth's. Where the pointer was being written it may name what lies there.
    fn give_back(&self, done: &Result<(), LiveError>, before: &std::io::Result<u64>) {
        let stands = self.stands() || self.file.has(Planted::NamedGivenBack);
        if let (Err(_), Ok(length)) = (done, before)
            && stands
        {
            let _ = self.below.cut(*length);
        }
    }

    /// Whether it goes on as it was: no pointer was written that may name another image.
    fn stands(&self) -> bool {
        self.usable().is_ok() && !self.file.has_failed()
    }

    /// More blocks of the same size.
    fn add_blocks(&mut self, pointer: Pointer, capacity: Bytes) -> Result<(), LiveError> {
        let path = self.path.clone();
        let io = |error| LiveError::Io { path: path.clone(), error };
        let (old, base) = (self.file.layout(), self.file.base());
        let region = Region::of(Arc::clone(&self.below), base);
        let (_, found) = recognise(&path, &*region, capacity.0)?;
        let layout = found.layout;
        let added = layout.bytes() - old.bytes();
        region.reserve(old.bytes(), added).map_err(io)?;
        let early = self.file.has(Planted::PointerEarly);
        if !early {
            write_headers(&*region, layout, old.blocks).map_err(io)?;
            region.sync().map_err(io)?;
        }
        let pointer = Pointer {
            number: pointer.number + 1,
            base,
            capacity: capacity.0,
            limit: pointer.limit.max(capacity.0),
        };
        self.point(&pointer)?;
        if early {
            write_headers(&*region, layout, old.blocks).map_err(io)?;
        }
        self.turn_to(pointer)
    }

    /// A larger image behind this one.
    fn move_behind(&mut self, capacity: Bytes, log: Bytes) -> Result<(), LiveError> {
        let path = self.path.clone();
        let io = |error| LiveError::Io { path: path.clone(), error };
        let base = self.end().0;
        let region = Region::of(Arc::clone(&self.below), base);
        let (config, params) = made_for(capacity)?;
        let log = if self.file.log().0 == 0 { 0 } else { log.0.max(self.file.log().0) };
        format(&*region, &params, &config, log).map_err(io)?;
        let below = Arc::clone(&self.below);
        let planted = self.file.planted();
        let mut made = start_at(&path, below, (base, 0), None, planted)?;
        let early = self.file.has(Planted::PointerEarly);
        if !early {
            self.copy_to(&mut made)?;
        }
        let number = self.pointer.map_or(0, |pointer| pointer.number) + 1;
        let limit = self.limit().0.max(capacity.0);
        let pointer = Pointer { number, base, capacity: 0, limit };
        if self.file.has(Planted::OldGivenEarly) {
            self.below.discard(BEFORE, base - BEFORE).map_err(io)?;
        }
        self.point(&pointer)?;
        if early {
            self.copy_to(&mut made)?;
        }
        drop(made);
        self.turn_to(pointer)?;
        if base > BEFORE && self.below.discard_is_fast() {
            // Room that is not given back now is given back by whoever copies the file.
            let _ = self.below.discard(BEFORE, base - BEFORE);
        }
        Ok(())
    }

    /// All pages that are no zeroes; durable on return, and the new image is let go.
    fn copy_to(&mut self, made: &mut Powered) -> Result<(), LiveError> {
        let path = self.path.clone();
        let wrong = |error| LiveError::Device { path: path.clone(), error };
        let mut page = vec![0; UNIT_BYTES as usize];
        for first in (0..self.capacity().0).step_by(PAGE.0 as usize) {
            let read = Request::read(Lba(first), PAGE).with(Data::Read(&mut page));
            self.submit(Time::ZERO, read).map_err(wrong)?;
            if page.iter().any(|byte| *byte != 0) {
                let write = Request::write(Lba(first), PAGE).with(Data::Write(&page));
                made.drive.submit(made.drive.now(), write).map_err(wrong)?;
            }
        }
        made.drive.submit(made.drive.now(), Request::flush()).map_err(wrong)?;
        made.file.let_go().map_err(|text| wrong(DeviceError::Io(text)))
    }

    /// Says where the image is from here on.
    fn point(&self, pointer: &Pointer) -> Result<(), LiveError> {
        pointer.write(&*self.below).map_err(|error| {
            // Nobody knows which one counts.
            self.file.give_up(&format!("the image was growing: {error}"));
            LiveError::Io { path: self.path.clone(), error }
        })
    }

    /// Goes on with what the pointer names.
    fn turn_to(&mut self, pointer: Pointer) -> Result<(), LiveError> {
        let (below, place) = (Arc::clone(&self.below), (pointer.base, pointer.capacity));
        let started = start_at(&self.path, below, place, None, self.file.planted());
        let powered = started.inspect_err(|error| {
            self.file.give_up(&format!("the image has grown, and must be opened anew: {error}"));
        })?;
        // What the old drive was told is in the new one: it writes no more.
        self.file.give_up("the image has grown");
        self.go_on(powered, pointer);
        Ok(())
    }

    /// Writes a copy of the pointer that does not say what the other one does.
    pub(crate) fn mend_pointer(&self, copy: usize) -> Result<(), LiveError> {
        let Some(pointer) = self.pointer else { return Ok(()) };
        let io = |error| LiveError::Io { path: self.path.clone(), error };
        // What it names may not be durable after a kill: the other copy is.
        self.below.sync().map_err(io)?;
        self.below.write(Pointer::at(copy), &pointer.encode()).map_err(io)?;
        self.below.sync().map_err(io)
    }
}

impl Growth for ImageDrive {
    fn most(&self) -> Bytes {
        self.limit()
    }
    fn grow(&mut self, at: Time, capacity: Bytes, log: Bytes) -> Result<Time, DeviceError> {
        let done = ImageDrive::grow(self, capacity, log);
        let stands = self.stands();
        done.map(|()| at).map_err(|error| match error {
            LiveError::Io { error, .. } if is_full(error.kind()) && stands => {
                DeviceError::NoSpace("the file system has no room for the image to grow")
            }
            LiveError::Device { error, .. } => error,
            error => DeviceError::Io(error.to_string()),
        })
    }
}

/// Whether a log of `there` bytes is worth a copy of what the drive holds, `capacity` at most, for one of `asked`.
fn is_short(there: u64, asked: u64, capacity: Bytes) -> bool {
    there > 0 && there * 3 < asked * 2 && capacity < LEFT_ALONE
}

fn is_full(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_drive_is_copied_for_a_log_half_as_long_again() {
        let (mib, small) = (1 << 20, Bytes(8 << 20));
        assert!(is_short(mib, 2 * mib, small));
        assert!(!is_short(2 * mib, 3 * mib, small));
        // One without a log gets none, and a large one is not copied.
        assert!(!is_short(0, 16 * mib, small));
        assert!(is_short(mib, 16 * mib, Bytes(LEFT_ALONE.0 - 1)));
        assert!(!is_short(mib, 16 * mib, LEFT_ALONE));
    }
}
