//! The loop the binary formats share.

use super::ending::Ending;
use super::input::Input;
use super::stage::{Done, Order, Raw, ReadSummary, Stage};
use super::{ReadOptions, TraceSource};
use crate::record::{BLOCK_RECORDS, Record, Source, SourceError};

/// What one binary record says.
pub(crate) enum Step {
    /// One request.
    One(Raw),
    /// The end of an earlier request.
    Done(Done),
    /// Something that is no issue and no completion.
    Other,
    /// The end of the file.
    End,
    /// Not what the format demands; may be skipped if the option allows it.
    Bad {
        /// Byte offset in the file.
        at: u64,
        /// What stands there.
        found: String,
        /// What should.
        expected: String,
    },
}

/// A binary format: one record at a time.
pub(crate) trait BinFormat: Send {
    /// Reads the next record. An error ends the trace.
    fn step(&mut self, input: &mut Input, stage: &mut Stage) -> Result<Step, SourceError>;
}

/// A reader of binary records as a [`Source`].
pub(crate) struct BinSource<F> {
    input: Input,
    format: F,
    stage: Stage,
    eof: bool,
    ending: Ending,
}

impl<F: BinFormat> BinSource<F> {
    /// Over `input`, whose times keep `order`.
    pub fn new(input: Input, format: F, order: Order, options: &ReadOptions) -> BinSource<F> {
        let stage = Stage::new(order, None, options);
        BinSource { input, format, stage, eof: false, ending: Ending::default() }
    }

    fn produce(&mut self, block: &mut Vec<Record>) -> Result<(), SourceError> {
        loop {
            if let Err(what) = self.stage.drain(block, self.eof) {
                return Err(self.input.unusable(format!("found a request that is not {what}")));
            }
            if block.len() >= BLOCK_RECORDS {
                return Ok(());
            }
            if self.eof {
                self.ending.reach();
                let nothing = self.stage.nothing_found();
                return nothing.map_or(Ok(()), |reason| Err(self.input.unusable(reason)));
            }
            let at = self.input.offset();
            let step = self.format.step(&mut self.input, &mut self.stage)?;
            self.stage.summary.lines += u64::from(!matches!(step, Step::End));
            match step {
                Step::One(raw) => {
                    if let Err(expected) = self.stage.push(raw, block) {
                        let found = format!("a request at {} of {} bytes", raw.offset, raw.len);
                        self.bad(at, found, expected.into_owned())?;
                    }
                }
                Step::Done(done) => self.stage.complete(done),
                Step::Other => self.stage.summary.other_events += 1,
                Step::End => self.eof = true,
                Step::Bad { at, found, expected } => self.bad(at, found, expected)?,
            }
        }
    }

    #[cold]
    fn bad(&mut self, at: u64, found: String, expected: String) -> Result<(), SourceError> {
        let error = SourceError::Syntax {
            path: self.input.path().to_path_buf(),
            line: self.stage.summary.lines,
            column: at,
            found,
            expected,
        };
        if self.stage.may_skip(&error) { Ok(()) } else { Err(error) }
    }
}

impl<F: BinFormat> Source for BinSource<F> {
    fn fill(&mut self, block: &mut Vec<Record>) -> Result<(), SourceError> {
        block.clear();
        if let Some(answer) = self.ending.answer() {
            return answer;
        }
        let result = self.produce(block);
        self.ending.after(result, block)
    }
}

impl<F: BinFormat> TraceSource for BinSource<F> {
    fn summary(&self) -> &ReadSummary {
        &self.stage.summary
    }
    fn apps(&self) -> &[String] {
        self.stage.apps.names()
    }
}
