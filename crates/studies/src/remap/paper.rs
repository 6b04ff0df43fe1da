//! What the paper reports: percentages only, its bars carry no numbers. Means of five runs on a
//! PM1725b below Linux 5.16.12. Throughput and latency do not fit one another (XFS +11.2 % with
//! -20.9 % latency; Btrfs +64.1 % in a closed loop would be -39 %), so signs are compared, not digits.

use report::study::{Condition, Expect, Here, Metric, Statement};

/// What the paper leaves open, fixed before anything is run. The first is the study's own.
pub(super) const CONDITIONS: &[Condition] = &[
    Condition::new(
        "fill80",
        "files of 80 % of the drive (FFSB's: 70 %), overwritten until cleaning is in balance",
        "not the paper's: what a drive does in the long run",
    ),
    Condition::new(
        "fill2",
        "files of 2 % of the drive, a quarter as large; nothing is ever cleaned",
        "section IV-B: 8 threads with 8 GiB each, on a PM1725b of 3.2 TB",
    ),
    Condition::new(
        "fill8",
        "files of 8 % of the drive, a quarter as large; nothing is ever cleaned",
        "section IV-D: 256 GB had been written before, on a PM1725b of 3.2 TB",
    ),
    Condition::new(
        "fill8-unit16",
        "as fill8, on a drive whose map, in DRAM, has an entry for each 16 KiB: a write of 4 KiB costs it a \
         read of the rest and a program of all four",
        "not the paper's, which says nothing of the drive's map: what large drives do, whose indirection units \
         are 16 KiB or more (kernelnewbies.org, KernelProjects/large-block-size)",
    ),
];

const TWO_LOGS: &str = "a drive with its whole map in DRAM is log-structured itself: two cleaners do \
    one job (section \"Log on log\"), unless what its map names is larger than a write: the log spares it \
    the rest";
const SPARED: &str = "agrees where random writes cost the drive translation pages: the log spares it \
    them (columns WA)";
const IN_ORDER: &str = "writes in order are sequential without remapping; what is left is a header for \
    each segment and the cleaner's share";

/// A number of the matrix, the host log.
macro_rules! at {
    ($section:literal, $drive:literal, $column:literal, $expect:expr) => {
        Here::Number(
            Metric {
                section: $section,
                row: &[("drive", $drive), ("stack", "varve")],
                column: $column,
            },
            $expect,
        )
    };
}

/// A number of the table of FFSB's loads, the host log.
macro_rules! ffsb {
    ($what:literal, $drive:literal, $expect:expr) => {
        Here::Number(
            Metric {
                section: "fig10",
                row: &[("what", $what), ("drive", $drive), ("stack", "varve")],
                column: "against_pass_through",
            },
            $expect,
        )
    };
}

/// A number of the captured traces, the host log.
macro_rules! trace {
    ($system:literal) => {
        Here::Number(
            Metric {
                section: "fig9_traces",
                row: &[("file_system", $system), ("drive", "cached 1/64"), ("stack", "varve")],
                column: "against_pass_through",
            },
            Expect::AtLeast(0.0),
        )
    };
}

