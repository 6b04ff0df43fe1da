//! What the paper reports: percentages only, its bars carry no numbers.

use super::super::{Section, Table};

/// Change by remapping on ext4, XFS, Btrfs and F2FS, as the text has it.
const FIGURES: [(&str, &str, [&str; 4]); 7] = [
    ("Fig 8", "fio sequential write, throughput", ["+11.4 %", "+7.0 %", "+3.1 %", "+7.3 %"]),
    ("Fig 9", "fio random write, throughput", ["+30.4 %", "+11.2 %", "+64.1 %", "+7.1 %"]),
    ("Fig 10", "FFSB read only, transactions", ["-1.4 %", "-0.2 %", "-0.3 %", "-1.1 %"]),
    ("Fig 11", "FFSB write, transactions", ["+19.4 %", "+16.7 %", "+21.0 %", "+13.7 %"]),
    ("Fig 12", "FFSB half reads, transactions", ["+16.9 %", "+15.7 %", "+18.2 %", "+11.0 %"]),
    (
        "Fig 13",
        "latency of sequential writes",
        ["similar", "similar", "-5.83 % at best", "similar"],
    ),
    ("Fig 14", "latency of random writes", ["-19.8 %", "-20.9 %", "-24.5 %", "-7.5 %"]),
];

fn figures() -> Table {
    let mut table = Table::new(["figure", "what", "ext4", "XFS", "Btrfs", "F2FS"]);
    for (figure, what, values) in FIGURES {
        table.row([figure, what].into_iter().chain(values));
    }
    table.row([
        "Fig 2",
        "random against sequential write, no remapping",
        "up to -87.4 %",
        "",
        "",
        "",
    ]);
    table.row(["Fig 15", "reconstruction at 256 GB", "5.49 s at most", "", "", ""]);
    table.row([
        "Fig 16",
        "loss while cleaning, still above existing",
        "-22.1 % at most",
        "",
        "",
        "",
    ]);
    table
}

/// The paper's numbers as a section.
pub(super) fn section() -> Section {
    super::section(
        "What the paper reports",
        "Means of five runs on a PM1725b below Linux 5.16.12. Throughput and latency do not fit one \
         another (XFS +11.2 % with -20.9 % latency; Btrfs +64.1 % in a closed loop would be -39 %), so \
         signs and order are compared, not digits.",
        figures(),
    )
}
