//! What became of a paper's numbers, counted: each is one of four things.

use super::{Claim, Study, Table, Value, Verdict};

/// What became of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It comes out under the study's own condition.
    Agrees,
    /// Under another one.
    Elsewhere,
    Differs,
    NotRepeated,
}

impl Outcome {
    const ALL: [Outcome; 4] =
        [Outcome::Agrees, Outcome::Elsewhere, Outcome::Differs, Outcome::NotRepeated];

    pub(super) fn of(claim: &Claim) -> Outcome {
        let any = |verdict| claim.under.iter().any(|answer| answer.verdict == verdict);
        match claim.verdict {
            Verdict::Agrees => Outcome::Agrees,
            _ if any(Verdict::Agrees) => Outcome::Elsewhere,
            Verdict::NotRepeated if !any(Verdict::Differs) => Outcome::NotRepeated,
            _ => Outcome::Differs,
        }
    }
}

impl Study {
    /// How many of its numbers became that.
    pub(super) fn count(&self, outcome: Outcome) -> usize {
        self.claims.iter().filter(|claim| Outcome::of(claim) == outcome).count()
    }
}

/// How many numbers each study has, and what became of them; `studies` have a short name each.
pub fn counts(studies: &[(String, Study)]) -> Table {
    let columns =
        ["study", "numbers", "come out", "under another condition", "differ", "not repeated"];
    let mut table = Table::new(columns.map(|name| (name, name)));
    for (name, study) in studies {
        let each = Outcome::ALL.map(|outcome| study.count(outcome));
        let numbers = std::iter::once(study.claims.len()).chain(each).map(Value::from);
        table.row(std::iter::once(Value::from(name)).chain(numbers));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::condition::Answer;
    use super::*;

    #[test]
    fn each_number_is_counted_once() {
        let mut study = Study::default();
        let own = [Verdict::Agrees, Verdict::Differs, Verdict::Differs, Verdict::NotRepeated];
        for verdict in own {
            study.claim(("Fig. 1", "rate"), "1", "2", verdict, "");
        }
        let elsewhere = Answer {
            condition: "b".to_string(),
            here: String::new(),
            values: Vec::new(),
            verdict: Verdict::Agrees,
        };
        study.claims[2].under.push(elsewhere);
        let text = counts(&[("a".to_string(), study)]).text();
        let row: Vec<&str> = text.lines().last().unwrap_or_default().split_whitespace().collect();
        assert_eq!(row, ["a", "4", "1", "1", "1", "1"], "{text}");
    }
}
