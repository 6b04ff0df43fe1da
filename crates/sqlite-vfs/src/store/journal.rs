//! Journals and super-journals in memory, what their end means, and their durable copies.
//!
//! Invariants:
//! * a journal is *live* while its magic stands at its beginning;
//! * the deletion of a super-journal commits if, and only if, every journal it lists ends with its
//!   name: that is how SQLite itself decides at recovery;
//! * a database whose journal has a durable copy is written plainly, after the copy is durable;
//!   the copy goes when all of the database is durable.

use std::collections::BTreeSet;

use super::core::{Core, Done, Id};
use super::objects::{Journal, Owner};
use super::spool::Spool;
use super::table::{Meta, PAGE};
use super::{Bug, Way};
use block::{Data, DeviceError, Lpn, TxId};

/// What SQLite writes at the beginning of each header, and after the name of a super-journal.
const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// Bytes at the end of a journal in which the name of its super-journal lies, if it has one.
const TAIL: u64 = 16 << 10;
/// Bytes of a journal that are copied at a time.
const PIECE: u64 = 256 << 10;

/// The database of a journal.
pub(super) fn database_of(journal: &str) -> Option<&str> {
    journal.strip_suffix("-journal")
}

pub(super) fn journal_of(database: &str) -> String {
    format!("{database}-journal")
}

fn is_super(name: &str) -> bool {
    crate::vfs::Kind::of_name(name) == crate::vfs::Kind::Super
}

/// The super-journal that a journal's last record names.
fn named_super(journal: &[u8]) -> Option<&[u8]> {
    super_before(journal.strip_suffix(&MAGIC)?)
}

/// The same of a journal whose last record lacks the magic at its end.
fn super_before(journal: &[u8]) -> Option<&[u8]> {
    let (rest, _sum) = journal.split_last_chunk::<4>()?;
    let (rest, length) = rest.split_last_chunk::<4>()?;
    let length = u32::from_be_bytes(*length) as usize;
    rest.get(rest.len().checked_sub(length)?..)
}

/// Whether a suffix is one that SQLite gives the files beside a database; another store may have a
/// name that begins as this one's.
fn is_companion(suffix: &str) -> bool {
    let draw = |text: &str| text.len() == 9 && text.bytes().all(|b| b.is_ascii_hexdigit());
    matches!(suffix, "-journal" | "-wal" | "-shm") || suffix.strip_prefix("-mj").is_some_and(draw)
}

impl Core {
    /// A journal, empty as yet.
    pub(super) fn new_journal(&mut self, name: &str) -> &mut Journal {
        let data = Spool::over(std::mem::take(&mut self.spare));
        self.journals.entry(name.to_string()).or_insert(Journal { data, durable: None })
    }

    /// Whether the journal of that name is live.
    pub(super) fn journal_live(&self, name: &str) -> bool {
        let journal = self.journals.get(name);
        let unchecked = self.has_bug(Bug::MagicUnchecked);
        journal.is_some_and(|j| j.data.starts_with(&MAGIC) || (unchecked && !j.data.is_empty()))
    }

    /// Whether the database of a journal is written the stock way, because that is durable.
    pub(super) fn journal_durable(&self, name: &str) -> bool {
        let journal = self.journals.get(name);
        journal.is_some_and(|j| j.durable.is_some() && !j.data.is_empty())
    }

