//! The consistency conditions 1 to 4 of the standard (clause 3.3.2).

use rusqlite::{Connection, Result};

/// Each condition, and a query for the rows that break it.
const CONDITIONS: [(&str, &str); 4] = [
    (
        "1: a warehouse has taken in what its districts have",
        "SELECT count(*) FROM warehouse WHERE w_ytd <> \
         (SELECT sum(d_ytd) FROM district WHERE d_w_id = w_id)",
    ),
    (
        "2: the next order of a district follows its last order, and its last open one",
        "SELECT count(*) FROM district WHERE d_next_o_id - 1 <> \
         (SELECT max(o_id) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id) \
         OR d_next_o_id - 1 <> ifnull((SELECT max(no_o_id) FROM new_order \
         WHERE no_w_id = d_w_id AND no_d_id = d_id), d_next_o_id - 1)",
    ),
    (
        "3: the open orders of a district have no gap",
        "SELECT count(*) FROM (SELECT max(no_o_id) - min(no_o_id) + 1 - count(*) AS gap \
         FROM new_order GROUP BY no_w_id, no_d_id) WHERE gap <> 0",
    ),
    (
        "4: a district has as many lines as its orders say",
        "SELECT count(*) FROM district WHERE \
         (SELECT sum(o_ol_cnt) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id) <> \
         (SELECT count(*) FROM order_line WHERE ol_w_id = d_w_id AND ol_d_id = d_id)",
    ),
];

/// The conditions that do not hold, each with the number of rows that break it.
pub fn broken(db: &Connection) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for (condition, sql) in CONDITIONS {
        let rows: u64 = db.query_row(sql, [], |row| row.get(0))?;
        if rows > 0 {
            found.push(format!("{condition} ({rows} rows)"));
        }
    }
    Ok(found)
}
