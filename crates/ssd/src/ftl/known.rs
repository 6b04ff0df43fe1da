//! What somebody else knows of the host's pages: a study that has seen the run before knows when each
//! version dies, which no drive can. It takes the place of the hint of a write, with
//! `streams.policy = hint`, and nothing else: what is decided by it is the head that a page goes to.
//!
//! It is told of every version in the order in which they get their places, so that it may keep count.

use std::fmt::Debug;

use block::{DeviceError, Lpn};

use super::PageFtl;
use crate::config::Streams;

/// See above. Streams are numbered from 0; a number that is too high is the last one.
pub trait Known: Debug + Send + Sync {
    /// The host writes a mapping slot: the stream of this version.
    fn written(&mut self, slot: Lpn) -> u8;
    /// Cleaning copies a slot: the stream of the copy.
    fn moved(&self, slot: Lpn) -> u8;
    /// The same, for a copy of the drive.
    fn boxed(&self) -> Box<dyn Known>;
}

/// A place for somebody who knows.
#[derive(Debug, Default)]
pub(super) struct Oracle(pub(super) Option<Box<dyn Known>>);

impl Clone for Oracle {
    fn clone(&self) -> Oracle {
        Oracle(self.0.as_ref().map(|known| known.boxed()))
    }
}

impl PageFtl {
    /// Streams are told by somebody who knows from here on; not after the next power-on.
    pub fn know(&mut self, known: Box<dyn Known>) -> Result<(), DeviceError> {
        if self.p.streams != Streams::Hint || !self.p.gc.per_stream {
            return Err(DeviceError::Unsupported(
                "what is known of pages decides between the heads of streams.policy = hint with \
                 gc.per_stream",
            ));
        }
        self.known = Oracle(Some(known));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use block::{BlockDevice, Lba, Request, Rng, Sectors, Time};

    use super::*;
    use crate::Drive;
    use crate::config::Config;

    /// The first pages are written again soon.
    #[derive(Clone, Debug)]
    struct First(u32);

    impl Known for First {
        fn written(&mut self, slot: Lpn) -> u8 {
            u8::from(slot.0 >= self.0)
        }
        fn moved(&self, slot: Lpn) -> u8 {
            u8::from(slot.0 >= self.0)
        }
        fn boxed(&self) -> Box<dyn Known> {
            Box::new(self.clone())
        }
    }

    const HOT: u64 = 256;
    const PAGES: u64 = 4096;

    fn drive(more: &[&str]) -> Drive {
        let mut config = Config::default();
        let keys = [
            "capacity=16 MiB",
            "op=28 %",
            "geometry.channels=1",
            "geometry.dies=1",
            "geometry.planes=1",
            "geometry.pages=16",
            "nand.oob=full",
            "buffer.policy=none",
            "timing=off",
        ];
        for pair in keys.iter().chain(more) {
            config.set_pair(pair).unwrap();
        }
        let mut drive = Drive::new(&config.resolve().unwrap()).unwrap();
        for page in 0..PAGES {
            write(&mut drive, page);
        }
        drive
    }

    fn write(drive: &mut Drive, page: u64) {
        drive.submit(Time::ZERO, Request::write(Lba(8 * page), Sectors(8))).unwrap();
    }

    /// Every other write is of a hot page; what was copied.
    fn copies(drive: &mut Drive) -> u64 {
        let mut rng = Rng::stream(1, "known");
        drive.reset_stats();
        for _ in 0..10_000 {
            write(drive, rng.below(HOT));
            write(drive, HOT + rng.below(PAGES - HOT));
        }
        drive.check().unwrap();
        drive.stats().nand.programs[nand::Cause::Gc as usize]
    }

    const HINTS: [&str; 3] = ["streams.policy=hint", "streams.count=2", "gc.per_stream=on"];

    #[test]
    fn who_knows_what_dies_together_has_less_copied() {
        let mut knowing = drive(&HINTS);
        knowing.know(Box::new(First(HOT as u32))).unwrap();
        let mut again = knowing.clone();
        let (with, without) = (copies(&mut knowing), copies(&mut drive(&HINTS)));
        assert!(10 * with < 9 * without, "{with} with, {without} without");
        assert_eq!(copies(&mut again), with, "a copy of the drive knows as much");
    }

    #[test]
    fn a_drive_without_streams_by_hint_is_told_nothing() {
        for keys in [&[][..], &HINTS[..2]] {
            let error = drive(keys).know(Box::new(First(1))).unwrap_err();
            assert!(error.to_string().contains("streams.policy = hint"), "{error}");
        }
    }
}
