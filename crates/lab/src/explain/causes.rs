//! Latency by cause: the mean of all requests, that of the slow ones, and the slowest.

use block::{Op, Span};
use nand::{Breakdown, Spent, Work};

use super::Explained;
use crate::histogram::{BUCKETS, Histogram, PERCENTILES, bucket};
use report::json::{Json, Map, MapExt};

/// Sums over requests.
#[derive(Clone, Debug)]
struct Sums {
    count: u64,
    ps: [u128; Spent::COUNT],
}

impl Default for Sums {
    fn default() -> Self {
        Sums { count: 0, ps: [0; Spent::COUNT] }
    }
}

impl Sums {
    fn add(&mut self, parts: &Breakdown) {
        self.count += 1;
        for (sum, (_, span)) in self.ps.iter_mut().zip(parts.parts()) {
            *sum += u128::from(span.as_ps());
        }
    }

    fn add_all(&mut self, other: &Sums) {
        self.count += other.count;
        self.ps.iter_mut().zip(&other.ps).for_each(|(sum, more)| *sum += more);
    }

    /// The mean by cause. Each part is the difference of two rounded sums, so that the parts sum to
    /// the mean as a histogram rounds it.
    fn mean(&self) -> Breakdown {
        let (n, mut sum, mut before) = (u128::from(self.count.max(1)), 0, 0);
        let mut mean = Breakdown::default();
        for (cause, ps) in Spent::ALL.into_iter().zip(&self.ps) {
            sum += ps;
            let rounded = (sum + n / 2) / n;
            mean.add(cause, Span::from_ps((rounded - before) as u64));
            before = rounded;
        }
        mean
    }
}

/// Requests of one operation.
#[derive(Clone, Debug, Default)]
struct OfOp {
    /// By the buckets of the latency's histogram; those that are empty take no memory.
    buckets: Vec<Option<Box<Sums>>>,
    slowest: Option<Box<Explained>>,
}

impl OfOp {
    fn add(&mut self, request: &Explained) {
        if self.buckets.is_empty() {
            self.buckets.resize_with(BUCKETS, || None);
        }
        let sums = self.buckets[bucket(request.latency.as_ps())].get_or_insert_default();
        sums.add(&request.by_cause);
        if self.slowest.as_ref().is_none_or(|slowest| request.latency > slowest.latency) {
            self.slowest = Some(Box::new(request.clone()));
        }
    }

    /// The sums of requests in bucket `first` and those above.
    fn from(&self, first: usize) -> Sums {
        let mut all = Sums::default();
        self.buckets.iter().skip(first).flatten().for_each(|sums| all.add_all(sums));
        all
    }
}

/// See above.
#[derive(Clone, Debug, Default)]
pub struct Causes {
    ops: [OfOp; 4],
}

impl Causes {
    pub(super) fn add(&mut self, request: &Explained) {
        self.ops[request.op as usize].add(request);
    }

    /// The slowest request of an operation; the first, if several took as long.
    pub fn slowest(&self, op: Op) -> Option<&Explained> {
        self.ops[op as usize].slowest.as_deref()
    }

    /// The mean latency of an operation's requests by cause, and how many they are.
    pub fn mean(&self, op: Op) -> (Breakdown, u64) {
        let all = self.ops[op as usize].from(0);
        (all.mean(), all.count)
    }

    /// The same of those that took as long as a percentile of `latency`, or longer; `None` if the
    /// percentile is not known.
    pub fn tail(&self, op: Op, latency: &Histogram, per_10k: u64) -> Option<(Breakdown, u64)> {
        let from = latency.percentile(per_10k)?;
        let tail = self.ops[op as usize].from(bucket(from.as_ps()));
        Some((tail.mean(), tail.count))
    }

    /// The member `by_cause` of an operation's latencies.
    pub(crate) fn to_json(&self, op: Op, latency: &Histogram) -> Option<Json> {
        let mut map = Map::new();
        let row = |(mean, count): (Breakdown, u64)| {
            let mut row = Map::new();
            row.int("requests", count);
            row.put("mean", Json::span(mean.total()));
            row.put("causes", parts(&mean));
            Json::Map(row)
        };
        let all = self.mean(op);
        if all.1 == 0 {
            return None;
        }
        map.put("all", row(all));
        for (name, per_10k) in PERCENTILES {
            map.maybe(name, self.tail(op, latency, per_10k).map(row));
        }
        map.maybe("slowest", self.slowest(op).map(slowest));
        Some(Json::Map(map))
    }
}

fn parts(of: &Breakdown) -> Json {
    let all = of.parts().map(|(cause, span)| (cause.name().to_string(), Json::span(span)));
    Json::Map(all.collect())
}

fn slowest(request: &Explained) -> Json {
    let mut map = Map::new();
    map.int("request", request.number);
    map.int("app", u64::from(request.app.0));
    map.int("offset", request.offset);
    map.int("bytes", request.bytes);
    map.put("arrival_ns", Json::span(request.arrival));
    map.put("latency_ns", Json::span(request.latency));
    map.put("causes", parts(&request.by_cause));
    map.maybe("die", request.die.map(|die| Json::Int(u64::from(die))));
    let counts = Work::ALL.into_iter().map(|work| (work, request.operations[work.index()]));
    let some = counts.filter(|(_, n)| *n > 0);
    let named = some.map(|(work, n)| (work.label().replace(' ', "_"), Json::Int(u64::from(n))));
    map.put("operations", Json::Map(named.collect()));
    Json::Map(map)
}

#[cfg(test)]
mod tests {
    use block::{AppId, Rng};

    use super::*;

    fn request(number: u64, by_cause: Breakdown) -> Explained {
        Explained {
            number,
            app: AppId(0),
            op: Op::Read,
            offset: 0,
            bytes: 4096,
            arrival: Span::ZERO,
            latency: by_cause.total(),
            by_cause,
            operations: [0; Work::KINDS],
            die: None,
        }
    }

    #[test]
    fn means_and_tails_sum_to_those_of_the_histogram() {
        let (mut rng, mut causes) = (Rng::new(3), Causes::default());
        let (mut latency, mut all) = (Histogram::default(), Vec::new());
        for number in 1..=5_000 {
            let mut parts = Breakdown::default();
            for cause in [Spent::Queue, Spent::Gc, Spent::Own] {
                let most = 1 << rng.below(30);
                parts.add(cause, Span::from_ps(rng.below(most)));
            }
            latency.add(parts.total());
            all.push(parts);
            causes.add(&request(number, parts));
        }
        let (mean, count) = causes.mean(Op::Read);
        assert_eq!((Some(mean.total()), count), (latency.mean(), 5_000));
        for (_, per_10k) in PERCENTILES {
            let Some((tail, n)) = causes.tail(Op::Read, &latency, per_10k) else { continue };
            // The plainest way: those in the percentile's bucket or above.
            let from = bucket(latency.percentile(per_10k).unwrap().as_ps());
            let slow = all.iter().filter(|parts| bucket(parts.total().as_ps()) >= from);
            let (mut sum, mut slow_count) = (Sums::default(), 0);
            slow.for_each(|parts| (sum.add(parts), slow_count += 1).0);
            assert_eq!((tail, n), (sum.mean(), slow_count));
            assert!(n >= 10_000u64.saturating_sub(per_10k) * 5_000 / 10_000);
        }
        let longest = all.iter().map(Breakdown::total).max();
        assert_eq!(causes.slowest(Op::Read).map(|slow| slow.latency), longest);
        assert_eq!(causes.mean(Op::Write).1, 0);
        assert!(causes.to_json(Op::Write, &latency).is_none(), "there were none");
    }
}
