//! A host log over a disk whose power can be cut, as a subject.

use block::{BlockDevice, DeviceError, Op, Request, Sectors, Time};
use nand::Cut;
use remap::paper::PaperLog;
use remap::{HostLog, LiveLog, LogError};

use crate::failure::{Contract, Failure};
use crate::remap::live::LiveStack;
use crate::remap::oracle::{LogSubject, Promise};
use crate::remap::spec::{RemapMode, RemapSpec, Shell};
use crate::shared::{Remains, SharedDisk, disk_cut};
use crate::subject::{DurableKind, Subject};

/// A log, or what is left of one.
enum Stack {
    Paper(Box<PaperLog<SharedDisk>>),
    Varve(Box<HostLog<SharedDisk>>),
    Live(Box<LiveStack>),
    /// After a clean stop.
    Stopped,
    /// Power-on failed.
    Refused(String),
}

/// A host log under proof.
pub struct HostSubject {
    stack: Stack,
    /// It outlives a log that could not be opened, or failed to stop.
    disk: SharedDisk,
    capacity: Sectors,
    flushes: u64,
    /// Faults may have damaged what lies on the disk, or stopped the log.
    faulty: bool,
    /// What was found wrong where no answer could say so.
    broken: Option<Failure>,
}

/// After one in so many flushes the map is compared with what recovery would build (I7).
const COMPARE: u64 = 3;

impl HostSubject {
    fn new(spec: &RemapSpec, stack: Stack, disk: SharedDisk) -> HostSubject {
        let capacity = Sectors(u64::from(spec.pages()) * 8);
        let faulty = spec.promise.damaged || spec.promise.may_fail;
        HostSubject { stack, disk, capacity, flushes: 0, faulty, broken: None }
    }

    fn off() -> DeviceError {
        DeviceError::ReadOnly("the log is not open")
    }

    /// Now and then after a flush: the volatile map is what recovery would rebuild.
    fn compare(&mut self) {
        self.flushes += 1;
        if self.faulty || !self.flushes.is_multiple_of(COMPARE) || self.broken.is_some() {
            return;
        }
        let found = match &mut self.stack {
            Stack::Varve(log) => Some(match log.check_media() {
                Ok(report) if report.damaged.is_empty() => Ok(()),
                Ok(report) => Err(format!("damaged blocks {:?}", report.damaged)),
                Err(error) => Err(error.to_string()),
            }),
            Stack::Live(log) => log.check_media(),
            Stack::Paper(_) | Stack::Stopped | Stack::Refused(_) => None,
        };
        if let Some(Err(what)) = found {
            self.broken = Some(Failure::new(Contract::C7, format!("I7: {what}")));
        }
    }
}

/// Tables that do not agree, or counters.
fn broken_books(error: &LogError) -> Failure {
    let what = error.to_string();
    let counts = what.contains("blocks written") || what.contains("requests wrote");
    Failure::new(if counts { Contract::C8 } else { Contract::C7 }, what)
}

impl Subject for HostSubject {
    type Spec = RemapSpec;
    type Image = Remains;

    fn build(spec: &RemapSpec) -> Result<HostSubject, Failure> {
        let broken = |e: String| Failure::new(Contract::C10, format!("no log: {e}"));
        let disk = SharedDisk::new(spec.new_disk());
        let stack = match &spec.mode {
            RemapMode::Paper(options) => {
                let log = PaperLog::format(disk.clone(), options);
                Stack::Paper(Box::new(log.map_err(|e| broken(e.to_string()))?))
            }
            RemapMode::Log(options, planted) => match spec.shell {
                Shell::Modelled => {
                    let log = HostLog::format_with(disk.clone(), options, *planted);
                    Stack::Varve(Box::new(log.map_err(|e| broken(e.to_string()))?))
                }
                Shell::Live(seed) => {
                    let log = LiveStack::start(disk.clone(), options, seed, |medium, around| {
                        LiveLog::format_with(medium, options, around, *planted)
                    });
                    Stack::Live(Box::new(log.map_err(|e| broken(e.to_string()))?))
                }
            },
        };
        Ok(HostSubject::new(spec, stack, disk))
    }

