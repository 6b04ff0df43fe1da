//! A program in a box: whatever it starts ends with it, and it ends within its limit.
//!
//! Where the system allows it the box is a process namespace of its own: when its first process is gone the
//! kernel has ended all others, daemons too, and closed their files, before we hear of it. Elsewhere it is a
//! process group, which a daemon can leave: [`Boxes::why_weaker`] says so.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// What is kept of what a program says.
const SAID: usize = 16 << 10;
/// How long what a program said is waited for when it has ended: somebody who left its box may still hold the pipe.
const LINGER: Duration = Duration::from_secs(2);
/// How often a program is looked after.
const LOOK: Duration = Duration::from_micros(500);

/// How a program ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// By itself; 128 and more: by a signal.
    Code(i32),
    /// Its time was over.
    Late,
    /// It was not waited for any longer.
    Stopped,
}

/// What came of a program.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it ended.
    pub ended: Ended,
    /// The end of what it said.
    pub out: String,
    /// The end of what it complained of.
    pub err: String,
}

impl Outcome {
    /// Its last line.
    pub fn last_line(&self) -> Option<&str> {
        self.out.lines().rev().map(str::trim).find(|line| !line.is_empty())
    }

    /// Why it did not do what it should, in words.
    pub fn why(&self) -> String {
        let how = match self.ended {
            Ended::Code(code) if code > 128 => format!("ended by signal {}", code - 128),
            Ended::Code(code) => format!("ended with {code}"),
            Ended::Late => "did not end within its limit".to_string(),
            Ended::Stopped => "was stopped".to_string(),
        };
        let said = self.err.lines().rev().chain(self.out.lines().rev()).map(str::trim);
        match said.into_iter().find(|line| !line.is_empty()) {
            Some(line) => format!("{how}: {line}"),
            None => how,
        }
    }
}

/// The kind of boxes that this machine allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Boxes {
    /// A namespace of processes.
    Namespace,
    /// The same, in a namespace of users, because we are not root.
    UserNamespace,
    /// A process group.
    Group,
}

const ROOT: [&str; 4] = ["unshare", "--pid", "--fork", "--kill-child"];
const USER: [&str; 6] =
    ["unshare", "--user", "--map-current-user", "--pid", "--fork", "--kill-child"];

impl Boxes {
    /// What works here.
    pub fn probe() -> Boxes {
        let works = |words: &[&str]| {
            let mut command = Command::new(words[0]);
            command.args(&words[1..]).arg("true");
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        if works(&ROOT) {
            Boxes::Namespace
        } else if works(&USER) {
            Boxes::UserNamespace
        } else {
            Boxes::Group
        }
    }

    /// What a weaker box cannot do.
    pub fn why_weaker(self) -> Option<&'static str> {
        (self == Boxes::Group).then_some(
            "no namespaces of processes here: a program that becomes a daemon outlives its check",
        )
    }

