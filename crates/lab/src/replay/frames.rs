//! How often each block had been erased at a few moments of a run, so that one sees wear come about.
//!
//! The length of a run is not known in advance: moments are a number of requests apart that doubles
//! whenever there would be [`MOST`] of them.
//!
//! Invariants: the first moment is the start of the measured part; all are the same number of requests
//! apart; counts never fall from one to the next.

use report::json::{Json, Map, MapExt};

/// Moments that a run keeps at most, its end not counted.
const MOST: usize = 8;
/// Requests between two of them at first.
const FIRST: u64 = 256;

/// Erase counts by block, over a run.
#[derive(Debug)]
pub struct Frames {
    every: u64,
    requests: u64,
    /// After how many requests, and every block's count.
    kept: Vec<(u64, Vec<u32>)>,
}

impl Frames {
    /// Frames of a part of a run that starts with these counts; of a drive that tells none there are none.
    pub(super) fn new(start: Option<Vec<u32>>) -> Frames {
        Frames {
            every: FIRST,
            requests: 0,
            kept: start.map(|counts| (0, counts)).into_iter().collect(),
        }
    }

    /// Notes a request; true if [`Frames::keep`] is due.
    #[inline]
    pub(super) fn add(&mut self) -> bool {
        self.requests += 1;
        self.requests.is_multiple_of(self.every) && !self.kept.is_empty()
    }

    /// The counts now.
    pub(super) fn keep(&mut self, counts: Vec<u32>) {
        if self.kept.len() == MOST {
            let mut at = 0;
            self.kept.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            // The moment of now is one of those that remain: it is the eighth.
            self.every *= 2;
        }
        self.kept.push((self.requests, counts));
    }

    /// For a result document: after how many requests, and of each moment runs of blocks as pairs, how many
    /// blocks and how many erases each: at first in all, then since the moment before.
    pub(crate) fn to_json(&self) -> Option<Json> {
        // The end of the run is known from elsewhere.
        let kept = self.kept.iter().filter(|(at, _)| *at == 0 || *at < self.requests);
        let kept: Vec<&(u64, Vec<u32>)> = kept.collect();
        let (_, first) = kept.first()?;
        let mut erases = vec![pairs(first.iter().copied())];
        for pair in kept.windows(2) {
            let since = pair[1].1.iter().zip(&pair[0].1).map(|(now, before)| now - before);
            erases.push(pairs(since));
        }
        let mut map = Map::new();
        map.put("requests", Json::List(kept.iter().map(|(at, _)| Json::Int(*at)).collect()));
        map.put("erases", Json::List(erases));
        Some(Json::Map(map))
    }
}

fn pairs(counts: impl Iterator<Item = u32>) -> Json {
    let mut runs: Vec<(u64, u32)> = Vec::new();
    for count in counts {
        match runs.last_mut() {
            Some((blocks, last)) if *last == count => *blocks += 1,
            _ => runs.push((1, count)),
        }
    }
    let flat = runs.into_iter().flat_map(|(blocks, count)| [blocks, u64::from(count)]);
    Json::List(flat.map(Json::Int).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames of a run of so many requests, in which block `i` is erased at every request that `i + 2` divides.
    fn run(requests: u64) -> Frames {
        let mut counts = vec![7; 5];
        let mut frames = Frames::new(Some(counts.clone()));
        for n in 1..=requests {
            for (i, count) in counts.iter_mut().enumerate() {
                *count += u32::from(n % (i as u64 + 2) == 0);
            }
            if frames.add() {
                frames.keep(counts.clone());
            }
        }
        frames
    }

    #[test]
    fn moments_are_as_far_apart_as_keeps_them_few_and_tell_what_was() {
        for requests in [1, 255, 256, 257, 2047, 2048, 2049, 5000, 100_000] {
            let frames = run(requests);
            let at: Vec<u64> = frames.kept.iter().map(|(at, _)| *at).collect();
            assert!(at.len() <= MOST && (requests < 256 * 8 || at.len() >= MOST / 2), "{at:?}");
            for (n, (at, counts)) in frames.kept.iter().enumerate() {
                assert_eq!(*at, n as u64 * frames.every);
                let expected: Vec<u32> = (2..7).map(|i| 7 + (at / i) as u32).collect();
                assert_eq!(*counts, expected);
            }
            assert!(requests - at.last().unwrap() <= 2 * frames.every, "{requests}: {at:?}");
        }
    }

    #[test]
    fn what_is_written_sums_to_what_was_kept() {
        let frames = run(3000);
        let value = serde_json::Value::from(&frames.to_json().unwrap());
        let requests: Vec<u64> =
            value["requests"].as_array().unwrap().iter().filter_map(|n| n.as_u64()).collect();
        assert_eq!(requests, [0, 512, 1024, 1536, 2048, 2560]);
        let mut sum = vec![0; 5];
        for (list, (_, counts)) in value["erases"].as_array().unwrap().iter().zip(&frames.kept) {
            let flat: Vec<u64> =
                list.as_array().unwrap().iter().filter_map(|n| n.as_u64()).collect();
            let each = flat.chunks(2).flat_map(|pair| vec![pair[1] as u32; pair[0] as usize]);
            sum.iter_mut().zip(each).for_each(|(sum, more)| *sum += more);
            assert_eq!(sum, *counts);
        }
        assert!(Frames::new(None).to_json().is_none() && !Frames::new(None).add());
        // A moment that is the end is not told twice.
        let value = serde_json::Value::from(&run(2560).to_json().unwrap());
        assert_eq!(value["requests"], serde_json::json!([0, 512, 1024, 1536, 2048]));
    }
}
