//! A policy inside another: what `inner=` of a policy names, as an object.

use block::Bytes;
use std::ops::Range;

use super::policy::{Access, Admission, Batches, Policy, Stream};
use super::pool::{Frame, Pool};

/// A [`Policy`] whose type is not known; its contract is that of [`Policy`].
pub(crate) trait Inner: std::fmt::Debug + Send {
    fn hit(&mut self, pool: &mut Pool, frame: Frame, access: &Access<'_>);
    fn shed(&mut self, pool: &mut Pool, out: &mut Batches);
    fn admit(&mut self, pool: &mut Pool, access: &Access<'_>, out: &mut Batches) -> Admission;
    fn inserted(&mut self, pool: &mut Pool, frame: Frame, access: &Access<'_>);
    fn removed(&mut self, pool: &mut Pool, frame: Frame);
    fn cleaned(&mut self, pool: &mut Pool, frame: Frame);
    fn stream(&self, pool: &Pool, frame: Frame) -> Stream;
    fn forget(&mut self, pages: Range<u32>, written: &dyn Fn(u32) -> bool);
    fn occupancy(&self, each: &mut dyn FnMut(&'static str, usize));
    fn overhead(&self) -> Bytes;
    fn boxed(&self) -> Box<dyn Inner>;
}

impl<P: Policy> Inner for P {
    fn hit(&mut self, pool: &mut Pool, frame: Frame, access: &Access<'_>) {
        Policy::hit(self, pool, frame, access);
    }
    fn shed(&mut self, pool: &mut Pool, out: &mut Batches) {
        if P::SHEDS {
            Policy::shed(self, pool, out);
        }
    }
    fn admit(&mut self, pool: &mut Pool, access: &Access<'_>, out: &mut Batches) -> Admission {
        Policy::admit(self, pool, access, out)
    }
    fn inserted(&mut self, pool: &mut Pool, frame: Frame, access: &Access<'_>) {
        Policy::inserted(self, pool, frame, access);
    }
    fn removed(&mut self, pool: &mut Pool, frame: Frame) {
        Policy::removed(self, pool, frame);
    }
    fn cleaned(&mut self, pool: &mut Pool, frame: Frame) {
        Policy::cleaned(self, pool, frame);
    }
    fn stream(&self, pool: &Pool, frame: Frame) -> Stream {
        Policy::stream(self, pool, frame)
    }
    fn forget(&mut self, pages: Range<u32>, written: &dyn Fn(u32) -> bool) {
        Policy::forget(self, pages, written);
    }
    fn occupancy(&self, each: &mut dyn FnMut(&'static str, usize)) {
        Policy::occupancy(self, each);
    }
    fn overhead(&self) -> Bytes {
        Policy::overhead(self)
    }
    fn boxed(&self) -> Box<dyn Inner> {
        Box::new(self.clone())
    }
}
