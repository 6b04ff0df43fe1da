//! Overwrites always find room, however slow the device below is.

use block::{BlockDevice, DeviceError, Lba, Op, Request, Rng, Sectors, Span, Time};
use varve_remap::paper::{PaperLog, PaperOptions};
use varve_remap::{HostLog, LogOptions};

const READ: Span = Span::from_us(60);
/// What the buffer holds takes so long to write.
const BUFFER: Span = Span::from_us(20_000);

/// Keeps nothing: writes are answered from a volatile buffer while that has room, and end one after
/// the other; those of a block written just before take its place in the buffer.
struct Slow {
    blocks: u64,
    free: Time,
    write: Span,
    held: [Lba; 2],
}

impl Slow {
    fn new(blocks: u64, write: Span) -> Slow {
        Slow { blocks, free: Time::ZERO, write, held: [Lba(u64::MAX); 2] }
    }
}

impl BlockDevice for Slow {
    fn capacity(&self) -> Sectors {
        Sectors(self.blocks * 8)
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        match request.op {
            Op::Discard => Ok(at),
            // Ends when all before it has.
            Op::Flush => Ok(self.free.max(at)),
            Op::Read => Ok(at + READ),
            Op::Write => {
                let held = self.held.contains(&request.lba);
                if self.held[1] != request.lba {
                    self.held = [self.held[1], request.lba];
                }
                if held {
                    return Ok(at);
                }
                let pages = request.sectors.0 / 8;
                self.free = self.free.max(at) + self.write.times(pages);
                let backlog = self.free.since(at);
                Ok(at + Span::from_ps(backlog.as_ps().saturating_sub(BUFFER.as_ps())))
            }
        }
    }
}

fn options(pairs: &[(&str, &str)]) -> LogOptions {
    let mut options = LogOptions::default();
    for (key, value) in pairs {
        options.set(key, value).unwrap();
    }
    options
}

#[test]
fn random_overwrites_find_room_while_requests_overtake_flushes() {
    for (segment, mib, write) in
        [("512 KiB", 256u64, 10), ("512 KiB", 1024, 10), ("64 KiB", 64, 50)]
    {
        let device = Slow::new(mib * 256, Span::from_us(write));
        let options = options(&[("segment", segment), ("payload", "none")]);
        let mut log = HostLog::format(device, &options).unwrap();
        let blocks = mib * 256 * 7 / 10;
        let mut ends = vec![log.now(); 32];
        let mut at = log.now();
        for block in (0..blocks).step_by(32) {
            let n = 32.min(blocks - block);
            at = log.submit(at, Request::write(Lba(block * 8), Sectors(n * 8))).unwrap();
        }
        let mut rng = Rng::stream(1, "room");
        for i in 0..3 * blocks {
            // 32 in flight.
            let slot = (0..32).min_by_key(|s| ends[*s]).unwrap();
            at = at.max(ends[slot]);
            let request = Request::write(Lba(rng.below(blocks) * 8), Sectors(8));
            let answer = log.submit(at, request);
            ends[slot] =
                answer.unwrap_or_else(|e| panic!("{segment} of {mib} MiB, write {i}: {e}"));
        }
        log.check().unwrap();
    }
}

/// Paper mode once moved blocks behind the host's back without end: the host never waited.
#[test]
fn paper_mode_cleans_no_further_ahead_than_the_device_can_follow() {
    let device = Slow::new(64 * 256, Span::from_us(200));
    let options = PaperOptions { payload: false, ..PaperOptions::default() };
    let mut log = PaperLog::format(device, &options).unwrap();
    let blocks = log.capacity().0 / 8 * 99 / 100;
    let mut at = log.now();
    for block in 0..blocks {
        at = log.submit(at, Request::write(Lba(block * 8), Sectors(8))).unwrap();
    }
    let mut rng = Rng::stream(1, "paper room");
    for i in 0..2 * blocks {
        let request = Request::write(Lba(rng.below(blocks) * 8), Sectors(8));
        at = at.max(log.submit(at, request).unwrap());
        let ahead = log.device().free.since(at);
        assert!(ahead <= BUFFER.times(2), "write {i}: the device is {ahead:?} behind");
    }
}
