//! Append-only isolation: data of log-structured stores is kept out of everybody else's list
//! (paper 3; `docs` of the options say how its gaps are filled).
//!
//! Three lists, each an LRU: SORB for what is or was written again, BAW for append-only writes,
//! BAR for reads of append-only data. Invariants:
//! * BAW and BAR hold at most `cap` entries each; SORB has no limit of its own;
//! * an entry in BAW was written by a large request and not written again since (nor, if asked, read);
//! * BAW goes to flash on a stream of its own, in whole flash pages as long as it holds one.

use block::{Bytes, Op};

use crate::buffer::lat::{Lat, Reading, WriteMiss};
use crate::buffer::spec::{PolicyOption, Setup};
use crate::buffer::{Access, Admission, Batches, Buffer, Frame, List, Policy, Pool, Stream};
use crate::config::KeyKind;

const SORB: u8 = 0;
const BAW: u8 = 1;
const BAR: u8 = 2;
const NAMES: [&str; 3] = ["sorb", "baw", "bar"];

const READINGS: &[&str] =
    &["literal", "per-request", "frontier", "mapped", "mapped-any", "evidence", "sweep"];

/// What it can be told.
pub(super) const OPTIONS: &[PolicyOption] = &[
    PolicyOption {
        name: "lat",
        kind: KeyKind::Choice(READINGS),
        default: "mapped",
        doc: "what counts as a re-access; `literal` is the printed algorithm, an LRU",
    },
    PolicyOption {
        name: "chunk",
        kind: KeyKind::Size,
        default: "1 MiB",
        doc: "data under one entry of the look-up table",
    },
    PolicyOption {
        name: "threshold",
        kind: KeyKind::Size,
        default: "16 KiB",
        doc: "a request of this size is large",
    },
    PolicyOption {
        name: "cap",
        kind: KeyKind::Count(0, 1 << 20),
        default: "0",
        doc: "entries of BAW, and of BAR; 0 = a flash page on every plane",
    },
    PolicyOption {
        name: "program_unit",
        kind: KeyKind::Count(0, 256),
        default: "0",
        doc: "entries of BAW programmed together; 0 = a flash page",
    },
    PolicyOption {
        name: "read_hit_to_bar",
        kind: KeyKind::Flag,
        default: "off",
        doc: "an entry of BAW that is read goes to BAR, dirty as it is, while that has room",
    },
    PolicyOption {
        name: "inner",
        kind: KeyKind::Policy,
        default: "lru",
        doc: "whose the rest is; any but lru, or a gate: append-only pages have one queue, of 5 % unless `cap` says",
    },
    PolicyOption {
        name: "gate",
        kind: KeyKind::Choice(&["off", "shadow"]),
        default: "off",
        doc: "isolate always, or while a sampled shadow cache that does hits more than one that does not",
    },
    PolicyOption {
        name: "period",
        kind: KeyKind::Count(1, 1 << 30),
        default: "2000",
        doc: "requests between two decisions of the gate",
    },
    PolicyOption {
        name: "weight",
        kind: KeyKind::Choice(&["request", "page"]),
        default: "request",
        doc: "what a hit counts at the gate: 1 / pages of its request, or 1",
    },
    PolicyOption {
        name: "charge",
        kind: KeyKind::Choice(&["all", "bits"]),
        default: "all",
        doc: "which tables are taken from the buffer: all, or the two bits per chunk",
    },
];

/// Append-only isolation.
#[derive(Clone, Debug)]
pub(super) struct Isolation {
    lists: [List; 3],
    lat: Lat,
    overhead: u64,
    large: u64,
    cap: usize,
    program_unit: usize,
    /// Times SORB gave way to a BAW of less than a flash page.
    deadline: usize,
    read_hit_to_bar: bool,
}

