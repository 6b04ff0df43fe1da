//! What is known of an image before its drive is powered on: how it is made, recognised and kept from others.
//!
//! Invariant: the superblock is written last, so that what has one is whole.

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use block::{BlockId, Bytes, Medium, write_zeroes};
use ssd::{Config, Origin, Params};

use crate::damage::Damage;
use crate::error::LiveError;
use crate::header::{BlockState, MOST_PAGES};
use crate::layout::{Layout, PAGE};
use crate::superblock::{MAGIC, NoImage, Superblock};

/// What a drive on an image is made of, unless told otherwise: one block at a time, so that what
/// is written together lies together in the file.
const KEYS: [(&str, &str); 15] = [
    ("geometry.channels", "1"),
    ("geometry.dies", "1"),
    ("geometry.planes", "1"),
    ("geometry.page", "4 KiB"),
    ("geometry.blocks", "0"),
    ("unit", "4 KiB"),
    ("op", "28 %"),
    ("map.mode", "full"),
    ("nand.oob", "full"),
    ("buffer.policy", "none"),
    ("streams.policy", "user+gc"),
    // One stream of commits, most of which rewrite the same pages: heads by age and victims by age
    // wrote 67.5 KB a commit where these write 59.2.
    ("gc.victim", "greedy"),
    ("ckpt.mode", "none"),
    ("tx.commit", "counted"),
    ("tx.mode", "nolog"),
];

/// Spare space, as a share of the capacity: the first one that is enough. What a drive needs whatever its size is more than
/// the usual share of a small one.
const SPARE: [&str; 8] = ["28 %", "40 %", "55 %", "70 %", "85 %", "100 %", "130 %", "160 %"];

/// Pages that transactions may have on a drive, at least, where so much spare space gives them: half of what it holds
/// (more than a database has that lets it grow), within these. With fewer, pages that wait for their log to be full go to
/// the drive sooner, again and again, and an ordinary commit may outgrow the drive.
const LEAST_TABLE: u64 = 192;
const MOST_TABLE: u64 = 1536;

/// How a drive for so much data is made.
fn config(capacity: Bytes) -> Result<Config, LiveError> {
    let mut config = Config::default();
    let origin = || Origin { from: "image".to_string(), source: None, tag: None };
    for (key, text) in KEYS {
        config.set(key, text, origin())?;
    }
    config.set("capacity", &capacity.human(), origin())?;
    // Spare space is a share of the capacity, and some blocks of it are never filled: a small
    // image has small blocks.
    let pages = (capacity.0 / PAGE / 128).next_power_of_two().clamp(16, 512);
    config.set("geometry.pages", &pages.to_string(), origin())?;
    let wanted = (capacity.0 / PAGE / 2).clamp(LEAST_TABLE, MOST_TABLE);
    let mut enough = SPARE[0];
    for spare in SPARE {
        config.set("op", spare, origin())?;
        let table = config.resolve().ok().and_then(|params| params.tx.map(|tx| tx.pages));
        if table.is_some() {
            enough = spare;
        }
        if table.is_some_and(|pages| u64::from(pages) >= wanted) {
            break;
        }
    }
    config.set("op", enough, origin())?;
    Ok(config)
}

/// The same, and what it comes to.
///
/// # Errors
/// [`LiveError::Capacity`]: so little leaves no room for transactions, or so much has no addresses.
pub(crate) fn made_for(capacity: Bytes) -> Result<(Config, Params), LiveError> {
    let config = config(capacity)?;
    let params = config.resolve().map_err(|_| LiveError::Capacity { capacity })?;
    Ok((config, params))
}

/// A configuration as the superblock has it.
pub(crate) fn text_of(config: &Config) -> String {
    let mut text = String::new();
    for (key, value, origin) in config.entries().filter(|(key, ..)| config.is_set(key)) {
        debug_assert_eq!(origin.from, "image");
        text += &format!("{key} = {value}\n");
    }
    text
}

/// Whether drives of two configurations differ in what they hold, and in nothing else.
pub(crate) fn differ_in_size(one: &str, other: &str) -> bool {
    let rest = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.starts_with("capacity = ")).map(str::to_string).collect()
    };
    rest(one) == rest(other)
}

/// Whether a file of `length` bytes can be an image, of which `expected` are the drive's.
pub(crate) fn long_enough(path: &Path, length: u64, expected: u64) -> Result<(), LiveError> {
    let what = match length {
        _ if path.is_dir() => "a directory: expected an image".to_string(),
        short if short < 2 * PAGE => {
            format!("{short} bytes: expected an image, which begins with `varveimg` or `varveptr`")
        }
        short if short < expected => {
            format!("{short} bytes: expected {expected}; its end is missing")
        }
        _ => return Ok(()),
    };
    Err(LiveError::NotAnImage { path: path.to_path_buf(), what })
}

/// One process at a time, and the file that has the name.
pub(crate) fn locked(path: &Path, file: &File) -> Result<File, LiveError> {
    let io = |error| LiveError::Io { path: path.to_path_buf(), error };
    let lock = file.try_clone().map_err(io)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(LiveError::in_use(path, file)),
        Err(TryLockError::Error(error)) => return Err(io(error)),
    }
    // Whoever had it may have removed it, or put another one in its place, before he let go.
    let here = file.metadata().map_err(io)?;
    let there = std::fs::metadata(path);
    match there.is_ok_and(|there| (here.dev(), here.ino()) == (there.dev(), there.ino())) {
        true => Ok(lock),
        false => Err(LiveError::InUse { path: path.to_path_buf(), holder: None }),
    }
}

