//! Programs that are killed while they commit to an image: what they acknowledged is there, and nothing by
//! halves; with every journal mode, with logs of commits that are soon used up, and while the log is played back.
//!
//! `VARVE_KILLS=1000` for more than the few of every day.

use std::path::Path;
use std::process::Command;

#[test]
fn what_is_acknowledged_survives_the_programs_end_at_any_time() {
    let kills = std::env::var("VARVE_KILLS").unwrap_or_else(|_| "16".to_string());
    let here = std::env::current_exe().unwrap();
    let library = here.parent().unwrap().join("libvarve_sqlite.so");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = std::env::temp_dir().join(format!("varve-kills-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    // The second one begins with an image that grows.
    for seed in ["1", "4"] {
        let output = Command::new("python3")
            .arg(root.join("tests/kills.py"))
            .args([folder.as_os_str(), kills.as_ref(), seed.as_ref()])
            .env("PYTHONPATH", root.join("../../python"))
            .env("VARVE_SQLITE_LIBRARY", &library)
            .env_remove("VARVE_SQLITE_RAM_FOR_TESTS")
            .output()
            .expect("this test needs python3");
        let said = String::from_utf8_lossy(&output.stdout);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}{error}; the images are in {}", folder.display());
        let counts: Vec<u64> = said.split_whitespace().map(|word| word.parse().unwrap()).collect();
        println!(
            "{} kills, {} in an opening, {} commits acknowledged and found",
            counts[0], counts[1], counts[2]
        );
        assert!(counts[2] > counts[0], "{said}");
    }
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "varve") {
            sqlite::image::check(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
