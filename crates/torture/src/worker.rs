//! A process that checks states, one after the other, on a drive and in mounts of its own.
//!
//! It reads lines of JSON: first what is tested, then one cut after the other; and answers each with a line.
//! When nothing more comes it undoes all and ends.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use stack::disk::Disk;

use crate::cut_text::{left_of, left_text};
use crate::error::TortureError;
use crate::history::History;
use crate::live::Faulty;
use crate::overlay::StateDisk;
use crate::sandbox::{Boxes, Ended};
use crate::stage::{Stage, Strict};
use crate::states::{Cut, Moment, States};
use crate::strict::Blocks;
use crate::subject::{Scratch, Subject};
use crate::tree::Tree;

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
    let fault = Faulty::of(&config["fault"]);
    crate::recording::record(&subject, size, &scratch, (&log, Path::new(trees)), &fault)
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
        let disk = Arc::new(StateDisk::new(Arc::clone(&history)));
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
    let boxes = Boxes::probe();
    let mut checker = Checker { subject, scratch, disk: &disk, stage, states, boxes };
    let worked = checker.serve(input, output);
    // Whatever became of whoever sent the work: nothing is left of it here.
    let ended = checker.stage.end();
    worked.and(ended)
}

/// Whoever checks states.
pub(crate) struct Checker<'a> {
    pub subject: Subject,
    pub scratch: Scratch,
    pub disk: &'a StateDisk,
    pub stage: Stage,
    pub states: States<'a>,
    pub boxes: Boxes,
}

type Found = (Fate, String);

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
        let (fate, reason) = match self.looked(&moment, job, &mut answer) {
            Ok(found) => found,
            Err(TortureError::Broken(why)) => (Fate::Broken, why),
            Err(other) => return Err(other),
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

    /// Mounts the state that is in, has it judged, and lets it go.
    pub(crate) fn looked(
        &mut self,
        moment: &Moment,
        job: &Job,
        answer: &mut BTreeMap<String, Value>,
    ) -> Result<Found, TortureError> {
        self.stage.fresh()?;
        let mounted = self.stage.mount();
        if !self.disk.was_read() {
            self.stage.unmount()?;
            let what = "the kernel mounted what it knew of another state";
            return Err(TortureError::Broken(what.to_string()));
        }
        if let Err(why) = mounted {
            return Ok((Fate::Unmountable, why.0));
        }
        if job.tree {
            // Without it less can be said, and nothing else changes.
            match Tree::walk(&self.stage.folder()) {
                Ok(tree) => answer.insert("tree".to_string(), tree.document()),
                Err(why) => answer.insert("no_tree".to_string(), json!(why)),
            };
        }
        if self.subject.check.is_none() && !job.shell {
            self.stage.unmount()?;
            let image = self.scratch.0.join("checked.img");
            if let Some(complaint) = self.stage.complaint(&image)? {
                return Ok((Fate::Lost, complaint));
            }
            if let Err(why) = self.stage.mount() {
                return Ok((Fate::Unmountable, why.0));
            }
        }
        let judged = self.judged(moment, job.shell);
        let unmounted = self.stage.unmount();
        let cleared = self.clear();
        let found = judged?;
        unmounted?;
        cleared?;
        Ok(found)
    }

    /// The program and the checker leave nothing.
    fn clear(&self) -> Result<(), TortureError> {
        let tmp = self.scratch.tmp();
        match std::fs::remove_dir_all(&tmp) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(TortureError::Io { path: tmp, error })
            }
            _ => Ok(()),
        }
    }

    fn judged(&self, moment: &Moment, shell: bool) -> Result<Found, TortureError> {
        let tmp = self.scratch.tmp();
        std::fs::create_dir_all(&tmp).map_err(TortureError::io(&tmp))?;
        let list = |name: &str, lines: &[String]| {
            let path = self.scratch.0.join(name);
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let written = std::fs::write(&path, text);
            written.map_err(TortureError::io(&path)).map(|()| path)
        };
        let mut env = self.subject.env.clone();
        for (name, value) in [
            ("VARVE_DIR", self.stage.folder()),
            ("VARVE_ACKED", list("acked", &moment.promised)?),
            ("VARVE_STARTED", list("started", &moment.begun)?),
            ("VARVE_ACK", PathBuf::from("/dev/null")),
            ("VARVE_SHARED", self.scratch.shared()),
            ("TMPDIR", tmp),
        ] {
            env.push((name.to_string(), value.into()));
        }
        if shell {
            let shell = std::env::var_os("SHELL").unwrap_or_else(|| OsString::from("sh"));
            let ended = Boxes::talk(&[shell], &env);
            ended.map_err(TortureError::io("a shell"))?;
            return Ok((Fate::Kept, "a shell".to_string()));
        }
        let words = self.subject.judge();
        let limit = match self.subject.check {
            Some(_) => self.subject.limit,
            None => self.subject.limit.max(self.subject.run_limit),
        };
        let outcome = self.boxes.run(&words, &env, limit, &|| false);
        let outcome = outcome.map_err(|error| TortureError::Broken(error.to_string()))?;
        let started_again = self.subject.check.is_none();
        Ok(match (outcome.ended, outcome.last_line()) {
            (Ended::Code(0), _) => (Fate::Kept, String::new()),
            (Ended::Code(1), Some(reason)) if !started_again => (Fate::Lost, reason.to_string()),
            (Ended::Code(1), None) if !started_again => (
                Fate::Broken,
                format!(
                    "the checker ended with 1 and no reason on its standard output: {}",
                    outcome.why()
                ),
            ),
            _ if started_again => {
                (Fate::Lost, format!("the program does not start again: it {}", outcome.why()))
            }
            _ => (Fate::Broken, format!("the checker {}", outcome.why())),
        })
    }
}
