//! Checks: tables against each other, and an image against itself.

use block::{DeviceError, Lpn, Plant, crc32c};

use crate::engine::{Engine, POISONED, UNMAPPED};
use crate::error::LogError;
use crate::geometry::{BLOCK, Geometry, PAGE_WORDS, Pba, Seg};
use crate::options::LogOptions;
use crate::record::{Entry, Form, Header, stamp_crc};
use crate::recovery::{Summary, read_block, recover};
use crate::root::HeadAt;
use crate::segment::State;
use crate::store::Store;

/// What a look at a whole image found.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ImageReport {
    /// What opening it would find.
    pub summary: Summary,
    /// Why it would be read-only.
    pub read_only: Option<String>,
    /// Blocks of the client that are mapped.
    pub mapped: u64,
    /// Blocks whose data is not what its header says, or under no readable header.
    pub damaged: Vec<Lpn>,
    /// Live blocks that were checked.
    pub checked: u64,
    /// Live blocks without a payload.
    pub without_data: u64,
    /// Free, open or reserved, full segments.
    pub segments: [u32; 3],
}

impl Engine {
    /// Checks the tables against each other: every mapped place is used once and counted where it
    /// lies; every list agrees with the states.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), LogError> {
        let broken = |what: String| Err(LogError::Broken(what));
        let g = *self.geometry();
        let mut seen =
            vec![0u64; (u64::from(g.segments) * u64::from(g.segment)).div_ceil(64) as usize];
        let mut live = vec![0u32; g.segments as usize];
        let mut whole = true;
        let mut count = |what: &str, number: u32, pba: u32| -> Result<(), LogError> {
            let Some(seg) = g.seg(Pba(pba)) else {
                return Err(LogError::Broken(format!("{what} {number} is at {pba}")));
            };
            let bit = (pba - g.first) as usize;
            if seen[bit / 64] >> (bit % 64) & 1 == 1 {
                return Err(LogError::Broken(format!("{what} {number}: {pba} is used twice")));
            }
            seen[bit / 64] |= 1 << (bit % 64);
            live[seg.0 as usize] += 1;
            Ok(())
        };
        for first in (0..g.logical).step_by(PAGE_WORDS as usize) {
            let (first, blocks) = (Lpn(first), PAGE_WORDS.min(g.logical - first));
            // What a damaged page named is counted in its segments and named by nobody.
            whole &= self.missing(first, blocks).is_none() && !self.damaged_map(first, blocks);
        }
        for lpn in 0..g.logical {
            let pba = self.map().get(lpn);
            if pba != UNMAPPED && pba != POISONED {
                count("block", lpn, pba)?;
            }
        }
        for (lpn, pba) in self.superseded() {
            count("superseded block", lpn, pba.0)?;
        }
        let committed = (0..).zip(self.map().directory()).map(|(page, at)| (page, at.pba));
        for (page, pba) in committed.chain(self.map().under_way()) {
            if pba.0 != 0 {
                count("map page", page, pba.0)?;
            }
        }
        let counted = (0..).zip(&live).find(|(i, n)| self.segments().get(Seg(*i)).live != **n);
        if let Some((i, n)) = counted
            && whole
        {
            let s = self.segments().get(Seg(i));
            return broken(format!("segment {i} has {n} live blocks: {s:?}"));
        }
        self.segments().check().map_err(LogError::Broken)?;
        if !self.map().counts_are_right() {
            return broken("the map's counts of absent and damaged pages".to_string());
        }
        let placed = self.head_kinds().any(|kind| self.head_at(kind) != HeadAt::default());
        if self.read_only().is_some() && !placed {
            // It was opened so, to be read: nothing is written, and there are no heads.
            return Ok(());
        }
        for kind in self.head_kinds() {
            let at = self.head_at(kind);
            let open = |seg| self.segments().get(seg).state == State::Open;
            if !open(at.seg) || !open(at.next) {
                return broken(format!("the segments of {kind:?}: {at:?}"));
            }
        }
        Ok(())
    }
}

