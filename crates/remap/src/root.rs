//! The super block and the two roots.
//!
//! Invariants: the super block is written once, twice; a root's header is written after its body is
//! durable, in two copies of which one is enough; roots alternate by generation. All of a header is in
//! the first sector of its block, which is old or new: in pieces, a header whose writing was cut could
//! be completed by the one that recovery writes over it under the same number, after its body is gone.

use block::crc32c;

use crate::error::LogError;
use crate::geometry::{BLOCK, Geometry, Seg};

const SUPER_MAGIC: u64 = u64::from_le_bytes(*b"varvesup");
const ROOT_MAGIC: u64 = u64::from_le_bytes(*b"varveroo");
/// What every program reads, and what only those do that know more than one head of a kind, and batches.
pub(crate) const PLAIN: u32 = 2;
pub(crate) const BATCHES: u32 = 3;
const CRC_AT: usize = block::SECTOR_BYTES as usize - 4;

/// What is written once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Super {
    /// A random number of 128 bits.
    pub uuid: [u8; 16],
    /// The shape.
    pub geometry: Geometry,
    /// What a program must know to open it.
    pub version: u32,
}

/// A place where a head goes on.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct HeadAt {
    /// The segment.
    pub seg: Seg,
    /// The next header's block in it.
    pub offset: u32,
    /// The segment after it.
    pub next: Seg,
}

/// Heads of each kind at most.
pub(crate) const MOST_HEADS: u8 = 6;
const ALL_HEADS: usize = 1 + 2 * MOST_HEADS as usize;

/// Where all heads go on: the first of the client, the first of cleaning, that of the map; then the others of
/// the client, then those of cleaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadsAt {
    /// Heads of the client, and of cleaning.
    pub users: u8,
    /// Those of cleaning.
    pub gcs: u8,
    at: [HeadAt; ALL_HEADS],
}

impl HeadsAt {
    /// So many, nowhere yet.
    pub fn new(users: u8, gcs: u8) -> HeadsAt {
        HeadsAt { users, gcs, at: [HeadAt::default(); ALL_HEADS] }
    }
    /// How many there are.
    pub fn count(&self) -> usize {
        1 + usize::from(self.users) + usize::from(self.gcs)
    }
    /// Each head, in their order.
    pub fn all(&self) -> &[HeadAt] {
        &self.at[..self.count()]
    }
    /// Each head, to be set.
    pub fn all_mut(&mut self) -> &mut [HeadAt] {
        let count = self.count();
        &mut self.at[..count]
    }
}

/// A root's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Root {
    /// The log's uuid.
    pub uuid: [u8; 16],
    /// Number of the checkpoint; its parity says which root.
    pub generation: u64,
    /// Which opening of the log.
    pub epoch: u32,
    /// The last record the map holds.
    pub seq: u64,
    /// CRC of the body.
    pub body_crc: u32,
    /// Where the heads go on.
    pub heads: HeadsAt,
    /// The log was closed: there is nothing behind the heads.
    pub clean: bool,
}

struct Writer<'a>(&'a mut [u8], usize);

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.0[self.1..self.1 + bytes.len()].copy_from_slice(bytes);
        self.1 += bytes.len();
    }
    fn word(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }
    fn long(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }
}

struct Reader<'a>(&'a [u8], usize);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let bytes = std::array::from_fn(|i| self.0[self.1 + i]);
        self.1 += N;
        bytes
    }
    fn word(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }
    fn long(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}

fn close(block: &mut [u8; BLOCK]) {
    let crc = crc32c(0, &block[..CRC_AT]);
    block[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
}

fn sound(block: &[u8; BLOCK]) -> bool {
    block[CRC_AT..CRC_AT + 4] == crc32c(0, &block[..CRC_AT]).to_le_bytes()
}

impl Super {
    /// The log's short number, in every record: the first four bytes of the uuid.
    pub fn instance(&self) -> u32 {
        u32::from_le_bytes([self.uuid[0], self.uuid[1], self.uuid[2], self.uuid[3]])
    }

    /// Its block.
    pub fn encode(&self) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        let mut w = Writer(&mut block, 0);
        let g = &self.geometry;
        w.long(SUPER_MAGIC);
        w.word(self.version);
        w.put(&self.uuid);
        for value in [g.segment, g.segments, g.logical, u32::from(g.crc_plane), g.root, g.first] {
            w.word(value);
        }
        close(&mut block);
        block
    }

    /// The super block in a block.
    ///
    /// # Errors
    /// It is none, or of another version, or not possible.
    pub fn decode(block: &[u8; BLOCK]) -> Result<Super, LogError> {
        let mut r = Reader(block, 0);
        if r.long() != SUPER_MAGIC {
            return Err(LogError::NotALog("no super block".to_string()));
        }
        let version = r.word();
        if !(PLAIN..=BATCHES).contains(&version) {
            return Err(LogError::NotALog(format!(
                "version {version}; this program has {PLAIN} and {BATCHES}"
            )));
        }
        if !sound(block) {
            return Err(LogError::Corrupt("the super block's CRC".to_string()));
        }
        let uuid = r.take();
        let mut next = || r.word();
        let (segment, segments, logical) = (next(), next(), next());
        let (crc_plane, root, first) = (next() != 0, next(), next());
        let geometry = Geometry { segment, segments, logical, crc_plane, root, first };
        Ok(Super { uuid, geometry, version })
    }
}

impl Root {
    /// Its block.
    pub fn encode(&self) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        let mut w = Writer(&mut block, 0);
        w.long(ROOT_MAGIC);
        w.put(&self.uuid);
        w.long(self.generation);
        w.long(self.seq);
        w.word(self.epoch);
        w.word(self.body_crc);
        w.word(u32::from(self.clean));
        let head = |w: &mut Writer<'_>, head: &HeadAt| {
            w.word(head.seg.0);
            w.word(head.offset);
            w.word(head.next.0);
        };
        let (first, others) = self.heads.all().split_at(3);
        first.iter().for_each(|at| head(&mut w, at));
        // Zeroes where there are no others, as in logs that never had any.
        w.word(u32::from(self.heads.users - 1));
        w.word(u32::from(self.heads.gcs - 1));
        others.iter().for_each(|at| head(&mut w, at));
        close(&mut block);
        block
    }

    /// The root's header in a block, if there is one of this log.
    pub fn decode(block: &[u8; BLOCK], uuid: &[u8; 16]) -> Option<Root> {
        let mut r = Reader(block, 0);
        if r.long() != ROOT_MAGIC || !sound(block) {
            return None;
        }
        let found: [u8; 16] = r.take();
        let (generation, seq, epoch) = (r.long(), r.long(), r.word());
        let (body_crc, clean) = (r.word(), r.word() != 0);
        let mut head = || HeadAt { seg: Seg(r.word()), offset: r.word(), next: Seg(r.word()) };
        let first = [head(), head(), head()];
        let most = u32::from(MOST_HEADS);
        let (users, gcs) = (r.word(), r.word());
        if users >= most || gcs >= most {
            return None;
        }
        let mut heads = HeadsAt::new(users as u8 + 1, gcs as u8 + 1);
        let mut head = || HeadAt { seg: Seg(r.word()), offset: r.word(), next: Seg(r.word()) };
        heads.all_mut()[3..].iter_mut().for_each(|at| *at = head());
        heads.all_mut()[..3].copy_from_slice(&first);
        let root = Root { uuid: found, generation, epoch, seq, body_crc, heads, clean };
        (found == *uuid).then_some(root)
    }
}
