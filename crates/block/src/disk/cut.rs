//! What the loss of power leaves of writes that no completed flush covers.

use std::sync::Arc;

use super::image::{BLOCK, DiskImage, PER_BLOCK, Piece, SECTOR};
use crate::Rng;

/// What becomes of the sectors of an unflushed write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// They hold what they held before.
    Old,
    /// All of them are there.
    New,
    /// The first half is there, one sector more is torn, the rest is old.
    Half,
    /// Each holds bytes that nobody wrote.
    Garbage,
    /// Drawn from the seed: each 4 KiB block is old or new as a whole (contract C2), and what
    /// share of them is new is drawn first.
    Blocks(u64),
    /// Drawn from the seed: each sector is old or new, for each write, block or sector by itself; the
    /// grain, and what share of them is new, are drawn first. A disk that keeps sectors whole does
    /// nothing worse.
    Sectors(u64),
    /// Drawn from the seed: old, new, torn, garbage or a read error, for each write, block or
    /// sector by itself. How many of each, and of which grain, is drawn first, so that seeds
    /// differ widely: most writes kept, most lost, hardly one whole.
    Mixed(u64),
}

/// A loss of power.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskCut {
    /// The operation it hits: writes, discards and flushes count together from 0.
    pub op: u64,
    /// The operation was under way; else it never began.
    pub inside: bool,
    /// What becomes of it if it was.
    pub torn: Fate,
    /// What becomes of the unflushed ones before it.
    pub rest: Fate,
}

/// One sector's end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Old,
    New,
    Torn,
    Garbage,
    Error,
}

/// Draws ends: of 32, so many are new, and so many neither old nor new.
struct Mix {
    rng: Rng,
    grain: u64,
    new: u64,
    odd: u64,
}

impl Mix {
    fn of(seed: u64) -> Mix {
        let mut rng = Rng::stream(seed, "disk/cut");
        let grain = rng.below(3);
        let new = *rng.pick(&[1, 8, 16, 24, 31]);
        let odd = *rng.pick(&[0, 0, 1, 4]);
        Mix { rng, grain, new, odd }
    }
    /// Sectors are old or new, and nothing else.
    fn without_damage(self) -> Mix {
        Mix { odd: 0, ..self }
    }
    fn end(&mut self) -> End {
        if self.rng.ratio(self.odd, 32) {
            return *self.rng.pick(&[End::Torn, End::Garbage, End::Error]);
        }
        if self.rng.ratio(self.new, 32) { End::New } else { End::Old }
    }
}

/// Puts what is left of a write into an image. `salt` tells writes of one cut apart.
pub(super) fn leave(image: &mut DiskImage, pieces: &[Piece], fate: Fate, salt: u64) {
    match fate {
        Fate::Old => {}
        Fate::New => pieces.iter().for_each(|piece| image.apply(piece)),
        Fate::Half => {
            let sectors: u64 = pieces.iter().map(|piece| u64::from(piece.mask.count_ones())).sum();
            let mut n = 0;
            each_sector(pieces, |piece, i| {
                if n * 2 < sectors {
                    put(image, piece, i, End::New, salt);
                } else if n * 2 < sectors + 2 {
                    put(image, piece, i, End::Torn, salt);
                }
                n += 1;
            });
        }
        Fate::Garbage => {
            each_sector(pieces, |piece, i| put(image, piece, i, End::Garbage, salt));
        }
        Fate::Blocks(seed) => {
            let new = *Rng::stream(seed, "disk/share").pick(&[1, 8, 16, 24, 31]);
            let mut rng =
                Rng::stream(seed ^ salt.wrapping_mul(0x9E37_79B9_7F4A_7C15), "disk/blocks");
            for piece in pieces {
                if rng.ratio(new, 32) {
                    image.apply(piece);
                }
            }
        }
        Fate::Sectors(seed) => mixed(image, pieces, Mix::of(seed).without_damage(), (seed, salt)),
        Fate::Mixed(seed) => mixed(image, pieces, Mix::of(seed), (seed, salt)),
    }
}

fn mixed(image: &mut DiskImage, pieces: &[Piece], mut mix: Mix, (seed, salt): (u64, u64)) {
    // The same mix for all writes of a cut, other draws for each.
    mix.rng = Rng::stream(seed ^ salt.wrapping_mul(0x9E37_79B9_7F4A_7C15), "disk/write");
    let whole = mix.end();
    for piece in pieces {
        let block = if mix.grain == 0 { whole } else { mix.end() };
        if mix.grain < 2 && block == End::New {
            image.apply(piece);
            continue;
        }
        for i in (0..PER_BLOCK).filter(|i| piece.mask >> i & 1 == 1) {
            let end = if mix.grain < 2 { block } else { mix.end() };
            put(image, piece, i, end, salt);
        }
    }
}

fn each_sector(pieces: &[Piece], mut body: impl FnMut(&Piece, u64)) {
    for piece in pieces {
        (0..PER_BLOCK).filter(|i| piece.mask >> i & 1 == 1).for_each(|i| body(piece, i));
    }
}

/// Puts one sector of a piece into an image.
fn put(image: &mut DiskImage, piece: &Piece, i: u64, end: End, salt: u64) {
    let number = piece.block * PER_BLOCK + i;
    let from = i as usize * SECTOR;
    let mut bytes = match end {
        End::Old => return,
        End::Error => return image.spoil(number),
        End::New => piece.data.as_ref().map_or([0; BLOCK], |data| **data),
        End::Torn | End::Garbage => image.block(piece.block).map_or([0; BLOCK], |old| **old),
    };
    if end == End::Garbage {
        let mut rng = Rng::stream(number ^ salt << 32, "disk/garbage");
        for word in bytes[from..from + SECTOR].chunks_exact_mut(8) {
            word.copy_from_slice(&rng.next_u64().to_le_bytes());
        }
    }
    if end == End::Torn {
        // Part of the new bytes over the old ones: a boundary that no word of 512 bytes respects.
        let len = 1 + (number.wrapping_mul(37).wrapping_add(salt) % (SECTOR as u64 - 1)) as usize;
        match &piece.data {
            Some(data) => bytes[from..from + len].copy_from_slice(&data[from..from + len]),
            None => bytes[from..from + len].fill(0),
        }
    }
    image.apply(&Piece { block: piece.block, mask: 1 << i, data: Some(Arc::new(bytes)) });
}
