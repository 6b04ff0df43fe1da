//! The program in a folder of its own, and signals to it.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A folder of one test's own, removed at its end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("varve-study-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }
    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.0.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_varve"));
        command.current_dir(&self.0).args(args);
        command
    }
    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }
    pub fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(code(&output), 0, "{args:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    }
    pub fn fails(&self, args: &[&str], with: i32, said: &str) {
        let output = self.run(args);
        assert_eq!(code(&output), with, "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{args:?}: {}", stderr(&output));
    }
    pub fn start(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }
    /// Names of the files in a folder; none if there is no folder.
    pub fn names(&self, folder: &str) -> BTreeSet<String> {
        let entries = std::fs::read_dir(self.0.join(folder)).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
    /// Ids of the points whose results are in a folder.
    pub fn there(&self, folder: &str) -> BTreeSet<String> {
        let names = self.names(&format!("{folder}/points"));
        names.iter().filter_map(|name| name.strip_suffix(".json")).map(str::to_string).collect()
    }
    pub fn parts(&self, folder: &str) -> Vec<String> {
        let all = self.names(folder).into_iter().chain(self.names(&format!("{folder}/points")));
        all.filter(|name| name.ends_with(".part")).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}
pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
pub fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Waits until something is so.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
