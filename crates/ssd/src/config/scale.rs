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
        let mut why = None;
        for line in [None, self.base.as_ref().map(|base| base.line)] {
            for parts in self.parts(n) {
                let config = self.divided(n, parts, text, from, kept).and_then(|mut config| {
                    if let (Some(line), "auto") = (line, self.text("line")) {
                        config.name_line(line, text, from)?;
                    }
                    config.resolve().map(|_| config)
                });
                match config {
                    Ok(config) => return Ok(config),
                    // The first of the drives that keep their kind of line is the one most like the whole.
                    Err(error) if line.is_some() => {
                        why.get_or_insert(error.to_string());
                    }
                    Err(_) => {}
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
mod tests {
    use block::Span;

    use super::*;
    use crate::config::{load_text, preset, presets};

    fn fails(text: &str) -> String {
        load_text("x.toml", text).expect_err(text).to_string()
    }

    fn scaled(name: &str, by: &str) -> Config {
        let mut config = preset(name).unwrap().config;
        config.scale(by, "a test").unwrap();
        config
    }

    #[test]
    fn scaling_keeps_lines_dies_times_and_spare_space_of_every_preset() {
        for name in presets() {
            let whole = preset(name).unwrap().config;
            let scales = whole.scales();
            let n = *scales.iter().rfind(|n| **n <= 64).unwrap();
            let small = scaled(name, &format!("1/{n}"));
            let (a, b) = (whole.resolve().unwrap(), small.resolve().unwrap());
            assert_eq!(a.line, b.line, "{name}");
            let part = a.geometry.pages_per_block / b.geometry.pages_per_block;
            println!(
                "{name}: 1/{n}, pages / {part}, {} -> {} lines; {scales:?}",
                a.lines(),
                b.lines()
            );
            let lines = a.lines() * part / n as u32;
            assert!(lines.abs_diff(b.lines()) <= lines / 50 + a.groups.len() as u32, "{name}");
            let plain = a.timing.page_types == nand::PageTypes::Uniform || a.timing.one_shot;
            assert!(u64::from(part) == n || !plain, "{name} keeps its lines");
            assert!(n >= if plain { 32 } else { 2 }, "{name}: 1/{n}");
            assert_eq!(a.groups, b.groups, "{name}");
            assert_eq!(a.timing.t_read, b.timing.t_read, "{name}");
            assert_eq!(a.timing.t_program, b.timing.t_program, "{name}");
            assert_eq!(
                a.timing.t_erase.as_ps() / u64::from(part),
                b.timing.t_erase.as_ps(),
                "{name}"
            );
            assert_eq!(a.queue_depth, b.queue_depth);
            let (whole, small) = (u64::from(a.logical_pages), u64::from(b.logical_pages));
            assert!((whole / n).abs_diff(small) <= whole / n / 100, "{name}: {whole} {small}");
            assert!(a.op_ppm.abs_diff(b.op_ppm) <= a.op_ppm / 50 + 2000, "{name}");
            assert!(b.buffer.size.0 <= a.buffer.size.0 && b.buffer.size.0 * n >= a.buffer.size.0);
        }
    }

    #[test]
    fn what_scaling_changed_is_said_with_its_origin() {
        let text = "preset = \"mqsim-default\"\nscale = \"1/32\"";
        let small = load_text("x.toml", text).unwrap();
        let changed: Vec<_> = small.scaled().unwrap().changed.iter().map(|c| c.0).collect();
        assert_eq!(changed, ["geometry.pages", "nand.erase", "buffer.size", "map.cache"]);
        assert_eq!((small.text("geometry.pages"), small.text("geometry.blocks")), ("8", "2048"));
        assert_eq!(small.time("nand.erase"), Span::from_ps(3_800_000_000 / 32));
        assert_eq!(small.text("buffer.size"), "8 MiB");
        let origin = &small.values["geometry.pages"].origin;
        assert_eq!(origin.from, "preset mqsim-default, scaled 1/32 by x.toml:2");
        assert_eq!(origin.tag.as_deref(), Some("published"));
        for bad in ["1/0", "2/3", "1/x", "1/3", "1/3000", "half"] {
            let text = format!("preset = \"mqsim-default\"\nscale = \"{bad}\"");
            assert!(fails(&text).starts_with("x.toml:2: `scale`"), "{bad}");
        }
        // Its word lines of two pages are completed before every erase: short blocks are padding.
        let error = fails("preset = \"samsung-970pro\"\nscale = \"1/256\"");
        assert!(error.contains("down to 1/64 here, and down to 1/256 with op = 13 % ("), "{error}");
    }

    /// 128 lines are few: `auto` would take half of the dies. So the line is named, and that is said.
    #[test]
    fn a_drive_scaled_far_keeps_its_kind_of_line_by_name() {
        let whole = preset("samsung-970pro").unwrap().config;
        assert_eq!(whole.scales().last(), Some(&32), "what fits a workload keeps many lines");
        let small = scaled("samsung-970pro", "1/64");
        let line = small.scaled().unwrap().changed.iter().find(|c| c.0 == "line");
        assert_eq!(line, Some(&("line", "auto".to_string(), "superblock".to_string())));
        assert_eq!(small.resolve().unwrap().lines(), 128);
        let mut roomy = whole.clone();
        roomy.set_pair("op = 13 %").unwrap();
        roomy.scale("1/256", "a test").unwrap();
        assert_eq!((roomy.resolve().unwrap().lines(), roomy.text("line")), (128, "superblock"));
        let mut own = whole;
        for pair in ["line=die", "scale=1/256"] {
            own.set_pair(pair).unwrap();
        }
        assert_eq!(own.resolve().unwrap().line, LineKind::Die);
    }

    #[test]
    fn what_is_wrong_at_any_size_is_not_said_of_the_scale() {
        let mut config = preset("samsung-970pro").unwrap().config;
        config.set_pair("op = 0.1 %").unwrap();
        let error = config.resolve().unwrap_err().to_string();
        config.set_pair("scale=1/8").unwrap();
        let scaled = config.resolve().unwrap_err().to_string();
        assert!(
            scaled.starts_with("op, geometry, gc.reserve: ") && error.starts_with("op, "),
            "{scaled} {error}"
        );
    }

    /// The idle read of 128 KiB that takes 1.1 ms instead of 0.2: the drive writes one die at a time.
    #[test]
    fn a_drive_made_small_by_its_capacity_is_refused_unless_the_line_has_a_name() {
        let mut config = preset("mqsim-default").unwrap().config;
        for pair in ["geometry.blocks=0", "capacity=4 GiB"] {
            config.set_pair(pair).unwrap();
        }
        let error = config.resolve().unwrap_err().to_string();
        assert!(error.starts_with("line: auto would collect and write a die at a time"), "{error}");
        assert!(
            error.contains("mqsim-default has a superblock as its line, over 64 dies"),
            "{error}"
        );
        config.set_pair("line=die").unwrap();
        assert_eq!(config.resolve().unwrap().line, LineKind::Die);
        // A drive nobody made smaller may have any line.
        let mut own = Config::default();
        own.set_pair("capacity=4 MiB").unwrap();
        assert!(own.resolve().is_ok());
    }
}
