//! Room behind the device, in the same file: where journals and logs lie when the device is full.
//!
//! Invariants:
//! * what is written here is durable before any record names it;
//! * a page lies in nine sectors, each with a checksum that starts from the object, the extent, the page
//!   and the sector: as a power cut leaves a sector old or new, one that fails is damage, never a write
//!   cut short. SQLite would take it for the end of its journal or log, and lose what comes behind;
//! * an extent is sealed as zeroes for its object when it is taken, so zeroes that were never written
//!   are no sector, and nothing older is read there;
//! * a record names an extent only when all of it was sealed and durable.

use std::io::ErrorKind;

use block::{DeviceError, Lba, TxError, crc32c};
use live::{Annex, Damage};

use super::Checkpoint;
use super::core::{Core, Done, Id, PAGE_BYTES};
use super::objects::Owner;
use super::space::{EXTENT, MOST_BEHIND};
use super::table::{Layout, Meta, PAGE};
use crate::vfs::Kind;

/// What is old or new after a power cut, and what of it is a page's.
const SECTOR: usize = 512;
const PAYLOAD: usize = SECTOR - 4;
/// Sectors of a page, the last one filled up with zeroes, and bytes they take.
const SECTORS: usize = PAGE.div_ceil(PAYLOAD);
const SEALED_PAGE: usize = SECTORS * SECTOR;
/// Bytes of an extent: as it is written now, and as it was before it was sealed.
pub(super) const SEALED_EXTENT: u64 = EXTENT * SEALED_PAGE as u64;
pub(super) const BARE_EXTENT: u64 = EXTENT * PAGE_BYTES;
/// Pages of an extent sealed at a time.
const AT_ONCE: u32 = 16;

pub(super) struct Behind {
    annex: Annex,
    /// The page number its first page goes by.
    first: u32,
    dirty: bool,
}

/// Where a page lies.
enum Place {
    /// In the annex of a store made before there were checksums: at this byte.
    Bare(u64),
    Sealed {
        at: u64,
        extent: u32,
        page: u32,
    },
}

/// Why a page was not read.
pub(super) enum Unread {
    Damaged(Damage),
    Failed(std::io::Error),
}

/// The host's disk being full is no failure: nothing is lost that was there.
fn failed(error: std::io::Error) -> DeviceError {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            DeviceError::NoSpace("the host has no room for the image to grow behind its drive")
        }
        _ => DeviceError::Io(format!("behind the drive: {error}")),
    }
}

/// The checksum of sector `sector` of a page.
fn sum(id: Id, extent: u32, page: u32, sector: usize, payload: &[u8]) -> u32 {
    let mut start = 0;
    for part in [id, extent, page, sector as u32] {
        start = crc32c(start, &part.to_le_bytes());
    }
    crc32c(start, payload)
}

/// Appends a page's sectors.
fn seal(id: Id, extent: u32, page: u32, bytes: &[u8], out: &mut Vec<u8>) {
    for (sector, part) in bytes.chunks(PAYLOAD).enumerate() {
        let start = out.len();
        out.extend_from_slice(part);
        out.resize(start + PAYLOAD, 0);
        let sum = sum(id, extent, page, sector, &out[start..]);
        out.extend_from_slice(&sum.to_le_bytes());
    }
}

impl Behind {
    pub(super) fn new(annex: Annex, layout: Layout) -> Behind {
        Behind { annex, first: layout.extent(layout.extents()), dirty: false }
    }

    /// The device has grown: nothing lies here, and what will begins further on.
    pub(super) fn moved(&mut self, layout: Layout) {
        self.first = layout.extent(layout.extents());
    }

    pub(super) fn has(&self, lpn: u32) -> bool {
        lpn >= self.first
    }

    fn place(&self, lpn: u32) -> Place {
        let number = lpn - self.first;
        let (extent, page) = (number / EXTENT as u32, number % EXTENT as u32);
        match extent.checked_sub(MOST_BEHIND) {
            None => Place::Bare(u64::from(number) * PAGE_BYTES),
            Some(extent) => {
                let number = u64::from(extent) * EXTENT + u64::from(page);
                Place::Sealed { at: number * SEALED_PAGE as u64, extent, page }
            }
        }
    }

