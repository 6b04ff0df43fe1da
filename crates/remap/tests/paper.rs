//! The paper's test vectors, as printed (paper 1, figures of section III), and its options.

use block::{
    BlockDevice, Bytes, Data, DeviceError, Lba, Op, RamDevice, Request, Sectors, Span, Time,
};
use varve_remap::paper::{
    FlushRule, Insert, LogBlock, Node, PaperLog, PaperOptions, PartitionKey, TrimRule, Unmapped,
};

const BLOCK: usize = 4096;

/// Writes down what the device below is asked to do.
struct Recorder {
    ram: RamDevice,
    seen: Vec<(Op, u64, u64)>,
}

impl Recorder {
    fn new(blocks: u64) -> Recorder {
        Recorder { ram: RamDevice::new(Sectors(blocks * 8)), seen: Vec::new() }
    }
}

impl BlockDevice for Recorder {
    fn capacity(&self) -> Sectors {
        self.ram.capacity()
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        self.seen.push((request.op, request.lba.0, request.sectors.0));
        self.ram.submit(at, request)
    }
}

type Log = PaperLog<Recorder>;

/// A log whose data area begins before sector 200, with the cursor there.
fn empty() -> Log {
    let options = PaperOptions { log_blocks: 4, clean_below: 0, ..PaperOptions::default() };
    let mut log = PaperLog::format(Recorder::new(1000), &options).unwrap();
    log.set_cursor(Lba(200)).unwrap();
    log.device_mut().seen.clear();
    log
}

fn taken(log: &mut Log) -> Vec<(Op, u64, u64)> {
    std::mem::take(&mut log.device_mut().seen)
}

fn write(log: &mut Log, sector: u64, sectors: u64, value: u8) {
    let data = vec![value; sectors as usize * 512];
    let request = Request::write(Lba(sector), Sectors(sectors)).with(Data::Write(&data));
    log.submit(Time::ZERO, request).unwrap();
}

fn read(log: &mut Log, sector: u64, sectors: u64) -> Vec<u8> {
    let mut data = vec![0xEE; sectors as usize * 512];
    let request = Request::read(Lba(sector), Sectors(sectors)).with(Data::Read(&mut data));
    log.submit(Time::ZERO, request).unwrap();
    data.chunks(BLOCK)
        .map(|block| {
            assert!(block.iter().all(|b| *b == block[0]));
            block[0]
        })
        .collect()
}

/// The three writes of the vectors, with values from `value` on.
fn three(log: &mut Log, value: u8) {
    write(log, 6544, 8, value);
    write(log, 7136, 16, value + 1);
    write(log, 5728, 8, value + 2);
}

/// Nodes as (original sector, sector, invalid), in the order of places.
fn nodes(log: &Log) -> Vec<(u64, u64, bool)> {
    let sectors = |n: &Node| (u64::from(n.orig) * 8, u64::from(n.trans) * 8, n.invalid);
    log.nodes().iter().map(sectors).collect()
}

#[test]
fn v1_writes_are_laid_down_in_sequence() {
    let mut log = empty();
    three(&mut log, 1);
    assert_eq!(taken(&mut log), [(Op::Write, 200, 8), (Op::Write, 208, 16), (Op::Write, 224, 8)]);
    assert_eq!(
        nodes(&log),
        [(6544, 200, false), (7136, 208, false), (7144, 216, false), (5728, 224, false)]
    );
    assert_eq!(log.cursor(), Lba(232));
}

#[test]
fn v2_reads_follow_them() {
    let mut log = empty();
    three(&mut log, 1);
    taken(&mut log);
    assert_eq!(read(&mut log, 6544, 8), [1]);
    assert_eq!(read(&mut log, 7136, 16), [2, 2]);
    assert_eq!(read(&mut log, 5728, 8), [3]);
    assert_eq!(taken(&mut log), [(Op::Read, 200, 8), (Op::Read, 208, 16), (Op::Read, 224, 8)]);
}

fn overwritten() -> Log {
    let mut log = empty();
    three(&mut log, 1);
    log.set_cursor(Lba(800)).unwrap();
    taken(&mut log);
    three(&mut log, 4);
    log
}

#[test]
fn v3_an_overwrite_leaves_an_invalid_node() {
    let mut log = overwritten();
    assert_eq!(taken(&mut log), [(Op::Write, 800, 8), (Op::Write, 808, 16), (Op::Write, 824, 8)]);
    assert_eq!(
        nodes(&log),
        [
            (6544, 200, true),
            (7136, 208, true),
            (7144, 216, true),
            (5728, 224, true),
            (6544, 800, false),
            (7136, 808, false),
            (7144, 816, false),
            (5728, 824, false),
        ]
    );
    assert_eq!(log.cursor(), Lba(832));
}

