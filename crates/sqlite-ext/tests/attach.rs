//! One COMMIT over an image and a file beside it. It was acknowledged, and then lost on the image's side
//! by most power cuts, without an error.

use std::path::Path;
use std::process::Command;

#[test]
fn one_commit_over_an_image_and_another_file_is_refused_before_either_commits() {
    let here = std::env::current_exe().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = std::env::temp_dir().join(format!("varve-attach-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let output = Command::new("python3")
        .arg(root.join("tests/attach.py"))
        .arg(&folder)
        .env("PYTHONPATH", root.join("../../python"))
        .env("VARVE_SQLITE_LIBRARY", here.parent().unwrap().join("libvarve_sqlite.so"))
        .env_remove("VARVE_SQLITE_RAM_FOR_TESTS")
        .output()
        .expect("this test needs python3");
    let _ = std::fs::remove_dir_all(&folder);
    let error = String::from_utf8_lossy(&output.stderr);
    // Three pairs of files, three ways to end a journal, two sizes; 41 power cuts of each.
    assert_eq!(String::from_utf8_lossy(&output.stdout), "18 36 738\n", "{error}");
}
