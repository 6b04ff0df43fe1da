//! Where everything lies on the device below: `[super x2 | root A | root B | segments ..]`.
//!
//! Invariants: places are counted in 4 KiB blocks; block 0 is never data, so 0 means "unmapped";
//! segments are aligned to their own size; the reserve is enough for cleaning and one checkpoint.

use crate::error::LogError;
use crate::options::LogOptions;

/// Bytes of a block.
pub const BLOCK: usize = 4096;
/// Words (and blocks of data) of one map page.
pub const PAGE_WORDS: u32 = 1024;
/// Blocks of the super block and its copy.
pub const SUPERS: u32 = 2;
/// Bytes of a root's body for each page, and for each segment.
pub const ROOT_ENTRY: u64 = 8;
/// Blocks of a segment: 64 KiB to 64 MiB.
const SEGMENTS: std::ops::RangeInclusive<u64> = 16..=1 << 14;
/// Largest logical size in blocks: entries have 31 bits for it (8 TiB).
const MOST_LOGICAL: u64 = 1 << 31;
/// Largest number of blocks below: two values of 32 bits have other meanings (16 TiB).
const MOST_PHYSICAL: u64 = u32::MAX as u64 - 1;

/// A place on the device below, in 4 KiB blocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Pba(pub u32);

/// The number of a segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Seg(pub u32);

/// The shape of a log; fixed when it is made and kept in the super block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Blocks of a segment, a power of two.
    pub segment: u32,
    /// Number of segments.
    pub segments: u32,
    /// Blocks the client sees.
    pub logical: u32,
    /// Whether CRCs are kept in a second plane of pages beside the map.
    pub crc_plane: bool,
    /// Blocks of one root: a header, the body, a header.
    pub root: u32,
    /// First block of the first segment.
    pub first: u32,
}

impl Geometry {
    /// The shape of a log on `physical` blocks.
    ///
    /// # Errors
    /// Too small, too large, or the capacity asked for leaves too little to clean with.
    pub fn new(physical: u64, options: &LogOptions) -> Result<Geometry, LogError> {
        let shape = |why: String| LogError::Shape(why);
        if physical > MOST_PHYSICAL {
            return Err(shape(format!("{physical} blocks; 16 TiB at most")));
        }
        let segment = (options.segment.0 / BLOCK as u64) as u32;
        let mut g = Geometry {
            segment,
            segments: (physical / u64::from(segment)) as u32,
            logical: 0,
            crc_plane: options.verify,
            root: 0,
            first: 0,
        };
        let wanted = match options.capacity.0 / BLOCK as u64 {
            0 => u64::MAX,
            blocks => blocks,
        };
        let most = physical * u64::from(100 - options.reserve) / 100;
        g.logical = most.min(wanted).min(MOST_LOGICAL) as u32;
        g.place(physical);
        // What the pages of a smaller logical space need is less, so this ends.
        while g.logical > g.most_logical() {
            g.logical = g.most_logical();
            g.place(physical);
        }
        if g.logical == 0 {
            let why = format!("{physical} blocks in segments of {segment} leave no room for data");
            return Err(shape(why));
        }
        if wanted != u64::MAX && wanted > u64::from(g.logical) {
            let why = format!("{wanted} blocks wanted, {} fit beside the reserve", g.logical);
            return Err(shape(why));
        }
        Ok(g)
    }

    /// Whether a super block can say this: the parts do not overlap, and the root holds its tables.
    ///
    /// # Errors
    /// What does not fit.
    pub(crate) fn sound(&self) -> Result<(), LogError> {
        let segment = u64::from(self.segment);
        if !self.segment.is_power_of_two() || !SEGMENTS.contains(&segment) {
            return Err(LogError::Corrupt(format!("segments of {segment} blocks")));
        }
        let (segments, logical, root) =
            (u64::from(self.segments), u64::from(self.logical), u64::from(self.root));
        let data = segments * segment;
        let pages = logical.div_ceil(u64::from(PAGE_WORDS)) * if self.crc_plane { 2 } else { 1 };
        let body = ((pages + segments) * ROOT_ENTRY).div_ceil(BLOCK as u64);
        let first = u64::from(self.first);
        let apart =
            root >= 2 + body && first >= u64::from(SUPERS) + 2 * root && first % segment == 0;
        if logical == 0 || logical > data || !apart || self.physical() > MOST_PHYSICAL {
            return Err(LogError::Corrupt(format!("the super block's shape: {self:?}")));
        }
        Ok(())
    }