    fn command(self, words: &[OsString]) -> Command {
        let boxed: &[&str] = match self {
            Boxes::Namespace => &ROOT,
            Boxes::UserNamespace => &USER,
            Boxes::Group => {
                let mut command = Command::new(&words[0]);
                command.args(&words[1..]).process_group(0);
                return command;
            }
        };
        let mut command = Command::new(boxed[0]);
        // The first process of a namespace is deaf to signals that it does not ask for: that is a shell, and
        // the program one of its own.
        command.args(&boxed[1..]).args(["--", "sh", "-c", r#""$@"; exit $?"#, "sh"]).args(words);
        command.process_group(0);
        command
    }

    /// Runs a program until it ends, or is ended. `stop` is asked now and then.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn run(
        self,
        words: &[OsString],
        env: &[(String, OsString)],
        limit: Duration,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<Outcome> {
        let mut command = self.command(words);
        command.envs(env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| named(&words[0], error))?;
        let out = child.stdout.take().map(Tail::of);
        let err = child.stderr.take().map(Tail::of);
        let (status, ended) = self.wait(&mut child, limit, stop)?;
        let until = Instant::now() + LINGER;
        let text = |tail: Option<Tail>| {
            let bytes = tail.map(|tail| tail.end(until)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let code = || status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        let ended = ended.unwrap_or_else(|| Ended::Code(code()));
        Ok(Outcome { ended, out: text(out), err: text(err) })
    }

    /// Runs a program on this terminal until it ends.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn talk(words: &[OsString], env: &[(String, OsString)]) -> io::Result<ExitStatus> {
        let terminal = || std::fs::OpenOptions::new().read(true).write(true).open("/dev/tty");
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).envs(env.iter().map(|(name, value)| (name, value)));
        command.stdin(terminal()?).stdout(terminal()?).stderr(terminal()?);
        command.status().map_err(|error| named(&words[0], error))
    }

    fn wait(
        self,
        child: &mut Child,
        limit: Duration,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<(ExitStatus, Option<Ended>)> {
        let since = Instant::now();
        let mut nap = LOOK;
        let mut ended = None;
        loop {
            if let Some(status) = child.try_wait()? {
                if self == Boxes::Group {
                    // Whoever is left of its group.
                    self.kill(child);
                }
                return Ok((status, ended));
            }
            if ended.is_none() && since.elapsed() > limit {
                ended = Some(Ended::Late);
            } else if ended.is_none() && stop() {
                ended = Some(Ended::Stopped);
            }
            if ended.is_some() {
                self.kill(child);
            }
            std::thread::sleep(nap);
            nap = (nap * 5 / 4).min(Duration::from_millis(5));
        }
    }

    /// Ends a box: its first process, and so all others.
    fn kill(self, child: &Child) {
        let id = child.id();
        let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
        if self != Boxes::Group {
            let told = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
            for first in told.unwrap_or_default().split_whitespace() {
                if let Some(first) = first.parse().ok().and_then(Pid::from_raw) {
                    // It may have ended meanwhile.
                    let _ = kill_process(first, Signal::KILL);
                }
            }
            return;
        }
        if let Some(pid) = pid {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

fn named(word: &OsStr, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", word.to_string_lossy()))
}

/// The end of what somebody says, read by a thread.
struct Tail {
    kept: Arc<Mutex<Vec<u8>>>,
    /// Closed when nobody can say any more.
    over: Receiver<()>,
}

impl Tail {
    /// Reads all.
    fn of(mut from: impl Read + Send + 'static) -> Tail {
        let kept: Arc<Mutex<Vec<u8>>> = Arc::default();
        let (into, (tell, over)) = (Arc::clone(&kept), channel());
        std::thread::spawn(move || {
            let _open: Sender<()> = tell;
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut piece) {
                let mut kept = into.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&piece[..count]);
                if kept.len() > 2 * SAID {
                    let more = kept.len() - SAID;
                    kept.drain(..more);
                }
            }
        });
        Tail { kept, over }
    }

    /// What was said, when nobody can say more. Whoever left the box holds the pipe for as long as it likes: it is not
    /// listened to for longer than `until`.
    fn end(self, until: Instant) -> Vec<u8> {
        let _ = self.over.recv_timeout(until.saturating_duration_since(Instant::now()));
        std::mem::take(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, limit: Duration) -> Outcome {
        let words = ["sh", "-c", script].map(OsString::from);
        Boxes::probe().run(&words, &[], limit, &|| false).unwrap()
    }

    #[test]
    fn how_it_ended_and_what_it_said() {
        let long = Duration::from_secs(20);
        let out = run("echo one; echo two; echo; exit 3", long);
        assert_eq!((out.ended, out.last_line()), (Ended::Code(3), Some("two")));
        assert_eq!(run("kill -KILL $$", long).ended, Ended::Code(137));
        assert!(run("echo no >&2; exit 2", long).why().contains("ended with 2: no"));
        let out = run("yes | head -c 1000000; echo last", long);
        assert_eq!(out.last_line(), Some("last"));
        assert!(out.out.len() <= 2 * SAID);
    }

    #[test]
    fn who_leaves_a_group_is_not_waited_for() {
        let since = Instant::now();
        let words = ["sh", "-c", "setsid sleep 30 & echo gone"].map(OsString::from);
        let out = Boxes::Group.run(&words, &[], Duration::from_secs(20), &|| false).unwrap();
        assert_eq!((out.ended, out.last_line()), (Ended::Code(0), Some("gone")));
        assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    }

    #[test]
    fn what_it_starts_ends_with_it() {
        if Boxes::probe() == Boxes::Group {
            return;
        }
        let folder = std::env::temp_dir().join(format!("varve-box-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mark = folder.join("alive");
        let script = format!(
            "(setsid sh -c 'while :; do date >{0}; sleep 0.01; done' &) ; \
             while [ ! -e {0} ]; do sleep 0.01; done; exec sleep 1000",
            mark.display()
        );
        assert_eq!(run(&script, Duration::from_millis(700)).ended, Ended::Late);
        let _ = std::fs::remove_file(&mark);
        std::thread::sleep(Duration::from_millis(100));
        assert!(!mark.exists(), "a daemon outlived its box");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
