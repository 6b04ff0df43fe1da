//! What of a page has changed: the ranges that differ between two versions of it.
//!
//! Invariants:
//! * the ranges of a page put over the old version give the new one;
//! * they ascend, do not touch, and none begins or ends with a byte that is the same in both;
//! * a page without an old version is one range: all of it.

use super::table::PAGE;

/// Bytes that are the same and yet part of a range: fewer than to begin another one.
const JOINED: usize = 8;

/// Bytes of a page that have changed, by their place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Range {
    pub(super) at: usize,
    pub(super) length: usize,
}

const WHOLE: Range = Range { at: 0, length: PAGE };

type Page = [u8; PAGE];

/// The first byte from `at` on that differs; the end if none does.
fn differs(old: &Page, new: &Page, at: usize) -> usize {
    const LINE: usize = 64;
    const WORD: usize = 8;
    let mut at = at;
    // Most of a page is the same.
    for size in [LINE, WORD] {
        while at + size <= PAGE && old[at..at + size] == new[at..at + size] {
            at += size;
        }
    }
    while at < PAGE && old[at] == new[at] {
        at += 1;
    }
    at
}

/// The next bytes behind `at`, which differs, that are the same and too many to be part of a range, or the last ones of
/// the page: where they begin and end.
fn same(old: &Page, new: &Page, at: usize) -> (usize, usize) {
    // So many of them in a row hold one of these words at its own place, wherever they begin.
    const WORD: usize = 4;
    const { assert!(JOINED >= 2 * WORD - 2) };
    let begin = |mut from: usize| {
        while old[from - 1] == new[from - 1] {
            from -= 1;
        }
        from
    };
    let mut word = at / WORD * WORD;
    while word < PAGE {
        if old[word..word + WORD] != new[word..word + WORD] {
            word += WORD;
            continue;
        }
        let (from, to) = (begin(word), differs(old, new, word + WORD));
        if to == PAGE || to - from > JOINED {
            return (from, to);
        }
        word = to / WORD * WORD;
    }
    (begin(PAGE), PAGE)
}

/// The ranges of a page that differ from `old`, in `found`; all of it if there is no old version, or if more
/// than three quarters have changed.
pub(super) fn ranges(old: Option<&[u8]>, new: &[u8], found: &mut Vec<Range>) {
    found.clear();
    let old = old.and_then(|old| old.try_into().ok());
    let (Some(old), Ok(new)) = (old, new.try_into()) else { return found.push(WHOLE) };
    let mut changed = 0;
    let mut at = differs(old, new, 0);
    while at < PAGE {
        let (end, next) = same(old, new, at);
        changed += end - at;
        found.push(Range { at, length: end - at });
        at = next;
    }
    if changed > PAGE / 4 * 3 {
        found.clear();
        found.push(WHOLE);
    }
}

#[cfg(test)]
mod tests {
    use block::Rng;

    use super::*;

    fn all(old: Option<&[u8]>, new: &[u8]) -> Vec<Range> {
        let mut found = Vec::new();
        ranges(old, new, &mut found);
        found
    }

    #[test]
    fn old_and_ranges_give_new() {
        let mut rng = Rng::new(7);
        for round in 0..4_000 {
            let old: Vec<u8> = (0..PAGE).map(|_| rng.below(3) as u8).collect();
            let mut new = old.clone();
            for _ in 0..rng.below(40) {
                let from = rng.below(PAGE as u64) as usize;
                let most = 1 << rng.below(12);
                let length = (rng.below(most) as usize + 1).min(PAGE - from);
                for byte in &mut new[from..from + length] {
                    *byte = rng.below(3) as u8;
                }
            }
            let found = all(Some(&old), &new);
            let mut made = old.clone();
            for range in &found {
                let part = range.at..range.at + range.length;
                made[part.clone()].copy_from_slice(&new[part]);
            }
            assert!(made == new, "round {round}: {found:?}");
            assert_eq!(found.is_empty(), old == new);
            for pair in found.windows(2) {
                assert!(pair[0].at + pair[0].length + JOINED < pair[1].at, "{pair:?}");
            }
            let differs = |at: usize| old[at] != new[at];
            assert!(
                found == [WHOLE]
                    || found.iter().all(|r| differs(r.at) && differs(r.at + r.length - 1)),
                "round {round}: {found:?}"
            );
        }
    }

    #[test]
    fn borders_gaps_and_pages_that_are_new_or_nearly_so() {
        let old = [0; PAGE];
        let changed = |places: &[usize]| {
            let mut new = old;
            places.iter().for_each(|at| new[*at] = 1);
            all(Some(&old), &new)
        };
        let one = |at| Range { at, length: 1 };
        assert_eq!(changed(&[0, PAGE - 1]), [one(0), one(PAGE - 1)]);
        assert_eq!(changed(&[10, 19]), [Range { at: 10, length: 10 }], "eight between them");
        assert_eq!(changed(&[10, 20]), [one(10), one(20)], "nine");
        assert_eq!(all(None, &old), [WHOLE]);
        let mut most = old;
        most[..PAGE / 4 * 3].fill(1);
        assert_eq!(all(Some(&old), &most), [Range { at: 0, length: PAGE / 4 * 3 }]);
        most[..PAGE / 4 * 3 + 1].fill(1);
        assert_eq!(all(Some(&old), &most), [WHOLE]);
    }
}
