//! Operations of a volume that nobody may hold while the device is waited for.
//!
//! | what | by whom |
//! | --- | --- |
//! | an operation is asked for; it answers, or says [`FsError::Again`]: it has changed nothing | with the volume |
//! | [`Fs::wants`]: the blocks that it needs | with the volume |
//! | [`Fetch::read`] | without it |
//! | [`Fs::brought`]; then the operation is asked for once more | with the volume |
//!
//! The contents of files go past the volume: [`Fs::plan_read`] says where they lie, [`ReadPlan::read`] reads
//! them, [`Fs::was_read`] says whether they count. What cleaning ahead of need waits for is
//! [`Fs::wants_of_cleaning`].
//!
//! Invariants: an operation that says `Again` has changed nothing, so each looks at all that it will need
//! (`prepare_..`) before its first change; what was forgotten there is read from the device all the same,
//! by whoever has the volume. What was read counts only if nobody wrote it meanwhile.

use block::{BlockDevice, Bytes, DeviceError, Time};

use super::Fs;
use super::file::BLOCK;
use crate::disk::{For, read_run};
use crate::format::{ADDRS_PER_BLOCK, BLOCK_BYTES, Summary};
use crate::{BlockAddr, Fetch, FsError, Nid, Now};

/// Where a piece of a file's contents is.
pub(super) enum Source {
    /// Nowhere: zeroes.
    Hole,
    /// In memory.
    Here(Vec<u8>),
    /// On the device: from this block on, after so many bytes of it.
    Blocks(BlockAddr, usize),
}

/// A piece of a file's contents, of so many bytes.
pub(super) struct Part {
    pub(super) len: usize,
    pub(super) source: Source,
}

/// Where the contents lie that somebody asked for.
pub struct ReadPlan {
    id: u64,
    len: usize,
    parts: Vec<Part>,
}

impl ReadPlan {
    /// Its own among all that are read.
    pub fn number(&self) -> u64 {
        self.id
    }
    /// How many bytes there are.
    pub fn bytes(&self) -> usize {
        self.len
    }

    /// Reads them; when the last is there.
    ///
    /// # Errors
    /// What the device says.
    pub fn read<D: BlockDevice>(
        &self,
        now: Time,
        device: &mut D,
        out: &mut [u8],
    ) -> Result<Time, DeviceError> {
        let (mut rest, mut answered) = (&mut out[..self.len], now);
        for part in &self.parts {
            let (here, more) = rest.split_at_mut(part.len);
            match &part.source {
                Source::Hole => here.fill(0),
                Source::Here(bytes) => here.copy_from_slice(bytes),
                Source::Blocks(at, 0) if part.len.is_multiple_of(BLOCK_BYTES) => {
                    answered = answered.max(read_run(device, now, *at, here)?);
                }
                Source::Blocks(at, skip) => {
                    let mut whole = vec![0; (skip + part.len).next_multiple_of(BLOCK_BYTES)];
                    answered = answered.max(read_run(device, now, *at, &mut whole)?);
                    here.copy_from_slice(&whole[*skip..skip + part.len]);
                }
            }
            rest = more;
        }
        Ok(answered)
    }
}

impl<D: BlockDevice> Fs<D> {
    /// From now on nobody waits for the device while he has the volume (or, with `false`, he does again):
    /// operations may answer [`FsError::Again`]. Then nobody reads, or does a job, any more: what there is to
    /// do is done here and now. An error of that shows as any other does: [`Fs::failed`].
    pub fn read_outside(&mut self, now: Now, on: bool) {
        let was = self.disk.is_outside();
        self.disk.read_outside(on);
        if was && !on {
            self.begin(now);
            self.finish_jobs();
        }
    }

    /// Who came again and again may wait for a read of the device, with the volume, until he says `false`.
    pub fn insist(&mut self, insists: bool) {
        self.disk.insist(insists);
    }

    /// What the operation needs that said [`FsError::Again`] last; to be read by who asked for it.
    ///
    /// # Errors
    /// What the device said to a write of it.
    pub fn wants(&mut self) -> Result<Option<Fetch>, FsError> {
        Ok(self.disk.fetch(For::Caller)?)
    }

    /// What cleaning ahead of need waits for.
    ///
    /// # Errors
    /// What the device said to a write of it.
    pub fn wants_of_cleaning(&mut self) -> Result<Option<Fetch>, FsError> {
        Ok(self.disk.fetch(For::Cleaning)?)
    }

    /// Whether there are any.
    pub fn cleaning_wants(&self) -> bool {
        self.disk.has_wants(For::Cleaning)
    }

    /// Nothing is changed any more: what cleaning waits for cannot be read.
    pub fn fail(&mut self, error: &FsError) {
        self.freeze_after(error);
    }

    /// Nobody will bring what was asked for with this number ([`Fetch::number`]): no more changes, and nobody
    /// waits for it.
    pub fn read_lost(&mut self, number: u64, error: &FsError) {
        self.disk.give_back(number);
        self.freeze_after(error);
    }

    /// Whether somebody reads blocks for the volume now.
    pub fn is_reading(&self) -> bool {
        self.disk.is_reading()
    }

