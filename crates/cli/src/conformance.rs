//! `varve conformance`: a device is held to what it says.

use lab::LabError;
use serde_json::json;
use serve::conform::{Conformance, Line, Outcome, Target};

use crate::args::ConformanceArgs;
use crate::serve::secrets;
use crate::{note, print, stop};

fn shown(line: &Line) -> String {
    let (verdict, detail) = parts(&line.outcome);
    format!("{:>2} {verdict:<11} {}: {detail}", line.number, line.what)
}

fn parts(outcome: &Outcome) -> (&'static str, &str) {
    match outcome {
        Outcome::Pass(detail) => ("pass", detail),
        Outcome::Fail(detail) => ("FAIL", detail),
        Outcome::NotOffered(detail) => ("not offered", detail),
    }
}

/// `varve conformance URI|FILE|DEVICE [--control SOCKET]`.
pub fn conformance(args: &ConformanceArgs) -> Result<(), LabError> {
    let mut target: Target = args.target.parse().map_err(LabError::Input)?;
    if let Some(path) = &args.secret {
        let Target::Nvme(place) = target else {
            let what = format!("--secret {}: only nvme-tcp:// has secrets", path.display());
            return Err(LabError::Input(what));
        };
        let place = place.knowing(secrets(path)?).map_err(|why| LabError::Input(why.to_string()));
        target = Target::Nvme(place?);
    }
    if matches!(target, Target::File(_)) && !args.overwrite {
        let what = format!("{}: what it holds would be lost; --overwrite allows that", args.target);
        return Err(LabError::Input(what));
    }
    let checked = Conformance {
        target,
        control: args.control.clone(),
        restart: args.restart.clone(),
        seed: args.seed,
    };
    let away = |why| LabError::Failed(format!("{}: {why}", args.target));
    checked.reach().map_err(away)?;
    let mut told = Ok(());
    let lines = checked.run(stop::flag(), |line| match args.json {
        true => note(&shown(line)),
        false if told.is_ok() => told = print(&(shown(line) + "\n")),
        false => {}
    });
    told?;
    if args.json {
        let one = |line: &Line| {
            let (verdict, detail) = parts(&line.outcome);
            json!({ "number": line.number, "check": line.what, "verdict": verdict, "detail": detail })
        };
        let document = json!({
            "schema": "varve.conformance/1",
            "version": crate::VERSION,
            "target": args.target,
            "seed": args.seed,
            "results": lines.iter().map(one).collect::<Vec<_>>(),
        });
        print(&format!("{document:#}\n"))?;
    }
    if stop::flag().load(std::sync::atomic::Ordering::Relaxed) {
        return Err(LabError::Interrupted);
    }
    let failed = lines.iter().filter(|line| matches!(line.outcome, Outcome::Fail(_))).count();
    match failed {
        0 => Ok(()),
        count => {
            let what = format!("{count} of {} checks failed", lines.len());
            Err(LabError::Check { contract: "conformance".to_string(), what })
        }
    }
}
