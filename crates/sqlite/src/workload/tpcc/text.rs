//! Random texts of the rows.

use block::Rng;

const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// Letters and digits, `low` to `high` of them.
pub fn letters(rng: &mut Rng, low: u64, high: u64) -> String {
    (0..rng.between(low, high)).map(|_| char::from(*rng.pick(LETTERS))).collect()
}

/// Exactly `count` digits.
pub fn digits(rng: &mut Rng, count: u64) -> String {
    (0..count).map(|_| char::from(b'0' + rng.below(10) as u8)).collect()
}

/// Data of items and stock: 26 to 50 letters, with ORIGINAL somewhere in one of ten.
pub fn original(rng: &mut Rng) -> String {
    let mut text = letters(rng, 26, 50);
    if rng.ratio(1, 10) {
        let at = rng.below(text.len() as u64 - 7) as usize;
        text.replace_range(at..at + 8, "ORIGINAL");
    }
    text
}

/// An address: two streets, city, state, zip.
pub fn address(rng: &mut Rng) -> [String; 5] {
    let zip = digits(rng, 4) + "11111";
    let state = (0..2).map(|_| char::from(b'A' + rng.below(26) as u8)).collect();
    [letters(rng, 10, 20), letters(rng, 10, 20), letters(rng, 10, 20), state, zip]
}

/// Numbers 1 to `count` in random order (Fisher and Yates).
pub fn permutation(rng: &mut Rng, count: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = (1..=count).collect();
    for last in (1..numbers.len()).rev() {
        numbers.swap(last, rng.below(last as u64 + 1) as usize);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_the_lengths_asked_for() {
        let mut rng = Rng::new(1);
        let mut originals = 0;
        for _ in 0..1000 {
            let text = original(&mut rng);
            assert!((26..=50).contains(&text.len()));
            originals += u32::from(text.contains("ORIGINAL"));
            assert!((3..=5).contains(&letters(&mut rng, 3, 5).len()));
        }
        assert!((60..140).contains(&originals), "{originals}");
        assert_eq!(address(&mut rng)[4].len(), 9);
        let mut numbers = permutation(&mut rng, 100);
        assert_ne!(numbers, (1..=100).collect::<Vec<_>>());
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=100).collect::<Vec<_>>());
    }
}