/// Builds the policy and its buffer.
pub(super) fn make(setup: &Setup<'_>) -> Result<Buffer, String> {
    let reading = match setup.word("lat") {
        "literal" => Reading::Literal,
        "per-request" => Reading::PerRequest,
        "frontier" => Reading::Frontier,
        "mapped" => Reading::Mapped,
        "mapped-any" => Reading::MappedAny,
        "evidence" => Reading::Evidence,
        _ => Reading::Sweep,
    };
    let chunk = setup.size("chunk");
    if !chunk.is_multiple_of(4096) || !(4096..=128 << 20).contains(&chunk) {
        return Err(format!("chunk={chunk} B: expected a multiple of 4 KiB from 4 KiB to 128 MiB"));
    }
    if setup.word("inner") != "lru" || setup.word("gate") != "off" {
        if setup.flag("read_hit_to_bar") {
            return Err(
                "read_hit_to_bar: with another inner policy or a gate there is no BAR".into()
            );
        }
        let lat = Lat::new(reading, (chunk / 4096) as u32, setup.shape.pages);
        let table = lat.bytes(setup.word("charge") == "bits");
        return super::gated::make(setup, lat, table);
    }
    if setup.word("weight") != "request" || setup.count("period") != 2000 {
        return Err("weight, period: there is no gate (gate=off)".into());
    }
    let or = |n: u64, other: u32| if n == 0 { other as usize } else { n as usize };
    let program_unit = or(setup.count("program_unit"), setup.shape.page_entries);
    let cap = or(setup.count("cap"), setup.shape.planes * program_unit as u32);
    let lat = Lat::new(reading, (chunk / 4096) as u32, setup.shape.pages);
    let overhead = lat.bytes(setup.word("charge") == "bits");
    let entries = (setup.shape.entries as u64 * 4096).saturating_sub(overhead) / 4096;
    if entries < 2 * cap as u64 + 1 {
        return Err(format!(
            "{entries} entries beside a look-up table of {overhead} B: BAW and BAR of {cap} each and one of SORB need {}",
            2 * cap + 1
        ));
    }
    setup.buffer(Isolation {
        lists: [List::default(); 3],
        lat,
        overhead,
        large: setup.size("threshold"),
        cap,
        program_unit,
        deadline: 0,
        read_hit_to_bar: setup.flag("read_hit_to_bar"),
    })
}

/// The pool as it will be once what was given up has left.
struct Room<'a> {
    pool: &'a mut Pool,
    out: &'a mut Batches,
}

impl Room<'_> {
    fn free(&self) -> usize {
        self.pool.free() + self.out.len()
    }
}

impl Isolation {
    fn evict(&mut self, room: &mut Room<'_>, list: u8, stream: Stream) {
        if let Some(coldest) = self.lists[list as usize].back() {
            room.pool.unlink(&mut self.lists[list as usize], coldest);
            room.out.evict(coldest, stream);
        }
    }

    fn evict_baw(&mut self, room: &mut Room<'_>, count: usize) {
        for _ in 0..count {
            self.evict(room, BAW, Stream::Append);
        }
    }

    fn flush_bar(&mut self, room: &mut Room<'_>) {
        while !self.lists[BAR as usize].is_empty() {
            self.evict(room, BAR, Stream::Other);
        }
    }

    fn len(&self, list: u8) -> usize {
        self.lists[list as usize].len()
    }

    /// Algorithms 3 to 5.
    fn make_room(&mut self, room: &mut Room<'_>, list: u8) {
        match list {
            BAW if room.free() < self.cap - self.len(BAW) => {
                while room.free() < 1 {
                    if self.len(BAR) > 0 {
                        self.flush_bar(room);
                    } else {
                        self.evict(room, SORB, Stream::Other);
                    }
                }
            }
            BAW => {
                while self.len(BAW) >= self.cap {
                    self.evict_baw(room, self.program_unit);
                }
                self.deadline = 0;
            }
            BAR if room.free() < self.cap - self.len(BAR) => {
                while room.free() < 1 {
                    self.baw_or_sorb(room);
                }
            }
            BAR => {
                while self.len(BAR) >= self.cap {
                    self.evict(room, BAR, Stream::Other);
                }
            }
            _ => {
                while room.free() < 1 {
                    if self.len(BAR) > 0 {
                        self.flush_bar(room);
                    } else {
                        self.baw_or_sorb(room);
                    }
                }
            }
        }
    }

