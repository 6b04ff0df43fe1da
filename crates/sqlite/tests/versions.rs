//! Images of earlier versions are opened, go on as they are, and lose nothing.
//!
//! `images/v1-closed.varve.zst` was closed, `v1-killed.varve.zst` is as a killed process left it; each
//! has a table `t (a, b, c)` of 40 rows, updated 400 times: `sum(b)` is 400. They were made by the
//! last program that made version 1.

use std::path::PathBuf;

use rusqlite::Connection;
use varve_sqlite_host::crash;
use varve_sqlite_host::image::{Served, check};
use varve_sqlite_vfs::{Store, StoreOptions};

fn unpacked(image: &str, to: &str) -> PathBuf {
    let from = format!("{}/tests/images/{image}.varve.zst", env!("CARGO_MANIFEST_DIR"));
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(to);
    let bytes = zstd::decode_all(std::fs::File::open(from).unwrap()).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path
}

fn sum(db: &Connection) -> (i64, i64) {
    db.query_row("SELECT sum(b), count(*) FROM t", [], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
}

#[test]
fn an_image_of_version_1_goes_on_as_it_is() {
    for image in ["v1-closed", "v1-killed"] {
        let path = unpacked(image, &format!("goes-on-{image}"));
        let length = std::fs::metadata(&path).unwrap().len();
        for round in 0..4 {
            let sound = check(&path).unwrap();
            assert_eq!(
                (sound.drive.map(|drive| drive.version), sound.databases.len()),
                (Some(1), 1)
            );
            assert!(sound.blind().unwrap().contains("version 1"));
            let store = Store::open(&path, StoreOptions::default()).unwrap();
            let served = Served::new(&format!("{image}-{round}"), store).unwrap();
            let db = served.open("main").unwrap();
            assert_eq!(sum(&db), (400 + 300 * round, 40), "{image}");
            // Enough to clean blocks of before.
            for n in 0..300 {
                db.execute("UPDATE t SET b = b + 1 WHERE a = ?1", [n % 40 + 1]).unwrap();
            }
        }
        assert_eq!(std::fs::metadata(&path).unwrap().len(), length);
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn an_image_of_version_1_survives_power_cuts() {
    for image in ["v1-closed", "v1-killed"] {
        let path = unpacked(image, &format!("cuts-{image}"));
        let plan = crash::Plan {
            cuts: 60,
            seed: 3,
            only: None,
            workload: crash::workload(),
            again: "again".to_string(),
        };
        assert_eq!(crash::check(&path, &plan).unwrap().cuts, 60);
        std::fs::remove_file(&path).unwrap();
    }
}

/// What version 1 can tell of damage is told: a header that fails its check, and a record below
/// what was settled, were programs cut short before.
#[test]
fn damage_that_version_1_can_see_is_damage() {
    let path = unpacked("v1-closed", "damage-v1");
    let bytes = std::fs::read(&path).unwrap();
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let (blocks, pages) = (number(12), number(16));
    let (mut headers, mut records) = (0, 0);
    for block in 0..blocks {
        let stride = 4096 + pages * 4096 + (pages * 32).next_multiple_of(4096);
        let header = 4096 + block * stride;
        if bytes[header + 12] & 2 == 0 {
            continue;
        }
        let damaged = |at: usize| {
            let mut hit = bytes.clone();
            hit[at] ^= 16;
            std::fs::write(&path, hit).unwrap();
            let error = check(&path).unwrap_err();
            assert_eq!(error.exit_code(), 4, "{error}");
            assert!(error.to_string().contains(&format!("block {block}")), "{error}");
        };
        damaged(header + 30);
        headers += 1;
        // All but the last page of a full block, or what was settled.
        let settled = number(header + 40);
        let first = header + 4096 + pages * 4096;
        let last = &bytes[first + (pages - 1) * 32..first + pages * 32];
        if settled > 0 || last.iter().any(|byte| *byte != 0) && headers % 4 == 0 {
            damaged(first + 9);
            records += 1;
        }
    }
    assert!(headers > 4 && records > 1, "{headers} headers, {records} records");
    std::fs::remove_file(&path).unwrap();
}
