//! A program that commits to an image, and others that read it meanwhile: a connection of another process, the
//! `sqlite3` shell, `check` and `export`. Each sees one state of it, each time a later one, and nothing of them reaches
//! the image. `VARVE_BESIDE=600` for so many seconds.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

fn library() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    here.parent().unwrap().join("libvarve_sqlite.so")
}

fn python(what: &str, image: &Path, seconds: &str) -> Child {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    Command::new("python3")
        .arg(root.join("tests/beside.py"))
        .args([what.as_ref(), image.as_os_str(), seconds.as_ref()])
        .env("PYTHONPATH", root.join("../../python"))
        .env("VARVE_SQLITE_LIBRARY", library())
        .env_remove("VARVE_SQLITE_RAM_FOR_TESTS")
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
        library().display(),
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

#[test]
fn readers_beside_a_writer_see_one_state_each_time_a_later_one() {
    let seconds = std::env::var("VARVE_BESIDE").unwrap_or_else(|_| "4".to_string());
    let folder = std::env::temp_dir().join(format!("varve-beside-ext-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let image = folder.join("home.varve");
    let mut writer = python("write", &image, &seconds);
    let mut said = BufReader::new(writer.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    if line != "ready\n" {
        ended(writer, "the writer");
        panic!("{line}");
    }
    let reader = python("read", &image, &seconds);
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
    line.clear();
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
