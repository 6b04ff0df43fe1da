//! Draws what is asked of a stack. The stack is given; of its log, where it is the only layer of blocks,
//! three runs in five have the live shell.

use block::Rng;

use super::spec::{Judge, StackSpec, may_live};
use crate::lfs::FsSpec;
use crate::plan::{Plan, PlanError};
use crate::swarm::Draw;

/// Draws the run of a seed on a stack, described by its text.
///
/// # Errors
/// The text is no stack that can be searched.
pub fn draw_stack(seed: u64, text: &str, what: &Draw) -> Result<Plan, PlanError> {
    let mut plan = Plan { seed, bytes: true, ..Plan::default() };
    plan.config.insert("stack".to_string(), text.to_string());
    let mut spec = StackSpec::of(&plan)?;
    let mut rng = Rng::stream(seed, "stack/work");
    if seed % 5 < 3 && may_live(&spec.layers) {
        plan.config.insert("stack.live".to_string(), rng.below(1 << 32).to_string());
        spec = StackSpec::of(&plan)?;
    }
    (plan.work, plan.after) = match (spec.judge(), spec.files()) {
        (Judge::Files, Some(options)) => {
            crate::lfs::work(&mut rng, &FsSpec::over(spec, options)?, what)
        }
        _ => {
            let count = rng.between(what.steps.0, what.steps.1);
            crate::remap::work(&mut rng, spec.pages(), spec.whole(), count)
        }
    };
    Ok(plan)
}
