//! Studies for a browser: one file that asks for nothing over a network.

use std::fmt::Write;

use super::dumbbell::{LEGEND, id_of};
use super::{Study, Table, counts};
use crate::format::escape;

impl Table {
    fn html(&self) -> String {
        let mut out = String::from("<div class=\"scroll\"><table><thead><tr>");
        let numbers: Vec<bool> = (0..self.columns().len()).map(|c| self.is_number(c)).collect();
        let class = |at: usize| if numbers[at] { "" } else { " class=\"words\"" };
        for (at, head) in self.columns().iter().enumerate() {
            let _ = write!(out, "<th{}>{}</th>", class(at), escape(&head.heading));
        }
        out += "</tr></thead><tbody>";
        for row in self.rows() {
            out += "<tr>";
            for (at, cell) in row.iter().enumerate() {
                let _ = write!(out, "<td{}>{}</td>", class(at), escape(&cell.to_string()));
            }
            out += "</tr>";
        }
        out + "</tbody></table></div>"
    }
}

impl Study {
    /// What was found, without the frame of a page; headings of level `level`, ids that begin with `name`.
    fn body(&self, level: u8, name: &str) -> String {
        let mut out = format!("<p>{}</p>", escape(&self.note));
        if !self.conditions.is_empty() {
            let _ = write!(out, "<h{level}>Conditions</h{level}>");
            out += &self.condition_table().html();
        }
        if !self.claims.is_empty() {
            let _ = write!(out, "<h{level}>The paper's numbers</h{level}>");
            out += &self.claim_table().html();
        }
        if !self.checks.is_empty() {
            let mut table = Table::new(["statement", "here", "found"].map(|name| (name, name)));
            for check in &self.checks {
                let verdict = if check.holds { "holds" } else { "fails" };
                table.row([check.what.as_str(), verdict, &check.found]);
            }
            let _ = write!(out, "<h{level}>Direction</h{level}>{}", table.html());
        }
        for section in &self.sections {
            let (title, note) = (escape(&section.heading()), escape(&section.note));
            let id = escape(&id_of(name, &section.anchor()));
            let _ = write!(out, "<h{level} id=\"{id}\">{title}</h{level}><p>{note}</p>");
            let table = &section.table;
            let drawn = section.plots.iter().map(|plot| plot.svg(table));
            let drawn: String = drawn.collect();
            if drawn.is_empty() {
                out += &table.html();
                continue;
            }
            let _ = write!(
                out,
                "<div class=\"grid2\">{drawn}</div><details><summary>The numbers</summary>{}\
                 </details>",
                table.html()
            );
        }
        out
    }

    /// The study as one HTML file.
    pub fn html(&self, version: &str) -> String {
        let numbers = match self.dumbbells("") {
            numbers if numbers.is_empty() => numbers,
            numbers => format!("<div class=\"all-numbers\">{numbers}</div>{LEGEND}"),
        };
        let body = numbers + &self.body(2, "");
        crate::page::page(&self.title, version, &self.command, &body)
    }
}

/// Several studies as one HTML file: all their numbers on one screen, then each of them, folded. `studies`
/// have a short name each.
pub fn book(
    title: &str,
    note: &str,
    studies: &[(String, Study)],
    version: &str,
    command: &str,
) -> String {
    let numbers: String = studies.iter().map(|(name, study)| study.dumbbells(name)).collect();
    let mut body =
        format!("<div class=\"all-numbers\">{numbers}</div>{LEGEND}<p>{}</p>", escape(note));
    let columns = ["study", "figure", "what", "paper", "here", "verdict", "comes out under", "why"];
    let mut table = Table::new(columns.map(|name| (name, name)));
    for (name, study) in studies {
        for c in &study.claims {
            let under = if c.under.is_empty() { "-".to_string() } else { c.comes_out() };
            let verdict = c.verdict.name();
            table.row([name, &c.figure, &c.what, &c.paper, &c.here, verdict, &under, &c.why]);
        }
    }
    let _ = write!(
        body,
        "<details class=\"page\" id=\"all\"><summary><h2>Number by number, with the reasons</h2></summary>{}\
         <p>Verdicts are those under each study's own condition.</p>{}</details>",
        counts(studies).html(),
        table.html()
    );
    for (name, study) in studies {
        let _ = write!(
            body,
            "<details class=\"page\" id=\"{}\"><summary><h2>{}</h2></summary>{}<h3>Reproduce</h3><pre>{}</pre></details>",
            escape(name),
            escape(&study.title),
            study.body(3, name),
            escape(&study.command),
        );
    }
    crate::page::page(title, version, command, &body)
}
