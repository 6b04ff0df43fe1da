//! Loads of files: the ported program makes the calls that it should, every block is counted, and
//! the same run gives the same numbers.

use block::{BlockDevice, DeviceError, Op, Request, Sectors, Time};
use lfs::fs::{Cleaning, FsOptions, Scj, Stats};
use varve_lab::fileload::{Cache, Fsload, FsloadMode, Sparse, Volume};

/// Counts what it is asked and takes no time.
#[derive(Default)]
struct Counting {
    written: u64,
    flushes: u64,
}

const SECTORS: Sectors = Sectors(128 << 11);

impl BlockDevice for Counting {
    fn capacity(&self) -> Sectors {
        SECTORS
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        match request.op {
            Op::Write => self.written += request.sectors.0 / 8,
            Op::Flush => self.flushes += 1,
            _ => {}
        }
        Ok(at)
    }
}

fn run(mode: FsloadMode, cleaning: Cleaning, dirty: u64) -> (Stats, u64, u64) {
    let device = Sparse::new(Counting::default(), SECTORS);
    let options = FsOptions { cleaning, ..FsOptions::default() };
    let mut volume = Volume::make(device, Time::ZERO, options, Cache::new(1 << 20, dirty)).unwrap();
    let mut load = Fsload::new(mode, 350, 128);
    load.fill(&mut volume).unwrap();
    volume.fs_mut().settle().unwrap();
    let (before, asked) = (volume.fs().stats(), volume.fs().device().below().written);
    let written = volume.written;
    load.run(&mut volume, 1500).unwrap();
    let stats = volume.fs().stats().since(&before);
    let device = volume.fs().device().below();
    assert_eq!(device.written - asked, stats.all_written(), "C8");
    let now = lfs::Now { at: volume.ready(), ..lfs::Now::default() };
    volume.fs_mut().check(now).unwrap();
    (stats, volume.written - written, load.fsyncs())
}

fn scj() -> Cleaning {
    Cleaning::Scj(Scj { slots: 8, threshold: Some(1024), count_needed: true, batch: 1 })
}

#[test]
fn every_way_of_cleaning_serves_the_same_calls_and_counts_every_block() {
    let runs: Vec<_> = [Cleaning::Bl415, Cleaning::Bl6, scj()]
        .into_iter()
        .map(|cleaning| run(FsloadMode::Fileserver, cleaning, 0))
        .collect();
    let [bl, kernel, journalled] = &runs[..] else { panic!("three runs") };
    // What the program writes does not depend on the file system.
    assert!(runs.iter().all(|(_, user, _)| *user == bl.1 && *user > 10_000), "{}", bl.1);
    let cleaned = |stats: &Stats| stats.gc_segments.iter().sum::<u64>();
    assert!(runs.iter().all(|(stats, ..)| cleaned(stats) > 10), "nothing was cleaned");
    // The paper's baseline: a checkpoint for each cleaning, and the sync at the end.
    assert_eq!(bl.0.cp_calls, cleaned(&bl.0) + 1);
    assert!(kernel.0.cp_calls < bl.0.cp_calls);
    assert!(journalled.0.cp_calls < kernel.0.cp_calls, "{:?}", journalled.0.triggers);
    assert!(journalled.0.journal[0] > 0 && journalled.0.slots_high <= 8);
    assert_eq!(bl.0.journal, [0, 0]);
    let named = journalled.0.named();
    let of = |name: &str| named.iter().find(|(n, _)| *n == name).map(|(_, count)| *count);
    assert_eq!(of("CP calls"), Some(journalled.0.cp_calls));
    assert_eq!(of("GC calls"), Some(cleaned(&journalled.0)));
    assert_eq!(of("journal blocks"), Some(2 * journalled.0.journal[0]));
}

#[test]
fn what_is_deleted_in_the_cache_is_not_written_and_runs_repeat() {
    let through = run(FsloadMode::Fileserver, scj(), 0);
    let cached = run(FsloadMode::Fileserver, scj(), 2000);
    assert_eq!(through.1, cached.1);
    let data = |stats: &Stats| stats.of(lfs::Cause::Data);
    assert_eq!(data(&through.0), through.1);
    assert!(data(&cached.0) < data(&through.0));
    let mail = run(FsloadMode::Varmail, scj(), 2000);
    let again = run(FsloadMode::Varmail, scj(), 2000);
    assert_eq!(mail, again);
    assert!(mail.2 > 500 && mail.0.flushes >= mail.2, "{} fsyncs", mail.2);
}
