//! A file system without room for a larger image keeps the room that it has. The growth that failed filled it to the last
//! byte, for good.

mod python;

use std::path::Path;

#[test]
fn what_a_growth_that_failed_took_is_given_back() {
    // Where room is taken by writing, and not all or nothing at once.
    let memory = Path::new("/dev/shm");
    let top = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    let folder = python::folder(&top, "room");
    let output = python::script("room").arg(&folder).output().expect("this test needs python3");
    let checked = sqlite::image::check(&folder.join("a.varve"));
    let _ = std::fs::remove_dir_all(&folder);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n", "{error}");
    checked.unwrap();
}
