//! A latency histogram that merges exactly: log-linear, 128 sub-buckets for each power of two.
//!
//! Samples are spans in picoseconds. A bucket is at most 1/128 of its lower edge wide, so a
//! percentile, which is the upper edge of its bucket clipped to the maximum, is at most 0.8 % too
//! high and never too low. Count, sum, sum of squares, minimum and maximum are exact: the sum of
//! squares has 128 bits, because squared picoseconds overflow 64 (a published simulator printed a
//! deviation of 226 us where 40 us was true).

use block::Span;

use report::json::{Json, Map, MapExt};

const SUB_BITS: u32 = 7;
const SUB: usize = 1 << SUB_BITS;
/// Buckets of a histogram.
pub(crate) const BUCKETS: usize = 64 * SUB;

/// A percentile needs so many samples beyond it, else it is not known.
pub const MIN_BEYOND: u64 = 10;

/// Names and values of the percentiles of a result document, in parts per ten thousand.
pub const PERCENTILES: [(&str, u64); 5] =
    [("p50", 5_000), ("p90", 9_000), ("p99", 9_900), ("p999", 9_990), ("p9999", 9_999)];

/// Samples by size.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    buckets: Box<[u64]>,
    count: u64,
    sum: u128,
    squares: u128,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            buckets: vec![0; BUCKETS].into_boxed_slice(),
            count: 0,
            sum: 0,
            squares: 0,
            min: u64::MAX,
            max: 0,
        }
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Histogram of {} samples, {} to {} ps", self.count, self.min, self.max)
    }
}

/// The bucket of a value: exact below 128, then 128 for each power of two.
#[inline(always)]
pub(crate) fn bucket(value: u64) -> usize {
    if value < SUB as u64 {
        return value as usize;
    }
    let shift = 63 - SUB_BITS - value.leading_zeros();
    ((shift as usize + 1) << SUB_BITS) + (value >> shift) as usize - SUB
}

/// The largest value of a bucket.
fn upper_edge(bucket: usize) -> u64 {
    if bucket < SUB {
        return bucket as u64;
    }
    let shift = (bucket >> SUB_BITS) as u32 - 1;
    let low = ((bucket & (SUB - 1)) as u64 + SUB as u64) << shift;
    low + ((1 << shift) - 1)
}

