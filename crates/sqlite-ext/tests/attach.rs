//! One COMMIT over an image and a file beside it. It was acknowledged, and then lost on the image's side
//! by most power cuts, without an error.

mod python;

#[test]
fn one_commit_over_an_image_and_another_file_is_refused_before_either_commits() {
    let folder = python::folder(&std::env::temp_dir(), "attach");
    let output = python::script("attach").arg(&folder).output().expect("this test needs python3");
    let _ = std::fs::remove_dir_all(&folder);
    let error = String::from_utf8_lossy(&output.stderr);
    // Three pairs of files, three ways to end a journal, two sizes; 41 power cuts of each.
    assert_eq!(String::from_utf8_lossy(&output.stdout), "18 36 738\n", "{error}");
}
