//! Plans at work: searched for a broken promise, or followed.

use std::path::Path;

use crate::coverage::Tally;
use crate::drive::{DriveSpec, DriveSubject};
use crate::failure::{Contract, Failure};
use crate::lfs::{FsOracle, FsSpec, FsSubject};
use crate::oracle::PageOracle;
use crate::plan::{Plan, PlanError};
use crate::prover::{Broken, Density, Prover};
use crate::remap::{HostSubject, LogOracle, RemapSpec};
use crate::stack::{Judge, StackSpec, StackSubject};
use crate::step::Step;
use crate::subject::{Oracle, Subject};
use crate::tx::TxOracle;

/// What came of following a plan.
#[derive(Clone, Debug)]
pub struct ReplayOutcome {
    /// The promise broken, if one was.
    pub failure: Option<Failure>,
    /// The line the plan says it broke when it was written.
    pub expected: Option<Contract>,
    /// Event hash of the run up to the first cut.
    pub hash: u64,
    /// Whether it is the plan's hash: the same build does the same operations.
    pub hash_matches: Option<bool>,
    /// Every cut of the plan was come to.
    pub reached: bool,
    /// Steps performed.
    pub steps: u64,
}

impl ReplayOutcome {
    /// The plan's failure is there, or gone if it named none.
    pub fn as_written(&self) -> bool {
        self.failure.as_ref().map(|f| f.contract) == self.expected
    }
}

impl std::fmt::Display for ReplayOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.failure, self.expected) {
            (Some(failure), _) => write!(f, "broken: {failure}")?,
            (None, Some(contract)) => write!(f, "holds; the plan was written for {contract}")?,
            (None, None) => write!(f, "holds")?,
        }
        if !self.reached {
            write!(f, "; a cut names an operation that the run does not come to")?;
        }
        if self.hash_matches == Some(false) {
            write!(f, "; other operations than when it was written")?;
        }
        write!(f, " ({} steps, event hash {:016x})", self.steps, self.hash)
    }
}

/// Follows a plan.
///
/// # Errors
/// If its configuration makes nothing to follow it with.
pub fn replay(plan: &Plan) -> Result<ReplayOutcome, PlanError> {
    if plan.has_stack() {
        let spec = StackSpec::of(plan)?;
        return Ok(match (spec.judge(), spec.files()) {
            (Judge::Files, Some(options)) => {
                follow::<FsSubject, FsOracle>(plan, &FsSpec::over(spec, options)?)
            }
            (Judge::Pages, _) => {
                within(plan, spec.pages())?;
                follow::<StackSubject, PageOracle>(plan, &spec)
            }
            _ => {
                within(plan, spec.pages())?;
                follow::<StackSubject, LogOracle>(plan, &spec)
            }
        });
    }
    if plan.has_files() {
        return Ok(follow::<FsSubject, FsOracle>(plan, &FsSpec::of(plan)?));
    }
    if plan.has_log() {
        let spec = RemapSpec::of(plan)?;
        within(plan, spec.pages())?;
        return Ok(follow::<HostSubject, LogOracle>(plan, &spec));
    }
    let spec = DriveSpec::of(plan)?;
    within(plan, spec.shape().pages)?;
    Ok(match plan.has_transactions() {
        true => follow::<DriveSubject, TxOracle>(plan, &spec),
        false => follow::<DriveSubject, PageOracle>(plan, &spec),
    })
}

/// Refuses a plan with a step that reaches beyond its device.
fn within(plan: &Plan, pages: u32) -> Result<(), PlanError> {
    let beyond = plan.work.iter().chain(&plan.after).find(|step| step.end() > u64::from(pages));
    beyond.map_or(Ok(()), |step| {
        Err(PlanError::Config(format!("`{step}` reaches beyond the device of {pages} pages")))
    })
}

fn follow<S: Subject, O: Oracle<S, Step = Step>>(plan: &Plan, spec: &S::Spec) -> ReplayOutcome {
    let mut prover: Prover<'_, S, O> =
        Prover::new(spec, &plan.work, &plan.after, plan.seed, Density::SHORT);
    let result = prover.walk(&plan.cuts);
    ReplayOutcome {
        failure: result.err().map(|broken| broken.failure),
        expected: plan.contract,
        hash: prover.hash,
        hash_matches: plan.hash.map(|hash| hash == prover.hash),
        reached: !prover.missed,
        steps: prover.tally.steps,
    }
}

/// Reads a plan file and follows it.
///
/// # Errors
/// If it cannot be read, or its configuration makes no drive.
pub fn replay_file(path: &Path) -> Result<ReplayOutcome, PlanError> {
    replay(&Plan::load(path)?)
}

/// What came of a search.
#[derive(Clone, Debug)]
pub struct HuntOutcome {
    /// What was tried.
    pub tally: Tally,
    /// Event hash of the whole run, without cuts.
    pub hash: u64,
    /// Hash of what all that was powered on again did.
    pub recoveries: u64,
    /// The first broken promise, and how to get there.
    pub broken: Option<Broken>,
}

/// Searches the run of a plan for a broken promise, whatever it is of. The plan's own cuts are not
/// looked at.
///
/// # Errors
/// If its configuration makes nothing to search.
pub fn hunt(plan: &Plan, density: Density) -> Result<HuntOutcome, PlanError> {
    hunt_while(plan, density, &|| true)
}

