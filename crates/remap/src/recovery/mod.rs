//! Making and opening a log.
//!
//! Invariants: recovery reads until it knows the state, then flushes what it read (a process that
//! was killed may have left it to a cache), then commits a checkpoint of a new epoch without
//! touching anything the old root needs. So a cut at any moment of it only repeats it.

mod chain;

use block::{DeviceError, Plant, Rng, crc32c};

use crate::engine::{Engine, HeadKind, Work, kinds};
use crate::error::LogError;
use crate::geometry::{BLOCK, Geometry, Pba, Seg};
use crate::map::PageAt;
use crate::options::LogOptions;
use crate::planted::Planted;
use crate::record::Header;
use crate::root::{BATCHES, HeadAt, PLAIN, Root, Super};
use crate::store::Store;
use chain::{Chain, Reading};

/// What opening found and did.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Summary {
    /// The log had been closed.
    pub clean: bool,
    /// Records applied after the checkpoint.
    pub records: u64,
    /// Records found behind the end of the log, and dropped: none of them was flushed.
    pub dropped: u64,
    /// Data blocks whose CRC was checked.
    pub checked: u64,
    /// Map pages read.
    pub pages: u64,
    /// Map pages that were damaged.
    pub bad_pages: u64,
    /// The last record of the log.
    pub end: u64,
    /// The newest record known to be flushed.
    pub durable: u64,
}

/// An opened log.
#[derive(Debug)]
pub struct Recovered {
    /// Its engine.
    pub engine: Engine,
    /// What was found.
    pub summary: Summary,
}

pub(crate) fn read_block(store: &mut dyn Store, at: Pba) -> Result<Box<[u8; BLOCK]>, DeviceError> {
    let mut block = Box::new([0; BLOCK]);
    store.read(at, &mut block[..])?;
    Ok(block)
}

/// Makes a log on a device. Nothing of what the device held can be read through it.
///
/// # Errors
/// The device is too small, or fails.
pub fn format_store(
    store: &mut dyn Store,
    options: &LogOptions,
    planted: Plant<Planted>,
) -> Result<Engine, LogError> {
    let geometry = Geometry::new(store.blocks(), options)?;
    let mut name = "remap/uuid".to_string();
    // A log made over another one differs from it even with the same seed: no record of the old one
    // is ever believed.
    if options.payload
        && let Ok(old) = read_super(store)
    {
        name = format!("remap/uuid {:02x?}", old.uuid);
    }
    let mut rng = Rng::stream(options.seed, &name);
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&rng.next_u64().to_le_bytes());
    uuid[8..].copy_from_slice(&rng.next_u64().to_le_bytes());
    let version = if options.plain() { PLAIN } else { BATCHES };
    let sup = Super { uuid, geometry, version };
    let pages = geometry.pages() as usize;
    let mut engine = Engine::new(&sup, options, vec![PageAt::default(); pages], planted)?;
    engine.begin_new();
    // From the first moment on each root has a header: one that has none has lost it.
    let (other, header) = (geometry.root_at(0), engine.no_root().encode());
    store.write(other, &header)?;
    store.write(Pba(other.0 + geometry.root - 1), &header)?;
    checkpoint_store(&mut engine, store)?;
    let block = sup.encode();
    store.write(Pba(0), &block)?;
    store.write(Pba(1), &block)?;
    engine.count_roots(4);
    store.flush()?;
    Ok(engine)
}

/// Writes and commits a checkpoint at once, on a device of which nothing is in use by others. No record
/// is open.
///
/// # Errors
/// The device's.
pub fn checkpoint_store(engine: &mut Engine, store: &mut dyn Store) -> Result<(), LogError> {
    // Nothing was given out yet: what becomes free holds nothing that a discard would forget.
    let (mut buffer, mut freed) = (Vec::new(), Vec::new());
    engine.checkpoint_begin(false);
    while let Some(work) = engine.checkpoint_next(true) {
        match work {
            Work::Write(most) => {
                while let Some(write) = engine.checkpoint_write(most, &mut buffer) {
                    store.write(write.pba, &buffer)?;
                }
            }
            Work::RootFlush => {
                engine.root_flush_begin();
                store.flush()?;
                engine.root_flush_end(&mut freed);
            }
            _ => {
                if let Some((at, header)) = engine.root_header() {
                    store.write(at, &header[..])?;
                }
                engine.root_header_written(&mut freed);
            }
        }
    }
    Ok(())
}

/// The super block, from whichever copy is sound.
pub(crate) fn read_super(store: &mut dyn Store) -> Result<Super, LogError> {
    let mut error = LogError::NotALog("the device is too small".to_string());
    for copy in 0..2 {
        if store.blocks() <= copy {
            return Err(error);
        }
        let found = match read_block(store, Pba(copy as u32)) {
            Ok(block) => Super::decode(&block),
            Err(e) => Err(e.into()),
        };
        match found {
            Ok(sup) => {
                let physical = sup.geometry.physical();
                if physical > store.blocks() {
                    let has = store.blocks();
                    let why = format!("the log has {physical} blocks, the device {has}");
                    return Err(LogError::Shape(why));
                }
                return Ok(sup);
            }
            Err(e) => error = e,
        }
    }
    Err(error)
}

