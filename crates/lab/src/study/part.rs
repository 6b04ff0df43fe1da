//! Which points of a study are run here.

use super::Index;
use crate::LabError;

/// Decimal digits of a point's number at most: what is longer is an id.
const MOST_DIGITS: usize = 9;
/// Digits of the beginning of an id at least.
const LEAST_PREFIX: usize = 10;

/// Which points of a study are run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// All.
    All,
    /// Every `of`-th, from `number` on.
    Shard {
        /// Which shard, from 0.
        number: usize,
        /// How many there are.
        of: usize,
    },
    /// These, by their places.
    Points(Vec<usize>),
}

impl Part {
    /// `I/N`. Arrays of jobs are numbered from 0 or from 1: `N/N` is `0/N`, so that either numbering
    /// has each shard once.
    ///
    /// # Errors
    /// What was expected.
    pub fn shard(text: &str) -> Result<Part, String> {
        let expected = || {
            format!(
                "found `{text}`, expected I/N such as 3/8: of N shards the I-th, from 0 or from 1"
            )
        };
        let (number, of) = text.split_once('/').ok_or_else(expected)?;
        let number: usize = number.parse().map_err(|_| expected())?;
        let of: usize = of.parse().map_err(|_| expected())?;
        if of == 0 || number > of {
            return Err(expected());
        }
        Ok(Part::Shard { number: number % of, of })
    }

    /// Points by their numbers (`7`, `3..9`, both ends included) or ids (or how they begin).
    ///
    /// # Errors
    /// A point that is not there, or cannot be.
    pub fn points(texts: &[String], index: &Index) -> Result<Part, LabError> {
        let mut places = Vec::new();
        for text in texts.iter().flat_map(|text| text.split(',')).map(str::trim) {
            for place in named(text, index)? {
                if let Some(reason) = index.entries[place].impossible() {
                    let name = index.entries[place].name();
                    let what =
                        format!("--point {text}: point {place} ({name}) cannot be: {reason}");
                    return Err(LabError::Input(what));
                }
                if !places.contains(&place) {
                    places.push(place);
                }
            }
        }
        Ok(Part::Points(places))
    }

    /// The places of its points that can be run, in order.
    pub(super) fn places(&self, index: &Index) -> Vec<usize> {
        let here = |place: &usize| match self {
            Part::All => true,
            Part::Shard { number, of } => place % of == *number,
            Part::Points(places) => places.contains(place),
        };
        index.ids().map(|(place, _)| place).filter(here).collect()
    }
}

/// The places that a text names.
fn named(text: &str, index: &Index) -> Result<Vec<usize>, LabError> {
    let all = index.entries.len();
    let wrong = |found: &str| {
        LabError::Input(format!(
            "--point {text}: {found}; expected a number below {all}, A..B, or an id of `varve points`"
        ))
    };
    let number = |text: &str| -> Option<usize> {
        let plain = text.len() <= MOST_DIGITS && text.bytes().all(|b| b.is_ascii_digit());
        text.parse().ok().filter(|_| plain)
    };
    let places = match (number(text), text.split_once("..")) {
        (Some(one), _) => vec![one],
        (None, Some((low, high))) => {
            let ends = (number(low.trim()), number(high.trim()));
            let (Some(low), Some(high)) = ends else { return Err(wrong("no range of numbers")) };
            // One past the last that there is says enough.
            (low..=high.min(all)).collect()
        }
        (None, None) => {
            let begins =
                |(_, id): &(usize, &str)| text.len() >= LEAST_PREFIX && id.starts_with(text);
            let found: Vec<usize> = index.ids().filter(begins).map(|(place, _)| place).collect();
            if found.len() > 1 {
                return Err(wrong("several ids begin so"));
            }
            found
        }
    };
    match places.iter().find(|place| **place >= all) {
        Some(place) => Err(wrong(&format!("there is no point {place}"))),
        None if places.is_empty() => Err(wrong("there is none of it")),
        None => Ok(places),
    }
}
