//! `varve serve nvme-tcp` and `varve conformance nvme-tcp://..` as a user has them.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

fn varve(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_varve")).args(arguments).output().expect("varve runs")
}

fn text(output: &Output) -> String {
    let of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    of(&output.stdout) + &of(&output.stderr)
}

/// A server that runs, and what it said of itself.
struct Served {
    child: Child,
    control: PathBuf,
    said: Vec<String>,
}

impl Served {
    fn start(name: &str, lines: usize, options: &[&str]) -> Served {
        let control = std::env::temp_dir().join(format!("varve-{name}-{}", std::process::id()));
        let mut command = Command::new(env!("CARGO_BIN_EXE_varve"));
        command.args(["serve", "nvme-tcp", "--listen", "127.0.0.1:0", "--control"]).arg(&control);
        let mut child = command.args(options).stdout(Stdio::piped()).spawn().expect("varve runs");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        let said = out.lines().take(lines).map(|line| line.expect("a line")).collect();
        Served { child, control, said }
    }

    fn ask(&self, words: &[&str]) -> serde_json::Value {
        let control = self.control.to_str().expect("text");
        let output = varve(&[&["ctl", control], words].concat());
        assert!(output.status.success(), "{}", text(&output));
        serde_json::from_slice(&output.stdout).expect("a document")
    }

    fn conformance(&self, uri: &str) -> serde_json::Value {
        let control = self.control.to_str().expect("text");
        let output = varve(&["conformance", uri, "--control", control, "--json"]);
        assert!(output.status.success(), "{}", text(&output));
        serde_json::from_slice(&output.stdout).expect("one document")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It has ended already, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.control);
    }
}

fn passed(document: &serde_json::Value) -> Vec<u64> {
    let lines = document["results"].as_array().expect("lines").iter();
    let passed = lines.filter(|line| line["verdict"] == "pass");
    passed.map(|line| line["number"].as_u64().expect("a number")).collect()
}

#[test]
fn a_drive_says_what_it_can_and_keeps_it_over_the_wire() {
    let drive = "drive(mqsim-default, geometry.blocks=0, capacity=40 MiB, geometry.channels=2, \
                 geometry.dies=1, line=plane, op=80 %, unit=4 KiB, nand.oob=full, map.mode=full, tx.mode=nolog)";
    let options = ["--stack", drive, "--export", "scratch=ram(40MiB)", "--digest", "require"];
    let served = Served::start("nvme-plain", 5, &options);
    let uri = &served.said[0];
    assert!(uri.starts_with("nvme-tcp://127.0.0.1:"), "{:?}", served.said);
    assert!(served.said[1].contains("1 disk: 10240 blocks of 4096 bytes"), "{:?}", served.said);
    assert!(served.said[1].contains("transactions") && served.said[3].starts_with("2 scratch"));
    // Digests are wanted, and a host of the checks brings none.
    let bare = varve(&["conformance", uri]);
    assert!(!bare.status.success() && text(&bare).contains("reason 6"), "{}", text(&bare));
    assert_eq!(served.ask(&["stats"])["server"]["terminated"], 1);
}

#[test]
fn the_checks_pass_by_name_and_by_what_the_address_tells() {
    let served = Served::start("nvme-checks", 3, &["--ram", "40MiB", "--cut-seed", "3"]);
    let whole = served.said[0].clone();
    // No block status (2, 9), no command of 32 MiB (11), it may be written (13), nobody restarts it (18).
    let all: Vec<u64> = (1..=18).filter(|n| ![2, 9, 11, 13, 18].contains(n)).collect();
    assert_eq!(passed(&served.conformance(&whole)), all);
    let stats = served.ask(&["stats"]);
    assert!(
        stats["server"]["forced"].as_u64() > Some(0) && stats["power"]["cuts"].as_u64() > Some(200)
    );
    let place = whole.rsplit_once('/').expect("a name").0;
    assert!(passed(&served.conformance(place)).contains(&17));
    let missing = varve(&["conformance", &format!("{whole}?nsid=7")]);
    assert!(text(&missing).contains("has no namespace 7"), "{}", text(&missing));
    served.ask(&["quit"]);
}

const SECRETS: [&str; 2] = [
    "DHHC-1:00:aABrxn14+/t08ay1kONmRV0i6Hyy7pIKRFg49C/RKYXsE8aE:",
    "DHHC-1:01:gkB8E7oiMHc9iq+02Gw2OPefK8Yb9Wxj8wmuroQiT75PEHUJ:",
];

/// A file of secrets, for the time of a test.
struct SecretFile(PathBuf);

impl SecretFile {
    fn of(name: &str, text: &str) -> SecretFile {
        let path = std::env::temp_dir().join(format!("varve-{name}-{}", std::process::id()));
        std::fs::write(&path, text).expect("written");
        SecretFile(path)
    }
    fn name(&self) -> &str {
        self.0.to_str().expect("text")
    }
}

