//! The whole state against its invariants (contract C7), for the harness and the end of runs.

use block::Ppn;
use nand::NO_LPN;

use super::HybridFtl;
use super::lines::{NONE, Role};
use crate::Violation;

fn fail(what: String) -> Result<(), Violation> {
    Err(Violation { contract: "C7", what })
}

impl HybridFtl {
    /// Checks every invariant, O(slots).
    ///
    /// # Errors
    /// The first that does not hold.
    pub fn check(&self) -> Result<(), Violation> {
        let mut valid = vec![0u32; self.lines.len()];
        for slot in 0..self.slots() {
            let entry = self.map[slot as usize];
            if entry == 0 {
                continue;
            }
            let at = Ppn(entry - 1);
            let (line, position) = self.layout.position(&self.g, at);
            let Some(home) = self.lines.get(line as usize) else {
                return fail(format!("slot {slot} is mapped to {at}, a block of no line"));
            };
            valid[line as usize] += 1;
            let named = self.names(at);
            if named != slot && named != NO_LPN {
                return fail(format!("slot {slot} is mapped to {at}, whose record names {named}"));
            }
            let (owner, offset) = self.split(slot);
            let fits = match home.role {
                Role::Data => home.owner == owner && position == offset,
                Role::Log => home.owner == NONE || home.owner == owner,
                Role::Building => home.hurt,
                _ => false,
            };
            if !fits {
                return fail(format!(
                    "slot {slot} lies at position {position} of line {line}: {:?} of {}",
                    home.role, home.owner
                ));
            }
        }
        let total: u64 = valid.iter().map(|v| u64::from(*v)).sum();
        if total != self.mapped_total {
            return fail(format!("{total} slots are mapped, {} counted", self.mapped_total));
        }
        for (line, entry) in self.lines.iter().enumerate() {
            if entry.valid != valid[line] {
                return fail(format!(
                    "line {line} counts {} current slots, has {}",
                    entry.valid, valid[line]
                ));
            }
            if entry.reached as usize != entry.flushed as usize + entry.slots.len() {
                return fail(format!("line {line}: assembly of {} slots", entry.slots.len()));
            }
        }
        self.check_roles()
    }

    fn check_roles(&self) -> Result<(), Violation> {
        let count = |role: Role| self.lines.iter().filter(|l| l.role == role).count();
        let data = self.data_of.iter().filter(|l| **l != NONE).count();
        let named = [
            ("data", count(Role::Data), data),
            ("log", count(Role::Log), self.logs.len()),
            ("free", count(Role::Free), self.free.count() as usize),
            ("waiting", count(Role::Erasing), self.waiting.len()),
        ];
        for (name, have, listed) in named {
            if have != listed {
                return fail(format!("{have} {name} lines, {listed} listed"));
            }
        }
        for (owner, line) in self.data_of.iter().enumerate().filter(|(_, l)| **l != NONE) {
            if self.lines[*line as usize].owner as usize != owner {
                return fail(format!("line {line} does not know that it holds block {owner}"));
            }
        }
        for (owner, line) in self.log_of.iter().enumerate().filter(|(_, l)| **l != NONE) {
            let entry = &self.lines[*line as usize];
            if entry.owner as usize != owner || !entry.open || entry.role != Role::Log {
                return fail(format!("log line {line} of block {owner} is {:?}", entry.role));
            }
        }
        if let Some(number) = self
            .open_assemblies
            .iter()
            .find(|(n, l)| {
                let entry = &self.lines[**l as usize];
                entry.assembly != **n || entry.slots.is_empty()
            })
            .map(|(n, _)| n)
        {
            return fail(format!("assembly {number} is open and nowhere"));
        }
        Ok(())
    }
}
