//! `varve remap`: what is in the image of a host log. Nothing is written.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::Arc;

use block::{Bytes, Lpn};
use lab::LabError;
use live::FileMedium;
use remap::{Entry, Header, ImageReport, LogError, LogOptions, Pba, Recovered, Seg, Summary};
use remap::{check_store, recover, walk_segment};
use report::json::{Json, Map, MapExt};
use stack::disk::MediumStore;

use crate::args::{Dump, HostLog, Image};
use crate::{print, show};

/// Damaged blocks that are named at most.
const NAMED: usize = 20;
/// Steps of the table of segments by their live share.
const STEPS: usize = 10;

/// `varve remap`.
pub fn remap(command: &HostLog) -> Result<(), LabError> {
    match command {
        HostLog::Check(image) => check(image),
        HostLog::Stats(image) => stats(image),
        HostLog::Dump(dumped) => dump(dumped),
    }
}

/// The image, for looking only. One that a server has is refused: it changes meanwhile.
fn open(path: &Path) -> Result<MediumStore, LabError> {
    let file = File::open(path).map_err(|e| LabError::io(path, e))?;
    match file.try_lock_shared() {
        Ok(()) => Ok(MediumStore(Arc::new(FileMedium(file)))),
        Err(TryLockError::WouldBlock) => {
            Err(LabError::Failed(format!("{}: in use by another process", path.display())))
        }
        Err(TryLockError::Error(e)) => Err(LabError::io(path, e)),
    }
}

fn wrong(path: &Path, error: LogError) -> LabError {
    match error {
        LogError::Device(e) => LabError::Failed(format!("{}: {e}", path.display())),
        other => LabError::Input(format!("{}: {other}", path.display())),
    }
}

fn document(path: &Path, results: Map) -> String {
    let mut map = Map::new();
    map.put("schema", Json::text("varve.remap/1"));
    map.put("version", Json::text(crate::VERSION));
    let mut config = Map::new();
    config.put("image", Json::text(path.to_string_lossy()));
    map.put("config", Json::Map(config));
    map.put("results", Json::Map(results));
    Json::Map(map).pretty()
}

fn summary(map: &mut Map, found: &Summary) {
    map.put("clean", Json::Bool(found.clean));
    map.int("records_replayed", found.records);
    map.int("records_dropped", found.dropped);
    map.int("last_record", found.end);
    map.int("last_flushed", found.durable);
    map.int("map_pages_read", found.pages);
    map.int("map_pages_damaged", found.bad_pages);
}

fn check(image: &Image) -> Result<(), LabError> {
    let path = &image.image;
    let found =
        check_store(&mut open(path)?, &LogOptions::default()).map_err(|e| wrong(path, e))?;
    if image.json {
        let mut map = Map::new();
        summary(&mut map, &found.summary);
        map.maybe("read_only", found.read_only.as_ref().map(Json::text));
        map.int("mapped", found.mapped);
        map.int("checked", found.checked);
        map.int("damaged", found.damaged.len() as u64);
        let named = found.damaged.iter().take(NAMED).map(|lpn| Json::Int(u64::from(lpn.0)));
        map.put("damaged_blocks", Json::List(named.collect()));
        print(&document(path, map))?;
    } else {
        print(&told(&found))?;
    }
    let damage = found.damaged.len() as u64 + found.summary.bad_pages;
    if damage == 0 && found.read_only.is_none() {
        return Ok(());
    }
    let what = format!("{}: {damage} blocks or map pages are damaged", path.display());
    Err(LabError::Check { contract: "C6".to_string(), what })
}

fn told(found: &ImageReport) -> String {
    let s = &found.summary;
    let stop = if s.clean { "it was closed" } else { "it was not closed" };
    let mut out = format!(
        "{stop}; {} records after the checkpoint, {} behind the end of the log dropped\n\
         {} blocks mapped, {} checked against their CRC, {} damaged\n\
         segments: {} free, {} open, {} full\n",
        s.records,
        s.dropped,
        found.mapped,
        found.checked,
        found.damaged.len(),
        found.segments[0],
        found.segments[1],
        found.segments[2],
    );
    if let Some(why) = &found.read_only {
        out += &format!("it opens read-only: {why}\n");
    }
    let named: Vec<String> = found.damaged.iter().take(NAMED).map(|l| l.0.to_string()).collect();
    if !named.is_empty() {
        out += &format!("damaged blocks (of 4 KiB): {}\n", named.join(", "));
    }
    out
}

fn look(path: &Path) -> Result<(MediumStore, Recovered), LabError> {
    let mut store = open(path)?;
    let found = recover(&mut store, &LogOptions::default(), false, block::Plant::default())
        .map_err(|e| wrong(path, e))?;
    Ok((store, found))
}

