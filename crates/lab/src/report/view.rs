//! What a report shows, taken out of a result document: runs, grouped by what was swept beside
//! the seed.

use serde_json::Value;

use crate::metric::Metric;

/// A result document to be shown.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// What tells it from others beside it: the path it was read from.
    pub name: &'a str,
    /// The document.
    pub value: &'a Value,
    /// What repeats it; empty if nobody knows.
    pub command: &'a str,
}

/// One run of a document.
pub(super) struct Run<'a> {
    pub value: &'a Value,
    pub seed: u64,
    pub group: usize,
}

/// Runs of a document that differ in their seed alone.
pub(super) struct Group {
    /// The document's number.
    pub document: usize,
    /// The swept keys and their values.
    pub params: Vec<(String, String)>,
    /// Its runs.
    pub runs: Vec<usize>,
}

/// Documents, ready to be drawn.
pub(super) struct View<'a> {
    pub documents: &'a [Shown<'a>],
    pub runs: Vec<Run<'a>>,
    pub groups: Vec<Group>,
}

impl<'a> View<'a> {
    pub(super) fn new(documents: &'a [Shown<'a>]) -> View<'a> {
        let mut view = View { documents, runs: Vec::new(), groups: Vec::new() };
        for (document, shown) in documents.iter().enumerate() {
            let results = shown.value["results"].as_array().map_or(&[][..], Vec::as_slice);
            results.iter().for_each(|value| view.add(document, value));
        }
        view
    }

    fn add(&mut self, document: usize, value: &'a Value) {
        let params: Vec<(String, String)> = value["params"]
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, _)| *key != "seed")
            .map(|(key, v)| (key.clone(), v.as_str().unwrap_or_default().to_string()))
            .collect();
        let same = |g: &Group| g.document == document && g.params == params;
        let known = self.groups.iter().position(same);
        let group = known.unwrap_or_else(|| {
            self.groups.push(Group { document, params, runs: Vec::new() });
            self.groups.len() - 1
        });
        self.groups[group].runs.push(self.runs.len());
        let seed = value["params"]["seed"].as_u64().unwrap_or(0);
        self.runs.push(Run { value, seed, group });
    }

    /// A label as short as the sweep allows: values only, unless there is nothing swept; before it
    /// the document, if there are several.
    pub(super) fn label(&self, group: usize) -> String {
        let Group { document, params, .. } = &self.groups[group];
        let mut words: Vec<&str> = params.iter().map(|(_, value)| value.as_str()).collect();
        if self.documents.len() > 1 {
            words.insert(0, self.documents[*document].name);
        }
        if words.is_empty() { "this run".to_string() } else { words.join(" · ") }
    }

    /// The same of a run: with its seed, where there are several.
    pub(super) fn label_of_run(&self, run: usize) -> String {
        let Run { group, seed, .. } = &self.runs[run];
        match self.groups[*group].runs.len() {
            1 => self.label(*group),
            _ => format!("{} · seed {seed}", self.label(*group)),
        }
    }

    /// A metric of every run of a group that has it.
    pub(super) fn values(&self, group: usize, metric: Metric) -> Vec<f64> {
        let runs = self.groups[group].runs.iter();
        runs.filter_map(|run| metric.of(self.runs[*run].value)).collect()
    }

    /// Mean over the seeds, and half of its 95 % confidence interval if there are several.
    pub(super) fn mean(&self, group: usize, metric: Metric) -> Option<(f64, Option<f64>)> {
        mean_ci(&self.values(group, metric))
    }

    /// Whether any run has it.
    pub(super) fn has(&self, metric: Metric) -> bool {
        self.runs.iter().any(|run| metric.of(run.value).is_some())
    }
}

/// Mean, and half of the 95 % confidence interval of the mean (Student's t), of a sample.
pub fn mean_ci(values: &[f64]) -> Option<(f64, Option<f64>)> {
    let n = values.len();
    if n == 0 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n as f64;
    if n == 1 {
        return Some((mean, None));
    }
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
    Some((mean, Some(student_t(n - 1) * (variance / n as f64).sqrt())))
}

