//! A rule that makes a served disk fail: its text, and what it strikes.
//!
//! ```text
//! KIND [ops=read,write,flush,trim] [range=FROM-TO] [nth=N] [from=N] [rate=N/M] [count=N] [time=MS] [seed=N]
//! ```

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

use block::Rng;

/// What is asked of a disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Asked {
    /// A read.
    Read,
    /// A write, or zeroes.
    Write,
    /// A flush.
    Flush,
    /// A discard.
    Trim,
}

const ASKED: [(Asked, &str); 4] = [
    (Asked::Read, "read"),
    (Asked::Write, "write"),
    (Asked::Flush, "flush"),
    (Asked::Trim, "trim"),
];

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It fails, and nothing is done.
    Eio,
    /// A write or discard fails for want of space, and nothing is done.
    Enospc,
    /// Its answer comes later.
    Latency(Duration),
    /// A write, flush or discard is answered, and not done: what is read later is stale.
    Stale,
    /// One bit of what is read is another.
    Flip,
}

/// What is understood, for people.
pub const EXPECTED: &str = "eio, enospc, latency, stale or flip, then any of ops=read,write,flush,trim \
    range=FROM-TO nth=N from=N rate=N/M count=N time=MS (of latency) seed=N";

/// A rule.
#[derive(Clone, Debug)]
pub struct Rule {
    kind: Kind,
    asked: Vec<Asked>,
    range: Option<Range<u64>>,
    /// Only the one of this number, of those that it is for.
    nth: Option<u64>,
    /// Only those from this number on.
    from: u64,
    rate: (u64, u64),
    /// Strikes that are left.
    left: Option<u64>,
    rng: Rng,
    /// Requests that it was for.
    met: u64,
    struck: u64,
    text: String,
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Rule, String> {
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or_default();
        let mut time = None;
        let mut rule = Rule {
            kind: Kind::Eio,
            asked: Vec::new(),
            range: None,
            nth: None,
            from: 1,
            rate: (1, 1),
            left: None,
            rng: Rng::stream(1, "serve/faults"),
            met: 0,
            struck: 0,
            text: text.split_whitespace().collect::<Vec<_>>().join(" "),
        };
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            rule.set(key, value, &mut time)
                .ok_or_else(|| format!("`{word}`: expected {EXPECTED}"))?;
        }
        let (kind, can): (Kind, &[Asked]) = match (name, time) {
            ("eio", None) => (Kind::Eio, &[Asked::Read, Asked::Write, Asked::Flush, Asked::Trim]),
            ("enospc", None) => (Kind::Enospc, &[Asked::Write, Asked::Trim]),
            ("latency", Some(time)) => {
                (Kind::Latency(time), &[Asked::Read, Asked::Write, Asked::Flush, Asked::Trim])
            }
            ("latency", None) => return Err("latency: expected time=MS".to_string()),
            ("stale", None) => (Kind::Stale, &[Asked::Write, Asked::Flush, Asked::Trim]),
            ("flip", None) => (Kind::Flip, &[Asked::Read]),
            _ => return Err(format!("`{text}`: expected {EXPECTED}")),
        };
        if let Some(asked) = rule.asked.iter().find(|asked| !can.contains(asked)) {
            return Err(format!("{name}: not for {asked:?}").to_lowercase());
        }
        if rule.asked.is_empty() {
            rule.asked = can.to_vec();
        }
        rule.kind = kind;
        Ok(rule)
    }
}

