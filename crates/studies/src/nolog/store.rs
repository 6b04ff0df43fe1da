//! The real store over the FTL drive, beside the model of the systems: the same pages.
//!
//! Everything else here runs SQLite over files in memory and serves its calls to a device later.
//! This runs SQLite over the store's own VFS, whose pages are on the drive and come back from it.

use std::sync::LazyLock;

use block::Span;
use lab::LabError;
use report::study::{Check, Section, Study, Table};
use report::values;
use rusqlite::{Connection, OpenFlags};
use varve_sqlite_vfs::{Checkpoint, RegisterError, Stats, Store, StoreOptions, Stores};

use super::Scale;
use super::experiment::{CPU, FULL, NORMAL, Variant, drive, failed, load};
use super::text::{hundredths, percent};
use sqlite::files::{Settings, Synchronous, api};
use sqlite::host::{Below, Flash, Handle, Ssd, System, Tally};
use sqlite::workload::bench::{Overwrite, Shape};

pub(super) const VFS: &str = "varve-reproduce";
/// Overwrites of a run.
const COUNT: u64 = 2000;
const SIZES: [usize; 2] = [256, 4096];
/// Bytes of values.
const TOTAL: u64 = 16 << 20;
/// Longer than any run: groups end by their pages alone.
const EVER: Span = Span::from_us(1 << 40);

static STORES: LazyLock<Result<Stores, RegisterError>> = LazyLock::new(|| {
    let stores = Stores::new();
    stores.register(&api(), VFS, false, None)?;
    Ok(stores)
});

/// The stores of all runs, under names of their own.
pub(super) fn stores() -> Result<&'static Stores, LabError> {
    STORES.as_ref().map_err(failed)
}

/// What a run over the store gave.
pub struct Kept {
    /// What the store did.
    pub stats: Stats,
    /// Work of the flash.
    pub flash: Flash,
    /// Virtual time of all operations.
    pub total: Span,
}

impl Kept {
    /// Pages the store wrote, but for its own table.
    pub fn pages(&self) -> u64 {
        self.stats.tagged + self.stats.plain
    }
}

fn options(system: System) -> StoreOptions {
    let usual = StoreOptions { group_time: EVER, ..StoreOptions::default() };
    match system {
        System::Remapped { .. } => StoreOptions { checkpoint: Checkpoint::Remap, ..usual },
        System::Transactions(Some(group)) => StoreOptions { group, ..usual },
        _ => usual,
    }
}

/// `count` overwrites over a store of this name on `ssd`.
///
/// # Errors
/// The store's, SQLite's.
pub fn keep(
    name: &str,
    variant: &Variant,
    ssd: Ssd,
    shape: Shape,
    count: u64,
) -> Result<Kept, LabError> {
    let stores = stores()?;
    let handle = Handle::new(ssd);
    let store = Store::format(Box::new(handle.clone()), options(variant.system)).map_err(failed)?;
    store.advance(handle.get().now());
    let name = format!("/reproduce/{name}");
    stores.add(&name, &store);
    let open = || Connection::open_with_flags_and_vfs(&name, OpenFlags::default(), VFS);
    let mut db = open().map_err(failed)?;
    // A rollback journal's fallback may be as large as it likes: loading is not measured.
    Settings::new("delete", Synchronous::Full).apply(&db).map_err(failed)?;
    let mut work = Overwrite::new(shape);
    work.load(&mut db).map_err(failed)?;
    db.close().map_err(|(_, error)| failed(error))?;
    let db = open().map_err(failed)?;
    variant.settings.apply(&db).map_err(failed)?;
    db.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).map_err(failed)?;
    store.flush().map_err(failed)?;
    let (before, begun) = (store.stats(), store.now());
    handle.get().reset();
    work.run(&db, count, &mut || store.advance(store.now() + CPU)).map_err(failed)?;
    if variant.settings.journal == "wal" {
        db.query_row("PRAGMA wal_checkpoint(FULL)", [], |_| Ok(())).map_err(failed)?;
    }
    store.flush().map_err(failed)?;
    let (after, total) = (store.stats(), store.now().since(begun));
    let flash = handle.get().flash().unwrap_or_default();
    let intact: String =
        db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(failed)?;
    if intact != "ok" {
        return Err(LabError::Check { contract: "served".to_string(), what: intact });
    }
    db.close().map_err(|(_, error)| failed(error))?;
    handle.get().check().map_err(|broken| LabError::Check {
        contract: broken.contract.to_string(),
        what: broken.what,
    })?;
    let stats = Stats {
        commits: after.commits - before.commits,
        groups: after.groups - before.groups,
        tagged: after.tagged - before.tagged,
        plain: after.plain - before.plain,
        table: after.table - before.table,
        remapped: after.remapped - before.remapped,
        ..after
    };
    Ok(Kept { stats, flash, total })
}

