//! First in, first out.

use crate::buffer::{Access, Admission, Batches, Frame, List, Policy, Pool, Stream};

/// One queue; hits change nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Fifo {
    queue: List,
}

impl Policy for Fifo {
    #[inline]
    fn hit(&mut self, _: &mut Pool, _: Frame, _: &Access<'_>) {}
    #[inline]
    fn admit(&mut self, pool: &mut Pool, _: &Access<'_>, out: &mut Batches) -> Admission {
        if pool.free() == 0
            && let Some(oldest) = self.queue.back()
        {
            pool.unlink(&mut self.queue, oldest);
            out.evict(oldest, Stream::Other);
        }
        Admission::Admit(0)
    }
    #[inline]
    fn inserted(&mut self, pool: &mut Pool, frame: Frame, _: &Access<'_>) {
        pool.push_front(&mut self.queue, frame);
    }
    fn removed(&mut self, pool: &mut Pool, frame: Frame) {
        pool.unlink(&mut self.queue, frame);
    }
    fn cleaned(&mut self, _: &mut Pool, _: Frame) {}
    fn check(&self, pool: &Pool) -> Result<(), String> {
        let (walked, counted) = (pool.iter(&self.queue).count(), self.queue.len());
        if walked == counted && counted == pool.resident() {
            Ok(())
        } else {
            Err(format!("{counted} counted, {walked} linked, {} resident", pool.resident()))
        }
    }
}