    /// Takes cleaning ahead of need a step further.
    ///
    /// # Errors
    /// What the device says; [`FsError::ReadOnly`].
    pub fn clean_on(&mut self, now: Now) -> Result<(), FsError> {
        self.change_after(now, |_| Ok(()), |fs| fs.poll_cleaning())
    }

    /// It was read, or (`false`) could not be.
    pub fn brought(&mut self, fetch: Fetch, read: bool) {
        self.disk.bring(fetch, read);
    }

    /// Where the contents of a regular file or symlink lie, as many as there are of `len` bytes.
    ///
    /// # Errors
    /// Those of [`Fs::read`]; [`FsError::Again`].
    pub fn plan_read(
        &mut self,
        now: Now,
        ino: Nid,
        at: Bytes,
        len: usize,
    ) -> Result<ReadPlan, FsError> {
        self.look(now, |fs| {
            fs.expect_contents(ino)?;
            let mut parts = Vec::new();
            let len = fs.walk_contents(ino, at.0, len, |_, part| {
                parts.push(part);
                Ok(())
            })?;
            let runs = parts.iter().filter_map(|part| match part.source {
                Source::Blocks(at, skip) => {
                    Some((at, (skip + part.len).div_ceil(BLOCK_BYTES) as u32))
                }
                _ => None,
            });
            let id = fs.disk.lend(runs.collect())?;
            fs.counted.app(len as u64, 0);
            Ok(ReadPlan { id, len, parts })
        })
    }

    /// Goes on if these contents are in memory or need not be read.
    pub(super) fn prepare_contents(
        &mut self,
        ino: Nid,
        at: u64,
        len: usize,
    ) -> Result<(), FsError> {
        if !self.disk.is_outside() {
            return Ok(());
        }
        let mut gather = Gather::default();
        self.walk_contents(ino, at, len, |fs, part| {
            let Source::Blocks(at, skip) = part.source else { return Ok(()) };
            for block in at.0..at.0 + (skip + part.len).div_ceil(BLOCK_BYTES) as u32 {
                let there = fs.disk.expect_there(BlockAddr(block));
                gather.note(there)?;
            }
            Ok(())
        })?;
        gather.end()
    }

    /// Contents were read as planned, or could not be. Whether they count; no: some of them were written
    /// meanwhile, and it is to be planned anew.
    pub fn was_read(&mut self, plan: ReadPlan) -> bool {
        self.disk.give_back(plan.id).is_empty()
    }

    /// Goes on if all that a file's pointers from block `from` to `to` need is in memory: nodes on the way
    /// and their entries; a number for one that is missing.
    pub(super) fn prepare_pointers(&mut self, ino: Nid, from: u64, to: u64) -> Result<(), FsError> {
        if !self.disk.is_outside() {
            return Ok(());
        }
        let mut gather = Gather::default();
        let mut index = from;
        while index < to {
            let found = self.pointer_or_next(ino, index);
            let Some(found) = gather.note(found)? else {
                // The node behind: there may be more that is missing.
                index = index.saturating_add(ADDRS_PER_BLOCK as u64);
                continue;
            };
            match found {
                Ok(at) => {
                    let entry = self.nat_entry(at.nid);
                    gather.note(entry)?;
                    // Its other pointers need the same.
                    index += self.pointers_from(at)?;
                }
                Err(next) => {
                    let free = self.nat.prepare_free(&mut self.disk, &self.layout);
                    gather.note(free)?;
                    index = next;
                }
            }
        }
        gather.end()
    }

    /// Goes on if the nodes are in memory that are there on the way to blocks from `from` to `to`: to look at pointers, or
    /// to take them away.
    pub(super) fn prepare_nodes(&mut self, ino: Nid, from: u64, to: u64) -> Result<(), FsError> {
        if !self.disk.is_outside() {
            return Ok(());
        }
        let mut gather = Gather::default();
        let mut index = from;
        while index < to {
            let found = self.pointer_or_next(ino, index);
            index = match gather.note(found)? {
                Some(Ok(at)) => index + self.pointers_from(at)?,
                Some(Err(next)) => next,
                None => index.saturating_add(ADDRS_PER_BLOCK as u64),
            };
        }
        gather.end()
    }

    /// Goes on if a block of a file is in memory or need not be read.
    pub(super) fn prepare_block(&mut self, ino: Nid, index: u64) -> Result<(), FsError> {
        if !self.disk.is_outside() {
            return Ok(());
        }
        let addr = self.block_at(ino, index)?;
        if addr.is_place() { self.disk.expect_there(addr) } else { Ok(()) }
    }

    /// Goes on if a write of `len` bytes needs nothing that is not in memory.
    pub(super) fn prepare_write(&mut self, ino: Nid, at: u64, len: u64) -> Result<(), FsError> {
        if !self.disk.is_outside() || len == 0 || self.inode(ino)?.is_inline_data() {
            return Ok(());
        }
        self.prepare_pointers(ino, at / BLOCK, (at + len).div_ceil(BLOCK))?;
        let mut gather = Gather::default();
        for edge in [at, at + len].into_iter().filter(|edge| !edge.is_multiple_of(BLOCK)) {
            let there = self.prepare_block(ino, edge / BLOCK);
            gather.note(there)?;
        }
        gather.end()
    }