    /// Reads a page of object `id`. `unchecked` is a planted bug.
    pub(super) fn read(
        &self,
        id: Id,
        lpn: u32,
        out: &mut [u8],
        unchecked: bool,
    ) -> Result<(), Unread> {
        let (at, extent, page) = match self.place(lpn) {
            Place::Bare(at) => return self.fetch(at, out),
            Place::Sealed { at, extent, page } => (at, extent, page),
        };
        let mut bytes = [0; SEALED_PAGE];
        self.fetch(at, &mut bytes)?;
        for (sector, (part, out)) in bytes.chunks(SECTOR).zip(out.chunks_mut(PAYLOAD)).enumerate() {
            let (payload, found) = part.split_at(PAYLOAD);
            if found != sum(id, extent, page, sector, payload).to_le_bytes() && !unchecked {
                let what = format!(
                    "sector {sector} of page {page} of extent {extent} behind the drive fails its \
                     CRC32C: expected what object {id} has written there"
                );
                let at = self.annex.start() + at + (sector * SECTOR) as u64;
                return Err(Unread::Damaged(Damage { at, what }));
            }
            out.copy_from_slice(&payload[..out.len()]);
        }
        Ok(())
    }

    fn fetch(&self, at: u64, out: &mut [u8]) -> Result<(), Unread> {
        self.annex.read(at, out).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => {
                let what = format!("the file ends: expected {} bytes behind the drive", out.len());
                Unread::Damaged(Damage { at: self.annex.start() + at, what })
            }
            _ => Unread::Failed(error),
        })
    }

    pub(super) fn write(&mut self, id: Id, lpn: u32, bytes: &[u8]) -> Done<()> {
        self.dirty = true;
        let written = match self.place(lpn) {
            Place::Bare(at) => self.annex.write(at, bytes),
            Place::Sealed { at, extent, page } => {
                let mut sealed = Vec::with_capacity(SEALED_PAGE);
                seal(id, extent, page, bytes, &mut sealed);
                self.annex.write(at, &sealed)
            }
        };
        Ok(written.map_err(failed)?)
    }

    pub(super) fn sync(&mut self) -> Done<()> {
        if std::mem::take(&mut self.dirty) {
            self.annex.sync().map_err(failed)?;
        }
        Ok(())
    }

    /// Seals the extent that begins at `lpn` as zeroes of object `id`.
    fn clear(&mut self, id: Id, lpn: u32) -> Done<()> {
        for first in (0..EXTENT as u32).step_by(AT_ONCE as usize) {
            let Place::Sealed { at, extent, page } = self.place(lpn + first) else {
                return Err(DeviceError::Unsupported("an extent that cannot be sealed").into());
            };
            let mut sealed = Vec::with_capacity(AT_ONCE as usize * SEALED_PAGE);
            for page in page..page + AT_ONCE {
                seal(id, extent, page, &[0; PAGE], &mut sealed);
            }
            self.annex.write(at, &sealed).map_err(failed)?;
        }
        // The file reaches to its end from here on.
        Ok(self.annex.sync().map_err(failed)?)
    }
}

impl Core {
    /// A write or a sync behind the device failed: as after one of its own nobody knows what is there,
    /// unless there was no room for it.
    pub(super) fn failed_behind(&mut self, error: &TxError) {
        if !matches!(error, TxError::Device(DeviceError::NoSpace(_))) {
            self.break_off(error);
        }
    }

    /// The error of a page behind the device: damage is what it is on the device.
    pub(super) fn not_read(&mut self, lpn: u32, wrong: Unread) -> TxError {
        match wrong {
            Unread::Damaged(damage) => {
                let why = format!("damaged: {damage}");
                self.damage = Some(damage);
                self.explain(DeviceError::Unreadable(Lba(u64::from(lpn) * 8)), &why)
            }
            Unread::Failed(error) => failed(error).into(),
        }
    }

