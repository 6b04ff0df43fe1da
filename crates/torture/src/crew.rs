//! Processes that check states, and whoever sends them work.
//!
//! Each has mounts and processes of its own where the system allows it: nobody's copy of a mount keeps
//! another's device in use, and when such a process is gone the kernel has undone its mounts. What outlives
//! it all the same (a loop device) is looked for by the file behind it and let go.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::error::TortureError;
use crate::live::Faulty;
use crate::powered::Order;
use crate::stage::search_path;
use crate::subject::Subject;
use crate::worker::Job;

/// How a worker is started: this program, with these words.
pub const WORKER: [&str; 2] = ["torture", "--worker"];
/// What a worker may need beyond its limits: mounting, unmounting, waiting for who lingers.
const MORE: Duration = Duration::from_secs(120);

/// What a worker mounts stays its own; what others unmount meanwhile is gone there, too, and not kept busy.
const APART: [&str; 7] =
    ["--mount", "--propagation", "slave", "--pid", "--fork", "--kill-child", "--mount-proc"];
/// For who is not root: a namespace of users around these.
const AS_ROOT: [&str; 2] = ["--user", "--map-root-user"];

/// How processes are kept apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Apart {
    /// By namespaces.
    Root,
    /// The same, in a namespace of users: FUSE without its helper.
    User,
    /// Not at all.
    Not,
}

