//! No buffer.

use crate::buffer::{Access, Admission, Batches, Frame, Policy, Pool};

/// Admits nothing.
#[derive(Clone, Debug)]
pub(super) struct NoBuffer;

impl Policy for NoBuffer {
    fn hit(&mut self, _: &mut Pool, _: Frame, _: &Access<'_>) {}
    fn admit(&mut self, _: &mut Pool, _: &Access<'_>, _: &mut Batches) -> Admission {
        Admission::Bypass
    }
    fn inserted(&mut self, _: &mut Pool, _: Frame, _: &Access<'_>) {}
    fn removed(&mut self, _: &mut Pool, _: Frame) {}
    fn cleaned(&mut self, _: &mut Pool, _: Frame) {}
    fn check(&self, pool: &Pool) -> Result<(), String> {
        if pool.resident() == 0 { Ok(()) } else { Err("an entry is resident".to_string()) }
    }
}
