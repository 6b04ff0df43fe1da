//! The replacement policy: what it and its caller owe each other.

use block::{AppId, Bytes, Lpn, Op, StreamId};

use super::pool::{Frame, Pool};
use super::spec::{Buffer, PolicyOption, Setup};

/// The host request an access belongs to.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReqInfo {
    /// Number of the request, from 1.
    pub id: u64,
    /// First byte.
    pub offset: Bytes,
    /// Length of the whole host request.
    pub len: Bytes,
    /// Application.
    pub app: AppId,
    /// The stream that the writer named.
    pub hint: StreamId,
}

/// One 4 KiB page of a request.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// The page.
    pub page: Lpn,
    /// Read or write.
    pub op: Op,
    /// Its request.
    pub req: &'a ReqInfo,
    /// Number of the page within the request, from 0.
    pub index: u32,
    /// Written and not discarded before this request; asked on misses only.
    pub mapped: bool,
    /// Number of the access that uses the page next; `u64::MAX` if none does, or nobody knows.
    /// For clairvoyant policies only.
    pub next_use: u64,
}

/// Where a batch goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    /// Everything that is not append-only.
    Other,
    /// Append-only data.
    Append,
    /// A region of the policy's own.
    Region(u8),
}

impl Stream {
    /// The FTL's stream number.
    pub(crate) fn number(self) -> u8 {
        match self {
            Stream::Other => 0,
            Stream::Append => 1,
            Stream::Region(n) => n,
        }
    }
}

/// What a policy says to a miss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// The page enters the buffer, with this class (0..16).
    Admit(u8),
    /// It does not: a read goes to flash, a write goes through.
    Bypass,
}

/// Entries a policy gives up, in batches that are programmed together.
#[derive(Clone, Debug, Default)]
pub struct Batches {
    pub(crate) frames: Vec<(Frame, Stream)>,
    /// Pages around the entries given up that are written with them, for completeness.
    pub(crate) pad: Vec<std::ops::Range<u32>>,
}

impl Batches {
    /// Gives up one entry. Dirty entries given up one after another on one stream share flash
    /// pages.
    #[inline]
    pub fn evict(&mut self, frame: Frame, stream: Stream) {
        self.frames.push((frame, stream));
    }

    /// The entries given up since there were `from` go in the order of their pages: they are one
    /// block, which flash takes best as a whole from its first page on.
    pub(crate) fn sort_by_page(&mut self, pool: &Pool, from: usize) {
        self.frames[from..].sort_unstable_by_key(|(frame, _)| pool.page(*frame));
    }

    /// Entries given up so far.
    pub fn len(&self) -> usize {
        self.frames.len()
    }
    /// None yet.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The entries given up are part of these pages: what is missing is read from flash, and all
    /// of them are written.
    pub fn pad(&mut self, pages: std::ops::Range<u32>) {
        self.pad.push(pages);
    }
}

/// A replacement policy: order and classes of the pool's entries, nothing else.
///
/// | the caller owes | the policy owes |
/// |---|---|
/// | `hit` for every resident page, else `admit`, then (if admitted) `inserted`, never anything between | after `Admit` at least one entry is free once the batches are performed; the same inputs give the same outputs |
/// | every batch is performed: dirty entries programmed, clean ones dropped | no I/O, no time, no floats, no allocation after construction; an entry is in one batch at most |
/// | discards and write-back of every resident entry are reported | lists and counts stay right under `removed` and `cleaned` in any order |
pub trait Policy: std::fmt::Debug + Clone + Send + 'static {
    /// Whether a hit can push other entries out: `shed` follows every `hit`.
    const SHEDS: bool = false;

    /// Stands around a block of accesses. A policy of another language takes here, once for all of them,
    /// what each of its calls needs.
    fn around<R>(work: impl FnOnce() -> R) -> R {
        work()
    }

    /// A resident page is accessed (before the caller sets it dirty).
    fn hit(&mut self, pool: &mut Pool, frame: Frame, access: &Access<'_>);
    /// Directly after `hit`, where the policy sheds: the entries pushed out by it, which never
    /// are the one that was hit.
    fn shed(&mut self, pool: &mut Pool, out: &mut Batches) {
        let _ = (pool, out);
    }
    /// A page is missing: make room for it in `out`, or refuse it. Entries given up must already
    /// be out of the policy's lists.
    fn admit(&mut self, pool: &mut Pool, access: &Access<'_>, out: &mut Batches) -> Admission;
    /// The page admitted last is resident in `frame`, in no list yet.
    fn inserted(&mut self, pool: &mut Pool, frame: Frame, access: &Access<'_>);
    /// The entry leaves by a discard: take it out of all lists.
    fn removed(&mut self, pool: &mut Pool, frame: Frame);
    /// The entry was programmed by a flush and stays, clean.
    fn cleaned(&mut self, pool: &mut Pool, frame: Frame);
    /// Where an entry goes that is programmed while it stays (a flush, a write through): where it
    /// would if it were given up now.
    fn stream(&self, pool: &Pool, frame: Frame) -> Stream {
        let _ = (pool, frame);
        Stream::Other
    }
    /// Pages were discarded; their entries have left. What the policy remembers of them beside
    /// the entries goes as well. `written` says of any page whether it still holds data.
    fn forget(&mut self, pages: std::ops::Range<u32>, written: &dyn Fn(u32) -> bool) {
        let _ = (pages, written);
    }
    /// Entries per class, by name, for reports.
    fn occupancy(&self, each: &mut dyn FnMut(&'static str, usize)) {
        let _ = each;
    }
    /// DRAM the policy's own tables take, to be subtracted from the buffer.
    fn overhead(&self) -> Bytes {
        Bytes(0)
    }
    /// Checks the policy's lists against the pool; the error says what is wrong.
    ///
    /// # Errors
    /// What does not hold.
    fn check(&self, pool: &Pool) -> Result<(), String>;
}

/// One entry of the registry.
#[derive(Clone, Copy, Debug)]
pub struct PolicyInfo {
    /// Name on the command line.
    pub name: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// What it does.
    pub doc: &'static str,
    /// Where its definition comes from.
    pub source: &'static str,
    /// What it can be told, in parentheses after its name.
    pub options: &'static [PolicyOption],
    /// It must know every page's next use: runs of hit ratios alone.
    pub clairvoyant: bool,
    /// Makes it, for a buffer and with options: [`Setup::buffer`] with the policy.
    pub make: fn(&Setup<'_>) -> Result<Buffer, String>,
}
