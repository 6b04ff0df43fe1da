//! Power-on of an image: what the array holds, read from the file.
//!
//! The records of all pages are read. Payloads are read where a power cut may have left a record
//! without one (see `file`), and where the drive itself needs them; the others when asked for.

use block::{BlockId, Ppn, crc32c};
use nand::{FoundBlock, FoundSlot, Geometry, Image, Kind, OOB_BYTES, Oob, PageState, Payload};

use crate::file::Check;
use crate::layout::{BlockState, HAS_CRC, LOST, Layout, PAGE, Record, SECTOR, decode_oob};
use crate::medium::Medium;
use crate::planted::Planted;

/// What an image file holds.
pub(crate) struct Loaded {
    pub image: Image,
    pub blocks: Vec<BlockState>,
    pub checks: Vec<Check>,
}

/// Reads the image.
pub(crate) fn load(
    geometry: &Geometry,
    layout: Layout,
    medium: &dyn Medium,
    planted: Option<Planted>,
) -> std::io::Result<Loaded> {
    let mut image = Image::blank(geometry, true);
    let mut blocks = Vec::with_capacity(layout.blocks as usize);
    let mut checks = vec![Check::default(); (layout.blocks * layout.pages) as usize];
    let mut records = vec![0; layout.pages as usize * OOB_BYTES];
    for block in (0..layout.blocks).map(BlockId) {
        let mut sector = [0; SECTOR];
        medium.read(layout.header(block), &mut sector)?;
        // A damaged header takes its block along: no record below it can be believed.
        let state = BlockState::decode(&sector);
        let found = match state {
            Some(BlockState { header: None, erases, bad, .. }) => {
                FoundBlock { erases, bad, ..FoundBlock::default() }
            }
            Some(state) => {
                medium.read(layout.oob(block, 0), &mut records)?;
                let same = planted == Some(Planted::SameSalt);
                let salt = if same { 0 } else { state.salt(block) };
                let trusting = planted == Some(Planted::PayloadNotChecked);
                let settled = state.settled;
                let slots =
                    Slots { layout, medium, block, salt, records: &records, settled, trusting };
                let first = (block.0 * layout.pages) as usize;
                let slots = slots.read(&mut checks[first..first + layout.pages as usize])?;
                FoundBlock { header: state.header, erases: state.erases, bad: state.bad, slots }
            }
            None => {
                let torn = FoundSlot { state: PageState::Torn, ..FoundSlot::default() };
                FoundBlock { slots: vec![torn; layout.pages as usize], ..FoundBlock::default() }
            }
        };
        blocks.push(state.unwrap_or_default());
        image.load(geometry, block, found);
    }
    Ok(Loaded { image, blocks, checks })
}

/// The slots of one block.
struct Slots<'a> {
    layout: Layout,
    medium: &'a dyn Medium,
    block: BlockId,
    salt: u32,
    records: &'a [u8],
    /// Pages that are known to have been durable.
    settled: u32,
    /// The planted bug: payloads are not looked at.
    trusting: bool,
}

impl Slots<'_> {
    fn read(&self, checks: &mut [Check]) -> std::io::Result<Vec<FoundSlot>> {
        let found: Vec<Record> =
            self.records.chunks_exact(OOB_BYTES).map(|r| decode_oob(r, self.salt)).collect();
        let last = found.len() - 1;
        let full = found.iter().all(|record| matches!(record, Record::Good(_)));
        let mut slots = Vec::with_capacity(found.len());
        for (page, record) in found.into_iter().enumerate() {
            slots.push(match record {
                Record::Blank => FoundSlot::default(),
                Record::Other => FoundSlot { state: PageState::Torn, ..FoundSlot::default() },
                Record::Good(oob) => {
                    let doubtful = !full && page as u32 >= self.settled || page == last;
                    let doubtful = doubtful && !self.trusting;
                    self.slot(page as u32, oob, doubtful, &mut checks[page])?
                }
            });
        }
        Ok(slots)
    }

    fn slot(
        &self,
        page: u32,
        oob: Oob,
        doubtful: bool,
        check: &mut Check,
    ) -> std::io::Result<FoundSlot> {
        if oob.flags & HAS_CRC == 0 {
            return Ok(FoundSlot { state: PageState::Good, oob, payload: Payload::None });
        }
        *check = Check { crc: oob.data_crc, sound: oob.flags & LOST == 0 };
        let record = !matches!(oob.kind, Kind::Data | Kind::Padding);
        let at = Ppn(self.block.0 * self.layout.pages + page);
        if !doubtful && !record {
            return Ok(FoundSlot { state: PageState::Good, oob, payload: Payload::Stored(at) });
        }
        let mut bytes = vec![0; PAGE as usize];
        self.medium.read(self.layout.page(self.block, page), &mut bytes)?;
        if crc32c(0, &bytes) != oob.data_crc {
            // Its program was cut short.
            return Ok(FoundSlot { state: PageState::Torn, ..FoundSlot::default() });
        }
        let payload = if record { Payload::Bytes(bytes.into()) } else { Payload::Stored(at) };
        Ok(FoundSlot { state: PageState::Good, oob, payload })
    }
}
