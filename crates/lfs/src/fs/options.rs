//! How a volume is mounted.

use block::{Plant, parse_switch};

use super::victim::Question;
use crate::FsError;
use crate::scj::BATCH_MAX;

/// How segments are cleaned (paper 2, sections II and IV).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cleaning {
    /// The paper's baseline: a checkpoint after every cleaned segment.
    Bl415,
    /// As kernel 6.1 does: a checkpoint only when what was cleaned must be used.
    Bl6,
    /// What was moved is journalled; checkpoints when they are worth it.
    Scj(Scj),
}

/// Journalled cleaning and adaptive checkpoints.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scj {
    /// Records that the journal holds; 224 at most in the usual gap.
    pub slots: u32,
    /// A checkpoint is made when more blocks than these are pre-invalid; none: 1/128 of the volume.
    pub threshold: Option<u64>,
    /// Pre-invalid blocks count as a victim's cost, too.
    pub count_needed: bool,
    /// Victims whose copies share one flush, and their records one forced write; 1 in the paper,
    /// 16 at most.
    pub batch: u32,
}

impl Default for Scj {
    fn default() -> Scj {
        Scj { slots: 64, threshold: None, count_needed: true, batch: 4 }
    }
}

/// Which segment is cleaned first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Victim {
    /// That with the fewest blocks to copy.
    Greedy,
    /// Age counts, too.
    CostBenefit,
}

/// A rule that is left out, for the tests that must notice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Bug {
    /// Summaries are read where they lie now.
    Ssa,
    /// What fsync wrote is not part of what recovery needs.
    FsyncJ,
    /// Pointers of rolled-forward nodes do not follow later records.
    Trans,
    /// Segments of the chain are cleaned like any.
    Pin,
    /// The dirty node in memory is copied, not the block.
    Raw,
    /// Records are written before what they name is durable.
    Flush,
    /// Data is not durable before the node that names it.
    DataFlush,
    /// The last block of a checkpoint does not wait for the others.
    CheckpointFlush,
    /// Tables go into the live copy.
    LiveCopy,
    /// Summaries are not written when a segment is closed.
    NoSummary,
    /// Records are merged by address, not in order.
    Order,
    /// The version bitmaps of a checkpoint have their bits the other way round.
    BitmapOrder,
    /// The journal's first slot is reset before the checkpoint is durable.
    SlotReset,
    /// Records of earlier checkpoints are believed.
    VersionIgnored,
    /// A node number that was freed is given out again in the same epoch.
    NidReused,
    /// A victim is discarded before its record is durable.
    DiscardEarly,
    /// The last node of a segment does not know where the next one is.
    NextLate,
    /// A victim of a batch is let go before the records of the batch are durable.
    BatchEarly,
    /// Cleaning copies nodes of files into the log of the chain.
    CopyInChain,
    /// Recovery writes where the chain would go on.
    RecoveryInChain,
    /// Recovery goes on with heads whose segments other logs have had since the checkpoint.
    HeadKept,
    /// The seals of nodes are not looked at.
    SealUnchecked,
    /// A node that is written again in the same epoch keeps the seal that it had.
    SealKept,
    /// Roll-forward leaves out a node that was torn, and goes on behind it.
    PastTorn,
    /// Both copies of the journal's state are written at once.
    StateTogether,
    /// Of the copies of the journal's state the whole one is written over while the other is torn.
    WholeFirst,
    /// What was read of a victim ahead of need counts although the segment was used again since.
    AheadStale,
    /// A flush that was submitted before copies were answered counts for them.
    FlushTooEarly,
    /// A write of records does not wait for the one before.
    RecordsCross,
    /// Cleaning in the background goes past the queue of cleaning ahead of need.
    AheadIdle,
    /// An fsync that finds its file's nodes written does not wait until they are durable.
    SyncedEarly,
    /// A flush counts for what was written after it was begun.
    TicketLate,
    /// What cleaning moved of a file counts as durable.
    MovedEarly,
    /// What was read without the volume counts, whatever was written there meanwhile.
    StaleRead,
    /// An fsync goes on while a checkpoint is frozen.
    SyncsFrozen,
    /// What a frozen checkpoint names is not kept.
    FrozenNarrow,
    /// What was valid when a checkpoint was frozen counts as given up if it is not when that ends.
    FrozenLost,
    /// Tables as they are when a checkpoint ends are written into it.
    FrozenLate,
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 38] = [
        Bug::Ssa,
        Bug::FsyncJ,
        Bug::Trans,
        Bug::Pin,
        Bug::Raw,
        Bug::Order,
        Bug::Flush,
        Bug::DataFlush,
        Bug::CheckpointFlush,
        Bug::LiveCopy,
        Bug::BitmapOrder,
        Bug::NoSummary,
        Bug::SlotReset,
        Bug::VersionIgnored,
        Bug::NidReused,
        Bug::DiscardEarly,
        Bug::NextLate,
        Bug::BatchEarly,
        Bug::CopyInChain,
        Bug::RecoveryInChain,
        Bug::HeadKept,
        Bug::SealUnchecked,
        Bug::SealKept,
        Bug::PastTorn,
        Bug::StateTogether,
        Bug::WholeFirst,
        Bug::AheadStale,
        Bug::FlushTooEarly,
        Bug::RecordsCross,
        Bug::AheadIdle,
        Bug::SyncedEarly,
        Bug::TicketLate,
        Bug::MovedEarly,
        Bug::StaleRead,
        Bug::SyncsFrozen,
        Bug::FrozenNarrow,
        Bug::FrozenLost,
        Bug::FrozenLate,
    ];
}

