//! Super-journals: the COMMIT over several databases, and the names in journals that make them one.
//!
//! Invariant: the deletion of a super-journal commits if, and only if, every journal it lists ends with its
//! name: that is how SQLite itself decides at recovery.

use std::collections::BTreeSet;

use super::core::{Core, Done, Id};
use super::far::is_far;
use super::journal::{MAGIC, database_of};
use super::objects::{Journal, Owner};
use super::spool::spooled;
use super::{Bug, Way};
use crate::vfs::Kind;

/// Bytes at the end of a journal in which the name of its super-journal lies, if it has one.
const TAIL: u64 = 16 << 10;

pub(super) fn is_super(name: &str) -> bool {
    Kind::of_name(name) == Kind::Super
}

/// Whether the full name of a super-journal is that of an object, by whatever path it was called: by the number that
/// SQLite draws for each.
fn is_same_super(full: &[u8], name: &str) -> bool {
    name.rfind("-mj").is_some_and(|at| full.ends_with(&name.as_bytes()[at..]))
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
pub(super) fn is_companion(suffix: &str) -> bool {
    let draw = |text: &str| text.len() == 9 && text.bytes().all(|b| b.is_ascii_hexdigit());
    matches!(suffix, "-journal" | "-wal" | "-shm") || suffix.strip_prefix("-mj").is_some_and(draw)
}

impl Core {
    pub(super) fn super_over(&mut self, name: &str, full: &str) -> Done<()> {
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

    /// Removes super-journals that a power cut left and that decide nothing: SQLite removes one only with a journal
    /// that names it, so each would keep its room for ever. One that lists a journal of somewhere else stays: that
    /// one may name it. It is asked for when the next one becomes durable, so few are there at a time.
    pub(super) fn drop_left_supers(&mut self) -> Done<()> {
        for name in std::mem::take(&mut self.left) {
            let decides = match self.listed(&name) {
                Some(listed) => {
                    let mut named = false;
                    for journal in &listed {
                        let by = self.journals.get(journal).map_or(Ok(None), super_of)?;
                        named |= by.is_some_and(|full| is_same_super(&full, &name));
                    }
                    named
                }
                None => true,
            };
            if decides {
                self.left.insert(name);
            } else if self.durable(&name) {
                self.drop_copy(&name)?;
                self.journals.remove(&name);
            }
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
    pub(super) fn listed(&self, name: &str) -> Option<Vec<String>> {
        self.listed_names(name).iter().map(|name| self.object_of(name)).collect()
    }

    /// The object behind a file's full name, if it lies in this store.
    pub(super) fn object_of(&self, full: &str) -> Option<String> {
        if is_far(&self.path) {
            return self.known_of(full);
        }
        object_in(&self.path, full).or_else(|| self.object_before(full))
    }

    /// The same by the name that the store had when a COMMIT over several databases was cut off: its journals tell that one,
    /// and would be taken for those of a COMMIT that is over where the image is called otherwise now.
    pub(super) fn object_before(&self, full: &str) -> Option<String> {
        let object = object_in(self.was_called.as_ref()?, full)?;
        matches!(Kind::of_name(&object), Kind::Journal | Kind::Super).then_some(object)
    }

    /// The name that the store had then, if there is such a COMMIT.
    pub(super) fn name_before(&self) -> Done<Option<String>> {
        for (name, journal) in &self.journals {
            if is_super(name) {
                continue;
            }
            let Some(full) = super_of(journal)? else { continue };
            let Some(here) = self.left.iter().find(|left| is_same_super(&full, left)) else {
                continue;
            };
            let full = String::from_utf8_lossy(&full);
            let beside = here.strip_prefix("main").and_then(|end| full.strip_suffix(end));
            let inside = || full.strip_suffix(here.as_str())?.strip_suffix('/');
            if let Some(before) = beside.or_else(inside) {
                return Ok(Some(before.to_string()));
            }
        }
        Ok(None)
    }
}

/// The object of a store of that name behind a file's full name.
fn object_in(store: &str, full: &str) -> Option<String> {
    let inside = full.strip_prefix(store)?;
    match inside.as_bytes().first() {
        None => Some("main".to_string()),
        Some(b'/') if inside.len() > 1 => Some(inside[1..].to_string()),
        Some(b'-') if is_companion(inside) => Some(format!("main{inside}")),
        _ => None,
    }
}

/// The super-journal that a journal names.
pub(super) fn super_of(journal: &Journal) -> Done<Option<Vec<u8>>> {
    let (end, mut last) = (journal.data.len(), MAGIC.map(|_| 0));
    journal.data.read(&mut last, end.saturating_sub(MAGIC.len() as u64)).map_err(spooled)?;
    if last != MAGIC {
        return Ok(None);
    }
    let tail = journal.data.part(end.saturating_sub(TAIL), end).map_err(spooled)?;
    Ok(named_super(&tail).map(<[u8]>::to_vec))
}

#[cfg(test)]
mod tests {
    use super::*;

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