impl Drop for SecretFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn only_who_knows_the_secret_is_let_in() {
    let [own, controller] = SECRETS;
    let both = SecretFile::of("both", &format!("{own}\ncontroller {controller}\n"));
    let other = SecretFile::of("other", controller);
    let options = ["--ram", "40MiB", "--secret", both.name(), "--listen-any"];
    let served = Served::start("nvme-secret", 3, &options);
    let uri = &served.said[0];
    let tried = |secret: &[&str]| varve(&[&["conformance", uri], secret].concat());
    let bare = tried(&[]);
    assert!(text(&bare).contains("asks for a secret, and none was given"), "{}", text(&bare));
    let wrong = tried(&["--secret", other.name()]);
    assert!(text(&wrong).contains("another secret, or another name"), "{}", text(&wrong));
    assert!(!bare.status.success() && !wrong.status.success());
    let right = tried(&["--secret", both.name()]);
    assert!(right.status.success() && text(&right).contains("17 pass"), "{}", text(&right));
    assert!(served.ask(&["stats"])["server"]["authenticated"].as_u64() > Some(20));
}

/// A VFS of stores in this process.
fn register(name: &str) {
    use rusqlite::ffi;
    let stores = varve_sqlite_vfs::Stores::new();
    let api = varve_sqlite_vfs::Api::new(
        ffi::sqlite3_vfs_find,
        ffi::sqlite3_vfs_register,
        ffi::sqlite3_uri_parameter,
        ffi::sqlite3_malloc,
        ffi::sqlite3_log,
    );
    stores.register(&api, name, false, None).expect("registered");
}

#[test]
fn a_store_in_a_namespace_is_checked_and_exported_as_one_in_an_image() {
    use rusqlite::{Connection, OpenFlags};
    let [own, _] = SECRETS;
    let secret = SecretFile::of("kept", own);
    let drive = "drive(mqsim-default, geometry.blocks=0, capacity=40 MiB, geometry.channels=2, \
                 geometry.dies=1, line=plane, op=80 %, unit=4 KiB, nand.oob=full, map.mode=full, tx.mode=nolog)";
    let served = Served::start("nvme-kept", 3, &["--stack", drive, "--secret", secret.name()]);
    let place = served.said[0].as_str();
    let sqlite = |words: &[&str]| varve(&[&["sqlite"], words].concat());
    let at = ["--secret", secret.name()];
    let kept = |what: &str| sqlite(&[what, place, at[0], at[1]]);
    let out = std::env::temp_dir().join(format!("varve-kept-{}.db", std::process::id()));
    let to = out.to_str().expect("text");
    let export = |more: &[&str]| sqlite(&[&["export", place, to, at[0], at[1]], more].concat());
    let says = |output: Output, code: i32, why: &str| {
        assert!(text(&output).contains(why), "{why}: {}", text(&output));
        assert_eq!(output.status.code(), Some(code), "{}", text(&output));
    };
    // It does not become a store by being looked at.
    says(kept("check"), 3, "the device holds no store");
    says(kept("check"), 3, "the device holds no store");
    says(sqlite(&["check", place]), 1, "asks for a secret, and none was given");
    register("kept");
    let uri = |name: &str| format!("file:/{name}?vfs=kept&device={place}&secret={}", secret.name());
    let one = Connection::open_with_flags(uri("one.db"), OpenFlags::default()).expect("opened");
    one.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (7)").expect("written");
    // One process has it.
    says(kept("check"), 1, "a store serves one process at a time");
    drop(one);
    says(kept("check"), 0, "the drive is its server's; databases intact: one.db (8192 bytes)");
    says(export(&[]), 0, "8192 bytes in pages of 4096, verified");
    let read = |sql: &str| -> i64 {
        let copy = Connection::open(&out).expect("a database");
        copy.query_row(sql, [], |row| row.get(0)).expect("a row")
    };
    assert_eq!(read("SELECT a FROM t"), 7);
    says(export(&[]), 2, "exists already");
    std::fs::remove_file(&out).expect("removed");
    // Of several the one that is named.
    let two = Connection::open_with_flags(uri("two.db"), OpenFlags::default()).expect("opened");
    two.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (8)").expect("written");
    drop(two);
    says(export(&[]), 3, "found databases [one.db, two.db], expected `main`, or a name of one");
    says(export(&["--name", "three.db"]), 3, "expected three.db");
    says(export(&["--name", "two.db"]), 0, "verified");
    assert_eq!(read("SELECT a FROM t"), 8);
    std::fs::remove_file(&out).expect("removed");
    for (words, code, why) in [
        (&["resize", place, "--capacity", "1GiB"][..], 3, "it cannot be resized over the wire"),
        (&["check", place, "--crash", "3"], 3, "cut the power of a copy of an image"),
        (&["backup", place, to], 3, "exported one by one"),
        (&["backup", to, place], 3, "expected an image to make"),
        (&["import", to, place], 3, "is filled by SQL"),
        (&["check", to, "--secret", secret.name()], 3, "only nvme-tcp:// has secrets"),
        (&["check", "nvme-tcp://127.0.0.1:1"], 1, "nvme-tcp://127.0.0.1:1: the connection failed"),
        (&["check", "nvme-tcp://127.0.0.1:1?nsid=x"], 3, "expected a number"),
    ] {
        says(sqlite(words), code, why);
    }
}

