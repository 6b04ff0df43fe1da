//! A process that checks states, one after the other, on a drive and in mounts of its own.
//!
//! It reads lines of JSON: first what is tested, then one cut after the other; and answers each with a line.
//! When nothing more comes it undoes all and ends.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use stack::disk::Disk;

use crate::cut_text::{left_of, left_text};
use crate::error::TortureError;
use crate::history::History;
use crate::judge::Judge;
use crate::live::Faulty;
use crate::overlay::StateDisk;
use crate::powered::Order;
use crate::sandbox::Boxes;
use crate::stage::{Stage, Strict};
use crate::states::{Cut, States};
use crate::strict::Blocks;
use crate::subject::{Scratch, Subject};

/// What came of a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Every promise is kept.
    Kept,
    /// One is not.
    Lost,
    /// The file system does not come up.
    Unmountable,
    /// The checker did not come to a verdict.
    Broken,
}

impl Fate {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Fate::Kept => "kept",
            Fate::Lost => "lost",
            Fate::Unmountable => "unmountable",
            Fate::Broken => "broken",
        }
    }
}

/// A state that is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Job {
    /// The cut.
    pub cut: Cut,
    /// Look at the files before the check.
    pub tree: bool,
    /// Leave the drive, before anything mounted it, as an image there.
    pub image: Option<PathBuf>,
    /// No check: a shell on this terminal.
    pub shell: bool,
}

impl Job {
    /// A check, and nothing else.
    pub fn check(cut: Cut) -> Job {
        Job { cut, tree: false, image: None, shell: false }
    }

    /// As a document.
    pub fn document(&self) -> Value {
        json!({
            "at": self.cut.at,
            "left": left_text(&self.cut.left),
            "tree": self.tree,
            "image": self.image,
            "shell": self.shell,
        })
    }

    fn of(document: &Value) -> Option<Job> {
        let at = usize::try_from(document["at"].as_u64()?).ok()?;
        let left = left_of(document["left"].as_str()?)?;
        Some(Job {
            cut: Cut { at, left },
            tree: document["tree"].as_bool()?,
            image: document["image"].as_str().map(PathBuf::from),
            shell: document["shell"].as_bool()?,
        })
    }
}

/// Works until nothing more comes.
///
/// # Errors
/// It cannot even begin, or cannot answer.
pub fn work(input: &mut dyn BufRead, output: &mut dyn Write) -> Result<(), TortureError> {
    let told = TortureError::io("the pipe to a worker");
    let mut line = String::new();
    input.read_line(&mut line).map_err(told)?;
    let config: Value = serde_json::from_str(&line)
        .map_err(|error| TortureError::Input(format!("a worker's orders: {error}")))?;
    let answer = match config["kind"].as_str() {
        Some("record") => recorded(&config),
        Some("recover") => recovered(&config),
        Some("cut") => cut(&config),
        _ => return explore(&config, input, output),
    };
    say(output, &answered(answer))
}

fn answered(result: Result<Value, TortureError>) -> Value {
    match result {
        Ok(value) => value,
        Err(error) => {
            let kind = match error {
                TortureError::Input(_) => "input",
                TortureError::Machine(_) => "machine",
                TortureError::Broken(_) => "broken",
                _ => "failed",
            };
            json!({ "error": error.to_string(), "error_kind": kind })
        }
    }
}

fn say(output: &mut dyn Write, answer: &Value) -> Result<(), TortureError> {
    let said = writeln!(output, "{answer}").and_then(|()| output.flush());
    said.map_err(TortureError::io("the pipe from a worker"))
}

fn orders(config: &Value) -> Result<(Subject, Scratch, PathBuf), TortureError> {
    let path = |name: &str| config[name].as_str().map(PathBuf::from);
    let all = Subject::of(&config["subject"]).zip(path("scratch")).zip(path("log"));
    let all = all.map(|((subject, scratch), log)| (subject, Scratch(scratch), log));
    all.ok_or_else(|| TortureError::Input("a worker's orders are not whole".to_string()))
}

fn recorded(config: &Value) -> Result<Value, TortureError> {
    let (subject, scratch, log) = orders(config)?;
    let whole = || TortureError::Input("a worker's orders are not whole".to_string());
    let size = config["size"].as_u64().ok_or_else(whole)?;
    let trees = config["trees"].as_str().ok_or_else(whole)?;
    let into = (log.as_path(), Path::new(trees));
    if let Some(order) = Order::of(&config["stack"]) {
        return crate::powered::record(&subject, &scratch, into, &order);
    }
    let fault = Faulty::of(&config["fault"]);
    crate::recording::record(&subject, size, &scratch, into, &fault)
}

