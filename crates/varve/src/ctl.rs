//! `varve ctl`: a running server is asked, and its answer printed.

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
        CtlCommand::Quit => json!({ "command": "quit" }),
    };
    let answer =
        ask(&args.socket, &line.to_string()).map_err(|error| LabError::io(&args.socket, error))?;
    let wrong = || LabError::Failed(format!("{}: answered {answer}", args.socket.display()));
    let mut value: Value = serde_json::from_str(&answer).map_err(|_| wrong())?;
    match (value["ok"].as_bool(), value["error"].as_str()) {
        (Some(true), _) => {
            let text = serde_json::to_string_pretty(&value["result"].take());
            print(&(text.map_err(|_| wrong())? + "\n"))
        }
        (Some(false), Some(error)) => Err(LabError::Failed(error.to_string())),
        _ => Err(wrong()),
    }
}
