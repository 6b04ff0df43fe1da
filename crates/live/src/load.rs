//! Power-on of an image: what the array holds, read from the file, and what is damaged.
//!
//! The records of all pages are read. Payloads are read where a power cut may have left a record
//! without one (see `file`), and where the drive itself needs them; the others when asked for.
//!
//! Invariants:
//! * a page that something says was durable is there, or it is damage: nothing older takes its
//!   place. What says so: its block's header, a later record of its block, the record before which
//!   all was made durable (the last of a block), a record or header of another block;
//! * any other page that is not whole was never acknowledged;
//! * an image that was let go holds exactly the records that its superblock counts.
//!
//! Nothing is written.

use std::collections::BTreeMap;

use block::{BlockId, Plant, Ppn, crc32c};
use nand::{FoundBlock, FoundSlot, Geometry, Image, Kind, Oob, PageState, Payload};

use crate::damage::Damage;
use crate::file::Check;
use crate::header::BlockState;
use crate::layout::{Layout, PAGE, SECTOR};
use crate::planted::Planted;
use crate::record::{Claim, HAS_CRC, LOST, Record, decode};
use crate::superblock::{Held, Superblock};
use block::Medium;

/// What an image file holds.
pub(crate) struct Loaded {
    pub image: Image,
    pub blocks: Vec<BlockState>,
    pub checks: Vec<Check>,
    /// The records of each block.
    pub held: Vec<Held>,
    /// Blocks whose headers do not say all that was found, or not twice.
    pub stale: Vec<BlockId>,
    /// What is lost: nobody can say what it named.
    pub damage: Vec<Damage>,
    /// What is damaged and there a second time.
    pub survived: Vec<Damage>,
}

/// Reads the image.
pub(crate) fn load(
    geometry: &Geometry,
    superblock: &Superblock,
    layout: Layout,
    medium: &dyn Medium,
    planted: Plant<Planted>,
) -> std::io::Result<Loaded> {
    let loaded = Loaded {
        image: Image::blank(geometry, true),
        blocks: Vec::with_capacity(layout.blocks as usize),
        checks: vec![Check::default(); (layout.blocks * layout.pages) as usize],
        held: vec![Held::default(); layout.blocks as usize],
        stale: Vec::new(),
        damage: Vec::new(),
        survived: Vec::new(),
    };
    let mut scan = Scan { geometry, layout, medium, planted, loaded, claims: BTreeMap::new() };
    // Blocks of which others may know more than they do themselves.
    let mut doubtful = Vec::new();
    for block in (0..layout.blocks).map(BlockId) {
        let state = scan.header(block)?;
        scan.loaded.blocks.push(state);
        if state.header.is_some() {
            let records = scan.records(block, &state)?;
            let known = scan.known(&state, &records);
            if known == layout.pages {
                scan.take(block, &records, known)?;
            } else {
                doubtful.push((block, records, known));
            }
        } else {
            let found = FoundBlock { erases: state.erases, bad: state.bad, ..Default::default() };
            scan.loaded.image.load(geometry, block, found);
        }
    }
    scan.look_for_openings();
    for (block, records, known) in doubtful {
        let known = known.max(scan.claimed(block));
        scan.take(block, &records, known)?;
    }
    scan.compare(superblock.held);
    if planted.has(Planted::DamageIsTorn) {
        scan.loaded.damage.clear();
    }
    Ok(scan.loaded)
}

struct Scan<'a> {
    geometry: &'a Geometry,
    layout: Layout,
    medium: &'a dyn Medium,
    planted: Plant<Planted>,
    loaded: Loaded,
    /// The most that records and headers say of other blocks: the opening, and pages of it.
    claims: BTreeMap<u32, (u32, u32)>,
}

