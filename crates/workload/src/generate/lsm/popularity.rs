//! How many different keys a number of puts touches, and how likely one key is among them.

use block::UNIT_BYTES;

use super::super::ycsb::THETA;
use super::super::zipf::Zipf;

/// Ranks of YCSB's scrambled law.
const RANKS: u64 = 10_000_000_000;
/// Points of the table for each doubling of the number of puts.
const PER_OCTAVE: f64 = 4.0;

/// The law that keys of puts are drawn by, over `records` keys.
pub(super) struct Popularity {
    records: f64,
    /// Share of the keys touched by `2^(i / PER_OCTAVE)` puts; empty where keys are uniform.
    table: Vec<f64>,
    /// Sum of the ranks' weights; 0 where keys are uniform.
    weight: f64,
    /// Chance of a key by the ranks beyond the number of records, which the hash spreads evenly.
    tail: f64,
}

impl Popularity {
    /// Every key equally likely.
    pub fn uniform(records: u64) -> Popularity {
        let records = records as f64;
        Popularity { records, table: Vec::new(), weight: 0.0, tail: 1.0 / records }
    }

    /// YCSB's scrambled Zipfian law; `puts` is the most that is ever asked for.
    pub fn scrambled(records: u64, puts: u64) -> Popularity {
        let zipf = Zipf::new(RANKS, THETA);
        let n = records as f64;
        // A key is untouched if all ranks that hash to it are: over many ranks, a Poisson law.
        let share = |puts: f64| {
            let ranks = zipf.sum(|p| 1.0 - libm::exp(-puts * p));
            1.0 - libm::exp(-ranks / n)
        };
        let points = (libm::log2(puts.max(2) as f64) * PER_OCTAVE) as u64 + 2;
        let table = (0..points).map(|i| share(libm::exp2(i as f64 / PER_OCTAVE))).collect();
        let zeta = |ranks| Zipf::new(ranks, THETA).zeta();
        let weight = zeta(RANKS);
        let tail = (1.0 - zeta(records.min(RANKS)) / weight) / n;
        Popularity { records: n, table, weight, tail }
    }

    /// Share of the keys that `puts` draws over all keys touch.
    pub fn share(&self, puts: f64) -> f64 {
        if puts <= 0.0 {
            return 0.0;
        }
        if self.table.is_empty() {
            return 1.0 - libm::exp(-puts / self.records);
        }
        if puts <= 1.0 {
            return puts * self.table[0];
        }
        let x = (libm::log2(puts) * PER_OCTAVE).min((self.table.len() - 1) as f64);
        let i = (x as usize).min(self.table.len() - 2);
        self.table[i] + (self.table[i + 1] - self.table[i]) * (x - i as f64)
    }

    /// Chance that `puts` draws hold the key of this rank.
    pub fn touched(&self, rank: u64, puts: f64) -> f64 {
        let own = if self.table.is_empty() || rank as f64 > self.records {
            0.0
        } else {
            libm::exp(-THETA * libm::log((rank + 1) as f64)) / self.weight
        };
        1.0 - libm::exp(-puts * (own + self.tail))
    }
}

/// Pages of 4 KiB that `start..start + len` touches: first byte and number of bytes.
pub(super) fn pages(start: u64, len: u64) -> (u64, u64) {
    let first = start / UNIT_BYTES * UNIT_BYTES;
    (first, (start + len).next_multiple_of(UNIT_BYTES) - first)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use block::Rng;

    use super::super::super::ycsb::ScrambledZipfian;
    use super::*;

    #[test]
    fn shares_are_those_of_draws() {
        let (records, mut rng) = (50_000, Rng::new(1));
        let keys = ScrambledZipfian::new(0, records);
        let (law, flat) = (Popularity::scrambled(records, 200_000), Popularity::uniform(records));
        for puts in [1_000u64, 14_000, 100_000] {
            let drawn: BTreeSet<u64> = (0..puts).map(|_| keys.draw(&mut rng)).collect();
            let (share, model) = (drawn.len() as f64 / 50_000.0, law.share(puts as f64));
            assert!((model / share - 1.0).abs() < 0.03, "{puts}: {model} {share}");
            let drawn: BTreeSet<u64> = (0..puts).map(|_| rng.below(records)).collect();
            let (share, model) = (drawn.len() as f64 / 50_000.0, flat.share(puts as f64));
            assert!((model / share - 1.0).abs() < 0.02, "{puts}: {model} {share}");
        }
        assert!(law.touched(0, 100.0) > 0.9 && law.touched(1 << 40, 100.0) < 0.01);
    }
}
