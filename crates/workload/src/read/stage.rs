//! What happens to every request between a format and the block handed out: the name of its app,
//! the filter, the order of times, the limits, and the counts of everything left out.

use std::borrow::Cow;

use block::{AppId, Bytes, Span, Time};

use super::window::{Spread, Window};
use crate::record::{BLOCK_RECORDS, Flags, Record, TraceOp};

/// Longest read or write taken for real; beyond it a column was misread.
pub(crate) const MAX_LEN: u64 = 64 << 30;
/// Longest name of a device, volume or file.
const MAX_NAME: usize = 256;
/// Texts of bad lines kept in the summary.
const KEPT_BAD: usize = 8;

/// Everything about the reading that is not a request. Nothing is left out without a count here.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ReadSummary {
    /// Requests handed out.
    pub records: u64,
    /// Per-CPU files merged into this trace (`blktrace`); 0 for other formats.
    pub files: u64,
    /// Lines (binary formats: records) read.
    pub lines: u64,
    /// Bad lines left out (`skip_bad`).
    pub skipped: u64,
    /// The first few bad lines, as the errors they would have been.
    pub skipped_examples: Vec<String>,
    /// Lines that are no request: headers, marks, opens and closes, blank lines.
    pub not_requests: u64,
    /// Events of a block trace other than issue and completion (queued, merged, plugged, ..).
    pub other_events: u64,
    /// Rows the format leaves without an operation or an offset.
    pub incomplete: u64,
    /// Lines after the end of the trace proper (statistics, padding).
    pub tail_lines: u64,
    /// Requests of other apps than the one asked for.
    pub filtered: u64,
    /// Requests whose time lay before an earlier line's and that were sorted into place.
    pub sorted: u64,
    /// Completions without an issue in the trace.
    pub orphan_completions: u64,
    /// Times the traced machine's clock was set while tracing; the gap is left out.
    pub clock_leaps: u64,
    /// Ids of more than 50 bits, of which the low 50 stand for the page.
    pub folded_ids: u64,
    /// Objects larger than the page of their id: they share pages with the ids that follow.
    pub wide_objects: u64,
}

/// One request as a format reads it, before order and limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw {
    /// Picoseconds in the trace's own clock.
    pub at: u128,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// How long it took.
    pub response: Option<Span>,
    /// Number of the app.
    pub app: u16,
    /// Operation.
    pub op: TraceOp,
    /// Flags.
    pub flags: Flags,
}

impl Raw {
    /// A request of app 0 without flags.
    #[inline]
    pub fn new(at: u128, op: TraceOp, offset: u64, len: u64) -> Raw {
        Raw { at, offset, len, response: None, app: 0, op, flags: Flags(0) }
    }
}

/// The end of a request, to be matched with its issue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    /// Picoseconds in the trace's own clock.
    pub at: u128,
    /// First byte of the request.
    pub offset: u64,
    /// Number of the app.
    pub app: u16,
    /// Operation.
    pub op: TraceOp,
}

/// Names of devices, volumes and files as small numbers, in order of appearance. Open addressing:
/// one probe for most lines, and none if the name is the last line's.
pub(crate) struct Apps {
    names: Vec<String>,
    keys: Vec<Box<[u8]>>,
    slots: Vec<u32>,
    last: usize,
    join: Option<(char, char)>,
}

