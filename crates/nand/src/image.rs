//! What the cells hold. Copy-on-write by block, so that a snapshot costs one pointer a block.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{BlockId, Ppn};

use crate::{BlockHeader, Geometry, Oob};

/// The data of a slot, kept only if the caller sent any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Payload {
    /// None was sent.
    #[default]
    None,
    /// One stamp for a 4 KiB slot.
    Stamp(u64),
    /// One stamp for each 4 KiB piece of a larger slot.
    Stamps(Arc<[u64]>),
    /// The bytes of the slot (records of the drive may be shorter).
    Bytes(Arc<[u8]>),
    /// Bytes that only the backing holds, at this place.
    Stored(Ppn),
}

/// The state of one slot's cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum PageState {
    /// Erased and not programmed since.
    #[default]
    Blank,
    /// Programmed whole.
    Good,
    /// A program or erase was cut short: reads fail their checks.
    Torn,
}

/// What is known of every block, with or without contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockMeta {
    pub erases: u32,
    pub next_page: u32,
    /// Marked bad: never programmed or erased again.
    pub bad: bool,
    /// An erase of it was cut short: it must be erased before it is programmed.
    pub disturbed: bool,
}

/// The contents of one block.
#[derive(Clone, Debug, Default)]
pub struct BlockImage {
    pub(crate) header: Option<BlockHeader>,
    pub(crate) states: Box<[PageState]>,
    pub(crate) oobs: Box<[Oob]>,
    pub(crate) payloads: Option<Box<[Payload]>>,
}

#[derive(Clone, Debug)]
pub(crate) enum Contents {
    /// Only the logical number of each slot, plus one; 0 = blank.
    Lean(Vec<u32>),
    /// Records, states and payloads.
    Full(Vec<Arc<BlockImage>>),
}

/// Everything that survives a power cut.
#[derive(Clone, Debug)]
pub struct Image {
    pub(crate) meta: Vec<BlockMeta>,
    pub(crate) contents: Contents,
    pub(crate) blank: Arc<BlockImage>,
    /// Bad reads laid over the true contents: slot -> what a read finds.
    pub(crate) overlay: BTreeMap<Ppn, Overlay>,
}

/// Damage that a read finds; the truth below stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overlay {
    /// The code cannot correct it, or its check fails.
    Unreadable,
    /// The record is fine, the payload fails its check.
    DataRot,
    /// The cells hold what another slot's program put there.
    Holds(Ppn),
}

/// A block as a backing holds it.
#[derive(Clone, Debug, Default)]
pub struct FoundBlock {
    /// The header beside its first page.
    pub header: Option<BlockHeader>,
    /// Times it was erased.
    pub erases: u32,
    /// Whether it is marked bad.
    pub bad: bool,
    /// All its slots; none if it is erased.
    pub slots: Vec<FoundSlot>,
}

/// A slot as a backing holds it.
#[derive(Clone, Debug, Default)]
pub struct FoundSlot {
    /// Its cells.
    pub state: PageState,
    /// The record beside it.
    pub oob: Oob,
    /// Its data: [`Payload::Stored`], but for records of the drive, which power-on reads.
    pub payload: Payload,
}

impl Image {
    /// An array of erased blocks; `full` keeps whole records and payloads.
    pub fn blank(geometry: &Geometry, full: bool) -> Image {
        let slots = geometry.slots_per_block() as usize;
        let blank = Arc::new(BlockImage::default());
        let contents = if full {
            Contents::Full(vec![Arc::clone(&blank); geometry.blocks() as usize])
        } else {
            Contents::Lean(vec![0; geometry.slots() as usize])
        };
        debug_assert!(slots > 0);
        Image {
            meta: vec![BlockMeta::default(); geometry.blocks() as usize],
            contents,
            blank,
            overlay: BTreeMap::new(),
        }
    }

    /// Puts what a backing holds into a block of a blank image.
    ///
    /// # Panics
    /// If only logical numbers are kept, or `found` does not fill the block.
    pub fn load(&mut self, geometry: &Geometry, block: BlockId, found: FoundBlock) {
        let Contents::Full(blocks) = &mut self.contents else {
            panic!("only logical numbers are kept");
        };
        let meta = &mut self.meta[block.index()];
        (meta.erases, meta.bad) = (found.erases, found.bad);
        let Some(last) = found.slots.iter().rposition(|slot| slot.state != PageState::Blank) else {
            return;
        };
        assert_eq!(found.slots.len(), geometry.slots_per_block() as usize, "a whole block");
        meta.next_page = last as u32 / geometry.slots_per_page + 1;
        blocks[block.index()] = Arc::new(BlockImage {
            header: found.header,
            states: found.slots.iter().map(|slot| slot.state).collect(),
            oobs: found.slots.iter().map(|slot| slot.oob).collect(),
            payloads: Some(found.slots.into_iter().map(|slot| slot.payload).collect()),
        });
    }

    /// Whether whole records are kept.
    pub fn is_full(&self) -> bool {
        matches!(self.contents, Contents::Full(_))
    }

    /// Times a block was erased.
    pub fn erases(&self, block: BlockId) -> u32 {
        self.meta[block.index()].erases
    }
    /// Pages of a block programmed since its erase.
    pub fn next_page(&self, block: BlockId) -> u32 {
        self.meta[block.index()].next_page
    }
    /// Whether a block is marked bad.
    pub fn is_bad(&self, block: BlockId) -> bool {
        self.meta[block.index()].bad
    }
}

impl BlockImage {
    /// An erased block with room for `slots`.
    pub(crate) fn erased(slots: usize) -> BlockImage {
        BlockImage {
            header: None,
            states: vec![PageState::Blank; slots].into(),
            oobs: vec![Oob::default(); slots].into(),
            payloads: None,
        }
    }
}
