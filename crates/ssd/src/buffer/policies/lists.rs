//! What the checks of several policies share.

use crate::buffer::{Frame, List, Pool};

/// Every resident entry is in exactly the list that `of` says, and each list is as long as it
/// claims.
pub(super) fn check(
    pool: &Pool,
    lists: &[(&str, &List)],
    of: impl Fn(Frame) -> usize,
) -> Result<(), String> {
    let mut total = 0;
    for (at, (name, list)) in lists.iter().enumerate() {
        let mut walked = 0;
        for frame in pool.iter(list).take(list.len() + 1) {
            walked += 1;
            let page = pool.page(frame);
            if pool.find(page) != Some(frame) {
                return Err(format!("{name} holds page {}, which is not resident", page.0));
            }
            if of(frame) != at {
                return Err(format!("page {} is in {name} and marked otherwise", page.0));
            }
        }
        if walked != list.len() {
            return Err(format!("{name}: {} counted, {walked} linked", list.len()));
        }
        total += walked;
    }
    if total == pool.resident() {
        Ok(())
    } else {
        Err(format!("{total} in lists, {} resident", pool.resident()))
    }
}
