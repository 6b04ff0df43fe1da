use std::collections::{BTreeMap, BTreeSet};

use ssd::{BufferShape, PolicySpec};

use super::{Tally, Twin, Use};

type Queue = Vec<(u32, bool)>;

/// Append-only isolation over three vectors, least recently used first, and sets of chunks.
pub struct Aoi {
    lat: String,
    chunk: u32,
    threshold: u32,
    cap: usize,
    unit: usize,
    n: usize,
    sorb: Queue,
    baw: Queue,
    bar: Queue,
    lrb: BTreeSet<u32>,
    wrb: BTreeSet<u32>,
    front: BTreeMap<u32, u32>,
    before: (u64, u32, bool, bool),
    /// Bytes of the table of chunks.
    pub table: usize,
    deadline: usize,
    read_hit_to_bar: bool,
}

impl Aoi {
    pub fn new(spec: &PolicySpec, shape: BufferShape) -> Aoi {
        let bytes = |name| block::parse_size(spec.option(name)).expect("a size").0;
        let count = |name| spec.option(name).parse::<usize>().expect("a number");
        let chunk = (bytes("chunk") / 4096) as u32;
        let unit = match count("program_unit") {
            0 => shape.page_entries as usize,
            n => n,
        };
        let cap = match count("cap") {
            0 => shape.planes as usize * unit,
            n => n,
        };
        let lat = spec.option("lat").to_string();
        let chunks = shape.pages.div_ceil(chunk) as usize;
        let per_chunk = match lat.as_str() {
            "frontier" | "sweep" if spec.option("charge") == "all" => 1 + usize::from(chunk > 256),
            _ => 0,
        };
        let table = (chunks * 2).div_ceil(8) + per_chunk * chunks;
        Aoi {
            lat,
            chunk,
            threshold: bytes("threshold") as u32,
            cap,
            unit,
            n: (shape.entries * 4096 - table) / 4096,
            sorb: Queue::new(),
            baw: Queue::new(),
            bar: Queue::new(),
            lrb: BTreeSet::new(),
            wrb: BTreeSet::new(),
            front: BTreeMap::new(),
            before: (0, u32::MAX, false, false),
            table,
            deadline: 0,
            read_hit_to_bar: spec.option("read_hit_to_bar") == "on",
        }
    }

    fn free(&self) -> usize {
        self.n - self.sorb.len() - self.baw.len() - self.bar.len()
    }

    /// A request comes to a page; its chunk, and the place in it.
    pub fn enter(&mut self, a: Use) -> (u32, u32) {
        let (chunk, offset) = (a.page / self.chunk, a.page % self.chunk);
        if (self.before.0, self.before.1) != (a.request, chunk) {
            let bits = (self.lrb.contains(&chunk), self.wrb.contains(&chunk));
            self.before = (a.request, chunk, bits.0, bits.1);
        }
        (chunk, offset)
    }

    /// A page of the buffer is written.
    pub fn rewritten(&mut self, chunk: u32) {
        self.wrb.insert(chunk);
    }

    /// Whether a page is append-only by the table.
    pub fn appends(&self, chunk: u32) -> bool {
        match self.lat.as_str() {
            "per-request" => self.before.2 && !self.before.3,
            _ => self.lrb.contains(&chunk) && !self.wrb.contains(&chunk),
        }
    }

    /// A page is discarded: a chunk of which nothing is left is forgotten.
    pub fn forget(&mut self, page: u32, written: &BTreeSet<u32>) {
        let chunk = page / self.chunk;
        if written.range(chunk * self.chunk..(chunk + 1) * self.chunk).next().is_none() {
            self.lrb.remove(&chunk);
            self.wrb.remove(&chunk);
            self.front.remove(&chunk);
        }
    }

    /// Whether the write of a page that is not buffered is append-only, and what it teaches.
    pub fn learn(&mut self, a: Use, chunk: u32, offset: u32) -> bool {
        let large = a.len >= self.threshold;
        let front = self.front.get(&chunk).copied().unwrap_or(0);
        let (mut l, mut w) = (self.lrb.contains(&chunk), self.wrb.contains(&chunk));
        if self.lat == "per-request" {
            (l, w) = (self.before.2, self.before.3);
        }
        let goes_on = large && (offset == 0 || offset == front);
        let again = match self.lat.as_str() {
            "literal" | "per-request" => l,
            "frontier" => l && offset < front,
            "mapped" => l && a.mapped,
            "mapped-any" => a.mapped,
            "evidence" => l && a.mapped && !large,
            _ => l && a.mapped && !goes_on,
        };
        if self.lat == "sweep" && large {
            if offset == 0 {
                self.wrb.remove(&chunk);
                w = false;
            }
            self.front.insert(chunk, offset + 1);
        }
        if large && !w && !again {
            self.lrb.insert(chunk);
            if self.lat == "frontier" {
                self.front.insert(chunk, front.max(offset + 1));
            }
            return true;
        }
        if large {
            self.lrb.insert(chunk);
        }
        if large || again {
            self.wrb.insert(chunk);
        }
        false
    }

