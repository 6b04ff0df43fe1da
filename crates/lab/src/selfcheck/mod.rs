//! The model against closed forms: what `varve doctor --self-check` runs.
//!
//! Every expectation is computed here from the configuration's texts or from published formulas,
//! never from the drive's own tables, so that a mistake cannot agree with itself.

pub mod formulas;
mod rules;
mod setup;
mod timing;
mod waf;

use std::sync::Mutex;
use std::sync::mpsc;

pub use timing::Shape;

/// One comparison of the model with what must come out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// `time`, `write amplification` or `rules`.
    pub section: &'static str,
    /// What was measured, and on which drive.
    pub name: String,
    /// What must come out, with its unit.
    pub expected: String,
    /// What came out.
    pub measured: String,
    /// How far they may be apart.
    pub tolerance: String,
    /// Whether they are near enough.
    pub pass: bool,
}

impl Check {
    /// Two numbers that may differ by `percent` of the expected one.
    fn near(
        section: &'static str,
        name: String,
        expected: f64,
        measured: f64,
        percent: f64,
    ) -> Check {
        let off = 100.0 * (measured / expected - 1.0);
        Check {
            section,
            name,
            expected: format!("{expected:.4}"),
            measured: format!("{measured:.4} ({off:+.2} %)"),
            tolerance: format!("{percent} %"),
            pass: off.abs() <= percent,
        }
    }

    /// Two values that must be equal.
    fn exact<T: PartialEq + std::fmt::Debug>(
        section: &'static str,
        name: String,
        expected: &T,
        measured: &T,
    ) -> Check {
        Check {
            section,
            name,
            expected: format!("{expected:?}"),
            measured: format!("{measured:?}"),
            tolerance: "exact".to_string(),
            pass: expected == measured,
        }
    }

    /// Something that must hold; `measured` says what was found.
    fn holds(
        section: &'static str,
        name: String,
        expected: &str,
        measured: String,
        pass: bool,
    ) -> Check {
        Check {
            section,
            name,
            expected: expected.to_string(),
            measured,
            tolerance: "exact".to_string(),
            pass,
        }
    }
}

/// Why a part of the self-check has no result: that is a failed check, not an error of the
/// caller.
#[derive(Debug)]
struct Trouble(String);

impl<E: std::error::Error> From<E> for Trouble {
    fn from(error: E) -> Trouble {
        Trouble(error.to_string())
    }
}

/// Gives the checks of a part.
type Run = Box<dyn FnOnce() -> Result<Vec<Check>, Trouble> + Send>;

/// A part of the self-check that needs no other.
struct Job {
    section: &'static str,
    name: String,
    run: Run,
}

impl Job {
    fn new(
        section: &'static str,
        name: impl Into<String>,
        run: impl FnOnce() -> Result<Vec<Check>, Trouble> + Send + 'static,
    ) -> Job {
        Job { section, name: name.into(), run: Box::new(run) }
    }

    fn run(self) -> Vec<Check> {
        (self.run)().unwrap_or_else(|trouble| {
            vec![Check::holds(self.section, self.name, "a result", trouble.0, false)]
        })
    }
}

/// Runs the self-check on `threads` threads; `quick` leaves out most of the long runs. `progress`
/// hears the name of each part when it is done. The checks come in the same order whatever the
/// number of threads.
pub fn run(quick: bool, threads: usize, progress: &mut dyn FnMut(&str)) -> Vec<Check> {
    // The longest first, so that no thread is left alone with one at the end.
    let (mut jobs, orders) = waf::jobs(quick);
    jobs.extend(timing::jobs(quick));
    jobs.extend(rules::jobs(quick));
    let count = jobs.len();
    let queue = Mutex::new(jobs.into_iter().enumerate());
    let (send, receive) = mpsc::channel();
    let mut results: Vec<Vec<Check>> = vec![Vec::new(); count];
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, count) {
            let (queue, send) = (&queue, send.clone());
            scope.spawn(move || {
                loop {
                    let job = queue.lock().expect("no job panics with the lock").next();
                    let Some((index, job)) = job else { break };
                    let name = job.name.clone();
                    let checks = job.run();
                    if send.send((index, name, checks)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(send);
        for (index, name, checks) in receive {
            progress(&name);
            results[index] = checks;
        }
    });
    let mut checks: Vec<Check> = results.into_iter().flatten().collect();
    checks.extend(orders());
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quick_check_passes_and_its_order_does_not_depend_on_threads() {
        let mut parts = 0;
        let one = run(true, 1, &mut |_| parts += 1);
        let wrong: Vec<&Check> = one.iter().filter(|check| !check.pass).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert!(parts > 20 && one.len() > 100);
        assert_eq!(one, run(true, 3, &mut |_| {}));
    }

    #[test]
    fn a_check_that_is_off_fails() {
        let near = |measured| Check::near("x", String::new(), 100.0, measured, 2.0).pass;
        assert!(near(98.1) && near(101.9) && !near(97.9) && !near(102.1) && !near(f64::NAN));
        assert!(!Check::exact("x", String::new(), &1, &2).pass);
        let broken = Job::new("x", "broken", || Err(Trouble("no drive".to_string())));
        assert!(broken.run().iter().all(|check| !check.pass && check.measured == "no drive"));
    }
}