/// Which of some means, each with half of its interval, are best (`sense` 1: the most, else the
/// least): the best one and all whose intervals overlap its own. None of them if all tie.
pub fn best(means: &[Option<(f64, Option<f64>)>], sense: i8) -> Vec<bool> {
    let sign = if sense == 1 { -1.0 } else { 1.0 };
    let interval = |(mean, half): (f64, Option<f64>)| {
        let half = half.unwrap_or(0.0);
        (sign * mean, sign * mean - half, sign * mean + half)
    };
    let found: Vec<_> = means.iter().map(|mean| mean.map(interval)).collect();
    let Some(first) = found.iter().flatten().min_by(|a, b| a.0.total_cmp(&b.0)) else {
        return vec![false; means.len()];
    };
    let ties = |of: &(f64, f64, f64)| of.1 <= first.2 && first.1 <= of.2;
    let marks: Vec<bool> = found.iter().map(|of| of.as_ref().is_some_and(ties)).collect();
    let choice = found.iter().flatten().any(|of| !ties(of));
    if choice { marks } else { vec![false; means.len()] }
}

/// The 97.5 % point of Student's t distribution.
fn student_t(freedom: usize) -> f64 {
    const T: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    T.get(freedom - 1).copied().unwrap_or(1.96 + 2.4 / freedom as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_of_a_known_sample() {
        assert_eq!(mean_ci(&[]), None);
        assert_eq!(mean_ci(&[3.0]), Some((3.0, None)));
        let (mean, half) = mean_ci(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        // s = 1.5811, t(4) = 2.776, s/sqrt(5) = 0.7071.
        assert_eq!(mean, 3.0);
        assert!((half.unwrap() - 1.9629).abs() < 1e-3);
        assert!((student_t(31) - 2.04).abs() < 0.01 && (student_t(1000) - 1.962).abs() < 0.001);
    }

    #[test]
    fn only_intervals_that_do_not_overlap_make_a_best_one() {
        let of = |mean, half| Some((mean, Some(half)));
        let marks = |means: &[_], sense| best(means, sense);
        // Two policies that were told apart by a star, though the seeds do not tell them apart.
        let near = [of(6.949, 0.185), of(7.045, 0.127)];
        assert_eq!(marks(&near, -1), [false, false]);
        assert_eq!(marks(&[near[0], near[1], of(9.0, 0.1)], -1), [true, true, false]);
        assert_eq!(marks(&[near[0], near[1], of(9.0, 0.1)], 1), [false, false, true]);
        assert_eq!(marks(&[Some((2.0, None)), None, Some((2.5, None))], -1), [true, false, false]);
        assert_eq!(marks(&[Some((2.0, None)), Some((2.0, None))], -1), [false, false]);
        assert_eq!(marks(&[None], 1), [false]);
    }

    #[test]
    fn runs_are_grouped_by_what_is_swept_beside_the_seed() {
        let run = |policy: &str, seed: u64| serde_json::json!({"params": {"buffer.policy": policy, "seed": seed}, "waf": seed});
        let document = serde_json::json!({
            "results": [run("lru", 1), run("lru", 3), run("aoi", 1), run("aoi", 3)]
        });
        let shown = |name| Shown { name, value: &document, command: "" };
        let one = [shown("a")];
        let view = View::new(&one);
        assert_eq!(view.groups.len(), 2);
        assert_eq!((view.label(1), view.label_of_run(3)), ("aoi".into(), "aoi · seed 3".into()));
        assert_eq!(view.mean(0, crate::metric::WAF).unwrap().0, 2.0);
        let two = [shown("a"), shown("b")];
        let view = View::new(&two);
        assert_eq!((view.groups.len(), view.label(2)), (4, "b · lru".to_string()));
    }
}