    fn oldest(queue: &mut Queue, tally: &mut Tally) {
        tally.gone(queue.remove(0).1);
    }

    fn append_out(&mut self, count: usize, tally: &mut Tally) {
        for _ in 0..count.min(self.baw.len()) {
            Aoi::oldest(&mut self.baw, tally);
        }
    }

    fn bar_out(&mut self, tally: &mut Tally) {
        while !self.bar.is_empty() {
            Aoi::oldest(&mut self.bar, tally);
        }
    }

    fn baw_or_sorb(&mut self, tally: &mut Tally) {
        if self.baw.len() >= self.unit {
            self.deadline = 0;
            self.append_out(self.unit, tally);
            return;
        }
        if !self.baw.is_empty() {
            self.deadline += 1;
            if self.deadline >= self.n {
                self.deadline = 0;
                self.append_out(usize::MAX, tally);
            }
        }
        if self.free() == 0 {
            if self.sorb.is_empty() {
                self.append_out(usize::MAX, tally);
            } else {
                Aoi::oldest(&mut self.sorb, tally);
            }
        }
    }

    fn room_for_append(&mut self, tally: &mut Tally) {
        if self.free() < self.cap - self.baw.len() {
            while self.free() == 0 {
                if self.bar.is_empty() {
                    Aoi::oldest(&mut self.sorb, tally);
                } else {
                    self.bar_out(tally);
                }
            }
        } else {
            while self.baw.len() >= self.cap {
                self.append_out(self.unit, tally);
            }
            self.deadline = 0;
        }
    }

    fn room_for_append_reads(&mut self, tally: &mut Tally) {
        if self.free() < self.cap - self.bar.len() {
            while self.free() == 0 {
                self.baw_or_sorb(tally);
            }
        } else {
            while self.bar.len() >= self.cap {
                Aoi::oldest(&mut self.bar, tally);
            }
        }
    }

    fn room_for_others(&mut self, tally: &mut Tally) {
        while self.free() == 0 {
            if self.bar.is_empty() {
                self.baw_or_sorb(tally);
            } else {
                self.bar_out(tally);
            }
        }
    }

    fn hit(&mut self, a: Use, chunk: u32) -> bool {
        let has = |queue: &Queue| queue.iter().any(|e| e.0 == a.page);
        if self.read_hit_to_bar && !a.write && has(&self.baw) && self.bar.len() < self.cap {
            let at = self.baw.iter().position(|e| e.0 == a.page).expect("found above");
            let entry = self.baw.remove(at);
            self.bar.push(entry);
            return true;
        }
        let queue = if has(&self.sorb) {
            &mut self.sorb
        } else if has(&self.baw) {
            &mut self.baw
        } else if has(&self.bar) {
            &mut self.bar
        } else {
            return false;
        };
        let at = queue.iter().position(|e| e.0 == a.page).expect("found above");
        let (page, dirty) = queue.remove(at);
        if a.write {
            self.wrb.insert(chunk);
            self.sorb.push((page, true));
        } else {
            queue.push((page, dirty));
        }
        true
    }
}

impl Twin for Aoi {
    fn access(&mut self, a: Use, tally: &mut Tally, _: &BTreeSet<u32>) {
        let (chunk, offset) = self.enter(a);
        if self.hit(a, chunk) {
            tally.hits += 1;
            return;
        }
        if a.write {
            if self.learn(a, chunk, offset) {
                self.room_for_append(tally);
                self.baw.push((a.page, true));
            } else {
                self.room_for_others(tally);
                self.sorb.push((a.page, true));
            }
            return;
        }
        if self.appends(chunk) {
            self.room_for_append_reads(tally);
            self.bar.push((a.page, false));
        } else {
            self.room_for_others(tally);
            self.sorb.push((a.page, false));
        }
    }
    fn discard(&mut self, page: u32, written: &BTreeSet<u32>) {
        for queue in [&mut self.sorb, &mut self.baw, &mut self.bar] {
            queue.retain(|e| e.0 != page);
        }
        self.forget(page, written);
    }
    fn flush(&mut self) {
        for queue in [&mut self.sorb, &mut self.baw, &mut self.bar] {
            queue.iter_mut().for_each(|e| e.1 = false);
        }
    }
}
