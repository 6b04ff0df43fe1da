//! Hit ratios only: the same steps without data, time and flash.

use block::{Bytes, Op, Time};

use super::HitAccess;
use super::front::Buffer;
use super::policy::{Access, Admission, Policy, ReqInfo};
use crate::backend::{Backend, Nothing};
use crate::ftl::Writer;

impl<P: Policy> Buffer<P> {
    /// Plays accesses in order.
    pub(super) fn touch_all(&mut self, nothing: &mut Nothing, accesses: &[HitAccess]) {
        let mut info = ReqInfo::default();
        let mut at = 0;
        while at < accesses.len() {
            let first = accesses[at];
            if first.op != Op::Discard {
                self.touch_one(nothing, &first, &mut info);
                at += 1;
                continue;
            }
            // Neighbours are discarded together.
            let run = accesses[at..].iter().zip(first.page.0..);
            let run = run.take_while(|(a, page)| a.op == Op::Discard && a.page.0 == *page).count();
            let pages = first.page.0..first.page.0 + run as u32;
            self.drop_pages(u64::from(pages.start)..u64::from(pages.end));
            let _ = nothing.discard(pages.start, run as u32);
            self.forget(nothing, pages);
            at += run;
        }
    }

    #[inline]
    fn touch_one(&mut self, nothing: &mut Nothing, a: &HitAccess, info: &mut ReqInfo) {
        if a.op == Op::Flush {
            while let Some(frame) = self.pool.first_dirty() {
                self.pool.set_clean(frame);
                self.policy.cleaned(&mut self.pool, frame);
                self.stats.flushed += 1;
            }
            return;
        }
        if a.request != info.id {
            *info = ReqInfo { id: a.request, len: Bytes(u64::from(a.len)), app: a.app, ..*info };
        }
        let mut access = Access {
            page: a.page,
            op: a.op,
            req: info,
            index: 0,
            mapped: false,
            next_use: a.next_use,
        };
        let write = a.op == Op::Write;
        let hit = match self.pool.find(a.page) {
            Some(frame) => {
                self.hit(frame, &access);
                if P::SHEDS {
                    self.evicted.clear();
                }
                if write {
                    self.pool.set_dirty(frame);
                }
                true
            }
            None => {
                access.mapped = nothing.mapped(a.page.0);
                if let Admission::Admit(class) =
                    self.policy.admit(&mut self.pool, &access, &mut self.out)
                {
                    self.take_evictions();
                    if !self.pads.is_empty() {
                        let _ = self.fill_pads(nothing, Time::ZERO);
                    }
                    self.evicted.clear();
                    let frame = self.pool.insert(a.page, a.app.0, class);
                    self.policy.inserted(&mut self.pool, frame, &access);
                    if write {
                        self.pool.set_dirty(frame);
                    }
                }
                false
            }
        };
        if write {
            let _ = nothing.write(Time::ZERO, a.page.0, 1, &[], Writer::default());
        }
        let app = self.app(a.app);
        if write {
            app.write_units += 1;
            app.write_hits += u64::from(hit);
        } else {
            app.read_units += 1;
            app.read_hits += u64::from(hit);
        }
    }
}
