//! `varve ctl`: a running server is asked, and its answer printed.

use std::path::Path;

use lab::LabError;
use serde_json::{Value, json};
use serve::control::{ask, ask_to_end, follow};

use crate::args::{Ctl, CtlCommand};
use crate::{print, show};

/// `varve ctl SOCKET COMMAND`.
pub fn ctl(args: &Ctl) -> Result<(), LabError> {
    let line = match &args.command {
        CtlCommand::Watch { every } => return watch(&args.socket, *every),
        CtlCommand::Blocks => json!({ "command": "blocks" }),
        CtlCommand::Stats => json!({ "command": "stats" }),
        CtlCommand::PowerCut { at } => json!({ "command": "power-cut", "at": at }),
        CtlCommand::PowerOn => json!({ "command": "power-on" }),
        CtlCommand::Report => json!({ "command": "report" }),
        CtlCommand::Fault { words } => json!({ "command": "fault", "rule": words.join(" ") }),
        CtlCommand::Quit => json!({ "command": "quit" }),
    };
    let ask = if matches!(args.command, CtlCommand::Quit) { ask_to_end } else { ask };
    let answer = ask(&args.socket, &line.to_string());
    let answer = answer.map_err(|error| LabError::io(&args.socket, error))?;
    let text = serde_json::to_string_pretty(&result_of(&args.socket, &answer)?);
    print(&(text.map_err(|error| LabError::Failed(error.to_string()))? + "\n"))
}

fn watch(socket: &Path, every: u64) -> Result<(), LabError> {
    let line = json!({ "command": "watch", "interval_ms": every }).to_string();
    let mut ended = Ok(());
    let mut told = |answer: &str| {
        let shown = result_of(socket, answer).and_then(|result| show(&format!("{result}\n")));
        // Whoever reads may have enough.
        let goes_on = matches!(shown, Ok(true));
        ended = shown.map(drop);
        goes_on
    };
    follow(socket, &line, &mut told).map_err(|error| LabError::io(socket, error))?;
    ended
}

/// What a server answers to a command.
pub fn result(socket: &Path, line: &str) -> Result<Value, LabError> {
    result_of(socket, &ask(socket, line).map_err(|error| LabError::io(socket, error))?)
}

fn result_of(socket: &Path, answer: &str) -> Result<Value, LabError> {
    let wrong = || LabError::Failed(format!("{}: answered {answer}", socket.display()));
    let mut value: Value = serde_json::from_str(answer).map_err(|_| wrong())?;
    match (value["ok"].as_bool(), value["error"].as_str()) {
        (Some(true), _) => Ok(value["result"].take()),
        (Some(false), Some(error)) => Err(LabError::Failed(error.to_string())),
        _ => Err(wrong()),
    }
}