/// What may be chosen at a mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FsOptions {
    /// Nothing is written, not even by recovery.
    pub read_only: bool,
    /// How segments are cleaned.
    pub cleaning: Cleaning,
    /// Which segment is cleaned.
    pub victim: Victim,
    /// Dirty nodes, and dirty directory blocks, that a checkpoint waits for (each; half as many
    /// again together).
    pub dirty: usize,
    /// Percent of all segments that wait for a checkpoint before one is made for them.
    pub prefree: u32,
    /// Nodes, and directory blocks, kept in memory (each).
    pub cached_nodes: usize,
    /// When free segments run low, logs go through the holes of segments that hold something (the
    /// kernel's `mode=adaptive`) instead of waiting for cleaning. Not with a journal.
    pub threaded: bool,
    /// After a checkpoint, segments that it freed are discarded on the device.
    pub discard: bool,
    /// Copies are waited for before cleaning goes on, so that its phases can be told apart (paper 2,
    /// figure 1a).
    pub drain: bool,
    /// Cleaning goes on beside the callers, ahead of need, and this many victims share a flush; 0: a
    /// caller that needs room cleans, and waits for it. Not with [`Cleaning::Bl415`], whose victims a
    /// checkpoint follows at once.
    pub ahead: u32,
    /// Victims that cleaning ahead of need reads at once.
    pub depth: u32,
    /// Callers clean as late as they can: when the next operation and a checkpoint would not have room.
    /// To tell what the reserve gives from what cleaning ahead of need does.
    pub late: bool,
    /// Never anything but `None` outside tests.
    pub bug: Plant<Bug>,
    /// As the paper has it, which mentions no flush: a record is written without waiting for the
    /// copies that it names, and a power cut loses them. To measure what the flush costs.
    pub unflushed: bool,
}

impl Default for FsOptions {
    fn default() -> FsOptions {
        FsOptions {
            read_only: false,
            cleaning: Cleaning::Bl6,
            victim: Victim::Greedy,
            dirty: 4096,
            prefree: 5,
            cached_nodes: 16_384,
            threaded: false,
            discard: false,
            drain: false,
            ahead: 0,
            depth: 8,
            late: false,
            bug: Plant::default(),
            unflushed: false,
        }
    }
}

/// Victims read at once at most.
const DEPTH_MAX: u64 = 64;