fn reopen(log: Log) -> Log {
    let ram = &log.device().ram;
    let mut copy = Recorder::new(ram.capacity().0 / 8);
    let mut bytes = vec![0; ram.capacity().bytes().index()];
    let mut log = log;
    let all = Request::read(Lba(0), log.device().ram.capacity());
    log.device_mut().ram.submit(Time::ZERO, all.with(Data::Read(&mut bytes))).unwrap();
    let all = Request::write(Lba(0), copy.capacity());
    copy.ram.submit(Time::ZERO, all.with(Data::Write(&bytes))).unwrap();
    PaperLog::open(copy, &PaperOptions::default()).unwrap()
}

#[test]
fn v4_a_transaction_has_two_marks() {
    let mut log = empty();
    log.set_cursor(Lba(1000)).unwrap();
    write(&mut log, 2472, 8, 7);
    log.commit(Time::ZERO).unwrap();
    let pairs = vec![(2472 / 8, 1000 / 8)];
    assert_eq!(log.log_blocks(Time::ZERO).unwrap(), [LogBlock::Whole(pairs)]);
    let mut log = reopen(log);
    assert_eq!(nodes(&log).last(), Some(&(2472, 1000, false)));
    assert_eq!(read(&mut log, 2472, 8), [7]);
    assert_eq!(log.log_blocks(Time::ZERO).unwrap(), []);
    let mut log = reopen(log);
    assert_eq!(read(&mut log, 2472, 8), [7], "the stored table alone says so now");
}

#[test]
fn v5_without_a_commit_mark_nothing_happened() {
    let mut log = empty();
    log.set_cursor(Lba(1000)).unwrap();
    write(&mut log, 2472, 8, 7);
    let mut log = reopen(log);
    assert_eq!(nodes(&log), []);
    assert_eq!(read(&mut log, 2472, 8), [0]);
    log.set_cursor(Lba(1000)).unwrap();
    write(&mut log, 16, 8, 9);
    assert_eq!(nodes(&log).last(), Some(&(16, 1000, false)), "the place is handed out again");
}

#[test]
fn v6_cleaning_fills_holes_from_the_end() {
    let mut log = overwritten();
    taken(&mut log);
    let (moves, _) = log.clean(Time::ZERO, u32::MAX).unwrap();
    assert_eq!(moves, 4);
    let copies: Vec<(u64, u64)> = taken(&mut log)
        .chunks(2)
        .map(|pair| {
            assert!(matches!(pair, [(Op::Read, _, 8), (Op::Write, _, 8)]), "{pair:?}");
            (pair[0].1, pair[1].1)
        })
        .collect();
    assert_eq!(copies, [(824, 200), (816, 208), (808, 216), (800, 224)]);
    assert_eq!(
        nodes(&log),
        [(5728, 200, false), (7144, 208, false), (7136, 216, false), (6544, 224, false)]
    );
    assert_eq!(log.cursor(), Lba(232));
    assert_eq!(read(&mut log, 7136, 16), [5, 5]);
    assert_eq!(taken(&mut log), [(Op::Read, 216, 8), (Op::Read, 208, 8)], "two commands now");
    assert_eq!((read(&mut log, 6544, 8), read(&mut log, 5728, 8)), (vec![4], vec![6]));
    assert!(log.stats().adds_up(), "{:?}", log.stats());
}

/// Overwrites at random, and what must be read.
fn churn(log: &mut Log, blocks: u64, writes: u64, seed: u64) -> Vec<u8> {
    let mut rng = block::Rng::new(seed);
    let mut expected = vec![0; blocks as usize];
    for n in 0..writes {
        let (block, value) = (rng.below(blocks), (n % 250) as u8 + 1);
        write(log, block * 8, 8, value);
        expected[block as usize] = value;
        if rng.ratio(1, 16) {
            let block = rng.below(blocks);
            assert_eq!(read(log, block * 8, 8), [expected[block as usize]]);
        }
    }
    assert_eq!(read(log, 0, blocks * 8), expected);
    assert!(log.stats().adds_up(), "{:?}", log.stats());
    expected
}

#[test]
fn a_full_log_is_cleaned_and_says_so_when_nothing_can_be() {
    let options = PaperOptions { blocks: 90, log_blocks: 4, ..PaperOptions::default() };
    let mut log = PaperLog::format(Recorder::new(110), &options).unwrap();
    churn(&mut log, 90, 3000, 1);
    assert!(log.stats().moved > 100, "{:?}", log.stats());
    let options = PaperOptions { blocks: 0, ..options };
    let mut log = PaperLog::format(Recorder::new(110), &options).unwrap();
    let blocks = log.capacity().0 / 8;
    (0..blocks).for_each(|block| write(&mut log, block * 8, 8, 1));
    let one = [2; BLOCK];
    let full = log.submit(Time::ZERO, Request::write(Lba(0), Sectors(8)).with(Data::Write(&one)));
    assert!(matches!(full, Err(DeviceError::NoSpace(_))), "{full:?}");
    assert!(log.stats().idle_turns > 0);
}

