//! What an experiment found, as sections of tables: for a terminal, a browser, and a program.

use std::fmt::Write;

use crate::json::{Json, Map, MapExt};

/// A table: a heading and rows of texts, the first column a name.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Names of the columns.
    pub heading: Vec<String>,
    /// Rows as long as the heading.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub fn new<S: Into<String>>(heading: impl IntoIterator<Item = S>) -> Table {
        Table { heading: heading.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }
    /// Whether a column holds numbers and sizes only.
    fn is_number(&self, column: usize) -> bool {
        let number = |cell: &String| cell.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        column > 0 && self.rows.iter().all(|row| number(&row[column]))
    }
    /// Adds a row.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}

/// A part of a study.
#[derive(Clone, Debug)]
pub struct Section {
    /// What it is about, with the paper's figure.
    pub title: String,
    /// What it shows and on what; where it differs from the paper, and why.
    pub note: String,
    /// Its numbers.
    pub table: Table,
}

/// A statement about the numbers, and whether it holds here.
#[derive(Clone, Debug)]
pub struct Check {
    /// The statement.
    pub what: String,
    /// The numbers it was judged by.
    pub found: String,
    /// Whether it holds.
    pub holds: bool,
}

/// What an experiment found.
#[derive(Clone, Debug)]
pub struct Study {
    /// Its title.
    pub title: String,
    /// The command that repeats it.
    pub command: String,
    /// What was run, at what scale, from which sources.
    pub note: String,
    /// Seed of its generators.
    pub seed: u64,
    /// Statements that were checked.
    pub checks: Vec<Check>,
    /// Its parts.
    pub sections: Vec<Section>,
}

impl Study {
    /// The study for a terminal.
    pub fn text(&self) -> String {
        let mut out = format!("{}\n{}\n", self.title, self.note);
        for section in &self.sections {
            let _ = write!(out, "\n{}\n{}\n", section.title, section.note);
            let heads = std::iter::once(&section.table.heading);
            let lines: Vec<&Vec<String>> = heads.chain(&section.table.rows).collect();
            let columns = section.table.heading.len();
            let width = |c: usize| lines.iter().map(|l| l[c].chars().count()).max().unwrap_or(0);
            let widths: Vec<usize> = (0..columns).map(width).collect();
            let numbers: Vec<bool> = (0..columns).map(|c| section.table.is_number(c)).collect();
            for line in lines {
                let mut text = String::new();
                for (at, (cell, width)) in line.iter().zip(&widths).enumerate() {
                    let _ = match numbers[at] {
                        true => write!(text, "{cell:>width$}  "),
                        false => write!(text, "{cell:<width$}  "),
                    };
                }
                let _ = writeln!(out, "{}", text.trim_end());
            }
        }
        if !self.checks.is_empty() {
            out += "\nDirection\n";
        }
        for check in &self.checks {
            let verdict = if check.holds { "holds" } else { "FAILS" };
            let _ = writeln!(out, "{verdict}  {} ({})", check.what, check.found);
        }
        out
    }

    /// The study as a document.
    pub fn json(&self, version: &str) -> Json {
        let texts = |texts: &[String]| Json::List(texts.iter().map(Json::text).collect());
        let sections = self.sections.iter().map(|section| {
            let mut one = Map::new();
            one.put("title", Json::text(&section.title));
            one.put("note", Json::text(&section.note));
            one.put("heading", texts(&section.table.heading));
            one.put("rows", Json::List(section.table.rows.iter().map(|r| texts(r)).collect()));
            Json::Map(one)
        });
        let checks = self.checks.iter().map(|check| {
            let mut one = Map::new();
            one.put("what", Json::text(&check.what));
            one.put("found", Json::text(&check.found));
            one.put("holds", Json::Bool(check.holds));
            Json::Map(one)
        });
        let mut map = Map::new();
        map.put("schema", Json::text("varve.study/1"));
        map.put("version", Json::text(version));
        let mut config = Map::new();
        config.put("title", Json::text(&self.title));
        config.put("command", Json::text(&self.command));
        config.put("note", Json::text(&self.note));
        map.put("config", Json::Map(config));
        map.int("seed", self.seed);
        let mut results = Map::new();
        results.put("checks", Json::List(checks.collect()));
        results.put("sections", Json::List(sections.collect()));
        map.put("results", Json::Map(results));
        Json::Map(map)
    }

    /// The study as one HTML file that asks for nothing over a network.
    pub fn html(&self, version: &str) -> String {
        let mut body = format!("<p>{}</p>", escape(&self.note));
        if !self.checks.is_empty() {
            body += "<h2>Direction</h2><div class=\"scroll\"><table><tr><th>Statement</th>\
                     <th>Here</th><th>Found</th></tr>";
            for check in &self.checks {
                let verdict = if check.holds { "holds" } else { "fails" };
                let (what, found) = (escape(&check.what), escape(&check.found));
                let _ = write!(body, "<tr><td>{what}</td><td>{verdict}</td><td>{found}</td></tr>");
            }
            body += "</table></div>";
        }
        for section in &self.sections {
            let (title, note) = (escape(&section.title), escape(&section.note));
            let _ = write!(body, "<h2>{title}</h2><p>{note}</p><div class=\"scroll\"><table><tr>");
            for head in &section.table.heading {
                let _ = write!(body, "<th>{}</th>", escape(head));
            }
            body += "</tr>";
            for row in &section.table.rows {
                body += "<tr>";
                for cell in row {
                    let _ = write!(body, "<td>{}</td>", escape(cell));
                }
                body += "</tr>";
            }
            body += "</table></div>";
        }
        crate::report::page(&self.title, version, &self.command, &body)
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
