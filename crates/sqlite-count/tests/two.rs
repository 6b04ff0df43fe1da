//! Two SQLites in one process: the system's, which Python's own module uses, and one inside a module
//! of its own, as pysqlite3 brings it. When the library of a store stood before `sqlite3_open*`, the
//! second one's databases were opened by the first, and the process died.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a module does with the SQLite inside it: its calls may be taken by whoever stands before it.
const MODULE: &str = r#"
#include <stddef.h>
typedef struct sqlite3 sqlite3;
int sqlite3_open_v2(const char *, sqlite3 **, int, const char *);
int sqlite3_exec(sqlite3 *, const char *, void *, void *, char **);
int sqlite3_close(sqlite3 *);
const char *sqlite3_libversion(void);
const char *module_version(void) { return sqlite3_libversion(); }
int module_run(const char *name, const char *sql) {
  sqlite3 *db = NULL;
  int done = sqlite3_open_v2(name, &db, 0x46, NULL);
  if (done == 0) done = sqlite3_exec(db, sql, NULL, NULL, NULL);
  sqlite3_close(db);
  return done;
}
"#;

/// Python's `sqlite3` and the module, in turn, on databases of their own.
const PROGRAM: &str = "
import ctypes, sqlite3, sys
if sys.argv[2] == 'store':
    import varve.sqlite
module = ctypes.CDLL(sys.argv[1])
module.module_version.restype = ctypes.c_char_p
assert module.module_version().decode() != sqlite3.sqlite_version
db = sqlite3.connect('system.db', isolation_level=None)
db.execute('CREATE TABLE t(a)')
for n in range(5):
    db.execute('INSERT INTO t VALUES(?)', (n,))
    sql = f'CREATE TABLE IF NOT EXISTS u(a); INSERT INTO u VALUES({n});'
    assert module.module_run(b'module.db', sql.encode()) == 0
if sys.argv[2] == 'store':
    store = sqlite3.connect('file:a.varve?vfs=varve&capacity=4MiB', uri=True, isolation_level=None)
    store.execute('CREATE TABLE t(a)')
    store.execute('INSERT INTO t VALUES(1)')
    assert module.module_run(b'module.db', b'INSERT INTO u VALUES(5);') == 0
    assert store.execute('SELECT count(*) FROM t').fetchone() == (1,)
other = sqlite3.connect('module.db')
print(db.execute('SELECT count(*) FROM t').fetchone()[0],
      other.execute('SELECT count(*) FROM u').fetchone()[0])
";

fn beside(name: &str) -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let path = here.parent().unwrap().join(name);
    assert!(path.is_file(), "{} is not there", path.display());
    path
}

/// A folder of a test's own with the module in it, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("varve-two-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("module.c"), MODULE).unwrap();
        let made = Command::new("cc")
            .args(["-shared", "-fPIC", "-o", "module.so", "module.c", "-Wl,--whole-archive"])
            .arg(archive())
            .args(["-Wl,--no-whole-archive", "-lm", "-lpthread", "-ldl"])
            .current_dir(&path)
            .output()
            .expect("this test needs a C compiler");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The newest SQLite that cargo has built for this project.
fn archive() -> PathBuf {
    assert!(rusqlite::version_number() > 3_000_000);
    let here = std::env::current_exe().unwrap();
    let builds = here.parent().unwrap().parent().unwrap().join("build");
    let when = |path: &Path| path.metadata().and_then(|m| m.modified()).ok();
    std::fs::read_dir(builds)
        .unwrap()
        .map(|entry| entry.unwrap().path().join("out/libsqlite3.a"))
        .filter(|path| path.is_file())
        .max_by_key(|path| when(path))
        .expect("an archive of SQLite")
}

#[test]
fn a_second_sqlite_lives_beside_a_store() {
    let folder = Folder::new("store");
    let output = Command::new("python3")
        .args(["-c", PROGRAM, "./module.so", "store"])
        .current_dir(&folder.0)
        .env("PYTHONPATH", Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python"))
        .env("VARVE_SQLITE_LIBRARY", beside("libvarve_sqlite.so"))
        .output()
        .expect("this test needs python3");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "5 6\n", "{} {said}", output.status);
}

#[test]
fn both_are_counted() {
    let folder = Folder::new("count");
    let module = folder.0.join("module.so");
    let program = format!("import os; os.chdir({:?})\n{PROGRAM}", folder.0.display().to_string());
    let words: Vec<OsString> =
        ["python3".into(), "-c".into(), program.into(), module.into(), "count".into()].into();
    let library = beside("libvarve_sqlite_count.so");
    let watched = sqlite::program::run(&words, Some(&library), true).unwrap();
    assert!(watched.success, "{}", watched.status);
    // A table and five rows each.
    assert_eq!(watched.counts.transactions, 12);
    assert_eq!(watched.processes, 1);
}

#[test]
fn the_library_of_a_store_exports_its_entry_points_only() {
    let output = Command::new("nm")
        .args(["-D", "--defined-only", "--format=posix"])
        .arg(beside("libvarve_sqlite.so"))
        .output()
        .expect("this test needs nm");
    let text = String::from_utf8_lossy(&output.stdout);
    let names: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(
        names,
        [
            "sqlite3_extension_init",
            "sqlite3_varve_default",
            "sqlite3_varvesqlite_init",
            "varve_sqlite_error",
            "varve_sqlite_register"
        ]
    );
}
