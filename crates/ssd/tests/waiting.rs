//! Pages given up by the buffer that wait to be handed on, since the request that gave them up
//! failed half-way: they are the newest versions of their pages until they are on flash.

use block::{BlockDevice, Data, DeviceError, Lba, Request, Rng, Sectors, Time};
use nand::{Fault, FaultPlan};
use varve_ssd::{
    Access, Admission, Batches, Config, Drive, Frame, List, Params, Policy, PolicyInfo, Pool,
    Stream, add_policy,
};

const PAGE: usize = 4096;

fn params(pairs: &[&str]) -> Params {
    let mut config = Config::default();
    for pair in [
        "geometry.channels=2",
        "geometry.dies=1",
        "geometry.pages=8",
        "capacity=512 KiB",
        "op=80 %",
        "nand.oob=full",
        "buffer.policy=lru",
        "buffer.size=32 KiB",
    ]
    .iter()
    .chain(pairs)
    {
        config.set_pair(pair).unwrap();
    }
    config.resolve().unwrap_or_else(|e| panic!("{pairs:?}: {e}"))
}

/// A drive, its pages as they must be read, and the time.
struct Bench {
    drive: Drive,
    at: Time,
}

impl Bench {
    fn submit(&mut self, request: Request<'_>) -> Result<(), DeviceError> {
        self.at = self.at.max(self.drive.submit(self.at, request)?);
        Ok(())
    }
    fn write(&mut self, lba: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let sectors = Sectors(bytes.len() as u64 / 512);
        self.submit(Request::write(Lba(lba), sectors).with(Data::Write(bytes)))
    }
    fn read(&mut self, page: u64, count: u64) -> Result<Vec<u8>, DeviceError> {
        let mut got = vec![0xEE; count as usize * PAGE];
        let request = Request::read(Lba(page * 8), Sectors(count * 8));
        self.submit(request.with(Data::Read(&mut got)))?;
        Ok(got)
    }
    fn discard(&mut self, page: u64, count: u64) -> Result<(), DeviceError> {
        self.submit(Request::discard(Lba(page * 8), Sectors(count * 8)))
    }
    fn flush(&mut self) {
        self.submit(Request::flush()).unwrap();
    }
}

/// A drive on whose flash page 7 holds ones, while its twos were pushed out of the buffer by a
/// read that failed after that: they wait.
fn with_page_7_waiting() -> Bench {
    let faults = FaultPlan { faults: vec![Fault::ReadUncorrectable { read: 0 }] };
    let drive = Drive::with_faults(&params(&[]), &faults).unwrap();
    let mut bench = Bench { drive, at: Time::ZERO };
    bench.write(7 * 8, &[1; PAGE]).unwrap();
    bench.write(101 * 8, &[9; PAGE]).unwrap();
    bench.flush();
    bench.drive.cool_buffer().unwrap();
    // From this read on, page 101 cannot be read.
    bench.read(101, 1).unwrap();
    bench.drive.cool_buffer().unwrap();
    bench.write(7 * 8, &[2; PAGE]).unwrap();
    for page in 20..27 {
        bench.write(page * 8, &[3; PAGE]).unwrap();
    }
    // Page 100 was never written: it takes the place of page 7, and then page 101 is the error.
    let failed = bench.read(100, 2).map(|_| ()).unwrap_err();
    assert!(matches!(failed, DeviceError::Unreadable(Lba(808))), "{failed}");
    let evicted = bench.drive.stats().buffer.dirty_evictions;
    let programmed = bench.drive.stats().nand.programs_total();
    assert_eq!((evicted, programmed), (1, 2), "page 7 was to wait");
    bench
}

#[test]
fn a_part_written_over_a_waiting_page_keeps_its_other_parts() {
    let mut bench = with_page_7_waiting();
    bench.write(7 * 8 + 3, &[4; 512]).unwrap();
    let mut expected = vec![2; PAGE];
    expected[3 * 512..4 * 512].fill(4);
    assert!(bench.read(7, 1).unwrap() == expected, "from the buffer");
    bench.flush();
    bench.drive.cool_buffer().unwrap();
    assert!(bench.read(7, 1).unwrap() == expected, "from flash");
}

#[test]
fn a_waiting_page_that_is_discarded_does_not_come_back() {
    let mut bench = with_page_7_waiting();
    bench.discard(7, 1).unwrap();
    assert!(bench.read(7, 1).unwrap() == [0; PAGE], "at once");
    bench.flush();
    assert!(bench.read(7, 1).unwrap() == [0; PAGE], "after a flush");
    bench.drive.check().unwrap();
}

