//! What a thread was promised: the files it made, as `fsync` acknowledged them.
//!
//! Invariants: the ledger is kept in this process, outside the device; it changes only when the
//! last system call of an operation has succeeded; until then the operation is `pending`, and only
//! the file that it touches may be old, new or, where the operation itself is no atomic one,
//! between the two.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::content::{BLOCK, Stamp};

/// A file: its number and the version of each block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    /// Number of the file.
    pub file: u64,
    /// Version of each block.
    pub blocks: Vec<u64>,
}

/// An operation that was begun and not acknowledged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pending {
    /// A new file.
    Create { slot: u64, new: Kept },
    /// Blocks of a file are written over.
    Overwrite { slot: u64, first: usize, count: usize, version: u64 },
    /// Blocks are added to a file.
    Append { slot: u64, count: usize, version: u64 },
    /// A file that is whole and durable takes the name of another.
    Replace { slot: u64, new: Kept },
    /// A file is removed.
    Unlink { slot: u64 },
}

/// What one thread was promised.
#[derive(Debug)]
pub struct Ledger {
    /// The thread's folder, below the mount point.
    pub folder: String,
    /// Files by slot.
    pub kept: BTreeMap<u64, Kept>,
    /// The operation under way.
    pub pending: Option<Pending>,
    /// The operation under way was acknowledged when the device had stopped answering: whoever
    /// said so had it from nobody. It stays pending.
    pub late: bool,
    /// Operations acknowledged so far.
    pub acknowledged: u64,
    /// Bytes that the device keeps whole: what is written over in place may be torn between them.
    pub atomic: usize,
    numbers: u64,
}

/// What came of the operation under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Came {
    /// As if it had not begun.
    Old,
    /// As if it had been acknowledged.
    New,
    /// Something between, as the operation allows.
    Between,
    /// Between, and in this block lies what its place on the device held before: a whole block of another file, or
    /// of another time. Nothing that was promised; and what a file system that orders its writes never shows.
    Exposed(usize, Stamp),
}

/// What was found after a power cut.
#[derive(Default, Debug)]
pub struct Verdict {
    /// Files compared.
    pub files: u64,
    /// What was promised and is not so.
    pub broken: Vec<String>,
    /// What came of the operation under way, if there was one.
    pub came: Option<Came>,
    /// Names that files had before they were renamed, which are there again.
    pub stale: Vec<String>,
    /// It was acknowledged without the device, and did not happen.
    pub late: bool,
}

impl Ledger {
    /// An empty one. `thread` makes its files different from those of all other threads.
    pub fn new(thread: u64, atomic: usize) -> Ledger {
        Ledger {
            folder: format!("t{thread}"),
            kept: BTreeMap::new(),
            pending: None,
            late: false,
            acknowledged: 0,
            atomic,
            numbers: thread << 48,
        }
    }

    /// A number that was never used before.
    pub fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// The name of a slot's file.
    pub fn path(&self, mount: &Path, slot: u64) -> PathBuf {
        mount.join(&self.folder).join(format!("f{slot}"))
    }

    /// The name of the file that is to replace a slot's.
    pub fn beside(&self, mount: &Path, slot: u64) -> PathBuf {
        mount.join(&self.folder).join(format!("n{slot}"))
    }

    /// The last system call of the operation under way has succeeded.
    pub fn acknowledge(&mut self) {
        match self.pending.take() {
            None => return,
            Some(Pending::Create { slot, new } | Pending::Replace { slot, new }) => {
                self.kept.insert(slot, new);
            }
            Some(Pending::Overwrite { slot, first, count, version }) => {
                if let Some(kept) = self.kept.get_mut(&slot) {
                    kept.blocks[first..first + count].fill(version);
                }
            }
            Some(Pending::Append { slot, count, version }) => {
                if let Some(kept) = self.kept.get_mut(&slot) {
                    kept.blocks.extend(std::iter::repeat_n(version, count));
                }
            }
            Some(Pending::Unlink { slot }) => {
                self.kept.remove(&slot);
            }
        }
        self.acknowledged += 1;
    }