/// A header of a root that is to be written again, and where.
type Mend = (Pba, Box<[u8; BLOCK]>);

/// The newest root that has a valid header, with its body; and headers that a cut or damage took where
/// the root's other one is there.
fn read_root(
    store: &mut dyn Store,
    sup: &Super,
    planted: Plant<Planted>,
) -> Result<(Root, Vec<u8>, Vec<Mend>), LogError> {
    let g = &sup.geometry;
    let mut found: Vec<(Root, Pba)> = Vec::new();
    let mut mends = Vec::new();
    let mut lost = None;
    for which in 0..2 {
        let (at, before) = (g.root_at(which), found.len());
        let (mut good, mut bad) = (None, None);
        for copy in [at, Pba(at.0 + g.root - 1)] {
            // A copy that cannot be read is a copy that is not there.
            let block = read_block(store, copy).ok();
            let root = block.as_ref().and_then(|block| Root::decode(block, &sup.uuid));
            match root.filter(|root| root.generation % 2 == u64::from(which)) {
                Some(root) => {
                    found.push((root, at));
                    good = block;
                }
                None => bad = Some(copy),
            }
        }
        if found.len() == before {
            lost = Some(which);
        }
        mends.extend(bad.zip(good));
    }
    // The copies of one root may be of different generations, if writing them was cut: were the
    // newer one passed over, it would be believed after the next recovery has used its number.
    found.sort_by_key(|(root, _)| std::cmp::Reverse(root.generation));
    found.dedup_by_key(|(root, _)| root.generation);
    let older_too = planted.has(Planted::OlderRootTaken);
    let most = if older_too { 2 } else { 1 };
    let mut error = LogError::Corrupt("no root has a valid header".to_string());
    // Its headers are written one after the other, and mended before they are written again, so a cut
    // leaves one of them. Where there is none it was damaged: perhaps it was the newest. Logs made before
    // roots began with headers have none in root 0 until their second checkpoint.
    let young = found.first().is_some_and(|(root, _)| root.generation == 1);
    if let Some(which) = lost
        && !(young && which == 0 && blank(store, g)?)
        && !planted.has(Planted::LostRootPassedOver)
    {
        return Err(LogError::Corrupt(format!("both headers of root {which}")));
    }
    for (root, at) in found.into_iter().take(most) {
        let mut body = vec![0; g.root_body() as usize * BLOCK];
        store.read(Pba(at.0 + 1), &mut body)?;
        if crc32c(0, &body) == root.body_crc {
            return Ok((root, body, mends));
        }
        // Places of the older root may have been used again: it is no way out.
        error = LogError::Corrupt(format!("the body of root {}", root.generation));
    }
    Err(error)
}

/// Whether root 0 never had a header.
fn blank(store: &mut dyn Store, g: &Geometry) -> Result<bool, DeviceError> {
    let at = g.root_at(0);
    let (first, last) = (read_block(store, at)?, read_block(store, Pba(at.0 + g.root - 1))?);
    Ok(first.iter().chain(last.iter()).all(|b| *b == 0))
}

