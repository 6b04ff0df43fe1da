//! The object table: names, exact sizes and extents, on pages of its own.
//!
//! Invariant: the record of an object is written in the transaction that changes its size or its
//! extents; a page whose checksum does not fit holds no record.

use block::crc32c;

use super::space::EXTENT;

pub(super) const PAGE: usize = block::UNIT_BYTES as usize;
const HEADER_MAGIC: &[u8; 8] = b"varveSQ1";
const RECORD_MAGIC: &[u8; 4] = b"vobj";
/// The longest name of an object.
pub(super) const LONGEST_NAME: usize = 255;
/// Extents of one record page; larger objects have several.
const PER_PART: usize = 900;
/// In the header page: the log lies on the device, beside its pages.
const BESIDE: u32 = u32::MAX;
/// Pages of the table of a store that begins small: as many objects, less one for each 900 MiB of one.
pub(super) const GROWING_SLOTS: u32 = 62;
const EXTENTS_AT: usize = 32 + LONGEST_NAME + 1;

/// Size and place of an object.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Meta {
    pub(super) size: u64,
    pub(super) extents: Vec<u32>,
    /// Table pages of its record, one for each part.
    pub(super) slots: Vec<u32>,
}

impl Meta {
    pub(super) fn parts(&self) -> usize {
        self.extents.len().div_ceil(PER_PART).max(1)
    }

    /// Extents that `size` bytes need.
    pub(super) fn extents_for(size: u64) -> usize {
        usize::try_from(size.div_ceil(EXTENT * PAGE as u64)).unwrap_or(usize::MAX)
    }

    /// Without extents that its size does not need.
    pub(super) fn fitted(&self) -> Meta {
        let mut meta = self.clone();
        meta.extents.truncate(Meta::extents_for(meta.size));
        meta
    }

    /// Puts the extents of one part in the place of those that were there.
    pub(super) fn put_part(&mut self, part: usize, extents: &[u32]) {
        let first = part.saturating_mul(PER_PART).min(self.extents.len());
        let end = (first + PER_PART).min(self.extents.len());
        self.extents.splice(first..end, extents.iter().copied());
    }

    fn part(&self, part: usize) -> &[u32] {
        let first = (part * PER_PART).min(self.extents.len());
        &self.extents[first..(first + PER_PART).min(self.extents.len())]
    }

    /// Whether part `part` of the record must be written to get from `old` to this.
    pub(super) fn changed(&self, old: &Meta, part: usize) -> bool {
        let same = self.slots.get(part) == old.slots.get(part) && self.part(part) == old.part(part);
        !same || (part == 0 && (self.size != old.size || self.parts() != old.parts()))
    }

    /// The page of one part.
    pub(super) fn encode(&self, id: u32, name: &str, part: usize) -> Vec<u8> {
        let mut page = vec![0u8; PAGE];
        page[..4].copy_from_slice(RECORD_MAGIC);
        page[8..12].copy_from_slice(&id.to_le_bytes());
        page[12..14].copy_from_slice(&(part as u16).to_le_bytes());
        page[14..16].copy_from_slice(&(self.parts() as u16).to_le_bytes());
        page[16..24].copy_from_slice(&self.size.to_le_bytes());
        let extents = self.part(part);
        page[24..28].copy_from_slice(&(extents.len() as u32).to_le_bytes());
        page[28] = name.len() as u8;
        page[32..32 + name.len()].copy_from_slice(name.as_bytes());
        for (place, extent) in page[EXTENTS_AT..].chunks_exact_mut(4).zip(extents) {
            place.copy_from_slice(&extent.to_le_bytes());
        }
        seal(&mut page);
        page
    }
}

/// One part as it was read.
pub(super) struct Part {
    pub(super) id: u32,
    pub(super) part: usize,
    pub(super) parts: usize,
    pub(super) size: u64,
    pub(super) name: String,
    pub(super) extents: Vec<u32>,
}

/// The checksum stands in bytes 4 to 7 and covers all others.
fn seal(page: &mut [u8]) {
    let sum = crc32c(0, &page[8..]);
    page[4..8].copy_from_slice(&sum.to_le_bytes());
}

fn u32_at(page: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]])
}

pub(super) fn decode(page: &[u8]) -> Option<Part> {
    if &page[..4] != RECORD_MAGIC || u32_at(page, 4) != crc32c(0, &page[8..]) {
        return None;
    }
    let mut size = [0u8; 8];
    size.copy_from_slice(&page[16..24]);
    let count = (u32_at(page, 24) as usize).min(PER_PART);
    let name = &page[32..32 + usize::from(page[28])];
    Some(Part {
        id: u32_at(page, 8),
        part: usize::from(u16::from_le_bytes([page[12], page[13]])),
        parts: usize::from(u16::from_le_bytes([page[14], page[15]])),
        size: u64::from_le_bytes(size),
        name: String::from_utf8_lossy(name).into_owned(),
        extents: (0..count).map(|i| u32_at(page, EXTENTS_AT + 4 * i)).collect(),
    })
}

