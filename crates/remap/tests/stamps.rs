//! Stamps in place of contents, as traces and modelled programs have them: what is read is the stamp that was
//! written last, through cleaning, checkpoints, a buffer and an opening; what does not fit is refused.

use std::collections::BTreeMap;

use block::{BlockDevice, Data, DeviceError, Lba, Op, Request, Rng, Sectors, Time};
use varve_remap::{HostLog, LogOptions};

const BLOCK: usize = 4096;

#[derive(Clone)]
enum Held {
    Bytes(Box<[u8]>),
    Stamp(u64),
}

/// Keeps bytes and stamps beside each other, as a modelled drive does.
#[derive(Clone)]
struct Both {
    blocks: u64,
    held: BTreeMap<u64, Held>,
}

impl BlockDevice for Both {
    fn capacity(&self) -> Sectors {
        Sectors(self.blocks * 8)
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        let (first, count) = (request.lba.0 / 8, request.sectors.0 / 8);
        match (request.op, request.data) {
            (Op::Write, Data::Write(bytes)) => {
                assert_eq!(bytes.len(), count as usize * BLOCK);
                for (n, bytes) in (first..).zip(bytes.chunks_exact(BLOCK)) {
                    self.held.insert(n, Held::Bytes(bytes.into()));
                }
            }
            (Op::Write, Data::WriteStamps(stamps)) => {
                assert_eq!(stamps.len(), count as usize);
                let all = (first..).zip(stamps).map(|(n, stamp)| (n, Held::Stamp(*stamp)));
                self.held.extend(all);
            }
            (Op::Read, Data::Read(out)) => {
                for (n, out) in (first..).zip(out.chunks_exact_mut(BLOCK)) {
                    match self.held.get(&n) {
                        Some(Held::Bytes(bytes)) => out.copy_from_slice(bytes),
                        _ => out.fill(0),
                    }
                }
            }
            (Op::Read, Data::ReadStamps(out)) => {
                for (n, out) in (first..).zip(out) {
                    *out = match self.held.get(&n) {
                        Some(Held::Stamp(stamp)) => *stamp,
                        _ => 0,
                    };
                }
            }
            _ => {}
        }
        Ok(at)
    }
}

struct Client {
    log: HostLog<Both>,
    wanted: Vec<u64>,
    rng: Rng,
    at: Time,
}

impl Client {
    fn new(options: &LogOptions) -> Client {
        let device = Both { blocks: 1_200, held: BTreeMap::new() };
        let log = HostLog::format(device, options).unwrap();
        let wanted = vec![0; log.engine().geometry().logical as usize];
        Client { log, wanted, rng: Rng::stream(5, "stamps"), at: Time::ZERO }
    }

    fn submit(&mut self, request: Request<'_>) -> Result<Time, DeviceError> {
        let done = self.log.submit(self.at, request)?;
        self.at = self.at.max(done);
        Ok(done)
    }

    fn step(&mut self) {
        let first = self.rng.below(self.wanted.len() as u64 - 9) as usize;
        let count = self.rng.between(1, 9) as usize;
        let (lba, sectors) = (Lba(first as u64 * 8), Sectors(count as u64 * 8));
        match self.rng.below(20) {
            0 => {
                self.submit(Request::discard(lba, sectors)).unwrap();
                self.wanted[first..first + count].fill(0);
            }
            1 => drop(self.submit(Request::flush()).unwrap()),
            2..6 => self.look(first, count),
            kind => {
                let stamps: Vec<u64> = (0..count).map(|_| self.rng.next_u64() | 1).collect();
                let write = Request::write(lba, sectors).with(Data::WriteStamps(&stamps));
                self.submit(if kind == 6 { write.with_fua() } else { write }).unwrap();
                self.wanted[first..first + count].copy_from_slice(&stamps);
            }
        }
    }

    fn look(&mut self, first: usize, count: usize) {
        let mut out = vec![1; count];
        let (lba, sectors) = (Lba(first as u64 * 8), Sectors(count as u64 * 8));
        self.submit(Request::read(lba, sectors).with(Data::ReadStamps(&mut out))).unwrap();
        assert_eq!(out, self.wanted[first..first + count]);
    }
}

