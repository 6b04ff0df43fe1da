//! A program that commits to an image, and others that read it meanwhile: a connection of another process, the
//! `sqlite3` shell, `check` and `export`. Each sees one state of it, each time a later one, and nothing of them reaches
//! the image; also where the writer comes and goes with transactions that outgrow its drive, and is killed in one.
//! `VARVE_BESIDE=600` for so many seconds.

mod python;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

fn started(what: &str, image: &Path, seconds: &str) -> Child {
    python::script("beside")
        .args([what.as_ref(), image.as_os_str(), seconds.as_ref()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("this test needs python3")
}

fn ended(child: Child, who: &str) -> String {
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{who}: {said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// What the shell says of the counter and of halves.
fn shell(image: &Path) -> (u64, String) {
    let mut child = Command::new("sqlite3")
        .arg("-batch")
        .env_remove("VARVE_SQLITE_RAM_FOR_TESTS")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("this test needs the sqlite3 shell");
    let script = format!(
        ".load {}\n.timeout 5000\n.open file:{}?vfs=varve&mode=ro\nBEGIN; SELECT v FROM c;\n\
         SELECT count(*) FROM a JOIN b USING (k) WHERE a.v IS NOT b.v;\nCOMMIT;\n",
        python::library().display(),
        image.display()
    );
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let said = ended(child, "sqlite3");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    (lines[0].parse().unwrap(), lines[1].to_string())
}

/// The same of a file that was exported.
fn exported(image: &Path, to: &Path) -> (u64, String) {
    let _ = std::fs::remove_file(to);
    sqlite::image::export(image, to).unwrap();
    let db = Connection::open_with_flags(to, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let ask = |sql: &str| db.query_row(sql, [], |row| row.get::<_, u64>(0)).unwrap();
    let halves = ask("SELECT count(*) FROM a JOIN b USING (k) WHERE a.v IS NOT b.v");
    (ask("SELECT v FROM c"), halves.to_string())
}

fn seconds() -> String {
    std::env::var("VARVE_BESIDE").unwrap_or_else(|_| "4".to_string())
}

fn folder(of: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("varve-beside-{of}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Starts a program that writes, up to where it says `word`.
fn writing(what: &str, image: &Path, seconds: &str, word: &str) -> (Child, impl Read + use<>) {
    let mut writer = started(what, image, seconds);
    let mut said = BufReader::new(writer.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    if line.trim() != word {
        ended(writer, what);
        panic!("{line}");
    }
    (writer, said)
}

/// Generations of the rows in a file or a store.
fn generations(db: &Connection) -> rusqlite::Result<(u64, u64, u64)> {
    let ask = "SELECT count(*), min(n), max(n) FROM t";
    db.query_row(ask, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
}

/// The same of what `export` and `backup` make, and `check` finds it sound.
fn copied(image: &Path, folder: &Path) -> [(u64, u64, u64); 2] {
    let (database, copy) = (folder.join("out.db"), folder.join("copy.varve"));
    let _ = (std::fs::remove_file(&database), std::fs::remove_file(&copy));
    sqlite::image::check(image).unwrap();
    sqlite::image::export(image, &database).unwrap();
    sqlite::image::backup(image, &copy).unwrap();
    let again = folder.join("again.db");
    let _ = std::fs::remove_file(&again);
    sqlite::image::export(&copy, &again).unwrap();
    [database, again].map(|path| generations(&Connection::open(path).unwrap()).unwrap())
}

#[test]
fn readers_beside_a_writer_see_one_state_each_time_a_later_one() {
    let (seconds, folder) = (seconds(), folder("small"));
    let image = folder.join("home.varve");
    let (writer, mut said) = writing("write", &image, &seconds, "ready");
    let mut line = String::new();
    let reader = started("read", &image, &seconds);
    let end = Instant::now() + Duration::from_secs_f64(seconds.parse().unwrap());
    let (mut last, mut looks, mut longest) = (0, 0, Duration::ZERO);
    while Instant::now() < end {
        let looking: [&dyn Fn() -> (u64, String); 4] = [
            &|| {
                let copy = folder.join("copy.varve");
                let _ = std::fs::remove_file(&copy);
                sqlite::image::backup(&image, &copy).unwrap();
                shell(&copy)
            },
            &|| shell(&image),
            &|| exported(&image, &folder.join("out.db")),
            &|| {
                sqlite::image::check(&image).unwrap();
                (u64::MAX, "0".to_string())
            },
        ];
        for look in looking {
            let start = Instant::now();
            let (v, halves) = look();
            longest = longest.max(start.elapsed());
            assert_eq!(halves, "0");
            assert!(v >= last, "{v} after {last}");
            last = if v == u64::MAX { last } else { v };
            looks += 1;
        }
    }
    let read = ended(reader, "the reader");
    said.read_to_string(&mut line).unwrap();
    ended(writer, "the writer");
    let commits: u64 = line.trim().parse().unwrap();
    let numbers: Vec<u64> = read.split_whitespace().map(|word| word.parse().unwrap()).collect();
    println!(
        "{commits} commits; a connection looked {} times, saw {} states, waited {} ms at most and \
         began {} times anew; shell, export, backup and check {looks} times, {} ms at most",
        numbers[0],
        numbers[1],
        numbers[2],
        numbers[3],
        longest.as_millis()
    );
    assert!(numbers[0] > 1 && numbers[1] > 1 && looks >= 3, "{read} {looks}");
    assert!(last > 0 && last <= commits, "{last} of {commits}");
    // Nobody has it: a file that nobody may write is checked and read, and stays as it is.
    let before = std::fs::read(&image).unwrap();
    let mut rights = std::fs::metadata(&image).unwrap().permissions();
    rights.set_readonly(true);
    std::fs::set_permissions(&image, rights).unwrap();
    sqlite::image::check(&image).unwrap();
    assert_eq!(shell(&image), (commits, "0".to_string()));
    assert_eq!(std::fs::read(&image).unwrap(), before);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// (Who reads was told that the image cannot be written when the writer ended its transaction and closed between two
/// looks at it; `check` took a transaction under way for damage.)
#[test]
fn beside_one_who_comes_and_goes_with_large_transactions_a_reader_is_told_to_wait_at_most() {
    let (seconds, folder) = (seconds(), folder("large"));
    let image = folder.join("home.varve");
    let (writer, mut said) = writing("large", &image, &seconds, "ready");
    let readers = [0; 2].map(|_| started("count", &image, &seconds));
    let end = Instant::now() + Duration::from_secs_f64(seconds.parse().unwrap());
    let (mut last, mut looks) = (0, 0);
    while Instant::now() < end {
        for (rows, low, high) in copied(&image, &folder) {
            assert!((rows, low) == (700, high) && low >= last, "{rows} of {low} to {high}, {last}");
            (last, looks) = (low, looks + 1);
        }
    }
    let mut line = String::new();
    said.read_to_string(&mut line).unwrap();
    ended(writer, "the writer");
    println!("{} large transactions, {looks} copies", line.trim());
    for reader in readers {
        let said = ended(reader, "a reader");
        println!("looks, states, told to wait: {said}");
        let numbers: Vec<u64> = said.split_whitespace().map(|w| w.parse().unwrap()).collect();
        assert!(numbers[0] > 0, "{said}");
    }
    assert!(last <= line.trim().parse().unwrap(), "{last}: {line}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_writer_killed_in_a_large_transaction_leaves_what_was_before_it() {
    let folder = folder("killed");
    let image = folder.join("home.varve");
    let (mut writer, _said) = writing("half", &image, "0", "half");
    let before = [(700, 0, 0); 2];
    assert_eq!(copied(&image, &folder), before, "beside the writer");
    writer.kill().unwrap();
    writer.wait().unwrap();
    let bytes = std::fs::read(&image).unwrap();
    assert_eq!(copied(&image, &folder), before, "of what the kill left");
    let shell = |mode: &str, sql: &str| {
        let options = format!("file:{}?vfs=varve{mode}", image.display());
        let load = format!(".load {}", python::library().display());
        let open = format!(".open {options}");
        let mut shell = Command::new("sqlite3");
        let shell = shell.env_remove("VARVE_SQLITE_RAM_FOR_TESTS").args(["-batch", "-cmd", &load]);
        let output = shell.args(["-cmd", &open, ":memory:", &format!("{sql};")]).output().unwrap();
        let both = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&both).trim().to_string()
    };
    let asked = "SELECT count(*), min(n), max(n) FROM t";
    let told = shell("&mode=ro", asked);
    assert!(told.contains("readonly"), "{told}");
    assert_eq!(std::fs::read(&image).unwrap(), bytes, "who reads has written");
    assert_eq!(shell("", asked), "700|0|0");
    assert_eq!(shell("&mode=ro", asked), "700|0|0");
    std::fs::remove_dir_all(&folder).unwrap();
}
