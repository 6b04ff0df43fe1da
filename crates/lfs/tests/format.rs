//! Round trips of everything that is decoded and encoded, and setters that touch nothing else.

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use varve_lfs::format::{
    Area, Checkpoint, Entry, FileType, Flags, Heads, Inode, Journal, NatEntry, NodeBlock, Origin,
    OrphanBlock, SitEntry, Summary, Superblock, name_hash,
};
use varve_lfs::{BlockAddr, Nid, SegNo, Stamp};

fn bytes<const N: usize>() -> impl Strategy<Value = [u8; N]> {
    vec(any::<u8>(), N).prop_map(|v| v.try_into().unwrap())
}

fn sit() -> impl Strategy<Value = SitEntry> {
    (0..=512_u16, 0..6_u8, bytes::<64>(), any::<u64>())
        .prop_map(|(valid, kind, map, mtime)| SitEntry { valid, kind, map, mtime })
}

fn nat() -> impl Strategy<Value = NatEntry> {
    (any::<u8>(), any::<u32>(), any::<u32>()).prop_map(|(version, ino, addr)| NatEntry {
        version,
        ino: Nid(ino),
        addr: BlockAddr(addr),
    })
}

fn heads() -> impl Strategy<Value = Heads> {
    (any::<[u32; 3]>(), any::<[u16; 3]>())
        .prop_map(|(s, offsets)| Heads { segments: s.map(SegNo), offsets })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn superblocks(block in vec(any::<u8>(), 4096)) {
        let mut block: Box<[u8; 4096]> = Box::new(block.try_into().unwrap());
        // Every byte of a superblock is some field's, so any bytes survive.
        let sb = Superblock::decode(&block);
        block[..1024].fill(0);
        prop_assert_eq!(sb.encode(), block);
    }

    #[test]
    fn checkpoints(
        numbers in any::<[u64; 4]>(),
        small in any::<[u32; 9]>(),
        heads in (heads(), heads()),
        maps in (vec(any::<u8>(), 64), vec(any::<u8>(), 0..3000)),
        flip in 0..4096_usize,
    ) {
        let cp = Checkpoint {
            version: numbers[0], user_blocks: numbers[1], valid_blocks: numbers[2],
            reserved_segments: small[0], overprovision_segments: small[1], free_segments: small[2],
            node_heads: heads.0, data_heads: heads.1, flags: Flags(small[3]),
            pack_blocks: small[4], start_sum: small[5], valid_nodes: small[6],
            valid_inodes: small[7], next_free_nid: Nid(small[8]), elapsed: numbers[3],
            alloc_types: [0, 1, 0, 1, 0, 1], seal: None, sit_bitmap: maps.0, nat_bitmap: maps.1,
        };
        let mut block = cp.encode();
        prop_assert_eq!(Checkpoint::decode(&block), Some(cp));
        block[flip] ^= 0x20;
        prop_assert_eq!(Checkpoint::decode(&block), None);
    }

    #[test]
    fn summaries(origins in vec((any::<u32>(), any::<u8>(), any::<u16>()), 512), nodes: bool) {
        let mut summary = Summary::new(nodes);
        for (place, (nid, version, slot)) in summary.origins.iter_mut().zip(&origins) {
            *place = Origin { nid: Nid(*nid), version: *version, slot: *slot };
        }
        prop_assert_eq!(Summary::decode(&summary.encode(&Journal::Empty)), summary);
    }

    #[test]
    fn journals(nats in vec((any::<u32>(), nat()), 0..=38), sits in vec((any::<u32>(), sit()), 0..=6)) {
        let nats: Vec<_> = nats.into_iter().map(|(nid, entry)| (Nid(nid), entry)).collect();
        let sits: Vec<_> = sits.into_iter().map(|(seg, entry)| (SegNo(seg), entry)).collect();
        let summary = Summary::new(false);
        let block = summary.encode(&Journal::Nat(nats.clone()));
        prop_assert_eq!(Journal::nat(Summary::journal(&block)), nats);
        let block = summary.encode(&Journal::Sit(sits.clone()));
        prop_assert_eq!(Journal::sit(Summary::journal(&block)), sits);
    }

    #[test]
    fn table_entries(nats in vec(nat(), 455), sits in vec(sit(), 55)) {
        let mut block = [0; 4096];
        nats.iter().enumerate().for_each(|(i, entry)| entry.put(&mut block, i));
        nats.iter().enumerate().for_each(|(i, entry)| assert_eq!(NatEntry::get(&block, i), *entry));
        sits.iter().enumerate().for_each(|(i, entry)| entry.put(&mut block, i));
        sits.iter().enumerate().for_each(|(i, entry)| assert_eq!(SitEntry::get(&block, i), *entry));
    }

    #[test]
    fn orphans(inos in vec(any::<u32>(), 0..=1020), index: u16, count: u16) {
        let inos = inos.into_iter().map(Nid).collect();
        let orphans = OrphanBlock { inos, index, count };
        prop_assert_eq!(OrphanBlock::decode(&orphans.encode()), Ok(orphans));
    }

    #[test]
    fn a_directory_block_is_a_map(names in btree_set(vec(any::<u8>(), 1..40), 0..80), drop in 0..7_usize) {
        let (area, mut block) = (Area::BLOCK, [0; 4096]);
        let mut kept = Vec::new();
        for (i, name) in names.iter().enumerate() {
            let Some(slot) = area.room(&block, Area::need(name.len())) else { break };
            let (hash, ino) = (name_hash(name), Nid(i as u32 + 1));
            let len = name.len() as u16;
            area.put(&mut block, slot, Entry { hash, ino, len, kind: FileType::File }, name);
            kept.push((name, ino));
        }
        // Some go, and others take their slots.
        for (name, _) in kept.iter().skip(drop).step_by(3) {
            let (slot, _) = area.find(&block, name_hash(name), name).unwrap();
            area.clear(&mut block, slot);
        }
        for (i, (name, ino)) in kept.iter().enumerate() {
            let gone = i >= drop && (i - drop) % 3 == 0;
            let found = area.find(&block, name_hash(name), name).map(|(_, entry)| entry.ino);
            prop_assert_eq!(found, (!gone).then_some(*ino));
        }
        let left = kept.len() - kept.iter().skip(drop).step_by(3).count();
        prop_assert_eq!(area.entries(&block).count(), left);
    }

    #[test]
    fn directory_bytes_of_anybody_are_read(bytes in vec(any::<u8>(), 4096)) {
        // Hostile bytes: no panic, and no name beyond its area.
        for area in [Area::BLOCK, Area::INLINE] {
            prop_assert!(area.entries(&bytes).all(|(_, entry, name)| name.len() == usize::from(entry.len)));
        }
    }

    #[test]
    fn fields_of_an_inode_do_not_touch(
        small in any::<[u32; 8]>(), big in any::<[u64; 2]>(), mode: u16, name in vec(any::<u8>(), 0..=255),
        word in (0..923_usize, any::<u32>()),
    ) {
        let mut node = NodeBlock::new(Nid(small[0]), Nid(small[0]), 0, true);
        node.set_mode(mode);
        node.set_uid(small[1]);
        node.set_gid(small[2]);
        node.set_links(small[3]);
        node.set_size(big[0]);
        node.set_blocks(big[1]);
        node.set_depth(small[4]);
        node.set_xattr_nid(small[5]);
        node.set_parent(small[6]);
        node.set_name(&name);
        node.set_child(4, Nid(small[7]));
        node.set_word(word.0, word.1);
        let stamp = Stamp { seconds: big[1], nanos: small[2] };
        node.set_time(1, stamp);
        node.stamp(big[0], BlockAddr(small[3]));
        node.mark(true, true);
        prop_assert_eq!((node.mode(), node.uid(), node.gid(), node.links()), (mode, small[1], small[2], small[3]));
        prop_assert_eq!((node.size(), node.blocks(), node.depth()), (big[0], big[1], small[4]));
        prop_assert_eq!((node.xattr_nid(), node.parent(), node.name()), (small[5], small[6], &name[..]));
        prop_assert_eq!((node.child(4), node.word(word.0)), (Nid(small[7]), word.1));
        prop_assert_eq!(node.times(), [Stamp::default(), stamp, Stamp::default()]);
        prop_assert_eq!((node.written_after(), node.next()), (big[0], BlockAddr(small[3])));
        prop_assert_eq!((node.nid(), node.ino(), node.offset()), (Nid(small[0]), Nid(small[0]), 0));
        node.mark(false, false);
        prop_assert!(node.has(1) && !node.has(2) && !node.has(4));
    }

    #[test]
    fn inodes_of_anybody_are_read(bytes in vec(any::<u8>(), 4096)) {
        let mut bytes = bytes;
        bytes.copy_within(4072..4076, 4076);
        let mut node = NodeBlock(Box::new(bytes.try_into().unwrap()));
        prop_assert!(node.is_inode() && node.inline_data().len() < 3700 && node.name().len() < 256);
        let entries = node.inline_entries().map_or(0, |bytes| Area::INLINE.entries(bytes).count());
        prop_assert!(entries <= Area::INLINE.slots);
        prop_assert!(node.inline_xattrs().is_none_or(|bytes| bytes.len() == 200));
        for slot in 0..node.slots() {
            node.set_word(slot, node.word(slot));
        }
    }
}
