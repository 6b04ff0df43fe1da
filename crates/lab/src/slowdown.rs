//! What applications that share a drive lose by each other: the response time of each among the others over that of
//! the same application alone on the same drive (Tavakkol et al., FAST 2018, 3.5.3; fairness is the least slowdown
//! over the largest).
//!
//! Alone means: a drive of its own, written before with the same; the same requests at the same places and times;
//! none of the others'. Reads and writes, from arrival to end.

use block::{AppId, Span};
use report::json::{Json, Map, MapExt};
use workload::{Record, Source, SourceError};

use crate::LabError;
use crate::histogram::Histogram;
use crate::replay::{Outcome, Tally};

/// The requests of one application.
pub(crate) struct Only {
    /// All requests.
    pub source: Box<dyn Source>,
    /// Whose are kept.
    pub app: AppId,
}

impl Source for Only {
    fn fill(&mut self, block: &mut Vec<Record>) -> Result<(), SourceError> {
        loop {
            self.source.fill(block)?;
            if block.is_empty() {
                return Ok(());
            }
            block.retain(|record| record.app == self.app);
            if !block.is_empty() {
                return Ok(());
            }
        }
    }
}

/// Response times of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Response {
    mean: Span,
    /// None of fewer than 1,000 requests, as everywhere.
    p99: Option<Span>,
}

impl Response {
    /// Of these histograms together; `None`: there were no requests.
    fn of([reads, writes]: [&Histogram; 2]) -> Option<Response> {
        let mut all = reads.clone();
        all.merge(writes);
        Some(Response { mean: all.mean()?, p99: all.percentile(9900) })
    }

    fn among(tally: &Tally, app: usize) -> Option<Response> {
        let latency = tally.apps.get(app)?.latency.as_deref()?;
        Response::of([&latency[0], &latency[1]])
    }

    /// Of a run in which there was no other.
    fn alone(tally: &Tally) -> Option<Response> {
        Response::of([&tally.latency[0], &tally.latency[1]])
    }
}

/// One application, among the others and alone.
#[derive(Clone, Copy, Debug)]
struct Two {
    app: usize,
    shared: Response,
    alone: Response,
}

/// All applications of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slowdown(Vec<Two>);

impl Slowdown {
    /// Of a run; `alone` replays the requests of one application on a drive of its own.
    ///
    /// # Errors
    /// What `alone` fails with; fewer than two applications.
    pub fn of(
        outcome: &Outcome,
        mut alone: impl FnMut(AppId) -> Result<Outcome, LabError>,
    ) -> Result<Slowdown, LabError> {
        let mut all = Vec::new();
        for app in 0..outcome.tally.apps.len() {
            let Some(shared) = Response::among(&outcome.tally, app) else { continue };
            let outcome = alone(AppId(app as u16))?;
            // What it asked for among the others, it asked for alone.
            if let Some(alone) = Response::alone(&outcome.tally) {
                all.push(Two { app, shared, alone });
            }
        }
        match all.len() {
            0 | 1 => Err(LabError::Input(
                "slowdown: expected two applications or more with reads or writes in the measured part"
                    .to_string(),
            )),
            _ => Ok(Slowdown(all)),
        }
    }

    /// The member of a result.
    pub fn to_json(&self) -> Json {
        let ratio = |two: &Two| (two.shared.mean.as_ps(), two.alone.mean.as_ps());
        // Of quotients without rounding.
        let less = |a: &&Two, b: &&Two| {
            let ((an, ad), (bn, bd)) = (ratio(a), ratio(b));
            (u128::from(an) * u128::from(bd)).cmp(&(u128::from(bn) * u128::from(ad)))
        };
        let (mut map, mut by_app) = (Map::new(), Map::new());
        for two in &self.0 {
            let mut one = Map::new();
            one.maybe("mean", Json::ratio(two.shared.mean.as_ps(), two.alone.mean.as_ps()));
            let p99 = two.shared.p99.zip(two.alone.p99);
            one.maybe("p99", p99.and_then(|(s, a)| Json::ratio(s.as_ps(), a.as_ps())));
            one.put("mean_ns", Json::span(two.shared.mean));
            one.maybe("p99_ns", two.shared.p99.map(Json::span));
            one.put("alone_mean_ns", Json::span(two.alone.mean));
            one.maybe("alone_p99_ns", two.alone.p99.map(Json::span));
            by_app.put(&two.app.to_string(), Json::Map(one));
        }
        map.put("by_app", Json::Map(by_app));
        // What takes no time alone (pages that were never written) is no quotient.
        let known = || self.0.iter().filter(|two| two.alone.mean > Span::ZERO);
        if let (Some(least), Some(most)) = (known().min_by(less), known().max_by(less)) {
            let (((ln, ld), (mn, md)), wide) = ((ratio(least), ratio(most)), u128::from);
            map.maybe("least", Json::ratio(ln, ld));
            map.maybe("most", Json::ratio(mn, md));
            map.maybe("fairness", quotient(wide(ln) * wide(md), wide(ld) * wide(mn)));
        }
        Json::Map(map)
    }
}

/// A quotient of products of times: both lose the same digits until they fit.
fn quotient(above: u128, below: u128) -> Option<Json> {
    let over = (128 - above.max(below).leading_zeros()).saturating_sub(64);
    Json::ratio((above >> over) as u64, (below >> over) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_is_the_least_over_the_largest() {
        let of = |us: u64| Response { mean: Span::from_us(us), p99: Some(Span::from_us(10 * us)) };
        let two = |app, shared, alone| Two { app, shared: of(shared), alone: of(alone) };
        let slowdown = Slowdown(vec![two(0, 300, 100), two(1, 0, 0), two(2, 1_000_000, 250_000)]);
        let json: serde_json::Value = serde_json::from_str(&slowdown.to_json().pretty()).unwrap();
        assert_eq!((json["least"].as_f64(), json["most"].as_f64()), (Some(3.0), Some(4.0)));
        assert_eq!(json["fairness"], 0.75);
        assert_eq!(json["by_app"]["2"]["p99"], 4.0);
        assert_eq!(json["by_app"]["0"]["alone_mean_ns"], 100_000);
        // Too few requests for a percentile are enough for a mean.
        let few = Two { app: 3, shared: Response { p99: None, ..of(800) }, alone: of(100) };
        let slowdown = Slowdown(vec![two(0, 300, 100), few]);
        let json: serde_json::Value = serde_json::from_str(&slowdown.to_json().pretty()).unwrap();
        assert_eq!(
            (json["by_app"]["3"]["mean"].as_f64(), json["fairness"].as_f64()),
            (Some(8.0), Some(0.375))
        );
        assert!(
            json["by_app"]["3"]["p99"].is_null()
                && json["by_app"]["3"]["alone_p99_ns"] == 1_000_000
        );
    }
}