/// Walks the headers of a segment as far as they are sound and follow each other; `with` is called
/// with each header, its place and its block.
///
/// # Errors
/// Those of `with`; what cannot be read ends the walk.
pub fn walk_segment(
    store: &mut dyn Store,
    g: &Geometry,
    instance: u32,
    seg: Seg,
    mut with: impl FnMut(&mut dyn Store, &Header, Pba, &[u8; BLOCK]) -> Result<(), DeviceError>,
) -> Result<(), DeviceError> {
    let (base, mut offset, mut before) = (g.base(seg).0, 0, (0, 0));
    while g.segment - offset >= 1 {
        let at = Pba(base + offset);
        let Ok(block) = read_block(store, at) else { break };
        let Some(header) = Header::read(&block) else { break };
        let fits = header.instance == instance
            && header.segment == seg
            && u32::from(header.offset) == offset
            && (header.epoch, header.seq) > before
            && offset + 1 + u32::from(header.data) <= g.segment;
        if !fits {
            break;
        }
        with(store, &header, at, &block)?;
        before = (header.epoch, header.seq);
        offset += 1 + u32::from(header.data);
    }
    Ok(())
}

/// Looks at a whole image and writes nothing: opens it, walks the headers of every segment with
/// live blocks, and checks the CRC of every one of them.
///
/// # Errors
/// There is no log, or it cannot be opened at all, or the device fails.
pub fn check_store(store: &mut dyn Store, options: &LogOptions) -> Result<ImageReport, LogError> {
    let whole = LogOptions { map_memory: block::Bytes(0), ..options.clone() };
    let recovered = recover(store, &whole, false, Plant::default())?;
    let engine = recovered.engine;
    let g = *engine.geometry();
    let mut report = ImageReport {
        summary: recovered.summary,
        read_only: engine.read_only().map(str::to_string),
        mapped: engine.mapped(),
        ..ImageReport::default()
    };
    let mut described = vec![0u64; g.logical.div_ceil(64) as usize];
    for seg in (0..g.segments).map(Seg) {
        let s = engine.segments().get(seg);
        let kind = match s.state {
            State::Free | State::Pending => 0,
            State::Open => 1,
            _ => 2,
        };
        report.segments[kind] += 1;
        if s.live == 0 || s.meta {
            continue;
        }
        walk_segment(store, &g, engine.instance(), seg, |store, header, at, block| {
            check_record(store, &engine, (header, at, block), &mut described, &mut report)
        })?;
    }
    for lpn in 0..g.logical {
        let pba = engine.map().get(lpn);
        let known = described[lpn as usize / 64] >> (lpn % 64) & 1 == 1;
        if pba == POISONED || (pba != UNMAPPED && !known) {
            report.damaged.push(Lpn(lpn));
        }
    }
    report.damaged.sort_unstable();
    report.damaged.dedup();
    Ok(report)
}

fn check_record(
    store: &mut dyn Store,
    engine: &Engine,
    (header, at, block): (&Header, Pba, &[u8; BLOCK]),
    described: &mut [u64],
    report: &mut ImageReport,
) -> Result<(), DeviceError> {
    let mut data = vec![0; BLOCK];
    for (entry, place) in header.entries(at, block) {
        let (Entry::Write { lpn, crc } | Entry::Move { lpn, crc, .. }) = entry else { continue };
        if !engine.is_live(lpn, place) {
            continue;
        }
        described[lpn.index() / 64] |= 1 << (lpn.0 % 64);
        report.checked += 1;
        let sound = match header.form {
            Form::Nothing => {
                report.without_data += 1;
                true
            }
            Form::Stamps => {
                let mut stamp = [0];
                store.read_stamps(place, &mut stamp).is_ok() && stamp_crc(stamp[0]) == crc
            }
            Form::Bytes => store.read(place, &mut data).is_ok() && crc32c(0, &data) == crc,
        };
        if !sound {
            report.damaged.push(lpn);
        }
    }
    Ok(())
}
