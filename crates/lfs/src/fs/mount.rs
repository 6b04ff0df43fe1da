//! Mounting: superblock, newest pack, tables, journals, heads.
//!
//! Invariants: nothing is written before everything was read and understood. What cannot be read is not
//! taken for what was never written: an older state is served only where the media say so. A read-write mount
//! makes a checkpoint of its own before anything else, so that no block written before it carries
//! the version that blocks written from now on will carry.

use std::collections::BTreeSet;

use block::BlockDevice;

use super::counts::Counts;
use super::durable::Checkpoints;
use super::epoch::Epoch;
use super::logs::Log;
use super::nat::Nat;
use super::options::Bug;
use super::orphans::Orphans;
use super::recover::Gained;
use super::segs::Segs;
use super::summaries::{PER_SUMMARY, Summaries};
use super::{Fs, FsOptions, LogKind, Trigger};
use crate::disk::Disk;
use crate::format::{
    Block, Checkpoint, CompactReader, Flags, Journal, MAGIC, NatEntry, OrphanBlock, SIT_PER_BLOCK,
    SUM_ENTRIES, SitEntry, Summary, Superblock, msb_test, u32_at, zeroed,
};
use crate::layout::Layout;
use crate::scj::LIVE_MAGIC;
use crate::{BlockAddr, FsError, Nid, Now, SegNo};

/// Feature bits with which a volume may be written: a directory lost+found is one like others.
const WRITABLE: u32 = 0x200;
/// Those with which it may be read: extra attributes, inode checksums, flexible inline xattrs and
/// creation times stand where they hinder nobody, quotas are files. With any other, nothing is
/// understood for sure.
const READABLE: u32 = WRITABLE | 0x8 | 0x10 | 0x20 | 0x40 | 0x80 | 0x100;

/// A pack as it was read.
pub(super) struct Pack {
    pub(super) which: usize,
    pub(super) cp: Checkpoint,
    /// Its first block is damaged: this is what its last one says.
    pub(super) headless: bool,
    crc: u32,
    /// Hot, warm, cold data; nodes if they are there.
    summaries: Vec<Summary>,
    pub(super) nat: Vec<(Nid, NatEntry)>,
    pub(super) sit: Vec<(SegNo, SitEntry)>,
    pub(super) orphans: BTreeSet<Nid>,
}

pub(super) fn read<D: BlockDevice>(
    disk: &mut Disk<D>,
    at: BlockAddr,
) -> Result<Box<Block>, FsError> {
    let mut block = zeroed();
    disk.read(at, &mut block)?;
    Ok(block)
}

