//! YCSB's key distributions and workloads.
//!
//! The formulas and constants are those of the benchmark (B. F. Cooper et al., SoCC 2010; the
//! Zipfian draw after J. Gray et al., SIGMOD 1994), so that keys are the keys it would use. Powers
//! come from the pinned `libm`: the last digits of a large rank depend on it.

use block::Rng;

/// Exponent of all of YCSB's Zipfian draws.
pub const THETA: f64 = 0.99;
/// Items of the scrambled Zipfian law, whatever the number of records.
const SCRAMBLED_ITEMS: f64 = 10_000_000_000.0;
/// Sum of k^-0.99 over those items, as the benchmark has it.
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

/// FNV-1a over the number's 8 bytes, least significant first; then the absolute value of the
/// result as a signed number.
pub fn hash(number: u64) -> u64 {
    let fnv = number.to_le_bytes().into_iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(1_099_511_628_211)
    });
    fnv.cast_signed().unsigned_abs()
}

/// The key of record `number`, hashed insert order: `user` and the decimal of its hash.
pub fn key_name(number: u64) -> String {
    format!("user{}", hash(number))
}

/// YCSB's Zipfian draw for a given number of items and its sum.
#[derive(Clone, Copy, Debug)]
struct Law {
    items: f64,
    zeta: f64,
    eta: f64,
    /// 1 + 0.5^theta.
    zeta_2: f64,
}

impl Law {
    fn new(items: f64, zeta: f64) -> Law {
        let zeta_2 = 1.0 + libm::pow(0.5, THETA);
        let eta = (1.0 - libm::pow(2.0 / items, 1.0 - THETA)) / (1.0 - zeta_2 / zeta);
        Law { items, zeta, eta, zeta_2 }
    }

    /// The rank at the uniform draw `u` of [0, 1).
    #[inline]
    fn rank(&self, u: f64) -> u64 {
        let uz = u * self.zeta;
        if uz < 1.0 {
            return 0;
        }
        if uz < self.zeta_2 {
            return 1;
        }
        let base = self.eta * u - self.eta + 1.0;
        (self.items * libm::pow(base, 1.0 / (1.0 - THETA))) as u64
    }
}

/// `zipfian` of the workloads: popular items are scattered over the key space by the hash.
#[derive(Clone, Debug)]
pub struct ScrambledZipfian {
    min: u64,
    count: u64,
    law: Law,
}

impl ScrambledZipfian {
    /// Key numbers `min..min + count`; `count` is at least 1.
    pub fn new(min: u64, count: u64) -> ScrambledZipfian {
        assert!(count > 0, "no keys");
        ScrambledZipfian { min, count, law: Law::new(SCRAMBLED_ITEMS, SCRAMBLED_ZETA) }
    }

    /// The rank, before it is scrambled, at the uniform draw `u` of [0, 1).
    pub fn rank(&self, u: f64) -> u64 {
        self.law.rank(u)
    }

    /// The next key number.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        self.draw_ranked(rng).0
    }

    /// The next key number and the rank it has by this draw.
    #[inline]
    pub(super) fn draw_ranked(&self, rng: &mut Rng) -> (u64, u64) {
        let rank = self.rank(rng.unit_f64());
        (self.min + hash(rank) % self.count, rank)
    }
}

/// `latest` of workload D: the newest key number minus a plain Zipfian rank over as many items.
#[derive(Clone, Debug)]
pub struct SkewedLatest {
    law: Law,
    /// Items the sum is over.
    summed: u64,
}

impl SkewedLatest {
    /// For key numbers up to `newest`. Sums `newest` powers (about 40 ns each).
    pub fn new(newest: u64) -> SkewedLatest {
        let mut latest = SkewedLatest { law: Law::new(1.0, 1.0), summed: 0 };
        latest.grow(newest.max(2));
        latest
    }

    fn grow(&mut self, items: u64) {
        let mut zeta = if self.summed == 0 { 0.0 } else { self.law.zeta };
        for k in self.summed + 1..=items {
            zeta += libm::pow(k as f64, -THETA);
        }
        self.summed = items;
        self.law = Law::new(items as f64, zeta);
    }

