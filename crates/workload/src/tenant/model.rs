//! The brute-force model of merging: whole lists in memory and one sort. It shares no code with
//! the streaming merge.

use block::{AppId, Bytes, Time};

use crate::{Flags, Record, Source, SourceError, TraceOp};

/// A record in plain numbers: `(ps, op, offset, len)`.
pub type Row = (u64, TraceOp, u64, u64);

/// One tenant in plain numbers.
#[derive(Clone, Debug)]
pub struct App {
    pub files: Vec<Vec<Row>>,
    pub rounds: u64,
    pub discard: bool,
    pub stretch: (u64, u64),
    pub window: (u64, Option<u64>),
}

/// A source over rows, in blocks of a size that never divides the list.
pub struct Rows {
    rows: Vec<Row>,
    next: usize,
}

impl Rows {
    pub fn new(rows: Vec<Row>) -> Rows {
        Rows { rows, next: 0 }
    }
}

pub fn record(row: Row) -> Record {
    Record {
        at: Time::from_ps(row.0),
        offset: Bytes(row.2),
        len: Bytes(row.3),
        response: None,
        app: AppId(7),
        op: row.1,
        flags: Flags::default(),
        hint: 0,
    }
}

impl Source for Rows {
    fn fill(&mut self, block: &mut Vec<Record>) -> Result<(), SourceError> {
        block.clear();
        let rows = self.rows[self.next..].iter().take(7);
        block.extend(rows.map(|row| record(*row)));
        self.next += block.len();
        Ok(())
    }
}

const TICK: u64 = 100_000;

/// Highest page, in bytes.
pub fn extent(app: &App) -> u64 {
    let mut end = 0;
    for (_, op, offset, len) in chain(app) {
        let pages = match op {
            TraceOp::Flush => 0,
            TraceOp::Discard => {
                let (a, b) = (offset.div_ceil(4096), (offset + len) / 4096);
                if b > a { b } else { 0 }
            }
            _ => (offset + len).div_ceil(4096),
        };
        end = end.max(pages * 4096);
    }
    end
}

/// One round: files after each other, then the window.
fn chain(app: &App) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for file in &app.files {
        let base = rows.last().map_or(0, |row| row.0 + TICK);
        rows.extend(file.iter().map(|r| (r.0 + base, r.1, r.2, r.3)));
    }
    let (from, to) = app.window;
    rows.retain(|r| r.0 >= from && to.is_none_or(|to| r.0 < to));
    rows.iter().map(|r| (r.0 - from, r.1, r.2, r.3)).collect()
}

/// All rounds on the tenant's own clock.
pub fn timeline(app: &App) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for round in 0..app.rounds {
        let base = rows.last().map_or(0, |row| row.0 + TICK);
        if round > 0 && app.discard {
            rows.push((base, TraceOp::Discard, 0, extent(app)));
        }
        rows.extend(chain(app).iter().map(|r| (r.0 + base, r.1, r.2, r.3)));
    }
    let (n, d) = app.stretch;
    rows.iter().map(|r| (r.0 * n / d, r.1, r.2, r.3)).collect()
}

/// By clock, with areas of whole MiB: `(app, row)`. `end` is `None` for the shortest, a tenant's
/// number for that tenant, any other number for the longest.
pub fn merge(apps: &[App], end: Option<usize>) -> Vec<(usize, Row)> {
    let mut all = Vec::new();
    let (mut base, mut lasts) = (0, Vec::new());
    for (number, app) in apps.iter().enumerate() {
        let area = extent(app).div_ceil(1 << 20) << 20;
        let rows = timeline(app);
        lasts.push(rows.last().unwrap().0);
        for (index, mut row) in rows.into_iter().enumerate() {
            if row.1 != TraceOp::Flush {
                row.3 = row.3.min(area.saturating_sub(row.2));
                row.2 += base;
            }
            all.push((row.0, number, index, row));
        }
        base += area;
    }
    let limit = match end {
        None => *lasts.iter().min().unwrap(),
        Some(app) => lasts.get(app).copied().unwrap_or(u64::MAX),
    };
    all.sort_by_key(|a| (a.0, a.1, a.2));
    all.into_iter().filter(|a| a.0 <= limit).map(|a| (a.1, a.3)).collect()
}

/// By ratio, ending with the shorter: `(app, op, offset, len)` in order.
pub fn by_ratio(apps: &[App; 2], leader: usize, shares: (u64, u64)) -> Vec<(usize, Row)> {
    let lists = [timeline(&apps[0]), timeline(&apps[1])];
    let (mut positions, mut out) = ([0, 0], Vec::new());
    let units = |r: &Row| match r.1 {
        TraceOp::Flush | TraceOp::Discard => 0,
        _ => (r.2 + r.3).div_ceil(4096) - r.2 / 4096,
    };
    // Whole units on both sides of the scales: what the follower has moved, what it should have.
    let (mut moved, mut due, mut now) = (0, 0, 0);
    loop {
        if positions[1 - leader] == lists[1 - leader].len() {
            return out;
        }
        let app = if moved < due { 1 - leader } else { leader };
        let Some(row) = lists[app].get(positions[app]) else { return out };
        positions[app] += 1;
        if app == leader {
            due += units(row) * shares.1;
            now = row.0;
        } else {
            moved += units(row) * shares.0;
        }
        out.push((app, (now, row.1, row.2, row.3)));
    }
}
