//! Merging the records of a journal (paper 2, section IV-B, "merge duplicate entries").
//!
//! Invariant (rule `order`): the key is the block's address at the checkpoint, its origin. Records
//! are taken in order; an old address at which no origin's block lies now belongs to a younger
//! block, since an address may be used again within one epoch, and says nothing.

use std::collections::BTreeMap;

use crate::BlockAddr;

/// One entry of a record: where a block lay and where cleaning put it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Move {
    /// Where it lay.
    pub old: BlockAddr,
    /// Where it lies now.
    pub new: BlockAddr,
}

/// Where each block that was valid at the checkpoint and has moved since lies now, by its address
/// at the checkpoint. `valid` says whether an address was valid at the checkpoint.
pub fn merge<'a>(
    valid: impl Fn(BlockAddr) -> bool,
    records: impl IntoIterator<Item = &'a [Move]>,
) -> BTreeMap<BlockAddr, BlockAddr> {
    let mut last: BTreeMap<BlockAddr, BlockAddr> = BTreeMap::new();
    // Present place of a moved block -> its origin.
    let mut origin: BTreeMap<BlockAddr, BlockAddr> = BTreeMap::new();
    for record in records {
        // A record is one step: all its blocks leave before any arrives.
        let left: Vec<(BlockAddr, BlockAddr)> = record
            .iter()
            .filter_map(|step| {
                let from = match origin.remove(&step.old) {
                    Some(from) => from,
                    None if valid(step.old) && !last.contains_key(&step.old) => step.old,
                    None => return None,
                };
                last.insert(from, step.new);
                Some((step.new, from))
            })
            .collect();
        origin.extend(left);
    }
    last.retain(|from, to| from != to);
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moves(pairs: &[(u32, u32)]) -> Vec<Move> {
        pairs.iter().map(|(o, n)| Move { old: BlockAddr(*o), new: BlockAddr(*n) }).collect()
    }

    fn merged(valid: &[u32], records: &[&[(u32, u32)]]) -> Vec<(u32, u32)> {
        let records: Vec<Vec<Move>> = records.iter().map(|r| moves(r)).collect();
        let out = merge(|a| valid.contains(&a.0), records.iter().map(Vec::as_slice));
        out.into_iter().map(|(a, b)| (a.0, b.0)).collect()
    }

    #[test]
    fn figure_3_of_the_paper() {
        // The addresses of the second record beyond 2048 are inferred: the figure shows the first.
        let first = [(512, 1536), (513, 1537), (515, 1538)];
        let second = [(1536, 2048), (1537, 2049), (1538, 2050)];
        let out = merged(&[512, 513, 515], &[&first, &second]);
        assert_eq!(out, [(512, 2048), (513, 2049), (515, 2050)]);
    }

    #[test]
    fn an_address_used_twice_leads_each_block_along_its_own_path() {
        let out = merged(&[7, 9], &[&[(7, 20)], &[(9, 7)], &[(7, 30)]]);
        assert_eq!(out, [(7, 20), (9, 30)]);
    }

    #[test]
    fn a_younger_block_at_the_address_of_an_older_one_says_nothing() {
        let out = merged(&[7], &[&[(7, 20)], &[(7, 30)], &[(8, 40)]]);
        assert_eq!(out, [(7, 20)]);
    }
}
