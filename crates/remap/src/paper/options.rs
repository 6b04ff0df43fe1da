//! What the paper leaves open, each a named option; the defaults are its literal reading, or the
//! least that makes it run.

use block::{Bytes, DeviceError, Span, parse_size, parse_time};

use super::media::PaperLayout;

/// What decides to which partition a table entry belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartitionKey {
    /// The original address: a lookup asks one partition.
    Orig,
    /// The place, so that partitions fill one after another: a lookup asks all of them, newest
    /// first.
    Trans,
}

/// When the table learns of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Insert {
    /// Before the write is submitted (paper 1, section III-B).
    Before,
    /// When its transaction is committed (section III-E): until then a process reads what was there
    /// before its own write.
    After,
}

/// What a flush does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlushRule {
    /// It is passed down; the log is not touched.
    Pass,
    /// The open transaction is committed first.
    Commit,
}

/// What a discard does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TrimRule {
    /// Nothing: passed down with the original address it would take somebody else's data.
    Drop,
    /// Entries become invalid. No transaction says so.
    Invalidate,
}

/// What a read of an address without an entry gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unmapped {
    /// Zeroes.
    Zeroes,
    /// What the device holds at that very address.
    Pass,
}

/// Pairs of one 4 KiB log block between its two marks, 8 B each.
pub const PAIRS: u32 = 510;

/// LogOptions of paper mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PaperOptions {
    /// 4 KiB blocks offered; 0: as many as the data area has.
    pub blocks: u32,
    /// 4 KiB blocks of the log; 0: one for each 510 blocks of the device, and two more.
    pub log_blocks: u32,
    /// Partitions of the table.
    pub partition: PartitionKey,
    /// 4 KiB blocks of one partition: 4 GiB in the paper. Tests want to meet several.
    pub partition_blocks: u32,
    /// When the table learns of a write.
    pub insert: Insert,
    /// Pairs that end a transaction: 1 to [`PAIRS`].
    pub commit_pairs: u32,
    /// Age that ends a transaction, seen by the next request.
    pub commit_after: Span,
    /// Cleaning begins below this free run, in percent of the data area.
    pub clean_below: u32,
    /// Blocks moved in one turn of cleaning.
    pub clean_moves: u32,
    /// What a flush does.
    pub flush: FlushRule,
    /// What a discard does.
    pub trim: TrimRule,
    /// What a read of nothing gives.
    pub unmapped: Unmapped,
    /// Above this much memory for nodes, whole partitions are stored and dropped; none: never.
    pub memory: Option<Bytes>,
    /// The device below keeps bytes; else requests and log have no payload, and nothing can be
    /// recovered.
    pub payload: bool,
}

impl Default for PaperOptions {
    fn default() -> PaperOptions {
        PaperOptions {
            blocks: 0,
            log_blocks: 0,
            partition: PartitionKey::Orig,
            partition_blocks: 1 << 20,
            insert: Insert::Before,
            commit_pairs: PAIRS,
            commit_after: Span::from_us(5_000_000),
            clean_below: 5,
            clean_moves: 256,
            flush: FlushRule::Pass,
            trim: TrimRule::Drop,
            unmapped: Unmapped::Zeroes,
            memory: None,
            payload: true,
        }
    }
}

/// One of the names, or what they are.
fn choice<T: Copy>(value: &str, of: &[(&str, T)]) -> Result<T, String> {
    let found = of.iter().find(|(name, _)| *name == value.trim());
    found.map(|(_, t)| *t).ok_or_else(|| {
        let names: Vec<&str> = of.iter().map(|(name, _)| *name).collect();
        names.join(" or ")
    })
}

fn number(value: &str, from: u32, to: u32) -> Result<u32, String> {
    let found = value.trim().replace('_', "").parse().ok();
    found.filter(|n| (from..=to).contains(n)).ok_or_else(|| format!("a number from {from} to {to}"))
}

impl PaperOptions {
    /// Blocks of 4 KiB that the data area has on a device of so many.
    ///
    /// # Errors
    /// If nothing is left for data, or options do not fit.
    pub fn data_blocks(&self, device: u64) -> Result<u32, DeviceError> {
        PaperLayout::plan(device, &PaperOptions { blocks: 0, ..*self }).map(|l| l.data_blocks)
    }

    /// Sets one option from text: `flush = commit`.
    ///
    /// # Errors
    /// What was expected.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "blocks" => self.blocks = number(value, 0, u32::MAX)?,
            "log_blocks" => self.log_blocks = number(value, 0, 1 << 24)?,
            "partition" => {
                let of = [("orig", PartitionKey::Orig), ("trans", PartitionKey::Trans)];
                self.partition = choice(value, &of)?;
            }
            "partition_blocks" => self.partition_blocks = number(value, 1, 1 << 24)?,
            "insert" => {
                self.insert =
                    choice(value, &[("before", Insert::Before), ("after", Insert::After)])?;
            }
            "commit_pairs" => self.commit_pairs = number(value, 1, PAIRS)?,
            "commit_after" => {
                self.commit_after = parse_time(value).map_err(|e| e.expected.to_string())?;
            }
            "clean_below" => self.clean_below = number(value, 0, 100)?,
            "clean_moves" => self.clean_moves = number(value, 1, u32::MAX)?,
            "flush" => {
                let of = [("pass", FlushRule::Pass), ("commit", FlushRule::Commit)];
                self.flush = choice(value, &of)?;
            }
            "trim" => {
                let of = [("drop", TrimRule::Drop), ("invalidate", TrimRule::Invalidate)];
                self.trim = choice(value, &of)?;
            }
            "unmapped" => {
                let of = [("zeroes", Unmapped::Zeroes), ("pass", Unmapped::Pass)];
                self.unmapped = choice(value, &of)?;
            }
            "memory" => {
                let size = parse_size(value).map_err(|e| e.expected.to_string())?;
                self.memory = (size.0 > 0).then_some(size);
            }
            "payload" => self.payload = choice(value, &[("stored", true), ("none", false)])?,
            _ => {
                return Err(
                    "one of blocks, clean_below, clean_moves, commit_after, commit_pairs, \
                            flush, insert, log_blocks, memory, partition, partition_blocks, \
                            payload, trim, unmapped"
                        .to_string(),
                );
            }
        }
        Ok(())
    }
}
