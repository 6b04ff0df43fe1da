//! A policy with a queue beside it for what is kept apart.
//!
//! Invariants: an entry is in the queue or the inner policy's, told by its class; the queue holds at
//! most `cap` entries, and the inner policy never sees one of them. What was hit in the queue goes on
//! to the inner policy when its turn comes; the rest leaves on a stream of its own. An inner policy
//! whose lists have lengths of their own may be short of none of them while the buffer is full: then
//! the queue gives way.

use block::Op;

use crate::buffer::inner::Inner;
use crate::buffer::{Access, Admission, Batches, Frame, List, Pool, Stream};

/// Classes of the queue's entries, above those that a policy may give.
const APART: u8 = 0x80;
const HIT: u8 = 0x81;

/// See above.
#[derive(Debug)]
pub(super) struct Apart {
    pub inner: Box<dyn Inner>,
    queue: List,
    cap: usize,
    /// Entries that leave the queue together when it is full.
    unit: usize,
    /// The class that the inner policy gave a page to whom it gave an entry, and which goes to the
    /// queue.
    borrowed: Option<u8>,
    /// The last hit was the inner policy's: it may shed.
    sheds: bool,
}

impl Clone for Apart {
    fn clone(&self) -> Apart {
        Apart { inner: self.inner.boxed(), ..*self }
    }
}

impl Apart {
    pub fn new(inner: Box<dyn Inner>, cap: usize, unit: usize) -> Apart {
        Apart { inner, queue: List::default(), cap, unit, borrowed: None, sheds: false }
    }

    /// Entries of the queue.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    pub fn hit(&mut self, pool: &mut Pool, frame: Frame, a: &Access<'_>) {
        self.sheds = pool.class(frame) < APART;
        if self.sheds {
            self.inner.hit(pool, frame, a);
        } else {
            pool.set_class(frame, HIT);
        }
    }

    pub fn shed(&mut self, pool: &mut Pool, out: &mut Batches) {
        if std::mem::take(&mut self.sheds) {
            self.inner.shed(pool, out);
        }
    }

    /// The oldest of the queue leaves, or goes on to the inner policy.
    fn oldest(&mut self, pool: &mut Pool, a: &Access<'_>, out: &mut Batches) {
        let Some(frame) = self.queue.back() else { return };
        pool.unlink(&mut self.queue, frame);
        if pool.class(frame) == HIT {
            // The entry's own state, not what the access that pushes it does.
            let op = if pool.is_dirty(frame) { Op::Write } else { Op::Read };
            let access = Access { page: pool.page(frame), op, ..*a };
            if let Admission::Admit(class) = self.inner.admit(pool, &access, out) {
                pool.set_class(frame, class);
                self.inner.inserted(pool, frame, &access);
                return;
            }
        }
        out.evict(frame, Stream::Append);
    }

    /// Nothing is kept apart any more.
    pub fn drain(&mut self, pool: &mut Pool, a: &Access<'_>, out: &mut Batches) {
        while !self.queue.is_empty() {
            self.oldest(pool, a, out);
        }
    }

    pub fn admit(
        &mut self,
        pool: &mut Pool,
        a: &Access<'_>,
        apart: bool,
        out: &mut Batches,
    ) -> Admission {
        let said = self.admit_any(pool, a, apart, out);
        if matches!(said, Admission::Admit(_)) && pool.free() + out.len() == 0 {
            self.give_way(pool, out);
        }
        said
    }

    /// The oldest of the queue leaves, whatever it was: the inner policy gave nothing up.
    fn give_way(&mut self, pool: &mut Pool, out: &mut Batches) {
        let Some(frame) = self.queue.back() else { return };
        pool.unlink(&mut self.queue, frame);
        out.evict(frame, Stream::Append);
    }

    fn admit_any(
        &mut self,
        pool: &mut Pool,
        a: &Access<'_>,
        apart: bool,
        out: &mut Batches,
    ) -> Admission {
        if !apart {
            return self.inner.admit(pool, a, out);
        }
        while self.queue.len() >= self.cap {
            for _ in 0..self.unit.min(self.queue.len()) {
                self.oldest(pool, a, out);
            }
        }
        if pool.free() + out.len() > 0 {
            // What it remembers of pages that are not buffered.
            self.inner.forget(a.page.0..a.page.0 + 1, &|_| true);
            return Admission::Admit(APART);
        }
        // The inner policy gives an entry, as if the page were to be its own.
        match self.inner.admit(pool, a, out) {
            Admission::Admit(class) => {
                self.borrowed = Some(class);
                Admission::Admit(APART)
            }
            Admission::Bypass => Admission::Bypass,
        }
    }

    pub fn inserted(&mut self, pool: &mut Pool, frame: Frame, a: &Access<'_>) {
        if pool.class(frame) < APART {
            return self.inner.inserted(pool, frame, a);
        }
        if let Some(class) = self.borrowed.take() {
            pool.set_class(frame, class);
            self.inner.inserted(pool, frame, a);
            self.inner.removed(pool, frame);
            pool.set_class(frame, APART);
        }
        pool.push_front(&mut self.queue, frame);
    }

    pub fn removed(&mut self, pool: &mut Pool, frame: Frame) {
        if pool.class(frame) < APART {
            self.inner.removed(pool, frame);
        } else {
            pool.unlink(&mut self.queue, frame);
        }
    }

    pub fn cleaned(&mut self, pool: &mut Pool, frame: Frame) {
        if pool.class(frame) < APART {
            self.inner.cleaned(pool, frame);
        }
    }

    pub fn stream(&self, pool: &Pool, frame: Frame) -> Stream {
        if pool.class(frame) < APART { self.inner.stream(pool, frame) } else { Stream::Append }
    }

    /// The queue against the pool; how many entries it has.
    pub fn check(&self, pool: &Pool) -> Result<usize, String> {
        let walked = pool.iter(&self.queue).filter(|f| pool.class(*f) >= APART).count();
        if walked != self.queue.len() || walked > self.cap {
            return Err(format!(
                "kept apart: {} counted, {walked} linked, {} at most",
                self.queue.len(),
                self.cap
            ));
        }
        Ok(walked)
    }
}
