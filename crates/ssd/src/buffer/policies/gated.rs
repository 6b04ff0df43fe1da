//! Append-only isolation before another policy: what the table of chunks says is append-only goes to
//! a queue of its own, while the gate is open; everything else is the inner policy's.
//!
//! Invariants: the queue holds at most `cap` entries, and nothing while the gate is closed; the table
//! learns in either state.

use block::{Bytes, Op};

use super::apart::Apart;
use super::gate::{self, Gate, Rules};
use crate::buffer::inner::Inner;
use crate::buffer::lat::{Lat, WriteMiss};
use crate::buffer::spec::Setup;
use crate::buffer::{Access, Admission, Batches, Buffer, BufferShape, Frame, Policy, Pool, Stream};

/// See above.
#[derive(Clone, Debug)]
pub(super) struct Gated {
    cache: Apart,
    lat: Lat,
    large: u64,
    overhead: u64,
    /// None: it is always open.
    gate: Option<Gate>,
}

/// Builds it: `lat` classifies, `table` bytes are what it takes.
pub(super) fn make(setup: &Setup<'_>, lat: Lat, table: u64) -> Result<Buffer, String> {
    let has_gate = setup.word("gate") == "shadow";
    let shadow = setup.shape.entries / gate::SAMPLE;
    if has_gate && shadow < 2 {
        return Err(format!(
            "{} entries: its shadows hold one of {}, and two at least",
            setup.shape.entries,
            gate::SAMPLE
        ));
    }
    let shadows = if has_gate { (2 * shadow * gate::ENTRY_BYTES) as u64 } else { 0 };
    let overhead = table + shadows;
    let entries = ((setup.shape.entries as u64 * 4096).saturating_sub(overhead) / 4096) as usize;
    let cap = |entries: usize| match setup.count("cap") as usize {
        0 => (entries / 20).max(1),
        cap => cap,
    };
    if entries <= cap(entries) {
        return Err(format!("{entries} entries: a queue of {} leaves none", cap(entries)));
    }
    let unit = match setup.count("program_unit") as usize {
        0 => setup.shape.page_entries as usize,
        unit => unit,
    };
    let cache = |entries: usize, cap: usize| -> Result<Apart, String> {
        let shape = BufferShape { entries, ..setup.shape };
        Ok(Apart::new(inner(setup, shape)?, cap, unit.clamp(1, cap)))
    };
    let gate = match has_gate {
        false => None,
        true => {
            // A queue of the same share.
            let part = (cap(entries) * shadow / entries).max(1);
            let caches = [cache(shadow, part)?, cache(shadow, part)?];
            let by_page = setup.word("weight") == "page";
            let rules = Rules { period: setup.count("period"), by_page };
            Some(Gate::new(caches, shadow, setup.shape.pages, rules))
        }
    };
    let cache = cache(entries, cap(entries))?;
    let overhead = overhead + cache.inner.overhead().0;
    setup.buffer(Gated { cache, lat, large: setup.size("threshold"), overhead, gate })
}

fn inner(setup: &Setup<'_>, shape: BufferShape) -> Result<Box<dyn Inner>, String> {
    setup.inner("inner", shape)
}

impl Gated {
    fn is_open(&self) -> bool {
        self.gate.as_ref().is_none_or(Gate::is_open)
    }

    fn enter(&mut self, a: &Access<'_>) {
        self.lat.enter(a.req.id, a.page.0);
        if let Some(gate) = &mut self.gate {
            gate.enter(a.req.id);
        }
    }

    fn shadow(&mut self, a: &Access<'_>, append: bool) {
        if let Some(gate) = &mut self.gate {
            gate.access(a, append);
        }
    }
}

impl Policy for Gated {
    const SHEDS: bool = true;

    fn hit(&mut self, pool: &mut Pool, frame: Frame, a: &Access<'_>) {
        self.enter(a);
        if a.op == Op::Write {
            self.lat.write_hit(a.page.0);
        }
        let append = self.lat.read_miss(a.page.0);
        self.cache.hit(pool, frame, a);
        self.shadow(a, append);
    }
    fn shed(&mut self, pool: &mut Pool, out: &mut Batches) {
        self.cache.shed(pool, out);
    }
    fn admit(&mut self, pool: &mut Pool, a: &Access<'_>, out: &mut Batches) -> Admission {
        self.enter(a);
        let append = if a.op == Op::Write {
            let large = a.req.len.0 >= self.large;
            self.lat.write_miss(WriteMiss { page: a.page.0, large, mapped: a.mapped })
        } else {
            self.lat.read_miss(a.page.0)
        };
        let open = self.is_open();
        if !open && self.cache.len() > 0 {
            self.cache.drain(pool, a, out);
        }
        self.shadow(a, append);
        self.cache.admit(pool, a, append && open, out)
    }
    fn inserted(&mut self, pool: &mut Pool, frame: Frame, a: &Access<'_>) {
        self.cache.inserted(pool, frame, a);
    }
    fn removed(&mut self, pool: &mut Pool, frame: Frame) {
        self.cache.removed(pool, frame);
    }
    fn cleaned(&mut self, pool: &mut Pool, frame: Frame) {
        self.cache.cleaned(pool, frame);
        if let Some(gate) = &mut self.gate {
            gate.cleaned(pool.page(frame));
        }
    }
    fn stream(&self, pool: &Pool, frame: Frame) -> Stream {
        self.cache.stream(pool, frame)
    }
    fn forget(&mut self, pages: std::ops::Range<u32>, written: &dyn Fn(u32) -> bool) {
        self.lat.forget(pages.clone(), written);
        self.cache.inner.forget(pages.clone(), written);
        if let Some(gate) = &mut self.gate {
            gate.forget(pages, written);
        }
    }
    fn occupancy(&self, each: &mut dyn FnMut(&'static str, usize)) {
        self.cache.inner.occupancy(each);
        each("kept apart", self.cache.len());
        each("gate switches", self.gate.as_ref().map_or(0, Gate::switches));
    }
    fn overhead(&self) -> Bytes {
        Bytes(self.overhead)
    }
    fn check(&self, pool: &Pool) -> Result<(), String> {
        self.cache.check(pool)?;
        self.gate.as_ref().map_or(Ok(()), Gate::check)
    }
}
