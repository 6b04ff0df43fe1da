//! What a name means. A database that was replaced or removed while it was open was still found by its name: commits of new
//! connections went to a file that nobody finds, and were acknowledged. And what was no file was removed.

use std::path::Path;
use std::process::Command;

#[test]
fn a_name_means_the_file_that_has_it_and_nothing_else_is_touched() {
    let here = std::env::current_exe().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = std::env::temp_dir().join(format!("varve-names-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let output = Command::new("python3")
        .arg(root.join("tests/names.py"))
        .arg(&folder)
        .env("PYTHONPATH", root.join("../../python"))
        .env("VARVE_SQLITE_LIBRARY", here.parent().unwrap().join("libvarve_sqlite.so"))
        .env_remove("VARVE_SQLITE_RAM_FOR_TESTS")
        .output()
        .expect("this test needs python3");
    let _ = std::fs::remove_dir_all(&folder);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n", "{error}");
}
