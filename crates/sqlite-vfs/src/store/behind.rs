//! Room behind the device, in the same file: where journals and logs lie when the device is full.
//!
//! Invariant: what is written here is durable before any record names it, and an extent is all zeroes
//! when it is taken, so nothing older is ever read there.

use block::DeviceError;
use live::Annex;

use super::Checkpoint;
use super::core::{Core, Done, Id, Owner, PAGE_BYTES};
use super::space::EXTENT;
use super::table::{Meta, PAGE};
use crate::vfs::Kind;

/// Zeroes written at a time.
const ZEROES: usize = 1 << 16;

pub(super) struct Behind {
    annex: Annex,
    /// The page number its first page goes by.
    first: u32,
    dirty: bool,
}

fn failed(error: std::io::Error) -> DeviceError {
    DeviceError::Io(format!("behind the drive: {error}"))
}

impl Behind {
    pub(super) fn new(annex: Annex, first: u32) -> Behind {
        Behind { annex, first, dirty: false }
    }

    pub(super) fn has(&self, lpn: u32) -> bool {
        lpn >= self.first
    }

    fn place(&self, lpn: u32) -> u64 {
        u64::from(lpn - self.first) * PAGE_BYTES
    }

    pub(super) fn read(&self, lpn: u32, out: &mut [u8]) -> Done<()> {
        Ok(self.annex.read(self.place(lpn), out).map_err(failed)?)
    }

    pub(super) fn write(&mut self, lpn: u32, bytes: &[u8]) -> Done<()> {
        self.dirty = true;
        Ok(self.annex.write(self.place(lpn), bytes).map_err(failed)?)
    }

    pub(super) fn sync(&mut self) -> Done<()> {
        if std::mem::take(&mut self.dirty) {
            self.annex.sync().map_err(failed)?;
        }
        Ok(())
    }

    fn clear(&mut self, lpn: u32) -> Done<()> {
        let (from, bytes) = (self.place(lpn), EXTENT as usize * PAGE);
        for at in (0..bytes).step_by(ZEROES) {
            self.annex.write(from + at as u64, &[0; ZEROES]).map_err(failed)?;
        }
        // The file reaches to its end from here on.
        Ok(self.annex.sync().map_err(failed)?)
    }
}

impl Core {
    /// Takes `count` extents for an object; all or none.
    pub(super) fn take_extents(&mut self, id: Id, count: usize) -> Done<Vec<u32>> {
        let mut fresh = Vec::new();
        for _ in 0..count {
            match self.take_extent(id) {
                Ok(extent) => fresh.push(extent),
                Err(error) => {
                    self.space.give(fresh);
                    return Err(error);
                }
            }
        }
        Ok(fresh)
    }

    fn take_extent(&mut self, id: Id) -> Done<u32> {
        let kind = self.objects.get(&id).map(|object| Kind::of_name(&object.name));
        let aside = match kind {
            Some(Kind::Journal | Kind::Super) => true,
            // A remapping moves pages of the log into the database: both on the device.
            Some(Kind::Wal) => self.options.checkpoint == Checkpoint::Copy,
            _ => false,
        };
        let Some(behind) = self.behind.as_mut().filter(|_| aside) else {
            return self.space.extent();
        };
        let extent = self.space.side_extent()?;
        if self.space.is_behind(extent)
            && let Err(error) = behind.clear(self.layout.extent(extent))
        {
            self.space.give([extent]);
            return Err(error);
        }
        Ok(extent)
    }

    /// Whether a database may grow to `end` bytes. What is kept is for statements that free pages:
    /// SQLite writes its first page, which counts the free ones, before it grows at a commit.
    pub(super) fn may_grow(&mut self, owner: Option<Owner>, id: Id, end: u64) -> Done<()> {
        let wanted = end.div_ceil(PAGE_BYTES);
        if wanted <= self.size_of(owner, id).div_ceil(PAGE_BYTES) {
            return Ok(());
        }
        let own = self.extents_of(owner, id) as u64 * EXTENT;
        let free = self.space.extents.len() as u64 * EXTENT + own;
        let (kept, pages) = (self.space.kept(), self.space.pages());
        if free >= wanted + kept || self.frees(owner, id)? {
            return Ok(());
        }
        let why = format!(
            "the store is full: of its {pages} pages the last {kept} are kept for statements that \
             free some; DELETE, DROP and VACUUM make room, and a larger image has more"
        );
        Err(self.explain(DeviceError::NoSpace("the store is full"), &why))
    }

    fn extents_of(&self, owner: Option<Owner>, id: Id) -> usize {
        self.meta(owner, id).map_or(0, |meta: &Meta| meta.extents.len())
    }

    /// Whether the transaction has written a first page that tells of fewer pages in use than before.
    fn frees(&mut self, owner: Option<Owner>, id: Id) -> Done<bool> {
        let first = (id, 0);
        let tx = owner.and_then(|owner| self.open.get(&owner));
        if !tx.is_some_and(|tx| tx.kept.contains_key(&first) || tx.pages.contains(&first)) {
            return Ok(false);
        }
        let (mut new, mut old) = ([0; PAGE], [0; PAGE]);
        self.read_page(owner, id, 0, &mut new)?;
        self.read_page(None, id, 0, &mut old)?;
        let used = |page: &[u8; PAGE]| {
            let word = |at: usize| {
                u32::from_be_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]])
            };
            word(28).saturating_sub(word(36))
        };
        Ok(used(&new) < used(&old))
    }
}
