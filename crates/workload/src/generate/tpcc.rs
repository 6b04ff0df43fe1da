//! TPC-C's draws: the non-uniform numbers, the last names, the deck of transactions.

use block::Rng;

/// The five transactions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Transaction {
    /// New order.
    NewOrder,
    /// Payment.
    Payment,
    /// Order status.
    OrderStatus,
    /// Delivery.
    Delivery,
    /// Stock level.
    StockLevel,
}

/// The deck of 10 : 10 : 1 : 1 : 1 cards, dealt to its end and then shuffled again: 43.48, 43.48,
/// 4.35, 4.35 and 4.35 %. Paper 4's "43/43/4/4/4" is this, rounded down.
#[derive(Clone, Debug)]
pub struct Deck {
    cards: [Transaction; 23],
    dealt: usize,
    rng: Rng,
}

impl Deck {
    /// A deck to be shuffled by `rng`.
    pub fn new(rng: Rng) -> Deck {
        use Transaction::{Delivery, NewOrder, OrderStatus, Payment, StockLevel};
        let mut cards = [NewOrder; 23];
        cards[10..20].fill(Payment);
        cards[20..].copy_from_slice(&[OrderStatus, Delivery, StockLevel]);
        Deck { cards, dealt: 23, rng }
    }

    /// The next card.
    pub fn deal(&mut self) -> Transaction {
        if self.dealt == self.cards.len() {
            self.dealt = 0;
            // Fisher and Yates.
            for last in (1..self.cards.len()).rev() {
                self.cards.swap(last, self.rng.below(last as u64 + 1) as usize);
            }
        }
        self.dealt += 1;
        self.cards[self.dealt - 1]
    }
}

/// `NURand(A, x, y) = (((rand(0, A) | rand(x, y)) + C) mod (y − x + 1)) + x`, with its three C
/// values drawn once for a run.
#[derive(Clone, Debug)]
pub struct NuRand {
    name: u64,
    customer: u64,
    item: u64,
}

impl NuRand {
    /// Draws the three C values.
    pub fn new(rng: &mut Rng) -> NuRand {
        NuRand {
            name: rng.between(0, 255),
            customer: rng.between(0, 1023),
            item: rng.between(0, 8191),
        }
    }

    fn draw(a: u64, c: u64, low: u64, high: u64, rng: &mut Rng) -> u64 {
        let mixed = rng.between(0, a) | rng.between(low, high);
        (mixed + c) % (high - low + 1) + low
    }

    /// The number of a last name, 0 to 999 (A = 255).
    pub fn last_name(&self, rng: &mut Rng) -> u64 {
        NuRand::draw(255, self.name, 0, 999, rng)
    }

    /// A customer of a district, 1 to `customers` (3000 in full scale; A = 1023).
    pub fn customer(&self, customers: u64, rng: &mut Rng) -> u64 {
        NuRand::draw(1023, self.customer, 1, customers, rng)
    }

    /// An item, 1 to `items` (100,000 in full scale; A = 8191).
    pub fn item(&self, items: u64, rng: &mut Rng) -> u64 {
        NuRand::draw(8191, self.item, 1, items, rng)
    }
}

/// The last name of a number from 0 to 999: one syllable for each digit.
pub fn last_name(number: u64) -> String {
    const SYLLABLES: [&str; 10] =
        ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
    assert!(number < 1000, "last name {number}");
    let digits = [number / 100, number / 10 % 10, number % 10];
    digits.map(|digit| SYLLABLES[digit as usize]).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_deck_holds_its_cards_in_another_order() {
        let mut deck = Deck::new(Rng::new(1));
        let deal = |deck: &mut Deck| -> Vec<Transaction> { (0..23).map(|_| deck.deal()).collect() };
        let (first, second) = (deal(&mut deck), deal(&mut deck));
        assert_ne!(first, second);
        for mut cards in [first, second] {
            cards.sort_unstable();
            let count = |t| cards.iter().filter(|card| **card == t).count();
            use Transaction::{Delivery, NewOrder, OrderStatus, Payment, StockLevel};
            let counts = [NewOrder, Payment, OrderStatus, Delivery, StockLevel].map(count);
            assert_eq!(counts, [10, 10, 1, 1, 1]);
        }
    }

    #[test]
    fn nurand_has_the_law_of_its_definition() {
        let mut rng = Rng::new(2);
        let nurand = NuRand::new(&mut rng);
        // Every pair of the two draws, counted.
        let mut law = vec![0f64; 1000];
        for a in 0..256u64 {
            for b in 0..1000u64 {
                law[(((a | b) + nurand.name) % 1000) as usize] += 1.0 / 256_000.0;
            }
        }
        let (draws, mut counts) = (2_000_000, vec![0f64; 1000]);
        for _ in 0..draws {
            counts[nurand.last_name(&mut rng) as usize] += 1.0;
        }
        let expected = |p: f64| p * f64::from(draws);
        let cells = counts.iter().zip(&law).filter(|(_, p)| expected(**p) > 5.0);
        let chi: f64 = cells.clone().map(|(c, p)| (c - expected(*p)).powi(2) / expected(*p)).sum();
        // The 0.1 % point for k degrees of freedom is near k + 3.1 sqrt(2 k) + 6.
        let k = cells.count() as f64;
        assert!(chi < k + 3.1 * (2.0 * k).sqrt() + 6.0, "{chi} with {k} cells");
        let range = |n: u64, most: u64| (1..=most).contains(&n);
        assert!((0..10_000).all(|_| range(nurand.customer(3000, &mut rng), 3000)));
        assert!((0..10_000).all(|_| range(nurand.item(100_000, &mut rng), 100_000)));
    }

    #[test]
    fn last_names() {
        assert_eq!(last_name(0), "BARBARBAR");
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(999), "EINGEINGEING");
    }
}
