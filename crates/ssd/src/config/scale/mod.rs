//! A smaller drive that behaves like the whole one, and the drive that only looks like it.
//!
//! Scaling by 1/n makes blocks of n times fewer pages and leaves everything else that decides how a
//! drive behaves: channels, dies, planes, page and program times, the share of spare space, the
//! queue and the number of lines. Erasing such a block takes less in proportion, so that cleaning
//! takes the same share of the time. DRAM for data and map shrinks with the drive, but never below
//! what keeps the array busy.
//!
//! Where cells hold several pages, word lines are completed before every erase: that padding does
//! not shrink, and in short blocks it would eat the spare space. There the blocks lose fewer pages
//! than asked and the drive loses lines instead, as long as the kind of its line stays: by `auto`,
//! or, where that would take smaller lines for their number, by its name. A drive of few lines needs more
//! spare space than a large one; where it has too little, the error says how much would do.
//!
//! A drive made small in any other way has few lines. With `line = auto` it would then collect one
//! die at a time and write one die at a time: 32 pages one after the other where the drive it is
//! named after has 64 dies. That is refused unless the line is given by name, be it `auto`.

use block::Bytes;

use super::resolve::clash;
use super::shape::Shape;
use super::{Config, ConfigError, LineKind, Origin};

/// Between who set a value and by what it was scaled.
pub(super) const MARK: &str = ", scaled ";

/// Lines of a scaled drive whose kind of line is named: with fewer, one victim is more than a hundredth of it.
const FEWEST: u32 = 100;

/// What a drive was before somebody changed its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Base {
    /// The preset or file.
    pub name: String,
    /// What `auto` collects there.
    pub line: LineKind,
}

/// What scaling changed, as texts for people: key, before, after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scaled {
    /// `1/64`.
    pub by: String,
    /// Keys with what they were and what they are.
    pub changed: Vec<(&'static str, String, String)>,
}

/// A time in microseconds, exact.
fn micros(ps: u64) -> String {
    let text = format!("{}.{:06}", ps / 1_000_000, ps % 1_000_000);
    format!("{} us", text.trim_end_matches('0').trim_end_matches('.'))
}

/// The n of `1/n`.
fn divisor(text: &str) -> Option<u64> {
    text.strip_prefix("1/").and_then(|n| n.trim().parse().ok()).filter(|n| *n > 0)
}

impl Config {
    /// Makes the drive `1/n` of its size: see the module.
    ///
    /// What the command line set before is taken as it is.
    ///
    /// # Errors
    /// A text that is not `1/n`, or an n that leaves no such drive; the error says how far one can go.
    pub fn scale(&mut self, text: &str, from: &str) -> Result<(), ConfigError> {
        self.scale_but(text, from, &[])
    }

    /// As [`Config::scale`]; the keys `kept` stay as they are, too.
    ///
    /// # Errors
    /// As [`Config::scale`].
    pub fn scale_but(&mut self, text: &str, from: &str, kept: &[&str]) -> Result<(), ConfigError> {
        let bad = |expected: String| ConfigError::BadValue {
            from: from.to_string(),
            key: "scale".to_string(),
            found: text.to_string(),
            expected,
        };
        let n = divisor(text).ok_or_else(|| bad("1/n with a whole n, such as `1/64`".into()))?;
        if n == 1 {
            return Ok(());
        }
        let scaled = match self.scaled_by(n, text, from, kept) {
            // A drive that is none at any size tells so by itself.
            Err(_) if self.resolve().is_err() => self.first_of(n, text, from, kept),
            scaled => scaled,
        };
        *self = scaled.map_err(|why| {
            let least = (1..16).rev().map(|bit| 1 << bit).find(|n| {
                self.scaled_by(*n, text, from, kept).is_ok()
            });
            let more = self.spare_for(n, text, from, kept).map_or(String::new(), |percent| {
                format!(", and down to 1/{n} with op = {percent} %")
            });
            bad(format!(
                "1/n with an n that leaves a drive of the same kind, down to 1/{} here{more} ({why}); for a smaller one set capacity or geometry.blocks and give `line` by name",
                least.unwrap_or(1)
            ))
        })?;
        Ok(())
    }

    /// The drive scaled by 1/n, or why there is none.
    fn scaled_by(&self, n: u64, text: &str, from: &str, kept: &[&str]) -> Result<Config, String> {
        let by_auto = self.first_whole(n, text, from, kept, None);
        let line = self.base.as_ref().filter(|_| self.text("line") == "auto").map(|base| base.line);
        match (by_auto, line) {
            (Err(_), Some(line)) => self.first_whole(n, text, from, kept, Some(line)),
            (by_auto, _) => by_auto,
        }
    }