    /// Compares what is there with what was promised. Then the operation under way is undone and
    /// forgotten, so that the next cycle starts from a state that is known.
    ///
    /// # Errors
    /// What the system said while the folder was read or put in order.
    pub fn verify(&mut self, mount: &Path) -> io::Result<Verdict> {
        let mut verdict = Verdict::default();
        let touched = match &self.pending {
            None => None,
            Some(
                Pending::Create { slot, .. }
                | Pending::Overwrite { slot, .. }
                | Pending::Append { slot, .. }
                | Pending::Replace { slot, .. }
                | Pending::Unlink { slot },
            ) => Some(*slot),
        };
        for (slot, kept) in self.kept.iter().filter(|(slot, _)| Some(**slot) != touched) {
            verdict.files += 1;
            if let Err(what) = exactly(&self.path(mount, *slot), kept)? {
                verdict.broken.push(format!("{}/f{slot}: {what}", self.folder));
            }
        }
        self.foreign(mount, touched, &mut verdict)?;
        let late = std::mem::take(&mut self.late);
        let Some(slot) = touched else { return Ok(verdict) };
        match self.came(mount)? {
            Ok(came) => verdict.came = Some(came),
            Err(what) => {
                verdict.broken.push(format!("{}/f{slot} (under way): {what}", self.folder))
            }
        }
        verdict.late = late && verdict.came != Some(Came::New);
        for path in [self.path(mount, slot), self.beside(mount, slot)] {
            match fs::remove_file(path) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        fs::File::open(mount.join(&self.folder))?.sync_all()?;
        self.kept.remove(&slot);
        self.pending = None;
        Ok(verdict)
    }

    /// Names that nobody is known to have made: an acknowledged unlink that came back.
    fn foreign(&self, mount: &Path, touched: Option<u64>, verdict: &mut Verdict) -> io::Result<()> {
        let folder = match fs::read_dir(mount.join(&self.folder)) {
            Ok(folder) => folder,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                verdict.broken.push(format!("{}: the folder is gone", self.folder));
                return Ok(());
            }
            Err(e) => return Err(e),
        };
        for entry in folder {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let slot = name.get(1..).and_then(|number| number.parse::<u64>().ok());
            let known = match slot {
                Some(slot) if name.starts_with('f') => {
                    self.kept.contains_key(&slot) || touched == Some(slot)
                }
                slot => slot.is_some() && slot == touched,
            };
            if known {
                continue;
            }
            let bytes = contents(&path)?.unwrap_or_default();
            let what = bytes.get(..BLOCK).and_then(Stamp::of);
            let kept = slot.and_then(|slot| self.kept.get(&slot));
            // Every file of that name was renamed, and that was acknowledged.
            let renamed = name.starts_with('n');
            let text =
                format!("{}/{name}: should not be there: {what:?}; now {kept:?}", self.folder);
            if renamed { &mut verdict.stale } else { &mut verdict.broken }.push(text);
            fs::remove_file(path)?;
        }
        if !verdict.stale.is_empty() {
            fs::File::open(mount.join(&self.folder))?.sync_all()?;
        }
        Ok(())
    }

    /// What became of the operation under way, or why that cannot have come of it.
    fn came(&self, mount: &Path) -> io::Result<Result<Came, String>> {
        let Some(pending) = &self.pending else { return Ok(Ok(Came::Old)) };
        let old = |slot: &u64| self.kept.get(slot);
        Ok(match pending {
            Pending::Create { slot, new } => match contents(&self.path(mount, *slot))? {
                None => Ok(Came::Old),
                // Neither its length nor its blocks were promised.
                Some(bytes) => grown(&bytes, &Kept { file: new.file, blocks: vec![] }, new),
            },
            Pending::Append { slot, count, version } => {
                let Some(old) = old(slot) else { return Ok(Err("unknown".to_string())) };
                let mut new = old.clone();
                new.blocks.extend(std::iter::repeat_n(*version, *count));
                match contents(&self.path(mount, *slot))? {
                    None => Err("gone".to_string()),
                    Some(bytes) => grown(&bytes, old, &new),
                }
            }
            Pending::Overwrite { slot, first, count, version } => {
                let Some(old) = old(slot) else { return Ok(Err("unknown".to_string())) };
                let mut new = old.clone();
                new.blocks[*first..*first + *count].fill(*version);
                match contents(&self.path(mount, *slot))? {
                    None => Err("gone".to_string()),
                    Some(bytes) => mixed(&bytes, old, &new, self.atomic),
                }
            }
            Pending::Replace { slot, new } => {
                let path = self.path(mount, *slot);
                match (exactly(&path, new)?, old(slot)) {
                    (Ok(()), _) => Ok(Came::New),
                    (Err(_), Some(old)) => exactly(&path, old)?
                        .map(|()| Came::Old)
                        .map_err(|what| format!("neither the old file nor the new: {what}")),
                    (Err(what), None) => Err(what),
                }
            }
            Pending::Unlink { slot } => {
                let path = self.path(mount, *slot);
                match (contents(&path)?, old(slot)) {
                    (None, _) => Ok(Came::New),
                    (Some(_), Some(old)) => exactly(&path, old)?.map(|()| Came::Old),
                    (Some(_), None) => Err("was never made".to_string()),
                }
            }
        })
    }
}

