//! What is tested: a program, what is on the drive, and who judges; as processes tell it to each other.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use stack::disk::{DiskError, RamDisk};

#[cfg(doc)]
use crate::overlay::StateDisk;
use crate::stage::Setup;

/// What is tested.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subject {
    /// The file system.
    pub setup: Setup,
    /// Bytes that the drive keeps whole.
    pub atomic: u64,
    /// The program and its arguments.
    pub program: Vec<OsString>,
    /// A line of a shell that judges a state; without one the file system is checked and the program
    /// started again.
    pub check: Option<String>,
    /// Variables that both see.
    pub env: Vec<(String, OsString)>,
    /// How long the program may run.
    pub run_limit: Duration,
    /// How long a check may.
    pub limit: Duration,
}

fn text(value: &OsString) -> Value {
    json!(value.to_string_lossy())
}

fn ms(time: Duration) -> Value {
    json!(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

impl Subject {
    /// As a document. Words that are no text are told as well as they can be.
    pub fn document(&self) -> Value {
        let env: Vec<Value> =
            self.env.iter().map(|(name, value)| json!([name, value.to_string_lossy()])).collect();
        json!({
            "fs": self.setup.kind.name(),
            "mkfs": self.setup.mkfs,
            "mount_options": self.setup.options,
            "atomic": self.atomic,
            "program": self.program.iter().map(text).collect::<Vec<_>>(),
            "check": self.check,
            "env": env,
            "run_limit_ms": ms(self.run_limit),
            "limit_ms": ms(self.limit),
        })
    }

    /// Of a document of ours.
    pub fn of(document: &Value) -> Option<Subject> {
        let text = |name: &str| document[name].as_str().map(str::to_string);
        let time = |name: &str| document[name].as_u64().map(Duration::from_millis);
        let words = document["program"].as_array()?.iter();
        let pairs = document["env"].as_array()?.iter();
        Some(Subject {
            setup: Setup {
                kind: text("fs")?.parse().ok()?,
                mkfs: text("mkfs")?,
                options: text("mount_options")?,
            },
            atomic: document["atomic"].as_u64()?,
            program: words.map(|w| w.as_str().map(OsString::from)).collect::<Option<_>>()?,
            check: text("check"),
            env: pairs
                .map(|pair| Some((pair[0].as_str()?.to_string(), pair[1].as_str()?.into())))
                .collect::<Option<_>>()?,
            run_limit: time("run_limit_ms")?,
            limit: time("limit_ms")?,
        })
    }

    /// A blank drive for a program to be recorded on. What it says of itself a [`StateDisk`] says of its states.
    ///
    /// # Errors
    /// It is too large.
    pub fn drive(&self, size: u64) -> Result<RamDisk, DiskError> {
        Ok(RamDisk::new(size)?.tearing(self.atomic as u32))
    }

    /// Whether a state that does not mount is a promise that was not kept: not where the drive leaves less whole than the
    /// file system counts on.
    pub fn must_mount(&self) -> bool {
        self.atomic >= self.setup.kind.whole()
    }

    /// The words that judge a state.
    pub fn judge(&self) -> Vec<OsString> {
        match &self.check {
            Some(line) => ["sh", "-c", line].map(OsString::from).to_vec(),
            None => self.program.clone(),
        }
    }
}

/// Folders of one process of ours.
#[derive(Clone, Debug)]
pub struct Scratch(pub PathBuf);

impl Scratch {
    /// Where programs may leave what they like: emptied after each.
    pub fn tmp(&self) -> PathBuf {
        self.0.join("tmp")
    }

    /// What the program and all checks of a run share, off the drive.
    pub fn shared(&self) -> PathBuf {
        self.0.parent().unwrap_or(&self.0).join("shared")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use stack::datalog::{Log, Writer};
    use stack::disk::{DataRecorded, Disk};

    use crate::fake::Fake;
    use crate::history::History;
    use crate::overlay::StateDisk;

    #[test]
    fn a_state_says_of_itself_what_the_drive_said_that_was_recorded() {
        let mut subject = Fake::new(&[]).wanted.subject;
        for atomic in [512, 4096] {
            subject.atomic = atomic;
            let drive = Arc::new(subject.drive(1 << 20).unwrap());
            let recorded = DataRecorded::new(drive, Box::new(std::io::sink()), "a test").unwrap();
            let log = Writer::new(Vec::new(), 1 << 20, "a test").unwrap().finish().unwrap();
            let history = History::new(Log::read(log).unwrap()).unwrap();
            let state = StateDisk::new(Arc::new(history), atomic);
            assert_eq!(recorded.capabilities(), state.capabilities());
            assert_eq!(u64::from(state.capabilities().atomic), atomic);
        }
    }
}