impl Apart {
    /// What works here.
    pub fn probe() -> Apart {
        let works = |apart: &Apart| {
            let mut command = apart.command(Path::new("sh"));
            command.args(["-c", ": <>/dev/fuse"]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        [Apart::Root, Apart::User].into_iter().find(works).unwrap_or(Apart::Not)
    }

    fn command(self, program: &Path) -> Command {
        if self == Apart::Not {
            return Command::new(program);
        }
        let mut command = Command::new("unshare");
        if self == Apart::User {
            command.args(AS_ROOT);
        }
        command.args(APART).arg("--").arg(program);
        command
    }
}

/// A process that works.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    scratch: PathBuf,
    limit: Duration,
}

/// A folder that goes with its owner.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// A new one, in the system's folder for such.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new() -> Result<Folder, TortureError> {
        let top = std::env::temp_dir();
        for number in 0..10_000 {
            let path = top.join(format!("varve-torture-{}-{number}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Folder(path)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(TortureError::Io { path, error }),
            }
        }
        Err(TortureError::Machine(format!("{}: full of folders of ours", top.display())))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What the crew is made of.
#[derive(Clone, Debug)]
pub struct Crew {
    /// This program.
    pub program: PathBuf,
    /// How its processes are kept apart.
    pub apart: Apart,
    /// What is tested.
    pub subject: Subject,
    /// The log.
    pub log: PathBuf,
    /// A folder that is ours.
    pub folder: PathBuf,
}

impl Crew {
    fn start(
        &self,
        name: &str,
        orders: &Value,
        log: PathBuf,
        limit: Duration,
    ) -> Result<Worker, TortureError> {
        let scratch = self.folder.join(name);
        let shared = self.folder.join("shared");
        for folder in [&scratch, &shared] {
            std::fs::create_dir_all(folder).map_err(TortureError::io(folder))?;
        }
        let mut command = self.apart.command(&self.program);
        command.args(WORKER).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(TortureError::io(&self.program))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (tell, lines) = channel();
        if let Some(output) = output {
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if tell.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        let mut worker = Worker { child, input, lines, scratch: scratch.clone(), limit };
        let mut orders = orders.clone();
        orders["subject"] = self.subject.document();
        orders["log"] = json!(log);
        orders["scratch"] = json!(scratch);
        worker.send(&orders)?;
        Ok(worker)
    }

    /// Records a run: the log, and what was promised over which files; on the stack, if there is one.
    ///
    /// # Errors
    /// [`TortureError`].
    pub fn record(
        &self,
        size: u64,
        trees: &Path,
        fault: &Faulty,
        stack: Option<&Order>,
    ) -> Result<Value, TortureError> {
        let (fault, stack) = (fault.document(), stack.map(Order::document));
        let orders = json!({
            "kind": "record",
            "size": size,
            "trees": trees,
            "fault": fault,
            "stack": stack,
        });
        let mut worker = self.start("record", &orders, self.log.clone(), self.subject.run_limit)?;
        let answer = worker.hear();
        worker.end();
        answer
    }

    /// Makes a run that ends with a power cut of a stack: what came of it. What the stack came up with is left
    /// at `state`.
    ///
    /// # Errors
    /// [`TortureError`].
    pub fn cut(&self, name: &str, order: &Order, state: &Path) -> Result<Value, TortureError> {
        let orders = json!({ "kind": "cut", "stack": order.document() });
        let limit = self.subject.run_limit + self.limit();
        let mut worker = self.start(name, &orders, state.to_path_buf(), limit)?;
        let answer = worker.hear();
        worker.end();
        answer
    }

    /// Records the recovery of a state, in a log of its own: what the checker said.
    ///
    /// # Errors
    /// [`TortureError`].
    pub fn recover(&self, job: &Job, into: &Path) -> Result<Value, TortureError> {
        let orders = json!({ "kind": "recover", "job": job.document(), "into": into });
        let mut worker = self.start("recover", &orders, self.log.clone(), self.limit())?;
        let answer = worker.hear();
        worker.end();
        answer
    }

    /// How long a check may take.
    fn limit(&self) -> Duration {
        match self.subject.check {
            Some(_) => self.subject.limit,
            None => self.subject.limit.max(self.subject.run_limit),
        }
    }

    /// A process that checks states.
    ///
    /// # Errors
    /// [`TortureError`].
    pub fn worker(&self, name: &str) -> Result<Worker, TortureError> {
        let mut worker =
            self.start(name, &json!({ "kind": "explore" }), self.log.clone(), self.limit())?;
        match worker.hear() {
            Ok(_) => Ok(worker),
            Err(error) => {
                worker.end();
                Err(error)
            }
        }
    }

    /// Has all jobs done by so many processes; `heard` is told what came of each, by its number, and says
    /// whether to go on.
    ///
    /// # Errors
    /// A worker could not go on.
    pub fn all(
        &self,
        jobs: &[Job],
        workers: usize,
        heard: &(dyn Fn(usize, &Value) -> bool + Sync),
    ) -> Result<(), TortureError> {
        let left: Mutex<VecDeque<usize>> = Mutex::new((0..jobs.len()).collect());
        let failed: Mutex<Option<TortureError>> = Mutex::new(None);
        let lock = || left.lock().unwrap_or_else(PoisonError::into_inner);
        let one = |number: usize| -> Result<(), TortureError> {
            let mut worker = self.worker(&format!("worker-{number}"))?;
            loop {
                let Some(next) = lock().pop_front() else { break };
                let answer = worker.ask(&jobs[next]);
                let go_on = match answer {
                    Ok(answer) => heard(next, &answer),
                    Err(error) => {
                        worker.end();
                        return Err(error);
                    }
                };
                if !go_on {
                    lock().clear();
                }
            }
            worker.end();
            Ok(())
        };
        std::thread::scope(|scope| {
            for number in 0..workers.clamp(1, jobs.len().max(1)) {
                let (one, failed) = (&one, &failed);
                scope.spawn(move || {
                    if let Err(error) = one(number) {
                        lock().clear();
                        let mut first = failed.lock().unwrap_or_else(PoisonError::into_inner);
                        first.get_or_insert(error);
                    }
                });
            }
        });
        let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        failed.map_or(Ok(()), Err)
    }
}

impl Worker {
    fn send(&mut self, line: &Value) -> Result<(), TortureError> {
        let Some(input) = &mut self.input else { return Err(self.gone()) };
        let sent = writeln!(input, "{line}").and_then(|()| input.flush());
        sent.map_err(|_| self.gone())
    }

    fn gone(&self) -> TortureError {
        TortureError::Broken("a worker of ours ended by itself".to_string())
    }

    fn hear(&mut self) -> Result<Value, TortureError> {
        let line = match self.lines.recv_timeout(self.limit + MORE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => return Err(self.gone()),
            Err(RecvTimeoutError::Timeout) => {
                let what = "a worker of ours does not answer: something below it hangs";
                return Err(TortureError::Broken(what.to_string()));
            }
        };
        let answer: Value = serde_json::from_str(&line)
            .map_err(|error| TortureError::Broken(format!("a worker's answer: {error}")))?;
        let Some(what) = answer["error"].as_str() else { return Ok(answer) };
        let what = what.to_string();
        Err(match answer["error_kind"].as_str() {
            Some("input") => TortureError::Input(what),
            Some("machine") => TortureError::Machine(what),
            _ => TortureError::Broken(what),
        })
    }

    /// What came of a state.
    ///
    /// # Errors
    /// It cannot say.
    pub fn ask(&mut self, job: &Job) -> Result<Value, TortureError> {
        self.send(&job.document())?;
        self.hear()
    }

    /// It ends, and nothing is left of it.
    pub fn end(mut self) {
        drop(self.input.take());
        let patience = std::time::Instant::now();
        while patience.elapsed() < Duration::from_secs(30) {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return release(&self.scratch);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.kill();
        release(&self.scratch);
    }

    fn kill(&mut self) {
        let id = self.child.id();
        let told = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        for first in told.unwrap_or_default().split_whitespace() {
            if let Some(first) = first.parse().ok().and_then(Pid::from_raw) {
                // It may be gone already.
                let _ = kill_process(first, Signal::KILL);
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.kill();
            release(&self.scratch);
        }
    }
}

/// Lets go of loop devices whose file was in a folder of ours.
fn release(scratch: &Path) {
    for entry in std::fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let file = std::fs::read_to_string(entry.path().join("loop/backing_file"));
        if file.is_ok_and(|file| Path::new(file.trim()).starts_with(scratch)) {
            let device = Path::new("/dev").join(entry.file_name());
            let mut detach = Command::new("losetup");
            detach.arg("--detach").arg(device).env("PATH", search_path());
            // Whoever looks at what is left over (`varve doctor`) will say it.
            let _ = detach.stdin(Stdio::null()).stderr(Stdio::null()).status();
        }
    }
}