impl Scan<'_> {
    fn damaged(&mut self, at: u64, what: String) {
        self.loaded.damage.push(Damage { at, what });
    }

    /// The header of a block that counts.
    fn header(&mut self, block: BlockId) -> std::io::Result<BlockState> {
        let mut whole: Vec<BlockState> = Vec::with_capacity(2);
        let mut bad = None;
        for copy in 0..self.layout.copies() {
            let (mut sector, at) = ([0; SECTOR], self.layout.header(block, copy));
            self.medium.read(at, &mut sector)?;
            match BlockState::decode(&sector, self.layout.version, block) {
                Some(state) => {
                    whole.push(state);
                    if self.layout.is_guarded() {
                        self.note(BlockState::claims(&sector));
                    }
                }
                None => bad = Some(at),
            }
        }
        let number = block.0;
        match (whole.as_slice(), bad) {
            ([one], None) => Ok(*one),
            ([one], Some(at)) => {
                let what =
                    format!("a header of block {number} fails its CRC32C; its other header serves");
                self.loaded.survived.push(Damage { at, what });
                self.loaded.stale.push(block);
                Ok(*one)
            }
            ([first, second], _) if first == second => Ok(*first),
            ([first, second], _) if first.follows(second) || second.follows(first) => {
                // The power went between the two.
                self.loaded.stale.push(block);
                Ok(if first.follows(second) { *first } else { *second })
            }
            ([..], _) => {
                let found = match whole.len() {
                    0 => "fails its CRC32C",
                    _ => "and its copy say different things of one state",
                };
                let at = self.layout.header(block, 0);
                let what = format!(
                    "the header of block {number} {found}; expected to learn what its {} pages hold",
                    self.layout.pages
                );
                self.damaged(at, what);
                Ok(BlockState::default())
            }
        }
    }

    /// The records of a block; what they say of others is noted.
    fn records(&mut self, block: BlockId, state: &BlockState) -> std::io::Result<Vec<Record>> {
        let same = self.planted.has(Planted::SameSalt);
        let salt = if same { 0 } else { state.salt(block) };
        let size = self.layout.record_bytes();
        let mut found = vec![Record::Blank; self.layout.pages as usize];
        let mut bytes = vec![0; found.len() * size];
        for area in 0..self.layout.areas() {
            self.medium.read(self.layout.record(block, area, 0), &mut bytes)?;
            for (page, (record, bytes)) in
                found.iter_mut().zip(bytes.chunks_exact(size)).enumerate()
            {
                // A page's record lies in one area; in the other is what was there before.
                let here = decode(self.layout, bytes, salt, page as u32);
                if !matches!(record, Record::Good { .. }) && here != Record::Blank {
                    *record = here;
                }
            }
        }
        self.note(found.iter().filter_map(|record| match record {
            Record::Good { claims, .. } => claims.other,
            _ => None,
        }));
        Ok(found)
    }

    fn note(&mut self, claims: impl Iterator<Item = Claim>) {
        for Claim { block, erases, pages } in claims {
            let most = self.claims.entry(block.0).or_default();
            *most = (*most).max((erases, pages));
        }
    }

    /// Pages of a block that were durable, by what the block itself says.
    fn known(&self, state: &BlockState, records: &[Record]) -> u32 {
        let mut known = state.settled.min(self.layout.pages);
        if self.planted.has(Planted::ChainNotChecked) {
            return known;
        }
        for record in records {
            if let Record::Good { claims, .. } = record {
                known = known.max(claims.own.min(self.layout.pages));
            }
        }
        if matches!(records.last(), Some(Record::Good { .. })) {
            known = known.max(self.layout.pages - 1);
        }
        known
    }

    /// The same by what other blocks say.
    fn claimed(&self, block: BlockId) -> u32 {
        let state = &self.loaded.blocks[block.index()];
        match self.claims.get(&block.0) {
            Some((erases, pages)) if *erases == state.erases && !self.ignores_claims() => {
                (*pages).min(self.layout.pages)
            }
            _ => 0,
        }
    }

    fn ignores_claims(&self) -> bool {
        self.planted.has(Planted::ChainNotChecked)
    }

    /// An opening of a block that somebody knew is there, or was erased since.
    fn look_for_openings(&mut self) {
        if self.ignores_claims() {
            return;
        }
        for (number, (erases, pages)) in std::mem::take(&mut self.claims) {
            let block = BlockId(number);
            let Some(state) = self.loaded.blocks.get(block.index()) else { continue };
            let lost = state.erases < erases
                || state.erases == erases && state.header.is_none() && !state.bad;
            let at = self.layout.header(block, 0);
            // (A header that cannot be read has been named already.)
            if lost && !self.loaded.damage.iter().any(|damage| damage.at == at) {
                let what = format!(
                    "the header of block {number} is of erase {}; expected {pages} pages written \
                     after erase {erases}, or a later one",
                    state.erases
                );
                self.damaged(at, what);
            }
            self.claims.insert(number, (erases, pages));
        }
    }

    /// Puts a block's pages into the array; the first `known` were durable.
    fn take(&mut self, block: BlockId, records: &[Record], known: u32) -> std::io::Result<()> {
        let mut state = self.loaded.blocks[block.index()];
        let mut slots = Vec::with_capacity(records.len());
        let mut held = Held::default();
        for (page, record) in (0..).zip(records) {
            let torn = FoundSlot { state: PageState::Torn, ..FoundSlot::default() };
            let before = page < state.settled && state.torn.contains(page);
            slots.push(match record {
                _ if before => torn,
                Record::Good { oob, crc, .. } => {
                    let slot = self.slot(block, page, oob, page < known)?;
                    if slot.state == PageState::Good {
                        held.add(*crc);
                    }
                    slot
                }
                other if page < known => {
                    let found = match other {
                        Record::Blank => "is blank",
                        _ => "fails its CRC32C",
                    };
                    let what = format!(
                        "the record of block {} page {page} {found}; expected one, for {known} \
                         pages of the block were durable",
                        block.0
                    );
                    self.damaged(self.layout.record(block, 0, page), what);
                    torn
                }
                Record::Blank => FoundSlot::default(),
                Record::Other => torn,
            });
        }
        let reached = slots.iter().rposition(|slot| slot.state == PageState::Good);
        let reached = reached.map_or(0, |last| last as u32 + 1);
        if self.layout.is_guarded() && reached > state.settled {
            for page in state.settled..reached {
                if slots[page as usize].state != PageState::Good {
                    state.torn.insert(page);
                }
            }
            state.settled = reached;
            self.loaded.stale.push(block);
        }
        self.loaded.held[block.index()] = held;
        self.loaded.blocks[block.index()] = state;
        let found =
            FoundBlock { header: state.header, erases: state.erases, bad: state.bad, slots };
        self.loaded.image.load(self.geometry, block, found);
        Ok(())
    }

    fn slot(
        &mut self,
        block: BlockId,
        page: u32,
        oob: &Oob,
        durable: bool,
    ) -> std::io::Result<FoundSlot> {
        let oob = *oob;
        if oob.flags & HAS_CRC == 0 {
            return Ok(FoundSlot { state: PageState::Good, oob, payload: Payload::None });
        }
        let at = Ppn(block.0 * self.layout.pages + page);
        self.loaded.checks[at.index()] = Check { crc: oob.data_crc, sound: oob.flags & LOST == 0 };
        let record = !matches!(oob.kind, Kind::Data | Kind::Padding);
        let trusting = self.planted.has(Planted::PayloadNotChecked);
        if (durable || trusting) && !record {
            return Ok(FoundSlot { state: PageState::Good, oob, payload: Payload::Stored(at) });
        }
        let mut bytes = vec![0; PAGE as usize];
        let place = self.layout.page(block, page);
        self.medium.read(place, &mut bytes)?;
        if crc32c(0, &bytes) != oob.data_crc {
            if durable {
                let what = format!(
                    "block {} page {page}, a record of the drive, fails its CRC32C; expected what \
                     was durable",
                    block.0
                );
                self.damaged(place, what);
            }
            // Else its program was cut short.
            return Ok(FoundSlot { state: PageState::Torn, ..FoundSlot::default() });
        }
        let payload = if record { Payload::Bytes(bytes.into()) } else { Payload::Stored(at) };
        Ok(FoundSlot { state: PageState::Good, oob, payload })
    }

    /// An image that was let go holds what it held then.
    fn compare(&mut self, expected: Option<Held>) {
        let Some(expected) = expected.filter(|_| !self.planted.has(Planted::HeldNotChecked)) else {
            return;
        };
        let found = self.loaded.held.iter().fold(Held::default(), |all, held| all.and(*held));
        if found != expected && self.loaded.damage.is_empty() {
            let what = format!(
                "found {} records of pages with the sum {:016x}; expected {} with the sum {:016x}, \
                 as when the image was let go: a part of it is older than the rest",
                found.records, found.sum, expected.records, expected.sum
            );
            self.damaged(self.layout.superblock(0), what);
        }
    }
}
