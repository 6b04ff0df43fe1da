//! Least recently used.

use crate::buffer::{Access, Admission, Batches, Frame, List, Policy, Pool, Stream};

/// One list; hits move to its front.
#[derive(Clone, Debug, Default)]
pub(super) struct Lru {
    list: List,
}

impl Policy for Lru {
    #[inline]
    fn hit(&mut self, pool: &mut Pool, frame: Frame, _: &Access<'_>) {
        pool.to_front(&mut self.list, frame);
    }
    #[inline]
    fn admit(&mut self, pool: &mut Pool, _: &Access<'_>, out: &mut Batches) -> Admission {
        if pool.free() == 0
            && let Some(coldest) = self.list.back()
        {
            pool.unlink(&mut self.list, coldest);
            out.evict(coldest, Stream::Other);
        }
        Admission::Admit(0)
    }
    #[inline]
    fn inserted(&mut self, pool: &mut Pool, frame: Frame, _: &Access<'_>) {
        pool.push_front(&mut self.list, frame);
    }
    fn removed(&mut self, pool: &mut Pool, frame: Frame) {
        pool.unlink(&mut self.list, frame);
    }
    fn cleaned(&mut self, _: &mut Pool, _: Frame) {}
    fn check(&self, pool: &Pool) -> Result<(), String> {
        let (walked, counted) = (pool.iter(&self.list).count(), self.list.len());
        if walked == counted && counted == pool.resident() {
            Ok(())
        } else {
            Err(format!("{counted} counted, {walked} linked, {} resident", pool.resident()))
        }
    }
}
