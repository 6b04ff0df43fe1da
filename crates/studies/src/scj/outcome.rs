//! What is told of a run, in a few hundred numbers: small enough to be kept in a file, so that a study of the
//! paper's own size can be stopped and goes on, and a run that several sections show is run once.
//!
//! Invariant: what is read from a file is what was written, number by number and all of them, or an error.

use std::fmt::Write as _;

use block::Span;

use lab::fileload::Measured;
use lfs::fs::CleaningTime;

/// Latencies that are told: mean, p95, p99 (per 10,000; 0 is the mean).
pub(super) const PARTS: [(&str, u64); 3] = [("mean", 0), ("p95", 9500), ("p99", 9900)];
/// Parts of the run whose cleanings are told apart.
const TENTHS: usize = 10;
/// Parts of the cleanings, sorted by what was dirty.
const FOURTHS: usize = 4;

/// See above. Times are picoseconds.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Outcome {
    /// Blocks that programs wrote; all blocks; of them metadata.
    pub user: u64,
    pub written: u64,
    pub metadata: u64,
    pub operations: u64,
    elapsed: u64,
    pub cleaned: u64,
    pub cp_calls: u64,
    /// Of the checkpoints, those that a full journal asked for.
    pub journal_full: u64,
    pub flushes: u64,
    pub records: u64,
    /// Blocks copied; of them, pre-invalid ones.
    pub moved: [u64; 2],
    pub pre_invalid_peak: u64,
    /// Cleaned ahead of need; read for nothing; operations that waited.
    pub ahead: [u64; 3],
    /// Metadata dirty before cleanings, in all, and made dirty by them.
    pub dirty_before: u64,
    pub dirtied: u64,
    cleaning: [u64; 6],
    checkpoint: u64,
    /// Reads and updates; 0: too few to tell.
    latency: [[u64; 3]; 2],
    cleaning_p99: u64,
    /// Blocks in use and blocks that users may have, after the fill and at the end.
    pub usage: [(u64, u64); 2],
    /// Programs of the drive, and blocks it was asked to write.
    pub drive: (u64, u64),
    /// Time of the cleanings of each tenth of the run, and how many.
    tenths: [(u64, u64); TENTHS],
    /// Of each fourth of the cleanings by dirt: blocks dirty before, time of checkpoints, how many.
    pub fourths: [[u64; 3]; FOURTHS],
    /// What asked for checkpoints.
    pub triggers: String,
}

impl Outcome {
    pub(super) fn of(one: &Measured) -> Outcome {
        let (stats, time) = (&one.stats, one.stats.cleaning);
        let ps = |span: Option<Span>| span.unwrap_or_default().as_ps();
        let latency = [0, 1].map(|kind| {
            let histogram = &one.latency[kind];
            PARTS.map(|(_, part)| match part {
                0 => ps(histogram.mean()),
                part => ps(histogram.percentile(part)),
            })
        });
        let full = stats.triggers.iter().find(|(t, _)| t.name() == "CP journal full");
        let cleaning = [time.init, time.copy, time.flush, time.journal, time.checkpoint, time.wait];
        Outcome {
            user: one.user,
            written: one.written(),
            metadata: one.metadata(),
            operations: one.operations,
            elapsed: one.elapsed.as_ps(),
            cleaned: one.cleaned(),
            cp_calls: stats.cp_calls,
            journal_full: full.map_or(0, |(_, n)| *n),
            flushes: stats.flushes,
            records: stats.journal[0],
            moved: stats.moved,
            pre_invalid_peak: stats.pre_invalid[1],
            ahead: stats.ahead,
            dirty_before: one.cleanings.iter().map(|(sample, ..)| u64::from(sample.dirty)).sum(),
            dirtied: one.dirtied,
            cleaning: cleaning.map(Span::as_ps),
            checkpoint: stats.checkpoint.total().as_ps(),
            latency,
            cleaning_p99: ps(one.cleaning_percentile(9900)),
            usage: one.usage,
            drive: one.amplification().drive(),
            tenths: tenths(one),
            fourths: fourths(one),
            triggers: one.triggers(),
        }
    }

    /// Blocks that programs wrote in a second of virtual time.
    pub(super) fn rate(&self) -> u64 {
        (u128::from(self.user) * 1_000_000_000_000 / u128::from(self.elapsed).max(1)) as u64
    }
    /// Steps of programs in a second.
    pub(super) fn operations_a_second(&self) -> u64 {
        let all = u128::from(self.operations) * 1_000_000_000_000;
        (all / u128::from(self.elapsed).max(1)) as u64
    }
    /// Where the time of cleanings went.
    pub(super) fn cleaning(&self) -> CleaningTime {
        let [init, copy, flush, journal, checkpoint, wait] = self.cleaning.map(Span::from_ps);
        CleaningTime { init, copy, flush, journal, checkpoint, wait }
    }
    /// Mean time of a cleaning.
    pub(super) fn cleaning_mean(&self) -> Span {
        Span::from_ps(self.cleaning().total().as_ps() / self.cleaned.max(1))
    }
    pub(super) fn cleaning_p99(&self) -> Option<Span> {
        (self.cleaning_p99 > 0).then(|| Span::from_ps(self.cleaning_p99))
    }
    /// Time of all checkpoints.
    pub(super) fn checkpoint(&self) -> Span {
        Span::from_ps(self.checkpoint)
    }
    /// A latency: 0 reads, 1 updates; a place in [`PARTS`].
    pub(super) fn latency(&self, kind: usize, part: usize) -> Span {
        Span::from_ps(self.latency[kind][part])
    }
    /// Mean time of a cleaning in a tenth of the run.
    pub(super) fn tenth(&self, tenth: usize) -> Option<Span> {
        let (sum, count) = self.tenths[tenth];
        sum.checked_div(count).map(Span::from_ps)
    }

