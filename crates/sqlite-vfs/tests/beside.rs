//! A process that reads an image beside whoever writes it, and then writes it itself: two stores of one image, and each
//! keeps to its own journals and logs.

mod common;

use common::{Folder, api, ask, unique};
use rusqlite::{Connection, OpenFlags};
use varve_sqlite_vfs::Stores;

#[test]
fn who_reads_beside_a_writer_of_its_own_process_takes_nothing_from_it() {
    let folder = Folder::new();
    let vfs = unique("vfs");
    Stores::new().register(&api(), &vfs, false, None).unwrap();
    for journal in ["WAL", "DELETE"] {
        let uri = format!("file:{}", folder.file(&format!("{journal}.varve")));
        let open = |flags| {
            let flags = flags | OpenFlags::SQLITE_OPEN_URI;
            Connection::open_with_flags_and_vfs(&uri, flags, vfs.as_str()).unwrap()
        };
        let create = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let first = open(create);
        first.execute_batch("CREATE TABLE c(v INT); INSERT INTO c VALUES(0)").unwrap();
        ask(&first, &format!("PRAGMA journal_mode={journal}"));
        first.close().unwrap();
        // The reader is there before the writer.
        let reader = open(OpenFlags::SQLITE_OPEN_READ_ONLY);
        assert_eq!(ask(&reader, "SELECT v FROM c"), "0", "{journal}");
        let writer = open(create);
        let seen = || {
            let seen = ask(&reader, "SELECT v FROM c");
            assert!(seen.parse::<u8>().is_ok(), "{journal}: {seen}");
        };
        writer.execute_batch("UPDATE c SET v = 1").unwrap();
        seen();
        writer.execute_batch("BEGIN IMMEDIATE; UPDATE c SET v = 2").unwrap();
        seen();
        writer.execute_batch("COMMIT; BEGIN IMMEDIATE").unwrap();
        seen();
        writer.execute_batch("UPDATE c SET v = 3; COMMIT").unwrap();
        seen();
        reader.close().unwrap();
        assert_eq!(ask(&writer, "SELECT v FROM c"), "3", "{journal}");
        writer.execute_batch("UPDATE c SET v = 4").unwrap();
        writer.close().unwrap();
        assert_eq!(ask(&open(create), "SELECT v FROM c"), "4", "{journal}");
    }
}
