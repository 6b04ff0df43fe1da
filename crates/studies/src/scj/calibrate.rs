//! The calibration: our kernel-like cleaning beside real F2FS of kernel 6.1 under the same load, on
//! the same geometry (1 GiB, 502 main segments), block for block.
//!
//! The kernel's figures are those that `scripts/f2fs-baseline` printed: plain, with `--dirty 4` and with
//! `--load varmail`, one run each. Runs differ by a few per cent: its flusher has its own time.

use block::{BlockDevice, DeviceError, Request, Sectors, Time};
use lfs::Cause;
use lfs::fs::{Cleaning, FsOptions as Mount, Stats};

use super::{Options, Scale, percent, section};
use crate::{parallel, text::ratio};
use lab::LabError;
use lab::fileload::{Cache, Fsload, FsloadMode, Sparse, Volume};
use report::study::{Check, Study, Table, Value};
use report::values;

/// Blocks of 1 GiB.
const BLOCKS: u64 = 1 << 18;
/// The guest's memory for pages, and a tenth of it, which may be dirty: 870 MiB.
const CACHE: (u64, u64) = (200_000, 22_300);

/// A device that takes no time.
struct Timeless;

impl BlockDevice for Timeless {
    fn capacity(&self) -> Sectors {
        Sectors(BLOCKS * 8)
    }
    fn atomic_unit(&self) -> block::Bytes {
        block::Bytes(block::UNIT_BYTES)
    }
    fn submit(&mut self, at: Time, _: Request<'_>) -> Result<Time, DeviceError> {
        Ok(at)
    }
}

/// Counters of a run, in blocks.
struct Counted {
    name: String,
    user: u64,
    written: u64,
    cleaned: u64,
    checkpoints: u64,
    moved: u64,
    node: u64,
    meta: u64,
}

/// What the kernel did.
fn kernel() -> [Counted; 3] {
    let one = |name: &str, n: [u64; 7]| Counted {
        name: name.to_string(),
        user: n[0],
        written: n[1],
        cleaned: n[2],
        checkpoints: n[3],
        moved: n[4],
        node: n[5],
        meta: n[6],
    };
    [
        one("kernel 6.1", [145_108, 329_866, 536, 382, 164_965, 22_834, 6_242]),
        one("kernel 6.1, 4 MiB dirty", [145_108, 391_621, 655, 370, 211_473, 26_222, 6_974]),
        one("kernel 6.1", [42_220, 87_032, 86, 51, 28_436, 13_209, 2_310]),
    ]
}

struct Run {
    name: &'static str,
    mode: FsloadMode,
    cleaning: Cleaning,
    cache: (u64, u64),
}

impl Run {
    fn run(&self) -> Result<Counted, LabError> {
        let (files, kib, operations) = match self.mode {
            FsloadMode::Fileserver => (5600, 128, 16_000),
            FsloadMode::Varmail => (21_000, 32, 14_000),
        };
        let device = Sparse::new(Timeless, Sectors(BLOCKS * 8));
        let options = Mount { cleaning: self.cleaning, cached_nodes: 1 << 16, ..Mount::default() };
        let mut volume =
            Volume::make(device, Time::ZERO, options, Cache::new(self.cache.0, self.cache.1))?;
        let mut load = Fsload::new(self.mode, files, kib);
        load.fill(&mut volume)?;
        let (before, written) = (volume.fs().stats(), volume.written);
        load.run(&mut volume, operations)?;
        Ok(counted(self.name, &volume.fs().stats().since(&before), volume.written - written))
    }
}

fn counted(name: &str, stats: &Stats, user: u64) -> Counted {
    use Cause::{Nat, Node, Pack, Sit, Ssa};
    Counted {
        name: name.to_string(),
        user,
        written: stats.all_written(),
        cleaned: stats.gc_segments.iter().sum(),
        checkpoints: stats.cp_calls,
        moved: stats.moved[0],
        node: stats.of(Node),
        meta: [Nat, Sit, Ssa, Pack].map(|cause| stats.of(cause)).iter().sum(),
    }
}

/// The paper's area, for a volume of 1/16.
const SLOTS: u32 = 4;

