//! What must come of each fault of the array. The generator and the oracle both read it, so that
//! a fault cannot be planted without a promise, or judged by another.

use block::{BlockId, Rng, Span, Time};
use nand::{Fault, Outcome};

use crate::model::Tolerance;

/// The name of a fault in plan files.
pub fn name(fault: &Fault) -> &'static str {
    match fault {
        Fault::Cut(_) => "cut",
        Fault::ProgramFail { .. } => "program-fail",
        Fault::EraseFail { .. } => "erase-fail",
        Fault::ProgramNoop { .. } => "program-noop",
        Fault::MisdirectWrite { .. } => "misdirect-write",
        Fault::ReadRetry { .. } => "read-retry",
        Fault::ReadUncorrectable { .. } => "read-uncorrectable",
        Fault::BitRot { .. } => "bit-rot",
        Fault::MisdirectRead { .. } => "misdirect-read",
        Fault::SlowDie { .. } => "slow-die",
        Fault::StuckOp { .. } => "stuck-op",
        Fault::BadBlock { .. } => "bad-block",
    }
}

/// The outcome promised while the power stays on.
pub fn outcome(fault: &Fault) -> Outcome {
    match fault {
        Fault::Cut(_) | Fault::ReadRetry { .. } | Fault::SlowDie { .. } | Fault::StuckOp { .. } => {
            Outcome::Masked
        }
        // Masked while the reserve lasts; a tiny drive has little of it.
        Fault::ProgramFail { .. } | Fault::EraseFail { .. } | Fault::BadBlock { .. } => {
            Outcome::ReadOnly
        }
        Fault::ProgramNoop { .. }
        | Fault::MisdirectWrite { .. }
        | Fault::ReadUncorrectable { .. }
        | Fault::BitRot { .. }
        | Fault::MisdirectRead { .. } => Outcome::Detected,
    }
}

/// An outcome promised for a whole plan.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Expect {
    /// Masked.
    M,
    /// Typed error.
    D,
    /// Reads only.
    H,
}

impl Expect {
    /// As plan files write it.
    pub fn letter(self) -> &'static str {
        match self {
            Expect::M => "M",
            Expect::D => "D",
            Expect::H => "H",
        }
    }
}

/// The outcome a set of faults promises: the worst of theirs.
pub fn worst(faults: &[Fault]) -> Expect {
    let each = faults.iter().map(|fault| match outcome(fault) {
        Outcome::Masked => Expect::M,
        Outcome::Detected => Expect::D,
        Outcome::ReadOnly => Expect::H,
    });
    each.max().unwrap_or(Expect::M)
}

/// What a set of faults excuses on a drive whose page holds `page_units` pages of 4 KiB.
///
/// A fault hits one page of the array. With the power on, each of its 4 KiB pages answers with an
/// error. After a mount, a page whose record cannot be trusted cannot be told from one never
/// written, so an older version of the same page may come back: detection needs a record
/// elsewhere, which only a checkpoint is. What is never excused is another page's data.
/// `shared`: some array pages speak of many logical ones (translation pages, trim records): one
/// of them may take all.
pub fn tolerance(faults: &[Fault], page_units: u32, shared: bool) -> Tolerance {
    let mut all = Tolerance::default();
    for fault in faults {
        match outcome(fault) {
            Outcome::Masked => {}
            Outcome::Detected => {
                all.unreadable = if shared { u32::MAX } else { all.unreadable + page_units };
                all.older = true;
                all.stale |=
                    matches!(fault, Fault::MisdirectWrite { .. } | Fault::MisdirectRead { .. });
            }
            Outcome::ReadOnly => all.read_only = true,
        }
    }
    all
}

/// Draws one fault of a drive of that many dies and blocks, within the first `ops` operations.
pub fn draw(rng: &mut Rng, ops: u64, dies: u32, blocks: u32) -> Fault {
    let at = rng.below(ops.max(1));
    match rng.below(11) {
        0 => Fault::ProgramFail { at, always: rng.ratio(1, 2) },
        1 => Fault::EraseFail { at },
        2 => Fault::ProgramNoop { at },
        3 => Fault::MisdirectWrite { at },
        4 => Fault::ReadRetry { read: at, steps: 1 + rng.below(8) as u32 },
        5 => Fault::ReadUncorrectable { read: at },
        6 => Fault::BitRot { at, oob: rng.ratio(1, 2) },
        7 => Fault::MisdirectRead { read: at },
        8 => Fault::SlowDie {
            die: rng.below(u64::from(dies)) as u32,
            factor: 2 + rng.below(20) as u32,
            from: Time::from_us(rng.below(20_000)),
            to: Time::from_us(20_000 + rng.below(100_000)),
        },
        9 => Fault::StuckOp { at, span: Span::from_us(1 + rng.below(50_000)) },
        _ => Fault::BadBlock { block: BlockId(rng.below(u64::from(blocks)) as u32) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_drawn_and_has_a_promise() {
        let mut rng = Rng::new(5);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..500 {
            let fault = draw(&mut rng, 50, 2, 16);
            seen.insert(name(&fault));
            let excused = tolerance(&[fault], 4, false);
            assert_eq!(excused.unreadable > 0, outcome(&fault) == Outcome::Detected);
            assert_eq!(excused.read_only, outcome(&fault) == Outcome::ReadOnly);
        }
        assert_eq!(seen.len(), 11, "{seen:?}");
        assert_eq!(worst(&[]), Expect::M);
    }
}