/// A store has all of its namespace, and after its image was made larger while nobody served it all of that.
#[test]
fn a_store_grows_with_the_image_that_is_served() {
    use rusqlite::{Connection, OpenFlags};
    let image = std::env::temp_dir().join(format!("varve-grown-{}.img", std::process::id()));
    let _ = std::fs::remove_file(&image);
    let file = image.to_str().expect("text");
    register("grown");
    let serve = |more: &[&str]| {
        Served::start("nvme-grown", 3, &[&["--ssd", "image", "--image", file], more].concat())
    };
    let holds = |served: &Served, size: &str| {
        let checked = varve(&["sqlite", "check", &served.said[0]]);
        let said = format!("holds {size}; the drive is its server's; databases intact: a.db");
        assert!(text(&checked).contains(&said), "{}", text(&checked));
    };
    let uri = |served: &Served| format!("file:/a.db?vfs=grown&device={}", served.said[0]);
    let open = |served: &Served| {
        Connection::open_with_flags(uri(served), OpenFlags::default()).expect("opened")
    };
    // More than it holds: said, and nothing of it is there.
    let fill = "INSERT INTO t SELECT randomblob(1000000) FROM (VALUES (1),(2),(3),(4),(5),(6)) a, \
                (VALUES (1),(2),(3),(4),(5),(6)) b";
    let served = serve(&["--size", "32MiB"]);
    let db = open(&served);
    db.execute_batch("CREATE TABLE t(a)").expect("written");
    let full = db.execute_batch(fill).expect_err("36 MB do not fit").to_string();
    assert!(full.contains("full"), "{full}");
    drop(db);
    holds(&served, "32 MiB");
    served.ask(&["quit"]);
    drop(served);
    let resized = varve(&["sqlite", "resize", file, "--capacity", "128MiB"]);
    assert!(resized.status.success(), "{}", text(&resized));
    let served = serve(&[]);
    holds(&served, "128 MiB");
    let db = open(&served);
    db.execute_batch(fill).expect("there is room");
    drop(db);
    holds(&served, "128 MiB");
    served.ask(&["quit"]);
    drop(served);
    std::fs::remove_file(&image).expect("removed");
}

#[test]
fn what_cannot_be_is_said() {
    let words = SecretFile::of("words", "this is none");
    for (options, why) in [
        (&["--ram", "4MiB", "--listen", "0.0.0.0:0"][..], "--listen-any"),
        (&["--ram", "4MiB", "--listen", "0.0.0.0:0", "--listen-any"], "--host-nqn"),
        (&["--ram", "4MiB", "--listen", "0.0.0.0:0", "--listen-any"], "--secret"),
        (&["--ram", "4MiB", "--secret", "/nowhere/secrets"], "/nowhere/secrets"),
        (&["--ram", "4MiB", "--secret", words.name()], ":1: 3 words"),
        (&["--ram", "4MiB", "--mdts", "100KiB"], "a power of two"),
        (&["--ram", "4MiB", "--in-capsule", "1KiB"], "4 KiB to 512 KiB"),
        (&["--ram", "4MiB", "--nqn", "disk"], "begins with `nqn.`"),
        (&["--ram", "4MiB", "--export", "ram(4MiB)"], "NAME=STACK"),
        (&["--ram", "4MiB", "--export", "disk=ram(4MiB)"], "there is a namespace disk"),
        (&["--ram", "4MiB", "--export", "x=rom(4MiB)"], "rom"),
    ] {
        let listen: &[&str] =
            if options.contains(&"--listen") { &[] } else { &["--listen", "127.0.0.1:0"] };
        let output = varve(&[&["serve", "nvme-tcp"], listen, options].concat());
        assert!(!output.status.success() && text(&output).contains(why), "{}", text(&output));
    }
    let wrong = varve(&["conformance", "nvme-tcp://127.0.0.1:1/x?nsid=one"]);
    assert!(text(&wrong).contains("expected a number"), "{}", text(&wrong));
    let (two, one) =
        (SECRETS.map(|secret| format!("nqn.a:{} {secret}", &secret[7..9])), SECRETS[0]);
    let several = SecretFile::of("several", &two.join("\n"));
    let single = SecretFile::of("single", one);
    for (target, secret, why) in [
        ("nvme-tcp://127.0.0.1:1", &several, "secrets of several hosts"),
        ("nbd://127.0.0.1:1", &single, "only nvme-tcp:// has secrets"),
    ] {
        let wrong = varve(&["conformance", target, "--secret", secret.name()]);
        assert!(text(&wrong).contains(why), "{}", text(&wrong));
    }
}
