//! TPC-C over SQLite: the standard's tables, its five transactions, one connection.
//!
//! Every input is drawn before its transaction begins, so that a refused transaction changes no
//! later one. Times are the number of the transaction: no clock is read.

mod consistency;
mod customers;
mod draw;
mod load;
mod orders;
mod scale;
mod schema;
mod text;

use block::Rng;
use rusqlite::{Connection, Result};
use workload::generate::tpcc::{NuRand, Transaction};

pub use consistency::broken;
pub use scale::{Mix, Scale};

use super::Each;
use draw::Draw;
use scale::Turns;

/// What the transactions did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Done {
    /// New orders committed: what tpmC counts.
    pub new_orders: u64,
    /// New orders rolled back, as one in a hundred must be.
    pub rolled_back: u64,
    /// Payments.
    pub payments: u64,
    /// Order status queries.
    pub order_statuses: u64,
    /// Deliveries.
    pub deliveries: u64,
    /// Orders they delivered.
    pub delivered: u64,
    /// Stock level queries.
    pub stock_levels: u64,
}

impl Done {
    /// Transactions of all kinds.
    pub fn transactions(&self) -> u64 {
        self.new_orders
            + self.rolled_back
            + self.payments
            + self.order_statuses
            + self.deliveries
            + self.stock_levels
    }
}

/// The terminal of one connection.
#[derive(Clone, Debug)]
pub struct Tpcc {
    draw: Draw,
    turns: Turns,
    seed: u64,
    now: u64,
}

impl Tpcc {
    /// A terminal for a database of this scale.
    pub fn new(scale: Scale, mix: Mix, seed: u64) -> Tpcc {
        assert!((1..=10).contains(&scale.districts), "{} districts", scale.districts);
        assert!(scale.warehouses > 0 && scale.customers > 0 && scale.items > 0, "{scale:?}");
        let mut rng = Rng::stream(seed, "tpcc/inputs");
        let nurand = NuRand::new(&mut rng);
        let turns = Turns::new(mix, Rng::stream(seed, "tpcc/turns"));
        Tpcc { draw: Draw { scale, rng, nurand }, turns, seed, now: 0 }
    }

    /// Makes the tables and their initial rows.
    ///
    /// # Errors
    /// SQLite's.
    pub fn load(&self, db: &mut Connection) -> Result<()> {
        load::load(db, self.draw.scale, self.seed, &self.draw.nurand)
    }