/// Every number of the text.
pub(super) const STATEMENTS: &[Statement] = &[
    Statement {
        figure: "Fig 2",
        what: "random against sequential writes, no remapping: map in DRAM",
        paper: "up to -87.4 %",
        here: Here::Number(
            Metric { section: "fig2", row: &[("drive", "full map")], column: "random_against_it" },
            Expect::Within(-100.0, -20.0),
        ),
        why: "cleaning alone",
    },
    Statement {
        figure: "Fig 2",
        what: "the same, 1/64 of the map in DRAM",
        paper: "up to -87.4 %",
        here: Here::Number(
            Metric {
                section: "fig2",
                row: &[("drive", "cached 1/64")],
                column: "random_against_it",
            },
            Expect::Within(-100.0, -20.0),
        ),
        why: "cleaning and translation pages",
    },
    Statement {
        figure: "Fig 8",
        what: "fio, sequential writes: map in DRAM",
        paper: "+11.4 / +7.0 / +3.1 / +7.3 % (ext4, XFS, Btrfs, F2FS)",
        here: at!("fig8", "full map", "against_pass_through", Expect::AtLeast(0.0)),
        why: IN_ORDER,
    },
    Statement {
        figure: "Fig 8",
        what: "the same, 1/64 of the map in DRAM",
        paper: "+11.4 / +7.0 / +3.1 / +7.3 %",
        here: at!("fig8", "cached 1/64", "against_pass_through", Expect::AtLeast(0.0)),
        why: IN_ORDER,
    },
    Statement {
        figure: "Fig 9",
        what: "fio, random writes: map in DRAM",
        paper: "+30.4 / +11.2 / +64.1 / +7.1 %",
        here: at!("fig9", "full map", "against_pass_through", Expect::AtLeast(0.0)),
        why: TWO_LOGS,
    },
    Statement {
        figure: "Fig 9",
        what: "the same, 1/64 of the map in DRAM",
        paper: "+30.4 / +11.2 / +64.1 / +7.1 %",
        here: at!("fig9", "cached 1/64", "against_pass_through", Expect::AtLeast(0.0)),
        why: SPARED,
    },
    Statement {
        figure: "Fig 9",
        what: "fio on ext4, captured, 1/64 of the map in DRAM",
        paper: "+30.4 %",
        here: trace!("ext4"),
        why: SPARED,
    },
    Statement {
        figure: "Fig 9",
        what: "fio on XFS, captured, 1/64 of the map in DRAM",
        paper: "+11.2 %",
        here: trace!("XFS"),
        why: SPARED,
    },
    Statement {
        figure: "Fig 9",
        what: "fio on Btrfs, captured, 1/64 of the map in DRAM",
        paper: "+64.1 %",
        here: trace!("Btrfs"),
        why: SPARED,
    },
    Statement {
        figure: "Fig 9",
        what: "fio on F2FS, captured, 1/64 of the map in DRAM",
        paper: "+7.1 %",
        here: trace!("F2FS"),
        why: SPARED,
    },
    Statement {
        figure: "Fig 10",
        what: "FFSB reads, transactions: random reads",
        paper: "-1.4 / -0.2 / -0.3 / -1.1 %",
        here: ffsb!("random reads", "full map", Expect::Within(-5.0, 1.0)),
        why: "looking an address up costs no device time",
    },
    Statement {
        figure: "Fig 10",
        what: "the same, sequential reads",
        paper: "-1.4 / -0.2 / -0.3 / -1.1 %",
        here: ffsb!("sequential reads", "full map", Expect::Within(-5.0, 1.0)),
        why: "headers lie between the blocks",
    },
    Statement {
        figure: "Fig 11",
        what: "FFSB overwrites: map in DRAM",
        paper: "+19.4 / +16.7 / +21.0 / +13.7 %",
        here: ffsb!("overwrites at random", "full map", Expect::AtLeast(0.0)),
        why: TWO_LOGS,
    },
    Statement {
        figure: "Fig 11",
        what: "the same, 1/64 of the map in DRAM",
        paper: "+19.4 / +16.7 / +21.0 / +13.7 %",
        here: ffsb!("overwrites at random", "cached 1/64", Expect::AtLeast(0.0)),
        why: SPARED,
    },
    Statement {
        figure: "Fig 11",
        what: "FFSB appends: map in DRAM",
        paper: "in the numbers above",
        here: ffsb!("appends", "full map", Expect::AtLeast(0.0)),
        why: IN_ORDER,
    },
    Statement {
        figure: "Fig 12",
        what: "FFSB, half reads: map in DRAM",
        paper: "+16.9 / +15.7 / +18.2 / +11.0 %",
        here: ffsb!("half reads, half overwrites, at random", "full map", Expect::AtLeast(0.0)),
        why: TWO_LOGS,
    },
    Statement {
        figure: "Fig 12",
        what: "the same, 1/64 of the map in DRAM",
        paper: "+16.9 / +15.7 / +18.2 / +11.0 %",
        here: ffsb!("half reads, half overwrites, at random", "cached 1/64", Expect::AtLeast(0.0)),
        why: SPARED,
    },
    Statement {
        figure: "Fig 13",
        what: "mean latency of sequential writes: map in DRAM",
        paper: "similar, -5.83 % at best",
        here: at!("fig8", "full map", "mean_against_it", Expect::Within(-10.0, 10.0)),
        why: IN_ORDER,
    },
    Statement {
        figure: "Fig 14",
        what: "mean latency of random writes: map in DRAM",
        paper: "-19.8 / -20.9 / -24.5 / -7.5 %",
        here: at!("fig9", "full map", "mean_against_it", Expect::AtMost(0.0)),
        why: TWO_LOGS,
    },
    Statement {
        figure: "Fig 14",
        what: "the same, 1/64 of the map in DRAM",
        paper: "-19.8 / -20.9 / -24.5 / -7.5 %",
        here: at!("fig9", "cached 1/64", "mean_against_it", Expect::AtMost(0.0)),
        why: SPARED,
    },
    Statement {
        figure: "Fig 15",
        what: "reconstruction with 256 GB mapped, seconds",
        paper: "5.49 s at most",
        here: Here::Number(
            Metric { section: "fig15", row: &[("mapped", "256 GiB")], column: "device_time_s" },
            Expect::AtMost(5.49),
        ),
        why: "map pages and the log since the last checkpoint are read, not every pair",
    },
    Statement {
        figure: "Fig 16",
        what: "loss while cleaning, map in DRAM",
        paper: "-22.1 % at most, still above no remapping",
        here: Here::Number(
            Metric { section: "fig16", row: &[("stack", "varve, greedy")], column: "change" },
            Expect::AtLeast(-22.1),
        ),
        why: "the paper's drive was overwritten for 140 s; here it is full and every write must be \
              paid for by cleaning (closed form: section \"Write amplification\")",
    },
];
