//! Data logs: what is recorded is read back, and what is damaged is refused, at every byte.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use varve_stack::datalog::{Log, LogError, Op, pack};
use varve_stack::disk::{DataRecorded, Disk, RamDisk};

/// Bytes that somebody else keeps a hand on.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn recorded() -> (Vec<u8>, Arc<DataRecorded>) {
    let ram = Arc::new(RamDisk::new(1 << 20).unwrap());
    ram.write(8192, &[9; 4096], false).unwrap().wait().unwrap();
    let kept = Kept::default();
    let disk = DataRecorded::new(ram, Box::new(kept.clone()), "a test").unwrap();
    disk.write(4096, &[1; 512], false).unwrap().wait().unwrap();
    disk.write(1000, &[2; 100], true).unwrap().wait().unwrap();
    disk.mark("17", false).unwrap();
    disk.flush().unwrap().wait().unwrap();
    disk.trim(4096, 10_000, false).unwrap().wait().unwrap();
    disk.zero(8192, 4096, false, false).unwrap().wait().unwrap();
    disk.mark("ready", true).unwrap();
    disk.finish().unwrap();
    let bytes = kept.0.lock().unwrap().clone();
    (bytes, Arc::new(disk))
}

#[test]
fn a_trim_forgets_what_the_log_says_and_no_more() {
    // This one would forget single bytes.
    let ram = Arc::new(RamDisk::new(1 << 20).unwrap());
    let disk = DataRecorded::new(ram, Box::new(Kept::default()), "a test").unwrap();
    disk.write(0, &[5; 16_384], false).unwrap().wait().unwrap();
    disk.trim(1000, 9000, false).unwrap().wait().unwrap();
    disk.trim(9000, 1000, false).unwrap().wait().unwrap();
    let mut found = [1; 16_384];
    disk.read(0, &mut found).unwrap().wait().unwrap();
    let zeroes: Vec<usize> = (0..4).filter(|block| found[block * 4096] == 0).collect();
    assert_eq!(zeroes, [1]);
    assert_eq!(found.iter().filter(|byte| **byte == 0).count(), 4096, "whole blocks");
}

#[test]
fn what_was_recorded_is_read() {
    let (bytes, disk) = recorded();
    for bytes in [bytes.clone(), pack(&bytes).unwrap()] {
        let log = Log::read(bytes).unwrap();
        assert_eq!((log.size, log.source.as_str()), (1 << 20, "a test"));
        let ops: Vec<Op> = log.records.iter().map(|record| record.op).collect();
        use Op::{FlushBegin, FlushEnd, Mark, Trim, Write, Zero};
        // What was there comes first; what is no whole sector is written down as one.
        let expected = [
            Write, FlushBegin, FlushEnd, Write, Write, Mark, FlushBegin, FlushEnd, Trim, Zero, Mark,
        ];
        assert_eq!(ops, expected);
        let [first, .., partial] = &log.records[..5] else { panic!() };
        assert!(first.at <= 8192 && first.at + first.bytes >= 12_288);
        assert_eq!((partial.at, partial.bytes, partial.fua), (512, 1024, true));
        assert_eq!(log.data(partial)[1000 - 512], 2);
        assert_eq!(log.data(partial)[0], 0);
        assert_eq!(log.records[7].at, 6, "the flush that began");
        assert_eq!((log.records[8].at, log.records[8].bytes), (4096, 8192), "whole blocks");
        assert_eq!((log.text(&log.records[5]), log.records[5].ours), ("17", false));
        assert!(log.records[10].ours);
    }
    // Nothing is changed without being written down.
    assert!(disk.write(0, &[1; 512], false).is_err());
    assert!(disk.mark("x", false).is_err());
    disk.finish().unwrap();
}

#[test]
fn a_log_is_refused_wherever_it_is_damaged() {
    let (bytes, _) = recorded();
    // The bytes of all records of the first write but some are alike: a few of them stand for all.
    let dull = 300..bytes.len() - 3500;
    for at in (0..bytes.len()).filter(|at| !dull.contains(at) || at % 97 == 0) {
        for flip in [1, 0x80] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            match Log::read(damaged) {
                Err(LogError::Bad { place, found, expected }) => {
                    assert!(!place.is_empty() && !found.is_empty() && !expected.is_empty());
                }
                other => panic!("byte {at}: {other:?}"),
            }
        }
    }
    for length in (0..bytes.len()).step_by(61).chain([bytes.len() - 1]) {
        assert!(Log::read(bytes[..length].to_vec()).is_err(), "cut off at {length}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(Log::read(longer).is_err());
    let packed = pack(&bytes).unwrap();
    assert!(Log::read(packed[..packed.len() - 1].to_vec()).is_err());
}

#[test]
fn a_stack_records_with_data_by_the_name_of_the_file() {
    let path = std::env::temp_dir().join(format!("varve-{}.vlog", std::process::id()));
    let text = format!("ram(1MiB)+record({})", path.display());
    let stack = varve_stack::live::Stack::start(&text.parse().unwrap()).unwrap();
    stack.disk.write(0, &[5; 4096], false).unwrap().wait().unwrap();
    stack.stop().unwrap();
    let log = Log::load(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(log.records.iter().any(|r| r.op == Op::Write && log.data(r) == [5; 4096]));
    assert!(log.source.contains("ram"), "{}", log.source);
    let error =
        varve_stack::live::Stack::start(&"ram(1MiB)+cut(1)+record(x.vlog)".parse().unwrap());
    assert!(error.unwrap_err().to_string().contains("expected below cut"));
}
