//! The record: one header block that describes the data blocks behind it.
//!
//! Invariants: a header is believed only as a whole (magic, version, CRC over the block, counts
//! that fit); entries stand in admission order.

use block::{Lpn, crc32c};

use crate::geometry::{BLOCK, Pba, Seg};

const MAGIC: u64 = u64::from_le_bytes(*b"varvelog");
const VERSION: u16 = 1;
const HEAD: usize = 64;
const CRC_AT: usize = 60;
const TOP: u32 = 1 << 31;
const MORE: u8 = 1;
const NODATA: u8 = 2;
const STAMPS: u8 = 4;

/// Entries of a user record at most.
pub const USER_ENTRIES: u32 = ((BLOCK - HEAD) / 8) as u32;
/// Entries of a gc or meta record at most.
pub const GC_ENTRIES: u32 = ((BLOCK - HEAD) / 12) as u32;

/// Who wrote a record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Kind {
    /// The client.
    User = 1,
    /// Cleaning.
    Gc = 2,
    /// A checkpoint.
    Meta = 3,
}

/// In which form the data of a record was given.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Form {
    /// Bytes; the CRC is over the block.
    #[default]
    Bytes,
    /// A 64-bit stamp for each block; the CRC is over its eight bytes.
    Stamps,
    /// No payload: a trace. The CRC is 0.
    Nothing,
}

/// The fixed part of a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Who wrote it.
    pub kind: Kind,
    /// The last request goes on in the next user record.
    pub more: bool,
    /// Form of the data.
    pub form: Form,
    /// The log's random number.
    pub instance: u32,
    /// Which opening of the log wrote it.
    pub epoch: u32,
    /// Number of the record; of the checkpoint for a meta record.
    pub seq: u64,
    /// Highest number known to be flushed when this was written.
    pub durable: u64,
    /// The segment it lies in.
    pub segment: Seg,
    /// Its block in the segment.
    pub offset: u16,
    /// Number of entries.
    pub entries: u16,
    /// Number of data blocks.
    pub data: u16,
    /// The segment this head uses next.
    pub next: Seg,
    /// When it was sealed: nanoseconds on the driver's clock.
    pub time: u64,
}

/// One entry of a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// The next data block holds this block of the client.
    Write {
        /// The client's block.
        lpn: Lpn,
        /// CRC of the data.
        crc: u32,
    },
    /// So many blocks are unmapped.
    Trim {
        /// First of them.
        lpn: Lpn,
        /// How many.
        count: u32,
    },
    /// The next data block holds what was at `from`: a block of the client, or a map page.
    Move {
        /// The client's block, or the page.
        lpn: Lpn,
        /// CRC of the data.
        crc: u32,
        /// Where it was.
        from: Pba,
    },
    /// What was at `from` is damaged.
    Poison {
        /// The client's block.
        lpn: Lpn,
        /// Where it was.
        from: Pba,
    },
}

fn word(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}

fn long(block: &[u8], at: usize) -> u64 {
    u64::from(word(block, at)) | u64::from(word(block, at + 4)) << 32
}

fn half(block: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([block[at], block[at + 1]])
}

fn put(block: &mut [u8], at: usize, bytes: &[u8]) {
    block[at..at + bytes.len()].copy_from_slice(bytes);
}

impl Entry {
    /// Writes entry `index` of a header block.
    #[inline]
    pub fn put(self, index: u32, block: &mut [u8; BLOCK]) {
        let (first, second, from) = match self {
            Entry::Write { lpn, crc } => (lpn.0, crc, None),
            Entry::Trim { lpn, count } => (lpn.0 | TOP, count, None),
            Entry::Move { lpn, crc, from } => (lpn.0, crc, Some(from.0)),
            Entry::Poison { lpn, from } => (lpn.0 | TOP, 0, Some(from.0)),
        };
        let size = if from.is_some() { 12 } else { 8 };
        let at = HEAD + index as usize * size;
        let both = u64::from(first) | u64::from(second) << 32;
        put(block, at, &both.to_le_bytes());
        if let Some(from) = from {
            put(block, at + 8, &from.to_le_bytes());
        }
    }

    /// Whether a data block goes with it.
    pub fn has_data(self) -> bool {
        matches!(self, Entry::Write { .. } | Entry::Move { .. })
    }
}

