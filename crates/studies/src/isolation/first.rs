//! A stream cut off after so many accesses.

use workload::{Record, Source, SourceError, TraceOp};

/// The first so many 4 KiB accesses of a stream.
pub struct First {
    source: Box<dyn Source>,
    left: u64,
}

impl First {
    /// `units` of `source`.
    pub fn new(source: Box<dyn Source>, units: u64) -> First {
        First { source, left: units }
    }
}

impl Source for First {
    fn fill(&mut self, block: &mut Vec<Record>) -> Result<(), SourceError> {
        self.source.fill(block)?;
        for at in 0..block.len() {
            if self.left == 0 {
                block.truncate(at);
                break;
            }
            if matches!(block[at].op, TraceOp::Read | TraceOp::Write) {
                self.left = self.left.saturating_sub(block[at].len.0.div_ceil(4096));
            }
        }
        Ok(())
    }
}
