//! Where things are in the array.

use block::{BlockId, Bytes, Divider, Ppn};

/// The shape of the array. A *slot* is the part of a page that one map entry names: the mapping
/// unit, or the page where the unit is larger than that.
///
/// Numbering: `plane = (channel * dies_per_channel + die) * planes_per_die + p` and
/// `block = row * planes + plane`. In which order a line stripes over planes is the FTL's choice.
#[derive(Clone, Debug)]
pub struct Geometry {
    /// Channels.
    pub channels: u32,
    /// Dies on each channel.
    pub dies_per_channel: u32,
    /// Planes in each die.
    pub planes_per_die: u32,
    /// Erase blocks in each plane.
    pub blocks_per_plane: u32,
    /// Pages in each block.
    pub pages_per_block: u32,
    /// Data bytes of a page.
    pub page_bytes: u32,
    /// Spare-area (OOB) bytes of a page.
    pub oob_bytes: u32,
    /// Data bytes of a slot.
    pub slot_bytes: u32,
    /// Slots in a page.
    pub slots_per_page: u32,
    by_planes: Divider,
    by_planes_of_die: Divider,
    by_dies_of_channel: Divider,
    by_block_slots: Divider,
    by_page_slots: Divider,
}

impl Geometry {
    /// A geometry; sizes are those of the fields' names.
    ///
    /// # Errors
    /// A sentence naming what is impossible.
    #[expect(clippy::too_many_arguments, reason = "the eight numbers that make a geometry")]
    pub fn new(
        channels: u32,
        dies_per_channel: u32,
        planes_per_die: u32,
        blocks_per_plane: u32,
        pages_per_block: u32,
        page_bytes: u32,
        oob_bytes: u32,
        slot_bytes: u32,
    ) -> Result<Geometry, String> {
        let counts =
            [channels, dies_per_channel, planes_per_die, blocks_per_plane, pages_per_block];
        if counts.contains(&0) {
            return Err("a geometry has at least one of everything".to_string());
        }
        if slot_bytes == 0 || !page_bytes.is_multiple_of(slot_bytes) {
            return Err(format!("a page of {page_bytes} B holds no whole slots of {slot_bytes} B"));
        }
        let slots_per_page = page_bytes / slot_bytes;
        let total = counts.iter().map(|n| u128::from(*n)).product::<u128>();
        if total * u128::from(slots_per_page) >= u128::from(u32::MAX) {
            return Err(format!(
                "{} slots are more than 2^32 - 2, the limit of a 32-bit map",
                total * u128::from(slots_per_page)
            ));
        }
        Ok(Geometry {
            channels,
            dies_per_channel,
            planes_per_die,
            blocks_per_plane,
            pages_per_block,
            page_bytes,
            oob_bytes,
            slot_bytes,
            slots_per_page,
            by_planes: Divider::new(channels * dies_per_channel * planes_per_die),
            by_planes_of_die: Divider::new(planes_per_die),
            by_dies_of_channel: Divider::new(dies_per_channel),
            by_block_slots: Divider::new(pages_per_block * slots_per_page),
            by_page_slots: Divider::new(slots_per_page),
        })
    }

    /// Dies of the whole array.
    pub fn dies(&self) -> u32 {
        self.channels * self.dies_per_channel
    }
    /// Planes of the whole array.
    pub fn planes(&self) -> u32 {
        self.dies() * self.planes_per_die
    }
    /// Blocks of the whole array.
    pub fn blocks(&self) -> u32 {
        self.planes() * self.blocks_per_plane
    }
    /// Pages of the whole array.
    pub fn pages(&self) -> u64 {
        u64::from(self.blocks()) * u64::from(self.pages_per_block)
    }
    /// Slots of a block.
    pub fn slots_per_block(&self) -> u32 {
        self.pages_per_block * self.slots_per_page
    }
    /// Slots of the whole array.
    pub fn slots(&self) -> u32 {
        self.blocks() * self.slots_per_block()
    }
    /// Data bytes of the whole array.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.pages() * u64::from(self.page_bytes))
    }

    /// The plane (0..planes) of a block. Blocks of one row follow each other plane by plane.
    #[inline(always)]
    pub fn plane_of(&self, block: BlockId) -> u32 {
        self.by_planes.div_rem(block.0).1
    }
    /// The row of a block: its number within its plane.
    #[inline(always)]
    pub fn row_of(&self, block: BlockId) -> u32 {
        self.by_planes.div(block.0)
    }
    /// The block of a plane in a row.
    #[inline(always)]
    pub fn block_at(&self, plane: u32, row: u32) -> BlockId {
        BlockId(row * self.by_planes.by() + plane)
    }
    /// The die (0..dies) of a plane: planes of a die are neighbours.
    #[inline(always)]
    pub fn die_of_plane(&self, plane: u32) -> u32 {
        self.by_planes_of_die.div(plane)
    }
    /// The die of a block, and which of the die's planes it lies in.
    #[inline(always)]
    pub fn die_and_plane(&self, block: BlockId) -> (u32, u32) {
        self.by_planes_of_die.div_rem(self.plane_of(block))
    }
    /// The channel of a die: dies of a channel are neighbours.
    #[inline(always)]
    pub fn channel_of_die(&self, die: u32) -> u32 {
        self.by_dies_of_channel.div(die)
    }

    /// The first slot of a page.
    #[inline(always)]
    pub fn ppn(&self, block: BlockId, page: u32) -> Ppn {
        Ppn((block.0 * self.pages_per_block + page) * self.slots_per_page)
    }
    /// The block of a slot.
    #[inline(always)]
    pub fn block_of(&self, ppn: Ppn) -> BlockId {
        BlockId(self.by_block_slots.div(ppn.0))
    }
    /// `(block, page in block, slot in page)` of a slot.
    #[inline(always)]
    pub fn place(&self, ppn: Ppn) -> (BlockId, u32, u32) {
        let (block, rest) = self.by_block_slots.div_rem(ppn.0);
        let (page, slot) = self.by_page_slots.div_rem(rest);
        (BlockId(block), page, slot)
    }
}
