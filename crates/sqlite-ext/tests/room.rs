//! A file system without room for a larger image keeps the room that it has. The growth that failed filled it to the last
//! byte, for good.

use std::path::Path;
use std::process::Command;

#[test]
fn what_a_growth_that_failed_took_is_given_back() {
    let here = std::env::current_exe().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Where room is taken by writing, and not all or nothing at once.
    let memory = Path::new("/dev/shm");
    let top = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    let folder = top.join(format!("varve-room-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let output = Command::new("python3")
        .arg(root.join("tests/room.py"))
        .arg(&folder)
        .env("PYTHONPATH", root.join("../../python"))
        .env("VARVE_SQLITE_LIBRARY", here.parent().unwrap().join("libvarve_sqlite.so"))
        .env_remove("VARVE_SQLITE_RAM_FOR_TESTS")
        .output()
        .expect("this test needs python3");
    let checked = sqlite::image::check(&folder.join("a.varve"));
    let _ = std::fs::remove_dir_all(&folder);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n", "{error}");
    checked.unwrap();
}
