//! What an operator may ask a running server: one line in, one out.
//!
//! A line is `{"command": "power-cut", "at": "op:100"}` or the same as words, `power-cut --at
//! op:100`; the answer is `{"ok": true, "result": ..}` or `{"ok": false, "error": ".."}`.

mod socket;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::faults::Faults;
use stack::disk::Meter;
use stack::live::Stack;
use stack::power::{PowerState, When};

pub use socket::{ControlSocket, ask, ask_to_end, follow};

/// Counters of a front-end.
pub type Counters = dyn Fn() -> Vec<(&'static str, u64)> + Send + Sync;
/// What ends the server.
pub type Quit = dyn Fn() + Send + Sync;

/// A command.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Command {
    Fault(String),
    Stats,
    Blocks,
    Watch(Duration),
    Cut(When),
    On,
    Report,
    Quit,
}

const KNOWN: &str = "stats, watch [MS], blocks, power-cut [--at now|next-flush|op:N], power-on, report, \
                     fault add RULE|clear [N]|list, quit";

/// Blocks of a drive that are told one by one: an answer of a few hundred KiB.
const MOST_BLOCKS: u32 = 32 << 10;

/// Answers commands for one stack.
pub struct Control {
    stack: Stack,
    counters: OnceLock<Box<Counters>>,
    files: OnceLock<Arc<Meter>>,
    faults: OnceLock<Arc<Faults>>,
    quit: Box<Quit>,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("stack", &self.stack).finish_non_exhaustive()
    }
}

const INTERVAL: &str = "expected 10 to 3600000 milliseconds";

fn watch(ms: Option<u64>) -> Result<Command, String> {
    let ms = ms.unwrap_or(1000);
    match (10..=3_600_000).contains(&ms) {
        true => Ok(Command::Watch(Duration::from_millis(ms))),
        false => Err(format!("watch {ms}: {INTERVAL}")),
    }
}

fn parse(line: &str) -> Result<Command, String> {
    let words = line.trim().strip_prefix("fault").filter(|rest| rest.starts_with(' '));
    if let Some(rest) = words {
        return Ok(Command::Fault(rest.trim().to_string()));
    }
    if let Some(every) = line.trim().strip_prefix("watch") {
        return watch(match every.trim() {
            "" => None,
            ms => Some(ms.parse().map_err(|_| format!("watch {ms}: {INTERVAL}"))?),
        });
    }
    let (name, at) = match line.trim_start().starts_with('{') {
        true => {
            let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
            let text = |key: &str| match &value[key] {
                Value::Null => Ok(None),
                Value::String(text) => Ok(Some(text.clone())),
                _ => Err(format!("`{key}`: expected a text")),
            };
            let name = text("command")?.ok_or("`command` is missing")?;
            if let ("fault", Some(rule)) = (name.as_str(), text("rule")?) {
                return Ok(Command::Fault(rule));
            }
            if name == "watch" {
                return watch(match &value["interval_ms"] {
                    Value::Null => None,
                    ms => Some(ms.as_u64().ok_or(format!("`interval_ms`: {INTERVAL}"))?),
                });
            }
            (name, text("at")?)
        }
        false => {
            let mut words = line.split_whitespace();
            let name = words.next().unwrap_or_default().to_string();
            match (words.next(), words.next(), words.next()) {
                (None, ..) => (name, None),
                (Some("--at"), Some(at), None) => (name, Some(at.to_string())),
                _ => return Err(format!("expected {KNOWN}")),
            }
        }
    };
    match (name.as_str(), at) {
        ("power-cut", at) => Ok(Command::Cut(at.as_deref().unwrap_or("now").parse()?)),
        ("stats", None) => Ok(Command::Stats),
        ("blocks", None) => Ok(Command::Blocks),
        ("power-on", None) => Ok(Command::On),
        ("report", None) => Ok(Command::Report),
        ("quit", None) => Ok(Command::Quit),
        (other, _) => Err(format!("`{other}`: expected {KNOWN}")),
    }
}

