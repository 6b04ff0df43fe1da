//! `varve replay PLAN`: a failure, again, from its plan file.

use lab::LabError;
use proof::{Plan, PlanError};
use report::json::{Json, Map, MapExt};

use crate::args::Replay;
use crate::print;

/// Whether it is a plan of `varve torture`. One that cannot be read says so when it is followed.
pub fn is_torture(args: &Replay) -> bool {
    std::fs::read_to_string(&args.plan).is_ok_and(|text| torture::plan::is_plan(&text))
}

/// Follows a plan: exit 0 if every promise holds, 4 if one is broken.
pub fn replay(args: &Replay) -> Result<(), LabError> {
    let file = args.plan.display();
    let only_torture = args.shell || args.image.is_some() || args.times > 1;
    if only_torture && args.plan.exists() {
        let what = format!(
            "{file}: --shell, --image and --times are for plans of varve torture, plan = 2"
        );
        return Err(LabError::Input(what));
    }
    let bad = |e: PlanError| match e {
        // It names the file itself.
        PlanError::File(text) => LabError::Input(text),
        other => LabError::Input(format!("{file}: {other}")),
    };
    let plan = Plan::load(&args.plan).map_err(bad)?;
    let outcome = proof::replay(&plan).map_err(bad)?;
    if args.json {
        let mut map = Map::new();
        map.put("schema", Json::text("varve.replay/1"));
        map.put("version", Json::text(crate::VERSION));
        map.put("plan", Json::text(args.plan.to_string_lossy()));
        map.int("seed", plan.seed);
        let mut result = Map::new();
        result.put("holds", Json::Bool(outcome.failure.is_none()));
        result.put("as_written", Json::Bool(outcome.as_written()));
        result.put("reached", Json::Bool(outcome.reached));
        result.int("steps", outcome.steps);
        result.put("event_hash", Json::text(format!("{:016x}", outcome.hash)));
        result.maybe("same_operations", outcome.hash_matches.map(Json::Bool));
        let failure = outcome.failure.as_ref().map(|f| Json::text(f.to_string()));
        result.maybe("failure", failure);
        map.put("results", Json::Map(result));
        print(&Json::Map(map).pretty())?;
    } else {
        print(&format!("{outcome}\n"))?;
    }
    match outcome.failure {
        None => Ok(()),
        Some(failure) => Err(LabError::Check {
            contract: failure.contract.to_string(),
            what: failure.what.clone(),
        }),
    }
}
