//! What runs while the power goes: threads that change files and wait for `fsync` each time, and
//! one that writes and waits for nothing, so that there is always something to lose.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use block::Rng;
use rustix::fs::OFlags;

use crate::content::{BLOCK, Stamp};
use crate::ledger::{Kept, Ledger, Pending};

/// Files of a thread.
const SLOTS: u64 = 24;
/// Blocks of a new file at most, and of one that grows.
const NEW: u64 = 16;
const LONGEST: usize = 64;

/// How a thread ended.
#[derive(Debug)]
pub struct Ended {
    /// The error that ended it, if one did.
    pub error: Option<io::Error>,
    /// Whether the power was asked to go before that error.
    pub expected: bool,
}

/// Works until told to stop, or until something fails. Once the power may be `going`, an
/// acknowledgement counts only if the device still `answers` after it.
pub fn work(
    ledger: &mut Ledger,
    mount: &Path,
    rng: &mut Rng,
    stop: &AtomicBool,
    going: &AtomicBool,
    answers: impl Fn() -> bool,
) -> Ended {
    while !stop.load(Ordering::SeqCst) {
        if let Err(error) = attempt(ledger, mount, rng) {
            return Ended { error: Some(error), expected: going.load(Ordering::SeqCst) };
        }
        if going.load(Ordering::SeqCst) && !answers() {
            ledger.late = true;
            break;
        }
        ledger.acknowledge();
    }
    Ended { error: None, expected: true }
}

/// One operation, down to its last `fsync`; it stays pending.
///
/// # Errors
/// What the system said.
fn attempt(ledger: &mut Ledger, mount: &Path, rng: &mut Rng) -> io::Result<()> {
    let slot = rng.below(SLOTS);
    let length = ledger.kept.get(&slot).map(|kept| kept.blocks.len());
    let pending = match (length, rng.below(10)) {
        (None, _) => {
            let new = fresh(ledger, rng);
            Pending::Create { slot, new }
        }
        (Some(length), 0..=4) => {
            let first = rng.below(length as u64) as usize;
            let count = rng.between(1, (length - first) as u64) as usize;
            Pending::Overwrite { slot, first, count, version: ledger.number() }
        }
        (Some(length), 5 | 6) if length < LONGEST => {
            let count = rng.between(1, NEW) as usize;
            Pending::Append { slot, count, version: ledger.number() }
        }
        (Some(_), 7) => Pending::Unlink { slot },
        _ => {
            let new = fresh(ledger, rng);
            Pending::Replace { slot, new }
        }
    };
    ledger.pending = Some(pending.clone());
    perform(ledger, mount, &pending)
}

fn fresh(ledger: &mut Ledger, rng: &mut Rng) -> Kept {
    let (file, version) = (ledger.number(), ledger.number());
    Kept { file, blocks: vec![version; rng.between(1, NEW) as usize] }
}

fn perform(ledger: &Ledger, mount: &Path, pending: &Pending) -> io::Result<()> {
    let folder = || File::open(mount.join(&ledger.folder))?.sync_all();
    let open = |slot: u64| OpenOptions::new().write(true).open(ledger.path(mount, slot));
    let number = |slot: u64| ledger.kept.get(&slot).map_or(0, |kept| kept.file);
    match pending {
        Pending::Create { slot, new } => {
            let file = File::create_new(ledger.path(mount, *slot))?;
            put(&file, new.file, 0, &new.blocks)?;
            file.sync_all()?;
            folder()
        }
        Pending::Overwrite { slot, first, count, version } => {
            let file = open(*slot)?;
            put(&file, number(*slot), *first, &vec![*version; *count])?;
            file.sync_data()
        }
        Pending::Append { slot, count, version } => {
            let file = open(*slot)?;
            let length = ledger.kept.get(slot).map_or(0, |kept| kept.blocks.len());
            put(&file, number(*slot), length, &vec![*version; *count])?;
            file.sync_data()
        }
        Pending::Replace { slot, new } => {
            let beside = ledger.beside(mount, *slot);
            let file = File::create(&beside)?;
            put(&file, new.file, 0, &new.blocks)?;
            file.sync_all()?;
            fs::rename(beside, ledger.path(mount, *slot))?;
            folder()
        }
        Pending::Unlink { slot } => {
            fs::remove_file(ledger.path(mount, *slot))?;
            folder()
        }
    }
}

/// Writes blocks of a file from the `first` on.
fn put(file: &File, number: u64, first: usize, versions: &[u64]) -> io::Result<()> {
    let mut bytes = vec![0; versions.len() * BLOCK];
    for (i, (out, version)) in bytes.chunks_mut(BLOCK).zip(versions).enumerate() {
        Stamp { file: number, block: (first + i) as u64, version: *version }.fill(out);
    }
    file.write_all_at(&bytes, (first * BLOCK) as u64)
}