    pub(super) fn journal_write(&mut self, name: &str, data: &[u8], at: u64) -> Done<()> {
        self.journal_fault = self.journal_fault.map(|left| left.saturating_sub(1));
        if self.journal_fault == Some(0) {
            self.journal_fault = None;
            return Err(DeviceError::Io("one error in a journal".to_string()).into());
        }
        self.stats.journal_writes += 1;
        // Zeroes end a live journal; the header of a new one also begins with them.
        let live = self.journals.get(name).is_some_and(|j| j.data.starts_with(&MAGIC));
        if live && at == 0 && data.len() >= 8 && data[..8] == [0; 8] {
            self.journal_over(name)?;
        }
        let journal = match self.journals.get_mut(name) {
            Some(journal) => journal,
            None => self.new_journal(name),
        };
        journal.data.write(data, at).map_err(spooled)?;
        match journal.durable {
            Some(copy) => {
                self.write_plain(copy, data, at)?;
                self.unsynced_copy = true;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Before the database of a journal is written plainly, what that says must be durable, if it is: SQLite
    /// sees to that itself, but not with `synchronous=OFF`.
    pub(super) fn journal_first(&mut self, name: &str) -> Done<()> {
        let needed = self.unsynced_copy && self.journal_durable(name);
        if needed { self.sync_plain() } else { Ok(()) }
    }

    pub(super) fn journal_truncate(&mut self, name: &str, size: u64) -> Done<()> {
        if size == 0 {
            self.journal_over(name)?;
        }
        let Some(journal) = self.journals.get_mut(name) else { return Ok(()) };
        journal.data.truncate(size).map_err(spooled)?;
        match journal.durable {
            Some(copy) => self.truncate_plain(copy, size),
            None => Ok(()),
        }
    }

    pub(super) fn journal_sync(&mut self, name: &str) -> Done<()> {
        if is_super(name) {
            let listed = self.listed(name).unwrap_or_default();
            if listed.iter().any(|journal| self.durable(journal)) {
                self.copy_out(name)?;
                return self.make_durable(&listed);
            }
        }
        if self.durable(name) { self.sync_plain() } else { Ok(()) }
    }

    /// Deletes a journal or a super-journal, whose full name is `full`.
    pub(super) fn journal_delete(&mut self, name: &str, full: &str) -> Done<()> {
        if is_super(name) {
            self.super_over(name, full)?;
        } else {
            self.journal_over(name)?;
        }
        let gone = self.journals.remove(name);
        // One that names a super-journal may be of a COMMIT whose last steps cannot fail any more, as SQLite sees it.
        let named = gone.as_ref().map_or(Ok(None), super_of)?;
        if let Some(journal) = gone {
            self.spare = journal.data.into_memory();
        }
        if named.is_none() {
            self.journal_gone(name);
        }
        Ok(())
    }

    /// SQLite deletes the journal of a transaction only where it lowers the lock as soon as that is committed: with
    /// locking EXCLUSIVE the journal stays. So the COMMIT may wait for its flush there.
    fn journal_gone(&mut self, name: &str) {
        let Some(id) = database_of(name).and_then(|database| self.id_of(database)) else { return };
        for tx in self.open.values_mut() {
            let mine = (id, 0)..=(id, u64::MAX);
            if tx.kept.range(mine).next().is_some() {
                tx.unlocks = true;
            }
        }
    }

    /// A journal is finalised: by the life of the journal that is the commit.
    fn journal_over(&mut self, name: &str) -> Done<()> {
        if self.durable(name) {
            // Even with `synchronous=OFF`: the copy may not go before the database is there.
            self.sync_plain()?;
            self.drop_copy(name)?;
        }
        // The copy goes even without it: it would be played back into the next one of that name.
        let Some(id) = database_of(name).and_then(|database| self.id_of(database)) else {
            return Ok(());
        };
        if self.options.way == Way::JournalLife {
            self.commit(&[Owner::Object(id)])
        } else {
            Ok(())
        }
    }

    fn super_over(&mut self, name: &str, full: &str) -> Done<()> {
        let listed = self.listed(name).unwrap_or_default();
        let mut carrying = BTreeSet::new();
        for journal in &listed {
            let named = self.journals.get(journal).map_or(Ok(None), super_of)?;
            if named.as_deref() == Some(full.as_bytes()) {
                carrying.insert(journal.clone());
            }
        }
        let carries = |journal: &String| carrying.contains(journal);
        // BEGIN IMMEDIATE lists databases that nothing was written to: they have no journal, and no say.
        let untouched = |journal: &String| {
            let id = database_of(journal).and_then(|database| self.id_of(database));
            let written = id.is_some_and(|id| self.open.keys().any(|owner| self.wrote(*owner, id)));
            !written && self.journals.get(journal).is_none_or(|journal| journal.data.is_empty())
        };
        let all = listed.iter().any(carries)
            && listed.iter().all(|journal| carries(journal) || untouched(journal));
        let counts =
            (all || self.has_bug(Bug::SuperWithoutNames)) && !self.has_bug(Bug::SuperIgnored);
        if counts {
            let ids: Vec<Id> = listed.iter().filter_map(|j| self.id_of(database_of(j)?)).collect();
            let owners: Vec<Owner> = match self.options.way {
                Way::JournalLife => ids.into_iter().map(Owner::Object).collect(),
                Way::Controls => {
                    let wrote = |owner: &&Owner| ids.iter().any(|id| self.wrote(**owner, *id));
                    self.open.keys().filter(wrote).copied().collect()
                }
            };
            self.commit(&owners)?;
        }
        if self.durable(name) {
            self.sync_plain()?;
            self.drop_copy(name)?;
        }
        Ok(())
    }

    /// The full names of the journals a super-journal lists.
    pub(super) fn listed_names(&self, name: &str) -> Vec<String> {
        // A list of names is never so long that it would not be in memory.
        let data = self.journals.get(name).map(|j| j.data.in_memory()).unwrap_or_default();
        let names = data.split(|b| *b == 0).filter(|name| !name.is_empty());
        names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    }

    /// The full name of the super-journal that a journal names from now on, if `data` at `at` is what
    /// ends such a record; and whether it is one of this store.
    pub(super) fn super_begun(
        &self,
        name: &str,
        data: &[u8],
        at: u64,
    ) -> Done<Option<(String, bool)>> {
        let journal = self.journals.get(name).filter(|_| data == MAGIC);
        let Some(journal) = journal.filter(|journal| at <= journal.data.len()) else {
            return Ok(None);
        };
        let written = journal.data.part(at.saturating_sub(TAIL), at).map_err(spooled)?;
        let Some(full) = super_before(&written) else { return Ok(None) };
        let full = String::from_utf8_lossy(full).into_owned();
        let here = self.object_of(&full).is_some_and(|name| self.journals.contains_key(&name));
        Ok((!full.is_empty()).then_some((full, here)))
    }

    /// The same as objects of this store; `None`: some are elsewhere, and it commits nothing here.
    fn listed(&self, name: &str) -> Option<Vec<String>> {
        self.listed_names(name).iter().map(|name| self.object_of(name)).collect()
    }

    /// The object behind a file's full name, if it lies in this store.
    pub(super) fn object_of(&self, full: &str) -> Option<String> {
        let inside = full.strip_prefix(&self.path)?;
        match inside.as_bytes().first() {
            None => Some("main".to_string()),
            Some(b'/') if inside.len() > 1 => Some(inside[1..].to_string()),
            Some(b'-') if is_companion(inside) => Some(format!("main{inside}")),
            _ => None,
        }
    }

    // Durable copies.

    fn durable(&self, name: &str) -> bool {
        self.journals.get(name).is_some_and(|j| j.durable.is_some())
    }

    /// The device has no room for `owner`'s transaction, which was to write `next`: its journals become durable, then it is
    /// committed as it is, half done, and goes on with plain writes. SQLite has journalled every
    /// page before it wrote it, so until the journals end, they undo it. `false`: there is no
    /// journal to do that with.
    pub(super) fn fall_back(&mut self, owner: Owner, next: Id) -> Done<bool> {
        let Some(tx) = self.open.get(&owner) else { return Ok(false) };
        let mut ids: Vec<Id> = tx.metas.keys().copied().collect();
        ids.extend(tx.pages.iter().chain(tx.kept.keys()).map(|(id, _)| *id));
        // It may have found the device full at its very first page.
        ids.push(next);
        ids.sort_unstable();
        ids.dedup();
        let names = ids.iter().filter_map(|id| self.objects.get(id)).map(|o| o.name.clone());
        let mut journals: Vec<String> = names.map(|name| journal_of(&name)).collect();
        if !journals.iter().all(|journal| self.journal_live(journal)) {
            return Ok(false);
        }
        let supers: Vec<String> = self.journals.keys().filter(|n| is_super(n)).cloned().collect();
        for name in supers {
            let listed = self.listed(&name).unwrap_or_default();
            let mut named = false;
            for journal in &listed {
                named |= self.journals.get(journal).map_or(Ok(None), super_of)?.is_some();
            }
            if listed.iter().any(|journal| journals.contains(journal)) && named {
                self.copy_out(&name)?;
                journals.extend(listed);
            }
        }
        for journal in &journals {
            self.copy_out(journal)?;
        }
        self.sync_plain()?;
        self.stats.fallbacks += 1;
        self.release(owner)?;
        Ok(true)
    }

    /// Commits a transaction half done. What could not be sent is written plainly after that.
    fn release(&mut self, owner: Owner) -> Done<()> {
        let Some(tx) = self.open.get_mut(&owner) else { return Ok(()) };
        let kept = std::mem::take(&mut tx.kept);
        self.commit_whole(&[owner])?;
        for ((id, page), bytes) in kept {
            self.keep_past(id, [page])?;
            let place = self.place(None, id, page);
            if let Some(lpn) = place {
                self.write_of(id, lpn, &bytes)?;
            }
        }
        Ok(())
    }

    /// Makes journals durable, and commits what their databases have written as it is.
    pub(super) fn make_durable(&mut self, listed: &[String]) -> Done<()> {
        let mut owners = Vec::new();
        for journal in listed {
            self.copy_out(journal)?;
            let id = database_of(journal).and_then(|database| self.id_of(database));
            let wrote = |owner: &&Owner| id.is_some_and(|id| self.wrote(**owner, id));
            owners.extend(self.open.keys().filter(wrote).copied());
        }
        self.sync_plain()?;
        owners.sort_unstable();
        owners.dedup();
        for owner in owners {
            self.release(owner)?;
        }
        Ok(())
    }

    /// Writes a journal of memory to an object of the same name.
    pub(super) fn copy_out(&mut self, name: &str) -> Done<()> {
        // One that SQLite still has in its own memory comes later, and is durable from its start.
        let journal = self.journals.entry(name.to_string()).or_default();
        if journal.durable.is_some() {
            return Ok(());
        }
        let length = journal.data.len();
        let copy = self.make(name);
        for at in (0..length).step_by(PIECE as usize) {
            let journal = self.journals.get(name).map(|journal| &journal.data);
            let data = journal.map_or(Ok(Vec::new()), |data| data.part(at, at + PIECE));
            let written = data.map_err(|error| spooled(error).into());
            if let Err(error) = written.and_then(|data| self.write_plain(copy, &data, at)) {
                self.forget(copy);
                return Err(error);
            }
        }
        self.journals.entry(name.to_string()).or_default().durable = Some(copy);
        Ok(())
    }

    /// Drops an object that no record names yet.
    fn forget(&mut self, id: Id) {
        if self.objects.get(&id).is_some_and(|object| object.meta.slots.is_empty())
            && let Some(object) = self.objects.remove(&id)
        {
            self.names.remove(&object.name);
            self.space.give(object.meta.extents);
        }
    }

    /// Takes back a transaction whose connection lets go of it. Nothing of it was written plainly as
    /// long as its journals have no durable copies, so they have nothing to undo: left as they are
    /// they would be played back, into a store that may have no room for that.
    pub(super) fn give_up(&mut self, owner: Owner) -> Done<()> {
        let Some(tx) = self.open.get(&owner) else { return Ok(()) };
        let pages = tx.pages.iter().chain(tx.kept.keys()).map(|(id, _)| *id);
        let ids: BTreeSet<Id> = tx.metas.keys().copied().chain(pages).collect();
        self.abort(owner)?;
        let left = self.has_bug(Bug::JournalLeft);
        for id in ids {
            let Some(object) = self.objects.get(&id) else { continue };
            if let Some(journal) = self.journals.get_mut(&journal_of(&object.name))
                && journal.durable.is_none()
                && !left
            {
                journal.data.truncate(0).map_err(spooled)?;
            }
        }
        Ok(())
    }

    /// Removes a durable copy; durable when it returns. After an error it is still known: a power cut
    /// would bring it back, to be played over whatever was committed without it.
    fn drop_copy(&mut self, name: &str) -> Done<()> {
        let Some(copy) = self.journals.get(name).and_then(|j| j.durable) else { return Ok(()) };
        if self.has_bug(Bug::CopyForgotten) {
            self.journals.entry(name.to_string()).or_default().durable = None;
        }
        self.remove_object(copy)?;
        if let Some(journal) = self.journals.get_mut(name) {
            journal.durable = None;
        }
        Ok(())
    }

    /// Removes an object with its record, in a transaction of its own.
    pub(super) fn remove_object(&mut self, id: Id) -> Done<()> {
        self.usable()?;
        // A client may have left a transaction open on it, with its journal: it ends here.
        self.abort(Owner::Object(id))?;
        self.flush_group()?;
        let Some(object) = self.objects.get(&id) else { return Ok(()) };
        let meta: Meta = object.meta.clone();
        if !meta.slots.is_empty() {
            let tid = self.device.tx_begin()?;
            let erased = self.erase_records(tid, &meta).and_then(|()| self.commit_tids(&[tid]));
            if let Err(error) = erased {
                if self.broken.is_none() {
                    // The record is as it was; what was begun may not hold its pages for good.
                    self.abort_tid(tid)?;
                }
                return Err(error);
            }
        }
        if let Some(object) = self.objects.remove(&id) {
            self.names.remove(&object.name);
        }
        self.space.slots.extend(meta.slots);
        self.let_go(&meta.extents)
    }

    /// Overwrites an object's records, in a transaction.
    fn erase_records(&mut self, tid: TxId, meta: &Meta) -> Done<()> {
        for slot in &meta.slots {
            let page = Lpn(self.layout.slot(*slot));
            self.now = self.device.tx_write(self.now, tid, page, Data::Write(&[0; PAGE]))?;
        }
        if meta.extents.iter().any(|extent| self.space.is_behind(*extent)) {
            // Sectors behind the drive are sealed with the object's number: none is used twice.
            let page = self.header_now();
            self.now = self.device.tx_write(self.now, tid, Lpn(0), Data::Write(&page))?;
        }
        Ok(())
    }

    /// After a mount: journals whose copies were found are there again, and are hot.
    pub(super) fn load_durable_journals(&mut self) -> Done<()> {
        let found: Vec<(String, Id)> = self
            .names
            .iter()
            .filter(|(name, _)| database_of(name).is_some() || is_super(name))
            .map(|(name, id)| (name.clone(), *id))
            .collect();
        for (name, id) in found {
            let (mut data, size) = (Spool::default(), self.size_of(None, id));
            for at in (0..size).step_by(PIECE as usize) {
                let mut piece = vec![0u8; PIECE.min(size - at) as usize];
                self.read(None, id, &mut piece, at)?;
                data.write(&piece, at).map_err(spooled)?;
            }
            self.journals.insert(name, Journal { data, durable: Some(id) });
        }
        Ok(())
    }
}

/// The super-journal that a journal names.
fn super_of(journal: &Journal) -> Done<Option<Vec<u8>>> {
    let (end, mut last) = (journal.data.len(), MAGIC.map(|_| 0));
    journal.data.read(&mut last, end.saturating_sub(MAGIC.len() as u64)).map_err(spooled)?;
    if last != MAGIC {
        return Ok(None);
    }
    let tail = journal.data.part(end.saturating_sub(TAIL), end).map_err(spooled)?;
    Ok(named_super(&tail).map(<[u8]>::to_vec))
}

/// A temporary file failed.
pub(super) fn spooled(error: std::io::Error) -> DeviceError {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    match error.kind() {
        StorageFull | QuotaExceeded | FileTooLarge => {
            DeviceError::NoSpace("the folder for temporary files has no room for a journal")
        }
        _ => DeviceError::Io(format!("a temporary file for a journal: {error}")),
    }
}

/// Writes into bytes in memory, which grow.
pub(super) fn patch(bytes: &mut Vec<u8>, data: &[u8], at: u64) {
    let at = usize::try_from(at).unwrap_or(usize::MAX);
    let end = at.saturating_add(data.len());
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[at..end].copy_from_slice(data);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_with_an_open_transaction_can_be_deleted_before_its_journal() {
        let device = block::RamDevice::new(block::Sectors(64 * 2048));
        let options = super::super::StoreOptions { way: Way::JournalLife, ..Default::default() };
        let mut core = Core::format(Box::new(device), None, options).unwrap();
        let id = core.make("main");
        core.write_plain(id, &[1; PAGE], 0).unwrap();
        core.journal_write("main-journal", &MAGIC, 0).unwrap();
        core.write_tagged(Owner::Object(id), false, id, &[2; PAGE], 0).unwrap();
        core.remove_object(id).unwrap();
        core.journal_delete("main-journal", "main-journal").unwrap();
        assert!(core.objects.is_empty() && core.open.is_empty());
        let again = core.make("main");
        core.write_plain(again, &[3; PAGE], 0).unwrap();
        let mut out = [0; 2 * PAGE];
        assert_eq!(core.read(None, again, &mut out, 0).unwrap(), PAGE);
        assert_eq!(out[..PAGE], [3; PAGE]);
    }

    #[test]
    fn a_journal_names_its_super_journal_at_its_end() {
        let mut journal = b"pages\0\0\0\x01ram/main-mj0".to_vec();
        journal.extend(12u32.to_be_bytes());
        journal.extend([1, 2, 3, 4]);
        journal.extend(MAGIC);
        assert_eq!(named_super(&journal), Some(&b"ram/main-mj0"[..]).map(|n| &n[n.len() - 12..]));
        assert_eq!(named_super(&journal[1..journal.len() - 1]), None);
        assert_eq!(named_super(&MAGIC), None);
        assert_eq!(named_super(b""), None);
    }
}
