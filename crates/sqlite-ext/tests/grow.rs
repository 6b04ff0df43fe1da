//! An image that grows below a program with threads, beside a reader, and on a file system without room.
//! `VARVE_GROW=4000` for so many MiB.

mod python;

#[test]
fn a_small_image_becomes_a_large_one_below_a_program() {
    let mib = std::env::var("VARVE_GROW").unwrap_or_else(|_| "12".to_string());
    let folder = python::folder(&std::env::temp_dir(), "grow-ext");
    let output = python::script("grow")
        .args([folder.as_os_str(), mib.as_ref()])
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
