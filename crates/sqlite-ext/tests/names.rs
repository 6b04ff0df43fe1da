//! What a name means. A database that was replaced or removed while it was open was still found by its name: commits of new
//! connections went to a file that nobody finds, and were acknowledged. And what was no file was removed.

mod python;

#[test]
fn a_name_means_the_file_that_has_it_and_nothing_else_is_touched() {
    let folder = python::folder(&std::env::temp_dir(), "names");
    let output = python::script("names").arg(&folder).output().expect("this test needs python3");
    let _ = std::fs::remove_dir_all(&folder);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n", "{error}");
}
