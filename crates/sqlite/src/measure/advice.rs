//! Advice, each line from two runs, with what it does to durability.

use super::{Report, Row};

/// What a mode saves against the database as it is, worst first; what saves nothing is left out.
pub fn lines(report: &Report) -> Vec<String> {
    let Some((base, others)) = report.rows.split_first() else { return Vec::new() };
    if base.pages == 0 {
        return vec!["The workload writes nothing that reaches a device.".to_string()];
    }
    let saved = |row: &Row| (100 * base.pages.saturating_sub(row.pages)) / base.pages;
    let stock = others.iter().filter(|row| !row.mode.name.starts_with("store"));
    let store = others.iter().filter(|row| row.mode.name.starts_with("store"));
    let best_stock = stock.map(saved).max().unwrap_or(0);
    let best = store.map(saved).max().unwrap_or(0);
    let mut lines = Vec::new();
    if best_stock > 0 && best_stock * 4 >= best * 3 {
        lines.push(format!(
            "SQLite's own settings already give most of the gain: {best_stock} % fewer pages, the \
             store {best} %."
        ));
    }
    let mut rows: Vec<&Row> = others.iter().filter(|row| saved(row) > 0).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(saved(row)));
    for row in rows {
        lines.push(format!(
            "{}: {} % fewer pages; {}.",
            row.mode.name,
            saved(row),
            row.mode.durability
        ));
    }
    if lines.is_empty() {
        lines.push("No mode writes fewer pages than the database as it is.".to_string());
    }
    lines
}