/// An option as text: its name, and what it may be.
pub const OPTIONS: &[(&str, &str)] = &[
    ("ahead", "victims of cleaning ahead of need that share a flush, 1 to 16; 0: callers clean"),
    ("batch", "victims whose copies share a flush, 1 to 16; with cleaning=scj"),
    ("cached_nodes", "nodes, and directory blocks, kept in memory (each)"),
    ("cleaning", "scj, bl6 (as kernel 6.1) or bl415 (the paper's baseline)"),
    (
        "count_needed",
        "on: pre-invalid blocks count as a victim's cost, off: not; with cleaning=scj",
    ),
    ("depth", "victims that cleaning ahead of need reads at once, 1 to 64"),
    ("dirty", "dirty nodes, and directory blocks, that a checkpoint waits for (each)"),
    ("discard", "on or off: segments that a checkpoint freed are discarded"),
    ("drain", "on or off: copies are waited for before cleaning goes on"),
    ("gc.victim", "which segment is cleaned first: greedy or cost-benefit"),
    ("late", "on or off: callers clean as late as they can"),
    ("prefree", "per cent of all segments that wait for a checkpoint before one is made for them"),
    ("slots", "records that the journal holds, 1 to 224; with cleaning=scj"),
    ("threaded", "on or off: logs go through holes when free segments run low"),
    ("threshold", "pre-invalid blocks above which a checkpoint is made; with cleaning=scj"),
];

/// A whole number in a range.
fn number(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let found = text.parse().ok().filter(|n| (least..=most).contains(n));
    found.ok_or_else(|| format!("a number from {least} to {most}"))
}

fn switch(text: &str) -> Result<bool, String> {
    parse_switch(text).map_err(|e| e.expected.to_string())
}