impl Apps {
    /// No names; `join` replaces a character of a name that spans two columns.
    pub fn new(join: Option<(char, char)>) -> Apps {
        Apps { names: Vec::new(), keys: Vec::new(), slots: vec![u32::MAX; 64], last: 0, join }
    }
    /// All names so far, by number.
    pub fn names(&self) -> &[String] {
        &self.names
    }
    /// The number of a name; an error text if there are too many or it is too long.
    #[inline]
    pub fn id(&mut self, key: &[u8]) -> Result<u16, &'static str> {
        match self.keys.get(self.last) {
            Some(last) if **last == *key => Ok(self.last as u16),
            _ => self.look(key),
        }
    }
    fn look(&mut self, key: &[u8]) -> Result<u16, &'static str> {
        let mask = self.slots.len() - 1;
        let mut slot = hash(key) as usize & mask;
        while self.slots[slot] != u32::MAX {
            let id = self.slots[slot] as usize;
            if *self.keys[id] == *key {
                self.last = id;
                return Ok(id as u16);
            }
            slot = (slot + 1) & mask;
        }
        self.insert(key, slot)
    }
    #[cold]
    fn insert(&mut self, key: &[u8], slot: usize) -> Result<u16, &'static str> {
        if key.len() > MAX_NAME {
            return Err("a name of at most 256 bytes");
        }
        if self.keys.len() > usize::from(u16::MAX) {
            return Err("at most 65,536 different devices, volumes or files");
        }
        let id = self.keys.len();
        let text = String::from_utf8_lossy(key);
        self.names.push(match self.join {
            Some((from, to)) => text.replace(from, &to.to_string()),
            None => text.into_owned(),
        });
        self.keys.push(key.into());
        self.slots[slot] = id as u32;
        self.last = id;
        if self.keys.len() * 2 > self.slots.len() {
            let mask = self.slots.len() * 4 - 1;
            let mut slots = vec![u32::MAX; mask + 1];
            for (id, key) in self.keys.iter().enumerate() {
                let mut slot = hash(key) as usize & mask;
                while slots[slot] != u32::MAX {
                    slot = (slot + 1) & mask;
                }
                slots[slot] = id as u32;
            }
            self.slots = slots;
        }
        Ok(id as u16)
    }
}

