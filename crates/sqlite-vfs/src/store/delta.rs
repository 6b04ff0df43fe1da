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

/// The first byte from `at` on that differs, or does not.
fn first(old: &[u8], new: &[u8], at: usize, differs: bool) -> usize {
    const WORD: usize = 8;
    let mut at = at;
    if differs {
        // Most of a page is the same: word by word.
        while at + WORD <= PAGE && old[at..at + WORD] == new[at..at + WORD] {
            at += WORD;
        }
    }
    while at < PAGE && (old[at] != new[at]) != differs {
        at += 1;
    }
    at
}

/// Calls `each` with the ranges of a page that differ from `old`; with all of it if there is no old
/// version, or if more than three quarters have changed.
pub(super) fn ranges(old: Option<&[u8]>, new: &[u8], mut each: impl FnMut(Range)) {
    let Some(old) = old else { return each(WHOLE) };
    let mut found = Vec::new();
    let mut changed = 0;
    let mut at = first(old, new, 0, true);
    while at < PAGE {
        let start = at;
        let mut end = first(old, new, at, false);
        loop {
            at = first(old, new, end, true);
            if at == PAGE || at - end > JOINED {
                break;
            }
            end = first(old, new, at, false);
        }
        changed += end - start;
        found.push(Range { at: start, length: end - start });
    }
    if changed > PAGE / 4 * 3 {
        return each(WHOLE);
    }
    found.into_iter().for_each(each);
}

#[cfg(test)]
mod tests {
    use block::Rng;

    use super::*;

    fn all(old: Option<&[u8]>, new: &[u8]) -> Vec<Range> {
        let mut found = Vec::new();
        ranges(old, new, |range| found.push(range));
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
