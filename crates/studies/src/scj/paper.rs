//! What the paper states: its text has few numbers, the axes of its figures are not in it. F2FS of
//! kernel 4.15 in pure log mode on 16 GB of a Samsung 970, 80 % full, threshold 128 MB, journal area
//! 256 KB; fileserver and varmail of filebench, tpcc and YCSB-A on MySQL.

use super::{Scale, System};
use report::study::{Condition, Expect, Here, Metric, Statement};

/// What the paper leaves open, fixed before anything is run. The first is the study's own.
static CONDITIONS: [(Condition, Set); 6] = [
    (
        Condition::new(
            "safe",
            "a record waits until its copies are durable; the journal area is the volume's part of 256 KB",
            "section IV: a victim is free when its journal block is written, which is of use only if both are durable",
        ),
        OWN,
    ),
    (
        Condition::new(
            "text",
            "a record waits for nothing (a power cut loses data)",
            "sections IV and VI mention no flush between the copies and the record",
        ),
        Set { system: System::Literal, ..OWN },
    ),
    (
        Condition::new(
            "text-together",
            "the same; threads that fsync wait for each other, and share the flushes",
            "table 1: varmail has 16 threads; F2FS sends one flush for all that wait for one",
        ),
        Set { system: System::Literal, together: true, ..OWN },
    ),
    (
        Condition::new(
            "text-area",
            "the same; the journal area is never full",
            "section VI-C: a full journal asks for no checkpoint",
        ),
        Set { system: System::Unflushed, together: true, scale: None },
    ),
    (
        Condition::new(
            "text-area-1/4",
            "the same, on a fourth of the paper's 16 GB",
            "section VI-A: 16 GB; a segment is 2 MB on every volume",
        ),
        Set { system: System::Unflushed, together: true, scale: Some(Scale::Default) },
    ),
    (
        Condition::new(
            "text-area-1/16",
            "the same, on a sixteenth of the paper's 16 GB",
            "section VI-A: 16 GB; a segment is 2 MB on every volume",
        ),
        Set { system: System::Unflushed, together: true, scale: Some(Scale::Quick) },
    ),
];

/// The study's own condition.
pub(super) const OWN: Set = Set { system: System::Scj, together: false, scale: None };

/// What is run under a condition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Set {
    /// What the paper's SCJ is.
    pub(super) system: System,
    /// Threads that fsync wait for each other.
    pub(super) together: bool,
    /// The volume's size, if not the study's.
    pub(super) scale: Option<Scale>,
}

/// The conditions that are run at a scale: no volume is larger than the study's, and none is run twice.
pub(super) fn conditions(scale: Scale) -> Vec<Condition> {
    let smaller = |set: &Set| set.scale.is_none_or(|other| other.blocks() < scale.blocks());
    let all = CONDITIONS.iter().filter(|(_, set)| smaller(set));
    all.map(|(condition, _)| condition.clone()).collect()
}

/// What is run under one of them.
pub(super) fn set(condition: &Condition) -> Set {
    let found = CONDITIONS.iter().find(|(other, _)| other.id == condition.id);
    found.map_or(OWN, |(_, set)| *set)
}

const FLUSHED: &str = "a record must not be durable before its copies, and the victim not used before the \
    record: two waits for the drive, as many as a checkpoint has. Without the flush, which the paper does not \
    mention, it gains (condition `text`, section \"What a flush costs\")";
const FEW_SLOTS: &str = "segments do not shrink with the volume: records of 64 cleanings are a checkpoint in 64 at the \
    paper's size, at 1/16 one in 4 (section \"Fig 6\", condition `text-area`)";
const COPIED: &str = "10 points are let pass; varmail writes the most metadata (section \"Fig 8\"), which checkpoints carry";

/// A number of a load.
macro_rules! at {
    ($section:literal, $load:literal, $system:literal, $column:literal, $expect:expr) => {
        Here::Number(
            Metric {
                section: $section,
                row: &[("load", $load), ("system", $system)],
                column: $column,
            },
            $expect,
        )
    };
}

/// A number of the latencies.
macro_rules! latency {
    ($column:literal) => {
        Here::Number(
            Metric { section: "fig9", row: &[("system", "SCJ")], column: $column },
            Expect::AtMost(-5.0),
        )
    };
}

/// A number of the times of a cleaning.
macro_rules! part {
    ($load:literal, $column:literal, $expect:expr) => {
        Here::Number(Metric { section: "fig1a", row: &[("load", $load)], column: $column }, $expect)
    };
}