    /// A key number up to `newest`, which never falls; the sum grows with it.
    #[inline]
    pub fn draw(&mut self, newest: u64, rng: &mut Rng) -> u64 {
        if newest > self.summed {
            self.grow(newest);
        }
        newest.saturating_sub(self.law.rank(rng.unit_f64()))
    }
}

/// The six core workloads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workload {
    /// 50 % read, 50 % update.
    A,
    /// 95 % read, 5 % update.
    B,
    /// Read only.
    C,
    /// 95 % read of the latest, 5 % insert.
    D,
    /// 95 % scan of 1 to 100 records, 5 % insert.
    E,
    /// 50 % read, 50 % read-modify-write.
    F,
}

impl Workload {
    /// `A` to `F`, in either case.
    pub fn parse(text: &str) -> Option<Workload> {
        use Workload::{A, B, C, D, E, F};
        let all = [A, B, C, D, E, F];
        all.into_iter().find(|w| format!("{w:?}").eq_ignore_ascii_case(text))
    }

    /// Percent of reads or, in E, scans; the rest is the workload's other operation.
    pub fn read_percent(self) -> u64 {
        match self {
            Workload::A | Workload::F => 50,
            Workload::B | Workload::D | Workload::E => 95,
            Workload::C => 100,
        }
    }

    fn inserts(self) -> bool {
        matches!(self, Workload::D | Workload::E)
    }
}

/// One operation on a key-value store. Keys are record numbers; see [`key_name`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KvOp {
    /// Reads all fields.
    Read(u64),
    /// Writes one field.
    Update(u64),
    /// Adds the next record.
    Insert(u64),
    /// Reads this many records from a key on.
    Scan(u64, u64),
    /// Reads a record and writes one field.
    ReadModifyWrite(u64),
}

#[derive(Clone, Debug)]
enum Keys {
    Zipfian(ScrambledZipfian),
    Latest(SkewedLatest),
}

/// The endless operations of a workload's run phase, on a store loaded with records `0..records`.
#[derive(Clone, Debug)]
pub struct Operations {
    workload: Workload,
    keys: Keys,
    /// Number of the next record to be inserted.
    next: u64,
    choices: Rng,
    draws: Rng,
}

impl Operations {
    /// A run of about `count` operations: workload E's law ranges over more records than will be inserted by
    /// then, so that the popular ones stay the same while it runs; a key that is not there yet is drawn
    /// again. Both as in the benchmark.
    pub fn new(
        workload: Workload,
        records: u64,
        count: u64,
        choices: Rng,
        draws: Rng,
    ) -> Operations {
        assert!(records > 0, "no records");
        let expected = count * (100 - workload.read_percent()) / 100;
        let keys = match workload {
            Workload::D => Keys::Latest(SkewedLatest::new(records - 1)),
            Workload::E => Keys::Zipfian(ScrambledZipfian::new(0, records + 2 * expected + 1)),
            _ => Keys::Zipfian(ScrambledZipfian::new(0, records)),
        };
        Operations { workload, keys, next: records, choices, draws }
    }

    /// Records in the store now.
    pub fn records(&self) -> u64 {
        self.next
    }

    fn key(&mut self) -> (u64, u64) {
        match &mut self.keys {
            Keys::Zipfian(keys) => loop {
                let drawn = keys.draw_ranked(&mut self.draws);
                if drawn.0 < self.next {
                    return drawn;
                }
            },
            Keys::Latest(keys) => (keys.draw(self.next - 1, &mut self.draws), 0),
        }
    }

    /// The next operation.
    #[inline]
    pub fn draw(&mut self) -> KvOp {
        self.draw_ranked().0
    }

