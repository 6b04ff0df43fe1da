//! An image that grows below a program with threads, beside a reader, and on a file system without room.
//! `VARVE_GROW=4000` for so many MiB.

use std::path::Path;
use std::process::Command;

#[test]
fn a_small_image_becomes_a_large_one_below_a_program() {
    let mib = std::env::var("VARVE_GROW").unwrap_or_else(|_| "12".to_string());
    let here = std::env::current_exe().unwrap();
    let library = here.parent().unwrap().join("libvarve_sqlite.so");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = std::env::temp_dir().join(format!("varve-grow-ext-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let output = Command::new("python3")
        .arg(root.join("tests/grow.py"))
        .args([folder.as_os_str(), mib.as_ref()])
        .env("PYTHONPATH", root.join("../../python"))
        .env("VARVE_SQLITE_LIBRARY", &library)
        .env_remove("VARVE_SQLITE_RAM_FOR_TESTS")
        .output()
        .expect("this test needs python3");
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{error}");
    let counts: Vec<u64> = said.split_whitespace().map(|word| word.parse().unwrap()).collect();
    println!(
        "a database of 0.5 MB: an image of {} bytes, {} of them taken; {mib} MiB in {} sizes; full after {} rows",
        counts[0], counts[1], counts[2], counts[3]
    );
    // (A shorter log and fewer spare pages would make it smaller, and writes more: `scripts/store-bytes --table --only new`.)
    assert!(counts[0] < 5 << 20, "{said}");
    assert!(counts[2] > 2 && counts[3] > 100, "{said}");
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        sqlite::image::check(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
