//! `varve dump`: what lies on a volume, as it lies there. Nothing is recovered or written.

use std::sync::Arc;

use lab::LabError;
use lfs::format::{FileType, Flags, Inode, NodeBlock, NodeFlags};
use lfs::fs::{Durable, DurableJournal};
use lfs::{FsError, Nid, SegNo};
use serde_json::{Map, Value, json};
use serve::mount::DiskDevice;

use super::{open, volume_error};
use crate::args::DumpVolume;
use crate::print;

/// `varve dump`.
pub fn dump(args: &DumpVolume) -> Result<(), LabError> {
    let path = &args.source.source;
    let failed = |error: FsError| volume_error(path, &error);
    let stack = open(&args.source, None, true)?;
    let mut volume = Durable::open(DiskDevice(Arc::clone(&stack.disk))).map_err(failed)?;
    let results = gather(&mut volume, args).map_err(failed)?;
    if args.json {
        let document = json!({
            "schema": "varve.dump/1",
            "version": crate::VERSION,
            "config": { "source": path.display().to_string() },
            "results": results,
        });
        return print(&format!("{document:#}\n"));
    }
    let mut text = String::new();
    tell(&results, 0, &mut text);
    print(&text)
}

fn gather(volume: &mut Durable<DiskDevice>, args: &DumpVolume) -> Result<Value, FsError> {
    let nothing = !(args.superblock || args.checkpoint || args.journal)
        && args.inode.is_empty()
        && args.nat.is_empty()
        && args.sit.is_empty();
    let mut all = Map::new();
    if args.superblock || nothing {
        all.insert("superblock".to_string(), superblock(volume));
    }
    if args.checkpoint || nothing {
        all.insert("checkpoint".to_string(), checkpoint(volume));
    }
    if args.journal || nothing {
        all.insert("journal".to_string(), journal(volume, args.journal)?);
    }
    for nid in &args.nat {
        all.insert(format!("nat {nid}"), nat(volume, Nid(*nid))?);
    }
    for seg in &args.sit {
        all.insert(format!("sit {seg}"), sit(volume, SegNo(*seg))?);
    }
    for nid in &args.inode {
        all.insert(format!("node {nid}"), node(volume, Nid(*nid))?);
    }
    Ok(Value::Object(all))
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn superblock(volume: &Durable<DiskDevice>) -> Value {
    let sb = volume.superblock();
    let uuid: String = sb.uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let end = sb.label.iter().position(|unit| *unit == 0).unwrap_or(sb.label.len());
    let [segment0, cp, sit, nat, ssa, main] = sb.places.map(|place| place.0);
    let [cp_segs, sit_segs, nat_segs, ssa_segs, main_segs] = sb.segments;
    json!({
        "live": volume.is_live(),
        "version": format!("{}.{}", sb.version.0, sb.version.1),
        "uuid": uuid,
        "label": String::from_utf16_lossy(&sb.label[..end]),
        "blocks": sb.block_count,
        "blocks_per_segment": volume.layout().per_seg,
        "segments": {
            "checkpoint": cp_segs, "sit": sit_segs, "nat": nat_segs, "ssa": ssa_segs,
            "main": main_segs,
        },
        "first_block": {
            "segment0": segment0, "checkpoint": cp, "sit": sit, "nat": nat, "ssa": ssa,
            "main": main,
        },
        "features": format!("{:#x}", sb.feature),
        "extensions": sb.extension_count & 0xff,
        "made_by": text(&sb.maker),
        "written_by": text(&sb.writer),
    })
}

const FLAGS: [(Flags, &str); 10] = [
    (Flags::UMOUNT, "umount"),
    (Flags::ORPHANS, "orphans"),
    (Flags::COMPACT, "compact"),
    (Flags::ERROR, "error"),
    (Flags::FSCK, "fsck"),
    (Flags::FASTBOOT, "fastboot"),
    (Flags::CRC_RECOVERY, "crc-recovery"),
    (Flags::NAT_BITS, "nat-bits"),
    (Flags::TRIMMED, "trimmed"),
    (Flags::NOCRC_RECOVERY, "nocrc-recovery"),
];

fn checkpoint(volume: &Durable<DiskDevice>) -> Value {
    let cp = volume.checkpoint();
    let flags: Vec<&str> =
        FLAGS.iter().filter(|(flag, _)| cp.flags.any(*flag)).map(|(_, name)| *name).collect();
    let heads = |of: &lfs::format::Heads| {
        let pairs = of.segments.iter().zip(of.offsets);
        pairs.map(|(seg, offset)| format!("segment {} block {offset}", seg.0)).collect::<Vec<_>>()
    };
    json!({
        "version": cp.version,
        "pack_at_block": volume.pack_at().0,
        "pack_blocks": cp.pack_blocks,
        "flags": flags,
        "nodes_sealed": cp.seal.is_some(),
        "user_blocks": cp.user_blocks,
        "valid_blocks": cp.valid_blocks,
        "valid_nodes": cp.valid_nodes,
        "valid_inodes": cp.valid_inodes,
        "segments": {
            "free": cp.free_segments, "reserved": cp.reserved_segments,
            "overprovision": cp.overprovision_segments,
        },
        "heads_hot_warm_cold_node": heads(&cp.node_heads),
        "heads_hot_warm_cold_data": heads(&cp.data_heads),
        "next_free_nid": cp.next_free_nid.0,
        "seconds_mounted": cp.elapsed,
        "orphans": volume.orphans().iter().map(|nid| nid.0).collect::<Vec<_>>(),
    })
}

fn journal(volume: &mut Durable<DiskDevice>, entries: bool) -> Result<Value, FsError> {
    let Some(DurableJournal { state, records }) = volume.journal()? else {
        return Ok(Value::Null);
    };
    let each = |moves: &Vec<lfs::scj::Move>| {
        if entries {
            let pairs = moves.iter().map(|step| format!("{} -> {}", step.old.0, step.new.0));
            json!(pairs.collect::<Vec<_>>())
        } else {
            json!(moves.len())
        }
    };
    Ok(json!({
        "slots": state.slots,
        "checkpoint_at_mount": state.version,
        "records": records.iter().map(each).collect::<Vec<_>>(),
    }))
}

fn nat(volume: &mut Durable<DiskDevice>, nid: Nid) -> Result<Value, FsError> {
    let (entry, at) = volume.nat(nid)?;
    Ok(json!({
        "version": entry.version,
        "ino": entry.ino.0,
        "block": entry.addr.0,
        "in_block": at.map(|at| at.0),
    }))
}

fn sit(volume: &mut Durable<DiskDevice>, seg: SegNo) -> Result<Value, FsError> {
    let (entry, at) = volume.sit(seg)?;
    let kinds = ["hot data", "warm data", "cold data", "hot node", "warm node", "cold node"];
    let map: String = entry.map.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(json!({
        "valid_blocks": entry.valid,
        "kind": kinds.get(usize::from(entry.kind)).copied().unwrap_or("unknown"),
        "valid_map": map,
        "mtime": entry.mtime,
        "in_block": at.map(|at| at.0),
    }))
}

fn node(volume: &mut Durable<DiskDevice>, nid: Nid) -> Result<Value, FsError> {
    let (node, at) = volume.node(nid)?;
    let marks =
        [(NodeFlags::COLD, "cold"), (NodeFlags::FSYNC, "fsync"), (NodeFlags::DENTRY, "dentry")];
    let marks: Vec<&str> =
        marks.iter().filter(|(flag, _)| node.has(*flag)).map(|(_, name)| *name).collect();
    let pointers: Map<String, Value> = (0..node.slots())
        .filter(|slot| node.word(*slot) != 0 && !node.is_inline_data())
        .map(|slot| (slot.to_string(), json!(node.word(slot))))
        .collect();
    let mut all = json!({
        "block": at.0,
        "footer": {
            "nid": node.nid().0, "ino": node.ino().0, "offset": node.offset(), "marks": marks,
            "written_after": node.written_after() as u32, "next": node.next().0,
        },
        "pointers": pointers,
    });
    if node.is_inode() {
        all["inode"] = inode(&node);
    }
    Ok(all)
}

fn inode(node: &NodeBlock) -> Value {
    let kind = match FileType::of_mode(node.mode()) {
        FileType::File => "file",
        FileType::Directory => "directory",
        FileType::Symlink => "symlink",
        FileType::Character => "character device",
        FileType::Block => "block device",
        FileType::Fifo => "pipe",
        FileType::Socket => "socket",
        FileType::Unknown => "unknown",
    };
    let times = node.times().map(|stamp| format!("{}.{:09}", stamp.seconds as i64, stamp.nanos));
    let [accessed, changed, modified] = times;
    json!({
        "kind": kind,
        "mode": format!("{:06o}", node.mode()),
        "uid": node.uid(),
        "gid": node.gid(),
        "links": node.links(),
        "size": node.size(),
        "blocks": node.blocks(),
        "accessed": accessed,
        "changed": changed,
        "modified": modified,
        "generation": node.generation(),
        "depth": node.depth(),
        "parent": node.parent(),
        "name": String::from_utf8_lossy(node.name()),
        "inline": format!("{:#04x}", node.inline()),
        "advise": format!("{:#04x}", node.advise()),
        "xattr_node": node.xattr_nid(),
        "children": (0..5).map(|which| node.child(which).0).collect::<Vec<_>>(),
    })
}

/// A document as lines for people.
fn tell(value: &Value, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    let Value::Object(map) = value else { return };
    for (name, value) in map {
        match value {
            Value::Object(_) => {
                *out += &format!("{indent}{name}:\n");
                tell(value, depth + 1, out);
            }
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(plain).collect();
                *out += &format!("{indent}{name}: {}\n", items.join(", "));
            }
            other => *out += &format!("{indent}{name}: {}\n", plain(other)),
        }
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "none".to_string(),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}