    /// The first division that is a drive, with its line named if one is given; or why the first of all is none: it is
    /// the one most like the whole.
    fn first_whole(
        &self,
        n: u64,
        text: &str,
        from: &str,
        kept: &[&str],
        line: Option<LineKind>,
    ) -> Result<Config, String> {
        let mut why = None;
        for part in self.parts(n) {
            let config = self.divided(n, part, text, from, kept).and_then(|mut config| {
                if let Some(line) = line {
                    config.name_line(line, text, from)?;
                }
                match config.resolve()?.lines() {
                    lines if line.is_some() && lines < FEWEST => Err(clash(
                        "geometry.blocks",
                        format!("{lines} lines: a scaled drive has {FEWEST} at least"),
                    )),
                    _ => Ok(config),
                }
            });
            match config {
                Ok(config) => return Ok(config),
                Err(error) => {
                    why.get_or_insert(error.to_string());
                }
            }
        }
        Err(why.unwrap_or_else(|| self.undivided(n)))
    }

    /// The first division of the drive that keeps whole word lines, be it a drive or not.
    fn first_of(&self, n: u64, text: &str, from: &str, kept: &[&str]) -> Result<Config, String> {
        let divided = |part: u64| self.divided(n, part, text, from, kept);
        let first = self.parts(n).into_iter().map(divided).find_map(Result::ok);
        first.ok_or_else(|| self.undivided(n))
    }

    fn undivided(&self, n: u64) -> String {
        format!("nothing of {} pages is divided by {n}", self.count("geometry.pages"))
    }

    /// Writes down what `auto` took in the whole drive.
    fn name_line(&mut self, line: LineKind, text: &str, from: &str) -> Result<(), ConfigError> {
        let old = self.values["line"].origin.clone();
        let origin = Origin { from: format!("{}{MARK}{text} by {from}", old.from), ..old };
        self.set("line", line.name(), origin)?;
        if let Some(scaled) = &mut self.scaled {
            scaled.changed.push(("line", "auto".to_string(), line.name().to_string()));
        }
        Ok(())
    }

    /// The least over-provisioning in whole percent, up to 50, with which there is a drive of 1/n.
    fn spare_for(&self, n: u64, text: &str, from: &str, kept: &[&str]) -> Option<u64> {
        let now = self.ppm("op") / 10_000;
        (now + 1..=50).find(|percent| {
            let mut roomy = self.clone();
            let origin = self.values["op"].origin.clone();
            roomy.set("op", &format!("{percent} %"), origin).is_ok()
                && roomy.scaled_by(n, text, from, kept).is_ok()
        })
    }

    /// Ways to divide the pages of a block so that it keeps whole word lines and all page types,
    /// the best first: as many lines as before where padding stays small beside the spare space,
    /// else as little padding as can be.
    fn parts(&self, n: u64) -> Vec<u64> {
        let pages = self.count("geometry.pages");
        let bits = self.count("geometry.cell_bits");
        let (step, least, padded) = match self.text("nand.page_types") {
            _ if self.flag("nand.one_shot") => (bits, bits, 0),
            "mlc-pairs" => (2, 8, 5),
            "uniform" => (1, 1, 0),
            _ => (bits, bits, bits - 1),
        };
        let whole = |part: &u64| {
            let left = pages / part;
            n.is_multiple_of(*part)
                && pages.is_multiple_of(*part)
                && (*part == 1 || left >= least && left.is_multiple_of(step))
        };
        let all: Vec<u64> = (1..=n.min(pages)).filter(whole).collect();
        // Two heads may be in the middle of a word line; an eighth of the spare space is small.
        let small = |part: &u64| 2 * padded * part * 8 * 1_000_000 <= self.ppm("op") * pages;
        let (kept, rest): (Vec<u64>, Vec<u64>) = all.into_iter().partition(small);
        kept.into_iter().rev().chain(rest).collect()
    }

    /// The drive with blocks of `part` times fewer pages, and fewer lines for the rest of n.
    fn divided(
        &self,
        n: u64,
        part: u64,
        text: &str,
        from: &str,
        kept: &[&str],
    ) -> Result<Config, ConfigError> {
        let (mut config, mut changed) = (self.clone(), Vec::new());
        let blocks = self.count("geometry.blocks");
        if !blocks.is_multiple_of(n / part) {
            return Err(clash(
                "geometry.blocks",
                format!("{blocks} are not divided by {}", n / part),
            ));
        }
        for (key, after) in self.scaled_values(n, part) {
            let (before, old) = (self.text(key).to_string(), self.values[key].origin.clone());
            if after == before || old.from == "command line" || kept.contains(&key) {
                continue;
            }
            let origin = Origin { from: format!("{}{MARK}{text} by {from}", old.from), ..old };
            config.set(key, &after, origin)?;
            if key != "buffer.size" || self.text("buffer.policy") != "none" {
                changed.push((key, before, after));
            }
        }
        config.scaled = Some(Scaled { by: text.to_string(), changed });
        Ok(config)
    }

