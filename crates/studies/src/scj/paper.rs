//! What the paper states: its text has few numbers, the axes of its figures are not in it. F2FS of
//! kernel 4.15 in pure log mode on 16 GB of a Samsung 970, 80 % full, threshold 128 MB, journal area
//! 256 KB; fileserver and varmail of filebench, tpcc and YCSB-A on MySQL.

use report::study::{Expect, Here, Metric, Statement};

const FLUSHED: &str = "a record must not be durable before its copies, and the victim not used before the \
    record: two waits for the drive, as many as a checkpoint has. Without the flush, which the paper does not \
    mention, it gains (section \"What a flush costs\")";
const FEW_SLOTS: &str = "records of 64 cleanings are a checkpoint in 64 at the paper's size; segments do \
    not shrink with the volume, so at 1/16 it is one in 4 (section \"Fig 6\")";
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
