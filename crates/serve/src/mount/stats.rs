//! What a mounted file system counts: for `varve ctl SOCKET stats`, and as an extended attribute of
//! the root directory, which is not listed.

use fuser::Errno;
use lfs::fs::{FsyncFallback, Trigger};
use lfs::{Cause, Fs, Now};
use serde_json::{Map, Value, json};

use super::behind::Behind;
use super::volume::Volume;
use crate::control::stats;
use stack::live::Stack;

/// The attribute of the mounted directory that holds the counters, as one JSON document.
pub const STATS: &str = "user.varve.stats";

const CAUSES: [(Cause, &str); 11] = [
    (Cause::Data, "written_data_blocks"),
    (Cause::Dentry, "written_directory_blocks"),
    (Cause::Node, "written_node_blocks"),
    (Cause::MovedData, "cleaning_data_blocks"),
    (Cause::MovedNode, "cleaning_node_blocks"),
    (Cause::Nat, "written_nat_blocks"),
    (Cause::Sit, "written_sit_blocks"),
    (Cause::Ssa, "written_ssa_blocks"),
    (Cause::Pack, "written_checkpoint_blocks"),
    (Cause::Journal, "written_journal_blocks"),
    (Cause::Super, "written_superblock_blocks"),
];

fn trigger(of: Trigger) -> &'static str {
    match of {
        Trigger::Mount => "checkpoints_mount",
        Trigger::Unmount => "checkpoints_unmount",
        Trigger::Sync => "checkpoints_sync",
        Trigger::Dirty => "checkpoints_dirty",
        Trigger::Prefree => "checkpoints_prefree",
        Trigger::Cleaning => "checkpoints_cleaning",
        Trigger::JournalFull => "checkpoints_journal_full",
        Trigger::PreInvalid => "checkpoints_pre_invalid",
        Trigger::Emergency => "checkpoints_emergency",
        Trigger::Idle => "checkpoints_idle",
        Trigger::Background => "checkpoints_background_cleaning",
        Trigger::Recovery => "checkpoints_recovery",
        Trigger::Fsync(FsyncFallback::NotRegular) => "checkpoints_fsync_not_regular",
        Trigger::Fsync(FsyncFallback::Links) => "checkpoints_fsync_links",
        Trigger::Fsync(FsyncFallback::Renamed) => "checkpoints_fsync_renamed",
        Trigger::Fsync(FsyncFallback::ParentNotDurable) => "checkpoints_fsync_parent_not_durable",
        Trigger::Fsync(FsyncFallback::ParentXattrs) => "checkpoints_fsync_parent_xattrs",
        Trigger::Fsync(FsyncFallback::ParentRenames) => "checkpoints_fsync_parent_renames",
        Trigger::Fsync(FsyncFallback::Xattrs) => "checkpoints_fsync_xattrs",
        Trigger::Fsync(FsyncFallback::FreedNodes) => "checkpoints_fsync_freed_nodes",
        Trigger::Fsync(FsyncFallback::Rewritten) => "checkpoints_fsync_rewritten",
        Trigger::Fsync(FsyncFallback::NoRoom) => "checkpoints_fsync_no_room",
    }
}

fn gather(fs: &mut Fs<Behind>, now: Now) -> Result<Vec<(&'static str, u64)>, lfs::FsError> {
    let usage = fs.usage(now)?;
    let cleaned = fs.cleaning();
    let mut all = vec![
        ("blocks", usage.blocks),
        ("used_blocks", usage.used_blocks),
        ("nodes", usage.nodes),
        ("used_nodes", usage.used_nodes),
        ("inodes", usage.inodes),
        ("free_segments", usage.free_segments),
        ("cleaned_segments", cleaned.segments),
        ("cleaned_segments_in_background", cleaned.background),
        ("cleaned_segments_ahead", cleaned.ahead),
        ("cleaning_read_for_nothing", cleaned.stale),
        ("cleaning_waited_for", cleaned.waits),
        ("cleaning_copied_blocks", cleaned.copied),
        ("cleaning_pre_invalid_blocks", cleaned.pre_invalid),
        ("journal_records", cleaned.records),
        ("journal_entries", cleaned.entries),
    ];
    let asked = ["reads_with_the_lock", "writes_with_the_lock", "flushes_with_the_lock"];
    all.extend(asked.into_iter().zip(fs.device().asked_with_lock()));
    all.extend(CAUSES.iter().map(|(cause, name)| (*name, fs.written(*cause))));
    all.extend(fs.checkpoints().iter().map(|(of, count)| (trigger(*of), *count)));
    Ok(all)
}

/// Counters; none while the power is off.
pub(super) fn counters(volume: &Volume) -> Vec<(&'static str, u64)> {
    let mut all = volume.with(gather).unwrap_or_default();
    all.push(("inodes_known_to_the_kernel", volume.known() as u64));
    all
}

/// The counters as one document, with those of the stack below.
pub(super) fn document(volume: &Volume, below: &Stack) -> Result<Vec<u8>, Errno> {
    let all = volume.with(gather)?;
    let results: Map<_, _> =
        all.into_iter().map(|(name, count)| (name.to_string(), json!(count))).collect();
    let mut document = stats(below);
    document["schema"] = json!("varve.mount/1");
    document["results"] = Value::Object(results);
    document["files"] = volume.meter().document();
    Ok(document.to_string().into_bytes())
}
