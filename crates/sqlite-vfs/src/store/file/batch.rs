//! A batch of writes that SQLite wants whole (`SQLITE_FCNTL_BEGIN_ATOMIC_WRITE`), in a transaction that may have begun before it.
//!
//! Invariant: what the transaction held before the batch goes only with the whole transaction. After an I/O error SQLite makes the COMMIT
//! go on without a batch, and repeats what was in that: what it spilled before, and what is of other databases, it does not write again.

use crate::store::Bug;
use crate::store::core::{Core, Done, Id};
use crate::store::objects::Owner;
use crate::vfs::Code;

/// What a transaction held when the batch began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Before {
    Nothing,
    /// Pages of other databases alone.
    Others,
    /// Pages of this one that were spilled.
    Own,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    before: Before,
    /// SQLite was told of an I/O error last: it goes on without the batch.
    goes_on: bool,
}

impl Batch {
    pub(super) fn begin(core: &Core, owner: Owner, id: Id) -> Batch {
        let before = match core.open.contains_key(&owner) {
            _ if core.has_bug(Bug::BatchTakesAll) => Before::Nothing,
            false => Before::Nothing,
            true if core.wrote(owner, id) => Before::Own,
            true => Before::Others,
        };
        Batch { before, goes_on: false }
    }

    /// What a write in it was answered.
    pub(super) fn told(&mut self, code: Code) {
        self.goes_on = code.0 & 0xff == Code::IOERR.0;
    }

    /// SQLite gives the batch up.
    pub(super) fn back(self, core: &mut Core, owner: Owner, id: Id) -> Done<()> {
        match self.before {
            // With its journal in memory it repeats every page of the batch: what is there of them is written over.
            Before::Own if self.goes_on => Ok(()),
            Before::Others if self.goes_on => core.take_back_of(owner, id),
            // Else the COMMIT fails, and SQLite may have let go of the journal that would undo what was spilled.
            _ => core.abort(owner),
        }
    }
}
