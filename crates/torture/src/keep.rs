//! What a run leaves for later: logs, and a plan for each failure.

use std::path::{Path, PathBuf};

use stack::datalog::{Log, pack};

use crate::error::TortureError;
use crate::plan::{Plan, sha256};
use crate::run::Wanted;
use crate::states::Cut;
use crate::verdict::Checked;

/// A log that was left.
#[derive(Clone, Debug)]
pub struct Left {
    name: PathBuf,
    sha256: String,
}

/// Writes logs and plans into a folder.
#[derive(Debug)]
pub struct Keep<'a> {
    wanted: &'a Wanted,
    out: &'a Path,
    /// Plans that are there already.
    before: usize,
    /// Plans that were left.
    pub plans: Vec<String>,
}

impl<'a> Keep<'a> {
    /// In `out`, which is made if it is not there; so many plans of this run are in it already.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new(wanted: &'a Wanted, out: &'a Path, before: usize) -> Result<Keep<'a>, TortureError> {
        std::fs::create_dir_all(out).map_err(TortureError::io(out))?;
        Ok(Keep { wanted, out, before, plans: Vec::new() })
    }

    /// Leaves a log; `more` tells it from the others of this run.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn log(&self, log: &Log, more: &str) -> Result<Left, TortureError> {
        let name = self.wanted.name.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let name = format!("{name}{more}.vlog");
        let path = self.out.join(&name);
        let packed = pack(log.whole()).map_err(TortureError::io(&path))?;
        std::fs::write(&path, &packed).map_err(TortureError::io(&path))?;
        Ok(Left { name: PathBuf::from(name), sha256: sha256(&packed) })
    }

    /// Leaves a plan.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn plan(
        &mut self,
        log: &Left,
        checked: &Checked,
        cut: &Cut,
        state: String,
    ) -> Result<(), TortureError> {
        let number = self.before + self.plans.len() + 1;
        let file = self.out.join(format!("lost-{number}.toml"));
        let plan = Plan {
            log: log.name.clone(),
            sha256: log.sha256.clone(),
            subject: self.wanted.subject.clone(),
            cut: cut.clone(),
            acked: checked.promised,
            state,
            found: (checked.fate.name().to_string(), checked.reason.clone()),
            version: self.wanted.version.clone(),
        };
        self.plans.push(file.display().to_string());
        std::fs::write(&file, plan.text()).map_err(TortureError::io(&file))
    }
}