/// The superblock: block 0, or block 1 where block 0 is none; and whether there is a journal.
pub(super) fn superblock<D: BlockDevice>(
    disk: &mut Disk<D>,
) -> Result<(Superblock, Layout, bool), FsError> {
    let blocks = disk.blocks();
    if blocks < 2 {
        return Err(FsError::Invalid("the device is too small"));
    }
    let mut first = None;
    for i in 0..2 {
        let found = read(disk, BlockAddr(i)).and_then(|block| {
            let live = Superblock::expect(&block, LIVE_MAGIC).ok();
            let (mut sb, live) = match live {
                Some(sb) => (sb, true),
                None => (Superblock::expect(&block, MAGIC)?, false),
            };
            sb.magic = MAGIC;
            if let Some(what) = sb.hindrance(!READABLE, false) {
                return Err(FsError::Unsupported(what));
            }
            Ok((Layout::of(&sb, blocks)?, sb, live))
        });
        match found {
            Ok((layout, sb, live)) => return Ok((sb, layout, live)),
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or(FsError::NotAVolume(0)))
}

/// Refuses version bitmaps that lie elsewhere.
pub(super) fn check_payload(superblock: &Superblock) -> Result<(), FsError> {
    if superblock.cp_payload != 0 {
        return Err(FsError::Unsupported("version bitmaps outside the checkpoint block"));
    }
    Ok(())
}

/// A pack that has an end.
struct Ends {
    cp: Checkpoint,
    /// Of the last block; or why that could not be read.
    crc: Result<u32, FsError>,
    /// The first one is damaged.
    headless: bool,
}

/// Both ends of a pack, if they agree; or the last one, if the first is damaged or cannot be read.
fn pack_ends<D: BlockDevice>(
    disk: &mut Disk<D>,
    layout: &Layout,
    which: usize,
) -> Result<Option<Ends>, FsError> {
    let start = layout.pack(which);
    let first = read(disk, start).ok();
    let Some(cp) = first.as_deref().and_then(Checkpoint::decode) else {
        // A new volume's other pack was never written.
        let blank = first.is_some_and(|first| first == zeroed());
        return if blank { Ok(None) } else { pack_end(disk, layout, which) };
    };
    if !(3..=layout.pack_room()).contains(&cp.pack_blocks) {
        return Ok(None);
    }
    let crc = match read(disk, BlockAddr(start.0 + cp.pack_blocks - 1)) {
        Ok(last) if Checkpoint::decode(&last).is_none_or(|end| end.version != cp.version) => {
            return Ok(None);
        }
        last => last.map(|last| u32_at(&last[..], 4092)),
    };
    Ok(Some(Ends { cp, crc, headless: false }))
}

/// The last block of a pack without the first. Both say the same, and the last one is written when all others are durable:
/// where it is whole and nothing newer was begun, the pack was, too. A block that cannot be read may be the last one of the
/// newest.
fn pack_end<D: BlockDevice>(
    disk: &mut Disk<D>,
    layout: &Layout,
    which: usize,
) -> Result<Option<Ends>, FsError> {
    let start = layout.pack(which).0;
    let mut newest: Option<Ends> = None;
    for i in 2..layout.pack_room() {
        let block = read(disk, BlockAddr(start + i))?;
        let Some(cp) = Checkpoint::decode(&block) else { continue };
        // Those of older packs, which were longer, may be there still.
        let older = newest.as_ref().is_some_and(|newest| newest.cp.version > cp.version);
        if cp.pack_blocks == i + 1 && !older {
            newest = Some(Ends { cp, crc: Ok(u32_at(&block[..], 4092)), headless: true });
        }
    }
    Ok(newest)
}

/// The pack that counts. Where it cannot be seen which one that is, or the one that counts cannot be read to its end, that
/// is the answer: blocks of the state before may be others' by now.
fn newest<D: BlockDevice>(
    disk: &mut Disk<D>,
    layout: &Layout,
) -> Result<Option<(usize, Ends)>, FsError> {
    let found = [pack_ends(disk, layout, 0)?, pack_ends(disk, layout, 1)?];
    let versions = found.each_ref().map(|ends| ends.as_ref().map(|ends| ends.cp.version));
    // Without its first block a pack counts only if it is the other one's next: else its own next but one may have been
    // begun in its place.
    let follows = |which: usize| {
        versions[1 - which].zip(versions[which]).is_some_and(|(other, own)| other + 1 == own)
    };
    // Of two with one version the first counts: `mkfs.f2fs` makes such, and `sload.f2fs` rewrites it.
    Ok(found
        .into_iter()
        .enumerate()
        .rev()
        .filter_map(|(which, ends)| Some((which, ends?)))
        .filter(|(which, ends)| !ends.headless || follows(*which))
        .max_by_key(|(_, ends)| ends.cp.version))
}

pub(super) fn read_pack<D: BlockDevice>(
    disk: &mut Disk<D>,
    layout: &Layout,
) -> Result<Pack, FsError> {
    let newest = newest(disk, layout)?;
    let (which, Ends { cp, crc, headless }) =
        newest.ok_or(FsError::Corrupt("neither checkpoint pack is whole"))?;
    let crc = crc?;
    let bad = FsError::Corrupt("a pack's parts do not fit");
    let with_nodes = cp.flags.any(Flags::UMOUNT.with(Flags::FASTBOOT));
    let compact = cp.flags.any(Flags::COMPACT);
    let tail = 1 + if with_nodes { 3 } else { 0 } + if compact { 0 } else { 3 };
    let start = layout.pack(which).0;
    if cp.start_sum < 1 || cp.start_sum + tail > cp.pack_blocks {
        return Err(bad);
    }
    let mut blocks = Vec::new();
    for i in 0..cp.pack_blocks {
        let lost = headless && i == 0;
        blocks.push(if lost { zeroed() } else { read(disk, BlockAddr(start + i))? });
    }
    let total = blocks.len();
    let node_summaries = if with_nodes { &blocks[total - 4..total - 1] } else { &[] };
    let data_end = total - 1 - node_summaries.len();
    let (mut summaries, nat, sit);
    if compact {
        let mut reader = CompactReader::new(&blocks[cp.start_sum as usize..data_end]);
        let journals = reader.journals().ok_or(bad.clone())?;
        (nat, sit) = (Journal::nat(journals.0), Journal::sit(journals.1));
        summaries = compact_summaries(&mut reader, &cp)?;
    } else {
        let data = &blocks[data_end - 3..data_end];
        nat = Journal::nat(Summary::journal(&data[0]));
        sit = Journal::sit(Summary::journal(&data[2]));
        summaries = data.iter().map(|block| Summary::decode(block)).collect();
    }
    summaries.extend(node_summaries.iter().map(|block| Summary::decode(block)));
    let mut orphans = BTreeSet::new();
    if cp.flags.any(Flags::ORPHANS) {
        let from = (cp.start_sum - 1).min(cp.pack_blocks - 1);
        let first = from - orphan_blocks(&blocks, from);
        for block in &blocks[first as usize + 1..=from as usize] {
            orphans.extend(OrphanBlock::decode(block)?.inos);
        }
    }
    Ok(Pack { which, cp, headless, crc, summaries, nat, sit, orphans })
}

/// Orphan blocks end where the summaries begin; the first says how many there are.
fn orphan_blocks(blocks: &[Box<Block>], last: u32) -> u32 {
    let count = OrphanBlock::decode(&blocks[last as usize]).map_or(0, |block| block.count);
    u32::from(count).min(last)
}

fn compact_summaries(
    reader: &mut CompactReader<'_>,
    cp: &Checkpoint,
) -> Result<Vec<Summary>, FsError> {
    let mut summaries = Vec::new();
    for i in 0..3 {
        let mut summary = Summary::new(false);
        let whole = cp.alloc_types[i] != 0;
        let count = if whole { SUM_ENTRIES } else { usize::from(cp.data_heads.offsets[i]) };
        for origin in summary.origins.iter_mut().take(count) {
            *origin = reader.entry().ok_or(FsError::Corrupt("compact summaries end early"))?;
        }
        summaries.push(summary);
    }
    Ok(summaries)
}

fn read_sit<D: BlockDevice>(
    disk: &mut Disk<D>,
    layout: &Layout,
    pack: &Pack,
) -> Result<Vec<SitEntry>, FsError> {
    let mut entries = Vec::with_capacity(layout.main_segs as usize);
    for i in 0..layout.sit_blocks() {
        let block = read(disk, layout.sit_block(i, msb_test(&pack.cp.sit_bitmap, i as usize)))?;
        let left = layout.main_segs as usize - entries.len();
        entries.extend((0..left.min(SIT_PER_BLOCK)).map(|at| SitEntry::get(&block[..], at)));
    }
    for (seg, entry) in &pack.sit {
        let place = entries.get_mut(seg.index());
        *place.ok_or(FsError::Corrupt("a journal names a segment that is not there"))? = *entry;
    }
    Ok(entries)
}

impl<D: BlockDevice> Fs<D> {
    /// Mounts a volume.
    ///
    /// # Errors
    /// [`FsError::NotAVolume`], [`FsError::Corrupt`], [`FsError::Unsupported`] (for a feature, or
    /// for writing where a flag forbids it), and what the device says.
    pub fn mount(device: D, options: FsOptions, now: Now) -> Result<Fs<D>, FsError> {
        let mut disk = Disk::new(device, now.at);
        let (superblock, layout, live) = superblock(&mut disk)?;
        check_payload(&superblock)?;
        options.check()?;
        if options.bug.has(Bug::FlushTooEarly) {
            disk.count_flushes_early();
        }
        if options.bug.has(Bug::StaleRead) {
            disk.trust_reads();
        }
        let pack = read_pack(&mut disk, &layout)?;
        let wanted = (layout.sit_bitmap_bytes(), layout.nat_bitmap_bytes());
        if (pack.cp.sit_bitmap.len(), pack.cp.nat_bitmap.len()) != wanted {
            return Err(FsError::Corrupt("version bitmaps have other sizes than their areas"));
        }
        let hindrance = superblock.hindrance(!WRITABLE, true);
        let flagged = pack.cp.flags.any(Flags::REFUSED).then_some(
            "writing to a volume whose checkpoint says that it is damaged, disabled or being resized",
        );
        if let Some(what) = hindrance.or(flagged).filter(|_| !options.read_only) {
            return Err(FsError::Unsupported(what));
        }
        let mut fs = Fs::assemble(disk, (superblock, layout), options, pack, now)?;
        fs.live = live;
        fs.start()?;
        Ok(fs)
    }

    fn assemble(
        mut disk: Disk<D>,
        (superblock, layout): (Superblock, Layout),
        options: FsOptions,
        pack: Pack,
        now: Now,
    ) -> Result<Fs<D>, FsError> {
        let entries = read_sit(&mut disk, &layout, &pack)?;
        let mut segs = Segs::new(layout, &entries, options.question(layout.per_seg))?;
        pack.sit.iter().for_each(|(seg, _)| segs.touch(*seg));
        let cp = pack.cp;
        let mut nat = Nat::new(&layout, cp.nat_bitmap.clone(), cp.next_free_nid.0);
        for (nid, entry) in &pack.nat {
            nat.set(&mut disk, &layout, *nid, *entry)?;
        }
        let logs = heads(&layout, &cp, pack.summaries)?;
        let (nodes, inodes) = (u64::from(cp.valid_nodes), u64::from(cp.valid_inodes));
        let counts = Counts::new(cp.valid_blocks, nodes, inodes);
        if segs.valid_total() > cp.valid_blocks || cp.valid_blocks > cp.user_blocks {
            return Err(FsError::Corrupt("the count of valid blocks"));
        }
        Ok(Fs {
            disk,
            superblock,
            layout,
            options,
            elapsed_before: cp.elapsed,
            checkpoints: Checkpoints::found(cp, pack.crc, pack.which, now),
            nat,
            segs,
            logs,
            nodes: Default::default(),
            pages: Default::default(),
            summaries: Summaries::new(options.cached_nodes / PER_SUMMARY),
            counts,
            orphans: Orphans::found(pack.orphans),
            epoch: Epoch::default(),
            health: Default::default(),
            now,
            mounted: now,
            generations: 0,
            cleaner: Default::default(),
            counted: Default::default(),
            held_back: 0,
            live: false,
            journal: Default::default(),
            ahead: Default::default(),
            jobs: Default::default(),
            records: Default::default(),
        })
    }

    /// From the durable state to one that can be worked with.
    fn start(&mut self) -> Result<(), FsError> {
        let clean = self.cp().flags.any(Flags::UMOUNT);
        for kind in LogKind::ALL {
            self.segs.take(self.logs[kind as usize].seg, kind as u8, false);
        }
        if !self.cp().flags.any(Flags::UMOUNT.with(Flags::FASTBOOT)) {
            self.rebuild_node_summaries()?;
        }
        let mut gained = Gained::default();
        self.read_records()?;
        self.apply_records(&mut gained)?;
        for ino in self.orphans.take() {
            self.erase(ino)?;
        }
        let chain = self.read_chain()?;
        self.roll_forward(&chain, &mut gained)?;
        if self.options.read_only {
            self.health.close();
            return Ok(());
        }
        self.go_live()?;
        if !self.options.bug.has(Bug::RecoveryInChain) {
            self.hold_chain(&chain);
        }
        gained.write(self)?;
        let as_left = clean && chain.nodes.is_empty();
        self.renew_heads(&gained, !as_left)?;
        self.hold_heads();
        self.write_checkpoint(if as_left { Trigger::Mount } else { Trigger::Recovery })?;
        self.settle_live()
    }

    /// Replaces heads that cannot be appended to: those that were filled hole by hole, and those whose segment is not what
    /// it was at the checkpoint (with a journal another log may have had it since): recovery made blocks of it valid, or
    /// the chain lies in it, which is read again if power fails now. After a cut that of the chain, in any case. The others
    /// go on as they were: what is behind their end was written by nobody whose work counts, and a volume that is nearly
    /// full may have no six free segments when power returns.
    fn renew_heads(&mut self, gained: &Gained, cut: bool) -> Result<(), FsError> {
        for kind in LogKind::ALL {
            let log = &self.logs[kind as usize];
            let (seg, from, to) = (log.seg, log.offset, self.layout.per_seg);
            let used = (from..to).any(|at| self.segs.is_needed(self.layout.block(seg, at)));
            let other = (gained.has(seg) || self.segs.of(seg).is_held())
                && !self.options.bug.has(Bug::HeadKept);
            if used || other || cut && kind == LogKind::WarmNode {
                let fresh = self.open_log(kind)?;
                let old = std::mem::replace(&mut self.logs[kind as usize], fresh);
                self.write_summary(seg, &old.summary)?;
                self.segs.close(seg);
            }
        }
        Ok(())
    }
}

/// The six logs as the pack says.
fn heads(layout: &Layout, cp: &Checkpoint, summaries: Vec<Summary>) -> Result<[Log; 6], FsError> {
    let mut seen = BTreeSet::new();
    let mut summaries = summaries.into_iter();
    let mut logs = Vec::new();
    for kind in LogKind::ALL {
        let (heads, first) = match kind.is_node() {
            true => (&cp.node_heads, LogKind::HotNode),
            false => (&cp.data_heads, LogKind::HotData),
        };
        let i = kind as usize - first as usize;
        let (seg, offset) = (heads.segments[i], u32::from(heads.offsets[i]));
        if seg.0 >= layout.main_segs || offset >= layout.per_seg || !seen.insert(seg) {
            return Err(FsError::Corrupt("the heads of the logs"));
        }
        let summary = summaries.next().unwrap_or_else(|| Summary::new(true));
        logs.push(Log { seg, offset, summary, threaded: false });
    }
    logs.try_into().map_err(|_| FsError::Corrupt("the heads of the logs"))
}