/// Opens the log on a device. With `write` a checkpoint of a new epoch is committed; without it
/// nothing is written and the engine is for looking only.
///
/// What a flush made durable and is damaged makes the log read-only, see [`Engine::read_only`]; if it is
/// a record, older contents may be read, and with [`LogOptions::verify`] there is an error instead.
///
/// # Errors
/// There is no log; the super block or a root is damaged; the device fails. Reads are to be verified, and
/// the log keeps no CRCs for it, or a record that was flushed is missing.
pub fn recover(
    store: &mut dyn Store,
    options: &LogOptions,
    write: bool,
    planted: Plant<Planted>,
) -> Result<Recovered, LogError> {
    let sup = read_super(store)?;
    if options.verify && !sup.geometry.crc_plane {
        return Err(LogError::Unverified);
    }
    let (root, body, mends) = read_root(store, &sup, planted)?;
    let mut engine = Engine::new(&sup, options, Vec::new(), planted)?;
    engine.load_root(&root, &body)?;
    drop(body);
    let mut summary = Summary { clean: root.clean, ..Summary::default() };
    if engine.map_limit() == u32::MAX {
        load_map(store, &mut engine, &mut summary)?;
    }
    let mut reading = Reading::new(store, &sup, root.epoch, planted);
    let mut chains = Vec::new();
    for (kind, at) in kinds(root.heads.users, root.heads.gcs).zip(root.heads.all()) {
        if kind != HeadKind::Meta {
            chains.push(reading.follow(kind, *at, root.seq)?);
        }
    }
    let log = reading.merge(&chains, root.seq)?;
    if let Some(why) = log.damage.as_ref().filter(|_| options.verify) {
        return Err(LogError::Corrupt(why.clone()));
    }
    summary.checked = log.checked;
    summary.durable = log.durable;
    summary.end = log.end();
    summary.records = log.records.len() as u64;
    let found: usize = chains.iter().map(|chain| chain.found.len()).sum();
    summary.dropped = (found - log.records.len()) as u64;
    let chain = chain_segments(&root, &chains);
    engine.sort_segments(&chain, root.heads.all()[2].seg);
    for record in &log.records {
        let block = read_block(store, record.at)?;
        let header = Header::read_unchecked(&block)
            .ok_or_else(|| LogError::Corrupt(format!("record {} changed", record.seq)))?;
        load_pages_of(store, &mut engine, &header, record.at, &block, &mut summary)?;
        engine.replay(&header, record.at, &block);
    }
    let mut heads = root.heads;
    let users = heads.users;
    for chain in &chains {
        let after = chain.head_after(log.last_of(chain.head), &sup.geometry);
        heads.all_mut()[chain.head.place(users)] = after;
    }
    if let Some(why) = log.damage {
        engine.set_read_only(why);
    } else if summary.bad_pages > 0 {
        engine.set_read_only(format!("{} map pages are damaged", summary.bad_pages));
    }
    if write && engine.read_only().is_none() {
        engine.count_roots(mends.len() as u32);
        for (at, header) in mends {
            store.write(at, &header[..])?;
        }
        store.flush()?;
        if sup.version < BATCHES && !options.plain() {
            // Before anything is written that a program of before would not understand.
            let block = Super { version: BATCHES, ..sup }.encode();
            for copy in [Pba(0), Pba(1)] {
                store.write(copy, &block)?;
                store.flush()?;
            }
            engine.count_roots(2);
        }
        engine.end_replay(&heads, &chain, summary.end);
        checkpoint_store(&mut engine, store)?;
    }
    Ok(Recovered { engine, summary })
}

/// Every segment that a head of the root or of the log is in.
fn chain_segments(root: &Root, chains: &[Chain]) -> Vec<Seg> {
    let mut all: Vec<Seg> = root.heads.all().iter().map(|head: &HeadAt| head.seg).collect();
    all.extend(chains.iter().flat_map(|chain| &chain.segments));
    all.sort_unstable();
    all.dedup();
    all
}

/// Reads all map pages, neighbours together.
fn load_map(
    store: &mut dyn Store,
    engine: &mut Engine,
    summary: &mut Summary,
) -> Result<(), LogError> {
    const TOGETHER: usize = 64;
    let directory = engine.map().directory();
    let mut order: Vec<(u32, u32)> = (0u32..)
        .zip(directory)
        .filter(|(_, at)| at.pba.0 != 0)
        .map(|(page, at)| (at.pba.0, page))
        .collect();
    order.sort_unstable();
    let mut buffer = vec![0; TOGETHER * BLOCK];
    let mut rest = &order[..];
    while let Some((first, _)) = rest.first() {
        let follows = |(i, (pba, _)): (u32, &(u32, u32))| *pba == first + i;
        let n = (0u32..).zip(rest).take(TOGETHER).take_while(|x| follows(*x)).count();
        let bytes = &mut buffer[..n * BLOCK];
        let whole = store.read(Pba(*first), bytes).is_ok();
        for (i, (pba, page)) in rest[..n].iter().enumerate() {
            let bytes = &mut buffer[i * BLOCK..(i + 1) * BLOCK];
            summary.pages += 1;
            let readable = whole || store.read(Pba(*pba), bytes).is_ok();
            if !readable || !engine.map_mut().install(*page, Some(bytes)) {
                engine.map_mut().set_bad(*page);
                summary.bad_pages += 1;
            }
        }
        rest = &rest[n..];
    }
    Ok(())
}

/// With only part of the map in memory: reads the pages that a record changes.
fn load_pages_of(
    store: &mut dyn Store,
    engine: &mut Engine,
    header: &Header,
    at: Pba,
    block: &[u8; BLOCK],
    summary: &mut Summary,
) -> Result<(), LogError> {
    use crate::record::Entry;
    if engine.map_limit() == u32::MAX {
        return Ok(());
    }
    let logical = engine.geometry().logical;
    for (entry, _) in header.entries(at, block) {
        let (lpn, count) = match entry {
            Entry::Trim { lpn, count } => (lpn, count),
            Entry::Write { lpn, .. } | Entry::Move { lpn, .. } | Entry::Poison { lpn, .. } => {
                (lpn, 1)
            }
        };
        if lpn.0 >= logical {
            continue;
        }
        let count = count.min(logical - lpn.0);
        while let Some((page, pba)) = engine.missing(lpn, count) {
            let bytes = read_block(store, pba)?;
            summary.pages += 1;
            if !engine.install(page, &bytes[..]) {
                summary.bad_pages += 1;
            }
        }
    }
    Ok(())
}