    /// Takes the drive as one that was scaled before its values were written down: `before` has the
    /// keys that scaling changed to what they are, with their texts before.
    ///
    /// # Errors
    /// A text that is not `1/n`; an unknown key.
    pub fn was_scaled(
        &mut self,
        by: &str,
        from: &str,
        before: &[(String, String)],
    ) -> Result<(), ConfigError> {
        divisor(by).ok_or_else(|| ConfigError::BadValue {
            from: from.to_string(),
            key: "scaled".to_string(),
            found: by.to_string(),
            expected: "1/n with a whole n, such as `1/64`".to_string(),
        })?;
        let mut changed = Vec::new();
        for (name, before) in before {
            let Some(key) = super::key(name) else {
                return Err(ConfigError::UnknownKey {
                    from: from.to_string(),
                    key: name.clone(),
                    suggestion: super::schema::nearest(name),
                });
            };
            changed.push((key.name, before.clone(), self.text(key.name).to_string()));
        }
        changed.sort_unstable();
        self.scaled = Some(Scaled { by: by.to_string(), changed });
        Ok(())
    }

    /// What scaling changed, if the drive was scaled.
    pub fn scaled(&self) -> Option<&Scaled> {
        self.scaled.as_ref()
    }

    /// Every n for which the drive scaled by 1/n has enough lines for `auto` to keep their kind, in order.
    pub fn scales(&self) -> Vec<u64> {
        let divisors = |of: u64| (1..=of.min(1 << 16)).filter(move |n| of.is_multiple_of(*n));
        let blocks = self.count("geometry.blocks").max(1);
        let mut all: Vec<u64> = divisors(self.count("geometry.pages"))
            .flat_map(|a| divisors(blocks).map(move |b| a * b))
            .collect();
        all.sort_unstable();
        all.dedup();
        all.retain(|n| {
            let scaled = self.scaled_by(*n, "", "", &[]);
            scaled.is_ok_and(|config| config.text("line") == self.text("line"))
        });
        all
    }

    /// Keys that scaling by 1/n changes, with their texts after it.
    fn scaled_values(&self, n: u64, part: u64) -> Vec<(&'static str, String)> {
        let size = |key: &str| self.size(key).0;
        let erase = (self.time("nand.erase").as_ps() / part).max(1);
        // Two program groups for each plane: one is programmed while the other fills.
        let array = match Shape::new(self, super::OobMode::Lean) {
            Ok(shape) => 2 * u64::from(shape.all_planes()) * u64::from(shape.page),
            Err(_) => 0,
        };
        let group = if self.flag("nand.one_shot") { self.count("geometry.cell_bits") } else { 1 };
        let dram = |bytes: u64, least: u64| {
            let least = least.min(bytes);
            Bytes((bytes / n).max(least) / 4096 * 4096).human()
        };
        let mut values = vec![
            ("geometry.pages", (self.count("geometry.pages") / part).to_string()),
            ("geometry.blocks", (self.count("geometry.blocks") * part / n).to_string()),
            ("nand.erase", micros(erase)),
            ("buffer.size", dram(size("buffer.size"), array * group)),
            ("map.cache", dram(size("map.cache"), 2 * size("geometry.page"))),
            ("dram.size", dram(size("dram.size"), array * group)),
            ("plp.pages", self.count("plp.pages").div_ceil(n).to_string()),
        ];
        let zero = |key: &str| self.text(key).trim() == "0" || self.text(key).is_empty();
        values.retain(|(key, _)| !zero(key));
        if size("capacity") > 0 {
            values.push(("capacity", Bytes(size("capacity").div_ceil(n)).human()));
        }
        values
    }

    /// Remembers what `auto` collects in the drive as it stands: what a preset or a file describes.
    pub(super) fn remember_base(&mut self, name: &str) {
        if self.base.is_none() && self.text("line") == "auto" {
            let line = Shape::new(self, super::OobMode::Lean)
                .ok()
                .filter(|_| self.size("capacity").0 > 0 || self.count("geometry.blocks") > 0)
                .map(|shape| super::shape::auto_line(self, &shape));
            self.base = line.map(|line| Base { name: name.to_string(), line });
        }
    }

    /// Refuses a drive that would silently write fewer dies at a time than the one it started from.
    pub(super) fn check_parallelism(
        &self,
        line: LineKind,
        shape: &Shape,
    ) -> Result<(), ConfigError> {
        let Some(base) = &self.base else { return Ok(()) };
        let meant = self.text("line") != "auto" || self.is_asked("line");
        if meant || line >= base.line || shape.channels * shape.dies == 1 {
            return Ok(());
        }
        Err(clash(
            "line",
            format!(
                "auto would collect and write a {} at a time here, because larger lines would be too few; {} has a {} as its line, over {} dies: make the drive smaller with scale = 1/n, which keeps the number of lines, or give `line` by name",
                line.name(),
                base.name,
                base.line.name(),
                if base.line == LineKind::Channel {
                    shape.dies
                } else {
                    shape.channels * shape.dies
                },
            ),
        ))
    }
}

#[cfg(test)]
mod tests;
