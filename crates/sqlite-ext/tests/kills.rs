//! Programs that are killed while they commit to an image: what they acknowledged is there, and nothing by
//! halves; with every journal mode, with logs of commits that are soon used up, and while the log is played back.
//!
//! `VARVE_KILLS=1000` for more than the few of every day.

mod python;

#[test]
fn what_is_acknowledged_survives_the_programs_end_at_any_time() {
    let kills = std::env::var("VARVE_KILLS").unwrap_or_else(|_| "16".to_string());
    let folder = python::folder(&std::env::temp_dir(), "kills");
    // The second one begins with an image that grows.
    for seed in ["1", "4"] {
        let output = python::script("kills")
            .args([folder.as_os_str(), kills.as_ref(), seed.as_ref()])
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
