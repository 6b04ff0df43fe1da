//! A drive that is judged: mounted, looked at by the checker, and let go.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::error::TortureError;
use crate::sandbox::{Boxes, Ended};
use crate::stage::Stage;
use crate::subject::{Scratch, Subject};
use crate::tree::Tree;
use crate::worker::{Fate, Job};

/// What came of it, and why.
pub(crate) type Found = (Fate, String);

/// Whoever judges what is on the drive of a stage.
pub(crate) struct Judge {
    pub subject: Subject,
    pub scratch: Scratch,
    pub stage: Stage,
    pub boxes: Boxes,
}

impl Judge {
    /// Mounts the drive, has what is on it judged by what was promised and what began, and lets it go.
    /// `was_read` says whether anybody read its head since it is the one it is.
    ///
    /// # Errors
    /// The stage's, the checker's, or the machine's.
    pub(crate) fn looked(
        &mut self,
        said: (&[String], &[String]),
        job: &Job,
        was_read: &dyn Fn() -> bool,
        answer: &mut BTreeMap<String, Value>,
    ) -> Result<Found, TortureError> {
        self.stage.fresh()?;
        let mounted = self.stage.mount();
        if !was_read() {
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
        let judged = self.judged(said, job.shell);
        let unmounted = self.stage.unmount();
        let cleared = self.clear();
        let found = judged?;
        match unmounted.and(cleared) {
            Ok(()) => Ok(found),
            // What the checker found is found, whatever comes behind it.
            Err(why) if found.0 == Fate::Lost => {
                Ok((Fate::Lost, format!("{}; then: {why}", found.1)))
            }
            Err(why) => Err(why),
        }
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

    fn judged(
        &self,
        (promised, begun): (&[String], &[String]),
        shell: bool,
    ) -> Result<Found, TortureError> {
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
            ("VARVE_ACKED", list("acked", promised)?),
            ("VARVE_STARTED", list("started", begun)?),
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
