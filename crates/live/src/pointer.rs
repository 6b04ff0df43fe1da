//! Where the image in a file begins, and how large it may become: what an image that grows has before it
//! (docs/formats.md).
//!
//! Invariants:
//! * it is there twice, each in one sector, and written one after the other: of two the higher number counts;
//! * it names an image that is whole and durable: it is written last.

use std::path::Path;

use block::Medium;

use crate::damage::Damage;
use crate::error::LiveError;
use crate::layout::{PAGE, SECTOR, is_sealed, seal, u32_at, u64_at};
use crate::superblock::MAGIC as IMAGE;

pub const MAGIC: &[u8; 8] = b"varveptr";
const VERSION: u32 = 1;
/// Bytes before the first image of a file: two pages.
pub const BEFORE: u64 = 2 * PAGE;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// Grows with each one that is written.
    pub number: u64,
    /// Where the image begins.
    pub base: u64,
    /// What its drive holds, if it has grown since it was made there; else 0.
    pub capacity: u64,
    /// What it may hold.
    pub limit: u64,
}

/// What a file has before its image.
pub struct Place {
    pub pointer: Option<Pointer>,
    /// The copy that does not say so: it was being written, or is damaged.
    pub behind: Option<usize>,
    pub damage: Option<Damage>,
}

/// What stands in a page.
enum Copy {
    Sound(Pointer),
    /// An image without a pointer, or the older half of one that is becoming one with.
    Image,
    Version(u32),
    Other,
}

impl Pointer {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; SECTOR];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        for (at, value) in
            [(16, self.number), (24, self.base), (32, self.capacity), (40, self.limit)]
        {
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        seal(&mut bytes);
        bytes
    }

    fn decode(bytes: &[u8]) -> Copy {
        match &bytes[..8] {
            magic if magic == IMAGE => Copy::Image,
            magic if magic == MAGIC && is_sealed(bytes) => match u32_at(bytes, 8) {
                VERSION => Copy::Sound(Pointer {
                    number: u64_at(bytes, 16),
                    base: u64_at(bytes, 24),
                    capacity: u64_at(bytes, 32),
                    limit: u64_at(bytes, 40),
                }),
                other => Copy::Version(other),
            },
            _ => Copy::Other,
        }
    }

    /// Where a copy of it lies.
    pub fn at(copy: usize) -> u64 {
        copy as u64 * PAGE
    }

    /// Writes it, one copy after the other: of two that differ the older one counts no more.
    pub fn write(&self, medium: &dyn Medium) -> std::io::Result<()> {
        for copy in [1, 0] {
            medium.write(Pointer::at(copy), &self.encode())?;
            medium.sync()?;
        }
        Ok(())
    }

    /// What a file has before its image.
    pub fn find(path: &Path, medium: &dyn Medium) -> Result<Place, LiveError> {
        let mut bytes = vec![0; BEFORE as usize];
        medium
            .read(0, &mut bytes)
            .map_err(|error| LiveError::Io { path: path.to_path_buf(), error })?;
        let (first, second) = bytes.split_at(PAGE as usize);
        Pointer::of(first, second).map_err(|what| match what {
            Wrong::Damaged(damage) => {
                LiveError::Damaged { path: path.to_path_buf(), damage: vec![damage] }
            }
            Wrong::Version(version) => LiveError::NotAnImage {
                path: path.to_path_buf(),
                what: format!("version {version} of an image that grows: expected {VERSION}"),
            },
        })
    }

    fn of(first: &[u8], second: &[u8]) -> Result<Place, Wrong> {
        let decode = |page: &[u8]| Pointer::decode(&page[..SECTOR]);
        let copies = [decode(first), decode(second)];
        let sound = |copy: &Copy| if let Copy::Sound(one) = copy { Some(*one) } else { None };
        let newest = copies.iter().filter_map(sound).max_by_key(|one| one.number);
        let Some(newest) = newest else {
            if let Some(Copy::Version(version)) =
                copies.iter().find(|copy| matches!(copy, Copy::Version(_)))
            {
                return Err(Wrong::Version(*version));
            }
            let was_one = [first, second].iter().any(|page| page.starts_with(MAGIC));
            if was_one && !matches!(copies[0], Copy::Image) {
                let what = "where the image begins fails its CRC32C, and there is no second one";
                return Err(Wrong::Damaged(Damage { at: 0, what: what.to_string() }));
            }
            return Ok(Place { pointer: None, behind: None, damage: None });
        };
        let behind = copies.iter().position(|copy| sound(copy) != Some(newest));
        let damaged = |copy: &usize| matches!(copies[*copy], Copy::Other | Copy::Version(_));
        let damage = behind.filter(damaged).map(|copy| {
            let what = "a copy of where the image begins fails its CRC32C; the other one serves";
            Damage { at: Pointer::at(copy), what: what.to_string() }
        });
        Ok(Place { pointer: Some(newest), behind, damage })
    }
}

enum Wrong {
    Damaged(Damage),
    Version(u32),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(pointer: &Pointer) -> Vec<u8> {
        let mut bytes = pointer.encode();
        bytes.resize(PAGE as usize, 0);
        bytes
    }

    const OLD: Pointer = Pointer { number: 4, base: 8192, capacity: 0, limit: 1 << 32 };
    const NEW: Pointer = Pointer { number: 5, base: 3 << 20, capacity: 7 << 20, limit: 1 << 32 };

    fn found(first: &[u8], second: &[u8]) -> (Option<Pointer>, Option<usize>, bool) {
        let Ok(place) = Pointer::of(first, second) else { panic!("an error") };
        (place.pointer, place.behind, place.damage.is_some())
    }

    #[test]
    fn the_newer_of_two_counts_and_any_flipped_bit_is_named() {
        let (old, new) = (page(&OLD), page(&NEW));
        assert_eq!(found(&new, &new), (Some(NEW), None, false));
        // The power went between the two.
        assert_eq!(found(&old, &new), (Some(NEW), Some(0), false));
        assert_eq!(found(&new, &old), (Some(NEW), Some(1), false));
        let mut image = vec![0; PAGE as usize];
        image[..8].copy_from_slice(IMAGE);
        assert_eq!(found(&image, &new), (Some(NEW), Some(0), false));
        assert_eq!(found(&image, &image), (None, None, false));
        for bit in 0..8 * SECTOR {
            let mut torn = new.clone();
            torn[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(found(&torn, &new), (Some(NEW), Some(0), true), "bit {bit}");
            assert_eq!(found(&new, &torn), (Some(NEW), Some(1), true), "bit {bit}");
            if bit >= 64 {
                assert!(matches!(Pointer::of(&torn, &torn), Err(Wrong::Damaged(_))), "bit {bit}");
            }
        }
    }

    #[test]
    fn a_later_version_is_named() {
        let mut bytes = page(&NEW);
        bytes[8] = 9;
        seal(&mut bytes[..SECTOR]);
        assert!(matches!(Pointer::of(&bytes, &bytes), Err(Wrong::Version(9))));
    }
}
