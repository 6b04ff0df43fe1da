//! `varve ctl`: a running server is asked, and its answer printed.

use std::path::Path;

use lab::LabError;
use serde_json::{Value, json};
use serve::control::ask;

use crate::args::{Ctl, CtlCommand};
use crate::print;

/// `varve ctl SOCKET COMMAND`.
pub fn ctl(args: &Ctl) -> Result<(), LabError> {
    let line = match &args.command {
        CtlCommand::Stats => json!({ "command": "stats" }),
        CtlCommand::PowerCut { at } => json!({ "command": "power-cut", "at": at }),
        CtlCommand::PowerOn => json!({ "command": "power-on" }),
        CtlCommand::Report => json!({ "command": "report" }),
        CtlCommand::Fault { words } => json!({ "command": "fault", "rule": words.join(" ") }),
        CtlCommand::Quit => json!({ "command": "quit" }),
    };
    let text = serde_json::to_string_pretty(&result(&args.socket, &line.to_string())?);
    print(&(text.map_err(|error| LabError::Failed(error.to_string()))? + "\n"))
}

/// What a server answers to a command.
pub fn result(socket: &Path, line: &str) -> Result<Value, LabError> {
    let answer = ask(socket, line).map_err(|error| LabError::io(socket, error))?;
    let wrong = || LabError::Failed(format!("{}: answered {answer}", socket.display()));
    let mut value: Value = serde_json::from_str(&answer).map_err(|_| wrong())?;
    match (value["ok"].as_bool(), value["error"].as_str()) {
        (Some(true), _) => Ok(value["result"].take()),
        (Some(false), Some(error)) => Err(LabError::Failed(error.to_string())),
        _ => Err(wrong()),
    }
}
