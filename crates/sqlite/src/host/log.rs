//! Where the parts of a WAL file lie: a header of 32 bytes, then frames of 24 bytes and a page.

use std::ops::RangeInclusive;

const PAGE: u64 = 4096;
const HEADER: u64 = 32;
const FRAME_HEADER: u64 = 24;
const FRAME: u64 = FRAME_HEADER + PAGE;

/// The parts that a range of a WAL file touches, in a log whose page images are aligned and whose
/// headers are apart: pages of headers, and page images by frame.
pub struct Parts {
    /// Pages of the header area.
    pub headers: Option<RangeInclusive<u64>>,
    /// Frames whose page image is touched.
    pub images: Option<RangeInclusive<u64>>,
}

/// The parts of bytes `at .. at + bytes`, `bytes` at least 1.
pub fn parts(at: u64, bytes: u64) -> Parts {
    let last = at + bytes - 1;
    // The first and last header bytes in the range, as offsets in the header area.
    let apart = |offset: u64| match offset.checked_sub(HEADER) {
        None => offset,
        Some(rest) => HEADER + rest / FRAME * FRAME_HEADER + (rest % FRAME).min(FRAME_HEADER),
    };
    let (first_header, end_header) = (apart(at), apart(last + 1));
    let headers =
        (first_header < end_header).then(|| first_header / PAGE..=(end_header - 1) / PAGE);
    // An image begins behind its frame's header; the first one that ends behind `at`.
    let from = at.saturating_sub(HEADER) / FRAME;
    let to = last.checked_sub(HEADER + FRAME_HEADER).map(|rest| rest / FRAME);
    let images = to.filter(|to| from <= *to).map(|to| from..=to);
    Parts { headers, images }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_those_of_every_single_byte() {
        let mut rng = block::Rng::new(1);
        let frame = |offset: u64| (offset - HEADER) / FRAME;
        let is_header = |offset: u64| offset < HEADER || (offset - HEADER) % FRAME < FRAME_HEADER;
        for _ in 0..300 {
            let (at, bytes) = (rng.below(3 * FRAME), rng.between(1, 2 * FRAME));
            let (mut headers, mut images) = (Vec::new(), Vec::new());
            for offset in at..at + bytes {
                match is_header(offset) {
                    true if offset < HEADER => headers.push(0),
                    true => {
                        let inside = (offset - HEADER) % FRAME;
                        headers.push((HEADER + frame(offset) * FRAME_HEADER + inside) / PAGE);
                    }
                    false => images.push(frame(offset)),
                }
            }
            let parts = parts(at, bytes);
            let ends = |list: &[u64]| Some(*list.first()?..=*list.last()?);
            assert_eq!(parts.headers, ends(&headers), "{at} {bytes}");
            assert_eq!(parts.images, ends(&images), "{at} {bytes}");
        }
    }
}