#[test]
fn both_partition_keys_and_a_memory_cap_read_the_same() {
    for partition in [PartitionKey::Orig, PartitionKey::Trans] {
        for memory in [None, Some(Bytes(64 * 40))] {
            let options = PaperOptions {
                blocks: 90,
                log_blocks: 4,
                partition,
                partition_blocks: 16,
                memory,
                ..PaperOptions::default()
            };
            let mut log = PaperLog::format(Recorder::new(130), &options).unwrap();
            let expected = churn(&mut log, 90, 2000, 2);
            assert_eq!(log.stats().loads > 0, memory.is_some(), "{:?}", log.stats());
            log.stop(Time::ZERO).unwrap();
            let mut log = reopen(log);
            assert_eq!(read(&mut log, 0, 90 * 8), expected, "after a clean stop");
        }
    }
}

#[test]
fn options_do_what_their_names_say() {
    let plain = PaperOptions { log_blocks: 4, commit_pairs: 2, ..PaperOptions::default() };
    let new = |options: &PaperOptions| PaperLog::format(Recorder::new(200), options).unwrap();

    let mut log = new(&PaperOptions { insert: Insert::After, ..plain });
    write(&mut log, 0, 8, 1);
    assert_eq!(read(&mut log, 0, 8), [0], "own write unread until the commit");
    write(&mut log, 8, 8, 2);
    assert_eq!(read(&mut log, 0, 16), [1, 2]);

    let mut log = new(&PaperOptions { trim: TrimRule::Invalidate, ..plain });
    write(&mut log, 0, 8, 1);
    log.submit(Time::ZERO, Request::discard(Lba(0), Sectors(8))).unwrap();
    assert_eq!(read(&mut log, 0, 8), [0]);
    let mut log = new(&plain);
    write(&mut log, 0, 8, 1);
    log.submit(Time::ZERO, Request::discard(Lba(0), Sectors(8))).unwrap();
    assert_eq!((read(&mut log, 0, 8), log.stats().dropped_trims), (vec![1], 1));

    let mut log = new(&PaperOptions { unmapped: Unmapped::Pass, ..plain });
    let data = u64::from(log.layout().data) * 8;
    write(&mut log, 0, 8, 7);
    assert_eq!(read(&mut log, data, 8), [7], "what lies at that very address");

    for (flush, commits) in [(FlushRule::Pass, 0), (FlushRule::Commit, 1)] {
        let mut log = new(&PaperOptions { flush, ..plain });
        write(&mut log, 0, 8, 1);
        log.submit(Time::ZERO, Request::flush()).unwrap();
        assert_eq!(log.stats().commits, commits);
    }

    let mut log = new(&PaperOptions { commit_pairs: 510, ..plain });
    write(&mut log, 0, 8, 1);
    let later = Time::ZERO + Span::from_us(5_000_000);
    log.submit(later, Request::flush()).unwrap();
    assert_eq!(log.stats().commits, 1, "five seconds end a transaction");
    let part = Request::write(Lba(1), Sectors(8)).with(Data::Write(&[0; BLOCK]));
    assert!(matches!(log.submit(later, part), Err(DeviceError::Unsupported(_))));
    let outside = Request::read(log_end(&log), Sectors(8));
    assert!(matches!(log.submit(later, outside), Err(DeviceError::OutOfRange { .. })));
}

fn log_end(log: &Log) -> Lba {
    Lba(log.capacity().0)
}

#[test]
fn what_the_device_promises_of_a_flush_is_handed_on() {
    struct Strict(RamDevice, bool);
    impl BlockDevice for Strict {
        fn capacity(&self) -> Sectors {
            self.0.capacity()
        }
        fn flush_covers_submitted(&self) -> bool {
            self.1
        }
        fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
            self.0.submit(at, request)
        }
    }
    for promise in [false, true] {
        let device = Strict(RamDevice::new(Sectors(8_000)), promise);
        let log = PaperLog::format(device, &PaperOptions::default()).unwrap();
        assert_eq!(log.flush_covers_submitted(), promise);
    }
}

#[test]
fn log_and_tables_leave_room_for_a_block_at_least() {
    // Four partitions of a table each in two blocks, four blocks of log, one of the super block.
    let options = PaperOptions { log_blocks: 4, partition_blocks: 4, ..PaperOptions::default() };
    let sizes = |blocks: u64| PaperLog::format(RamDevice::new(Sectors(blocks * 8)), &options);
    let refused = sizes(11).err().expect("tables and log take all of it");
    assert!(refused.to_string().contains("no room for data"), "{refused}");
    assert_eq!(sizes(12).unwrap().capacity(), Sectors(8));
}