    fn place(&mut self, physical: u64) {
        let body = (u64::from(self.pages()) + physical / u64::from(self.segment)) * ROOT_ENTRY;
        self.root = 2 + body.div_ceil(BLOCK as u64) as u32;
        let before = (SUPERS + 2 * self.root).next_multiple_of(self.segment);
        self.first = before;
        self.segments =
            (physical.saturating_sub(u64::from(before)) / u64::from(self.segment)) as u32;
    }

    /// Blocks that can be live beside what heads, cleaning and checkpoints need.
    fn most_logical(&self) -> u32 {
        let meta = 2 * self.checkpoint_segments() + 1;
        // Current and next of three heads; two that are dead, so that cleaning always gains.
        let used = 6 + self.gc_reserve() + meta + 2;
        // What the emptiest victim gains has to be more than its copies cost in headers: one for
        // each 336, one where they cross into the next segment, one where a flush ended a record.
        let data = self.segment - 4 - self.segment / 337;
        self.segments.saturating_sub(used).saturating_mul(data)
    }

    /// Map pages, those of the CRC plane included.
    pub fn pages(&self) -> u32 {
        self.map_pages() * if self.crc_plane { 2 } else { 1 }
    }

    /// Pages of the map alone: CRC pages are numbered from here on.
    pub fn map_pages(&self) -> u32 {
        self.logical.div_ceil(PAGE_WORDS)
    }

    /// Segments that one checkpoint of every page takes.
    pub fn checkpoint_segments(&self) -> u32 {
        let data = self.segment - 1 - self.segment / 337;
        self.pages().div_ceil(data)
    }

    /// Free segments below which user writes wait.
    pub fn gc_reserve(&self) -> u32 {
        3 + self.checkpoint_segments()
    }

    /// Segments that live data does not need.
    pub fn spare(&self) -> u32 {
        self.segments - self.logical.div_ceil(self.segment)
    }

    /// First block of a segment.
    pub fn base(&self, seg: Seg) -> Pba {
        Pba(self.first + seg.0 * self.segment)
    }

    /// The segment of a place, if it lies in one.
    #[inline]
    pub fn seg(&self, pba: Pba) -> Option<Seg> {
        let at = pba.0.checked_sub(self.first)? >> self.segment.trailing_zeros();
        (at < self.segments).then_some(Seg(at))
    }

    /// First block of root 0 or 1.
    pub fn root_at(&self, which: u32) -> Pba {
        Pba(SUPERS + which * self.root)
    }

    /// Blocks of a root's body.
    pub fn root_body(&self) -> u32 {
        self.root - 2
    }

    /// Blocks of the device that the log uses.
    pub fn physical(&self) -> u64 {
        u64::from(self.first) + u64::from(self.segments) * u64::from(self.segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound(change: impl Fn(&mut Geometry)) -> bool {
        let options = LogOptions { segment: block::Bytes(64 << 10), ..LogOptions::default() };
        let mut g = Geometry::new(2_000, &options).unwrap();
        change(&mut g);
        g.sound().is_ok()
    }

    #[test]
    fn a_shape_whose_parts_overlap_is_refused() {
        assert!(sound(|_| {}));
        // The body of the root has to hold its tables, and both headers beside it.
        assert!(!sound(|g| g.root -= 1) && !sound(|g| g.root = 0));
        // The supers and both roots lie before the first segment, which is aligned.
        assert!(sound(|g| g.first += g.segment) && !sound(|g| g.first -= g.segment));
        assert!(!sound(|g| g.first += 1) && !sound(|g| g.first = 0));
        let before = |g: &mut Geometry| g.root = (g.first - SUPERS) / 2;
        assert!(sound(before) && !sound(|g| (before(g), g.root += 1).1));
        // What is named fits into the segments.
        assert!(!sound(|g| g.logical = 0));
        assert!(sound(|g| g.segments = g.logical / g.segment + 1));
        assert!(!sound(|g| g.segments = g.logical / g.segment - 1));
        assert!(
            !sound(|g| g.segment = 24) && !sound(|g| g.segment = 8) && !sound(|g| g.segment = 0)
        );
    }
}
