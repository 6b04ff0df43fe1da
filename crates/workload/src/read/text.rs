//! The loop every text format shares.

use super::ending::Ending;
use super::field::Bad;
use super::input::Input;
use super::stage::{Apps, Done, Order, Raw, ReadSummary, Stage};
use super::{ReadOptions, TraceSource};
use crate::record::{BLOCK_RECORDS, Record, Source, SourceError, TraceOp};

/// Characters of a bad text shown in an error.
const SHOWN: usize = 60;

/// What one line says.
pub(crate) enum Item {
    /// One request.
    One(Raw),
    /// Reads of `count` blocks of `unit` bytes from block `first` on.
    Run {
        /// First block.
        first: u64,
        /// Number of blocks.
        count: u64,
        /// Bytes of a block.
        unit: u64,
    },
    /// The end of an earlier request.
    Done(Done),
    /// Nothing to replay: a header, a mark, an open or close.
    NotRequest,
    /// A block-layer event that is neither issue nor completion.
    OtherEvent,
    /// A row without an operation or an offset, which its format allows.
    Incomplete,
    /// The trace proper is over; what follows is counted only.
    Tail,
}

/// A text format: a line becomes an [`Item`].
pub(crate) trait LineFormat: Send {
    /// Reads one line, which is not empty.
    fn parse(&mut self, line: &[u8], stage: &mut Stage) -> Result<Item, Bad>;
}

/// A parser of lines as a [`Source`].
pub(crate) struct TextSource<F> {
    input: Input,
    format: F,
    stage: Stage,
    run: Option<(u64, u64, u64)>,
    in_tail: bool,
    eof: bool,
    ending: Ending,
}

impl<F: LineFormat> TextSource<F> {
    /// Over `input`, whose times keep `order`.
    pub fn new(
        input: Input,
        format: F,
        order: Order,
        join: Option<(char, char)>,
        options: &ReadOptions,
    ) -> TextSource<F> {
        TextSource {
            input,
            format,
            stage: Stage::new(order, join, options),
            run: None,
            in_tail: false,
            eof: false,
            ending: Ending::default(),
        }
    }

    fn produce(&mut self, block: &mut Vec<Record>) -> Result<(), SourceError> {
        loop {
            if let Err(what) = self.stage.drain(block, self.eof) {
                return Err(self.input.unusable(format!("found a request that is not {what}")));
            }
            if block.len() >= BLOCK_RECORDS {
                return Ok(());
            }
            if self.run.is_some() {
                self.expand(block)?;
                continue;
            }
            if self.eof {
                self.ending.reach();
                let nothing = self.stage.nothing_found();
                return nothing.map_or(Ok(()), |reason| Err(self.input.unusable(reason)));
            }
            // Lines that yield a request at once, the common case, stay in this inner loop.
            while block.len() < BLOCK_RECORDS {
                let Some(range) = self.input.line()? else {
                    self.eof = true;
                    break;
                };
                self.stage.summary.lines += 1;
                let line = self.input.bytes(range.clone());
                let item = if self.in_tail {
                    Ok(Item::Tail)
                } else if line.is_empty() {
                    Ok(Item::NotRequest)
                } else {
                    self.format.parse(line, &mut self.stage)
                };
                match item {
                    Ok(Item::One(raw)) => match self.stage.push(raw, block) {
                        Ok(()) if self.stage.is_direct() => continue,
                        Ok(()) => {}
                        Err(expected) => {
                            let bad = Bad::line(self.input.bytes(range.clone()), expected);
                            self.bad(bad, range)?;
                        }
                    },
                    Ok(item) => self.other(item),
                    Err(bad) => self.bad(bad, range)?,
                }
                break;
            }
        }
    }

    fn other(&mut self, item: Item) {
        let summary = &mut self.stage.summary;
        match item {
            Item::NotRequest => summary.not_requests += 1,
            Item::OtherEvent => summary.other_events += 1,
            Item::Incomplete => summary.incomplete += 1,
            Item::Done(done) => self.stage.complete(done),
            Item::Run { first, count, unit } => self.run = Some((first, count, unit)),
            Item::Tail => {
                self.in_tail = true;
                summary.tail_lines += 1;
            }
            Item::One(_) => {}
        }
    }

    /// Hands out as much of a run of blocks as fits.
    fn expand(&mut self, block: &mut Vec<Record>) -> Result<(), SourceError> {
        let Some((mut first, mut count, unit)) = self.run.take() else { return Ok(()) };
        while count > 0 && block.len() < BLOCK_RECORDS {
            let raw = Raw::new(0, TraceOp::Read, first * unit, unit);
            if let Err(what) = self.stage.push(raw, block) {
                let error = self.syntax(Bad::line(b"", what), 0..0);
                return if self.stage.may_skip(&error) { Ok(()) } else { Err(error) };
            }
            first += 1;
            count -= 1;
        }
        self.run = (count > 0).then_some((first, count, unit));
        Ok(())
    }

    /// A bad line: tolerated and counted, or the error it is.
    #[cold]
    fn bad(&mut self, bad: Bad, range: std::ops::Range<usize>) -> Result<(), SourceError> {
        let error = self.syntax(bad, range);
        if self.stage.may_skip(&error) { Ok(()) } else { Err(error) }
    }

    fn syntax(&self, bad: Bad, range: std::ops::Range<usize>) -> SourceError {
        let line = self.input.bytes(range);
        let from = bad.at.min(line.len());
        let found = &line[from..(from + bad.len).min(line.len())];
        SourceError::Syntax {
            path: self.input.path().to_path_buf(),
            line: self.stage.summary.lines,
            column: from as u64 + 1,
            found: shown(found),
            expected: bad.expected.into_owned(),
        }
    }
}

/// Bytes as a short, printable text.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(SHOWN)];
    let mut text: String = String::from_utf8_lossy(cut)
        .chars()
        .map(|c| if c.is_control() { '\u{FFFD}' } else { c })
        .collect();
    if bytes.len() > SHOWN {
        text.push_str("..");
    }
    text
}

impl<F: LineFormat> Source for TextSource<F> {
    fn fill(&mut self, block: &mut Vec<Record>) -> Result<(), SourceError> {
        block.clear();
        if let Some(answer) = self.ending.answer() {
            return answer;
        }
        let result = self.produce(block);
        self.ending.after(result, block)
    }
}

impl<F: LineFormat> TraceSource for TextSource<F> {
    fn summary(&self) -> &ReadSummary {
        &self.stage.summary
    }
    fn apps(&self) -> &[String] {
        self.stage.apps.names()
    }
}

/// Looks up a name; the error stands at `field`.
#[inline]
pub(crate) fn app_of(apps: &mut Apps, field: super::field::Field<'_>) -> Result<u16, Bad> {
    apps.id(field.bytes).map_err(|expected| field.bad(expected))
}