    /// Every number, by name: what is written is what is read.
    fn numbers(&mut self) -> Vec<(&'static str, Vec<&mut u64>)> {
        let one = |place| vec![place];
        vec![
            ("user", one(&mut self.user)),
            ("written", one(&mut self.written)),
            ("metadata", one(&mut self.metadata)),
            ("operations", one(&mut self.operations)),
            ("elapsed", one(&mut self.elapsed)),
            ("cleaned", one(&mut self.cleaned)),
            ("cp_calls", one(&mut self.cp_calls)),
            ("journal_full", one(&mut self.journal_full)),
            ("flushes", one(&mut self.flushes)),
            ("records", one(&mut self.records)),
            ("moved", self.moved.iter_mut().collect()),
            ("pre_invalid_peak", one(&mut self.pre_invalid_peak)),
            ("ahead", self.ahead.iter_mut().collect()),
            ("dirty_before", one(&mut self.dirty_before)),
            ("dirtied", one(&mut self.dirtied)),
            ("cleaning", self.cleaning.iter_mut().collect()),
            ("checkpoint", one(&mut self.checkpoint)),
            ("latency", self.latency.iter_mut().flatten().collect()),
            ("cleaning_p99", one(&mut self.cleaning_p99)),
            ("usage", self.usage.iter_mut().flat_map(|(a, b)| [a, b]).collect()),
            ("drive", vec![&mut self.drive.0, &mut self.drive.1]),
            ("tenths", self.tenths.iter_mut().flat_map(|(a, b)| [a, b]).collect()),
            ("fourths", self.fourths.iter_mut().flatten().collect()),
        ]
    }

    /// As text.
    pub(super) fn text(&self) -> String {
        let mut copy = self.clone();
        let mut text = String::new();
        for (name, numbers) in copy.numbers() {
            let numbers: Vec<String> = numbers.iter().map(|number| number.to_string()).collect();
            let _ = writeln!(text, "{name} {}", numbers.join(" "));
        }
        let _ = writeln!(text, "triggers {}", self.triggers);
        text
    }

    /// From text.
    ///
    /// # Errors
    /// What was found and what was expected.
    pub(super) fn read(text: &str) -> Result<Outcome, String> {
        let mut found = Outcome::default();
        let mut lines = text.lines();
        let mut line = |name: &str| {
            let line = lines.next().unwrap_or_default();
            let rest = line.strip_prefix(name).and_then(|rest| rest.strip_prefix(' '));
            rest.ok_or_else(|| format!("found `{line}`, expected `{name} ..`"))
        };
        for (name, places) in found.numbers() {
            let rest = line(name)?;
            let read: Result<Vec<u64>, _> = rest.split(' ').map(str::parse).collect();
            let read = read.map_err(|_| format!("{name}: found `{rest}`, expected numbers"))?;
            if read.len() != places.len() {
                let (found, expected) = (read.len(), places.len());
                return Err(format!("{name}: found {found} numbers, expected {expected}"));
            }
            places.into_iter().zip(read).for_each(|(place, number)| *place = number);
        }
        found.triggers = line("triggers")?.to_string();
        Ok(found)
    }
}

fn tenths(one: &Measured) -> [(u64, u64); TENTHS] {
    let mut all = [(0, 0); TENTHS];
    for (sample, ..) in &one.cleanings {
        let tenth = sample.at.as_ps() * TENTHS as u64 / one.elapsed.as_ps().max(1);
        let (sum, count) = &mut all[(tenth as usize).min(TENTHS - 1)];
        (*sum, *count) = (*sum + sample.took.as_ps(), *count + 1);
    }
    all
}

fn fourths(one: &Measured) -> [[u64; 3]; FOURTHS] {
    let pair = |(sample, time, _): &(lab::fileload::Sample, CleaningTime, u32)| {
        (sample.dirty, time.checkpoint.as_ps())
    };
    let mut pairs: Vec<(u32, u64)> = one.cleanings.iter().map(pair).collect();
    pairs.sort_unstable();
    let mut all = [[0; 3]; FOURTHS];
    for (i, part) in pairs.chunks(pairs.len().div_ceil(FOURTHS).max(1)).enumerate() {
        let dirty = part.iter().map(|(dirty, _)| u64::from(*dirty)).sum();
        all[i] = [dirty, part.iter().map(|(_, took)| *took).sum(), part.len() as u64];
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else_is() {
        let mut one = Outcome { triggers: "cleaning 3, sync 1".to_string(), ..Outcome::default() };
        let mut next = 1_u64 << 40;
        for (_, numbers) in one.numbers() {
            for number in numbers {
                next += 1;
                *number = next;
            }
        }
        let text = one.text();
        assert_eq!(Outcome::read(&text), Ok(one));
        let wrong = [
            (text.replacen("user ", "users ", 1), "found `users "),
            (text.replacen("moved ", "moved 1 ", 1), "moved: found 3 numbers, expected 2"),
            (text.replacen("ahead ", "ahead x", 1), "ahead: found `x"),
            (text.replacen("triggers", "", 1), "found ` cleaning 3"),
            (String::new(), "found ``, expected `user ..`"),
        ];
        for (text, begins) in wrong {
            let error = Outcome::read(&text).unwrap_err();
            assert!(error.starts_with(begins), "{error}");
        }
    }
}
