//! A program's run on a recorded drive.
//!
//! The drive lies in memory and loses nothing: what a power cut would have left is found out later, from the
//! log. A mark is in the log when the program's write of it returns; before that the files that the program
//! sees are looked at, so that it can be said later what exactly was promised. Where the drive is to fail under the
//! program, what was refused is not in the log. Where it is a stack whose power goes, nothing is heard from then on
//! ([`Floor::switch`]): what was said while it was on was said before.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use serve::faults::{Faults, FaultyDisk};
use stack::disk::{DataRecorded, Disk};

use crate::error::TortureError;
use crate::history::{ENDED, READY, STARTED, Said, said};
use crate::live::Faulty;
use crate::sandbox::{Boxes, Ended, Outcome};
use crate::stage::{Heard, Kind, Stage, Strict};
use crate::strict::Volume;
use crate::subject::{Scratch, Subject};
use crate::switch::Switch;
use crate::tree::Tree;

/// How long looking at files may take in all: what is promised later is not looked at.
const LOOKING: Duration = Duration::from_secs(10);

/// Hears a mark, and whether it is ours.
pub(crate) type Note = dyn Fn(&str, bool) -> Result<(), String> + Send + Sync;

/// What a program runs on.
pub(crate) struct Floor {
    /// The drive.
    pub disk: Arc<dyn Disk>,
    /// Hears marks.
    pub note: Arc<Note>,
    /// Its switch, if it is a stack.
    pub switch: Option<Arc<Switch>>,
    /// Where it is written down what was promised over which files.
    pub trees: Option<Box<dyn Write + Send>>,
    /// How it fails.
    pub fault: Faulty,
}

/// What the marks of a program led to.
struct Marks {
    note: Arc<Note>,
    folder: std::path::PathBuf,
    root: std::path::PathBuf,
    kernel: bool,
    trees: Mutex<Trees>,
    faults: Arc<Faults>,
    fault: Faulty,
    switch: Option<Arc<Switch>>,
}

struct Trees {
    out: Option<Box<dyn Write + Send>>,
    spent: Duration,
    ready: bool,
    /// Why no more are written.
    why: Option<String>,
    promises: u64,
    /// Promises after a request was refused.
    after: u64,
}

