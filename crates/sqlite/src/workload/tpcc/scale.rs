//! How large the database is, and in which shares the transactions come.

use block::Rng;
use workload::generate::tpcc::{Deck, Transaction};

/// Numbers of rows. The standard fixes all but the warehouses; a test takes fewer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scale {
    /// Warehouses.
    pub warehouses: u64,
    /// Districts of a warehouse, at most 10.
    pub districts: u64,
    /// Customers of a district, and its orders at the start; the last 30 % are not delivered yet.
    pub customers: u64,
    /// Items, and stock rows of a warehouse.
    pub items: u64,
}

impl Scale {
    /// The standard's numbers.
    pub const fn full(warehouses: u64) -> Scale {
        Scale { warehouses, districts: 10, customers: 3000, items: 100_000 }
    }

    /// Rows divided by `by`, districts as they are.
    pub const fn reduced(warehouses: u64, by: u64) -> Scale {
        Scale { warehouses, districts: 10, customers: 3000 / by, items: 100_000 / by }
    }
}

/// Shares of new order, payment, order status, delivery, stock level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mix {
    /// Shuffled decks of 10 : 10 : 1 : 1 : 1: what "43/43/4/4/4", which sums to 98, is rounded from.
    Deck,
    /// 43, 43, 4, 4, 4 of 98, drawn.
    Printed,
    /// 45, 43, 4, 4, 4 per cent, drawn.
    Standard,
}

/// The transactions of a mix, one after the other.
#[derive(Clone, Debug)]
pub enum Turns {
    /// From a deck.
    Deck(Deck),
    /// Drawn with the share of new orders given, payments 43, the others 4.
    Drawn(u64, Rng),
}

impl Turns {
    /// The transactions of a mix.
    pub fn new(mix: Mix, rng: Rng) -> Turns {
        match mix {
            Mix::Deck => Turns::Deck(Deck::new(rng)),
            Mix::Printed => Turns::Drawn(43, rng),
            Mix::Standard => Turns::Drawn(45, rng),
        }
    }

    /// The next one.
    pub fn next(&mut self) -> Transaction {
        let (new_orders, rng) = match self {
            Turns::Deck(deck) => return deck.deal(),
            Turns::Drawn(new_orders, rng) => (*new_orders, rng),
        };
        let mut at = rng.below(new_orders + 43 + 3 * 4);
        for (share, transaction) in [
            (new_orders, Transaction::NewOrder),
            (43, Transaction::Payment),
            (4, Transaction::OrderStatus),
            (4, Transaction::Delivery),
        ] {
            if at < share {
                return transaction;
            }
            at -= share;
        }
        Transaction::StockLevel
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_have_their_shares() {
        use Transaction::{Delivery, NewOrder, OrderStatus, Payment, StockLevel};
        let kinds = [NewOrder, Payment, OrderStatus, Delivery, StockLevel];
        for (mix, shares, of) in [
            (Mix::Deck, [10, 10, 1, 1, 1], 23),
            (Mix::Printed, [43, 43, 4, 4, 4], 98),
            (Mix::Standard, [45, 43, 4, 4, 4], 100),
        ] {
            let mut turns = Turns::new(mix, Rng::new(1));
            let mut counts = [0u64; 5];
            for _ in 0..100_000 {
                let turn = turns.next();
                counts[kinds.iter().position(|k| *k == turn).unwrap()] += 1;
            }
            for (count, share) in counts.iter().zip(shares) {
                assert!(count.abs_diff(100_000 * share / of) < 500, "{mix:?} {counts:?}");
            }
        }
    }
}
