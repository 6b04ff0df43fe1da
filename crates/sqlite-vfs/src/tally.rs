//! Counts as lines of text: how they leave the process that was counted.
//!
//! A first line with the version, then `key value ..` a line. Keys that are not known are refused:
//! writer and reader are of one version.

use crate::counts::{Counts, KindCounts};
use crate::vfs::Kind;

const FIRST: &str = "varve-sqlite-counts 1";
/// The environment variable that names the file the counts go to; `.` and the process's number
/// are appended.
pub const VARIABLE: &str = "VARVE_SQLITE_COUNTS";

const KINDS: [(Kind, &str); 5] = [
    (Kind::Database, "database"),
    (Kind::Journal, "journal"),
    (Kind::Super, "super_journal"),
    (Kind::Wal, "wal"),
    (Kind::Temp, "temp"),
];

impl Counts {
    /// The counts as text.
    pub fn to_text(&self) -> String {
        let mut text = format!("{FIRST}\n");
        for (key, value) in [
            ("opens", self.opens),
            ("transactions", self.transactions),
            ("floor_pages", self.floor_pages),
            ("floor_bytes", self.floor_bytes),
            ("checkpoints", self.checkpoints),
            ("batch_begins", self.batch_begins),
            ("batch_commits", self.batch_commits),
            ("batch_rollbacks", self.batch_rollbacks),
        ] {
            text += &format!("{key} {value}\n");
        }
        for (kind, name) in KINDS.iter().filter(|(kind, _)| self.kinds.contains_key(kind)) {
            let n = self.of(*kind);
            text += &format!(
                "{name} {} {} {} {} {} {} {}\n",
                n.reads, n.read_bytes, n.writes, n.bytes, n.syncs, n.deletes, n.truncates
            );
        }
        text
    }

    /// Adds the counts of a text.
    ///
    /// # Errors
    /// The line, what was found and what was expected.
    pub fn add_text(&mut self, text: &str) -> Result<(), String> {
        let mut lines = text.lines().enumerate();
        let first = lines.next().map_or("", |(_, line)| line);
        if first != FIRST {
            return Err(format!("line 1: found `{first}`, expected `{FIRST}`"));
        }
        for (at, line) in lines {
            self.add_line(line).map_err(|expected| {
                format!("line {}: found `{line}`, expected {expected}", at + 1)
            })?;
        }
        Ok(())
    }

    fn add_line(&mut self, line: &str) -> Result<(), &'static str> {
        let mut words = line.split(' ');
        let key = words.next().unwrap_or_default();
        let values: Result<Vec<u64>, _> = words.map(str::parse).collect();
        let values = values.map_err(|_| "whole numbers")?;
        if let Some((kind, _)) = KINDS.iter().find(|(_, name)| *name == key) {
            let [reads, read_bytes, writes, bytes, syncs, deletes, truncates] = values[..] else {
                return Err("seven numbers");
            };
            let one: &mut KindCounts = self.kinds.entry(*kind).or_default();
            one.reads += reads;
            one.read_bytes += read_bytes;
            one.writes += writes;
            one.bytes += bytes;
            one.syncs += syncs;
            one.deletes += deletes;
            one.truncates += truncates;
            return Ok(());
        }
        let [value] = values[..] else { return Err("one number") };
        let place = match key {
            "opens" => &mut self.opens,
            "transactions" => &mut self.transactions,
            "floor_pages" => &mut self.floor_pages,
            "floor_bytes" => &mut self.floor_bytes,
            "checkpoints" => &mut self.checkpoints,
            "batch_begins" => &mut self.batch_begins,
            "batch_commits" => &mut self.batch_commits,
            "batch_rollbacks" => &mut self.batch_rollbacks,
            _ => return Err("a key that is known"),
        };
        *place += value;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_says_what_was_counted_and_two_add_up() {
        let mut counts = Counts { opens: 3, transactions: 2, floor_bytes: 9, ..Counts::default() };
        let wal = KindCounts { writes: 5, bytes: 77, syncs: 1, ..KindCounts::default() };
        counts.kinds.insert(Kind::Wal, wal);
        let mut sum = Counts::default();
        sum.add_text(&counts.to_text()).unwrap();
        assert_eq!(sum, counts);
        sum.add_text(&counts.to_text()).unwrap();
        assert_eq!((sum.opens, sum.of(Kind::Wal).bytes), (6, 154));
        for (bad, why) in [
            ("", "line 1"),
            ("varve-sqlite-counts 1\nopens x\n", "line 2: found `opens x`, expected whole numbers"),
            ("varve-sqlite-counts 1\nwal 1 2\n", "seven numbers"),
            ("varve-sqlite-counts 1\nnonsense 1\n", "a key that is known"),
        ] {
            let found = Counts::default().add_text(bad).unwrap_err();
            assert!(found.contains(why), "{bad}: {found}");
        }
    }
}