    /// `count` transactions of the mix.
    ///
    /// # Errors
    /// SQLite's.
    pub fn run(&mut self, db: &Connection, count: u64, each: Each<'_>) -> Result<Done> {
        let mut done = Done::default();
        db.set_prepared_statement_cache_capacity(64);
        for _ in 0..count {
            self.now += 1;
            match self.turns.next() {
                Transaction::NewOrder => match orders::new_order(db, &mut self.draw, self.now)? {
                    true => done.new_orders += 1,
                    false => done.rolled_back += 1,
                },
                Transaction::Payment => {
                    customers::payment(db, &mut self.draw, self.now)?;
                    done.payments += 1;
                }
                Transaction::OrderStatus => {
                    customers::order_status(db, &mut self.draw)?;
                    done.order_statuses += 1;
                }
                Transaction::Delivery => {
                    done.delivered += orders::delivery(db, &mut self.draw, self.now)?;
                    done.deliveries += 1;
                }
                Transaction::StockLevel => {
                    customers::stock_level(db, &mut self.draw)?;
                    done.stock_levels += 1;
                }
            }
            each();
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALE: Scale = Scale { warehouses: 2, districts: 3, customers: 120, items: 400 };

    fn value(db: &Connection, sql: &str) -> i64 {
        db.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    fn loaded(mix: Mix) -> (Connection, Tpcc) {
        let mut db = Connection::open_in_memory().unwrap();
        let tpcc = Tpcc::new(SCALE, mix, 11);
        tpcc.load(&mut db).unwrap();
        (db, tpcc)
    }

    #[test]
    fn the_population_has_the_standards_numbers() {
        let (db, _) = loaded(Mix::Deck);
        let count = |table: &str| value(&db, &format!("SELECT count(*) FROM {table}"));
        assert_eq!(["warehouse", "district", "item"].map(count), [2, 6, 400]);
        assert_eq!(["customer", "history", "orders", "stock"].map(count), [720, 720, 720, 800]);
        assert_eq!(count("new_order"), 6 * 36);
        let open = "SELECT count(*) FROM orders WHERE o_carrier_id IS NULL";
        assert_eq!(value(&db, open), 6 * 36);
        assert_eq!(value(&db, "SELECT count(DISTINCT o_c_id) FROM orders WHERE o_d_id = 1"), 120);
        assert!((3600..=10_800).contains(&count("order_line")));
        assert_eq!(broken(&db).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn consistency_holds_after_a_run_of_every_mix() {
        for mix in [Mix::Deck, Mix::Printed, Mix::Standard] {
            let (db, mut tpcc) = loaded(mix);
            let mut calls = 0;
            let done = tpcc.run(&db, 2300, &mut || calls += 1).unwrap();
            assert_eq!((done.transactions(), calls), (2300, 2300));
            assert_eq!(broken(&db).unwrap(), Vec::<String>::new(), "{mix:?}");
            let orders = value(&db, "SELECT count(*) FROM orders") as u64;
            assert_eq!(orders, 720 + done.new_orders);
            let open = value(&db, "SELECT count(*) FROM new_order") as u64;
            assert_eq!(open, 216 + done.new_orders - done.delivered);
            let paid = value(&db, "SELECT count(*) FROM history") as u64;
            assert_eq!(paid, 720 + done.payments);
            // 1 % of a thousand; the seed is fixed.
            assert!((3..=20).contains(&done.rolled_back), "{done:?}");
            if mix == Mix::Deck {
                assert_eq!(done.new_orders + done.rolled_back, 1000);
                assert_eq!([done.payments, done.deliveries, done.stock_levels], [1000, 100, 100]);
            }
        }
    }

    #[test]
    fn money_moves_as_the_standard_says() {
        let (db, mut tpcc) = loaded(Mix::Standard);
        tpcc.run(&db, 1000, &mut || ()).unwrap();
        // What customers have paid since the start is what warehouses have taken in.
        let paid = value(&db, "SELECT sum(h_amount) FROM history") - 720 * 1000;
        let taken = value(&db, "SELECT sum(w_ytd) FROM warehouse") - 6 * 3_000_000;
        assert!(paid > 0 && paid == taken, "{paid} {taken}");
        // Balances: what was delivered since the start, less what was paid.
        let delivered = value(&db, "SELECT sum(ol_amount) FROM order_line WHERE ol_delivery_d > 0");
        let balance = value(&db, "SELECT sum(c_balance) FROM customer");
        assert_eq!(balance, delivered - paid - 720 * 1000);
        let quantity = value(&db, "SELECT min(s_quantity) FROM stock");
        assert!((0..=100).contains(&quantity), "{quantity}");
        // 1 % of lines and 15 % of payments go to another warehouse.
        let new = "FROM order_line WHERE ol_o_id > 120";
        let lines = value(&db, &format!("SELECT count(*) {new}"));
        let remote = value(&db, &format!("SELECT count(*) {new} AND ol_supply_w_id <> ol_w_id"));
        assert!(remote > 0 && remote * 100 < lines * 3, "{remote} of {lines}");
        assert_eq!(value(&db, "SELECT sum(s_remote_cnt) FROM stock"), remote);
        let away = value(&db, "SELECT count(*) FROM history WHERE h_c_w_id <> h_w_id");
        assert!((40..90).contains(&away), "{away} of about 430");
    }

    #[test]
    fn broken_conditions_are_seen() {
        for (statement, number) in [
            ("UPDATE district SET d_ytd = d_ytd + 1 WHERE d_w_id = 1 AND d_id = 2", "1:"),
            ("UPDATE district SET d_next_o_id = 500 WHERE d_w_id = 2 AND d_id = 1", "2:"),
            ("DELETE FROM new_order WHERE no_o_id = 100 AND no_d_id = 1", "3:"),
            ("DELETE FROM order_line WHERE ol_o_id = 7 AND ol_number = 1", "4:"),
        ] {
            let (db, _) = loaded(Mix::Deck);
            db.execute(statement, []).unwrap();
            let found = broken(&db).unwrap();
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with(number), "{found:?}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_database() {
        let dump = || {
            let (db, mut tpcc) = loaded(Mix::Standard);
            let done = tpcc.run(&db, 300, &mut || ()).unwrap();
            let customers = "SELECT sum(c_balance * c_id) + sum(length(c_data)) FROM customer";
            (done, value(&db, customers), value(&db, "SELECT sum(s_quantity * s_i_id) FROM stock"))
        };
        assert_eq!(dump(), dump());
    }
}