impl FsOptions {
    /// Sets one by its name ([`OPTIONS`]).
    ///
    /// # Errors
    /// What was found and what was expected.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), String> {
        self.try_set(name, text)
            .map_err(|expected| format!("`{name}` = `{text}`: expected {expected}"))
    }

    fn try_set(&mut self, name: &str, text: &str) -> Result<(), String> {
        match name {
            "cleaning" => {
                self.cleaning = match text {
                    "scj" => Cleaning::Scj(Scj::default()),
                    "bl6" => Cleaning::Bl6,
                    "bl415" => Cleaning::Bl415,
                    _ => return Err("scj, bl6 or bl415".to_string()),
                }
            }
            "gc.victim" => {
                self.victim = match text {
                    "greedy" => Victim::Greedy,
                    "cost-benefit" => Victim::CostBenefit,
                    _ => return Err("greedy or cost-benefit".to_string()),
                }
            }
            "batch" | "count_needed" | "slots" | "threshold" => {
                let Cleaning::Scj(scj) = &mut self.cleaning else {
                    return Err("cleaning=scj before it".to_string());
                };
                match name {
                    "batch" => scj.batch = number(text, 1, 16)? as u32,
                    "count_needed" => scj.count_needed = switch(text)?,
                    "slots" => scj.slots = number(text, 1, 224)? as u32,
                    _ => scj.threshold = Some(number(text, 1, u64::from(u32::MAX))?),
                }
            }
            "ahead" => self.ahead = number(text, 0, u64::from(BATCH_MAX))? as u32,
            "depth" => self.depth = number(text, 1, DEPTH_MAX)? as u32,
            "late" => self.late = switch(text)?,
            "cached_nodes" => self.cached_nodes = number(text, 64, 1 << 32)? as usize,
            "dirty" => self.dirty = number(text, 16, 1 << 24)? as usize,
            "prefree" => self.prefree = number(text, 1, 100)? as u32,
            "discard" => self.discard = switch(text)?,
            "drain" => self.drain = switch(text)?,
            "threaded" => self.threaded = switch(text)?,
            "victim" => return Err("`gc.victim`, as it is called now".to_string()),
            _ => {
                let names: Vec<&str> = OPTIONS.iter().map(|(name, _)| *name).collect();
                return Err(format!("one of {}", names.join(", ")));
            }
        }
        Ok(())
    }

    /// What excludes each other, or is out of its range.
    pub(super) fn check(&self) -> Result<(), FsError> {
        let journals = matches!(self.cleaning, Cleaning::Scj(_));
        let depth = (1..=DEPTH_MAX).contains(&u64::from(self.depth));
        let wrong = [
            (self.threaded && journals, "threaded logs and journalled cleaning exclude each other"),
            (self.ahead > BATCH_MAX, "0 to 16 victims of cleaning ahead of need share a flush"),
            (self.ahead > 0 && !depth, "cleaning ahead of need reads 1 to 64 victims at once"),
            (
                self.ahead > 0 && self.cleaning == Cleaning::Bl415,
                "cleaning ahead of need has no checkpoint after each victim: scj or bl6",
            ),
            (self.ahead > 0 && self.drain, "cleaning ahead of need waits for no copies"),
            (self.ahead > 0 && self.late, "callers do not clean where cleaning is ahead of need"),
        ];
        let found = wrong.into_iter().find(|(met, _)| *met);
        found.map_or(Ok(()), |(_, what)| Err(FsError::Invalid(what)))
    }

    /// What candidates of cleaning are judged by, with segments of so many blocks.
    pub(super) fn question(&self, per_seg: u32) -> Question {
        let count_valid = match self.cleaning {
            Cleaning::Scj(scj) => !scj.count_needed,
            _ => true,
        };
        Question {
            per_seg: per_seg as u16,
            journalled: matches!(self.cleaning, Cleaning::Scj(_)),
            unpinned: self.bug.has(Bug::Pin),
            count_valid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another value than the default of each, with journalled cleaning.
    const OTHERS: [(&str, &str); 13] = [
        ("ahead", "3"),
        ("batch", "3"),
        ("cached_nodes", "100"),
        ("count_needed", "off"),
        ("depth", "3"),
        ("dirty", "100"),
        ("discard", "on"),
        ("drain", "on"),
        ("late", "on"),
        ("prefree", "3"),
        ("slots", "3"),
        ("threaded", "on"),
        ("threshold", "3"),
    ];

    #[test]
    fn every_option_is_heard() {
        let journalled = || {
            let mut options = FsOptions::default();
            options.set("cleaning", "scj").unwrap();
            options
        };
        let mut seen = vec![FsOptions::default(), journalled()];
        for (name, text) in OTHERS {
            let mut options = journalled();
            options.set(name, text).unwrap();
            assert!(!seen.contains(&options), "{name}={text} changes nothing of its own");
            seen.push(options);
            if ["on", "off"].contains(&text) {
                options.set(name, if text == "on" { "off" } else { "on" }).unwrap();
                assert_eq!(options, journalled(), "{name} and back");
            }
        }
        for text in ["bl415", "bl6"] {
            let mut options = journalled();
            options.set("cleaning", text).unwrap();
            assert!((text == "bl6") == (options == FsOptions::default()), "{text}");
        }
        let mut options = FsOptions::default();
        options.set("gc.victim", "cost-benefit").unwrap();
        assert_eq!(options.victim, Victim::CostBenefit);
        let elsewhere = ["cleaning", "gc.victim"];
        let names = OPTIONS.iter().map(|(name, _)| *name).filter(|name| !elsewhere.contains(name));
        assert!(names.eq(OTHERS.map(|(name, _)| name)));
    }

    #[test]
    fn every_option_is_set_by_its_name_and_nothing_else_is() {
        let values = ["on", "1", "greedy", "64", "100"];
        for (name, _) in OPTIONS {
            let mut options = FsOptions::default();
            options.set("cleaning", "scj").unwrap();
            assert!(
                *name == "cleaning" || values.iter().any(|text| options.set(name, text).is_ok()),
                "{name}"
            );
            let wrong = options.set(name, "nonsense").unwrap_err();
            assert!(wrong.starts_with(&format!("`{name}` = `nonsense`: expected ")), "{wrong}");
        }
        let mut options = FsOptions::default();
        assert!(options.set("slots", "8").unwrap_err().contains("cleaning=scj"));
        assert!(options.set("colour", "8").unwrap_err().contains("expected one of ahead"));
    }
}
