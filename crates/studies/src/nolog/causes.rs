//! Figs. 3 and 9: what the time of a log is spent on, and what causes the pages.

use lab::LabError;
use report::study::{Check, Plot, Section, Study, Table};
use report::values;

use super::experiment::{FULL, NORMAL};
use super::overwrite::{Found, each};
use super::text::{percent, share};

/// What time is spent on, in columns.
const SPENT: [(&str, &str); 5] = [
    ("wal_write", "WAL write"),
    ("wal_sync", "WAL sync"),
    ("data_write", "data write"),
    ("data_sync", "data sync"),
    ("host", "host"),
];

impl Found<'_> {
    /// Fig. 3: where the time of WAL goes.
    pub(super) fn parts(&self, study: &mut Study) -> Result<(), LabError> {
        let columns = [("value", "value"), ("mode", "mode")].into_iter().chain(SPENT);
        let mut table = Table::new(columns.chain([("log_part", "log, of log and data")]));
        for size in self.after {
            for (outcome, mode) in [(&size.full[0], "FULL"), (&size.normal[0], "NORMAL")] {
                let tally = &outcome.tally;
                let spans = [tally.log_write, tally.log_sync, tally.data_write, tally.data_sync];
                let total = tally.total.as_ps();
                let known: u64 = spans.iter().map(|span| span.as_ps()).sum();
                let mut row = values![format!("{} B", size.value), mode].to_vec();
                row.extend(spans.map(|span| share(span.as_ps(), total)));
                row.push(share(total.saturating_sub(known), total));
                let log = spans[0].as_ps() + spans[1].as_ps();
                row.push(share(log, known));
                table.row(row);
            }
            let tally = &size.full[0].tally;
            if size.value <= 512 {
                let log = tally.log_write.as_ps() + tally.log_sync.as_ps();
                let data = tally.data_write.as_ps() + tally.data_sync.as_ps();
                study.checks.push(Check {
                    what: format!(
                        "Fig. 3, {} B, FULL, {}: the log takes most of the time",
                        size.value, self.condition.id
                    ),
                    found: format!(
                        "log {}, data {}",
                        share(log, log + data),
                        share(data, log + data)
                    ),
                    holds: log > data,
                });
            }
        }
        study.sections.push(Section::new(
        "fig3", "Fig. 3: time of Base-WAL on the drive, by what it is spent on",
        format!(
            "{} Write: until the pages are on flash; sync: what the flush takes after that. The \
             drive has no buffer, so that a write ends when it is durable. A checkpoint's reads \
             find the log in the host's page cache.",
            self.plan.scale()
        ),
        table,
    ).plot(Plot::bars("share of the time, %, FULL", "value", SPENT.map(|(id, _)| id)).only("mode", "FULL"))?
     .plot(Plot::bars("share of the time, %, NORMAL", "value", SPENT.map(|(id, _)| id)).only("mode", "NORMAL"))?.under(self.condition));
        Ok(())
    }

    /// Fig. 9: what cleaning copies, and what locks add.
    pub(super) fn cleaning(&self, study: &mut Study) -> Result<(), LabError> {
        let mut table = Table::new([
            ("value", "value"),
            ("mode", "mode"),
            ("system", "system"),
            ("host_pages", "host pages"),
            ("records", "records"),
            ("copied", "copied"),
            ("copied_of_all", "copied, of all"),
            ("copied_because_of_locks", "copied because of locks"),
            ("locks_of_all", "because of locks, of all"),
            ("other", "other"),
            ("erases", "erases"),
        ]);
        for size in self.after {
            for (variants, runs, mode) in
                [(&FULL[..], &size.full, "FULL"), (&NORMAL[..], &size.normal, "NORMAL")]
            {
                for (variant, outcome) in variants.iter().zip(runs) {
                    let flash = &outcome.flash;
                    table.row(values![
                        format!("{} B", size.value),
                        mode,
                        variant.name,
                        flash.host,
                        flash.tx,
                        flash.gc,
                        share(flash.gc, flash.programs()),
                        flash.additional,
                        share(flash.additional, flash.programs()),
                        flash.other,
                        flash.erases
                    ]);
                }
            }
        }
        let most = self.after.iter().flat_map(|size| [&size.full[2], &size.normal[2]]);
        let most = most.map(|o| 1000 * o.flash.additional / o.flash.programs().max(1)).max();
        study.checks.push(Check {
            what: format!("Fig. 9, {}: locks add at most 6 % of the pages", self.condition.id),
            found: format!("at most {}", percent(most.unwrap_or(0) as i64)),
            holds: most.unwrap_or(0) <= 60,
        });
        study.sections.push(Section::new(
        "fig9", "Fig. 9: on the drive, pages by cause",
        format!(
            "{} The paper: cleaning's share grows with the size, up to 62 %; locks add 3.5 % in \
             the mean, at most 6 %. Here the lock is a preference: a locked line is collected \
             when eight candidates were passed over.",
            self.plan.scale()
        ),
        table,
    ).plot(each("copied by cleaning, % of all pages, NORMAL", "copied_of_all", "NORMAL"))?
     .plot(Plot::bars("copied because of locks, % of all pages, NoLgn", "value", ["locks_of_all"]).by("mode").only("system", "NoLgn"))?.under(self.condition));
        Ok(())
    }
}
