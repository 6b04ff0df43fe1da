//! Page number to entry: a flat array for small spaces, open addressing for large ones.

const NONE: u32 = u32::MAX;
/// Spaces up to this many pages (64 GiB) get a flat array: 4 bytes a page, one memory access.
const FLAT: u32 = 16 << 20;

#[derive(Clone, Debug)]
pub(super) enum Index {
    Flat(Vec<u32>),
    Hashed { keys: Vec<u32>, values: Vec<u32>, shift: u32 },
}

impl Index {
    pub fn new(entries: usize, pages: u32) -> Index {
        if pages <= FLAT {
            // Stored plus one, so that the pages of the array come zeroed from the system.
            return Index::Flat(vec![0; pages as usize]);
        }
        let size = (entries.max(4) * 2).next_power_of_two();
        Index::Hashed {
            keys: vec![NONE; size],
            values: vec![NONE; size],
            shift: 64 - size.trailing_zeros(),
        }
    }

    #[inline(always)]
    fn home(page: u32, shift: u32) -> usize {
        (u64::from(page).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> shift) as usize
    }

    #[inline(always)]
    pub fn get(&self, page: u32) -> u32 {
        match self {
            Index::Flat(table) => table[page as usize].wrapping_sub(1),
            Index::Hashed { keys, values, shift } => {
                let mut at = Index::home(page, *shift);
                loop {
                    if keys[at] == page {
                        return values[at];
                    }
                    if keys[at] == NONE {
                        return NONE;
                    }
                    at = (at + 1) & (keys.len() - 1);
                }
            }
        }
    }

    #[inline]
    pub fn insert(&mut self, page: u32, value: u32) {
        match self {
            Index::Flat(table) => table[page as usize] = value + 1,
            Index::Hashed { keys, values, shift } => {
                let mut at = Index::home(page, *shift);
                while keys[at] != NONE {
                    at = (at + 1) & (keys.len() - 1);
                }
                keys[at] = page;
                values[at] = value;
            }
        }
    }

    #[inline]
    pub fn remove(&mut self, page: u32) {
        match self {
            Index::Flat(table) => table[page as usize] = 0,
            Index::Hashed { keys, values, shift } => {
                let last = keys.len() - 1;
                let mut at = Index::home(page, *shift);
                while keys[at] != page {
                    at = (at + 1) & last;
                }
                // Backward shift: no tombstones, so look-ups stay short for ever.
                let mut hole = at;
                loop {
                    at = (at + 1) & last;
                    if keys[at] == NONE {
                        break;
                    }
                    let home = Index::home(keys[at], *shift);
                    if at.wrapping_sub(home) & last >= at.wrapping_sub(hole) & last {
                        keys[hole] = keys[at];
                        values[hole] = values[at];
                        hole = at;
                    }
                }
                keys[hole] = NONE;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn both_kinds_agree_with_a_map() {
        for pages in [1000, FLAT + 1] {
            let (mut index, mut model) = (Index::new(64, pages), BTreeMap::new());
            let mut rng = block::Rng::new(u64::from(pages));
            for _ in 0..20_000 {
                let page = rng.below(200) as u32 * (pages / 200);
                if model.contains_key(&page) {
                    index.remove(page);
                    model.remove(&page);
                } else if model.len() < 64 {
                    let value = rng.below(64) as u32;
                    index.insert(page, value);
                    model.insert(page, value);
                }
                let probe = rng.below(200) as u32 * (pages / 200);
                assert_eq!(index.get(probe), model.get(&probe).copied().unwrap_or(NONE));
            }
        }
    }
}
