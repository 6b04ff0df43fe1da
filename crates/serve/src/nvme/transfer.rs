//! Data to the controller that does not come with its command.
//!
//! Invariants: one transfer at a time is under way on a connection, and its buffer is all that it costs;
//! the commands behind it wait as they are. A part that was not asked for ends the connection; one whose
//! digest differs fails its command alone.

use std::collections::VecDeque;

use super::codec::Sqe;
use super::pdu::{Common, DATA_HEAD, Digests, Fatal, Part, Reason, flag, u32_at};

/// Commands whose data is still to come.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    /// The first of them is under way.
    waiting: VecDeque<(Sqe, u32)>,
    buffer: Vec<u8>,
    tag: u16,
    /// A digest differed.
    spoiled: bool,
}

impl Transfers {
    /// Whether a command of this number waits.
    pub fn has(&self, cid: u16) -> bool {
        self.waiting.iter().any(|(sqe, _)| sqe.cid() == cid)
    }

    /// Commands that wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// A command waits for this many bytes. What is to be asked for now, if anything.
    pub fn push(&mut self, sqe: Sqe, bytes: u32) -> Option<Part> {
        self.waiting.push_back((sqe, bytes));
        if self.waiting.len() == 1 { self.next() } else { None }
    }

    /// What is asked for next.
    fn next(&mut self) -> Option<Part> {
        let (sqe, bytes) = self.waiting.front()?;
        self.tag = self.tag.wrapping_add(1);
        self.spoiled = false;
        self.buffer.clear();
        self.buffer.reserve_exact(*bytes as usize);
        Some(Part { cid: sqe.cid(), tag: self.tag, at: 0, bytes: *bytes })
    }

    /// A part has come. `Some`: its command has all of its data.
    ///
    /// # Errors
    /// It is not what was asked for.
    pub fn take(
        &mut self,
        pdu: &[u8],
        digests: Digests,
        data_bytes: usize,
    ) -> Result<Option<(Sqe, bool)>, Reason> {
        let part = Part::decode(pdu);
        let Some((sqe, wanted)) = self.waiting.front() else { return Err((Fatal::Sequence, 0)) };
        if part.cid != sqe.cid() {
            return Err((Fatal::Header, 8));
        }
        if part.tag != self.tag {
            return Err((Fatal::Header, 10));
        }
        let got = self.buffer.len() as u32;
        // In order and without holes: nothing else can be said of what is there already.
        if part.at != got {
            return Err((Fatal::Range, 12));
        }
        if part.bytes as usize != data_bytes || part.bytes == 0 || part.bytes > wanted - got {
            return Err((Fatal::Range, 16));
        }
        let whole = got + part.bytes == *wanted;
        let common = Common::decode(pdu.first_chunk().ok_or((Fatal::Header, 0))?);
        if (common.flags & flag::LAST != 0) != whole {
            return Err((Fatal::Header, 1));
        }
        let start = DATA_HEAD + digests.header_bytes();
        let data = &pdu[start..start + data_bytes];
        if digests.data && u32_at(pdu, start + data_bytes) != block::crc32c(0, data) {
            self.spoiled = true;
        }
        self.buffer.extend_from_slice(data);
        Ok(whole.then_some((*sqe, self.spoiled)))
    }

    /// The data of the first command, which is done with. Give it back to [`Transfers::done`].
    pub fn data(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// The first command was done; what is asked for next.
    pub fn done(&mut self, buffer: Vec<u8>) -> Option<Part> {
        self.buffer = buffer;
        self.waiting.pop_front();
        self.next()
    }
}
