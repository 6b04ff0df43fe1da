//! Generators: recipes that make requests where no trace is at hand.
//!
//! Rules: a pinned generator with named child streams
//! (`app/generator/purpose`), so that adding an app does not change another's draws; powers and
//! logarithms from the pure-Rust `libm`; the same seed gives the same bytes on every platform;
//! every generator prints its effective parameters and is labelled synthetic; nothing is allocated
//! for a record.
//!
//! A recipe is a text, one grammar for all: `uniform,size=1GiB,bs=4k,read=30,count=1M,seed=3`. See
//! [`parse_recipe`] for the grammar and [`list`] for the names.

mod clock;
pub mod dist;
mod fields;
mod fio;
mod kvstore;
mod lsm;
mod msr;
mod pageset;
mod recipe;
mod scatter;
mod simple;
mod sizes;
mod sstables;
pub mod tpcc;
mod writeback;
pub mod ycsb;
mod zipf;

#[cfg(test)]
mod tests;

use block::{Bytes, EventHash};

use crate::{Record, Source};

pub use clock::{Arrival, ArrivalClock};
pub use fields::parse_count;
pub use msr::{VolumeStats, volumes};
pub use recipe::{GeneratorInfo, Recipe, list, parse_pass, parse_recipe};
pub use scatter::Scatter;
pub use simple::{Addresses, Mix, Simple};
pub use sizes::{SIZES_KIB, Sizes};
pub use zipf::Zipf;

/// What a recipe's parameters become: a source that can be opened any number of times, and gives
/// the same records each time.
pub trait Generator: Send + Sync {
    /// A source at its first record.
    fn open(&self) -> Box<dyn Source + Send>;

    /// Its own effective parameters, defaults and assumptions included, as name and value. Sizes
    /// are in bytes with a unit, shares in percent, times with a unit.
    fn describe(&self) -> Vec<(String, String)>;

    /// No record reaches beyond this byte.
    fn extent(&self) -> Bytes;
}

/// Folds every field of a record into `hash`: equal for equal streams (contract C9).
pub fn fold(hash: &mut EventHash, record: &Record) {
    hash.add(record.at.as_ps());
    hash.add(record.offset.0);
    hash.add(record.len.0);
    hash.add(record.response.map_or(u64::MAX, |span| span.as_ps()));
    let small = [u64::from(record.app.0), record.op as u64, u64::from(record.flags.0)];
    hash.add(small[0] << 32 | small[1] << 16 | small[2] << 8 | u64::from(record.hint));
}