/// A buffer that the kernel takes for direct I/O, and where in it to start.
pub fn aligned(bytes: usize) -> (Vec<u8>, usize) {
    let buffer = vec![0; bytes + BLOCK];
    let skip = buffer.as_ptr().align_offset(BLOCK);
    (buffer, skip)
}

/// Writes past the page cache and waits for nothing, until told to stop or until it fails. Nobody
/// promised anything about what it writes.
pub fn disturb(mount: &Path, rng: &mut Rng, stop: &AtomicBool) {
    let folder = mount.join("noise");
    let (buffer, skip) = aligned(64 * BLOCK);
    while !stop.load(Ordering::SeqCst) {
        let path = folder.join(rng.below(8).to_string());
        let direct = OFlags::DIRECT.bits() as i32;
        let mut how = OpenOptions::new();
        how.create(true).write(true).truncate(false).custom_flags(direct);
        let written = how.open(&path).and_then(|file| {
            let blocks = rng.between(1, 64) as usize;
            let at = rng.below(256) * BLOCK as u64;
            file.write_all_at(&buffer[skip..skip + blocks * BLOCK], at)
        });
        let removed = match rng.ratio(1, 20) {
            true => fs::remove_file(&path),
            false => Ok(()),
        };
        if written.and(removed).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Came;
    use std::path::PathBuf;

    /// A folder with some work done in it.
    fn worked(name: &str, steps: u64) -> (PathBuf, Ledger, Rng) {
        let mount = std::env::temp_dir().join(format!("varve-cuts-{name}-{}", std::process::id()));
        fs::create_dir_all(mount.join("t3")).unwrap();
        let (mut ledger, mut rng) = (Ledger::new(3, BLOCK), Rng::new(5));
        for _ in 0..steps {
            attempt(&mut ledger, &mount, &mut rng).unwrap();
            ledger.acknowledge();
        }
        (mount, ledger, rng)
    }

    #[test]
    fn what_was_done_is_found() {
        let (mount, mut ledger, _) = worked("found", 300);
        let verdict = ledger.verify(&mount).unwrap();
        assert_eq!(verdict.broken, Vec::<String>::new());
        assert_eq!((verdict.came, ledger.acknowledged), (None, 300));
        assert!(verdict.files > 5, "{verdict:?}");
        fs::remove_dir_all(mount).unwrap();
    }

    #[test]
    fn what_is_lost_or_changed_is_noticed() {
        let (mount, mut ledger, _) = worked("lost", 300);
        let slot = *ledger.kept.keys().next().unwrap();
        let path = ledger.path(&mount, slot);
        let good = fs::read(&path).unwrap();
        let mut noticed = |what: &str| {
            let verdict = ledger.verify(&mount).unwrap();
            assert_eq!(verdict.broken.len(), 1, "{what}: {verdict:?}");
            fs::write(&path, &good).unwrap();
        };
        fs::remove_file(&path).unwrap();
        noticed("a file is gone");
        fs::write(&path, &good[..good.len() - BLOCK]).unwrap();
        noticed("it is shorter");
        fs::write(&path, [&good[..], &[0; BLOCK]].concat()).unwrap();
        noticed("it is longer");
        let mut bad = good.clone();
        bad[100] ^= 4;
        fs::write(&path, &bad).unwrap();
        noticed("a bit is different");
        // An older version of the same block: right in itself, and yet not what was promised.
        let mut stamp = Stamp::of(&good[..BLOCK]).unwrap();
        stamp.version -= 1;
        stamp.fill(&mut bad[..BLOCK]);
        fs::write(&path, &bad).unwrap();
        noticed("a block is old");
        fs::write(mount.join("t3/f77"), &good).unwrap();
        noticed("a removed file is back");
        fs::write(mount.join(format!("t3/n{slot}")), &good).unwrap();
        let verdict = ledger.verify(&mount).unwrap();
        assert_eq!((verdict.broken.len(), verdict.stale.len()), (0, 1), "a name before a rename");
        fs::remove_dir_all(mount).unwrap();
    }

    #[test]
    fn an_acknowledgement_without_the_device_is_late_only_if_it_did_not_happen() {
        let (stop, going) = (AtomicBool::new(false), AtomicBool::new(true));
        let mut late = Vec::new();
        for happened in [true, false] {
            let (mount, mut ledger, mut rng) = worked(&format!("late-{happened}"), 0);
            let ended = work(&mut ledger, &mount, &mut rng, &stop, &going, || false);
            assert!(ended.error.is_none() && ledger.late, "{ended:?}");
            if !happened {
                fs::remove_dir_all(mount.join("t3")).unwrap();
                fs::create_dir(mount.join("t3")).unwrap();
            }
            let verdict = ledger.verify(&mount).unwrap();
            assert_eq!(verdict.broken, Vec::<String>::new());
            late.push(verdict.late);
            // It is said of one power cut.
            assert!(!ledger.verify(&mount).unwrap().late);
            fs::remove_dir_all(mount).unwrap();
        }
        assert_eq!(late, [false, true]);
    }

    #[test]
    fn what_was_under_way_may_be_old_or_new_and_nothing_else() {
        let (mount, mut ledger, mut rng) = worked("pending", 200);
        let slot = *ledger.kept.keys().next().unwrap();
        let came = |ledger: &mut Ledger| ledger.verify(&mount).unwrap();
        // Replaced, and whole.
        let new = fresh(&mut ledger, &mut rng);
        let pending = Pending::Replace { slot, new };
        ledger.pending = Some(pending.clone());
        perform(&ledger, &mount, &pending).unwrap();
        assert_eq!(came(&mut ledger).came, Some(Came::New));
        assert!(!ledger.kept.contains_key(&slot), "the next cycle starts from what is known");
        // Begun: half of an append is there, and then a block of somebody else's.
        let slot = *ledger.kept.keys().next().unwrap();
        let kept = ledger.kept[&slot].clone();
        let version = ledger.number();
        ledger.pending = Some(Pending::Append { slot, count: 2, version });
        let file = OpenOptions::new().write(true).open(ledger.path(&mount, slot)).unwrap();
        put(&file, kept.file, kept.blocks.len(), &[version]).unwrap();
        assert_eq!(came(&mut ledger).came, Some(Came::Between));
        let slot = *ledger.kept.keys().next().unwrap();
        let length = ledger.kept[&slot].blocks.len();
        ledger.pending = Some(Pending::Append { slot, count: 2, version });
        let file = OpenOptions::new().write(true).open(ledger.path(&mount, slot)).unwrap();
        put(&file, 12345, length, &[version]).unwrap();
        let verdict = came(&mut ledger);
        let other = Stamp { file: 12345, block: length as u64, version };
        assert_eq!(verdict.came, Some(Came::Exposed(length, other)), "{verdict:?}");
        assert!(verdict.broken.is_empty(), "{verdict:?}");
        // And nobody's.
        let slot = *ledger.kept.keys().next().unwrap();
        let length = ledger.kept[&slot].blocks.len();
        ledger.pending = Some(Pending::Append { slot, count: 1, version });
        let file = OpenOptions::new().write(true).open(ledger.path(&mount, slot)).unwrap();
        file.write_all_at(&[7; BLOCK], (length * BLOCK) as u64).unwrap();
        let verdict = came(&mut ledger);
        assert_eq!((verdict.came, verdict.broken.len()), (None, 1), "{verdict:?}");
        // A block of which one half was written: only where the device may tear it.
        for (atomic, came_of_it) in [(BLOCK, None), (512, Some(Came::Between))] {
            let slot = *ledger.kept.keys().next().unwrap();
            let kept = ledger.kept[&slot].clone();
            let version = ledger.number();
            ledger.pending = Some(Pending::Overwrite { slot, first: 0, count: 1, version });
            let mut block = [0; BLOCK];
            Stamp { file: kept.file, block: 0, version }.fill(&mut block);
            let file = OpenOptions::new().write(true).open(ledger.path(&mount, slot)).unwrap();
            file.write_all_at(&block[..BLOCK / 2], 0).unwrap();
            ledger.atomic = atomic;
            let verdict = came(&mut ledger);
            assert_eq!(
                (verdict.came, verdict.broken.len()),
                (came_of_it, usize::from(atomic == BLOCK))
            );
        }
        // Replaced by half a file.
        let slot = *ledger.kept.keys().next().unwrap();
        let mut new = fresh(&mut ledger, &mut rng);
        new.blocks = vec![new.blocks[0]; 4];
        ledger.pending = Some(Pending::Replace { slot, new: new.clone() });
        fs::write(ledger.path(&mount, slot), []).unwrap();
        let file = OpenOptions::new().write(true).open(ledger.path(&mount, slot)).unwrap();
        put(&file, new.file, 0, &new.blocks[..3]).unwrap();
        assert_eq!(came(&mut ledger).broken.len(), 1);
        fs::remove_dir_all(mount).unwrap();
    }
}
