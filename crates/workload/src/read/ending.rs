//! How a reader ends: records read before an error are handed out first, and after it there is nothing.

use crate::record::{Record, SourceError};

/// Whether a reader is at its end, and the error it still owes.
#[derive(Default)]
pub(super) struct Ending {
    reached: bool,
    owed: Option<SourceError>,
}

impl Ending {
    /// There is nothing more to read.
    pub fn reach(&mut self) {
        self.reached = true;
    }

    /// The answer if nothing is to be read.
    pub fn answer(&mut self) -> Option<Result<(), SourceError>> {
        match self.owed.take() {
            Some(error) => Some(Err(error)),
            None => self.reached.then_some(Ok(())),
        }
    }

    /// The answer after `block` was read with this result.
    pub fn after(
        &mut self,
        result: Result<(), SourceError>,
        block: &[Record],
    ) -> Result<(), SourceError> {
        let Err(error) = result else { return Ok(()) };
        self.reached = true;
        if block.is_empty() {
            return Err(error);
        }
        self.owed = Some(error);
        Ok(())
    }
}