fn options(pairs: &[(&str, &str)]) -> LogOptions {
    let mut options = LogOptions::default();
    options.set("segment", "64 KiB").unwrap();
    pairs.iter().for_each(|(key, value)| options.set(key, value).unwrap());
    options
}

#[test]
fn the_stamp_that_was_written_last_is_read() {
    let all: [&[(&str, &str)]; 4] = [
        &[],
        &[("verify", "read"), ("gc.order", "lba")],
        &[("ack", "buffer"), ("buffer", "64 KiB")],
        &[("ack", "buffer"), ("buffer", "256 KiB"), ("verify", "read"), ("gc.batch", "3")],
    ];
    for pairs in all {
        let options = options(pairs);
        let mut client = Client::new(&options);
        (0..1_500).for_each(|_| client.step());
        client.log.check().unwrap();
        assert!(client.log.counters().gc > 100, "{:?}", client.log.counters());
        client.submit(Request::flush()).unwrap();
        let report = client.log.check_media().unwrap();
        assert_eq!((report.damaged, report.without_data), (Vec::new(), 0));
        assert!(report.checked > 100);
        let device = client.log.into_device();
        client.log = HostLog::open(device, client.at, &options).unwrap();
        assert_eq!(client.log.read_only(), None);
        client.at = client.log.now();
        (0..client.wanted.len()).step_by(7).for_each(|n| {
            let count = (client.wanted.len() - n).min(7);
            client.look(n, count);
        });
        (0..300).for_each(|_| client.step());
    }
}

#[test]
fn what_does_not_fit_the_request_is_refused_and_writes_nothing() {
    let mut client = Client::new(&options(&[]));
    let eight = Sectors(8);
    client.submit(Request::write(Lba(80), eight).with(Data::WriteStamps(&[7]))).unwrap();
    let before = *client.log.counters();
    let wrong: [(u64, u64, usize); 5] =
        [(80, 8, 2), (80, 16, 1), (84, 8, 1), (80, 12, 1), (80, 12, 2)];
    for (lba, sectors, count) in wrong {
        let stamps = vec![9; count];
        let write = Request::write(Lba(lba), Sectors(sectors)).with(Data::WriteStamps(&stamps));
        let refused = client.submit(write);
        assert!(matches!(refused, Err(DeviceError::Unsupported(_))), "{lba} {sectors} {count}");
        let mut out = vec![0; count];
        let read = Request::read(Lba(lba), Sectors(sectors)).with(Data::ReadStamps(&mut out));
        let refused = client.submit(read);
        assert!(matches!(refused, Err(DeviceError::Unsupported(_))), "{lba} {sectors} {count}");
    }
    for bytes in [0, 512, 4095, 4097, 8192] {
        let bytes = vec![9; bytes];
        let write = Request::write(Lba(80), eight).with(Data::Write(&bytes));
        assert!(matches!(client.submit(write), Err(DeviceError::Unsupported(_))));
    }
    assert_eq!(*client.log.counters(), before);
    client.wanted[10] = 7;
    client.look(8, 5);
}

#[test]
fn a_damaged_stamp_is_an_error_where_reads_are_verified() {
    let options = options(&[("verify", "read")]);
    let mut client = Client::new(&options);
    client.submit(Request::write(Lba(80), Sectors(16)).with(Data::WriteStamps(&[7, 8]))).unwrap();
    client.submit(Request::flush()).unwrap();
    client.wanted[10..12].copy_from_slice(&[7, 8]);
    client.look(10, 2);
    for held in client.log.device_mut().held.values_mut() {
        if let Held::Stamp(stamp @ 8) = held {
            *stamp = 9;
        }
    }
    client.look(10, 1);
    let mut out = [0; 2];
    let read = Request::read(Lba(80), Sectors(16)).with(Data::ReadStamps(&mut out));
    assert_eq!(client.submit(read), Err(DeviceError::Unreadable(Lba(88))));
}