impl LiveError {
    /// That another process has locked an image, and which one.
    pub fn in_use(path: &Path, file: &File) -> LiveError {
        LiveError::InUse { path: path.to_path_buf(), holder: holder(file) }
    }
}

/// The process that has locked a file, as the system's list of locks says.
fn holder(file: &File) -> Option<u32> {
    let inode = file.metadata().ok()?.ino().to_string();
    let list = std::fs::read_to_string("/proc/locks").ok()?;
    let mut found = list.lines().filter_map(|line| {
        // `1: FLOCK  ADVISORY  WRITE 708 fe:00:1234 0 EOF`
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, process, place, ..] = words.as_slice() else { return None };
        let same = place.rsplit(':').next() == Some(inode.as_str());
        same.then(|| process.parse().ok()).flatten()
    });
    // Several: a file of another file system has that number, too.
    found.next().filter(|_| found.next().is_none())
}

/// Whether a file that begins so is an image.
pub fn is_image(first: &[u8; 8]) -> bool {
    first == MAGIC || first == crate::pointer::MAGIC
}

/// What is known of an image before its blocks are read.
pub(crate) struct Found {
    pub superblock: Superblock,
    /// As it is now: it may have more blocks than it was made with.
    pub layout: Layout,
    /// The other superblock.
    pub damage: Option<Damage>,
}

/// Writes an empty image; its superblock last, so that what has one is whole.
pub(crate) fn format(
    medium: &dyn Medium,
    params: &Params,
    config: &Config,
    log: u64,
) -> std::io::Result<Found> {
    let layout = Layout::with_log(&params.geometry, log);
    let superblock =
        Superblock { layout, config: text_of(config), number: 1, held: Some(Default::default()) };
    let first = superblock
        .encode()
        .ok_or_else(|| std::io::Error::other("the configuration does not fit the superblock"))?;
    medium.reserve(0, layout.bytes())?;
    // Each commit is a write to the log that waits: it must not wait for the file system's journal as well.
    write_zeroes(medium, layout.log_start(), layout.log)?;
    write_headers(medium, layout, 0)?;
    medium.sync()?;
    for copy in 0..layout.copies() {
        medium.write(layout.superblock(copy), &first)?;
    }
    medium.sync()?;
    Ok(Found { superblock, layout, damage: None })
}

/// Writes the headers of blocks from `first` on that were never opened. Zeroes are no header: what was lost is not
/// taken for what was never used.
pub(crate) fn write_headers(
    medium: &dyn Medium,
    layout: Layout,
    first: u32,
) -> std::io::Result<()> {
    for block in (first..layout.blocks).map(BlockId) {
        let header = BlockState::default().encode(layout.version, block, &[]);
        for copy in 0..layout.copies() {
            medium.write(layout.header(block, copy), &header)?;
        }
    }
    Ok(())
}

/// The drive an image was made for; `capacity`: what it holds since it has grown, else 0.
pub(crate) fn recognise(
    path: &Path,
    medium: &dyn Medium,
    capacity: u64,
) -> Result<(Params, Found), LiveError> {
    let mut bytes = vec![0; 2 * PAGE as usize];
    let io = |error| LiveError::Io { path: path.to_path_buf(), error };
    medium.read(0, &mut bytes).map_err(io)?;
    let wrong = |what| LiveError::NotAnImage { path: path.to_path_buf(), what };
    let (first, second) = bytes.split_at(PAGE as usize);
    let (superblock, damage) = Superblock::read(first, second).map_err(|error| match error {
        NoImage::Other(what) => wrong(what),
        NoImage::Damaged(damage) => {
            LiveError::Damaged { path: path.to_path_buf(), damage: vec![damage] }
        }
    })?;
    let mut config = Config::default();
    for line in superblock.config.lines() {
        let Some((key, value)) = line.split_once(" = ") else {
            return Err(wrong(format!("`{line}` in its configuration: expected `key = value`")));
        };
        let origin = Origin { from: path.display().to_string(), source: None, tag: None };
        config.set(key, value, origin)?;
    }
    if capacity > 0 {
        let origin = Origin { from: path.display().to_string(), source: None, tag: None };
        config.set("capacity", &Bytes(capacity).human(), origin)?;
    }
    let params = config.resolve()?;
    let made = superblock.layout;
    let layout = Layout::of(made.version, &params.geometry, made.log);
    let grown = capacity > 0 && made.blocks <= layout.blocks;
    if made != (Layout { blocks: if grown { made.blocks } else { layout.blocks }, ..layout }) {
        return Err(wrong("its size is not what its configuration says".to_string()));
    }
    if layout.pages > MOST_PAGES {
        let what = format!("blocks of {} pages: expected at most {MOST_PAGES}", layout.pages);
        return Err(wrong(what));
    }
    Ok((params, Found { superblock, layout, damage }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the error of a capacity says.
    #[test]
    fn from_half_a_mib_to_twelve_tib_there_is_a_drive() {
        let capacities = [
            (1, false),
            (256, false),
            (512, true),
            (1 << 20, true),
            (12 << 30, true),
            (1 << 34, false),
        ];
        for (kib, made) in capacities {
            let found = made_for(Bytes(kib << 10));
            assert_eq!(found.is_ok(), made, "{kib} KiB: {:?}", found.err());
        }
    }
}
