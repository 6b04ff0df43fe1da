//! Payment, order status and stock level.

use rusqlite::{Connection, OptionalExtension, Result, params};

use super::draw::{Customer, Draw};
use super::orders::{one, run};

/// Clause 2.5.
pub fn payment(db: &Connection, draw: &mut Draw, now: u64) -> Result<()> {
    let (w, d) = (draw.warehouse(), draw.district());
    let (c_w, c_d) = match draw.rng.ratio(85, 100) {
        true => (w, d),
        false => (draw.other_warehouse(w), draw.district()),
    };
    let customer = draw.named_customer();
    let amount = draw.rng.between(100, 500_000) as i64;

    let work = db.unchecked_transaction()?;
    run(db, "UPDATE warehouse SET w_ytd = w_ytd + ? WHERE w_id = ?", params![amount, w])?;
    let w_name: String = one(
        db,
        "SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse \
         WHERE w_id = ?",
        params![w],
    )?;
    run(
        db,
        "UPDATE district SET d_ytd = d_ytd + ? WHERE d_w_id = ? AND d_id = ?",
        params![amount, w, d],
    )?;
    let d_name: String = one(
        db,
        "SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district \
         WHERE d_w_id = ? AND d_id = ?",
        params![w, d],
    )?;
    let c = number(db, [c_w, c_d], &customer)?;
    let (credit, data): (String, String) = db
        .prepare_cached(
            "SELECT c_credit, c_data FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
        )?
        .query_row([c_w, c_d, c], |row| Ok((row.get(0)?, row.get(1)?)))?;
    run(
        db,
        "UPDATE customer SET c_balance = c_balance - ?1, c_ytd_payment = c_ytd_payment + ?1, \
         c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = ?2 AND c_d_id = ?3 AND c_id = ?4",
        params![amount, c_w, c_d, c],
    )?;
    if credit == "BC" {
        let mut text = format!("{c} {c_d} {c_w} {d} {w} {amount} {data}");
        text.truncate(500);
        run(
            db,
            "UPDATE customer SET c_data = ? WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
            params![text, c_w, c_d, c],
        )?;
    }
    run(
        db,
        "INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        params![c, c_d, c_w, d, w, now, amount, format!("{w_name}    {d_name}")],
    )?;
    work.commit()
}

/// The customer's number; of several of one name the middle one by first name, rounded up.
fn number(db: &Connection, [w, d]: [u64; 2], customer: &Customer) -> Result<u64> {
    let name = match customer {
        Customer::Number(c) => return Ok(*c),
        Customer::LastName(name) => name,
    };
    let mut select = db.prepare_cached(
        "SELECT c_id FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ? \
         ORDER BY c_first",
    )?;
    let found: Vec<u64> =
        select.query_map(params![w, d, name], |row| row.get(0))?.collect::<Result<_>>()?;
    let middle = found.len().div_ceil(2).checked_sub(1);
    middle.map(|at| found[at]).ok_or(rusqlite::Error::QueryReturnedNoRows)
}

/// Clause 2.6. Lines of the customer's last order; 0 if there is none.
pub fn order_status(db: &Connection, draw: &mut Draw) -> Result<u64> {
    let (w, d) = (draw.warehouse(), draw.district());
    let customer = draw.named_customer();
    let work = db.unchecked_transaction()?;
    let c = number(db, [w, d], &customer)?;
    let _balance: i64 = one(
        db,
        "SELECT c_balance, c_first, c_middle, c_last FROM customer \
         WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
        params![w, d, c],
    )?;
    let last: Option<u64> = db
        .prepare_cached(
            "SELECT o_id, o_entry_d, o_carrier_id FROM orders \
             WHERE o_w_id = ? AND o_d_id = ? AND o_c_id = ? ORDER BY o_id DESC LIMIT 1",
        )?
        .query_row([w, d, c], |row| row.get(0))
        .optional()?;
    let mut lines = 0;
    if let Some(o) = last {
        let mut select = db.prepare_cached(
            "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d \
             FROM order_line WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?",
        )?;
        let mut rows = select.query([w, d, o])?;
        while rows.next()?.is_some() {
            lines += 1;
        }
    }
    work.commit()?;
    Ok(lines)
}

/// Clause 2.8. Items of the last 20 orders of a district with little stock.
pub fn stock_level(db: &Connection, draw: &mut Draw) -> Result<u64> {
    let (w, d, threshold) = (draw.warehouse(), draw.district(), draw.rng.between(10, 20));
    let work = db.unchecked_transaction()?;
    let next: u64 =
        one(db, "SELECT d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?", params![w, d])?;
    let low = one(
        db,
        "SELECT count(DISTINCT s_i_id) FROM order_line, stock \
         WHERE ol_w_id = ?1 AND ol_d_id = ?2 AND ol_o_id >= ?3 AND ol_o_id < ?4 \
         AND s_w_id = ?1 AND s_i_id = ol_i_id AND s_quantity < ?5",
        params![w, d, next.saturating_sub(20), next, threshold],
    )?;
    work.commit()?;
    Ok(low)
}