/// Segments that are not free, by how full of live blocks they are.
fn shares(found: &Recovered) -> ([u64; STEPS + 1], u64) {
    let g = found.engine.geometry();
    let (mut steps, mut free) = ([0; STEPS + 1], 0);
    for seg in (0..g.segments).map(Seg) {
        match found.engine.segment(seg) {
            (_, true) => free += 1,
            (live, false) => steps[live as usize * STEPS / g.segment as usize] += 1,
        }
    }
    (steps, free)
}

fn stats(image: &Image) -> Result<(), LabError> {
    let path = &image.image;
    let (_, found) = look(path)?;
    let (engine, g) = (&found.engine, *found.engine.geometry());
    let (steps, free) = shares(&found);
    let (mapped, memory) = (engine.mapped(), engine.memory());
    if image.json {
        let mut map = Map::new();
        summary(&mut map, &found.summary);
        map.int("blocks", u64::from(g.logical));
        map.int("mapped", mapped);
        map.int("segment_blocks", u64::from(g.segment));
        map.int("segments", u64::from(g.segments));
        map.int("segments_free", free);
        map.int("map_bytes", memory);
        let steps = steps.iter().map(|n| Json::Int(*n)).collect();
        map.put("segments_by_live_tenth", Json::List(steps));
        return print(&document(path, map));
    }
    let size = |blocks: u64| Bytes(blocks * 4096).human();
    let mut out = format!(
        "{} for the client, {} of it mapped; {} segments of {}, {free} free\n\
         the map takes {} of memory\n\
         record {} is the last, {} is known to be flushed; {}\n\
         segments by live blocks:",
        size(u64::from(g.logical)),
        size(mapped),
        g.segments,
        size(u64::from(g.segment)),
        Bytes(memory).human(),
        found.summary.end,
        found.summary.durable,
        if found.summary.clean { "it was closed" } else { "it was not closed" },
    );
    for (i, n) in steps.iter().enumerate() {
        out += &format!(" {}%:{n}", i * 100 / STEPS);
    }
    print(&(out + "\n"))
}

/// One line of a dump.
fn line(header: &Header, at: Pba) -> String {
    let flags = if header.more { " more" } else { "" };
    format!(
        "{} segment {} block {} {:?} epoch {} seq {} durable {} entries {} data {} next {}{flags}",
        at.0,
        header.segment.0,
        header.offset,
        header.kind,
        header.epoch,
        header.seq,
        header.durable,
        header.entries,
        header.data,
        header.next.0,
    )
}

fn names(entry: &Entry, lpn: Lpn) -> bool {
    match entry {
        Entry::Write { lpn: found, .. }
        | Entry::Move { lpn: found, .. }
        | Entry::Poison { lpn: found, .. } => *found == lpn,
        Entry::Trim { lpn: first, count } => (first.0..first.0 + count).contains(&lpn.0),
    }
}

fn dump(args: &Dump) -> Result<(), LabError> {
    let path = &args.image;
    let (mut store, found) = look(path)?;
    let g = *found.engine.geometry();
    if let Some(seg) = args.segment.filter(|seg| *seg >= g.segments) {
        let what = format!("--segment {seg}: the log has segments 0 to {}", g.segments - 1);
        return Err(LabError::Input(what));
    }
    if let Some(block) = args.block.filter(|block| *block >= g.logical) {
        let what = format!("--block {block}: the log has blocks 0 to {}", g.logical - 1);
        return Err(LabError::Input(what));
    }
    let block = args.block.map(Lpn);
    let segments = match args.segment {
        Some(seg) => seg..seg + 1,
        None => 0..g.segments,
    };
    for seg in segments.map(Seg) {
        let mut lines = Vec::new();
        let walked =
            walk_segment(&mut store, &g, found.engine.instance(), seg, |_, header, at, bytes| {
                let meta = header.kind == remap::Kind::Meta;
                let entries = header.entries(at, bytes);
                let picked: Vec<_> = entries
                    .filter(|(entry, _)| match block {
                        Some(lpn) => !meta && names(entry, lpn),
                        None => args.entries,
                    })
                    .map(|(entry, place)| format!("  {entry:?} at {}", place.0))
                    .collect();
                if block.is_none() || !picked.is_empty() {
                    lines.push(line(header, at));
                    lines.extend(picked);
                }
                Ok(())
            });
        walked.map_err(|e| wrong(path, LogError::Device(e)))?;
        // Whoever reads may have seen enough.
        if !lines.is_empty() && !show(&(lines.join("\n") + "\n"))? {
            return Ok(());
        }
    }
    match block {
        Some(lpn) => print(&format!("block {} is now: {:?}\n", lpn.0, found.engine.lookup(lpn))),
        None => Ok(()),
    }
}
