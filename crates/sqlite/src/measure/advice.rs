//! Advice, each line from two runs, with what it does to durability.
//!
//! Where the workload ran on a device, what reached that decides: the first line is the way that writes least of
//! those that give nothing up, neither what COMMIT promises nor other connections; and a store only where it saves
//! clearly more than SQLite's own settings.

use super::{OnDevice, Report, Row};

/// What a mode saves against the database as it is; what saves nothing is left out.
pub fn lines(report: &Report) -> Vec<String> {
    match &report.device {
        Some((_, rows)) => on_device(rows),
        None => in_memory(report),
    }
}

/// Per cent that a store must save beyond SQLite's own settings to be worth the move.
const WORTH: i64 = 10;

fn on_device(rows: &[OnDevice]) -> Vec<String> {
    let Some((base, others)) = rows.split_first() else { return Vec::new() };
    if base.written.bytes == 0 {
        return vec!["The workload writes nothing that reaches a device.".to_string()];
    }
    let saved = |row: &OnDevice| {
        let (was, is) = (base.written.bytes as i64, row.written.bytes as i64);
        100 * (was - is) / was
    };
    let best = |store: bool| {
        let mut keep: Vec<&OnDevice> = others.iter().filter(|row| !row.way.gives_up).collect();
        keep.retain(|row| row.way.is_store() == store && saved(row) > 0);
        keep.into_iter().max_by_key(|row| saved(row))
    };
    let line = |row: &OnDevice| {
        format!("{}: {} % fewer bytes; {}.", row.way.name, saved(row), row.way.durability)
    };
    let first = match (best(false), best(true)) {
        (Some(stock), Some(store)) if saved(store) < saved(stock) + WORTH => Some(stock),
        (stock, store) => store.or(stock),
    };
    let mut lines = vec![match first {
        Some(row) if row.way.is_store() => line(row),
        Some(row) => format!("{} It is a setting: nothing has to be moved.", line(row)),
        None => "Stay with what there is: nothing writes fewer bytes without giving something up."
            .to_string(),
    }];
    let named = first.map(|row| row.way.name);
    let mut rest: Vec<&OnDevice> =
        others.iter().filter(|row| saved(row) > 0 && Some(row.way.name) != named).collect();
    rest.sort_by_key(|row| std::cmp::Reverse(saved(row)));
    lines.extend(rest.into_iter().map(line));
    lines
}

fn in_memory(report: &Report) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use super::super::Written;
    use super::super::device::WAYS;
    use super::*;

    fn rows(bytes: [u64; 9]) -> Vec<OnDevice> {
        let written = |bytes| Written { bytes, ..Written::default() };
        WAYS.iter()
            .zip(bytes)
            .map(|(way, bytes)| OnDevice { way: *way, written: written(bytes) })
            .collect()
    }

    #[test]
    fn the_first_line_is_the_least_that_keeps_commit_and_a_store_has_to_be_worth_the_move() {
        let first = |bytes| on_device(&rows(bytes)).remove(0);
        let saved = first([1000, 900, 700, 690, 300, 200, 250, 240, 100]);
        assert!(saved.starts_with("store: 75 % fewer bytes; durable"), "{saved}");
        let hardly = first([1000, 900, 700, 710, 300, 200, 650, 640, 100]);
        assert!(hardly.starts_with("WAL, FULL: 30 % fewer"), "{hardly}");
        assert!(hardly.contains("nothing has to be moved"), "{hardly}");
        let stay = first([1000, 4000, 1000, 1001, 900, 800, 1200, 1100, 300]);
        assert!(stay.starts_with("Stay with what there is"), "{stay}");
        let nothing = first([0; 9]);
        assert!(nothing.contains("writes nothing"), "{nothing}");
    }
}