#[test]
fn a_waiting_page_is_flushed_and_a_whole_write_replaces_it() {
    let mut bench = with_page_7_waiting();
    let mut other = Bench { drive: bench.drive.clone(), at: bench.at };
    bench.flush();
    bench.drive.cool_buffer().unwrap();
    assert!(bench.read(7, 1).unwrap() == [2; PAGE], "after a flush");
    other.write(7 * 8, &[5; PAGE]).unwrap();
    other.flush();
    other.drive.cool_buffer().unwrap();
    assert!(other.read(7, 1).unwrap() == [5; PAGE], "after a whole write");
}

#[test]
fn a_waiting_page_survives_an_emptied_buffer_that_holds_nothing_dirty() {
    let mut bench = with_page_7_waiting();
    // All that is dirty beside it.
    bench.discard(20, 7).unwrap();
    assert_eq!(bench.drive.stats().buffer.dirty, 0);
    bench.drive.cool_buffer().unwrap();
    assert!(bench.read(7, 1).unwrap() == [2; PAGE]);
}

#[test]
fn what_a_failed_write_gathered_is_no_part_of_the_next() {
    let faults = FaultPlan { faults: vec![Fault::ReadUncorrectable { read: 0 }] };
    let params = params(&["buffer.policy=none", "buffer.size=0"]);
    let drive = Drive::with_faults(&params, &faults).unwrap();
    let mut bench = Bench { drive, at: Time::ZERO };
    bench.write(11 * 8, &[1; PAGE]).unwrap();
    bench.flush();
    // Page 10 whole, and a part of page 11, the rest of which cannot be read.
    let failed = bench.write(10 * 8, &[2; PAGE + 512]).unwrap_err();
    assert!(matches!(failed, DeviceError::Unreadable(Lba(88))), "{failed}");
    bench.write(20 * 8, &[3; PAGE]).unwrap();
    assert!(bench.read(20, 1).unwrap() == [3; PAGE]);
}

/// Admits the odd pages of a buffer, first in first out, and lets the even ones pass by.
#[derive(Clone, Debug, Default)]
struct Half(List);

impl Policy for Half {
    fn hit(&mut self, _: &mut Pool, _: Frame, _: &Access<'_>) {}
    fn admit(&mut self, pool: &mut Pool, a: &Access<'_>, out: &mut Batches) -> Admission {
        if a.page.0.is_multiple_of(2) {
            return Admission::Bypass;
        }
        if pool.free() == 0
            && let Some(oldest) = self.0.back()
        {
            pool.unlink(&mut self.0, oldest);
            out.evict(oldest, Stream::Other);
        }
        Admission::Admit(0)
    }
    fn inserted(&mut self, pool: &mut Pool, frame: Frame, _: &Access<'_>) {
        pool.push_front(&mut self.0, frame);
    }
    fn removed(&mut self, pool: &mut Pool, frame: Frame) {
        pool.unlink(&mut self.0, frame);
    }
    fn cleaned(&mut self, _: &mut Pool, _: Frame) {}
    fn check(&self, pool: &Pool) -> Result<(), String> {
        (self.0.len() == pool.resident()).then_some(()).ok_or_else(|| "lists".to_string())
    }
}

fn add_half() {
    static HALF: PolicyInfo = PolicyInfo {
        name: "half",
        aliases: &[],
        doc: "odd pages only",
        source: "a test",
        options: &[],
        clairvoyant: false,
        make: |setup| setup.buffer(Half::default()),
    };
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| add_policy(&HALF).unwrap());
}

#[test]
fn pages_that_pass_by_and_pages_that_push_others_out_do_not_mix() {
    add_half();
    for pairs in [&["buffer.policy=half"][..], &UNITS_OF_FOUR] {
        let drive = Drive::new(&params(pairs)).unwrap();
        let mut bench = Bench { drive, at: Time::ZERO };
        let bytes: Vec<u8> = (1..=64).flat_map(|page| [page; PAGE]).collect();
        for page in (0..64).step_by(4) {
            bench.write(page * 8, &bytes[page as usize * PAGE..][..4 * PAGE]).unwrap();
        }
        assert!(bench.read(0, 64).unwrap() == bytes, "{pairs:?}");
    }
}

const UNITS_OF_FOUR: [&str; 4] =
    ["buffer.policy=half", "geometry.page=16 KiB", "unit=16 KiB", "capacity=2 MiB"];

/// What each page may hold: a request that failed may have had its effect or not.
struct Model(Vec<Vec<Vec<u8>>>);

