//! Journals in memory, and what their end means.
//!
//! Invariant: a journal is *live* while its magic stands at its beginning. (`super_journal`: several databases in one
//! COMMIT; `copies`: a device without room for a transaction.)

use std::collections::BTreeSet;

use super::core::{Core, Done, Id};
use super::objects::{Journal, Owner};
use super::spool::{Spool, spooled};
use super::super_journal::{is_super, super_of};
use super::{Bug, Way};
use block::DeviceError;

/// What SQLite writes at the beginning of each header, and after the name of a super-journal.
pub(super) const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// The database of a journal.
pub(super) fn database_of(journal: &str) -> Option<&str> {
    journal.strip_suffix("-journal")
}

pub(super) fn journal_of(database: &str) -> String {
    format!("{database}-journal")
}

impl Core {
    /// A journal, empty as yet.
    pub(super) fn new_journal(&mut self, name: &str) -> &mut Journal {
        let data = Spool::over(std::mem::take(&mut self.spare));
        self.journals.entry(name.to_string()).or_insert(Journal { data, ..Journal::default() })
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
        // The magic of one that is not live yet is written between two syncs.
        journal.asked &= live || at > 0;
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
    /// sees to that itself, but not with `synchronous=OFF`. Where it does, what it has journalled since is of other
    /// pages: a flush for each of them would be a thousand for one large transaction.
    pub(super) fn journal_first(&mut self, name: &str) -> Done<()> {
        let asked = self.journals.get(name).is_some_and(|journal| journal.asked);
        let trusted = asked || self.has_bug(Bug::JournalTrusted);
        let needed = self.unsynced_copy && !trusted && self.journal_durable(name);
        if needed { self.sync_plain() } else { Ok(()) }
    }

    /// Somebody may sync otherwise from here on: SQLite takes that in the midst of a transaction that is one statement.
    /// What was asked of its journal before says nothing then.
    pub(super) fn journals_unasked(&mut self) {
        self.journals.values_mut().for_each(|journal| journal.asked = false);
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
        if self.durable(name) {
            self.sync_plain()?;
        }
        if let Some(journal) = self.journals.get_mut(name) {
            journal.asked = true;
        }
        Ok(())
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
        if let Some(journal) = self.journals.get_mut(name) {
            journal.asked = false;
        }
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::table::PAGE;

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
}
