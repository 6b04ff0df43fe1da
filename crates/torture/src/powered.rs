//! A run of a program on a stack of ours, in a process of ours: recorded, or ended by a power cut.
//!
//! After a cut the machine is off: the program is ended, everything mounted is let go while nothing reaches
//! the stack any more, and the loop device with it. Then the stack powers on by its own recovery, and what it
//! holds is kept as a log with one state in it, before a file system touches it. That is mounted, from the
//! stack itself, and judged by what was promised while the power was on.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use stack::disk::{DataRecorded, Disk, RamDisk};

use crate::below::Below;
use crate::error::TortureError;
use crate::history::{ENDED, STARTED, Said, said};
use crate::judge::Judge;
use crate::live::Faulty;
use crate::recording::{Floor, recorded, run};
use crate::sandbox::Boxes;
use crate::stage::Stage;
use crate::states::Cut;
use crate::subject::{Scratch, Subject};
use crate::switch::{Goes, Switch};
use crate::touched::Touched;
use crate::worker::{Fate, Job};

/// What is to be done with a stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Order {
    /// The stack.
    pub stack: String,
    /// What a cut leaves is drawn from this.
    pub seed: u64,
    /// When the power goes.
    pub goes: Goes,
    /// From the program's `ready` on, and not from its start.
    pub from_ready: bool,
}

impl Order {
    /// As a document.
    pub fn document(&self) -> Value {
        json!({
            "text": self.stack,
            "seed": self.seed,
            "goes": self.goes.document(),
            "from_ready": self.from_ready,
        })
    }

    /// Of a document of ours.
    pub fn of(document: &Value) -> Option<Order> {
        Some(Order {
            stack: document["text"].as_str()?.to_string(),
            seed: document["seed"].as_u64()?,
            goes: Goes::of(&document["goes"])?,
            from_ready: document["from_ready"].as_bool()?,
        })
    }

    /// A new stack, and its switch.
    fn start(&self) -> Result<(Arc<Touched>, Arc<Switch>), TortureError> {
        let stack = Below::read(&self.stack)?.start(self.seed)?;
        let disk = Arc::new(Touched::new(stack.disk, Arc::clone(&stack.power)));
        let (goes, from_ready) = (self.goes, self.from_ready);
        let switch = Arc::new(Switch::new(stack.power, Arc::clone(&disk), goes, from_ready));
        Ok((disk, switch))
    }
}

/// Records a run whose power stays on.
pub(crate) fn record(
    subject: &Subject,
    scratch: &Scratch,
    into: (&Path, &Path),
    order: &Order,
) -> Result<Value, TortureError> {
    let (disk, switch) = order.start()?;
    let below = (disk as Arc<dyn Disk>, Some(Arc::clone(&switch)));
    let ran = recorded(subject, scratch, into, below, &Faulty::default())?;
    let mut answer = ran.document();
    answer["spent"] = switch.spent().document();
    Ok(answer)
}

/// What a program said.
#[derive(Default)]
struct Words {
    promised: Vec<String>,
    begun: Vec<String>,
}

impl Words {
    fn hear(&mut self, text: &str) {
        match said(text) {
            Said::Ready => {}
            Said::Begin(what) => self.begun.push(what.to_string()),
            Said::Promise(what) => {
                self.begun.retain(|begun| begun != what);
                self.promised.push(what.to_string());
            }
        }
    }
}

/// Makes a run that ends with a power cut, and judges what the stack came up with, which is kept at `state`.
pub(crate) fn cut(
    subject: Subject,
    scratch: Scratch,
    order: &Order,
    state: &Path,
) -> Result<Value, TortureError> {
    let (disk, switch) = order.start()?;
    let words: Arc<Mutex<Words>> = Arc::default();
    let hear = Arc::clone(&words);
    let floor = Floor {
        disk: Arc::clone(&disk) as _,
        note: Arc::new(move |text: &str, ours| {
            if !ours {
                hear.lock().unwrap_or_else(PoisonError::into_inner).hear(text);
            }
            Ok(())
        }),
        switch: Some(Arc::clone(&switch)),
        trees: None,
        fault: Faulty::default(),
    };
    // A log says that it stands still: so it should.
    stack::notice::quiet(true);
    let ran = run(&subject, &scratch, floor);
    stack::notice::quiet(false);
    let ran = ran?;
    let spent = switch.spent();
    let last = switch.last();
    let words = words.lock().unwrap_or_else(PoisonError::into_inner);
    let (fate, reason, kept) = match switch.power().on() {
        Err(error) => (Fate::Lost, format!("the stack does not come up: {error}"), false),
        Ok(()) => {
            keep(&disk, &words, &subject, state)?;
            let (fate, reason) = judged(subject, scratch, &disk, &words)?;
            (fate, reason, true)
        }
    };
    Ok(json!({
        "fate": fate.name(),
        "reason": reason,
        "kept": kept,
        "promised": words.promised.len(),
        "pending": last.map_or(0, |last| last.pending),
        "within": ran.cut,
        "spent": spent.document(),
    }))
}

/// Leaves what is on a disk as a log with one state: all of it durable, and what was said by then.
fn keep(
    disk: &Touched,
    words: &Words,
    subject: &Subject,
    state: &Path,
) -> Result<(), TortureError> {
    let ram = Arc::new(RamDisk::new(disk.capabilities().size)?);
    let source = format!("what a stack came up with, {}", subject.setup.kind);
    let log = DataRecorded::create(ram, state, &source)?;
    disk.dump(&mut |at, bytes| log.write(at, bytes, false).and_then(stack::disk::Done::wait))?;
    log.flush()?.wait()?;
    let mark = |text: &str, ours| log.mark(text, ours).map_err(TortureError::Broken);
    words.promised.iter().try_for_each(|what| mark(what, false))?;
    words.begun.iter().try_for_each(|what| mark(&format!("begin {what}"), false))?;
    mark(STARTED, true)?;
    mark(ENDED, true)?;
    log.finish().map_err(TortureError::io(state))
}

/// Judges what is on the stack itself.
fn judged(
    subject: Subject,
    scratch: Scratch,
    disk: &Arc<Touched>,
    words: &Words,
) -> Result<(Fate, String), TortureError> {
    let stage = Stage::new(Arc::clone(disk) as _, &scratch.0, &subject.setup, None)?;
    let mut judge = Judge { subject, scratch, stage, boxes: Boxes::probe() };
    let said = (&words.promised[..], &words.begun[..]);
    // The device is a new one: nobody knows anything of it.
    let job = Job::check(Cut { at: 0, left: crate::states::Left::Worst });
    let found = judge.looked(said, &job, &|| true, &mut BTreeMap::new());
    let ended = judge.stage.end();
    let found = match found {
        Err(TortureError::Broken(why)) => (Fate::Broken, why),
        other => other?,
    };
    ended?;
    Ok(found)
}
