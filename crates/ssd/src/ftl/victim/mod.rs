//! Victim policies: which closed line is collected next. A policy is one file and one line in
//! the registry here.

mod age_threshold;
mod cost_benefit;
mod dchoice;
mod fifo;
mod greedy;
mod random;
mod windowed;

use block::Rng;

use super::lines::LineTable;

/// What a policy may look at.
pub(crate) struct Choice<'a> {
    /// All lines; closed ones are candidates.
    pub lines: &'a mut LineTable,
    /// Slot programs of the drive so far: the clock of ages.
    pub now: u64,
    /// The policy's own stream of draws.
    pub rng: &'a mut Rng,
    /// Look at every line that the definition speaks of, not at one of each bucket.
    pub exact: bool,
}

/// Chooses a victim among the closed lines.
///
/// The caller owes: the table's lists are right. The policy owes: a closed line, or `None` if
/// there is none; the same inputs give the same line; no floats, no allocation. Whether the line
/// gains space is the caller's question.
pub(crate) trait Victim: std::fmt::Debug + Send {
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
    make: fn(Option<u32>) -> Option<Box<dyn Victim>>,
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

/// The victim policies there are.
pub fn victims() -> &'static [VictimInfo] {
    REGISTRY
}

fn split(text: &str) -> Option<(&str, Option<u32>)> {
    match text.split_once('(') {
        None => Some((text, None)),
        Some((name, rest)) => {
            let n = rest.strip_suffix(')')?.trim().parse().ok()?;
            Some((name, Some(n)))
        }
    }
}

/// Builds a policy from its name.
pub(crate) fn make(text: &str) -> Option<Box<dyn Victim>> {
    let (name, parameter) = split(text)?;
    let info = REGISTRY.iter().find(|info| info.name.split('(').next() == Some(name))?;
    if parameter.is_some() && !info.name.contains('(') {
        return None;
    }
    (info.make)(parameter)
}

/// Whether a name is one of the registry's; the error lists them.
pub(crate) fn check(text: &str) -> Result<(), String> {
    make(text).map(|_| ()).ok_or_else(|| {
        let names: Vec<&str> = REGISTRY.iter().map(|info| info.name).collect();
        format!("one of {}", names.join(", "))
    })
}