impl Histogram {
    /// Adds a sample.
    #[inline]
    pub fn add(&mut self, span: Span) {
        let value = span.as_ps();
        self.buckets[bucket(value)] += 1;
        self.count += 1;
        self.sum += u128::from(value);
        self.squares += u128::from(value) * u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds all samples of another histogram: the result is that of adding them one by one.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.squares += other.squares;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Forgets all samples.
    pub fn clear(&mut self) {
        self.buckets.fill(0);
        (self.count, self.sum, self.squares, self.min, self.max) = (0, 0, 0, u64::MAX, 0);
    }

    /// Number of samples.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Mean, rounded to the nearest picosecond.
    pub fn mean(&self) -> Option<Span> {
        let n = u128::from(self.count);
        (n > 0).then(|| Span::from_ps(((self.sum + n / 2) / n) as u64))
    }

    /// Standard deviation of the population, rounded down to a picosecond.
    pub fn stddev(&self) -> Option<Span> {
        if self.count == 0 {
            return None;
        }
        // Var = E[x^2] - E[x]^2, with the mean's remainder kept so that nothing is lost before
        // the last division: (n * S2 - S1^2) / n^2 would overflow 128 bits for long runs.
        let n = u128::from(self.count);
        let (mean, rest) = (self.sum / n, self.sum % n);
        // S2 - n*mean^2 - 2*mean*rest - rest^2/n, all non-negative by Cauchy-Schwarz.
        let spread = self.squares - n * mean * mean - 2 * mean * rest;
        let variance = (spread - rest * rest / n) / n;
        Some(Span::from_ps(variance.isqrt() as u64))
    }

    /// Smallest sample.
    pub fn min(&self) -> Option<Span> {
        (self.count > 0).then_some(Span::from_ps(self.min))
    }

    /// Largest sample.
    pub fn max(&self) -> Option<Span> {
        (self.count > 0).then_some(Span::from_ps(self.max))
    }

    /// The percentile `per_10k` / 10,000; `None` if fewer than [`MIN_BEYOND`] samples lie beyond.
    pub fn percentile(&self, per_10k: u64) -> Option<Span> {
        let rank = (u128::from(self.count) * u128::from(per_10k)).div_ceil(10_000) as u64;
        if self.count - rank.min(self.count) < MIN_BEYOND {
            return None;
        }
        let mut seen = 0;
        for (i, n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= rank.max(1) {
                return Some(Span::from_ps(upper_edge(i).min(self.max)));
            }
        }
        unreachable!("the buckets hold {seen} of {} samples", self.count)
    }

    /// Upper edge and number of samples of every bucket that has any, ascending.
    pub fn filled(&self) -> impl Iterator<Item = (Span, u64)> {
        let used = self.buckets.iter().enumerate().filter(|(_, n)| **n > 0);
        used.map(|(i, n)| (Span::from_ps(upper_edge(i).min(self.max)), *n))
    }

    /// The object of a result document; `None` without samples. With `buckets`, also the list of
    /// `[upper edge in ns, samples]`.
    pub fn to_json(&self, buckets: bool) -> Option<Json> {
        let mut map = Map::new();
        map.int("count", self.count);
        map.put("mean", Json::span(self.mean()?));
        map.put("stddev", Json::span(self.stddev()?));
        map.put("min", Json::span(self.min()?));
        map.put("max", Json::span(self.max()?));
        for (name, per_10k) in PERCENTILES {
            map.maybe(name, self.percentile(per_10k).map(Json::span));
        }
        if buckets {
            let pair = |(edge, n)| Json::List(vec![Json::span(edge), Json::Int(n)]);
            map.put("histogram", Json::List(self.filled().map(pair).collect()));
        }
        Some(Json::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use block::Rng;

    use super::*;

    fn of(samples: &[u64]) -> Histogram {
        let mut h = Histogram::default();
        samples.iter().for_each(|s| h.add(Span::from_ps(*s)));
        h
    }

    #[test]
    fn every_value_lies_in_its_bucket_and_buckets_are_narrow() {
        let mut rng = Rng::new(1);
        for i in 0..200_000u64 {
            let v = if i < 1000 { i } else { rng.next_u64() >> (i % 64) };
            let b = bucket(v);
            let upper = upper_edge(b);
            assert!(upper >= v, "{v} {upper}");
            assert!(b == 0 || upper_edge(b - 1) < v, "{v}");
            assert!((upper - v) as u128 * 128 <= v as u128, "{v} {upper}");
        }
        assert!(bucket(u64::MAX) < BUCKETS);
        assert_eq!(upper_edge(bucket(u64::MAX)), u64::MAX);
    }

    #[test]
    fn known_samples() {
        let h = of(&[2_000, 4_000, 4_000, 4_000, 5_000, 5_000, 7_000, 9_000]);
        assert_eq!(h.mean().unwrap().as_ps(), 5_000);
        assert_eq!(h.stddev().unwrap().as_ps(), 2_000);
        assert_eq!(h.min().unwrap().as_ps(), 2_000);
        assert_eq!(h.max().unwrap().as_ps(), 9_000);
        assert_eq!(h.percentile(5_000), None, "8 samples say nothing about a median's tail");
        assert_eq!(of(&[]).to_json(true), None);
    }

    #[test]
    fn squared_picoseconds_do_not_overflow() {
        // Two thirds at 20 us, one third at 5 ms: a sum of squares far beyond 64 bits.
        let mut h = Histogram::default();
        for i in 0..3_000_000u64 {
            h.add(if i % 3 == 0 { Span::from_us(5_000) } else { Span::from_us(20) });
        }
        // Exact: mean 1680 us, deviation 4980 us * sqrt(2) / 3 = 2347.594...
        assert_eq!(h.mean().unwrap().as_ns(), 1_680_000);
        assert_eq!(h.stddev().unwrap().as_ns(), 2_347_594);
        // The largest possible spread still has a deviation.
        assert_eq!(of(&[0, u64::MAX - 1]).stddev().unwrap().as_ps(), (u64::MAX - 1) / 2);
    }

    #[test]
    fn percentiles_are_upper_edges_clipped_to_the_maximum() {
        let h = of(&(1..=100_000u64).map(|i| i * 1_000).collect::<Vec<_>>());
        for (name, per_10k) in PERCENTILES {
            let exact = (100_000 * per_10k / 10_000) * 1_000;
            let found = h.percentile(per_10k).unwrap().as_ps();
            assert!(found >= exact && (found - exact) * 128 <= exact, "{name} {found} {exact}");
        }
        assert_eq!(of(&[777; 50]).percentile(9_000), None, "5 samples beyond are too few");
        assert_eq!(of(&[777_777; 1000]).percentile(9_900).unwrap().as_ps(), 777_777);
        assert!(of(&[1; 999]).percentile(9_900).is_none());
        assert!(of(&[1; 20]).percentile(5_000).is_some());
    }

    #[test]
    fn merging_equals_adding_one_by_one() {
        let mut rng = Rng::new(9);
        let (mut a, mut b, mut all) = (of(&[]), of(&[]), of(&[]));
        for _ in 0..50_000 {
            let v = Span::from_ps(rng.next_u64() >> rng.between(10, 60));
            if rng.ratio(1, 3) { &mut a } else { &mut b }.add(v);
            all.add(v);
        }
        a.merge(&b);
        assert!(a == all);
        a.clear();
        assert!(a == of(&[]));
    }
}