fn cut(config: &Value) -> Result<Value, TortureError> {
    let whole = || TortureError::Input("a worker's orders are not whole".to_string());
    let (subject, scratch, log) = orders(config)?;
    let order = Order::of(&config["stack"]).ok_or_else(whole)?;
    crate::powered::cut(subject, scratch, &order, &log)
}

fn recovered(config: &Value) -> Result<Value, TortureError> {
    let whole = || TortureError::Input("a worker's orders are not whole".to_string());
    let job = Job::of(&config["job"]).ok_or_else(whole)?;
    let into = config["into"].as_str().ok_or_else(whole)?;
    crate::recovery::record(orders(config)?, &job, Path::new(into))
}

fn explore(
    config: &Value,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
) -> Result<(), TortureError> {
    let begun = orders(config).and_then(|(subject, scratch, log)| {
        let history =
            History::load(&log).map_err(|error| TortureError::Log { path: log.clone(), error })?;
        let history = Arc::new(history);
        let disk = Arc::new(StateDisk::new(Arc::clone(&history), subject.atomic));
        let below: Arc<dyn Disk> = Arc::clone(&disk) as _;
        let mut stage = Stage::new(below, &scratch.0, &subject.setup, None)?;
        stage.told_as(Strict::States(Arc::new(Blocks::of(&history))));
        Ok((subject, scratch, history, disk, stage))
    });
    let (subject, scratch, history, disk, stage) = match begun {
        Ok(begun) => begun,
        Err(error) => return say(output, &answered(Err(error))),
    };
    if let Err(error) = say(output, &json!({ "ready": true })) {
        stage.end()?;
        return Err(error);
    }
    let states = States::new(&history, subject.atomic);
    let judge = Judge { subject, scratch, stage, boxes: Boxes::probe() };
    let mut checker = Checker { judge, disk: &disk, states };
    let worked = checker.serve(input, output);
    // Whatever became of whoever sent the work: nothing is left of it here.
    let ended = checker.judge.stage.end();
    worked.and(ended)
}

/// Whoever checks states.
struct Checker<'a> {
    judge: Judge,
    disk: &'a StateDisk,
    states: States<'a>,
}

impl Checker<'_> {
    /// Answers one job after the other, until none comes, or nobody hears.
    fn serve(
        &mut self,
        input: &mut dyn BufRead,
        output: &mut dyn Write,
    ) -> Result<(), TortureError> {
        let mut line = String::new();
        loop {
            line.clear();
            let read =
                input.read_line(&mut line).map_err(TortureError::io("the pipe to a worker"))?;
            if read == 0 {
                return Ok(());
            }
            let job = serde_json::from_str(&line).ok().and_then(|job| Job::of(&job));
            let none = || TortureError::Input("a worker's orders: no job".to_string());
            say(output, &answered(job.ok_or_else(none).and_then(|job| self.check(&job))))?;
        }
    }

    fn check(&mut self, job: &Job) -> Result<Value, TortureError> {
        let since = Instant::now();
        let moment = self.states.at(&job.cut);
        let (hash, pending, lost) = (moment.state.hash, moment.state.pending, moment.state.lost);
        self.disk.put(moment.state.sectors.clone());
        if let Some(path) = &job.image {
            crate::image::write(self.disk, path)?;
        }
        let mut answer = BTreeMap::new();
        let built = since.elapsed();
        let said = (&moment.promised[..], &moment.begun[..]);
        let read = || self.disk.was_read();
        let (fate, reason) = match self.judge.looked(said, job, &read, &mut answer) {
            Ok(found) => found,
            // What another state meets, too.
            Err(other @ (TortureError::Input(_) | TortureError::Machine(_))) => return Err(other),
            // What this one led to says nothing of others.
            Err(other) => (Fate::Broken, other.to_string()),
        };
        let us = |time: std::time::Duration| json!(time.as_micros() as u64);
        for (name, value) in [
            ("fate", json!(fate.name())),
            ("reason", json!(reason)),
            ("hash", json!(hash.to_string())),
            ("pending", json!(pending)),
            ("lost", json!(lost)),
            ("promised", json!(moment.promised.len())),
            ("us", us(since.elapsed())),
            ("build_us", us(built)),
        ] {
            answer.insert(name.to_string(), value);
        }
        Ok(Value::Object(answer.into_iter().collect()))
    }
}