fn hash(key: &[u8]) -> u64 {
    let mut h = key.len() as u64;
    for part in key.chunks(8) {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        h = (h ^ u64::from_le_bytes(word)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        h ^= h >> 29;
    }
    h
}

/// What a format promises about its times.
pub(crate) enum Order {
    /// They never fall; the last one is kept.
    Promised(u128),
    /// Sorted within a window; issue and completion are matched there too.
    Window(Window),
    /// Whole seconds: the requests of one are spread evenly over it.
    Spread(Spread),
    /// There are none.
    Untimed,
}

/// See the module.
pub(crate) struct Stage {
    /// Names of the apps.
    pub apps: Apps,
    /// The counts.
    pub summary: ReadSummary,
    order: Order,
    base: Option<u128>,
    filter: Option<String>,
    filter_id: Option<u16>,
    shift: i64,
    skip_bad: u64,
}

impl Stage {
    /// For one file.
    pub fn new(order: Order, join: Option<(char, char)>, options: &super::ReadOptions) -> Stage {
        let order = match (order, options.sort_window) {
            (Order::Promised(_), Some(span)) => {
                Order::Window(Window::new(u128::from(span.as_ps()), u128::from(span.as_ps())))
            }
            (order, _) => order,
        };
        Stage {
            apps: Apps::new(join),
            summary: ReadSummary::default(),
            order,
            base: None,
            filter: options.app.clone(),
            filter_id: None,
            shift: options.align_shift,
            skip_bad: options.skip_bad,
        }
    }

    /// Whether the app is asked for. The name is looked up once, when it first appears.
    #[inline]
    fn wanted(&mut self, app: u16) -> bool {
        let Some(name) = &self.filter else { return true };
        if self.filter_id.is_none() {
            let found = self.apps.names().get(usize::from(app)).is_some_and(|n| n == name);
            self.filter_id = found.then_some(app);
        }
        self.filter_id == Some(app)
    }

    /// Whether requests go straight into the block, so that there is nothing to drain.
    #[inline]
    pub fn is_direct(&self) -> bool {
        matches!(self.order, Order::Promised(_) | Order::Untimed)
    }

    /// Takes one request; it appears in `block` now or later.
    #[inline(always)]
    pub fn push(&mut self, mut raw: Raw, block: &mut Vec<Record>) -> Result<(), Cow<'static, str>> {
        if self.filter.is_some() && !self.wanted(raw.app) {
            self.summary.filtered += 1;
            return Ok(());
        }
        if raw.op == TraceOp::Flush {
            (raw.offset, raw.len) = (0, 0);
        } else {
            self.check(&mut raw)?;
        }
        match &mut self.order {
            Order::Promised(last) => {
                if raw.at < *last {
                    return Err(falls(*last - raw.at));
                }
                // Known to fit before the order moves on, so that a skipped line leaves no trace.
                let record = rebase(&mut self.base, &raw)?;
                *last = raw.at;
                block.push(record);
                self.summary.records += 1;
                Ok(())
            }
            Order::Window(window) => window.push(raw, &mut self.summary),
            Order::Spread(spread) => spread.push(raw, &mut self.summary),
            Order::Untimed => {
                block.push(rebase(&mut self.base, &Raw { at: 0, ..raw })?);
                self.summary.records += 1;
                Ok(())
            }
        }
    }

    /// Limits of a request that has a place.
    #[inline]
    fn check(&self, raw: &mut Raw) -> Result<(), Cow<'static, str>> {
        if raw.len == 0 {
            return Err(Cow::Borrowed("a length of at least one byte"));
        }
        if raw.len > MAX_LEN && matches!(raw.op, TraceOp::Read | TraceOp::Write) {
            return Err(Cow::Borrowed("a read or write of at most 64 GiB"));
        }
        raw.offset = raw.offset.checked_add_signed(self.shift).ok_or(RANGE)?;
        match raw.offset.checked_add(raw.len) {
            Some(end) if end <= i64::MAX as u64 => Ok(()),
            _ => Err(RANGE),
        }
    }

    /// Matches a completion with its issue, which was left out or moved as is said; only a window can.
    pub fn complete(&mut self, mut done: Done) {
        if self.filter.is_some() && !self.wanted(done.app) {
            return;
        }
        if done.op != TraceOp::Flush {
            // What cannot be moved so far was no request.
            done.offset = done.offset.checked_add_signed(self.shift).unwrap_or(u64::MAX);
        }
        if let Order::Window(window) = &mut self.order {
            window.complete(done, &mut self.summary);
        }
    }

    /// Moves requests whose order is settled into `block`, all of them at the end of the file.
    #[inline]
    pub fn drain(&mut self, block: &mut Vec<Record>, end: bool) -> Result<(), Cow<'static, str>> {
        if self.is_direct() {
            return Ok(());
        }
        while block.len() < BLOCK_RECORDS {
            let raw = match &mut self.order {
                Order::Window(window) => window.pop(end),
                Order::Spread(spread) => spread.pop(end),
                Order::Promised(_) | Order::Untimed => None,
            };
            let Some(raw) = raw else { break };
            block.push(rebase(&mut self.base, &raw)?);
            self.summary.records += 1;
        }
        Ok(())
    }

    /// Whether one more bad line may be left out; counts it if so.
    #[cold]
    pub fn may_skip(&mut self, error: &crate::SourceError) -> bool {
        if self.summary.skipped >= self.skip_bad {
            return false;
        }
        self.summary.skipped += 1;
        if self.summary.skipped_examples.len() < KEPT_BAD {
            self.summary.skipped_examples.push(error.to_string());
        }
        true
    }

    /// What is wrong with the file as a whole once it is read, if anything.
    pub fn nothing_found(&self) -> Option<String> {
        if self.summary.records > 0 {
            return None;
        }
        if let Some(name) = &self.filter {
            let names = self.apps.names();
            let some = names.iter().take(16).cloned().collect::<Vec<_>>().join(" ");
            return Some(format!(
                "no request of `{name}`; the {} found: {some}{}",
                names.len(),
                if names.len() > 16 { " .." } else { "" }
            ));
        }
        Some(format!(
            "no request found in {} lines ({} skipped); expected at least one",
            self.summary.lines, self.summary.skipped
        ))
    }
}

const RANGE: Cow<'static, str> = Cow::Borrowed("an offset and length inside 2^63 bytes");

#[cold]
fn falls(by: u128) -> Cow<'static, str> {
    let by = span_of(by).human();
    Cow::Owned(format!(
        "a time not before the line above's ({by} before; `--sort-window '{by}'` takes this line, if it is no damage)"
    ))
}

/// A length of a trace's own clock, for texts.
pub(super) fn span_of(ps: u128) -> Span {
    Span::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
}

/// The record, with its time counted from the first one.
#[inline]
fn rebase(base: &mut Option<u128>, raw: &Raw) -> Result<Record, Cow<'static, str>> {
    let first = *base.get_or_insert(raw.at);
    let at = raw.at.saturating_sub(first);
    if at > u128::from(Time::LIMIT.as_ps()) {
        return Err(Cow::Borrowed("a time within 106 days of the first request"));
    }
    Ok(Record {
        at: Time::from_ps(at as u64),
        offset: Bytes(raw.offset),
        len: Bytes(raw.len),
        response: raw.response,
        app: AppId(raw.app),
        op: raw.op,
        flags: raw.flags,
        hint: 0,
    })
}