/// As [`hunt`], for as long as `goes_on` says so: it is asked at each operation that is cut. What a search that
/// was ended so comes to is of no use.
///
/// # Errors
/// As [`hunt`].
pub fn hunt_while(
    plan: &Plan,
    density: Density,
    goes_on: &dyn Fn() -> bool,
) -> Result<HuntOutcome, PlanError> {
    if plan.has_stack() {
        let spec = StackSpec::of(plan)?;
        return Ok(match (spec.judge(), spec.files()) {
            (Judge::Files, Some(options)) => {
                search::<FsSubject, FsOracle>(plan, &FsSpec::over(spec, options)?, density, goes_on)
            }
            (Judge::Pages, _) => search::<StackSubject, PageOracle>(plan, &spec, density, goes_on),
            _ => search::<StackSubject, LogOracle>(plan, &spec, density, goes_on),
        });
    }
    if plan.has_files() {
        return Ok(search::<FsSubject, FsOracle>(plan, &FsSpec::of(plan)?, density, goes_on));
    }
    if !plan.has_log() {
        let spec = DriveSpec::of(plan)?;
        return Ok(match plan.has_transactions() {
            true => search::<DriveSubject, TxOracle>(plan, &spec, density, goes_on),
            false => search::<DriveSubject, PageOracle>(plan, &spec, density, goes_on),
        });
    }
    let spec = RemapSpec::of(plan)?;
    within(plan, spec.pages())?;
    Ok(search::<HostSubject, LogOracle>(plan, &spec, density, goes_on))
}

fn search<S: Subject, O: Oracle<S, Step = Step>>(
    plan: &Plan,
    spec: &S::Spec,
    density: Density,
    goes_on: &dyn Fn() -> bool,
) -> HuntOutcome {
    let mut prover: Prover<'_, S, O> =
        Prover::new(spec, &plan.work, &plan.after, plan.seed, density);
    prover.while_asked(goes_on);
    let broken = prover.hunt().err();
    let mut tally = std::mem::take(&mut prover.tally);
    for fault in &plan.faults {
        let key =
            format!("{}:{}", crate::atlas::name(fault), crate::atlas::worst(&[*fault]).letter());
        *tally.media.entry(key).or_default() += 1;
    }
    HuntOutcome { tally, hash: prover.hash, recoveries: prover.recoveries.value(), broken }
}

fn digest<S: Subject, O: Oracle<S, Step = Step>>(
    plan: &Plan,
    spec: &S::Spec,
) -> (u64, u64, String) {
    let mut prover: Prover<'_, S, O> =
        Prover::new(spec, &plan.work, &plan.after, plan.seed, Density::SHORT);
    prover.digest()
}

/// C9: performs the run of a plan without cuts twice and compares, whatever it is of.
///
/// # Errors
/// A difference, or a configuration that makes nothing to run.
pub fn twice(plan: &Plan) -> Result<(), Failure> {
    let wrong = |e: PlanError| Failure::new(Contract::C10, e.to_string());
    if plan.has_stack() {
        let spec = StackSpec::of(plan).map_err(wrong)?;
        return match (spec.judge(), spec.files()) {
            (Judge::Files, Some(options)) => {
                let spec = FsSpec::over(spec, options).map_err(wrong)?;
                same(|| digest::<FsSubject, FsOracle>(plan, &spec))
            }
            (Judge::Pages, _) => same(|| digest::<StackSubject, PageOracle>(plan, &spec)),
            _ => same(|| digest::<StackSubject, LogOracle>(plan, &spec)),
        };
    }
    if plan.has_files() {
        let spec = FsSpec::of(plan).map_err(wrong)?;
        return same(|| digest::<FsSubject, FsOracle>(plan, &spec));
    }
    if !plan.has_log() {
        let spec = DriveSpec::of(plan).map_err(wrong)?;
        return same(|| match plan.has_transactions() {
            true => digest::<DriveSubject, TxOracle>(plan, &spec),
            false => digest::<DriveSubject, PageOracle>(plan, &spec),
        });
    }
    let spec = RemapSpec::of(plan).map_err(wrong)?;
    same(|| digest::<HostSubject, LogOracle>(plan, &spec))
}

fn same(run: impl Fn() -> (u64, u64, String)) -> Result<(), Failure> {
    let (first, second) = (run(), run());
    if first == second {
        return Ok(());
    }
    Err(Failure::new(Contract::C9, format!("two runs differ: {first:x?} and {second:x?}")))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::{Draw, draw_run};

    #[test]
    fn a_search_asks_at_each_operation_whether_it_goes_on_and_ends_when_it_does_not() {
        let (plan, _, _) = draw_run(3, &Draw::HEALTHY);
        let asked = Cell::new(0);
        let count = |most: u64| {
            asked.set(0);
            let outcome = hunt_while(&plan, Density::SHORT, &|| {
                asked.set(asked.get() + 1);
                asked.get() < most
            });
            let outcome = outcome.unwrap();
            assert!(outcome.broken.is_none());
            (asked.get(), outcome.tally.cuts)
        };
        let (all, cuts) = count(u64::MAX);
        assert_eq!(hunt(&plan, Density::SHORT).unwrap().tally.cuts, cuts, "asking changes nothing");
        assert!(all > 100 && cuts > all / 4, "{all} times asked, {cuts} cuts");
        let (ended, few) = count(10);
        assert!(ended < 20 && few < cuts / 4, "{ended} times asked, {few} of {cuts} cuts");
    }
}
