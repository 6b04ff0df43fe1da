//! Victim policies: which closed segment is cleaned next. A policy is one file and one line in the
//! registry here.

mod age_threshold;
mod cost_benefit;
mod fifo;
mod greedy;
mod random;

use block::Rng;

use crate::geometry::Seg;
use crate::segment::Segments;

/// What a policy may look at.
pub(crate) struct Choice<'a> {
    /// All segments; closed ones are candidates.
    pub segments: &'a Segments,
    /// Blocks of a segment.
    pub blocks: u32,
    /// Blocks written so far: the clock of ages.
    pub now: u64,
    /// The policy's own stream of draws.
    pub rng: &'a mut Rng,
}

/// Chooses a victim among the closed segments.
///
/// The caller owes: buckets and states are right. The policy owes: a closed segment, or `None` if
/// there is none; the same inputs give the same segment; no floats, no allocation. Whether the
/// segment gains space is the caller's question.
pub(crate) trait Victim: std::fmt::Debug + Send {
    /// The next victim.
    fn choose(&mut self, choice: Choice<'_>) -> Option<Seg>;
}

/// One entry of the registry.
#[derive(Clone, Copy, Debug)]
pub struct VictimInfo {
    /// Name; `(n)` where it takes a parameter.
    pub name: &'static str,
    /// What it does.
    pub doc: &'static str,
    make: fn(Option<u32>) -> Option<Box<dyn Victim>>,
}

const COST_BENEFIT: VictimInfo = VictimInfo {
    name: "cost-benefit",
    doc: "(1 - u) * age / (1 + u), the oldest of each live count",
    make: cost_benefit::make,
};

const REGISTRY: &[VictimInfo] = &[
    VictimInfo { name: "greedy", doc: "fewest live blocks", make: greedy::make },
    COST_BENEFIT,
    VictimInfo {
        name: "age-threshold(k)",
        doc: "greedy among segments older than k segments' worth of writes (default 16), else greedy",
        make: age_threshold::make,
    },
    VictimInfo { name: "fifo", doc: "closed first", make: fifo::make },
    VictimInfo { name: "random", doc: "any closed segment", make: random::make },
];

/// The victim policies there are.
pub fn victims() -> &'static [VictimInfo] {
    REGISTRY
}

/// A victim policy as it is written, `age-threshold(3)`, read once.
#[derive(Clone, Copy, Debug)]
pub struct VictimSpec {
    /// The registry's entry.
    pub info: &'static VictimInfo,
    /// The parameter, if one was given.
    pub parameter: Option<u32>,
}

/// Cost-benefit: age-aware cleaning copies less wherever a load is not uniform (docs/design/host-log.md).
impl Default for VictimSpec {
    fn default() -> VictimSpec {
        VictimSpec { info: &COST_BENEFIT, parameter: None }
    }
}

impl VictimSpec {
    fn read(text: &str) -> Option<VictimSpec> {
        let (name, parameter) = match text.trim().split_once('(') {
            None => (text.trim(), None),
            Some((name, rest)) => (name, Some(rest.strip_suffix(')')?.trim().parse().ok()?)),
        };
        let info = REGISTRY.iter().find(|info| info.name.split('(').next() == Some(name))?;
        let takes = parameter.is_none() || info.name.contains('(');
        (takes && (info.make)(parameter).is_some()).then_some(VictimSpec { info, parameter })
    }

    /// Builds the policy.
    pub(crate) fn build(self) -> Box<dyn Victim> {
        (self.info.make)(self.parameter).expect("its parameter was tried when it was read")
    }
}

impl std::str::FromStr for VictimSpec {
    type Err = String;

    /// The error lists those of the registry.
    fn from_str(text: &str) -> Result<VictimSpec, String> {
        VictimSpec::read(text).ok_or_else(|| {
            let names: Vec<&str> = REGISTRY.iter().map(|info| info.name).collect();
            format!("one of {}", names.join(", "))
        })
    }
}

/// The closed segments with their numbers.
fn closed<'a>(
    segments: &'a Segments,
) -> impl Iterator<Item = (Seg, &'a crate::segment::Segment)> + 'a {
    let all = segments.all().iter().enumerate();
    all.filter(|(_, s)| s.state == crate::segment::State::Closed).map(|(i, s)| (Seg(i as u32), s))
}