    fn mount(spec: &RemapSpec, image: Remains) -> Result<HostSubject, Failure> {
        let disk = SharedDisk::new(spec.disk_of(image));
        let opened = match &spec.mode {
            RemapMode::Paper(options) => {
                let log = PaperLog::open(disk.clone(), options);
                log.map(|log| Stack::Paper(Box::new(log))).map_err(|e| e.to_string())
            }
            RemapMode::Log(options, planted) => {
                let opened = match spec.shell {
                    Shell::Modelled => {
                        HostLog::open_with(disk.clone(), Time::ZERO, options, *planted).map(|log| {
                            (log.read_only().map(str::to_string), Stack::Varve(Box::new(log)))
                        })
                    }
                    Shell::Live(seed) => {
                        LiveStack::start(disk.clone(), options, seed, |medium, around| {
                            LiveLog::open_with(medium, options, around, *planted)
                        })
                        .map(|log| (log.read_only(), Stack::Live(Box::new(log))))
                    }
                };
                match opened {
                    // Without damage nothing excuses it.
                    Ok((Some(why), _)) if !spec.promise.damaged => Err(why),
                    Ok((_, stack)) => Ok(stack),
                    Err(error) => Err(error.to_string()),
                }
            }
        };
        Ok(HostSubject::new(spec, opened.unwrap_or_else(Stack::Refused), disk))
    }

    fn ready(&self) -> Time {
        match &self.stack {
            Stack::Paper(log) => log.now(),
            Stack::Varve(log) => log.now(),
            Stack::Live(log) => log.now(),
            Stack::Stopped | Stack::Refused(_) => Time::ZERO,
        }
    }
    fn ops(&self) -> u64 {
        self.disk.get().ops()
    }

    fn op(&self, op: u64) -> Option<DurableKind> {
        self.disk.get().op(op)
    }

    fn has_pairs(&self) -> bool {
        false
    }

    /// The harshest end: what no flush covers is gone.
    fn image(&self) -> Result<Remains, Failure> {
        self.disk.get().image()
    }

    fn image_at_cut(&self, cut: &Cut) -> Option<(Remains, Time)> {
        self.disk.get().image_at_cut(cut, &disk_cut(cut))
    }

    fn forget(&mut self, before: Time) {
        self.disk.get().forget(before);
    }

    fn check(&self) -> Result<(), Failure> {
        if let Some(failure) = &self.broken {
            return Err(failure.clone());
        }
        match &self.stack {
            Stack::Paper(log) => {
                let (stats, written) = (log.stats(), self.disk.get().written());
                if stats.adds_up() && stats.backing * 8 == written.0 {
                    return Ok(());
                }
                let what = format!("{stats:?}, {written} sectors written");
                Err(Failure::new(Contract::C8, what))
            }
            Stack::Live(log) => log.check().map_err(|error| broken_books(&error)),
            Stack::Varve(log) => log.check().map_err(|error| broken_books(&error)),
            Stack::Stopped | Stack::Refused(_) => Ok(()),
        }
    }

    fn event_hash(&self) -> u64 {
        self.disk.get().event_hash()
    }
}

impl BlockDevice for HostSubject {
    fn capacity(&self) -> Sectors {
        self.capacity
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        let flush = request.op == Op::Flush;
        let answer = match &mut self.stack {
            Stack::Paper(log) => log.submit(at, request),
            Stack::Varve(log) => log.submit(at, request),
            Stack::Live(log) => log.submit(at, request),
            Stack::Stopped | Stack::Refused(_) => Err(HostSubject::off()),
        };
        if flush && answer.is_ok() {
            self.compare();
        }
        answer
    }
}

impl LogSubject for HostSubject {
    fn promise(spec: &RemapSpec) -> Promise {
        spec.promise
    }
    fn refused(&self) -> Option<&str> {
        match &self.stack {
            Stack::Refused(why) => Some(why),
            _ => None,
        }
    }
    fn stop(&mut self, at: Time) -> Result<Time, DeviceError> {
        self.broken = self.check().err();
        match std::mem::replace(&mut self.stack, Stack::Refused("stopping".to_string())) {
            Stack::Paper(mut log) => {
                let done = log.stop(at);
                self.stack = Stack::Paper(log);
                done
            }
            Stack::Live(mut log) => {
                let done = log.stop(at);
                if done.is_ok() {
                    self.stack = Stack::Stopped;
                }
                done
            }
            Stack::Varve(log) => {
                let (_, done) = log.close(at).map_err(|error| match error {
                    LogError::Device(error) => error,
                    other => DeviceError::Io(other.to_string()),
                })?;
                self.stack = Stack::Stopped;
                Ok(done)
            }
            other => {
                self.stack = other;
                Err(HostSubject::off())
            }
        }
    }
}