/// Where the log of commits lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LogPlace {
    /// There is none.
    None,
    /// In the device's own ([`block::Transactional::commit_log`]).
    Device,
    /// On so many of its pages.
    Pages(u32),
}

/// Where the parts of a store lie: page 0 is the header, then the table, a spare page, the log of
/// commits if it lies on pages, extents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    pub(super) pages: u32,
    pub(super) slots: u32,
    pub(super) log: LogPlace,
}

/// What the header page says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) layout: Layout,
    /// The least number of a new object (0 in a header written before there was one).
    pub(super) next: u32,
    /// Random number of the store, and the epoch whose commits may be in its log.
    pub(super) store: u64,
    pub(super) epoch: u64,
    /// Nothing was or will be appended to that epoch.
    pub(super) sealed: bool,
}

impl Layout {
    pub(super) fn of(pages: u32, log: LogPlace) -> Layout {
        Layout { pages, slots: (pages / 64).clamp(16, 8192), log }
    }

    /// One of a device that begins small: the table does not grow with it.
    pub(super) fn that_grows(pages: u32, log: LogPlace) -> Layout {
        Layout { pages, slots: GROWING_SLOTS, log }
    }

    /// The first page of a log that lies on pages, and how many it has.
    pub(super) fn log_page(&self) -> u32 {
        2 + self.slots
    }

    fn log_pages(&self) -> u32 {
        if let LogPlace::Pages(pages) = self.log { pages } else { 0 }
    }

    pub(super) fn slot(&self, slot: u32) -> u32 {
        1 + slot
    }

    /// A page that nobody reads: where remapping puts what is to vanish.
    pub(super) fn spare(&self) -> u32 {
        1 + self.slots
    }

    pub(super) fn extent(&self, extent: u32) -> u32 {
        self.log_page() + self.log_pages() + extent * EXTENT as u32
    }

    pub(super) fn extents(&self) -> u32 {
        self.pages.saturating_sub(self.log_page() + self.log_pages()) / EXTENT as u32
    }

    /// The header page. No object gets a number below `next` that is not in the table.
    pub(super) fn encode(&self, next: u32, store: u64, epoch: u64, sealed: bool) -> Vec<u8> {
        let mut page = vec![0u8; PAGE];
        page[8..16].copy_from_slice(HEADER_MAGIC);
        page[16..20].copy_from_slice(&self.pages.to_le_bytes());
        page[20..24].copy_from_slice(&self.slots.to_le_bytes());
        page[24..28].copy_from_slice(&next.to_le_bytes());
        let log = match self.log {
            LogPlace::None => 0,
            LogPlace::Device => BESIDE,
            LogPlace::Pages(pages) => pages,
        };
        page[28..32].copy_from_slice(&log.to_le_bytes());
        page[32..40].copy_from_slice(&store.to_le_bytes());
        page[40..48].copy_from_slice(&epoch.to_le_bytes());
        page[48] = u8::from(sealed);
        seal(&mut page);
        page
    }

    /// The header, if the page is one.
    pub(super) fn decode(page: &[u8]) -> Option<Header> {
        let fits = &page[8..16] == HEADER_MAGIC && u32_at(page, 4) == crc32c(0, &page[8..]);
        let log = match u32_at(page, 28) {
            0 => LogPlace::None,
            BESIDE => LogPlace::Device,
            pages => LogPlace::Pages(pages),
        };
        let layout = Layout { pages: u32_at(page, 16), slots: u32_at(page, 20), log };
        let long = |at| u64::from(u32_at(page, at)) | u64::from(u32_at(page, at + 4)) << 32;
        let parts = [layout.slots, layout.log_pages(), 2].map(u64::from);
        let (next, sealed) = (u32_at(page, 24), page[48] == 1);
        let header = Header { layout, next, store: long(32), epoch: long(40), sealed };
        (fits && parts.iter().sum::<u64>() <= u64::from(layout.pages)).then_some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A part of a record is written again if its extents changed, or its page, and the first one with the size, too.
    #[test]
    fn a_part_is_written_if_anything_of_it_changed() {
        let many = |last: u32| (0..PER_PART as u32).chain([last]).collect::<Vec<_>>();
        let old = Meta { size: 1, extents: many(5000), slots: vec![3, 4] };
        assert!(!old.changed(&old, 0) && !old.changed(&old, 1));
        let extents = Meta { extents: many(5001), ..old.clone() };
        assert!(!extents.changed(&old, 0) && extents.changed(&old, 1));
        let slots = Meta { slots: vec![3, 9], ..old.clone() };
        assert!(!slots.changed(&old, 0) && slots.changed(&old, 1));
        let size = Meta { size: 2, ..old.clone() };
        assert!(size.changed(&old, 0) && !size.changed(&old, 1));
    }
}
