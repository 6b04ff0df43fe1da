//! A study for a terminal.

use std::fmt::Write;

use super::{Study, Table, Value};

impl Table {
    /// The table for a terminal, its columns aligned.
    pub fn text(&self) -> String {
        let heading = self.columns().iter().map(|column| column.heading.clone()).collect();
        let rows = self.rows().iter().map(|row| row.iter().map(Value::to_string).collect());
        let lines: Vec<Vec<String>> = std::iter::once(heading).chain(rows).collect();
        let columns = self.columns().len();
        let width = |c: usize| lines.iter().map(|l| l[c].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let numbers: Vec<bool> = (0..columns).map(|c| self.is_number(c)).collect();
        let mut out = String::new();
        for line in &lines {
            let mut text = String::new();
            for (at, (cell, width)) in line.iter().zip(&widths).enumerate() {
                let _ = match numbers[at] {
                    true => write!(text, "{cell:>width$}  "),
                    false => write!(text, "{cell:<width$}  "),
                };
            }
            let _ = writeln!(out, "{}", text.trim_end());
        }
        out
    }
}

impl Study {
    /// The study for a terminal.
    pub fn text(&self) -> String {
        let mut out = format!("{}\n{}\n", self.title, self.note);
        for section in &self.sections {
            let _ =
                write!(out, "\n{}\n{}\n{}", section.heading(), section.note, section.table.text());
        }
        if !self.checks.is_empty() {
            out += "\nDirection\n";
        }
        for check in &self.checks {
            let verdict = if check.holds { "holds" } else { "FAILS" };
            let _ = writeln!(out, "{verdict}  {} ({})", check.what, check.found);
        }
        if !self.conditions.is_empty() {
            out += "\nConditions\n";
            out += &self.condition_table().text();
        }
        if !self.claims.is_empty() {
            out += "\nThe paper's numbers\n";
            out += &self.claim_table().text();
        }
        out
    }
}