impl Marks {
    /// The program is ready, or starts: from now on the drive fails as it is to, if it is to from here on.
    fn fail(&self, ready: bool) -> Result<(), String> {
        if let Some(switch) = self.switch.as_ref().filter(|switch| switch.from_ready == ready) {
            switch.arm().map_err(|error| error.to_string())?;
        }
        match &self.fault.rule {
            Some(rule) if self.fault.from_ready == ready => {
                self.faults.command(&format!("add {rule}")).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Whether the power is on.
    fn is_on(&self) -> bool {
        self.switch.as_ref().is_none_or(|switch| switch.is_on())
    }

    /// Whether a request was refused.
    fn struck(&self) -> bool {
        let rules = self.faults.command("list").unwrap_or_default();
        rules.as_array().into_iter().flatten().any(|rule| rule["struck"] != 0)
    }

    fn hear(&self, text: &str) -> Result<String, String> {
        let mut trees = self.trees.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_on() {
            return Err("the power is off".to_string());
        }
        match said(text) {
            Said::Begin(_) => (self.note)(text, false)?,
            Said::Ready if trees.ready => {}
            Said::Ready => {
                // What was set up is not what is tested.
                let synced = match self.kernel {
                    true => std::fs::File::open(&self.root)
                        .and_then(|folder| Ok(rustix::fs::syncfs(&folder)?)),
                    // `syncfs` does not reach a file system of FUSE.
                    false => sync_each(&self.folder),
                };
                synced.map_err(|error| error.to_string())?;
                trees.ready = true;
                (self.note)(READY, true)?;
                self.fail(true)?;
            }
            Said::Promise(what) => {
                self.look(&mut trees, what);
                trees.promises += 1;
                trees.after += u64::from(self.struck());
                (self.note)(text, false)?;
            }
        }
        Ok(String::new())
    }

    /// Writes down the files that the program sees.
    fn look(&self, trees: &mut Trees, promise: &str) {
        let Some(out) = &mut trees.out else { return };
        if trees.why.is_some() {
            return;
        }
        let since = Instant::now();
        let tree = Tree::walk(&self.folder);
        trees.spent += since.elapsed();
        let written = tree.and_then(|tree| {
            let line =
                json!({ "number": trees.promises, "promise": promise, "tree": tree.document() });
            writeln!(out, "{line}").map_err(|error| error.to_string())
        });
        let late = (trees.spent > LOOKING).then(|| "it took too long".to_string());
        trees.why = written.err().or(late);
    }
}

/// Makes all files and folders below a folder durable, and the folder itself.
fn sync_each(folder: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            sync_each(&entry.path())?;
        } else if kind.is_file() {
            std::fs::File::open(entry.path())?.sync_all()?;
        }
    }
    std::fs::File::open(folder)?.sync_all()
}

/// What came of a program.
pub(crate) struct Ran {
    /// How it ended.
    pub outcome: Outcome,
    /// Its drive refused something.
    pub struck: bool,
    /// The power went while it ran.
    pub cut: bool,
    /// Promises.
    pub promises: u64,
    /// Promises after something was refused.
    pub after: u64,
    /// It said that it was ready.
    pub ready: bool,
    /// Why it is not known over which files something was promised.
    pub no_trees: Option<String>,
    /// All of it took so long.
    pub took: Duration,
    /// Until the program was started it took so long.
    pub setup: Duration,
}

/// Records a run: the log at the first path, what was promised over which files at the second; on a drive that
/// fails as `fault` says.
///
/// # Errors
/// The machine's, or the program did not do what it should.
pub fn record(
    subject: &Subject,
    size: u64,
    scratch: &Scratch,
    (log, trees): (&Path, &Path),
    fault: &Faulty,
) -> Result<Value, TortureError> {
    let ram: Arc<dyn Disk> = Arc::new(subject.drive(size)?);
    recorded(subject, scratch, (log, trees), (ram, None), fault).map(|ran| ran.document())
}

/// Records a run on a drive, with its switch if it has one.
///
/// # Errors
/// The machine's, or the program did not do what it should.
pub(crate) fn recorded(
    subject: &Subject,
    scratch: &Scratch,
    (log, trees): (&Path, &Path),
    (below, switch): (Arc<dyn Disk>, Option<Arc<Switch>>),
    fault: &Faulty,
) -> Result<Ran, TortureError> {
    let source = format!("{} on {}", words(subject), subject.setup.kind);
    let disk = Arc::new(DataRecorded::create(below, log, &source)?);
    let out = std::fs::File::create(trees).map_err(TortureError::io(trees))?;
    let marked = Arc::clone(&disk);
    let looks = fault.rule.is_none() && switch.is_none();
    let floor = Floor {
        disk: Arc::clone(&disk) as _,
        note: Arc::new(move |text: &str, ours| marked.mark(text, ours)),
        switch,
        // On a drive that fails, or a stack whose runs are others, it is of no use.
        trees: looks.then(|| Box::new(std::io::BufWriter::new(out)) as _),
        fault: fault.clone(),
    };
    let ran = run(subject, scratch, floor)?;
    disk.finish().map_err(TortureError::io(log))?;
    Ok(ran)
}

impl Ran {
    /// As a document.
    pub(crate) fn document(&self) -> Value {
        let complaint = (self.outcome.ended != Ended::Code(0)).then(|| self.outcome.why());
        json!({
            "struck": self.struck,
            "complaint": complaint,
            "promises_after": self.after,
            "promises": self.promises,
            "ready": self.ready,
            "no_trees": self.no_trees,
            "ms": self.took.as_millis() as u64,
            "setup_ms": self.setup.as_millis() as u64,
        })
    }
}

/// Runs the program; nothing is mounted any more when this returns.
///
/// # Errors
/// The machine's, or the program did not do what it should.
pub(crate) fn run(subject: &Subject, scratch: &Scratch, floor: Floor) -> Result<Ran, TortureError> {
    let began = Instant::now();
    let root = scratch.0.join("fs");
    let marks = Arc::new(Marks {
        note: Arc::clone(&floor.note),
        folder: root.join("w"),
        root,
        kernel: subject.setup.kind.is_of_kernel(),
        trees: Mutex::new(Trees {
            out: floor.trees,
            spent: Duration::ZERO,
            ready: false,
            why: None,
            promises: 0,
            after: 0,
        }),
        faults: Arc::new(Faults::default()),
        fault: floor.fault,
        switch: floor.switch,
    });
    let hearing = Arc::clone(&marks);
    let heard: Arc<Heard> = Arc::new(move |text: &str| hearing.hear(text));
    let failing: Arc<dyn Disk> = Arc::new(FaultyDisk::new(floor.disk, Arc::clone(&marks.faults)));
    let mut stage = Stage::new(Arc::clone(&failing), &scratch.0, &subject.setup, Some(heard))?;
    if let Some(switch) = &marks.switch {
        stage.switched_by(switch.power());
    }
    if subject.setup.kind == Kind::Strict {
        let note = Arc::clone(&marks.note);
        let note = Arc::new(move |text: &str| note(text, true));
        stage.told_as(Strict::Volume(Arc::new(Mutex::new(Volume::new(failing, note)))));
    }
    let ran = on(subject, scratch, &mut stage, &marks);
    let took = began.elapsed();
    // Its marks end here; what unmounting writes is nobody's.
    let ended = stage.end();
    let (outcome, setup, struck, cut) = ran?;
    ended?;
    let mut trees = marks.trees.lock().unwrap_or_else(PoisonError::into_inner);
    // Without them less can be said about a failure, and nothing else changes.
    let flushed = trees.out.as_mut().and_then(|out| out.flush().err());
    let no_trees = trees.why.clone().or(flushed.map(|error| error.to_string()));
    if outcome.ended != Ended::Code(0) && !struck && !cut {
        return Err(TortureError::Broken(format!("the program {}", outcome.why())));
    }
    let (promises, after, ready) = (trees.promises, trees.after, trees.ready);
    Ok(Ran { outcome, struck, cut, promises, after, ready, no_trees, took, setup })
}

fn words(subject: &Subject) -> String {
    let words: Vec<String> =
        subject.program.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    words.join(" ")
}

fn on(
    subject: &Subject,
    scratch: &Scratch,
    stage: &mut Stage,
    marks: &Marks,
) -> Result<(Outcome, Duration, bool, bool), TortureError> {
    let since = Instant::now();
    stage.make()?;
    let marked = |text: &str| (marks.note)(text, true).map_err(TortureError::Broken);
    marked(STARTED)?;
    marks.fail(false).map_err(TortureError::Broken)?;
    let setup = since.elapsed();
    let tmp = scratch.tmp();
    std::fs::create_dir_all(&tmp).map_err(TortureError::io(&tmp))?;
    let mut env = subject.env.clone();
    env.push(("VARVE_DIR".to_string(), stage.folder().into()));
    env.push(("VARVE_ACK".to_string(), stage.ears().into()));
    env.push(("VARVE_SHARED".to_string(), scratch.shared().into()));
    env.push(("TMPDIR".to_string(), tmp.into()));
    // A machine without power runs nothing.
    let outcome = Boxes::probe()
        .run(&subject.program, &env, subject.run_limit, &|| !marks.is_on())
        .map_err(|error| TortureError::Input(error.to_string()))?;
    let (struck, cut) = (marks.struck(), !marks.is_on());
    if let Some(switch) = &marks.switch {
        switch.end().map_err(|error| TortureError::Broken(error.to_string()))?;
    }
    marked(ENDED)?;
    // What is left is to be let go, whatever failed before.
    marks.faults.command("clear").map_err(TortureError::Broken)?;
    match stage.unmount() {
        // That is the duty of a file system whose drive has failed; what is there is judged.
        Err(TortureError::NotDurable(_)) if struck => {}
        unmounted => unmounted?,
    }
    Ok((outcome, setup, struck, cut))
}