fn table(counters: Vec<(&'static str, u64)>) -> Value {
    let pairs = counters.into_iter().map(|(name, count)| (name.to_string(), json!(count)));
    Value::Object(pairs.collect::<Map<String, Value>>())
}

fn power(state: &PowerState) -> Value {
    let last = state
        .last
        .map(|cut| json!({ "operation": cut.operation, "pending": cut.pending, "lost": cut.lost }));
    json!({
        "on": state.on,
        "operations": state.operations,
        "cuts": state.cuts,
        "last_cut": last,
    })
}

/// What a stack counts, as one JSON document.
pub(crate) fn stats(of: &Stack) -> Value {
    let c = of.disk.capabilities();
    json!({
        "stack": of.name,
        "capabilities": {
            "size": c.size,
            "block": c.block,
            "atomic": c.atomic,
            "volatile": c.volatile,
            "trim": c.trim,
            "read_only": c.read_only,
        },
        "power": power(&of.power.state()),
        "disk": table(of.disk.counters()),
        "asked": of.meter.document(),
    })
}

impl Control {
    /// Of `stack`; `quit` ends the server.
    pub fn new(stack: Stack, quit: Box<Quit>) -> Arc<Control> {
        let (counters, files, faults) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Arc::new(Control { stack, counters, files, faults, quit })
    }

    /// The rules that make the served disk fail.
    pub fn fail_by(&self, faults: Arc<Faults>) {
        let _ = self.faults.set(faults);
    }

    /// A front-end counts too; the first one that says so is asked.
    pub fn count(&self, counters: Box<Counters>) {
        let _ = self.counters.set(counters);
    }

    /// A file system lies above the stack, and counts what programs ask of it.
    pub fn count_files(&self, meter: Arc<Meter>) {
        let _ = self.files.set(meter);
    }

    /// Carries out one command; what came of it as one JSON document.
    ///
    /// # Errors
    /// A text for people.
    pub fn command(&self, line: &str) -> Result<Value, String> {
        let stack = &self.stack;
        match parse(line)? {
            Command::Stats => Ok(self.stats()),
            Command::Blocks => self.blocks(),
            Command::Watch(_) => Err("watch: expected a socket, which stays open".to_string()),
            Command::Cut(when) => {
                stack.power.cut(when).map_err(|error| error.to_string())?;
                Ok(power(&stack.power.state()))
            }
            Command::On => {
                stack.power.on().map_err(|error| error.to_string())?;
                Ok(power(&stack.power.state()))
            }
            Command::Report => Ok(json!({
                "stack": stack.name,
                "power": power(&stack.power.state()),
            })),
            Command::Fault(rule) => match self.faults.get() {
                Some(faults) => faults.command(&rule),
                None => Err("this server cannot be made to fail".to_string()),
            },
            Command::Quit => {
                (self.quit)();
                Ok(json!("stopping"))
            }
        }
    }

    /// How often a line asks to be told what everything counts, if it is that command.
    fn watched(&self, line: &str) -> Option<Duration> {
        match parse(line) {
            Ok(Command::Watch(every)) => Some(every),
            _ => None,
        }
    }

    /// What everything counts, as one JSON document.
    pub fn stats(&self) -> Value {
        let mut all = stats(&self.stack);
        all["files"] = json!(self.files.get().map(|meter| meter.document()));
        all["server"] = json!(self.counters.get().map(|counters| table(counters())));
        all
    }

    /// Every block of the drive at the bottom, by number: how often it was erased (null: it is bad), and its slots
    /// that hold current data (null: not known).
    fn blocks(&self) -> Result<Value, String> {
        let none = "no modelled drive is at the bottom of this stack";
        let drive = self.stack.blocks.as_ref().ok_or(none)?;
        let now = drive.blocks(MOST_BLOCKS).ok_or_else(|| {
            format!("the power is off, or the drive has more than {MOST_BLOCKS} blocks")
        })?;
        Ok(json!({
            "dies": now.dies,
            "planes": now.planes,
            "erases": now.blocks.iter().map(|block| block.erases).collect::<Vec<_>>(),
            "valid": now.blocks.iter().map(|block| block.valid).collect::<Vec<_>>(),
        }))
    }

    /// The same as one line, errors too.
    pub fn answer(&self, line: &str) -> String {
        match self.command(line) {
            Ok(result) => json!({ "ok": true, "result": result }),
            Err(error) => json!({ "ok": false, "error": error }),
        }
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_documents_say_the_same() {
        for (words, document) in [
            ("stats", r#"{"command": "stats"}"#),
            ("blocks", r#"{"command": "blocks"}"#),
            ("watch", r#"{"command": "watch"}"#),
            ("watch 500", r#"{"command": "watch", "interval_ms": 500}"#),
            ("power-cut", r#"{"command": "power-cut", "at": "now"}"#),
            ("power-cut --at op:7", r#"{"command": "power-cut", "at": "op:7"}"#),
            ("power-cut --at next-flush", r#"{"command": "power-cut", "at": "next-flush"}"#),
            ("power-on", r#"{"command": "power-on"}"#),
            ("fault add eio nth=3", r#"{"command": "fault", "rule": "add eio nth=3"}"#),
            ("fault list", r#"{"command": "fault", "rule": "list"}"#),
        ] {
            assert_eq!(parse(words).expect(words), parse(document).expect(document));
        }
        for wrong in [
            "",
            "watch 9",
            "watch soon",
            "watching",
            "stat",
            "stats now",
            "power-cut --at",
            "power-cut --at op:x",
            "{",
            "{}",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(parse(r#"{"command": "power-cut", "at": 7}"#).is_err());
        assert!(parse(r#"{"command": "stats", "at": "now"}"#).is_err());
    }
}
