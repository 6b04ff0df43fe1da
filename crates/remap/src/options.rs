//! LogOptions of a log: name, default and meaning, once.

use block::{Bytes, Span, parse_size, parse_switch, parse_time};

use crate::error::LogError;
use crate::geometry::BLOCK;
use crate::victim::VictimSpec;

/// When a write is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ack {
    /// When the data is on the device below (not flushed).
    Device,
    /// At admission: a volatile write cache.
    Buffer,
}

/// In which order the live blocks of a victim are moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GcOrder {
    /// As they lie.
    Pba,
    /// By the client's block: restores locality of reads.
    Lba,
}

/// Which head takes a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placed {
    /// One for the client, one for cleaning.
    Two,
    /// Short-lived blocks apart, copies by age.
    Sepbit,
    /// Whichever of these copies less in a sample.
    Auto,
    /// By class: what requests hint, or what somebody tells who knows.
    Known,
}

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct OptionInfo {
    /// Name.
    pub name: &'static str,
    /// Default, as text.
    pub default: &'static str,
    /// What it means.
    pub doc: &'static str,
}

const fn o(name: &'static str, default: &'static str, doc: &'static str) -> OptionInfo {
    OptionInfo { name, default, doc }
}

/// All options, sorted by name.
pub const OPTIONS: &[OptionInfo] = &[
    o("ack", "device", "a write is answered when it is on the device, or at admission: buffer"),
    o("atomic_max", "1 MiB", "a request up to this is all or nothing; longer ones are split"),
    o("buffer", "8 MiB", "volatile write cache with ack=buffer"),
    o("capacity", "0", "logical size; 0 = what the reserve leaves"),
    o("discard", "on", "freed segments are discarded on the device below: on, off"),
    o("gc.batch", "32", "live blocks of a victim that are read together"),
    o("gc.order", "pba", "blocks of a victim move as they lie, or by the client's address: lba"),
    o("gc.start", "0", "free segments below which cleaning runs; 0 = about 6 above the reserve"),
    o("gc.victim", "cost-benefit", "which segment is cleaned next"),
    o("inflight", "2", "writes to the log in flight for each head (live)"),
    o("map_memory", "0", "memory of the map; 0 = all of it stays in memory"),
    o("payload", "stored", "stored: what requests carry is kept; none: a trace, only counts"),
    o(
        "placement",
        "two",
        "which head takes a block: two: one for the client, one for cleaning; sepbit: short-lived blocks \
         apart, copies by age; auto: whichever copies less; known: by the write-lifetime hint (1 to 6)",
    ),
    o("reserve", "10", "per cent of the device that the logical size leaves free, 5 to 90"),
    o("seal_after", "1 s", "an open record is closed by the first call after this"),
    o("seed", "1", "of the log's uuid and of random choices"),
    o("segment", "2 MiB", "what is written in sequence and cleaned as a whole, 64 KiB to 64 MiB"),
    o("self_flush", "64 MiB", "log after which the engine flushes by itself"),
    o(
        "verify",
        "clean",
        "read: CRCs are kept beside the map, every read is checked, and a log that has lost \
       what was flushed is refused",
    ),
];

/// Checked options.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// When a write is answered.
    pub ack: Ack,
    /// Blocks of a request that is all or nothing.
    pub atomic_max: u32,
    /// Volatile write cache.
    pub buffer: Bytes,
    /// Logical size; 0 = what the reserve leaves.
    pub capacity: Bytes,
    /// Freed segments are discarded below.
    pub discard: bool,
    /// Live blocks of a victim that are read together.
    pub gc_batch: u32,
    /// Order of moves.
    pub gc_order: GcOrder,
    /// Which segment is cleaned next.
    pub gc_victim: VictimSpec,
    /// Free segments below which cleaning runs; 0 = default.
    pub gc_start: u32,
    /// Log writes in flight for each head (live).
    pub inflight: u32,
    /// Memory of the map; 0 = no limit.
    pub map_memory: Bytes,
    /// Requests carry payload, and metadata is stored.
    pub payload: bool,
    /// Which head takes a block.
    pub placement: Placed,
    /// Per cent of the device left free.
    pub reserve: u32,
    /// Age at which an open record is closed.
    pub seal_after: Span,
    /// Seed.
    pub seed: u64,
    /// Size of a segment.
    pub segment: Bytes,
    /// Blocks of log after which the engine flushes by itself.
    pub self_flush: u32,
    /// CRCs are kept beside the map and checked on every read; a log that has lost a flushed record
    /// is refused, for older contents would be read from it.
    pub verify: bool,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions {
            ack: Ack::Device,
            atomic_max: 256,
            buffer: Bytes(8 << 20),
            capacity: Bytes(0),
            discard: true,
            gc_batch: 32,
            gc_order: GcOrder::Pba,
            gc_victim: VictimSpec::default(),
            gc_start: 0,
            inflight: 2,
            map_memory: Bytes(0),
            payload: true,
            placement: Placed::Two,
            reserve: 10,
            seal_after: Span::from_us(1_000_000),
            seed: 1,
            segment: Bytes(2 << 20),
            self_flush: (64 << 20) / BLOCK as u32,
            verify: false,
        }
    }
}