/// Runs the calibration.
pub(super) fn run(options: &Options, study: &mut Study) -> Result<(), LabError> {
    let scj = Cleaning::Scj(lfs::fs::Scj {
        slots: SLOTS,
        threshold: Some(BLOCKS / 128),
        count_needed: true,
        batch: 1,
    });
    let file = |name, cleaning, cache| Run { name, mode: FsloadMode::Fileserver, cleaning, cache };
    let mut runs = vec![
        file("kernel 6.1 (bl6), page cache", Cleaning::Bl6, CACHE),
        file("kernel 6.1 (bl6), 4 MiB dirty", Cleaning::Bl6, (CACHE.0, 1024)),
        file("BL, page cache", Cleaning::Bl415, CACHE),
        file("SCJ, page cache", scj, CACHE),
    ];
    if options.scale != Scale::Quick {
        let mail = |name, cleaning| Run { name, mode: FsloadMode::Varmail, cleaning, cache: CACHE };
        runs.push(mail("kernel 6.1 (bl6), page cache", Cleaning::Bl6));
        runs.push(mail("BL, page cache", Cleaning::Bl415));
        runs.push(mail("SCJ, page cache", scj));
    }
    let found = parallel::beside(options.threads, &runs, Run::run)?;
    let [whole, small, mail] = kernel();
    study.checks.extend(checks(&whole, &found[0], "page cache"));
    study.checks.extend(checks(&small, &found[1], "4 MiB dirty"));
    let mut table = Table::new([
        ("load", "load"),
        ("system", "system"),
        ("user", "user"),
        ("written", "written"),
        ("waf", "WAF"),
        ("cleanings", "cleanings"),
        ("cps", "CPs"),
        ("cp_per_cleaning", "CP/cleaning"),
        ("moved", "moved"),
        ("node", "node"),
        ("cp_sit_nat_ssa", "CP+SIT+NAT+SSA"),
    ]);
    let rows = [("fileserver", &whole), ("fileserver", &small)]
        .into_iter()
        .chain(found.iter().take(4).map(|one| ("fileserver", one)))
        .chain((options.scale != Scale::Quick).then_some(("varmail", &mail)))
        .chain(found.iter().skip(4).map(|one| ("varmail", one)));
    for (i, (load, one)) in rows.enumerate() {
        let place = if i < 2 || one.written == mail.written { "real: " } else { "here: " };
        table.row(values![
            load,
            format!("{place}{}", one.name),
            one.user,
            one.written,
            ratio((one.written, one.user)),
            one.cleaned,
            one.checkpoints,
            ratio((one.checkpoints, one.cleaned)),
            one.moved,
            percent((one.node, one.user)),
            percent((one.meta, one.user))
        ]);
    }
    study.sections.push(section(
        "calibration", "Calibration: real F2FS beside ours",
        "Counts, no times. 1 GiB, 502 main segments, one program: 5,600 files of 128 KiB (83 % full), then \
         16,000 operations; varmail: 21,000 files of 32 KiB, 14,000 operations, 7,000 fsyncs. The same \
         calls and draws on both sides. User: what the program wrote, also what was deleted before it left \
         the page cache. Kernel 6.1 in its default mode wrote 144,594 blocks and cleaned nothing: \
         journalled cleaning pays in pure log mode only.",
        table,
    ));
    Ok(())
}

/// Within such per cent of the other.
fn within(here: u64, real: u64, percent: u64) -> bool {
    here.abs_diff(real) * 100 <= real * percent
}

fn checks(real: &Counted, here: &Counted, what: &str) -> Vec<Check> {
    let both = |n: Value, m: Value| format!("{n} here, {m} there");
    let share = |one: &Counted| one.node * 1000 / one.user;
    let rate = here.checkpoints * 100 / here.cleaned.max(1);
    vec![
        Check {
            what: format!("calibration, {what}: write amplification within 10 % of real F2FS"),
            found: both(ratio((here.written, here.user)), ratio((real.written, real.user))),
            holds: within(here.written, real.written, 10),
        },
        Check {
            what: format!("calibration, {what}: cleanings within 15 %"),
            found: both(here.cleaned.into(), real.cleaned.into()),
            holds: within(here.cleaned, real.cleaned, 15),
        },
        Check {
            what: format!("calibration, {what}: 0.5 to 0.8 checkpoints for each cleaning"),
            found: both(
                ratio((here.checkpoints, here.cleaned)),
                ratio((real.checkpoints, real.cleaned)),
            ),
            holds: (50..=80).contains(&rate),
        },
        Check {
            what: format!("calibration, {what}: node blocks within 4 points of user blocks"),
            found: both(percent((here.node, here.user)), percent((real.node, real.user))),
            holds: share(here).abs_diff(share(real)) <= 40,
        },
    ]
}