    fn baw_or_sorb(&mut self, room: &mut Room<'_>) {
        if self.len(BAW) >= self.program_unit {
            self.deadline = 0;
            self.evict_baw(room, self.program_unit);
            return;
        }
        if self.len(BAW) > 0 {
            self.deadline += 1;
            if self.deadline >= room.pool.capacity() {
                self.deadline = 0;
                self.evict_baw(room, self.len(BAW));
            }
        }
        if room.free() < 1 {
            if self.len(SORB) > 0 {
                self.evict(room, SORB, Stream::Other);
            } else {
                self.evict_baw(room, self.len(BAW));
            }
        }
    }
}

impl Policy for Isolation {
    #[inline]
    fn hit(&mut self, pool: &mut Pool, frame: Frame, a: &Access<'_>) {
        self.lat.enter(a.req.id, a.page.0);
        let from = pool.class(frame);
        let to = if a.op == Op::Write {
            self.lat.write_hit(a.page.0);
            SORB
        } else if self.read_hit_to_bar && from == BAW && self.len(BAR) < self.cap {
            BAR
        } else {
            from
        };
        pool.unlink(&mut self.lists[from as usize], frame);
        pool.set_class(frame, to);
        pool.push_front(&mut self.lists[to as usize], frame);
    }
    #[inline]
    fn admit(&mut self, pool: &mut Pool, a: &Access<'_>, out: &mut Batches) -> Admission {
        self.lat.enter(a.req.id, a.page.0);
        let list = if a.op == Op::Write {
            let large = a.req.len.0 >= self.large;
            let miss = WriteMiss { page: a.page.0, large, mapped: a.mapped };
            if self.lat.write_miss(miss) { BAW } else { SORB }
        } else if self.lat.read_miss(a.page.0) {
            BAR
        } else {
            SORB
        };
        self.make_room(&mut Room { pool, out }, list);
        Admission::Admit(list)
    }
    #[inline]
    fn inserted(&mut self, pool: &mut Pool, frame: Frame, _: &Access<'_>) {
        let list = pool.class(frame);
        pool.push_front(&mut self.lists[list as usize], frame);
    }
    fn removed(&mut self, pool: &mut Pool, frame: Frame) {
        let list = pool.class(frame);
        pool.unlink(&mut self.lists[list as usize], frame);
    }
    fn cleaned(&mut self, _: &mut Pool, _: Frame) {}
    fn forget(&mut self, pages: std::ops::Range<u32>, written: &dyn Fn(u32) -> bool) {
        self.lat.forget(pages, written);
    }
    fn occupancy(&self, each: &mut dyn FnMut(&'static str, usize)) {
        for (name, list) in NAMES.iter().zip(&self.lists) {
            each(name, list.len());
        }
        let (large, append, rewritten) = self.lat.counts();
        each("chunks written large", large as usize);
        each("append-only chunks", append as usize);
        each("chunks written again", rewritten as usize);
    }
    fn overhead(&self) -> Bytes {
        Bytes(self.overhead)
    }
    fn check(&self, pool: &Pool) -> Result<(), String> {
        let mut all = 0;
        for (class, list) in (0u8..).zip(&self.lists) {
            let walked = pool.iter(list).filter(|f| pool.class(*f) == class).count();
            if walked != list.len() {
                return Err(format!(
                    "{}: {} counted, {walked} linked",
                    NAMES[class as usize],
                    list.len()
                ));
            }
            if class != SORB && walked > self.cap {
                return Err(format!("{} holds {walked} of {}", NAMES[class as usize], self.cap));
            }
            all += walked;
        }
        if all == pool.resident() {
            Ok(())
        } else {
            Err(format!("{all} linked, {} resident", pool.resident()))
        }
    }
}