fn choice<T: Copy>(value: &str, of: &[(&str, T)]) -> Result<T, String> {
    let found = of.iter().find(|(name, _)| *name == value.trim());
    found.map(|(_, t)| *t).ok_or_else(|| {
        let names: Vec<&str> = of.iter().map(|(name, _)| *name).collect();
        names.join(" or ")
    })
}

fn number(value: &str, from: u64, to: u64) -> Result<u64, String> {
    let found = value.trim().replace('_', "").parse().ok();
    found.filter(|n| (from..=to).contains(n)).ok_or_else(|| format!("a number from {from} to {to}"))
}

fn size(value: &str) -> Result<Bytes, String> {
    parse_size(value).map_err(|e| e.expected.to_string())
}

/// A size in whole blocks from `from` to `to` bytes.
fn blocks(value: &str, from: u64, to: u64) -> Result<u32, String> {
    let bytes = size(value)?.0;
    let fits = (from..=to).contains(&bytes) && bytes.is_multiple_of(BLOCK as u64);
    let expected = || format!("{} to {} in steps of 4 KiB", Bytes(from).human(), Bytes(to).human());
    fits.then_some((bytes / BLOCK as u64) as u32).ok_or_else(expected)
}

impl LogOptions {
    /// Sets one option from text.
    ///
    /// # Errors
    /// The name is unknown, or the value is not what the option expects.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), LogError> {
        self.try_set(name, value).map_err(|expected| LogError::Option {
            name: name.to_string(),
            value: value.to_string(),
            expected,
        })
    }

    fn try_set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "ack" => self.ack = choice(value, &[("device", Ack::Device), ("buffer", Ack::Buffer)])?,
            "atomic_max" => self.atomic_max = blocks(value, 4096, 16 << 20)?,
            "buffer" => self.buffer = Bytes(u64::from(blocks(value, 4096, 4 << 30)?) * 4096),
            "capacity" => self.capacity = Bytes(u64::from(blocks(value, 0, 8 << 40)?) * 4096),
            "discard" => self.discard = parse_switch(value).map_err(|e| e.expected.to_string())?,
            "gc.batch" => self.gc_batch = number(value, 1, 4096)? as u32,
            "gc.order" => {
                self.gc_order = choice(value, &[("pba", GcOrder::Pba), ("lba", GcOrder::Lba)])?;
            }
            "gc.victim" => {
                self.gc_victim = value.parse()?;
            }
            "gc.start" => self.gc_start = number(value, 0, 1 << 30)? as u32,
            "inflight" => self.inflight = number(value, 1, 64)? as u32,
            "map_memory" => self.map_memory = size(value)?,
            "payload" => self.payload = choice(value, &[("stored", true), ("none", false)])?,
            "placement" => {
                let all = [
                    ("two", Placed::Two),
                    ("sepbit", Placed::Sepbit),
                    ("auto", Placed::Auto),
                    ("known", Placed::Known),
                ];
                self.placement = choice(value, &all)?;
            }
            "reserve" => self.reserve = number(value, 5, 90)? as u32,
            "seal_after" => {
                self.seal_after = parse_time(value).map_err(|e| e.expected.to_string())?;
            }
            "seed" => self.seed = number(value, 0, u64::MAX)?,
            "segment" => {
                let bytes = size(value)?;
                let fits = (64 << 10..=64 << 20).contains(&bytes.0) && bytes.0.is_power_of_two();
                self.segment =
                    fits.then_some(bytes).ok_or("a power of two from 64 KiB to 64 MiB")?;
            }
            "self_flush" => self.self_flush = blocks(value, 1 << 16, 64 << 20)?,
            "verify" => self.verify = choice(value, &[("clean", false), ("read", true)])?,
            "gc.policy" => return Err("`gc.victim`, as it is called now".to_string()),
            _ => {
                let names: Vec<&str> = OPTIONS.iter().map(|o| o.name).collect();
                return Err(format!("one of {}", names.join(", ")));
            }
        }
        Ok(())
    }

    /// LogOptions from `name=value` pairs.
    ///
    /// # Errors
    /// As [`LogOptions::set`].
    pub fn from_pairs<'a>(
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<LogOptions, LogError> {
        let mut options = LogOptions::default();
        for (name, value) in pairs {
            options.set(name, value)?;
        }
        Ok(options)
    }

    /// Whether programs that know one head of each kind, and no batches, understand the log.
    pub(crate) fn plain(&self) -> bool {
        self.placement == Placed::Two && self.ack == Ack::Device
    }

    /// Blocks of a segment.
    pub fn segment_blocks(&self) -> u32 {
        (self.segment.0 / BLOCK as u64) as u32
    }

    /// Blocks of a request that is all or nothing: what half a segment holds at most, so that
    /// space for it can always be made.
    pub fn atomic_blocks(&self) -> u32 {
        self.atomic_max.min(self.segment_blocks() / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It decides what stands in the superblock, and so who may read the log.
    #[test]
    fn a_log_of_two_heads_without_a_buffer_is_plain() {
        let plain =
            |pairs: &[(&str, &str)]| LogOptions::from_pairs(pairs.iter().copied()).unwrap().plain();
        assert!(plain(&[("placement", "two"), ("ack", "device")]));
        assert!(!plain(&[("placement", "sepbit"), ("ack", "device")]));
        assert!(!plain(&[("placement", "two"), ("ack", "buffer")]));
    }

    #[test]
    fn every_default_in_the_table_is_the_default() {
        let mut set = LogOptions::default();
        for option in OPTIONS {
            set.set(option.name, option.default).unwrap();
        }
        assert_eq!(format!("{set:?}"), format!("{:?}", LogOptions::default()));
        assert!(OPTIONS.is_sorted_by_key(|o| o.name));
    }

    /// Another value than the default of each.
    const OTHERS: [(&str, &str); 19] = [
        ("ack", "buffer"),
        ("atomic_max", "64 KiB"),
        ("buffer", "1 MiB"),
        ("capacity", "16 MiB"),
        ("discard", "off"),
        ("gc.batch", "7"),
        ("gc.order", "lba"),
        ("gc.start", "9"),
        ("gc.victim", "greedy"),
        ("inflight", "3"),
        ("map_memory", "2 MiB"),
        ("payload", "none"),
        ("placement", "sepbit"),
        ("reserve", "20"),
        ("seal_after", "2 s"),
        ("seed", "4"),
        ("segment", "64 KiB"),
        ("self_flush", "1 MiB"),
        ("verify", "read"),
    ];

    #[test]
    fn every_option_of_the_table_is_heard() {
        let mut seen = std::collections::BTreeSet::from([format!("{:?}", LogOptions::default())]);
        for (name, value) in OTHERS {
            let set = LogOptions::from_pairs([(name, value)]).unwrap();
            assert!(seen.insert(format!("{set:?}")), "{name}={value} changes nothing of its own");
        }
        assert!(OPTIONS.iter().map(|o| o.name).eq(OTHERS.map(|(name, _)| name)));
        let all = LogOptions::from_pairs(OTHERS).unwrap();
        assert_eq!((all.atomic_max, all.self_flush), (16, 256), "blocks");
        assert_eq!((all.buffer, all.capacity), (Bytes(1 << 20), Bytes(16 << 20)));
        assert_eq!((all.segment_blocks(), all.atomic_blocks()), (16, 8));
    }

    #[test]
    fn ranges_end_where_they_say() {
        for (name, inside, outside) in [
            ("gc.batch", ["1", "4096"], ["0", "4097"]),
            ("inflight", ["1", "64"], ["0", "65"]),
            ("reserve", ["5", "90"], ["4", "91"]),
            ("segment", ["64 KiB", "64 MiB"], ["32 KiB", "128 MiB"]),
            ("atomic_max", ["4 KiB", "16 MiB"], ["0", "16388 KiB"]),
            ("self_flush", ["64 KiB", "64 MiB"], ["60 KiB", "65540 KiB"]),
        ] {
            let set = |value: &str| LogOptions::default().set(name, value);
            assert!(inside.iter().all(|value| set(value).is_ok()), "{name}");
            assert!(outside.iter().all(|value| set(value).is_err()), "{name}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let mut options = LogOptions::default();
        for (name, value) in [("segment", "3 MiB"), ("typo", "1"), ("reserve", "4"), ("ack", "x")] {
            let error = options.set(name, value).unwrap_err();
            assert!(matches!(error, LogError::Option { .. }), "{error}");
        }
    }
}
