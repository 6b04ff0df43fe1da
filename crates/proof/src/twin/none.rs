use std::collections::BTreeSet;

use super::{Tally, Twin, Use};

/// Keeps nothing.
pub struct None;

impl Twin for None {
    fn access(&mut self, _: Use, _: &mut Tally, _: &BTreeSet<u32>) {}
    fn discard(&mut self, _: u32, _: &BTreeSet<u32>) {}
    fn flush(&mut self) {}
}
