//! What several policies share.

use crate::buffer::spec::Setup;
use crate::buffer::{List, Pool};

/// A share of all entries, where 0 % stands for exactly a third, rounded down.
pub(super) fn share_or_third(setup: &Setup<'_>, name: &str) -> Result<usize, String> {
    match setup.share(name) {
        0 => Ok(setup.shape.entries / 3),
        1..=1_000_000 => Ok(setup.share_of_entries(name)),
        _ => Err(format!("{name}: more than 100 %")),
    }
}

/// Checks that these lists, each with its class, hold every resident entry.
pub(super) fn check_lists(pool: &Pool, lists: &[(u8, &List)]) -> Result<(), String> {
    check_held(pool, walk_lists(pool, lists)?)
}

/// Checks that the entries of these lists have the class of their list; how many there are.
pub(super) fn walk_lists(pool: &Pool, lists: &[(u8, &List)]) -> Result<usize, String> {
    let mut held = 0;
    for (class, list) in lists {
        let walked = pool.iter(list).count();
        if walked != list.len() {
            return Err(format!("{} counted, {walked} linked", list.len()));
        }
        if let Some(frame) = pool.iter(list).find(|f| pool.class(*f) != *class) {
            return Err(format!("page {} is in the wrong list", pool.page(frame).0));
        }
        held += walked;
    }
    Ok(held)
}

/// Checks that the lists hold as many entries as are resident.
pub(super) fn check_held(pool: &Pool, held: usize) -> Result<(), String> {
    if held == pool.resident() {
        Ok(())
    } else {
        Err(format!("{held} in the lists, {} resident", pool.resident()))
    }
}
