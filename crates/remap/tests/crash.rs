//! Power cuts: what comes back is a prefix of what was submitted, with all that was flushed.

mod common;

use block::{BlockDevice, Request, Time};
use common::{CutDevice, Cuts, lba, sectors, small};
use varve_remap::HostLog;

fn cuts(seed: u64, rounds: u64, steps: u64, pairs: &[(&str, &str)]) {
    let mut cuts = Cuts::new(seed, pairs, None);
    for round in 0..rounds {
        cuts.round(round % 4, steps);
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
    for (seed, buffer) in (210..).zip(["4 KiB", "32 KiB", "64 KiB", "96 KiB", "8 MiB"]) {
        cuts(seed, 12, 1500, &[("ack", "buffer"), ("buffer", buffer)]);
        cuts(seed, 12, 400, &[("ack", "buffer"), ("buffer", buffer), ("gc.start", "50")]);
        let age = ("placement", "sepbit");
        cuts(seed, 12, 1500, &[("ack", "buffer"), ("buffer", buffer), age, ("reserve", "75")]);
    }
    cuts(201, 12, 1500, &[("verify", "read")]);
    cuts(202, 12, 1500, &[("gc.victim", "fifo"), ("gc.order", "lba")]);
    cuts(203, 12, 1500, &[("self_flush", "64 KiB"), ("segment", "128 KiB")]);
}

/// Several heads of a kind, also over a log that had one, and one over a log that had several.
#[test]
fn and_with_blocks_placed_by_their_age() {
    for (seed, placement) in (300..).zip(["sepbit", "auto", "sepbit", "known"]) {
        let reserve = if placement == "known" { "85" } else { "75" };
        let mut cuts = Cuts::new(seed, &[("placement", placement), ("reserve", reserve)], None);
        for round in 0..16 {
            cuts.round(round % 4, if round % 2 == 0 { 400 } else { 3000 });
            assert!(cuts.separates(placement), "{placement}: there was no room for its heads");
        }
        for placement in ["two", placement, "two"] {
            cuts.place(placement);
            (0..4).for_each(|round| cuts.round(round, 1500));
        }
    }
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
