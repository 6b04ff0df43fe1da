//! New order and delivery: what makes orders and what ends them.

use rusqlite::{Connection, OptionalExtension, Result, params};

use super::draw::Draw;

/// A line of a new order.
#[derive(Clone, Debug)]
struct Line {
    item: u64,
    supply: u64,
    quantity: i64,
}

/// Clause 2.4. Whether it was committed: one in a hundred names an item that does not exist and
/// is rolled back after all else has been done.
pub fn new_order(db: &Connection, draw: &mut Draw, now: u64) -> Result<bool> {
    let (w, d) = (draw.warehouse(), draw.district());
    let c = draw.customer();
    let count = draw.rng.between(5, 15);
    let fails = draw.rng.ratio(1, 100);
    let lines: Vec<Line> = (1..=count)
        .map(|number| {
            let item = if fails && number == count { draw.no_item() } else { draw.item() };
            let supply = if draw.rng.ratio(1, 100) { draw.other_warehouse(w) } else { w };
            Line { item, supply, quantity: draw.rng.between(1, 10) as i64 }
        })
        .collect();
    let all_local = lines.iter().all(|line| line.supply == w);

    let work = db.unchecked_transaction()?;
    let w_tax: i64 = one(db, "SELECT w_tax FROM warehouse WHERE w_id = ?", params![w])?;
    let (d_tax, o): (i64, u64) = db
        .prepare_cached("SELECT d_tax, d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?")?
        .query_row([w, d], |row| Ok((row.get(0)?, row.get(1)?)))?;
    run(
        db,
        "UPDATE district SET d_next_o_id = ? WHERE d_w_id = ? AND d_id = ?",
        params![o + 1, w, d],
    )?;
    let (discount, _, _): (i64, String, String) = db
        .prepare_cached(
            "SELECT c_discount, c_last, c_credit FROM customer \
             WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
        )?
        .query_row([w, d, c], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    run(
        db,
        "INSERT INTO orders VALUES (?, ?, ?, ?, ?, NULL, ?, ?)",
        params![w, d, o, c, now, count, all_local],
    )?;
    run(db, "INSERT INTO new_order VALUES (?, ?, ?)", params![w, d, o])?;
    let mut sum = 0;
    for (number, line) in (1u64..).zip(&lines) {
        let price: Option<i64> = db
            .prepare_cached("SELECT i_price, i_name, i_data FROM item WHERE i_id = ?")?
            .query_row([line.item], |row| row.get(0))
            .optional()?;
        let Some(price) = price else {
            work.rollback()?;
            return Ok(false);
        };
        let amount = price * line.quantity;
        sum += amount;
        let info = take_stock(db, line, w, d)?;
        run(
            db,
            "INSERT INTO order_line VALUES (?, ?, ?, ?, ?, ?, NULL, ?, ?, ?)",
            params![w, d, o, number, line.item, line.supply, line.quantity, amount, info],
        )?;
    }
    let total =
        i128::from(sum) * i128::from(10_000 - discount) * i128::from(10_000 + w_tax + d_tax)
            / 100_000_000;
    debug_assert!(total > 0);
    work.commit()?;
    Ok(true)
}

/// Takes a line's quantity from its stock; the stock's text for the district.
fn take_stock(db: &Connection, line: &Line, w: u64, d: u64) -> Result<String> {
    let (left, info): (i64, String) = db
        .prepare_cached(STOCK[d as usize - 1])?
        .query_row([line.supply, line.item], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let refill = if left >= line.quantity + 10 { 0 } else { 91 };
    run(
        db,
        "UPDATE stock SET s_quantity = ?, s_ytd = s_ytd + ?, s_order_cnt = s_order_cnt + 1, \
         s_remote_cnt = s_remote_cnt + ? WHERE s_w_id = ? AND s_i_id = ?",
        params![
            left - line.quantity + refill,
            line.quantity,
            line.supply != w,
            line.supply,
            line.item
        ],
    )?;
    Ok(info)
}

/// The stock query of each district.
const STOCK: [&str; 10] = [
    "SELECT s_quantity, s_dist_01, s_data FROM stock WHERE s_w_id = ? AND s_i_id = ?",
    "SELECT s_quantity, s_dist_02, s_data FROM stock WHERE s_w_id = ? AND s_i_id = ?",
    "SELECT s_quantity, s_dist_03, s_data FROM stock WHERE s_w_id = ? AND s_i_id = ?",
    "SELECT s_quantity, s_dist_04, s_data FROM stock WHERE s_w_id = ? AND s_i_id = ?",
    "SELECT s_quantity, s_dist_05, s_data FROM stock WHERE s_w_id = ? AND s_i_id = ?",
    "SELECT s_quantity, s_dist_06, s_data FROM stock WHERE s_w_id = ? AND s_i_id = ?",
    "SELECT s_quantity, s_dist_07, s_data FROM stock WHERE s_w_id = ? AND s_i_id = ?",
    "SELECT s_quantity, s_dist_08, s_data FROM stock WHERE s_w_id = ? AND s_i_id = ?",
    "SELECT s_quantity, s_dist_09, s_data FROM stock WHERE s_w_id = ? AND s_i_id = ?",
    "SELECT s_quantity, s_dist_10, s_data FROM stock WHERE s_w_id = ? AND s_i_id = ?",
];

/// Clause 2.7: the oldest open order of every district of a warehouse. How many were delivered: a
/// district without open orders is skipped.
pub fn delivery(db: &Connection, draw: &mut Draw, now: u64) -> Result<u64> {
    let (w, carrier) = (draw.warehouse(), draw.rng.between(1, 10));
    let work = db.unchecked_transaction()?;
    let mut delivered = 0;
    for d in 1..=draw.scale.districts {
        let oldest: Option<u64> = one(
            db,
            "SELECT min(no_o_id) FROM new_order WHERE no_w_id = ? AND no_d_id = ?",
            params![w, d],
        )?;
        let Some(o) = oldest else { continue };
        run(
            db,
            "DELETE FROM new_order WHERE no_w_id = ? AND no_d_id = ? AND no_o_id = ?",
            params![w, d, o],
        )?;
        let c: u64 = one(
            db,
            "SELECT o_c_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?",
            params![w, d, o],
        )?;
        run(
            db,
            "UPDATE orders SET o_carrier_id = ? WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?",
            params![carrier, w, d, o],
        )?;
        run(
            db,
            "UPDATE order_line SET ol_delivery_d = ? \
             WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?",
            params![now, w, d, o],
        )?;
        let sum: i64 = one(
            db,
            "SELECT sum(ol_amount) FROM order_line \
             WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?",
            params![w, d, o],
        )?;
        run(
            db,
            "UPDATE customer SET c_balance = c_balance + ?, c_delivery_cnt = c_delivery_cnt + 1 \
             WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
            params![sum, w, d, c],
        )?;
        delivered += 1;
    }
    work.commit()?;
    Ok(delivered)
}

/// The one value of a query.
pub fn one<T: rusqlite::types::FromSql>(
    db: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
) -> Result<T> {
    db.prepare_cached(sql)?.query_row(params, |row| row.get(0))
}

/// A statement that changes rows.
pub fn run(db: &Connection, sql: &str, params: impl rusqlite::Params) -> Result<usize> {
    db.prepare_cached(sql)?.execute(params)
}
