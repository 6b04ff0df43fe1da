//! A closed form of what is saved after cleaning.
//!
//! Pages of a log, and those that are written again at once, die together: each costs one program. The
//! `D` distinct pages that a window leaves are lasting data, and cost the write amplification `W`. Of
//! `L` pages that a transaction writes with a log, and `N` with none,
//!
//! > WAL = (L - D) + D W, NoLgn = (N - D) + D W
//!
//! so `W` follows from WAL's programs, and NoLgn's from that: cleaning takes back none of what is saved,
//! and gives nothing. Where the form fails, cleaning copies pages that are about to die.

use report::study::{Condition, Section, Table};
use report::values;

use super::experiment::Outcome;
use super::overwrite::Size;
use super::text::{change, hundredths, percent};

/// A thousandth of the programs of an operation.
fn pages(outcome: &Outcome) -> u64 {
    outcome.flash.programs() * 1000 / outcome.operations.max(1)
}

/// What the form says of one mode at one size, in thousandths: the amplification of lasting data, and
/// the programs of a system.
fn predicted(wal: [u64; 2], system: u64, lasting: u64) -> (u64, u64) {
    let [before, after] = wal;
    let quick = before.saturating_sub(lasting);
    let cleaned = after.saturating_sub(quick);
    let amplification = cleaned * 1000 / lasting.max(1);
    (amplification, (system.saturating_sub(lasting)) + cleaned)
}

/// The form beside what was measured.
pub(super) fn section(condition: &Condition, before: &[Size], after: &[Size]) -> Section {
    let mut table = Table::new([
        ("value", "value"),
        ("mode", "mode"),
        ("system", "system"),
        ("before", "pages before cleaning"),
        ("lasting", "of them lasting"),
        ("w", "W, from WAL"),
        ("predicted", "closed form"),
        ("measured", "measured"),
        ("off", "measured / closed form"),
    ]);
    for (before, after) in before.iter().zip(after) {
        // The distinct pages of 1000 page writes are what a group writes.
        let (value, lasting) = (after.value, pages(&before.normal[2]));
        for (mode, before, after) in
            [("FULL", &before.full, &after.full), ("NORMAL", &before.normal, &after.normal)]
        {
            let wal = [pages(&before[0]), pages(&after[0])];
            for (name, which) in [("SW-WAL", 1), ("NoLgn", 2)] {
                let found = pages(&after[which]);
                let (w, form) = predicted(wal, pages(&before[which]), lasting);
                table.row(values![
                    format!("{value} B"),
                    mode,
                    name,
                    hundredths(pages(&before[which]), 1000),
                    hundredths(lasting, 1000),
                    hundredths(w, 1000),
                    hundredths(form, 1000),
                    hundredths(found, 1000),
                    percent(change(found, form))
                ]);
            }
        }
    }
    Section::new(
        "closed_form",
        "What is saved after cleaning, by a closed form",
        format!(
            "{} Flash pages a transaction. A page that dies soon costs one program; a lasting one, \
             of those that 1000 page writes leave, costs W, which is solved from WAL's programs. Then \
             each page that a system does not write saves one program, whatever W is: the share that \
             is saved falls as W rises.",
            condition.what
        ),
        table,
    )
}

#[cfg(test)]
mod tests {
    use super::predicted;

    /// The paper's sizes at 4 KiB: 9.27 pages with a log, 5.15 without, 3.09 of them lasting.
    #[test]
    fn what_is_saved_is_the_log_whatever_lasting_data_costs() {
        for w in [1000, 1500, 8700] {
            let wal = 9270 - 3090 + 3090 * w / 1000;
            let (solved, nolgn) = predicted([9270, wal], 5150, 3090);
            assert!(solved.abs_diff(w) <= 1, "{solved} for {w}");
            assert_eq!(wal - nolgn, 9270 - 5150);
        }
    }
}
