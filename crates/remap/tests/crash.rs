//! Power cuts: what comes back is a prefix of what was submitted, with all that was flushed.

mod common;

use block::{BlockDevice, Request, Rng, Time};
use common::{CutDevice, Oracle, lba, random_step, read_all, sectors, small};
use remap::{HostLog, Options};

/// Runs until the device has done `cut` more writes and flushes; returns the device, off.
fn run_until(
    mut log: HostLog<CutDevice>,
    oracle: &mut Oracle,
    rng: &mut Rng,
    cut: u64,
) -> CutDevice {
    log.device_mut().left = Some(cut);
    let hot = log.engine().geometry().logical;
    loop {
        let at = log.now();
        if random_step(&mut log, at, oracle, rng, hot).is_err() {
            return log.into_device();
        }
    }
}

/// Opens after a cut, with more cuts inside recovery.
fn open(
    mut device: CutDevice,
    options: &Options,
    rng: &mut Rng,
    nested: u32,
) -> HostLog<CutDevice> {
    for _ in 0..nested {
        device.left = Some(rng.below(12));
        let copy = device.clone();
        match HostLog::open(device, Time::ZERO, options) {
            Ok(log) => return log,
            // What the cut left behind is in the device that was lost with the error; a copy that
            // did the same operations stands for it.
            Err(_) => {
                device = replay_open(copy, options).power_cycle(rng.next_u64());
            }
        }
    }
    device.left = None;
    HostLog::open(device, Time::ZERO, options).unwrap()
}

/// A device that is lent: it comes back when the log fails to open.
struct Lent<'a>(&'a mut CutDevice);

impl BlockDevice for Lent<'_> {
    fn capacity(&self) -> block::Sectors {
        self.0.capacity()
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, block::DeviceError> {
        self.0.submit(at, request)
    }
}

fn replay_open(mut device: CutDevice, options: &Options) -> CutDevice {
    assert!(HostLog::open(Lent(&mut device), Time::ZERO, options).is_err());
    device
}

fn cuts(seed: u64, rounds: u64, steps: u64, pairs: &[(&str, &str)]) {
    let options = small(pairs);
    let mut rng = Rng::stream(seed, "crash");
    let mut log = HostLog::format(CutDevice::new(1000), &options).unwrap();
    let mut oracle = Oracle::default();
    for round in 0..rounds {
        let cut = rng.below(steps);
        let device = run_until(log, &mut oracle, &mut rng, cut);
        log = open(device.power_cycle(rng.next_u64()), &options, &mut rng, (round % 4) as u32);
        assert_eq!(log.read_only(), None, "seed {seed} round {round}: {:?}", log.summary());
        log.check().unwrap();
        let at = log.now();
        let found = read_all(&mut log, at);
        let n = oracle.prefix(&found);
        // What was dropped never happened: versions are numbers of requests, so they go on from
        // the whole list, and the oracle forgets the rest.
        oracle.done.truncate(n);
        oracle.durable = n;
        let blocks = found.len() as u32;
        assert_eq!(found, oracle.state(n, blocks));
    }
}

#[test]
fn after_a_cut_the_state_is_a_prefix_that_holds_all_that_was_flushed() {
    for seed in 0..24 {
        cuts(seed, 20, 400, &[]);
    }
}

#[test]
fn and_so_it_is_when_cleaning_is_under_way_all_the_time() {
    for seed in 100..112 {
        cuts(seed, 12, 3000, &[]);
    }
}

#[test]
fn and_with_a_buffer_a_crc_plane_or_other_policies() {
    cuts(200, 12, 1500, &[("ack", "buffer"), ("buffer", "96 KiB")]);
    cuts(201, 12, 1500, &[("verify", "read")]);
    cuts(202, 12, 1500, &[("gc.policy", "fifo"), ("gc.order", "lba")]);
    cuts(203, 12, 1500, &[("self_flush", "64 KiB"), ("segment", "128 KiB")]);
}

#[test]
fn damage_of_what_was_flushed_is_found_and_nothing_is_written_then() {
    let options = small(&[]);
    let mut log = HostLog::format(CutDevice::new(1000), &options).unwrap();
    for i in 0..6 {
        let ones = vec![i as u8 + 1; 4096];
        let write = Request::write(lba(i), sectors(1)).with(block::Data::Write(&ones));
        log.submit(Time::ZERO, write).unwrap();
        log.submit(Time::ZERO, Request::flush()).unwrap();
    }
    let first = log.engine().geometry().first;
    let mut device = log.into_device().power_cycle(0);
    // The header of the second record: later headers say that it was flushed.
    device.damage(first + 2);
    let mut log = HostLog::open(device, Time::ZERO, &options).unwrap();
    assert!(log.read_only().is_some_and(|why| why.contains("record 2")), "{:?}", log.read_only());
    let write = log.submit(Time::ZERO, Request::write(lba(0), sectors(1)));
    assert!(matches!(write, Err(block::DeviceError::ReadOnly(_))), "{write:?}");
}
