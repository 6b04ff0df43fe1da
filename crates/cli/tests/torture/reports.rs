//! What a server of tests reads: JUnit, and pytest's fixture.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::place::{CHECK, Folder, PROGRAM, nothing_is_left, torture};

pub fn a_ci_server_reads_what_came_out() {
    let folder = Folder::new();
    let check = "echo 'lost <&\">'; exit 1";
    let options = ["--fs", "lfs", "--random", "2", "--junit", "it.xml", "--check", check, "--"];
    let (code, _) = torture(&folder, &[&options[..], &["sh", "-c", PROGRAM, "NO"]].concat());
    assert_eq!(code, 4);
    let text = fs::read_to_string(folder.path("it.xml")).unwrap();
    assert!(text.contains("tests=\"2\" failures=\"2\" errors=\"0\""), "{text}");
    assert!(text.contains("lost &lt;&amp;&quot;&gt;\"/></testcase>"), "{text}");
    let options = ["--fs", "lfs", "--random", "2", "--junit", "it.xml", "--check", "exit 9", "--"];
    let (code, _) = torture(&folder, &[&options[..], &["sh", "-c", PROGRAM, "NO"]].concat());
    assert_eq!(code, 1);
    let text = fs::read_to_string(folder.path("it.xml")).unwrap();
    assert!(text.contains("failures=\"0\" errors=\"1\""), "{text}");
    assert!(text.contains("<error message=\"harness broken: "), "{text}");
}

pub fn a_test_of_pytest_fails_with_the_report() {
    let folder = Folder::new();
    fs::write(folder.path("program.sh"), PROGRAM.replace("$0", "$1")).unwrap();
    fs::write(folder.path("check.sh"), CHECK).unwrap();
    let tests = "
def test_careful(varve_torture):
    result = varve_torture(['sh', 'program.sh', 'SYNC'], check='sh check.sh', random=5)
    assert result.verdict == 'kept'
def test_careless(varve_torture):
    varve_torture(['sh', 'program.sh', 'NO'], check='sh check.sh', random=5)
def test_elsewhere(varve_torture, monkeypatch):
    monkeypatch.setenv('VARVE', '/nowhere/varve')
    varve_torture(['true'])
";
    fs::write(folder.path("test_it.py"), tests).unwrap();
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
    let mut command = Command::new("python3");
    command.args(["-m", "pytest", "-p", "varve.torture", "-p", "no:cacheprovider", "-rs", "-v"]);
    command.arg("test_it.py").current_dir(&folder.0).env("TMPDIR", &folder.0);
    command.env("PYTHONPATH", python).env("PYTHONDONTWRITEBYTECODE", "1");
    let out = command.env("VARVE", env!("CARGO_BIN_EXE_varve")).output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(said.contains("1 failed, 1 passed, 1 skipped"), "{said}");
    assert!(said.contains("an fsync of the folder /d is missing"), "{said}");
    assert!(said.contains("/nowhere/varve: No such file"), "{said}");
    nothing_is_left(&folder);
}
