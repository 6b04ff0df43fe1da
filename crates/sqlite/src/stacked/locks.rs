//! SQLite's locks on the files of a volume, which nobody outside this process reaches.

use std::collections::BTreeMap;

use lfs::Nid;
use varve_sqlite_vfs::vfs::{Answer, Code, Level};

/// Who holds what: by file, and by handle.
#[derive(Default)]
pub(super) struct Locks(BTreeMap<(Nid, u64), Level>);

impl Locks {
    /// The highest level that others hold.
    fn others(&self, file: Nid, handle: u64) -> Level {
        let all = self.0.iter().filter(|((of, who), _)| *of == file && *who != handle);
        all.map(|(_, level)| *level).max().unwrap_or(Level::None)
    }

    /// Raises a lock.
    ///
    /// # Errors
    /// [`Code::BUSY`]. Who waits for readers to leave keeps new ones out.
    pub(super) fn raise(&mut self, file: Nid, handle: u64, level: Level) -> Answer<()> {
        let others = self.others(file, handle);
        let granted = match level {
            Level::None => return Ok(()),
            Level::Shared => (others < Level::Pending).then_some(Level::Shared),
            Level::Reserved => (others < Level::Reserved).then_some(Level::Reserved),
            Level::Pending | Level::Exclusive => match others {
                Level::None => Some(level),
                Level::Shared => Some(Level::Pending),
                _ => None,
            },
        };
        let held = self.0.entry((file, handle)).or_insert(Level::None);
        *held = (*held).max(granted.unwrap_or(Level::None));
        if *held >= level { Ok(()) } else { Err(Code::BUSY) }
    }

    /// Lowers a lock.
    pub(super) fn lower(&mut self, file: Nid, handle: u64, level: Level) {
        match level {
            Level::None => {
                self.0.remove(&(file, handle));
            }
            level => {
                self.0.insert((file, handle), level);
            }
        }
    }

    /// Whether anybody means to write.
    pub(super) fn reserved(&self, file: Nid) -> bool {
        self.0.iter().any(|((of, _), level)| *of == file && *level >= Level::Reserved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_writes_when_the_readers_have_left() {
        let (mut locks, file) = (Locks::default(), Nid(5));
        locks.raise(file, 1, Level::Shared).unwrap();
        locks.raise(file, 2, Level::Shared).unwrap();
        locks.raise(file, 1, Level::Reserved).unwrap();
        assert_eq!(locks.raise(file, 2, Level::Reserved), Err(Code::BUSY));
        assert_eq!(locks.raise(file, 1, Level::Exclusive), Err(Code::BUSY), "2 reads");
        assert_eq!(locks.raise(file, 3, Level::Shared), Err(Code::BUSY), "1 waits for readers");
        locks.lower(file, 2, Level::None);
        locks.raise(file, 1, Level::Exclusive).unwrap();
        assert!(locks.reserved(file) && !locks.reserved(Nid(6)));
        locks.lower(file, 1, Level::None);
        locks.raise(file, 3, Level::Shared).unwrap();
    }
}
