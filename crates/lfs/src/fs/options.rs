//! How a volume is mounted.

use super::victim::Question;

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
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 25] = [
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
        Bug::SealUnchecked,
        Bug::SealKept,
        Bug::PastTorn,
        Bug::StateTogether,
        Bug::WholeFirst,
    ];
}

/// What may be chosen at a mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
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
    /// Never anything but `None` outside tests.
    pub bug: Option<Bug>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            read_only: false,
            cleaning: Cleaning::Bl6,
            victim: Victim::Greedy,
            dirty: 4096,
            prefree: 5,
            cached_nodes: 16_384,
            threaded: false,
            discard: false,
            drain: false,
            bug: None,
        }
    }
}

impl Options {
    /// What candidates of cleaning are judged by, with segments of so many blocks.
    pub(super) fn question(&self, per_seg: u32) -> Question {
        let count_valid = match self.cleaning {
            Cleaning::Scj(scj) => !scj.count_needed,
            _ => true,
        };
        Question {
            per_seg: per_seg as u16,
            journalled: matches!(self.cleaning, Cleaning::Scj(_)),
            unpinned: self.bug == Some(Bug::Pin),
            count_valid,
        }
    }
}
