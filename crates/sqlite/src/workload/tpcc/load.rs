//! The initial population (clause 4.3.3 of the standard), one transaction for items, one for each
//! warehouse.

use block::Rng;
use rusqlite::{Connection, Result, Transaction, params};
use workload::generate::tpcc::{NuRand, last_name};

use super::scale::Scale;
use super::schema::SCHEMA;
use super::text::{address, digits, letters, original, permutation};

/// Cents a district has taken in at the start; a warehouse the sum of its districts.
pub const DISTRICT_YTD: u64 = 3_000_000;

/// Makes the tables and fills them.
pub fn load(db: &mut Connection, scale: Scale, seed: u64, nurand: &NuRand) -> Result<()> {
    let mut rng = Rng::stream(seed, "tpcc/load");
    let work = db.transaction()?;
    work.execute_batch(SCHEMA)?;
    {
        let mut insert = work.prepare("INSERT INTO item VALUES (?, ?, ?, ?, ?)")?;
        for item in 1..=scale.items {
            let (image, price) = (rng.between(1, 10_000), rng.between(100, 10_000));
            let name = letters(&mut rng, 14, 24);
            insert.execute(params![item, image, name, price, original(&mut rng)])?;
        }
    }
    work.commit()?;
    for w in 1..=scale.warehouses {
        let work = db.transaction()?;
        warehouse(&work, scale, w, &mut rng)?;
        for d in 1..=scale.districts {
            district(&work, scale, [w, d], &mut rng)?;
            customers(&work, scale, [w, d], nurand, &mut rng)?;
            orders(&work, scale, [w, d], &mut rng)?;
        }
        work.commit()?;
    }
    Ok(())
}

fn warehouse(work: &Transaction<'_>, scale: Scale, w: u64, rng: &mut Rng) -> Result<()> {
    let name = letters(rng, 6, 10);
    let [street_1, street_2, city, state, zip] = address(rng);
    let (tax, ytd) = (rng.between(0, 2000), scale.districts * DISTRICT_YTD);
    work.execute(
        "INSERT INTO warehouse VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        params![w, name, street_1, street_2, city, state, zip, tax, ytd],
    )?;
    let mut insert = work.prepare_cached(
        "INSERT INTO stock VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, ?)",
    )?;
    for item in 1..=scale.items {
        insert.raw_bind_parameter(1, w)?;
        insert.raw_bind_parameter(2, item)?;
        insert.raw_bind_parameter(3, rng.between(10, 100))?;
        for district in 0..10 {
            insert.raw_bind_parameter(4 + district, letters(rng, 24, 24))?;
        }
        insert.raw_bind_parameter(14, original(rng))?;
        insert.raw_execute()?;
    }
    Ok(())
}

fn district(work: &Transaction<'_>, scale: Scale, [w, d]: [u64; 2], rng: &mut Rng) -> Result<()> {
    let name = letters(rng, 6, 10);
    let [street_1, street_2, city, state, zip] = address(rng);
    let (tax, next) = (rng.between(0, 2000), scale.customers + 1);
    work.execute(
        "INSERT INTO district VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        params![w, d, name, street_1, street_2, city, state, zip, tax, DISTRICT_YTD, next],
    )?;
    Ok(())
}

fn customers(
    work: &Transaction<'_>,
    scale: Scale,
    [w, d]: [u64; 2],
    nurand: &NuRand,
    rng: &mut Rng,
) -> Result<()> {
    let mut insert = work.prepare_cached(
        "INSERT INTO customer VALUES (?, ?, ?, ?, 'OE', ?, ?, ?, ?, ?, ?, ?, 0, ?, 5000000, ?, \
         -1000, 1000, 1, 0, ?)",
    )?;
    let mut history = work.prepare_cached("INSERT INTO history VALUES (?, ?, ?, ?, ?, 0, ?, ?)")?;
    for c in 1..=scale.customers {
        let name = if c <= 1000 { c - 1 } else { nurand.last_name(rng) };
        let first = letters(rng, 8, 16);
        let [street_1, street_2, city, state, zip] = address(rng);
        let phone = digits(rng, 16);
        let credit = if rng.ratio(1, 10) { "BC" } else { "GC" };
        let discount = rng.between(0, 5000);
        let data = letters(rng, 300, 500);
        insert.execute(params![
            w,
            d,
            c,
            first,
            last_name(name),
            street_1,
            street_2,
            city,
            state,
            zip,
            phone,
            credit,
            discount,
            data
        ])?;
        history.execute(params![c, d, w, d, w, 1000, letters(rng, 12, 24)])?;
    }
    Ok(())
}

fn orders(work: &Transaction<'_>, scale: Scale, [w, d]: [u64; 2], rng: &mut Rng) -> Result<()> {
    let mut order = work.prepare_cached("INSERT INTO orders VALUES (?, ?, ?, ?, 0, ?, ?, 1)")?;
    let mut line =
        work.prepare_cached("INSERT INTO order_line VALUES (?, ?, ?, ?, ?, ?, ?, 5, ?, ?)")?;
    let mut open = work.prepare_cached("INSERT INTO new_order VALUES (?, ?, ?)")?;
    let delivered = scale.customers * 7 / 10;
    for (c, o) in permutation(rng, scale.customers).into_iter().zip(1..) {
        let carrier = (o <= delivered).then(|| rng.between(1, 10));
        let lines = rng.between(5, 15);
        order.execute(params![w, d, o, c, carrier, lines])?;
        for number in 1..=lines {
            let item = rng.between(1, scale.items);
            let (date, amount) = match carrier {
                Some(_) => (Some(0), 0),
                None => (None, rng.between(1, 999_999)),
            };
            let info = letters(rng, 24, 24);
            line.execute(params![w, d, o, number, item, w, date, amount, info])?;
        }
        if carrier.is_none() {
            open.execute(params![w, d, o])?;
        }
    }
    Ok(())
}