/// Every number of the text.
pub(super) const STATEMENTS: &[Statement] = &[
    Statement {
        figure: "Fig 1a",
        what: "checkpoint's part of the time of a cleaning, fileserver",
        paper: "52 %",
        here: part!("fileserver", "checkpoint_part", Expect::Within(42.0, 62.0)),
        why: COPIED,
    },
    Statement {
        figure: "Fig 1a",
        what: "checkpoint's part of the time of a cleaning, varmail",
        paper: "44 %",
        here: part!("varmail", "checkpoint_part", Expect::Within(34.0, 54.0)),
        why: COPIED,
    },
    Statement {
        figure: "Fig 1a",
        what: "checkpoint's part of the time of a cleaning, tpcc",
        paper: "57 %",
        here: part!("tpcc-shaped pages", "checkpoint_part", Expect::Within(47.0, 67.0)),
        why: COPIED,
    },
    Statement {
        figure: "Fig 1a",
        what: "checkpoint's part of the time of a cleaning, YCSB",
        paper: "56 %",
        here: part!("YCSB-A-shaped pages", "checkpoint_part", Expect::Within(46.0, 66.0)),
        why: COPIED,
    },
    Statement {
        figure: "Fig 1b",
        what: "dirty metadata that cleaning causes, fileserver",
        paper: "below 1 %",
        here: part!("fileserver", "dirtied_by_cleaning", Expect::AtMost(1.0)),
        why: "copies of a victim dirty the inodes of its files, their table blocks and two segments' entries; little else is dirty after 200 blocks were written",
    },
    Statement {
        figure: "Fig 8a",
        what: "performance against BL, fileserver",
        paper: "1.13 to 1.63",
        here: at!("fig8", "fileserver", "SCJ", "against_bl", Expect::Within(1.13, 1.63)),
        why: FLUSHED,
    },
    Statement {
        figure: "Fig 8a",
        what: "performance against BL, varmail",
        paper: "1.13 to 1.63",
        here: at!("fig8", "varmail", "SCJ", "against_bl", Expect::Within(1.13, 1.63)),
        why: FLUSHED,
    },
    Statement {
        figure: "Fig 8a",
        what: "performance against BL, tpcc",
        paper: "1.13 to 1.63",
        here: at!("fig8", "tpcc-shaped pages", "SCJ", "against_bl", Expect::Within(1.13, 1.63)),
        why: FLUSHED,
    },
    Statement {
        figure: "Fig 8a",
        what: "performance against BL, YCSB",
        paper: "1.13 to 1.63",
        here: at!("fig8", "YCSB-A-shaped pages", "SCJ", "against_bl", Expect::Within(1.13, 1.63)),
        why: FLUSHED,
    },
    Statement {
        figure: "Fig 8c",
        what: "checkpoints of BL's, fileserver",
        paper: "below 6 %",
        here: at!("fig8", "fileserver", "SCJ", "of_bl", Expect::AtMost(6.0)),
        why: FEW_SLOTS,
    },
    Statement {
        figure: "Fig 8c",
        what: "checkpoints of BL's, varmail",
        paper: "below 6 %",
        here: at!("fig8", "varmail", "SCJ", "of_bl", Expect::AtMost(6.0)),
        why: FEW_SLOTS,
    },
    Statement {
        figure: "Fig 8c",
        what: "checkpoints of BL's, tpcc",
        paper: "below 6 %",
        here: at!("fig8", "tpcc-shaped pages", "SCJ", "of_bl", Expect::AtMost(6.0)),
        why: FEW_SLOTS,
    },
    Statement {
        figure: "Fig 8c",
        what: "checkpoints of BL's, YCSB",
        paper: "below 6 %",
        here: at!("fig8", "YCSB-A-shaped pages", "SCJ", "of_bl", Expect::AtMost(6.0)),
        why: FEW_SLOTS,
    },
    Statement {
        figure: "Fig 9",
        what: "YCSB, read mean against BL",
        paper: "-11 %",
        here: latency!("read_mean_against_bl"),
        why: FLUSHED,
    },
    Statement {
        figure: "Fig 9",
        what: "YCSB, read p99 against BL",
        paper: "-10 %",
        here: latency!("read_p99_against_bl"),
        why: FLUSHED,
    },
    Statement {
        figure: "Fig 9",
        what: "YCSB, update mean against BL",
        paper: "-20 %",
        here: latency!("update_mean_against_bl"),
        why: FLUSHED,
    },
    Statement {
        figure: "Fig 9",
        what: "YCSB, update p99 against BL",
        paper: "-19 %",
        here: latency!("update_p99_against_bl"),
        why: FLUSHED,
    },
];
