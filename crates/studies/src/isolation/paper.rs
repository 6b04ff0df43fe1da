//! What paper 3 says in numbers (Jeong et al., IEEE Access 2021), and what it leaves open.

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

/// Why W1 to W14 are left out.
pub(super) const LEFT_OUT_WHY: &str = "W1 to W14 are counted without --quick";

/// Why a number of W1 to W14 differs from the paper's.
const WHY: &str = "targets are synthetic here (their reuse is that of a Zipf law, usr_0's rewrites of \
    25 KB are not in it), and the store is a model whose database of some GB reads its own files again \
    (the paper's wrote 4 TB)";

/// A number that was found from the least to the most.
macro_rules! range {
    ($number:literal, $judged:expr) => {
        Here::Numbers {
            shown: &[
                Metric { section: "ranges", row: &[("number", $number)], column: "least" },
                Metric { section: "ranges", row: &[("number", $number)], column: "most" },
            ],
            with: " to ",
            judged: $judged,
        }
    };
}

/// The most of such a range.
macro_rules! most {
    ($number:literal, $most:literal) => {
        range!(
            $number,
            &[(
                Metric { section: "ranges", row: &[("number", $number)], column: "most" },
                Expect::AtMost($most),
            )]
        )
    };
}

/// Write and read hits of W5 at 16 MiB.
macro_rules! w5 {
    ($policy:literal, $judged:expr) => {
        Here::Numbers {
            shown: &[
                Metric { section: "fig13_w5", row: &[("policy", $policy)], column: "write" },
                Metric { section: "fig13_w5", row: &[("policy", $policy)], column: "read" },
            ],
            with: " and ",
            judged: $judged,
        }
    };
}

/// Fig. 15: fewer misses where there are more hits, at both sizes.
macro_rules! fig15 {
    ($what:literal, $w:literal) => {
        Statement {
            figure: "Fig. 15",
            what: concat!("target misses, aoi / vbbms, 32 and 128 MB, ", $what),
            paper: "0.56 to 0.15 where it gains",
            here: Here::Numbers {
                shown: &[
                    Metric { section: "fig15", row: &[("w", $w)], column: "mib_32" },
                    Metric { section: "fig15", row: &[("w", $w)], column: "mib_128" },
                ],
                with: " and ",
                judged: &[
                    (
                        Metric { section: "fig13_ratio", row: &[("w", $w)], column: "mib_32" },
                        Expect::AtLeast(1.01),
                    ),
                    (
                        Metric { section: "fig13_ratio", row: &[("w", $w)], column: "mib_128" },
                        Expect::AtLeast(1.01),
                    ),
                ],
            },
            why: WHY,
        }
    };
}

/// Statements about W1 to W14.
pub(super) const MIXES: &[Statement] = &[
    Statement {
        figure: "Fig. 3",
        what: "hit ratio of the store itself, load, %",
        paper: "0.01 to 0.04",
        here: most!("store hits, load, %", 0.1),
        why: WHY,
    },
    Statement {
        figure: "Fig. 3",
        what: "the same, run, %",
        paper: "0.2 to 0.8",
        here: most!("store hits, run, %", 1.0),
        why: WHY,
    },
    Statement {
        figure: "Fig. 13",
        what: "target hits, aoi / vbbms",
        paper: "0.56 (W5, 16 MB) to 3.48 (W12, 64 MB)",
        here: range!(
            "target hits, aoi / vbbms",
            &[(
                Metric { section: "fig13_gain", row: &[("over", "W1 to W14")], column: "gain_32" },
                Expect::AtLeast(8.0),
            )]
        ),
        why: "agrees if more than half of the 14 workloads gain at 32 MiB",
    },
    Statement {
        figure: "Fig. 13",
        what: "W5, 16 MB: write and read hits of the target, aoi",
        paper: "65.7 % and 1.1 %",
        here: w5!(
            "aoi",
            &[(
                Metric { section: "fig13_w5", row: &[("policy", "aoi")], column: "against_vbbms" },
                Expect::AtMost(-1.0),
            )]
        ),
        why: "W5 loses in the paper (0.56 of vbbms); usr_0's data cannot be obtained, its synthetic stand-in \
              does not rewrite 25 KB at a time",
    },
    Statement {
        figure: "Fig. 13",
        what: "the same, vbbms",
        paper: "54 % and 6.7 %",
        here: w5!("vbbms", &[]),
        why: "printed for comparison: usr_0's data cannot be obtained",
    },
    Statement {
        figure: "Fig. 13",
        what: "mean gain at 8 MB (here: over vbbms)",
        paper: "+74 %, base not stated",
        here: Here::Number(
            Metric { section: "fig13_gain", row: &[("over", "W1 to W14")], column: "mean_gain_8" },
            Expect::AtLeast(1.0),
        ),
        why: "an average whose base the paper does not state: the sign is compared",
    },
    Statement {
        figure: "Fig. 14",
        what: "total hit ratio, aoi, %",
        paper: "0.008 to 3.04",
        here: most!("total hits, %", 3.04),
        why: WHY,
    },
    Statement {
        figure: "Fig. 14",
        what: "W5, 128 MB: aoi / 2-level-lru, target and total",
        paper: "1.14 and 0.89",
        here: Here::Numbers {
            shown: &[
                Metric { section: "fig14_w5", row: &[("hits", "target")], column: "of_two_level" },
                Metric { section: "fig14_w5", row: &[("hits", "total")], column: "of_two_level" },
            ],
            with: " and ",
            judged: &[
                (
                    Metric {
                        section: "fig14_w5",
                        row: &[("hits", "target")],
                        column: "of_two_level",
                    },
                    Expect::AtLeast(1.01),
                ),
                (
                    Metric {
                        section: "fig14_w5",
                        row: &[("hits", "total")],
                        column: "of_two_level",
                    },
                    Expect::AtMost(0.99),
                ),
            ],
        },
        why: WHY,
    },
    fig15!("prxy_0 (W3)", "W3"),
    fig15!("prxy_0 (W10)", "W10"),
    fig15!("usr_0 (W5)", "W5"),
    fig15!("usr_0 (W12)", "W12"),
];

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
