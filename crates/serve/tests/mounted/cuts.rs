//! Power cuts below a mounted volume: what was synced is there.

use super::*;

pub fn after_a_power_cut_what_was_synced_is_there() {
    for seed in 1..5 {
        let here = Here::new(stack(Some(seed)), "");
        let power = here.mount.as_ref().unwrap().stack().power;
        fs::create_dir(here.path("d")).unwrap();
        fs::write(here.path("d/synced"), [7; 100_000]).unwrap();
        File::open(here.path("d/synced")).unwrap().sync_all().unwrap();
        fs::write(here.path("d/other"), [8; 100_000]).unwrap();
        let open = File::open(here.path("d/synced")).unwrap();
        power.cut(When::Now).unwrap();
        assert_eq!(errno(File::create(here.path("x"))), Errno::IO);
        assert_eq!(
            errno(fs::read_dir(&here.dir).and_then(|mut all| all.next().unwrap())),
            Errno::IO
        );
        power.on().unwrap();
        assert_eq!(fs::read(here.path("d/synced")).unwrap(), [7; 100_000]);
        if let Ok(other) = fs::read(here.path("d/other")) {
            assert!(other.len() <= 100_000 && other.iter().all(|b| *b == 8 || *b == 0));
        }
        // What was open then belongs to a mount that is gone.
        assert!(open.sync_all().is_err());
        fs::write(here.path("d/after"), "after").unwrap();
        drop(open);
        here.end();
    }
}

/// One block of a thread's file: every word says whose it is and which version.
fn stamped(thread: usize, block: u64, version: u32) -> Vec<u8> {
    let word = (thread as u64) << 56 | block << 32 | u64::from(version);
    word.to_le_bytes().repeat(512)
}

/// What is known of a block that is written over again and again.
#[derive(Clone, Copy, Default)]
struct Known {
    /// The version that was acknowledged, or found after a cut.
    synced: u32,
    /// The version that was asked for when the power went: it may be there or not.
    pending: Option<u32>,
    /// The version asked for last. No version is asked for twice: one that a cut took away must
    /// not pass for a later one when it comes back.
    last: u32,
}

/// Four threads write over blocks of their own files and sync each time; the ledger is what was
/// acknowledged. The device below tears whatever is larger than a sector: before nodes carried checksums one
/// cut in thirty lost a file. `VARVE_CUTS=all`: 300 cuts.
pub fn cuts_that_tear_blocks_lose_nothing_that_was_synced() {
    let here = Here::new(stack(Some(77)), "commit=3600");
    cut_while_syncing(&here, cuts(30, 300), 0);
    here.end();
}

/// The same on volumes so full that they are cleaned, ahead of need. `VARVE_CUTS=all`: 100 cuts of each.
pub fn cuts_of_a_crowded_volume_lose_nothing_that_was_synced() {
    for cleaning in ["scj", "bl6"] {
        let here = Here::new(stack(Some(78)), &format!("commit=3600,cleaning={cleaning},ahead=2"));
        crowd(&here);
        // How much is cleaned before a cut comes is a matter of time: on a busy machine it takes more of them.
        let ahead = cut_while_syncing(&here, cuts(12, 100), 11);
        assert!(ahead > 10, "{cleaning}: {ahead} segments cleaned ahead of need");
        assert_eq!(counter(&here, "reads_with_the_lock"), 0, "{cleaning}");
        here.end();
    }
}

fn cuts(few: u64, all: u64) -> u64 {
    if std::env::var("VARVE_CUTS").is_ok_and(|value| value == "all") { all } else { few }
}

/// Fills a volume to 88 % and takes every sixth file away again: holes everywhere.
fn crowd(here: &Here) {
    let blocks = counter(here, "blocks");
    let mut made = 0;
    while counter(here, "used_blocks") * 100 < blocks * 88 {
        fs::write(here.path(&format!("old{made}")), [5; 16 * 4096]).unwrap();
        made += 1;
    }
    for n in (0..made).step_by(6) {
        fs::remove_file(here.path(&format!("old{n}"))).unwrap();
    }
    File::open(&here.dir).unwrap().sync_all().unwrap();
}

/// Cuts the power so often while threads sync, and on until so many segments were cleaned ahead of need, or ten times as
/// often; how many were.
fn cut_while_syncing(here: &Here, cuts: u64, wanted: u64) -> u64 {
    const THREADS: usize = 4;
    const BLOCKS: u64 = 40;
    let mut ahead = 0;
    let power = here.mount.as_ref().unwrap().stack().power;
    assert_eq!(here.stack.disk.capabilities().atomic, 512);
    let mut ledger = [[Known::default(); BLOCKS as usize]; THREADS];
    let acknowledged = AtomicU64::new(0);
    for cut in 0..10 * cuts {
        if cut >= cuts && ahead >= wanted {
            break;
        }
        std::thread::scope(|scope| {
            for (thread, known) in ledger.iter_mut().enumerate() {
                let (path, acknowledged) = (here.path(&format!("file{thread}")), &acknowledged);
                scope.spawn(move || {
                    let mut open = OpenOptions::new();
                    let open = open.write(true).create(true).truncate(false);
                    let Ok(file) = open.open(&path) else { return };
                    let mut rng = block::Rng::stream(cut, &format!("thread {thread}"));
                    loop {
                        let block = rng.below(BLOCKS);
                        let at = &mut known[block as usize];
                        at.last += 1;
                        at.pending = Some(at.last);
                        let data = stamped(thread, block, at.last);
                        if file.write_all_at(&data, block * 4096).is_err()
                            || file.sync_all().is_err()
                        {
                            return;
                        }
                        (at.synced, at.pending) = (at.last, None);
                        acknowledged.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let mut rng = block::Rng::stream(cut, "cut");
            std::thread::sleep(std::time::Duration::from_millis(5 + rng.below(30)));
            ahead += counter(here, "cleaned_segments_ahead");
            let operations = power.state().operations;
            let when = match rng.below(3) {
                0 => When::Now,
                1 => When::NextFlush,
                _ => When::Operation(operations + 5 + rng.below(60)),
            };
            if power.cut(when).is_err() {
                // That operation was over by then.
                power.cut(When::Now).unwrap();
            }
        });
        assert!(!power.state().on, "cut {cut}: an error came before the power went");
        power.on().unwrap();
        for (thread, known) in ledger.iter_mut().enumerate() {
            let file = File::open(here.path(&format!("file{thread}")));
            for (block, known) in (0..).zip(known.iter_mut()) {
                let mut out = vec![0; 4096];
                let there = match &file {
                    Ok(file) => file.read_at(&mut out, block * 4096).unwrap(),
                    Err(_) => 0,
                };
                let Known { synced, pending, .. } = *known;
                let mut allowed = std::iter::once(synced).chain(pending);
                let found = allowed.find(|version| match version {
                    0 => out == [0; 4096],
                    version => there == 4096 && out == stamped(thread, block, *version),
                });
                let found = found.unwrap_or_else(|| {
                    let first = u64::from_le_bytes(out[..8].try_into().unwrap());
                    panic!(
                        "cut {cut}: block {block} of file {thread} begins with {first:#018x}, expected \
                         version {synced} as acknowledged, or {pending:?} as asked for"
                    )
                });
                (known.synced, known.pending) = (found, None);
            }
        }
    }
    // A cut that comes before anything was acknowledged takes nothing away.
    let acknowledged = acknowledged.into_inner();
    assert!(acknowledged > cuts * 10, "{acknowledged} writes acknowledged before {cuts} cuts");
    ahead
}
