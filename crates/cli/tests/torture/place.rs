//! A folder of a test, the program in it, and that nothing of it is left.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("varve-tortured-{}-{n}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs the program with its temporary files in a folder of this test.
pub fn varve(folder: &Folder, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_varve"));
    command.args(args).env("TMPDIR", &folder.0).current_dir(&folder.0).output().unwrap()
}

/// Runs a crash test; the exit code and the document.
pub fn torture(folder: &Folder, args: &[&str]) -> (i32, Value) {
    let out = varve(folder, &[&["torture", "--json"], args].concat());
    let text = String::from_utf8_lossy(&out.stdout);
    let value = serde_json::from_str(&text);
    let value =
        value.unwrap_or_else(|e| panic!("{e}: {text}{}", String::from_utf8_lossy(&out.stderr)));
    (out.status.code().unwrap(), value)
}

/// A file for each promise; with `SYNC` both it and its folder are made durable first.
pub const PROGRAM: &str = r#"
mkdir "$VARVE_DIR/d"; echo ready >"$VARVE_ACK"
for i in 1 2 3 4; do
  echo "begin $i" >"$VARVE_ACK"
  echo "$i" >"$VARVE_DIR/d/$i"
  if [ "$0" = SYNC ]; then sync "$VARVE_DIR/d/$i" "$VARVE_DIR/d"; fi
  echo "$i" >"$VARVE_ACK"
done"#;
pub const CHECK: &str = r#"
lost=; while read -r i; do [ "$(cat "$VARVE_DIR/d/$i" 2>/dev/null)" = "$i" ] || lost="$lost $i"; done <"$VARVE_ACKED"
[ -z "$lost" ] || { echo "lost:$lost"; exit 1; }"#;

/// Every process of which a file or a variable is in the folder.
fn processes_in(place: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let path = entry.path();
        if path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok())
            == Some(std::process::id())
        {
            continue;
        }
        let read = |name: &str| fs::read(path.join(name)).unwrap_or_default();
        let told = [read("environ"), read("cmdline"), read("maps")].concat();
        if String::from_utf8_lossy(&told).contains(place) {
            found.push(String::from_utf8_lossy(&read("cmdline")).replace('\0', " "));
        }
    }
    found
}

pub fn nothing_is_left(folder: &Folder) {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let place = folder.0.display().to_string();
    assert_eq!(processes_in(&place), Vec::<String>::new());
    assert!(!mounts.contains(&place), "{mounts}");
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let file = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        assert!(!file.contains(&place), "{file}");
    }
    let left: Vec<_> = fs::read_dir(&folder.0).unwrap().flatten().map(|e| e.file_name()).collect();
    assert!(
        !left.iter().any(|name| name.to_string_lossy().starts_with("varve-torture-")),
        "{left:?}"
    );
}