impl Rule {
    fn set(&mut self, key: &str, value: &str, time: &mut Option<Duration>) -> Option<()> {
        match key {
            "ops" => {
                let one =
                    |word| ASKED.iter().find(|(_, name)| *name == word).map(|(asked, _)| *asked);
                self.asked = value.split(',').map(one).collect::<Option<_>>()?;
            }
            "range" => {
                let (from, to) = value.split_once('-')?;
                let bytes = |text| block::parse_size(text).ok().map(|bytes| bytes.0);
                let range = bytes(from)?..bytes(to)?;
                self.range = Some(range).filter(|range| !range.is_empty());
                self.range.as_ref()?;
            }
            "nth" => self.nth = Some(value.parse().ok().filter(|number| *number > 0)?),
            "from" => self.from = value.parse().ok().filter(|number| *number > 0)?,
            "rate" => {
                let (some, of) = value.split_once('/')?;
                let rate: (u64, u64) = (some.parse().ok()?, of.parse().ok()?);
                self.rate = Some(rate).filter(|(some, of)| *some > 0 && some <= of)?;
            }
            "count" => self.left = Some(value.parse().ok()?),
            "time" => *time = Some(Duration::from_millis(value.parse().ok()?)),
            "seed" => self.rng = Rng::stream(value.parse().ok()?, "serve/faults"),
            _ => return None,
        }
        Some(())
    }

    /// The first byte that it can strike.
    pub fn first_byte(&self) -> u64 {
        self.range.as_ref().map_or(0, |range| range.start)
    }

    /// Whether it strikes this request: what becomes of it. A flush has no range, and a rule with one never
    /// strikes it.
    pub fn strikes(&mut self, asked: Asked, at: u64, bytes: u64) -> Option<Kind> {
        let meets = match (&self.range, asked) {
            (None, _) => true,
            (Some(_), Asked::Flush) => false,
            (Some(range), _) => at < range.end && at.saturating_add(bytes) > range.start,
        };
        if !meets || !self.asked.contains(&asked) || self.left == Some(0) {
            return None;
        }
        self.met += 1;
        let strikes = match self.nth {
            _ if self.met < self.from => false,
            Some(nth) => self.met == nth,
            None => self.rng.ratio(self.rate.0, self.rate.1),
        };
        if !strikes {
            return None;
        }
        self.struck += 1;
        self.left = self.left.map(|left| left - 1);
        Some(self.kind)
    }

    /// A number below `bound`, for whatever else is drawn.
    pub fn draw(&mut self, bound: u64) -> u64 {
        self.rng.below(bound)
    }

    /// Requests that it was for, and those that it struck.
    pub fn counts(&self) -> (u64, u64) {
        (self.met, self.struck)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Rule {
        text.parse().expect(text)
    }

    #[test]
    fn a_rule_strikes_what_it_says() {
        let mut nth = rule("eio ops=write nth=2");
        assert_eq!(nth.strikes(Asked::Read, 0, 9), None);
        assert_eq!(nth.strikes(Asked::Write, 0, 9), None);
        assert_eq!(nth.strikes(Asked::Write, 0, 9), Some(Kind::Eio));
        assert_eq!(nth.strikes(Asked::Write, 0, 9), None);
        assert_eq!(nth.counts(), (3, 1));
        let mut from = rule("eio ops=flush from=2");
        let struck = [(); 3].map(|()| from.strikes(Asked::Flush, 0, 0).is_some());
        assert_eq!(struck, [false, true, true]);
        let mut range = rule("flip range=4KiB-8KiB count=1");
        assert_eq!(range.strikes(Asked::Read, 0, 4096), None);
        assert_eq!(range.strikes(Asked::Read, 8191, 1), Some(Kind::Flip));
        assert_eq!(range.strikes(Asked::Read, 8191, 1), None, "it was for one");
        assert_eq!(rule("eio range=0-4KiB").strikes(Asked::Flush, 0, 0), None);
        let mut rate = rule("latency rate=1/4 time=3 seed=5");
        let struck = (0..4000).filter(|_| rate.strikes(Asked::Read, 0, 1).is_some()).count();
        assert!((800..1200).contains(&struck), "{struck}");
    }

    #[test]
    fn what_is_no_rule_says_what_is() {
        for wrong in [
            "",
            "fire",
            "eio ops=",
            "eio ops=sync",
            "eio nth=0",
            "eio from=0",
            "eio rate=2/1",
            "eio rate=0/9",
            "eio range=8-4",
            "eio time=3",
            "latency",
            "enospc ops=read",
            "flip ops=write",
            "eio x",
        ] {
            assert!(wrong.parse::<Rule>().is_err(), "{wrong}");
        }
    }
}
