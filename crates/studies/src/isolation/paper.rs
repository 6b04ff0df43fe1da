//! What paper 3 says in numbers (Jeong et al., IEEE Access 2021), answered by tables that are there
//! at every scale. Those of W1 to W14 are in `numbers.rs`.

use report::study::{Condition, Expect, Here, Metric, Statement};

/// What the paper leaves open, fixed before anything is run. The first is the study's own.
pub(super) const CONDITIONS: &[Condition] = &[
    Condition::new(
        "trim",
        "the store discards what it deletes",
        "its drive supports trim, and nothing else in its algorithms clears the table",
    ),
    Condition::new(
        "no-trim",
        "nobody discards: a reused address is a rewrite",
        "its traces are block traces of reads and writes, whose 2.9 TB go over the 300 GB about ten times",
    ),
];
/// The host of a condition discards.
pub(super) fn discards(condition: &Condition) -> bool {
    condition.id == CONDITIONS[0].id
}

const SYNTHETIC: &str = "W1 to W14 are counted without --quick";

/// Statements about W1 to W14, for a scale that does not count them.
pub(super) const LEFT_OUT: &[(&str, &str, &str)] = &[
    ("Fig. 3", "hit ratio of the store itself", "load 0.01-0.04 %, run 0.2-0.8 %"),
    ("Fig. 13", "target hits, aoi / vbbms", "0.56 (W5, 16 MB) to 3.48 (W12, 64 MB)"),
    (
        "Fig. 13",
        "W5, 16 MB: write and read hits of the target",
        "AOI 65.7 % and 1.1 %, VBBMS 54 % and 6.7 %",
    ),
    ("Fig. 13", "mean gain at 8 MB", "+74 %, base not stated"),
    ("Fig. 14", "total hit ratio", "0.008-3.04 %"),
    ("Fig. 14", "W5, 128 MB: aoi / 2-level-lru, target and total", "1.14 and 0.89"),
    ("Fig. 15", "target misses, aoi / vbbms, 32 and 128 MB", "0.56-0.15 where it gains"),
];

/// Why those are left out.
pub(super) const LEFT_OUT_WHY: &str = SYNTHETIC;

/// Statements answered at every scale.
pub(super) const STATEMENTS: &[Statement] = &[
    Statement {
        figure: "Fig. 16",
        what: "total latency, aoi / vbbms",
        paper: "0.986-1.002",
        here: Here::Nowhere,
        why: "the paper's NAND times, geometry and FTL are not given; scenarios/isolation-latency.toml \
              prints latencies on a drive of our own",
    },
    Statement {
        figure: "Fig. 17",
        what: "chunk of 4 KB: bytes of the look-up table",
        paper: "18.75 MB, impossible in 16 MB and less",
        here: Here::Number(
            Metric { section: "table_size", row: &[("chunk", "4 KiB")], column: "bytes_300_gib" },
            Expect::Within(19_660_800.0, 19_660_800.0),
        ),
        why: "18.75 MiB: the paper's units are binary",
    },
    Statement {
        figure: "Eq. 1, 2",
        what: "look-up table of a 300 GB drive, chunks of 1 MB: bytes",
        paper: "75 KB",
        here: Here::Number(
            Metric { section: "table_size", row: &[("chunk", "1 MiB")], column: "bytes_300_gib" },
            Expect::Within(76_800.0, 76_800.0),
        ),
        why: "75 KiB",
    },
    Statement {
        figure: "Fig. 17",
        what: "target hits, captured pair P2, 32 MiB: chunk of 1 MiB against 4 KiB, points",
        paper: "1 MB is no worse than 4 KB",
        here: Here::Number(
            Metric { section: "fig17", row: &[("chunk", "1 MiB")], column: "p2_32_against_4k" },
            Expect::AtLeast(0.0),
        ),
        why: "the best chunk lies between 16 KiB and 1 MiB (section \"Fig. 17\" and its direction)",
    },
];
