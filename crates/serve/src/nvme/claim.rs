//! Who alone may write a namespace.
//!
//! Invariants: while a host has a claim, nobody else changes anything of that namespace; it ends with its host, when all
//! that the host had begun is over. What the host was told holds as long as the power: after a cut its commands are
//! refused until it claims again, for what it has not flushed may be gone without its having heard of it.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use stack::power::Power;

use super::codec::{claim, io, vendor};
use super::planted::Bug;
use super::status::{Failure, Status};
use super::subsystem::Subsystem;

/// Whose a claim is, and the power cuts that there had been when it was made.
#[derive(Clone, Copy, Debug)]
struct Holder {
    cntlid: u16,
    cuts: u64,
}

impl Holder {
    fn stands(self, power: &dyn Power) -> Result<(), Failure> {
        if self.cuts == power.state().cuts { Ok(()) } else { Err(Status::CLAIM_VOID.into()) }
    }
}

/// The claim of a namespace.
#[derive(Debug, Default)]
pub(super) struct Claim(RwLock<Option<Holder>>);

impl Claim {
    fn read(&self) -> RwLockReadGuard<'_, Option<Holder>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
    /// Waits until all is over that is being changed.
    fn write(&self) -> RwLockWriteGuard<'_, Option<Holder>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leave to change something: as long as it is there nobody else's claim begins, and none ends.
pub(super) struct Leave<'a> {
    _held: RwLockReadGuard<'a, Option<Holder>>,
    own: Option<(Holder, &'a dyn Power)>,
}

impl Leave<'_> {
    /// Whether what was done since was done in one life of the drive.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.own.map_or(Ok(()), |(holder, power)| holder.stands(power))
    }
}

/// Whether a command changes what a namespace holds.
pub(super) fn changes(opcode: u8) -> bool {
    match opcode {
        io::WRITE | io::WRITE_ZEROES | io::DATASET => true,
        opcode => opcode >= vendor::BEGIN && opcode != vendor::READ,
    }
}

impl Subsystem {
    fn power_of(&self, index: usize) -> &dyn Power {
        &*self.namespaces[index].stack.power
    }

    /// Leave for a host to change something of a namespace.
    pub(super) fn leave(&self, index: usize, cntlid: u16) -> Result<Leave<'_>, Failure> {
        let held = self.claims[index].read();
        let own = match *held {
            Some(holder) if holder.cntlid == cntlid && !self.options.bug.has(Bug::ClaimOverCut) => {
                Some((holder, self.power_of(index)))
            }
            Some(holder) if holder.cntlid != cntlid && !self.options.bug.has(Bug::ClaimIgnored) => {
                return Err(Status::RESERVED.into());
            }
            _ => None,
        };
        let leave = Leave { _held: held, own };
        leave.check()?;
        Ok(leave)
    }

    /// Whether what a host believes of a namespace still holds.
    pub(super) fn believes(&self, index: usize, cntlid: u16) -> Result<(), Failure> {
        let held = *self.claims[index].read();
        match held.filter(|holder| holder.cntlid == cntlid) {
            Some(holder) if !self.options.bug.has(Bug::ClaimOverCut) => {
                holder.stands(self.power_of(index))
            }
            _ => Ok(()),
        }
    }

    /// A host claims a namespace, or gives it back.
    pub(super) fn claim(&self, index: usize, cntlid: u16, what: u32) -> Result<(), Failure> {
        let mut held = self.claims[index].write();
        if let Some(other) = held.filter(|holder| holder.cntlid != cntlid) {
            return match what {
                claim::TAKE if self.options.bug.has(Bug::ClaimIgnored) => Ok(()),
                claim::TAKE => {
                    let result = u64::from(other.cntlid);
                    Err(Failure { result, ..Status::CLAIMED.into() })
                }
                // Nothing of this host is there to be given back.
                _ => Ok(()),
            };
        }
        let state = self.power_of(index).state();
        match what {
            // Nobody could say what is there.
            claim::TAKE if !state.on => {
                return Err(Failure { dark: true, ..Status::INTERNAL.into() });
            }
            claim::TAKE => *held = Some(Holder { cntlid, cuts: state.cuts }),
            claim::GIVE_BACK => *held = None,
            _ => return Err(Status::INVALID_FIELD.into()),
        }
        Ok(())
    }

    /// A host is gone.
    pub(super) fn end_claims(&self, cntlid: u16) {
        for claim in &self.claims {
            let mut held = claim.write();
            *held = held.filter(|holder| holder.cntlid != cntlid);
        }
    }
}
