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
    /// The state and the fate are those of the plan, each time.
    pub as_written: bool,
    /// How often they were.
    pub times: u32,
}

/// How it is followed.
#[derive(Clone, Debug, Default)]
pub struct How {
    /// A shell on this terminal, and no check.
    pub shell: bool,
    /// The drive is left there as an image.
    pub image: Option<PathBuf>,
    /// How often; 0 is once.
    pub times: u32,
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
    let mut again = Again {
        fate: String::new(),
        reason: String::new(),
        state: String::new(),
        as_written: true,
        times: 0,
    };
    for _ in 0..how.times.max(1) {
        let answer = match worker.ask(&job) {
            Ok(answer) => answer,
            Err(error) => {
                worker.end();
                return Err(error);
            }
        };
        let text = |name: &str| answer[name].as_str().unwrap_or_default().to_string();
        let (fate, state) = (text("fate"), text("hash"));
        let same = state == plan.state && fate == plan.found.0;
        again.times += u32::from(same);
        // What came out otherwise is what is told.
        if again.as_written {
            again = Again { fate, reason: text("reason"), state, as_written: same, ..again };
        }
    }
    worker.end();
    Ok(again)
}
