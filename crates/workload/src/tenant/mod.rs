//! Tenants: the requests of several applications become one stream for one drive.
//!
//! A [`Tenant`] says where an application's records come from
//! and how its clock and addresses are changed; [`Merge`] yields the one stream. Every file is read
//! block by block, so memory does not grow with a trace; what needs to be known in advance (the
//! extent of each application, for `partition`) is a parameter, found by [`Tenant::scan_extent`].

mod map;
mod merge;
mod parse;
mod stream;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use block::{AppId, Bytes, Span, Time};

use crate::{ReadOptions, Source, SourceError};

pub use map::{AREA_GRAIN, AddressMap, Area};
pub use merge::{End, Merge, MergeConfig, MergeStats, Order, Share, TenantStats};
pub use parse::{parse_end, parse_map, parse_share};

use stream::Stream;

/// Opens a source at its beginning; called once for each round.
pub type Open = Box<dyn FnMut() -> Result<Box<dyn Source>, SourceError>>;

/// One tick of the MSR formats, 100 ns: the step between the last record of a file
/// or round and the start of the next.
pub const TRACE_TICK: Span = Span::from_ns(100);

/// A positive rational number, kept in lowest terms: clocks are scaled without floats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Factor {
    numerator: u64,
    denominator: u64,
}

impl Factor {
    /// One: no change.
    pub const ONE: Factor = Factor { numerator: 1, denominator: 1 };

    /// `numerator / denominator`; `None` if either is zero.
    pub fn new(numerator: u64, denominator: u64) -> Option<Factor> {
        if numerator == 0 || denominator == 0 {
            return None;
        }
        let (mut a, mut b) = (numerator, denominator);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        Some(Factor { numerator: numerator / a, denominator: denominator / a })
    }

    /// `1 / self`: a rate scaled by k is a clock stretched by `1 / k`.
    pub const fn inverse(self) -> Factor {
        Factor { numerator: self.denominator, denominator: self.numerator }
    }

    /// `ps` times the factor, rounded down; `None` beyond 64 bits.
    fn apply(self, ps: u64) -> Option<u64> {
        if self.denominator == 1 {
            return ps.checked_mul(self.numerator);
        }
        let scaled = u128::from(ps) * u128::from(self.numerator) / u128::from(self.denominator);
        u64::try_from(scaled).ok()
    }
}

impl std::fmt::Display for Factor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.denominator {
            1 => write!(f, "{}", self.numerator),
            _ => write!(f, "{}/{}", self.numerator, self.denominator),
        }
    }
}

/// Which volumes ([`crate::Record::app`]) of a source belong to the tenant. Each volume of a trace
/// has an address space of its own, so laying two over each other must be asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Volumes {
    /// The source has one volume; a second one is an error.
    One,
    /// Only this one; records of others are counted and left out.
    Only(AppId),
    /// All of them: they share one address space (a generator's jobs, for example).
    Shared,
}

/// One application: its files in order, its clock, its addresses.
pub struct Tenant {
    name: String,
    files: Vec<Open>,
    extent: Option<Bytes>,
    /// Records of one round.
    records: Option<u64>,
    stretch: Factor,
    rounds: u64,
    round_discard: bool,
    window: (Time, Option<Time>),
    shift: i64,
    drop_flushes: bool,
    volumes: Volumes,
}

impl Tenant {
    /// A tenant without files yet: clock from 0, not stretched, one round, addresses unchanged.
    pub fn new(name: impl Into<String>) -> Tenant {
        Tenant {
            name: name.into(),
            files: Vec::new(),
            extent: None,
            records: None,
            stretch: Factor::ONE,
            rounds: 1,
            round_discard: true,
            window: (Time::ZERO, None),
            shift: 0,
            drop_flushes: false,
            volumes: Volumes::One,
        }
    }

    /// Adds a file (or generator). It starts one tick after the last record of the one before.
    pub fn file(
        mut self,
        open: impl FnMut() -> Result<Box<dyn Source>, SourceError> + 'static,
    ) -> Tenant {
        self.files.push(Box::new(open));
        self
    }

    /// Adds a trace file, read with `options`.
    pub fn trace(self, path: impl Into<PathBuf>, options: ReadOptions) -> Tenant {
        let path = path.into();
        self.file(move || Ok(Box::new(crate::open(&path, &options)?)))
    }

    /// Its extent, if known: no record of it reaches beyond this byte.
    pub fn extent(mut self, extent: Bytes) -> Tenant {
        self.extent = Some(extent);
        self
    }

    /// Multiplies its times by `factor` (after chaining and looping). For a rate scaled by k, pass
    /// `k.inverse()`.
    pub fn stretch(mut self, factor: Factor) -> Tenant {
        self.stretch = factor;
        self
    }

    /// Repeats it `rounds` times; between two rounds its whole area is discarded if `discard`.
    pub fn rounds(mut self, rounds: u64, discard: bool) -> Tenant {
        self.rounds = rounds;
        self.round_discard = discard;
        self
    }

    /// Keeps what was issued at `from` or later and before `to`, on the clock of its chained files,
    /// and moves `from` to 0.
    pub fn window(mut self, from: Time, to: Option<Time>) -> Tenant {
        self.window = (from, to);
        self
    }

    /// Adds `bytes` to every address (an old partition's offset, for example).
    pub fn shift(mut self, bytes: i64) -> Tenant {
        self.shift = bytes;
        self
    }

    /// Leaves its flushes out, before any clock is computed. They are counted.
    pub fn drop_flushes(mut self) -> Tenant {
        self.drop_flushes = true;
        self
    }

    /// Which volumes of its files belong to it.
    pub fn volumes(mut self, volumes: Volumes) -> Tenant {
        self.volumes = volumes;
        self
    }

    /// Its name, as given on the command line.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads its files once, finds how far it reaches (its highest 4 KiB page, in bytes) and how many records
    /// it has, and remembers both.
    ///
    /// # Errors
    /// Those of its files, and a tenant without any record.
    pub fn scan_extent(mut self) -> Result<Tenant, SourceError> {
        let rounds = std::mem::replace(&mut self.rounds, 1);
        let mut stream = Stream::new(self)?;
        let (mut end, mut records) = (0, 0);
        while let Some(record) = stream.next()? {
            end = end.max(stream.unit_end(&record)?);
            records += 1;
        }
        if stream.is_empty() {
            return Err(stream.no_records());
        }
        let mut tenant = stream.into_tenant();
        tenant.rounds = rounds;
        tenant.extent = Some(Bytes(end));
        tenant.records = Some(records);
        Ok(tenant)
    }

    /// Records of all its rounds and of the discards between them, once it was scanned: what a merge that
    /// ends with the longest hands out.
    pub fn known_records(&self) -> Option<u64> {
        let discards = if self.round_discard { self.rounds - 1 } else { 0 };
        self.records?.checked_mul(self.rounds)?.checked_add(discards)
    }

    /// Its extent, if given or scanned.
    pub fn known_extent(&self) -> Option<Bytes> {
        self.extent
    }
}