    /// The next operation and, where its key is zipfian, the rank the key has by this draw.
    #[inline]
    pub(super) fn draw_ranked(&mut self) -> (KvOp, u64) {
        let reads = self.choices.below(100) < self.workload.read_percent();
        if !reads && self.workload.inserts() {
            self.next += 1;
            return (KvOp::Insert(self.next - 1), 0);
        }
        let (key, rank) = self.key();
        let op = match (self.workload, reads) {
            (Workload::E, _) => KvOp::Scan(key, self.choices.between(1, 100)),
            (_, true) => KvOp::Read(key),
            (Workload::F, false) => KvOp::ReadModifyWrite(key),
            (_, false) => KvOp::Update(key),
        };
        (op, rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_the_benchmarks() {
        let vectors = [
            (0, 6_284_781_860_667_377_211),
            (1, 8_517_097_267_634_966_620),
            (2, 1_820_151_046_732_198_393),
            (1000, 5_952_875_239_596_136_740),
        ];
        for (number, expected) in vectors {
            assert_eq!(hash(number), expected, "{number}");
        }
        assert_eq!(key_name(0), "user6284781860667377211");
    }

    #[test]
    fn ranks_are_the_benchmarks() {
        let keys = ScrambledZipfian::new(0, 1000);
        assert_eq!(keys.law.eta, 0.212_200_033_808_826_07);
        let vectors = [(0.01, 0), (0.05, 1), (0.1, 6), (0.5, 134_552), (0.9, 1_170_869_537)];
        for (u, expected) in vectors {
            assert_eq!(keys.rank(u), expected, "{u}");
        }
    }

    #[test]
    fn every_workload_has_its_mix() {
        for (text, expected) in [("A", 50), ("B", 95), ("C", 100), ("d", 95), ("E", 95), ("f", 50)]
        {
            let workload = Workload::parse(text).unwrap();
            let mut ops = Operations::new(workload, 10_000, 100_000, Rng::new(1), Rng::new(2));
            let (mut reads, mut inserted) = (0u64, 10_000);
            for _ in 0..100_000 {
                match ops.draw() {
                    KvOp::Insert(key) => {
                        assert_eq!(key, inserted);
                        inserted += 1;
                    }
                    KvOp::Scan(key, records) => {
                        assert!(key < inserted, "a scan finds its first record");
                        assert!((1..=100).contains(&records) && workload == Workload::E);
                        reads += 1;
                    }
                    KvOp::Read(key) => {
                        assert!(key < inserted && workload != Workload::E);
                        reads += 1;
                    }
                    KvOp::Update(key) => assert!(key < 10_000 && text < "C"),
                    KvOp::ReadModifyWrite(_) => assert_eq!(workload, Workload::F),
                }
            }
            assert_eq!(ops.records(), inserted);
            let share = reads as f64 / 1000.0;
            assert!((share - f64::from(expected)).abs() < 0.5, "{text}: {share}");
        }
        assert_eq!(Workload::parse("G"), None);
    }

    #[test]
    fn the_hottest_keys_are_the_hashes_of_the_first_ranks() {
        let (keys, mut rng, mut counts) = (ScrambledZipfian::new(0, 1000), Rng::new(3), [0; 1000]);
        for _ in 0..200_000 {
            counts[keys.draw(&mut rng) as usize] += 1;
        }
        let mut order: Vec<usize> = (0..1000).collect();
        order.sort_by_key(|key| std::cmp::Reverse(counts[*key]));
        assert_eq!(order[0] as u64, hash(0) % 1000);
        assert_eq!(order[1] as u64, hash(1) % 1000);
        // Rank 0 has 1/zeta of the draws, and its share of the rest, which the hash spreads.
        let share = f64::from(counts[order[0]]) / 200_000.0;
        assert!((share - 1.0 / SCRAMBLED_ZETA - 0.0008).abs() < 0.002, "{share}");
    }

    #[test]
    fn latest_grows_as_if_it_had_been_made_for_more() {
        let mut grown = SkewedLatest::new(100);
        grown.draw(5_000, &mut Rng::new(1));
        let fresh = SkewedLatest::new(5_000);
        assert_eq!(grown.law.zeta, fresh.law.zeta);
        assert_eq!(grown.law.eta, fresh.law.eta);
        let (mut latest, mut rng) = (SkewedLatest::new(999), Rng::new(4));
        let draws: Vec<u64> = (0..50_000).map(|_| latest.draw(999, &mut rng)).collect();
        assert!(draws.iter().all(|key| *key <= 999));
        let newest = draws.iter().filter(|key| **key == 999).count() as f64 / 50_000.0;
        let zeta: f64 = (1..=999).map(|k| f64::from(k).powf(-THETA)).sum();
        assert!((newest - 1.0 / zeta).abs() < 0.01, "{newest}");
    }
}
