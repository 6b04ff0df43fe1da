//! Durable copies of journals: where the device has no room for a transaction, its databases are written the
//! stock way.
//!
//! Invariant: a database whose journal has a durable copy is written plainly, after the copy is durable; the
//! copy goes when all of the database is durable.

use super::Bug;
use super::core::{Core, Done, Id};
use super::journal::{database_of, journal_of};
use super::objects::{Journal, Owner};
use super::spool::{Spool, spooled};
use super::super_journal::{is_super, super_of};

/// Bytes of a journal that are copied at a time.
const PIECE: u64 = 256 << 10;

impl Core {
    pub(super) fn durable(&self, name: &str) -> bool {
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
        if is_super(name) {
            self.drop_left_supers()?;
        }
        let copy = self.make(name);
        for at in (0..length).step_by(PIECE as usize) {
            let journal = self.journals.get(name).map(|journal| &journal.data);
            let data = journal.map_or(Ok(Vec::new()), |data| data.part(at, at + PIECE));
            let written = data.map_err(|error| spooled(error).into());
            if let Err(error) = written.and_then(|data| self.write_plain(copy, &data, at)) {
                self.forget(copy)?;
                return Err(error);
            }
        }
        self.journals.entry(name.to_string()).or_default().durable = Some(copy);
        Ok(())
    }

    /// Removes a durable copy; durable when it returns. After an error it is still known: a power cut
    /// would bring it back, to be played over whatever was committed without it.
    pub(super) fn drop_copy(&mut self, name: &str) -> Done<()> {
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
            if is_super(&name) {
                self.left.insert(name.clone());
            }
            self.journals.insert(name, Journal { data, durable: Some(id), asked: false });
        }
        self.was_called = self.name_before()?;
        Ok(())
    }
}
