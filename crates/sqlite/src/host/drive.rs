//! The FTL drive below a host.

use block::{BlockDevice, DeviceError, Forward, Lba, Request, Rng, Sectors, Time};
use nand::Cause;
use ssd::{ConfigError, Drive, Params};

use super::{Below, Flash};

/// The drive with what its flash has done.
#[derive(Clone, Debug)]
pub struct Ssd {
    drive: Drive,
    base: Flash,
}

/// The drive of paper 4 with keys set.
///
/// # Errors
/// Keys that make no drive.
pub fn params(keys: &[&str]) -> Result<Params, ConfigError> {
    params_of("paper-nolog", keys)
}

/// A drive of a preset with keys set, each as `key=value`.
///
/// # Errors
/// A preset that is not there, keys that make no drive.
pub fn params_of(name: &str, keys: &[&str]) -> Result<Params, ConfigError> {
    let pairs = keys.iter().map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    stack::drive_config(name, pairs, "the load")?.resolve()
}

impl Ssd {
    /// A drive filled once from its first page to `filled`, then overwritten `overwrites` times
    /// at random there. No time passes in it meanwhile.
    ///
    /// # Errors
    /// The drive's.
    pub fn aged(params: &Params, filled: u32, overwrites: u64) -> Result<Ssd, AgedError> {
        let mut drive = Drive::new(params)?;
        drive.set_timing(false);
        let mut rng = Rng::stream(1, "sqlite/aging");
        let mut at = Time::ZERO;
        let random = (0..overwrites).map(|_| rng.below(filled.into()));
        for page in (0..u64::from(filled)).chain(random) {
            at = drive.submit(at, Request::write(Lba(8 * page), Sectors(8)))?;
        }
        drive.submit(at, Request::flush())?;
        drive.set_timing(true);
        let mut ssd = Ssd { drive, base: Flash::default() };
        ssd.reset();
        Ok(ssd)
    }

    /// When the drive was last asked.
    pub fn now(&self) -> Time {
        self.drive.now()
    }

    /// Its pages.
    pub fn pages(&self) -> u32 {
        self.drive.params().logical_pages
    }

    /// Whether it takes pages as transactions.
    pub fn has_transactions(&self) -> bool {
        self.drive.params().tx.is_some()
    }

    /// Somebody knows which pages die together ([`Drive::know`]).
    ///
    /// # Errors
    /// A drive without streams by hint.
    pub fn know(&mut self, known: Box<dyn ssd::Known>) -> Result<(), DeviceError> {
        self.drive.know(known)
    }

    /// The drive's own checks of its books.
    ///
    /// # Errors
    /// A promise that does not hold.
    pub fn check(&self) -> Result<(), ssd::Violation> {
        self.drive.check()
    }

    fn count(&self) -> Flash {
        let stats = self.drive.stats();
        // A mapping unit may be larger than a page.
        let pages = stats.slot_bytes / 4096;
        let of = |cause: Cause| stats.nand.programs[cause as usize] * pages;
        Flash {
            host: of(Cause::Host),
            tx: of(Cause::Tx),
            gc: of(Cause::Gc),
            additional: stats.gc.lock_pages * pages,
            other: of(Cause::Map) + of(Cause::Metadata) + of(Cause::Padding),
            erases: stats.nand.erases,
        }
    }
}

/// Why a drive cannot be made or filled.
#[derive(Debug, thiserror::Error)]
pub enum AgedError {
    /// Its keys.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A request.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl Forward for Ssd {
    type To = Drive;
    fn look<R>(&self, look: impl FnOnce(&Drive) -> R) -> R {
        look(&self.drive)
    }
    fn ask<R>(&mut self, ask: impl FnOnce(&mut Drive) -> R) -> R {
        ask(&mut self.drive)
    }
}

impl Below for Ssd {
    fn flash(&self) -> Option<Flash> {
        let (now, base) = (self.count(), self.base);
        Some(Flash {
            host: now.host - base.host,
            tx: now.tx - base.tx,
            gc: now.gc - base.gc,
            additional: now.additional - base.additional,
            other: now.other - base.other,
            erases: now.erases - base.erases,
        })
    }
    fn reset(&mut self) {
        self.base = self.count();
    }
}
