//! Processes that write one image in turns: SQLite's busy timeout is the time that one waits for another to let go of it.
//! An image in use was refused when it was opened, whatever the timeout.

mod python;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A program under test, by its lines.
struct Talk {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Talk {
    fn start(command: &mut Command) -> Talk {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.env_remove("VARVE_SQLITE_RAM_FOR_TESTS").spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Talk { child, to, from: BufReader::new(from) }
    }
    fn say(&mut self, text: &str) {
        self.to.write_all(text.as_bytes()).unwrap();
        self.to.flush().unwrap();
    }
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        line.trim_end().to_string()
    }
    /// What else it said, on both ways.
    fn end(mut self) -> (String, String) {
        drop(self.to);
        let mut said = String::new();
        self.from.read_to_string(&mut said).unwrap();
        let output = self.child.wait_with_output().unwrap();
        let wrong = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}{wrong}");
        (said, wrong)
    }
}

fn talk(arguments: &[&str]) -> Talk {
    Talk::start(python::script("turns").args(arguments))
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("varve-turns-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn the_shell_waits_as_long_as_its_timeout_says() {
    let folder = folder("shell");
    let image = folder.join("home.varve").display().to_string();
    let mut holder = talk(&["hold", &image]);
    let ready = holder.line();
    let process = ready.strip_prefix("ready ").unwrap_or_else(|| panic!("{ready}")).to_string();
    let mut shell = Talk::start(Command::new("sqlite3").arg("-batch"));
    let open = format!(".open file:{image}?vfs=varve\n");
    shell.say(&format!(".load {}\n.log stderr\n{open}", python::library().display()));
    shell.say("INSERT INTO t VALUES(7, 7);\nPRAGMA varve_error;\n");
    let reason = format!("in use by another process, {process}");
    let said = shell.line();
    assert!(said.contains(&reason), "{said}");
    // From here on it waits.
    shell.say(".timeout 120000\n.print waits\nINSERT INTO t VALUES(8, 8);\n");
    shell.say("SELECT group_concat(who) FROM t;\n");
    assert_eq!(shell.line(), "waits");
    holder.say("\n");
    holder.end();
    assert_eq!(shell.line(), "-1,8");
    // (It fails in the end, for the statement that did.)
    drop(shell.to);
    let wrong = shell.child.wait_with_output().unwrap().stderr;
    let wrong = String::from_utf8_lossy(&wrong);
    // The log hears of it when that is new, not for each attempt.
    assert!(wrong.lines().any(|line| line.contains(&reason)), "{wrong}");
    assert!(wrong.lines().filter(|line| line.contains(&reason)).count() <= 4, "{wrong}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn who_has_no_patience_is_told_at_once_and_may_come_again() {
    let folder = folder("none");
    let image = folder.join("home.varve").display().to_string();
    let mut holder = talk(&["hold", &image]);
    let ready = holder.line();
    let process = ready.strip_prefix("ready ").unwrap_or_else(|| panic!("{ready}")).to_string();
    let mut other = talk(&["none", &image]);
    for _ in 0..2 {
        let said = other.line();
        assert!(said.starts_with("database is locked: "), "{said}");
        assert!(said.contains(&format!("in use by another process, {process}")), "{said}");
    }
    let forked = other.line();
    assert!(forked.contains("disk I/O error") && forked.contains("across fork"), "{forked}");
    holder.say("\n");
    holder.end();
    other.say("\n");
    assert_eq!(other.line(), "1");
    other.end();
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn processes_take_turns_from_the_first_that_makes_the_image() {
    let folder = folder("python");
    let image = folder.join("home.varve").display().to_string();
    let (processes, rounds) = (4, 12);
    let all: Vec<Talk> = (0..processes)
        .map(|who| talk(&["take", &image, &who.to_string(), &rounds.to_string()]))
        .collect();
    let mut told = BTreeSet::new();
    for process in all {
        told.extend(process.end().0.lines().map(|line| line.replace(' ', "|")));
    }
    assert_eq!(told.len(), processes * rounds);
    let mut shell = Talk::start(Command::new("sqlite3").arg("-batch"));
    shell.say(&format!(".load {}\n.open file:{image}?vfs=varve\n", python::library().display()));
    shell.say("SELECT who, n FROM t;\n");
    let found: BTreeSet<String> = shell.end().0.lines().map(str::to_string).collect();
    assert_eq!(found, told);
    sqlite::image::check(Path::new(&image)).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
}
