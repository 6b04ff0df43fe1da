//! Page number to entry: a flat array where the space is small beside the buffer, else open
//! addressing, whose table stays in the processor's cache where the array would not.

const NONE: u32 = u32::MAX;
const EMPTY: u64 = u64::MAX;
/// Up to this many pages of space per entry a flat array is at most twice the hashed table.
const FLAT_PER_ENTRY: usize = 16;

#[derive(Clone, Debug)]
pub(super) enum Index {
    /// Entry plus one, so that the array comes zeroed from the system.
    Flat(Vec<u32>),
    /// Page in the upper half, entry in the lower.
    Hashed { table: Vec<u64>, shift: u32 },
}

impl Index {
    pub fn new(entries: usize, pages: u32) -> Index {
        if pages as usize <= entries.max(1 << 13) * FLAT_PER_ENTRY {
            return Index::Flat(vec![0; pages as usize]);
        }
        let size = (entries.max(4) * 2).next_power_of_two();
        Index::Hashed { table: vec![EMPTY; size], shift: 64 - size.trailing_zeros() }
    }

    #[inline(always)]
    fn home(page: u32, shift: u32) -> usize {
        (u64::from(page).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> shift) as usize
    }

    #[inline(always)]
    pub fn get(&self, page: u32) -> u32 {
        match self {
            Index::Flat(table) => table[page as usize].wrapping_sub(1),
            Index::Hashed { table, shift } => {
                let mut at = Index::home(page, *shift);
                loop {
                    let entry = table[at];
                    if (entry >> 32) as u32 == page && entry != EMPTY {
                        return entry as u32;
                    }
                    if entry == EMPTY {
                        return NONE;
                    }
                    at = (at + 1) & (table.len() - 1);
                }
            }
        }
    }

    #[inline]
    pub fn insert(&mut self, page: u32, value: u32) {
        match self {
            Index::Flat(table) => table[page as usize] = value + 1,
            Index::Hashed { table, shift } => {
                let mut at = Index::home(page, *shift);
                while table[at] != EMPTY {
                    at = (at + 1) & (table.len() - 1);
                }
                table[at] = u64::from(page) << 32 | u64::from(value);
            }
        }
    }

    #[inline]
    pub fn remove(&mut self, page: u32) {
        match self {
            Index::Flat(table) => table[page as usize] = 0,
            Index::Hashed { table, shift } => {
                let last = table.len() - 1;
                let mut at = Index::home(page, *shift);
                while (table[at] >> 32) as u32 != page || table[at] == EMPTY {
                    at = (at + 1) & last;
                }
                // Backward shift: no tombstones, so look-ups stay short for ever.
                let mut hole = at;
                loop {
                    at = (at + 1) & last;
                    let entry = table[at];
                    if entry == EMPTY {
                        break;
                    }
                    let home = Index::home((entry >> 32) as u32, *shift);
                    if at.wrapping_sub(home) & last >= at.wrapping_sub(hole) & last {
                        table[hole] = entry;
                        hole = at;
                    }
                }
                table[hole] = EMPTY;
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
        for pages in [1000, 1 << 24] {
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