/// What the model says of the same.
///
/// # Errors
/// The drive's, SQLite's.
pub fn modelled(variant: &Variant, ssd: Ssd, shape: Shape, count: u64) -> Result<Tally, LabError> {
    let mut work = Overwrite::new(shape);
    let loaded = load(|db| work.load(db))?;
    let now = ssd.now();
    let outcome = loaded
        .run(variant, Box::new(ssd), (now, CPU), &mut |db, each| work.run(db, count, each))?;
    Ok(outcome.tally)
}

/// The systems that a store can be.
pub const VARIANTS: [(&Variant, &str); 4] =
    [(&FULL[1], "FULL"), (&FULL[2], "FULL"), (&FULL[4], "FULL"), (&NORMAL[2], "NORMAL")];

/// Pages by which store and model may differ: where the log starts again, which it does about every
/// thousand frames, its own header goes down with the first frame's or before it.
pub fn slack(variant: &Variant, model: &Tally) -> u64 {
    if variant.settings.journal == "wal" { model.pages() / 1000 + 1 } else { 0 }
}

/// Runs both, writes the section.
pub fn run(study: &mut Study) -> Result<(), LabError> {
    let mut table = Table::new([
        ("value", "value"),
        ("mode", "mode"),
        ("system", "system"),
        ("model_pages", "pages, model"),
        ("store_pages", "pages, store"),
        ("object_table", "object table"),
        ("flash_pages", "flash pages, store"),
        ("model_tx_s", "tx/s, model"),
        ("store_tx_s", "tx/s, store"),
    ]);
    let used = drive(Scale::Quick, 50, &["tx.commit=barrier"])?;
    let mut unequal = Vec::new();
    let mut worst = 0;
    for value in SIZES {
        let shape = Shape::holding(TOTAL, value);
        for (at, (variant, mode)) in VARIANTS.into_iter().enumerate() {
            let model = modelled(variant, used.clone(), shape, COUNT)?;
            let kept = keep(&format!("{value}-{at}"), variant, used.clone(), shape, COUNT)?;
            let slack = slack(variant, &model);
            if kept.pages().abs_diff(model.pages()) > slack {
                unequal.push(format!("{} {value} B", variant.name));
            }
            let rate = |total: Span| COUNT * 1_000_000_000 / (total.as_ns() / 1000).max(1);
            let (a, b) = (rate(model.total), rate(kept.total));
            worst = worst.max(super::text::change(b, a).abs());
            table.row(values![
                format!("{value} B"),
                mode,
                variant.name,
                model.pages(),
                kept.pages(),
                kept.stats.table,
                kept.flash.programs(),
                hundredths(a, 1000),
                hundredths(b, 1000)
            ]);
        }
    }
    study.checks.push(Check {
        what: "the real store over the drive writes the pages that the model writes".to_string(),
        found: match unequal.is_empty() {
            true => format!("equal; throughput differs by at most {}", percent(worst)),
            false => unequal.join("; "),
        },
        holds: unequal.is_empty(),
    });
    study.sections.push(Section::new(
        "store",
        "The real store on the drive, beside the model",
        format!(
            "{COUNT} overwrites of 16 MiB of values, a drive of 256 MiB with 8 dies, half full, at \
             every scale. The store's pages are on the drive and are read from it where SQLite's \
             cache misses; the model leaves reads to the host's page cache."
        ),
        table,
    ));
    Ok(())
}
