//! What came of a run, as JUnit's XML: what servers of CI read.

use crate::verdict::{Report, Verdict};

/// A text inside a quoted attribute. What XML 1.0 has no way to write becomes a question mark.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(' '),
            c if c.is_control() || ('\u{fffe}'..='\u{ffff}').contains(&c) => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

/// A case: the first failure in it, if there is any.
fn case(name: &str, case: &str, failure: Option<&str>) -> String {
    let failure = failure.map(|text| format!("<failure message=\"{}\"/>", escaped(text)));
    let failure = failure.unwrap_or_default();
    format!("    <testcase classname=\"{}\" name=\"{case}\">{failure}</testcase>\n", escaped(name))
}

/// A case for the worst states, one for the drawn; for those within recoveries and those of failing drives where
/// there were such; and one that fails if there is no verdict.
pub fn junit(report: &Report) -> String {
    let first = |worst: bool| {
        let failed = report.failed().find(|failed| failed.worst == worst);
        failed.map(|failed| format!("before record {}: {}", failed.cut.at, failed.reason))
    };
    let mut cases: Vec<(&str, Option<String>)> = match &report.live {
        _ if report.stacked.is_some() => {
            vec![("power cuts of a stack", report.failed().next().map(|one| one.reason.clone()))]
        }
        Some(_) => vec![("failing drives", first(true))],
        None => vec![("worst cases", first(true)), ("drawn states", first(false))],
    };
    if !report.recoveries.is_empty() {
        let mut failed = report.recoveries.iter().flat_map(|one| &one.failed);
        cases.push(("recoveries", failed.next().map(|failed| failed.reason.clone())));
    }
    let failures = cases.iter().filter(|(_, failure)| failure.is_some()).count();
    let mut text: String =
        cases.iter().map(|(name, failure)| case(&report.name, name, failure.as_deref())).collect();
    let mut errors = 0;
    if let Verdict::NotMeasured(why) | Verdict::Broken(why) = &report.verdict {
        errors = 1;
        let (name, what) = (escaped(&report.name), report.verdict.name());
        text += &format!(
            "    <testcase classname=\"{name}\" name=\"harness\"><error message=\"{what}: {}\"/></testcase>\n",
            escaped(why)
        );
    }
    let tests = cases.len() + errors;
    let seconds = format!("{}.{:03}", report.ms / 1000, report.ms % 1000);
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"varve torture\" \
         tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" time=\"{seconds}\">\n{text}  \
         </testsuite>\n</testsuites>\n"
    )
}
