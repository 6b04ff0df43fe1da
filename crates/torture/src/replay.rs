//! A plan, followed: the same drive, the same checker.

use std::path::{Path, PathBuf};

use crate::crew::{Apart, Crew, Folder};
use crate::error::TortureError;
use crate::plan::{Plan, sha256};
use crate::worker::Job;

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Again {
    /// The fate, by name.
    pub fate: String,
    /// The reason.
    pub reason: String,
    /// The state.
    pub state: String,
    /// The state and the fate are those of the plan.
    pub as_written: bool,
}

/// How it is followed.
#[derive(Clone, Debug, Default)]
pub struct How {
    /// A shell on this terminal, and no check.
    pub shell: bool,
    /// The drive is left there as an image.
    pub image: Option<PathBuf>,
}

/// Follows a plan.
///
/// # Errors
/// [`TortureError`].
pub fn replay(path: &Path, how: &How, program: &Path) -> Result<Again, TortureError> {
    let plan = Plan::load(path)?;
    if let Some(why) = plan.subject.setup.kind.why_not() {
        return Err(TortureError::Machine(why));
    }
    let bytes = std::fs::read(&plan.log).map_err(TortureError::io(&plan.log))?;
    let found = sha256(&bytes);
    if found != plan.sha256 {
        let what = format!("{}: sha256 {found}; expected {}", plan.log.display(), plan.sha256);
        return Err(TortureError::Input(what));
    }
    let folder = Folder::new()?;
    let crew = Crew {
        program: program.to_path_buf(),
        apart: Apart::probe(),
        subject: plan.subject.clone(),
        log: std::path::absolute(&plan.log).map_err(TortureError::io(&plan.log))?,
        folder: folder.path().to_path_buf(),
    };
    let mut worker = crew.worker("replay")?;
    let image = how.image.as_ref().map(std::path::absolute).transpose();
    let image = image.map_err(TortureError::io("--image"))?;
    let job = Job { shell: how.shell, image, ..Job::check(plan.cut.clone()) };
    let answer = worker.ask(&job);
    worker.end();
    let answer = answer?;
    let text = |name: &str| answer[name].as_str().unwrap_or_default().to_string();
    let (fate, reason, state) = (text("fate"), text("reason"), text("hash"));
    let as_written = state == plan.state && fate == plan.found.0;
    Ok(Again { fate, reason, state, as_written })
}
