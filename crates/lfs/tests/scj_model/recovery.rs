//! What is left after a crash, and what recovery makes of it.

use std::collections::BTreeMap;

use varve_lfs::BlockAddr;
use varve_lfs::scj::{Move, merge};

use super::*;

impl Model {
    /// What is on the media after the cut: a random half of what was not flushed.
    fn left(&mut self) -> Media {
        let mut media = self.durable.clone();
        for (place, contents) in std::mem::take(&mut self.volatile) {
            if self.rng.ratio(1, 2) {
                media.insert(place, contents);
            }
        }
        media
    }

    /// What a user would read after recovery; a text where it is nothing anybody wrote.
    pub fn recover(&mut self) -> [Result<Pointers, String>; FILES] {
        let media = self.left();
        let packs = [0, 1].map(|i| match media.get(&Place::Pack(i)) {
            Some(Contents::Pack(pack)) => Some(pack.as_ref()),
            _ => None,
        });
        let cp = packs.into_iter().flatten().max_by_key(|pack| pack.version).expect("a pack");
        let mut records: Vec<&[Move]> = Vec::new();
        for slot in 0..SLOTS {
            match media.get(&Place::Slot(slot)) {
                Some(Contents::Slot(r)) if r.version == cp.version => records.push(&r.moves),
                _ => break,
            }
        }
        let moved = if self.keeps(Rule::Order) {
            merge(|a| cp.valid[a.index()], records.iter().copied())
        } else {
            merge_by_address(cp, &records)
        };
        let (nat, mut maps) = self.roll_back(&media, cp, &moved);
        self.roll_forward(&media, cp, &records, &mut maps);
        std::array::from_fn(|file| match &maps[file] {
            None => Err(format!("the node at {:?} is lost", nat[file])),
            Some(map) => contents(&media, file, map),
        })
    }

    fn roll_back(
        &self,
        media: &Media,
        cp: &Checkpoint,
        moved: &BTreeMap<BlockAddr, BlockAddr>,
    ) -> ([Option<u32>; FILES], [Option<Pointers>; FILES]) {
        let summary = |block: u32| {
            if !self.keeps(Rule::Ssa)
                && !cp.heads.contains(&seg(block))
                && let Some(Contents::Ssa(now)) = media.get(&Place::Ssa(seg(block)))
            {
                return now[(block % PER_SEG) as usize];
            }
            cp.summary[block as usize]
        };
        let (mut nat, mut maps) = (cp.nat, [None; FILES]);
        for (old, new) in moved {
            if let Some(What::Node(file)) = summary(old.0)
                && nat[file] == Some(old.0)
            {
                nat[file] = Some(new.0);
            }
        }
        for file in 0..FILES {
            maps[file] = match nat[file] {
                None => Some([None; FILE_BLOCKS]),
                Some(at) => match media.get(&Place::Block(at)) {
                    Some(Contents::Block(Block::Node { file: f, map, .. })) if *f == file => {
                        Some(*map)
                    }
                    _ => None,
                },
            };
        }
        for (old, new) in moved {
            if let Some(What::Data(file, index)) = summary(old.0)
                && let Some(map) = &mut maps[file]
                && map[index] == Some(old.0)
            {
                map[index] = Some(new.0);
            }
        }
        (nat, maps)
    }

    fn roll_forward(
        &self,
        media: &Media,
        cp: &Checkpoint,
        records: &[&[Move]],
        maps: &mut [Option<Pointers>; FILES],
    ) {
        let (mut at, mut seen) = (cp.chain, BTreeSet::new());
        while seen.insert(at) {
            let Some(Contents::Block(Block::Node { file, cp: v, marked, map, next, slot })) =
                media.get(&Place::Block(at))
            else {
                break;
            };
            if *v != cp.version {
                break;
            }
            if *marked {
                let mut map = *map;
                if self.keeps(Rule::Trans) {
                    for record in &records[(*slot as usize).min(records.len())..] {
                        for pointer in map.iter_mut().flatten() {
                            if let Some(step) = record.iter().find(|step| step.old.0 == *pointer) {
                                *pointer = step.new.0;
                            }
                        }
                    }
                }
                maps[*file] = Some(map);
            }
            at = *next;
        }
    }
}

fn contents(media: &Media, file: usize, map: &Pointers) -> Result<Pointers, String> {
    let mut out = [None; FILE_BLOCKS];
    for (index, at) in map.iter().enumerate().filter_map(|(i, at)| Some((i, (*at)?))) {
        match media.get(&Place::Block(at)) {
            Some(Contents::Block(Block::Data { file: f, index: i, version }))
                if (*f, *i) == (file, index) =>
            {
                out[index] = Some(*version);
            }
            other => return Err(format!("block {index} at {at} holds {other:?}")),
        }
    }
    Ok(out)
}

/// The wrong merge: a union of pairs, followed from address to address.
fn merge_by_address(cp: &Checkpoint, records: &[&[Move]]) -> BTreeMap<BlockAddr, BlockAddr> {
    let pairs: BTreeMap<BlockAddr, BlockAddr> =
        records.iter().flat_map(|r| r.iter()).map(|step| (step.old, step.new)).collect();
    let mut out = BTreeMap::new();
    for old in (0..BLOCKS as u32).filter(|b| cp.valid[*b as usize]).map(BlockAddr) {
        let mut now = old;
        for _ in 0..50 {
            now = pairs.get(&now).copied().unwrap_or(now);
        }
        if now != old {
            out.insert(old, now);
        }
    }
    out
}