/// A file's bytes; none if there is no such file.
fn contents(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Whether block `i` is the one of a file.
fn is(bytes: &[u8], kept: &Kept, i: usize) -> bool {
    let version = kept.blocks.get(i).copied();
    let found = Stamp::of(bytes);
    found.is_some()
        && found == version.map(|version| Stamp { file: kept.file, block: i as u64, version })
}

/// Whether a file is what it should be, to the byte.
fn exactly(path: &Path, kept: &Kept) -> io::Result<Result<(), String>> {
    let Some(bytes) = contents(path)? else { return Ok(Err("gone".to_string())) };
    let expected = kept.blocks.len() * BLOCK;
    if bytes.len() != expected {
        return Ok(Err(format!("{} bytes instead of {expected}", bytes.len())));
    }
    for (i, block) in bytes.chunks(BLOCK).enumerate() {
        if !is(block, kept, i) {
            let found = match Stamp::of(block) {
                Some(stamp) => format!("{stamp:?}"),
                None if block.iter().all(|byte| *byte == 0) => "zeroes".to_string(),
                None => "garbage".to_string(),
            };
            let version = kept.blocks[i];
            let file = kept.file;
            return Ok(Err(format!("block {i}: {found} instead of {version} of {file}")));
        }
    }
    Ok(Ok(()))
}

/// A file that was being made longer: the old part is as promised; behind it right blocks, or
/// zeroes where a length was durable before the data, up to any length; what lay there before is named.
fn grown(bytes: &[u8], old: &Kept, new: &Kept) -> Result<Came, String> {
    let (least, most) = (old.blocks.len() * BLOCK, new.blocks.len() * BLOCK);
    if bytes.len() < least || bytes.len() > most {
        return Err(format!("{} bytes: expected {least} to {most}", bytes.len()));
    }
    let (mut right, mut exposed) = (0, None);
    for (i, block) in bytes.chunks(BLOCK).enumerate() {
        let whole = block.len() == BLOCK;
        if whole && is(block, new, i) {
            right += 1;
        } else if i < old.blocks.len() {
            return Err(format!("block {i}, which was promised before, has changed"));
        } else if whole && block.iter().any(|byte| *byte != 0) {
            let Some(stamp) = Stamp::of(block) else {
                return Err(format!("block {i} is neither zeroes nor anybody's"));
            };
            exposed.get_or_insert((i, stamp));
        }
    }
    if let Some((i, stamp)) = exposed {
        return Ok(Came::Exposed(i, stamp));
    }
    Ok(match (bytes.len(), right) {
        (length, _) if length == least => Came::Old,
        (_, right) if right == new.blocks.len() => Came::New,
        _ => Came::Between,
    })
}

/// A file that was being written over: each piece of `atomic` bytes is old or new.
fn mixed(bytes: &[u8], old: &Kept, new: &Kept, atomic: usize) -> Result<Came, String> {
    if bytes.len() != old.blocks.len() * BLOCK {
        return Err(format!("{} bytes: expected {}", bytes.len(), old.blocks.len() * BLOCK));
    }
    let (mut are_old, mut are_new) = (true, true);
    let mut expected = [[0; BLOCK]; 2];
    for (i, block) in bytes.chunks(BLOCK).enumerate() {
        for (kept, bytes) in [old, new].into_iter().zip(&mut expected) {
            Stamp { file: kept.file, block: i as u64, version: kept.blocks[i] }.fill(bytes);
        }
        let pieces = expected.each_ref().map(|bytes| bytes.chunks(atomic));
        let [was, is_new] = pieces;
        for ((was, is_new), piece) in was.zip(is_new).zip(block.chunks(atomic)) {
            if piece != was && piece != is_new {
                return Err(format!("block {i} is neither the old one nor the new"));
            }
            are_old &= piece == was;
            are_new &= piece == is_new;
        }
    }
    Ok(match (are_old, are_new) {
        (true, _) => Came::Old,
        (_, true) => Came::New,
        _ => Came::Between,
    })
}
