//! Blocks that have their place and are not on their way yet. What lies together goes out as one
//! write.

use block::{BlockDevice, DeviceError, Lpn, StreamId, Time};

use super::below::{Below, Payload};
use crate::engine::{HeadKind, Sink};
use crate::geometry::{BLOCK, Geometry, Pba};
use crate::record::Form;

/// Blocks of one write below at most.
const MOST: u32 = 256;
/// In the reverse map of a log without payload: this place holds a header.
pub(super) const HEADER: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Piece {
    pba: u32,
    blocks: u32,
    form: Form,
    /// First block of it among the bytes, or among the stamps.
    at: u32,
    /// By the head that wrote it: what lies on one is likely to die together. The first piece of a write
    /// speaks for all.
    stream: StreamId,
}

/// The blocks gathered.
#[derive(Debug, Default)]
pub(super) struct Gather {
    pieces: Vec<Piece>,
    bytes: Vec<u8>,
    stamps: Vec<u64>,
    scratch: Vec<u8>,
    blocks: u32,
}

impl Gather {
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// The bytes of a place, if they are here.
    pub fn bytes_at(&self, pba: Pba) -> Option<&[u8]> {
        let piece = self.find(pba).filter(|p| p.form == Form::Bytes)?;
        let at = (piece.at + pba.0 - piece.pba) as usize * BLOCK;
        self.bytes.get(at..at + BLOCK)
    }

    pub fn stamp_at(&self, pba: Pba) -> Option<u64> {
        let piece = self.find(pba).filter(|p| p.form == Form::Stamps)?;
        self.stamps.get((piece.at + pba.0 - piece.pba) as usize).copied()
    }

    /// Whether a place is here, in whatever form.
    pub fn holds(&self, pba: Pba) -> bool {
        self.find(pba).is_some()
    }

    fn find(&self, pba: Pba) -> Option<&Piece> {
        self.pieces.iter().rev().find(|p| (p.pba..p.pba + p.blocks).contains(&pba.0))
    }

    fn add(&mut self, head: HeadKind, pba: Pba, blocks: u32, payload: Payload<'_>) {
        let (form, at) = match payload {
            Payload::Nothing => (Form::Nothing, 0),
            Payload::Bytes(bytes) => {
                let at = self.bytes.len() / BLOCK;
                self.bytes.extend_from_slice(bytes);
                (Form::Bytes, at)
            }
            Payload::Stamps(stamps) => {
                let at = self.stamps.len();
                self.stamps.extend_from_slice(stamps);
                (Form::Stamps, at)
            }
        };
        self.blocks += blocks;
        let (at, stream) = (at as u32, head.stream());
        self.pieces.push(Piece { pba: pba.0, blocks, form, at, stream });
    }

    /// Sends everything. Returns when the last of it is done.
    pub fn issue<D: BlockDevice>(&mut self, below: &mut Below<D>) -> Result<Time, DeviceError> {
        let mut done = below.clock;
        self.pieces.sort_unstable_by_key(|p| p.pba);
        let mut from = 0;
        while let Some(first) = self.pieces.get(from).copied() {
            let (mut to, mut blocks) = (from + 1, first.blocks);
            while let Some(piece) = self.pieces.get(to) {
                let follows = piece.pba == first.pba + blocks && blocks + piece.blocks <= MOST;
                if !follows || (below.payload && piece.form != first.form) {
                    break;
                }
                blocks += piece.blocks;
                to += 1;
            }
            done = done.max(self.send(below, from..to, blocks)?);
            from = to;
        }
        self.pieces.clear();
        self.bytes.clear();
        self.stamps.clear();
        self.blocks = 0;
        Ok(done)
    }

    /// Sends pieces that lie together as one write.
    fn send<D: BlockDevice>(
        &mut self,
        below: &mut Below<D>,
        which: std::ops::Range<usize>,
        blocks: u32,
    ) -> Result<Time, DeviceError> {
        let pieces = &self.pieces[which];
        let Piece { pba, form, stream, .. } = pieces[0];
        let at = Pba(pba);
        if !below.payload || form == Form::Nothing {
            return below.put(at, blocks, Payload::Nothing, stream);
        }
        if form == Form::Stamps {
            // Stamps of one record follow each other as they were given, or are few.
            let mut done = below.clock;
            for p in pieces {
                let stamps = &self.stamps[p.at as usize..(p.at + p.blocks) as usize];
                let stamps = Payload::Stamps(stamps);
                done = done.max(below.put(Pba(p.pba), p.blocks, stamps, stream)?);
            }
            return Ok(done);
        }
        let bytes = |p: &Piece| p.at as usize * BLOCK..(p.at + p.blocks) as usize * BLOCK;
        if pieces.len() == 1 {
            let bytes = Payload::Bytes(&self.bytes[bytes(&pieces[0])]);
            return below.put(at, blocks, bytes, stream);
        }
        self.scratch.clear();
        for piece in pieces {
            self.scratch.extend_from_slice(&self.bytes[bytes(piece)]);
        }
        below.put(at, blocks, Payload::Bytes(&self.scratch), stream)
    }
}

/// Which blocks of the client a request's blocks are.
pub(super) enum Names<'a> {
    /// From this one on.
    From(Lpn),
    /// These.
    List(&'a [Lpn]),
}

/// Feeds the engine's output into a [`Gather`], with the payload of the request at hand.
pub(super) struct Feed<'a> {
    pub gather: &'a mut Gather,
    pub payload: Payload<'a>,
    /// Of a log without payload: which block of the client is where.
    pub reverse: Option<&'a mut Vec<u32>>,
    pub names: Names<'a>,
    pub geometry: Geometry,
}

impl Sink for Feed<'_> {
    fn data(&mut self, head: HeadKind, pba: Pba, first: u32, count: u32) {
        let (from, to) = (first as usize, (first + count) as usize);
        let payload = match self.payload {
            Payload::Nothing => Payload::Nothing,
            Payload::Bytes(bytes) => Payload::Bytes(&bytes[from * BLOCK..to * BLOCK]),
            Payload::Stamps(stamps) => Payload::Stamps(&stamps[from..to]),
        };
        self.gather.add(head, pba, count, payload);
        if let Some(reverse) = &mut self.reverse {
            let at = (pba.0 - self.geometry.first) as usize;
            for i in 0..count {
                reverse[at + i as usize] = match self.names {
                    Names::From(lpn) => lpn.0 + first + i,
                    Names::List(list) => list[(first + i) as usize].0,
                };
            }
        }
    }

    fn header(&mut self, head: HeadKind, pba: Pba, block: &[u8; BLOCK]) {
        self.gather.add(head, pba, 1, Payload::Bytes(block));
        if let Some(reverse) = &mut self.reverse {
            reverse[(pba.0 - self.geometry.first) as usize] = HEADER;
        }
    }
}
