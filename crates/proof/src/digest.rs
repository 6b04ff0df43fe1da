//! A digest of what runs came to, put together in any order and from any parts.
//!
//! Each run is digested by itself (SHA-256), its seed included, and the digests are added as numbers of 256 bits.
//! So the sum of a range of seeds is that of its parts, whoever ran them, on however many threads and in whichever
//! order; and as every seed is in its own digest, it says which seeds they were. It tells runs apart that
//! differ by accident; it is no defence against who wants two sums to be equal.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

/// The name of a digest's layout: what is digested of a run, and how they are added.
const LAYOUT: &str = "sum2";
const BYTES: usize = 32;

/// The sum of the digests of some runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RunsDigest([u8; BYTES]);

impl RunsDigest {
    /// Adds what is known of one run.
    pub fn add(&mut self, run: &str) {
        self.merge(&RunsDigest(Sha256::digest(run.as_bytes()).into()));
    }

    /// Adds the sum of other runs.
    pub fn merge(&mut self, other: &RunsDigest) {
        let mut carry = 0;
        for (mine, theirs) in self.0.iter_mut().zip(&other.0).rev() {
            let sum = u16::from(*mine) + u16::from(*theirs) + carry;
            *mine = (sum & 0xff) as u8;
            carry = sum >> 8;
        }
    }
}

impl fmt::Display for RunsDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{LAYOUT}:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for RunsDigest {
    type Err = String;
    fn from_str(text: &str) -> Result<RunsDigest, String> {
        let digits = text.strip_prefix(LAYOUT).and_then(|rest| rest.strip_prefix(':'));
        let digits =
            digits.filter(|d| d.len() == 2 * BYTES && d.bytes().all(|b| b.is_ascii_hexdigit()));
        let digits = digits.ok_or_else(|| {
            format!("found `{text}`, expected {LAYOUT}: and {} hex digits", 2 * BYTES)
        })?;
        let mut sum = [0; BYTES];
        for (i, byte) in sum.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).map_err(|e| e.to_string())?;
        }
        Ok(RunsDigest(sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(runs: &[&str]) -> RunsDigest {
        let mut sum = RunsDigest::default();
        runs.iter().for_each(|run| sum.add(run));
        sum
    }

    #[test]
    fn a_sum_is_that_of_its_parts_in_any_order() {
        let whole = of(&["1", "2", "3", "4"]);
        assert_eq!(whole, of(&["4", "2", "1", "3"]));
        let mut parts = of(&["3", "1"]);
        parts.merge(&of(&["2", "4"]));
        assert_eq!(whole, parts);
        assert_ne!(whole, of(&["1", "2", "3"]));
        assert_ne!(whole, of(&["1", "2", "3", "5"]));
    }

    #[test]
    fn a_carry_goes_through_all_bytes_and_is_dropped_at_the_end() {
        let (mut most, mut one) = ([0xff; BYTES], [0; BYTES]);
        one[BYTES - 1] = 1;
        let mut sum = RunsDigest(most);
        sum.merge(&RunsDigest(one));
        assert_eq!(sum, RunsDigest::default());
        (most[0], one[BYTES - 1]) = (0, 2);
        let mut sum = RunsDigest(most);
        sum.merge(&RunsDigest(one));
        let mut expected = [0; BYTES];
        (expected[0], expected[BYTES - 1]) = (1, 1);
        assert_eq!(sum, RunsDigest(expected));
    }

    #[test]
    fn its_text_is_read_again_and_nothing_else_is() {
        let sum = of(&["a run"]);
        assert_eq!(sum.to_string().parse(), Ok(sum));
        let text = sum.to_string();
        for wrong in
            ["", "sum2:", &text[..text.len() - 1], &text[5..], &format!("{text}0"), "sum1:00"]
        {
            assert!(wrong.parse::<RunsDigest>().is_err(), "{wrong}");
        }
    }
}