    /// Goes on if all of a file from block `first` on can be cut: its nodes, and their entries.
    pub(super) fn prepare_cut(&mut self, ino: Nid, first: u64) -> Result<(), FsError> {
        if !self.disk.is_outside() {
            return Ok(());
        }
        let mut gather = Gather::default();
        let inode = self.inode(ino)?;
        let mut base = inode.slots() as u64;
        let children: Vec<Nid> = (0..5).map(|which| inode.child(which)).collect();
        let own = self.nat_entry(ino);
        gather.note(own)?;
        let per = ADDRS_PER_BLOCK as u64;
        for (child, level) in children.into_iter().zip([0, 0, 1, 1, 2_u32]) {
            let span = per.pow(level + 1);
            if child != Nid::NONE && base + span > first {
                self.prepare_below(child, (level, base), first, &mut gather)?;
            }
            base += span;
        }
        gather.end()
    }

    fn prepare_below(
        &mut self,
        nid: Nid,
        (level, base): (u32, u64),
        first: u64,
        gather: &mut Gather,
    ) -> Result<(), FsError> {
        let entry = self.nat_entry(nid);
        gather.note(entry)?;
        let node = self.node(nid).map(|node| node.words(0).collect::<Vec<u32>>());
        let Some(words) = gather.note(node)?.filter(|_| level > 0) else { return Ok(()) };
        let span = (ADDRS_PER_BLOCK as u64).pow(level);
        for (from, child) in (0..).map(|slot| base + slot * span).zip(words) {
            if child != 0 && from + span > first {
                self.prepare_below(Nid(child), (level - 1, from), first, gather)?;
            }
        }
        Ok(())
    }

    /// Goes on if an inode and all that is its can be freed.
    pub(super) fn prepare_erase(&mut self, ino: Nid) -> Result<(), FsError> {
        if !self.disk.is_outside() {
            return Ok(());
        }
        let xattrs = Nid(self.inode(ino)?.xattr_nid());
        let mut gather = Gather::default();
        if xattrs != Nid::NONE {
            let (entry, node) = (self.nat_entry(xattrs), self.node(xattrs).map(|_| ()));
            gather.note(entry)?;
            gather.note(node)?;
        }
        let tree = self.prepare_cut(ino, 0);
        gather.note(tree)?;
        gather.end()
    }

    /// Goes on if a name can be put into a directory, or its block taken away.
    pub(super) fn prepare_entry(&mut self, dir: Nid, name: &[u8]) -> Result<(), FsError> {
        if !self.disk.is_outside() || self.is_inline_dir(dir)? {
            return Ok(());
        }
        let mut gather = Gather::default();
        for index in self.places_of(dir, name)? {
            let page = self.page(dir, index).map(|_| ());
            gather.note(page)?;
            let nodes = self.prepare_pointers(dir, index, index + 1);
            gather.note(nodes)?;
        }
        gather.end()
    }

    /// Goes on if what names the blocks of a victim can be changed.
    pub(super) fn prepare_owners(
        &mut self,
        wanted: &[(BlockAddr, u32, bool)],
        summary: &Summary,
    ) -> Result<(), FsError> {
        if !self.disk.is_outside() {
            return Ok(());
        }
        let mut gather = Gather::default();
        for (_, at, _) in wanted.iter().filter(|(.., valid)| *valid) {
            let nid = summary.origins[*at as usize].nid;
            let entry = self.nat_entry(nid);
            if gather.note(entry)?.is_none() || summary.nodes && self.journals() {
                continue;
            }
            let owner = self.node(nid).map(|node| node.ino());
            if let Some(ino) = gather.note(owner)? {
                let inode = self.node(ino).map(|_| ());
                gather.note(inode)?;
            }
        }
        gather.end()
    }

    /// Goes on if what is dirty can be written.
    pub(super) fn prepare_checkpoint(&mut self) -> Result<(), FsError> {
        if !self.disk.is_outside() {
            return Ok(());
        }
        let mut gather = Gather::default();
        for (dir, index) in self.pages.all_dirty() {
            let nodes = self.prepare_pointers(dir, index, index + 1);
            gather.note(nodes)?;
        }
        for (_, nid) in self.nodes.all_dirty() {
            let entry = self.nat_entry(nid);
            gather.note(entry)?;
        }
        gather.end()
    }
}

/// All that is missing is wanted at once.
#[derive(Default)]
pub(super) struct Gather {
    again: bool,
}

impl Gather {
    /// What there is, if it is there.
    pub(super) fn note<T>(&mut self, found: Result<T, FsError>) -> Result<Option<T>, FsError> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(FsError::Again) => {
                self.again = true;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
    /// Nothing was missing.
    pub(super) fn end(self) -> Result<(), FsError> {
        if self.again { Err(FsError::Again) } else { Ok(()) }
    }
}
