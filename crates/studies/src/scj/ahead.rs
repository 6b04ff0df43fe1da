//! Not in the paper: cleaning that nobody waits for, and what of its gain is the reserve's.

use block::Span;

use super::loads::{Runs, median};
use super::outcome::Outcome;
use super::{System, section};
use crate::text::{micros, rate, ratio};
use report::study::{Check, Section, Table};
use report::values;

pub(super) const SHOWN: [System; 7] = [
    System::Bl,
    System::Kernel,
    System::Unflushed,
    super::cell::TOGETHER,
    System::KernelLate,
    System::KernelAhead,
    System::Ahead,
];

fn of<'a>(load: &'a Runs<'_>, system: System) -> Option<&'a [Outcome]> {
    load.of.iter().find(|(other, _)| *other == system).map(|(_, runs)| *runs)
}

/// The table.
pub(super) fn table<'a>(loads: impl Iterator<Item = &'a Runs<'a>>) -> Section {
    let mut table = Table::new([
        ("load", "load"),
        ("system", "system"),
        ("mb_s", "MB/s"),
        ("against_bl", "against BL"),
        ("against_kernel_6_1", "against kernel 6.1"),
        ("against_unflushed", "against the unsafe one"),
        ("update_mean_us", "update mean us"),
        ("update_p99_us", "update p99 us"),
        ("ahead", "cleaned ahead"),
        ("for_nothing", "read for nothing"),
        ("waits", "operations that waited"),
        ("cps", "CPs"),
        ("records", "records"),
        ("flushes", "flushes"),
        ("waf", "WAF"),
    ]);
    for load in loads {
        let median_of = |system| of(load, system).map_or(0, |runs| median(runs, Outcome::rate));
        for system in SHOWN {
            let Some(runs) = of(load, system) else { continue };
            let (now, one) = (median(runs, Outcome::rate), &runs[0]);
            let p99 = median(runs, |one| one.latency(1, 2).as_ps());
            table.row(values![
                load.what.title(),
                system.name(),
                rate(now * 4096),
                ratio((now, median_of(System::Bl))),
                ratio((now, median_of(System::Kernel))),
                ratio((now, median_of(System::Unflushed))),
                micros(one.latency(1, 0)),
                micros(Span::from_ps(p99)),
                one.ahead[0],
                one.ahead[1],
                one.ahead[2],
                one.cp_calls,
                one.records,
                one.flushes,
                ratio((median(runs, |one| one.written), median(runs, |one| one.user)))
            ]);
        }
    }
    section(
        "ahead",
        "Cleaning ahead of need (not in the paper)",
        "The runs of Fig 8, and varmail whose threads wait for each other and share the flushes of their fsyncs. Ahead of need: victims are read, copied, flushed and recorded beside the callers from the \
         point on at which the others' callers begin to clean; callers wait only when the next operation and a \
         checkpoint would not have room. \"Callers clean late\" is the control: the same floor, but callers clean and \
         wait; so that what the reserve gives is not taken for what cleaning ahead gives. All but \"unsafe\" lose \
         nothing in a power cut.",
        table,
    )
}

/// What it is to reach.
pub(super) fn checks(load: &Runs<'_>) -> Vec<Check> {
    let name = load.what.title();
    let median_of = |system| of(load, system).map_or(0, |runs| median(runs, Outcome::rate));
    let (unsafe_one, kernel) = (median_of(System::Unflushed), median_of(System::Kernel));
    let (record, checkpoint) = (median_of(System::Ahead), median_of(System::KernelAhead));
    vec![
        Check {
            what: format!(
                "{name}: SCJ ahead of need is safe, and as fast as SCJ without flush (0.99)"
            ),
            found: ratio((record, unsafe_one)).to_string(),
            holds: record * 100 >= unsafe_one * 99,
        },
        Check {
            what: format!("{name}: kernel 6.1's rules ahead of need are faster than kernel 6.1"),
            found: ratio((checkpoint, kernel)).to_string(),
            holds: checkpoint > kernel,
        },
    ]
}