impl Model {
    fn change(&mut self, page: usize, failed: bool, change: impl Fn(&mut Vec<u8>)) {
        let held = &mut self.0[page];
        let before = held.clone();
        held.iter_mut().for_each(&change);
        if failed {
            held.extend(before);
        }
        held.sort();
        held.dedup();
    }
    fn found(&mut self, page: usize, bytes: &[u8]) -> bool {
        let held = self.0[page].iter().any(|b| b == bytes);
        self.0[page] = vec![bytes.to_vec()];
        held
    }
}

/// Random requests on parts of pages, while one read of flash in `every` fails for good.
fn exercise(pairs: &[&str], seed: u64, every: u64) -> (u64, u64) {
    let params = params(pairs);
    let mut rng = Rng::new(seed);
    let reads = (0..40_000 / every).map(|i| i * every + rng.below(every));
    let faults = reads.map(|read| Fault::ReadUncorrectable { read }).collect();
    let drive = Drive::with_faults(&params, &FaultPlan { faults }).unwrap();
    let mut bench = Bench { drive, at: Time::ZERO };
    let pages = 40 * u64::from(params.unit_pages);
    let mut model = Model(vec![vec![vec![0; PAGE]]; pages as usize]);
    let (mut failed, mut served) = (0, 0);
    for round in 1..3000u64 {
        let page = rng.below(pages);
        let count = rng.between(1, 6.min(pages - page));
        match rng.below(20) {
            0 => bench.flush(),
            1 | 2 => {
                let unit = u64::from(params.unit_pages);
                let (first, last) = (page.div_ceil(unit) * unit, (page + count) / unit * unit);
                let lost = bench.discard(page, count).is_err();
                for page in first..last {
                    model.change(page as usize, lost, |bytes| bytes.fill(0));
                }
            }
            3..9 => match bench.read(page, count) {
                Ok(got) => {
                    served += 1;
                    for (i, bytes) in got.chunks(PAGE).enumerate() {
                        let page = page as usize + i;
                        let right = model.found(page, bytes);
                        assert!(right, "{pairs:?} seed {seed}, round {round}: page {page}");
                    }
                }
                Err(DeviceError::Unreadable(_)) => failed += 1,
                Err(other) => panic!("{pairs:?} seed {seed}, round {round}: {other}"),
            },
            _ => {
                let (from, to) = (page * 8 + rng.below(8), (page + count) * 8 - rng.below(8));
                let (from, to) = (from.min(to - 1), to.max(from + 1));
                let value = round as u8;
                let lost = bench.write(from, &vec![value; (to - from) as usize * 512]).is_err();
                for page in from / 8..to.div_ceil(8) {
                    let first = from.max(page * 8) - page * 8;
                    let last = to.min(page * 8 + 8) - page * 8;
                    let place = first as usize * 512..last as usize * 512;
                    model.change(page as usize, lost, |b| b[place.clone()].fill(value));
                }
            }
        }
    }
    bench.drive.check().unwrap_or_else(|e| panic!("{pairs:?} seed {seed}: {e}"));
    (served, failed)
}

#[test]
fn nothing_else_is_read_than_was_written_whatever_fails() {
    let variants: &[&[&str]] = &[
        &[],
        &["geometry.page=16 KiB", "unit=16 KiB", "capacity=2 MiB"],
        &["buffer.policy=vbbms", "buffer.size=64 KiB"],
        &["buffer.policy=bplru", "buffer.size=128 KiB"],
        &[
            "buffer.policy=bplru",
            "buffer.size=128 KiB",
            "geometry.page=16 KiB",
            "unit=16 KiB",
            "capacity=2 MiB",
        ],
        &["buffer.policy=fab", "buffer.size=128 KiB"],
        &["buffer.policy=aoi", "buffer.size=64 KiB"],
        &["buffer.write=through"],
        &["buffer.policy=none", "buffer.size=0"],
        &[
            "buffer.policy=none",
            "buffer.size=0",
            "geometry.page=16 KiB",
            "unit=16 KiB",
            "capacity=2 MiB",
        ],
        &["buffer.policy=half"],
        &UNITS_OF_FOUR,
        &["ftl=hybrid-log", "op=150 %"],
    ];
    add_half();
    for pairs in variants {
        let (mut served, mut failed) = (0, 0);
        for seed in 1..=4 {
            let counts = exercise(pairs, seed, 60);
            served += counts.0;
            failed += counts.1;
        }
        assert!(served > 300 && failed > 20, "{pairs:?}: {served} reads served, {failed} failed");
    }
}
