//! Victim policies: which closed line is collected next. A policy is one file and one line in
//! the registry here; programs that use this crate add their own ([`add_victim`]).

mod age_threshold;
mod cost_benefit;
mod dchoice;
mod fifo;
mod greedy;
mod random;
mod windowed;

use std::sync::{PoisonError, RwLock};

use block::Rng;

use super::lines::LineTable;

/// What a policy may look at.
#[derive(Debug)]
pub struct Choice<'a> {
    /// All lines; closed ones are candidates.
    pub(crate) lines: &'a mut LineTable,
    /// Slot programs of the drive so far: the clock of ages.
    pub now: u64,
    /// The policy's own stream of draws.
    pub rng: &'a mut Rng,
    /// Look at every line that the definition speaks of, not at one of each bucket.
    pub(crate) exact: bool,
}

/// A line that may be collected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClosedLine {
    /// Its number: what [`Victim::choose`] answers.
    pub line: u32,
    /// Slots that hold current data, which would be copied.
    pub valid: u32,
    /// Slots that it has.
    pub slots: u32,
    /// Slot programs of the drive when it was closed.
    pub closed_at: u64,
}

impl Choice<'_> {
    /// The closed lines, those closed first before the others.
    pub fn closed(&self) -> impl Iterator<Item = ClosedLine> + '_ {
        self.lines.in_order().map(|line| {
            let entry = self.lines.get(line);
            let slots = self.lines.capacity(line);
            ClosedLine { line, valid: entry.valid, slots, closed_at: entry.closed_at }
        })
    }
}

/// Chooses a victim among the closed lines.
///
/// The caller owes: the table's lists are right. The policy owes: a closed line, or `None` if
/// there is none; the same inputs give the same line; no floats, no allocation. Whether the line
/// gains space is the caller's question.
pub trait Victim: std::fmt::Debug + Send {
    /// The next victim.
    fn choose(&mut self, choice: Choice<'_>) -> Option<u32>;
    /// Whether a line without gain is collected all the same because it is its turn: its data goes
    /// to the end of the order.
    fn in_turn(&self) -> bool {
        false
    }
    /// For a cloned drive.
    fn boxed(&self) -> Box<dyn Victim>;
}

/// One entry of the registry.
#[derive(Clone, Copy, Debug)]
pub struct VictimInfo {
    /// Name on the command line; `(n)` where it takes a parameter.
    pub name: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// Makes it as it is written; `None` for a parameter that it does not take.
    pub make: fn(&VictimSpec) -> Option<Box<dyn Victim>>,
}

const REGISTRY: &[VictimInfo] = &[
    VictimInfo { name: "greedy", doc: "fewest valid slots", make: greedy::make },
    VictimInfo { name: "fifo", doc: "closed first, full lines too", make: fifo::make },
    VictimInfo { name: "random", doc: "any closed line", make: random::make },
    VictimInfo {
        name: "dchoice(d)",
        doc: "fewest valid slots of d drawn lines (default 10)",
        make: dchoice::make,
    },
    VictimInfo {
        name: "windowed(w)",
        doc: "fewest valid slots of the w lines closed first (default 64)",
        make: windowed::make,
    },
    VictimInfo {
        name: "cost-benefit",
        doc: "the most (1 - u) * age / (1 + u)",
        make: cost_benefit::make,
    },
    VictimInfo {
        name: "age-threshold(k)",
        doc: "greedy among lines older than k lines' worth of programs (default 16), else greedy",
        make: age_threshold::make,
    },
];

/// Those of programs that use this crate, in the order in which they came.
static ADDED: RwLock<Vec<&'static VictimInfo>> = RwLock::new(Vec::new());

/// The victim policies there are: those of this crate, then those that were added.
pub fn victims() -> Vec<&'static VictimInfo> {
    let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
    REGISTRY.iter().chain(added.iter().copied()).collect()
}

/// The policy of a name without its parameter.
fn find(name: &str) -> Option<&'static VictimInfo> {
    victims().into_iter().find(|info| info.name.split('(').next() == Some(name))
}

/// Adds a policy: from now on its name stands wherever that of a victim policy does.
///
/// # Errors
/// There is one of that name.
pub fn add_victim(info: &'static VictimInfo) -> Result<(), String> {
    let name = info.name.split('(').next().unwrap_or_default();
    if find(name).is_some() {
        return Err(format!("a victim policy is called `{name}` already"));
    }
    ADDED.write().unwrap_or_else(PoisonError::into_inner).push(info);
    Ok(())
}

/// Adds a policy, in the place of one of its name that was added before: for programs in which a policy is
/// written while they run. What was read as the one before stays that one.
///
/// # Errors
/// A policy of this crate has its name.
pub fn replace_victim(info: &'static VictimInfo) -> Result<(), String> {
    let name = info.name.split('(').next();
    if REGISTRY.iter().any(|own| own.name.split('(').next() == name) {
        return Err(format!("a victim policy of the drive is called `{}`", info.name));
    }
    let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
    added.retain(|old| old.name.split('(').next() != name);
    added.push(info);
    Ok(())
}

/// A victim policy as it is written, `dchoice(3)`, read once.
#[derive(Clone, Copy, Debug)]
pub struct VictimSpec {
    /// The registry's entry.
    pub info: &'static VictimInfo,
    /// The parameter, if one was given.
    pub parameter: Option<u32>,
}

impl VictimSpec {
    fn read(text: &str) -> Option<VictimSpec> {
        let (name, parameter) = match text.trim().split_once('(') {
            None => (text.trim(), None),
            Some((name, rest)) => (name, Some(rest.strip_suffix(')')?.trim().parse().ok()?)),
        };
        let spec = VictimSpec { info: find(name)?, parameter };
        let takes = parameter.is_none() || spec.info.name.contains('(');
        (takes && (spec.info.make)(&spec).is_some()).then_some(spec)
    }

    /// Builds the policy.
    pub(crate) fn build(self) -> Box<dyn Victim> {
        (self.info.make)(&self).expect("its parameter was tried when it was read")
    }
}

impl std::str::FromStr for VictimSpec {
    type Err = String;

    /// The error lists those of the registry.
    fn from_str(text: &str) -> Result<VictimSpec, String> {
        VictimSpec::read(text).ok_or_else(|| {
            let names: Vec<&str> = victims().iter().map(|info| info.name).collect();
            format!("one of {}", names.join(", "))
        })
    }
}
