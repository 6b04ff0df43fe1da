//! Directory entries: in blocks of 214 slots, or inside an inode with 182.
//!
//! Invariant: a name takes ceil(length/8) consecutive slots; all their bits are set (least
//! significant bit first), the record is the first one's, and the others' name length is 0.

use super::{put, put_u16, put_u32, u16_at, u32_at};
use crate::Nid;

/// Bytes of a name at most.
pub const NAME_MAX: usize = 255;
/// Bytes of a name slot.
pub const SLOT_BYTES: usize = 8;
const RECORD: usize = 11;

/// What an entry names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum FileType {
    Unknown = 0,
    File = 1,
    Directory = 2,
    Character = 3,
    Block = 4,
    Fifo = 5,
    Socket = 6,
    Symlink = 7,
}

impl FileType {
    /// The type with this number.
    pub fn of(number: u8) -> FileType {
        use FileType::*;
        [Unknown, File, Directory, Character, Block, Fifo, Socket, Symlink]
            .into_iter()
            .find(|t| *t as u8 == number)
            .unwrap_or(Unknown)
    }

    /// The type that an inode's mode says.
    pub fn of_mode(mode: u16) -> FileType {
        match mode >> 12 {
            0o10 => FileType::File,
            0o04 => FileType::Directory,
            0o02 => FileType::Character,
            0o06 => FileType::Block,
            0o01 => FileType::Fifo,
            0o14 => FileType::Socket,
            0o12 => FileType::Symlink,
            _ => FileType::Unknown,
        }
    }
}

/// An entry's record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The hash of the name.
    pub hash: u32,
    /// What it names.
    pub ino: Nid,
    /// Bytes of the name.
    pub len: u16,
    /// What that is.
    pub kind: FileType,
}

/// Where the parts of a set of slots are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Area {
    /// Slots.
    pub slots: usize,
    records: usize,
    names: usize,
}

impl Area {
    /// A directory block.
    pub const BLOCK: Area = Area { slots: 214, records: 30, names: 2384 };
    /// Inside an inode.
    pub const INLINE: Area = Area { slots: 182, records: 30, names: 2032 };

    /// Bytes of the whole area.
    pub const fn bytes(self) -> usize {
        self.names + self.slots * SLOT_BYTES
    }

    /// Slots that a name needs.
    pub const fn need(name: usize) -> usize {
        name.div_ceil(SLOT_BYTES)
    }

    fn used(bytes: &[u8], slot: usize) -> bool {
        bytes[slot / 8] >> (slot % 8) & 1 == 1
    }

    /// Whether no slot is used.
    pub fn is_empty(self, bytes: &[u8]) -> bool {
        (0..self.slots).all(|slot| !Area::used(bytes, slot))
    }

    fn entry(self, bytes: &[u8], slot: usize) -> Entry {
        let r = &bytes[self.records + slot * RECORD..];
        Entry {
            hash: u32_at(r, 0),
            ino: Nid(u32_at(r, 4)),
            len: u16_at(r, 8),
            kind: FileType::of(r[10]),
        }
    }

    /// The entries: slot, record, name. A record whose name would not fit is skipped as unused.
    pub fn entries(self, bytes: &[u8]) -> impl Iterator<Item = (usize, Entry, &[u8])> {
        let mut slot = 0;
        std::iter::from_fn(move || {
            while slot < self.slots {
                let at = slot;
                if !Area::used(bytes, at) {
                    slot += 1;
                    continue;
                }
                let entry = self.entry(bytes, at);
                let need = Area::need(usize::from(entry.len));
                slot += need.max(1);
                if need > 0 && at + need <= self.slots {
                    let from = self.names + at * SLOT_BYTES;
                    return Some((at, entry, &bytes[from..from + usize::from(entry.len)]));
                }
            }
            None
        })
    }

    /// The entry of a name.
    pub fn find(self, bytes: &[u8], hash: u32, name: &[u8]) -> Option<(usize, Entry)> {
        let mut slot = 0;
        while slot < self.slots {
            if slot.is_multiple_of(8) && bytes[slot / 8] == 0 {
                slot += 8;
                continue;
            }
            let len = usize::from(u16_at(bytes, self.records + slot * RECORD + 8));
            if !Area::used(bytes, slot) || len == 0 {
                slot += 1;
                continue;
            }
            let from = self.names + slot * SLOT_BYTES;
            if len == name.len()
                && u32_at(bytes, self.records + slot * RECORD) == hash
                && bytes.get(from..from + len) == Some(name)
                && slot + Area::need(len) <= self.slots
            {
                return Some((slot, self.entry(bytes, slot)));
            }
            slot += Area::need(len);
        }
        None
    }

    /// The first of so many free slots in a row.
    pub fn room(self, bytes: &[u8], need: usize) -> Option<usize> {
        let (mut slot, mut run) = (0, 0);
        while slot < self.slots {
            if slot.is_multiple_of(8) && bytes[slot / 8] == 0xFF {
                (slot, run) = (slot + 8, 0);
                continue;
            }
            run = if Area::used(bytes, slot) { 0 } else { run + 1 };
            slot += 1;
            if run == need {
                return Some(slot - need);
            }
        }
        None
    }

    /// Puts an entry into free slots.
    pub fn put(self, bytes: &mut [u8], slot: usize, entry: Entry, name: &[u8]) {
        for (i, at) in (slot..slot + Area::need(name.len())).enumerate() {
            bytes[at / 8] |= 1 << (at % 8);
            let record = &mut bytes[self.records + at * RECORD..][..RECORD];
            record.fill(0);
            if i == 0 {
                put_u32(record, 0, entry.hash);
                put_u16(record, 8, entry.len);
                record[10] = entry.kind as u8;
            }
        }
        self.aim(bytes, slot, entry.ino, entry.kind);
        put(bytes, self.names + slot * SLOT_BYTES, name);
    }

    /// Makes an entry name something else.
    pub fn aim(self, bytes: &mut [u8], slot: usize, ino: Nid, kind: FileType) {
        let record = &mut bytes[self.records + slot * RECORD..][..RECORD];
        put_u32(record, 4, ino.0);
        record[10] = kind as u8;
    }

    /// Frees the slots of an entry.
    pub fn clear(self, bytes: &mut [u8], slot: usize) {
        let need = Area::need(usize::from(self.entry(bytes, slot).len)).max(1);
        for at in slot..(slot + need).min(self.slots) {
            bytes[at / 8] &= !(1 << (at % 8));
        }
    }
}