    /// Takes `count` extents for an object; all or none.
    pub(super) fn take_extents(&mut self, id: Id, count: usize) -> Done<Vec<u32>> {
        let mut fresh = Vec::new();
        for _ in 0..count {
            match self.take_extent(id) {
                Ok(extent) => fresh.push(extent),
                Err(error) => {
                    self.space.give_back(fresh);
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
        if !aside || self.behind.is_none() {
            self.blank()?;
            return self.space.extent();
        }
        self.make_extent()?;
        if !self.space.is_tight() {
            self.blank()?;
        }
        let extent = self.space.side_extent()?;
        if self.space.is_behind(extent)
            && let Some(behind) = &mut self.behind
            && let Err(error) = behind.clear(id, self.layout.extent(extent))
        {
            self.failed_behind(&error);
            self.space.give_back([extent]);
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
        self.make_room_for(owner, id, wanted)?;
        let own = self.extents_of(owner, id) as u64 * EXTENT;
        let free = self.space.free() * EXTENT + own;
        let (kept, pages) = (self.space.kept(), self.space.pages());
        if free >= wanted + kept || self.frees(owner, id)? {
            return Ok(());
        }
        let host = self.no_growth.map_or(String::new(), |what| format!(" ({what})"));
        let why = format!(
            "the store is full: of its {pages} pages the last {kept} are kept for statements that \
             free some; DELETE, DROP and VACUUM make room, and `varve sqlite resize`{host}"
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

#[cfg(test)]
mod tests {
    use block::Bytes;
    use live::ImageDrive;

    use super::super::{StoreError, StoreOptions};
    use super::*;

    /// An image that is removed.
    struct Image(std::path::PathBuf);

    impl Image {
        fn new(name: &str) -> (Image, Core) {
            let name = format!("varve-behind-{name}-{}", std::process::id());
            let image = Image(std::env::temp_dir().join(name));
            let _ = std::fs::remove_file(&image.0);
            let drive = ImageDrive::create(&image.0, Bytes(4 << 20)).unwrap();
            let annex = Some(drive.annex());
            let core = Core::format(Box::new(drive), annex, StoreOptions::default()).unwrap();
            (image, core)
        }

        fn mounted(&self) -> Result<Core, StoreError> {
            let drive = ImageDrive::open(&self.0).unwrap();
            let annex = Some(drive.annex());
            Ok(Core::mount(Box::new(drive), annex, StoreOptions::default())?.expect("a store"))
        }
    }

    impl Drop for Image {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    /// Gives all of the device away, so that the next journal lies behind it.
    fn fill(core: &mut Core) -> Id {
        let id = core.make("main");
        let pages = core.space.pages() - core.space.kept();
        core.write_plain(id, &[5; PAGE], (pages - 1) * PAGE_BYTES).unwrap();
        id
    }

    #[test]
    fn a_store_made_before_there_were_checksums_is_read_and_written() {
        let (image, mut core) = Image::new("bare");
        let bare = core.layout.extents();
        let annex = core.behind.as_ref().unwrap().annex.clone();
        annex.write(0, &vec![3; EXTENT as usize * PAGE]).unwrap();
        annex.sync().unwrap();
        let id = core.make("main-journal");
        let object = core.objects.get_mut(&id).unwrap();
        (object.meta.extents, object.meta.size, object.stale) = (vec![bare], 9_000, true);
        core.sync_plain().unwrap();
        drop(core);
        let mut core = image.mounted().unwrap();
        assert_eq!(core.journals["main-journal"].data.in_memory(), vec![3; 9_000]);
        fill(&mut core);
        core.journal_write("main-journal", &[4; 10], 5_000).unwrap();
        // What is taken now is sealed, and lies behind it.
        core.copy_out("other-journal").unwrap();
        core.journal_write("other-journal", &[6; 700], 100).unwrap();
        core.sync_plain().unwrap();
        drop(core);
        let mut core = image.mounted().unwrap();
        assert_eq!(
            core.journals["main-journal"].data.in_memory()[4_999..5_011],
            [3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 3]
        );
        assert_eq!(core.journals["other-journal"].data.in_memory()[100..], [6; 700]);
        core.journal_delete("main-journal", "main-journal").unwrap();
        core.journal_delete("other-journal", "other-journal").unwrap();
        drop(core);
        assert!(image.mounted().unwrap().journals.is_empty());
    }

    #[test]
    fn damage_names_its_place_and_no_number_is_used_twice() {
        let (image, mut core) = Image::new("sealed");
        fill(&mut core);
        core.copy_out("main-journal").unwrap();
        core.journal_write("main-journal", &[6; 700], 100).unwrap();
        core.sync_plain().unwrap();
        let (id, start) =
            (core.id_of("main-journal").unwrap(), core.behind.as_ref().unwrap().annex.start());
        drop(core);
        let bytes = std::fs::read(&image.0).unwrap();
        let mut hit = bytes.clone();
        hit[start as usize + SECTOR + 9] ^= 1;
        std::fs::write(&image.0, &hit).unwrap();
        match image.mounted() {
            Err(StoreError::Damaged(damage)) => {
                assert_eq!(damage.at, start + SECTOR as u64, "{damage}");
                assert!(
                    damage.what.contains("CRC32C") && damage.what.contains("expected"),
                    "{damage}"
                );
            }
            other => panic!("{:?}", other.err()),
        }
        std::fs::write(&image.0, &bytes).unwrap();
        let mut core = image.mounted().unwrap();
        core.journal_delete("main-journal", "main-journal").unwrap();
        drop(core);
        assert!(image.mounted().unwrap().make("main-journal") > id);
    }
}
