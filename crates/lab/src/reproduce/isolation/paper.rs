//! What paper 3 says in numbers (Jeong et al., IEEE Access 2021).

/// Figure, statement, what the paper reports, how it is repeated here.
pub const STATEMENTS: &[[&str; 4]] = &[
    [
        "Fig. 3",
        "RocksDB's own hit ratio",
        "load 0.01-0.04 %, run 0.2-0.8 %",
        "column `store hits` of the pairs: databases of 1 GB, not 4 TB of I/O",
    ],
    [
        "Fig. 13",
        "target hit ratio, AOI / VBBMS",
        "0.56 (W5, 16 MB) to 3.48 (W12, 64 MB)",
        "section `Fig. 13`",
    ],
    [
        "Fig. 13",
        "W5 at 16 MB: write and read hits of the target",
        "AOI 65.7 % and 1.1 %, VBBMS 54 % and 6.7 %",
        "W5 is synthetic here: usr_0's data cannot be obtained",
    ],
    [
        "Fig. 13",
        "mean gain at 8 MB",
        "+74 %, base not stated",
        "not repeated: an average without a base",
    ],
    [
        "Fig. 14",
        "total hit ratio",
        "0.008-3.04 %",
        "section `Fig. 14`; the captured stores re-read their own data",
    ],
    [
        "Fig. 14",
        "W5, 128 MB: AOI against 2-level LRU",
        "1.14 times the target's hits, 0.89 times the total",
        "section `Fig. 14`",
    ],
    [
        "Fig. 15",
        "target latency / VBBMS, through miss ratios",
        "0.56-0.15 times the misses for prxy_0 and usr_0",
        "scenarios/isolation-latency.toml",
    ],
    ["Fig. 16", "total latency / VBBMS", "0.986-1.002", "scenarios/isolation-latency.toml"],
    [
        "Fig. 17",
        "chunk of 4 KB against 1 MB",
        "table of 18.75 MB against 75 KB; impossible below 16 MB",
        "section `Fig. 17`",
    ],
    [
        "Eq. 1, 2",
        "look-up table of a 300 GB drive, 1 MB chunks",
        "75 KB",
        "section `Look-up table`",
    ],
];