impl Header {
    /// Completes a block that holds the entries: the fixed part and the CRC.
    pub fn seal(&self, block: &mut [u8; BLOCK]) {
        let size = if self.kind == Kind::User { 8 } else { 12 };
        block[HEAD + usize::from(self.entries) * size..].fill(0);
        let flags = if self.more { MORE } else { 0 }
            | match self.form {
                Form::Bytes => 0,
                Form::Stamps => STAMPS,
                Form::Nothing => NODATA,
            };
        block[..HEAD].fill(0);
        put(block, 0, &MAGIC.to_le_bytes());
        put(block, 8, &VERSION.to_le_bytes());
        block[10] = self.kind as u8;
        block[11] = flags;
        put(block, 12, &self.instance.to_le_bytes());
        put(block, 16, &self.epoch.to_le_bytes());
        put(block, 20, &self.segment.0.to_le_bytes());
        put(block, 24, &self.seq.to_le_bytes());
        put(block, 32, &self.durable.to_le_bytes());
        put(block, 40, &self.next.0.to_le_bytes());
        put(block, 44, &self.offset.to_le_bytes());
        put(block, 46, &self.entries.to_le_bytes());
        put(block, 48, &self.data.to_le_bytes());
        put(block, 52, &self.time.to_le_bytes());
        let crc = checksum(block);
        put(block, CRC_AT, &crc.to_le_bytes());
    }

    /// The header in a block, if there is one.
    pub fn read(block: &[u8; BLOCK]) -> Option<Header> {
        let header = Header::read_unchecked(block)?;
        (word(block, CRC_AT) == checksum(block)).then_some(header)
    }

    /// The same without a look at the CRC.
    pub(crate) fn read_unchecked(block: &[u8; BLOCK]) -> Option<Header> {
        if long(block, 0) != MAGIC || half(block, 8) != VERSION {
            return None;
        }
        let kind = match block[10] {
            1 => Kind::User,
            2 => Kind::Gc,
            3 => Kind::Meta,
            _ => return None,
        };
        let form = match block[11] & !MORE {
            0 => Form::Bytes,
            STAMPS => Form::Stamps,
            NODATA => Form::Nothing,
            _ => return None,
        };
        let header = Header {
            kind,
            more: block[11] & MORE != 0,
            form,
            instance: word(block, 12),
            epoch: word(block, 16),
            segment: Seg(word(block, 20)),
            seq: long(block, 24),
            durable: long(block, 32),
            next: Seg(word(block, 40)),
            offset: half(block, 44),
            entries: half(block, 46),
            data: half(block, 48),
            time: long(block, 52),
        };
        let most = if kind == Kind::User { USER_ENTRIES } else { GC_ENTRIES };
        (u32::from(header.entries) <= most && header.data <= header.entries).then_some(header)
    }

    /// Entry `index` of the block this header was read from.
    #[inline]
    pub fn entry(&self, index: u32, block: &[u8; BLOCK]) -> Entry {
        let size = if self.kind == Kind::User { 8 } else { 12 };
        let at = HEAD + index as usize * size;
        let (first, second) = (word(block, at), word(block, at + 4));
        let lpn = Lpn(first & !TOP);
        match (self.kind, first & TOP != 0) {
            (Kind::User, false) => Entry::Write { lpn, crc: second },
            (Kind::User, true) => Entry::Trim { lpn, count: second },
            (_, false) => Entry::Move { lpn, crc: second, from: Pba(word(block, at + 8)) },
            (_, true) => Entry::Poison { lpn, from: Pba(word(block, at + 8)) },
        }
    }

    /// All entries, each with the place of its data block (meaningless where it has none).
    pub fn entries<'a>(
        &'a self,
        at: Pba,
        block: &'a [u8; BLOCK],
    ) -> impl Iterator<Item = (Entry, Pba)> + 'a {
        let mut data = at.0 + 1;
        (0..u32::from(self.entries)).map(move |i| {
            let entry = self.entry(i, block);
            let place = Pba(data);
            data += u32::from(entry.has_data());
            (entry, place)
        })
    }
}

fn checksum(block: &[u8; BLOCK]) -> u32 {
    crc32c(crc32c(0, &block[..CRC_AT]), &block[CRC_AT + 4..])
}

/// CRC of a stamp, as entries hold it.
pub(crate) fn stamp_crc(stamp: u64) -> u32 {
    crc32c(0, &stamp.to_le_bytes())
}
