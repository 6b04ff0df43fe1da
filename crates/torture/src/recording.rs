//! A program's run on a recorded drive.
//!
//! The drive lies in memory and loses nothing: what a power cut would have left is found out later, from the
//! log. A mark is in the log when the program's write of it returns; before that the files that the program
//! sees are looked at, so that it can be said later what exactly was promised. Where the drive is to fail under the
//! program, what was refused is not in the log.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use serve::faults::{Faults, FaultyDisk};
use stack::disk::{DataRecorded, Disk, RamDisk};

use crate::error::TortureError;
use crate::history::{ENDED, READY, STARTED, Said, said};
use crate::live::Faulty;
use crate::sandbox::{Boxes, Ended, Outcome};
use crate::stage::{Heard, Kind, Stage, Strict};
use crate::strict::Volume;
use crate::subject::{Scratch, Subject};
use crate::tree::Tree;

/// How long looking at files may take in all: what is promised later is not looked at.
const LOOKING: Duration = Duration::from_secs(10);

/// What the marks of a program led to.
struct Marks {
    disk: Arc<DataRecorded>,
    folder: std::path::PathBuf,
    root: std::path::PathBuf,
    kernel: bool,
    trees: Mutex<Trees>,
    faults: Arc<Faults>,
    fault: Faulty,
}

struct Trees {
    out: Box<dyn Write + Send>,
    spent: Duration,
    ready: bool,
    /// Why no more are written.
    why: Option<String>,
    promises: u64,
    /// Promises after a request was refused.
    after: u64,
}

impl Marks {
    /// From now on the drive fails as it is to.
    fn fail(&self) -> Result<(), String> {
        let Some(rule) = &self.fault.rule else { return Ok(()) };
        self.faults.command(&format!("add {rule}")).map(drop)
    }

    /// Whether a request was refused.
    fn struck(&self) -> bool {
        let rules = self.faults.command("list").unwrap_or_default();
        rules.as_array().into_iter().flatten().any(|rule| rule["struck"] != 0)
    }

    fn hear(&self, text: &str) -> Result<String, String> {
        let mut trees = self.trees.lock().unwrap_or_else(PoisonError::into_inner);
        match said(text) {
            Said::Begin(_) => self.disk.mark(text, false)?,
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
                self.disk.mark(READY, true)?;
                if self.fault.from_ready {
                    self.fail()?;
                }
            }
            Said::Promise(what) => {
                self.look(&mut trees, what);
                trees.promises += 1;
                trees.after += u64::from(self.struck());
                self.disk.mark(text, false)?;
            }
        }
        Ok(String::new())
    }

    /// Writes down the files that the program sees.
    fn look(&self, trees: &mut Trees, promise: &str) {
        if trees.why.is_some() || self.fault.rule.is_some() {
            return;
        }
        let since = Instant::now();
        let tree = Tree::walk(&self.folder);
        trees.spent += since.elapsed();
        let written = tree.and_then(|tree| {
            let line =
                json!({ "number": trees.promises, "promise": promise, "tree": tree.document() });
            writeln!(trees.out, "{line}").map_err(|error| error.to_string())
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
    let began = Instant::now();
    let ram = Arc::new(RamDisk::new(size)?);
    let source = format!("{} on {}", words(subject), subject.setup.kind);
    let disk = Arc::new(DataRecorded::create(ram, log, &source)?);
    let out = std::fs::File::create(trees).map_err(TortureError::io(trees))?;
    let root = scratch.0.join("fs");
    let marks = Arc::new(Marks {
        disk: Arc::clone(&disk),
        folder: root.join("w"),
        root,
        kernel: subject.setup.kind.is_of_kernel(),
        trees: Mutex::new(Trees {
            out: Box::new(std::io::BufWriter::new(out)),
            spent: Duration::ZERO,
            ready: false,
            why: None,
            promises: 0,
            after: 0,
        }),
        faults: Arc::new(Faults::default()),
        fault: fault.clone(),
    });
    let hearing = Arc::clone(&marks);
    let heard: Arc<Heard> = Arc::new(move |text: &str| hearing.hear(text));
    let recorded: Arc<dyn Disk> = Arc::clone(&disk) as _;
    let disk_of_stage = Arc::new(FaultyDisk::new(recorded, Arc::clone(&marks.faults)));
    let mut stage = Stage::new(disk_of_stage, &scratch.0, &subject.setup, Some(heard))?;
    if subject.setup.kind == Kind::Strict {
        let log = Arc::clone(&disk);
        let note = Arc::new(move |text: &str| log.mark(text, true));
        let below: Arc<dyn Disk> = Arc::new(FaultyDisk::new(
            Arc::clone(&disk) as Arc<dyn Disk>,
            Arc::clone(&marks.faults),
        ));
        stage.told_as(Strict::Volume(Arc::new(Mutex::new(Volume::new(below, note)))));
    }
    let ran = run(subject, scratch, &mut stage, &marks);
    let took = began.elapsed();
    // Its marks end here; what unmounting writes is nobody's.
    let ended = stage.end();
    let (outcome, setup, struck) = ran?;
    ended?;
    disk.finish().map_err(TortureError::io(log))?;
    let mut trees = marks.trees.lock().unwrap_or_else(PoisonError::into_inner);
    // Without them less can be said about a failure, and nothing else changes.
    let flushed = trees.out.flush().err().map(|error| error.to_string());
    let why = trees.why.clone().or(flushed);
    let complaint = match outcome.ended {
        Ended::Code(0) => None,
        _ if struck => Some(outcome.why()),
        _ => return Err(TortureError::Broken(format!("the program {}", outcome.why()))),
    };
    Ok(json!({
        "struck": struck,
        "complaint": complaint,
        "promises_after": trees.after,
        "promises": trees.promises,
        "ready": trees.ready,
        "no_trees": why,
        "ms": took.as_millis() as u64,
        "setup_ms": setup.as_millis() as u64,
    }))
}

fn words(subject: &Subject) -> String {
    let words: Vec<String> =
        subject.program.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    words.join(" ")
}

fn run(
    subject: &Subject,
    scratch: &Scratch,
    stage: &mut Stage,
    marks: &Marks,
) -> Result<(Outcome, Duration, bool), TortureError> {
    let since = Instant::now();
    stage.make()?;
    let marked = |text: &str| marks.disk.mark(text, true).map_err(TortureError::Broken);
    marked(STARTED)?;
    if !marks.fault.from_ready {
        marks.fail().map_err(TortureError::Broken)?;
    }
    let setup = since.elapsed();
    let tmp = scratch.tmp();
    std::fs::create_dir_all(&tmp).map_err(TortureError::io(&tmp))?;
    let mut env = subject.env.clone();
    env.push(("VARVE_DIR".to_string(), stage.folder().into()));
    env.push(("VARVE_ACK".to_string(), stage.ears().into()));
    env.push(("VARVE_SHARED".to_string(), scratch.shared().into()));
    env.push(("TMPDIR".to_string(), tmp.into()));
    let outcome = Boxes::probe()
        .run(&subject.program, &env, subject.run_limit, &|| false)
        .map_err(|error| TortureError::Input(error.to_string()))?;
    marked(ENDED)?;
    let struck = marks.struck();
    // What is left is to be let go, whatever failed before.
    marks.faults.command("clear").map_err(TortureError::Broken)?;
    stage.unmount()?;
    Ok((outcome, setup, struck))
}
