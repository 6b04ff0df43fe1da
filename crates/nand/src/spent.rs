//! What a request's time went to, by cause.

use std::fmt;

use block::Span;

use crate::{Cause, ReadCause};

/// What the time of a request went to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Spent {
    /// In the host's queue: the device takes so many commands at a time.
    Queue = 0,
    /// The controller's firmware: core time and the wait for a core, latency, completion.
    Firmware = 1,
    /// The link to the host, and the wait for it.
    Link = 2,
    /// The buffer's memory, and the wait for its port.
    Dram = 3,
    /// The wait for a channel, or a page register, that others use.
    Bus = 4,
    /// The die read data of other requests.
    HostRead = 5,
    /// The die programmed data of other requests: for a write whose data is in the buffer, that
    /// is the buffer's stall.
    HostProgram = 6,
    /// Cleaning: its reads and its copies.
    Gc = 7,
    /// Translation pages of a demand-paged map.
    Map = 8,
    /// Erases.
    Erase = 9,
    /// Checkpoints, records and padding of the drive itself.
    Metadata = 10,
    /// Flash operations for data of the request itself: sense, program, transfer.
    Own = 11,
    /// None of the drive's operations ended then: a layer above, or a rule of the drive, let time
    /// pass.
    Other = 12,
}

impl Spent {
    /// How many there are.
    pub const COUNT: usize = 13;

    /// All of them, in order of the discriminants.
    pub const ALL: [Spent; Spent::COUNT] = [
        Spent::Queue,
        Spent::Firmware,
        Spent::Link,
        Spent::Dram,
        Spent::Bus,
        Spent::HostRead,
        Spent::HostProgram,
        Spent::Gc,
        Spent::Map,
        Spent::Erase,
        Spent::Metadata,
        Spent::Own,
        Spent::Other,
    ];

    /// Names in documents, in order of the discriminants.
    pub const NAMES: [&str; Spent::COUNT] = [
        "queue",
        "firmware",
        "link",
        "dram",
        "bus",
        "host_read",
        "host_program",
        "gc",
        "map",
        "erase",
        "metadata",
        "own",
        "other",
    ];

    /// The name.
    pub const fn name(self) -> &'static str {
        Spent::NAMES[self as usize]
    }
}

/// A length of time by what it went to. Parts are spans, so they sum exactly.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Breakdown([Span; Spent::COUNT]);

impl Breakdown {
    /// Adds time to a cause.
    pub fn add(&mut self, to: Spent, span: Span) {
        self.0[to as usize] += span;
    }
    /// The part of a cause.
    pub fn of(&self, cause: Spent) -> Span {
        self.0[cause as usize]
    }
    /// The sum of all parts.
    pub fn total(&self) -> Span {
        self.0.iter().fold(Span::ZERO, |sum, part| sum + *part)
    }
    /// Every cause with its part.
    pub fn parts(&self) -> impl Iterator<Item = (Spent, Span)> + '_ {
        Spent::ALL.into_iter().zip(self.0)
    }
    /// Every part in whole nanoseconds, which sum to those of the total rounded down: each is the
    /// difference of two sums.
    pub fn in_ns(&self) -> [u64; Spent::COUNT] {
        let (mut sum, mut parts) = (Span::ZERO, [0; Spent::COUNT]);
        for (ns, part) in parts.iter_mut().zip(self.0) {
            let before = sum.as_ns();
            sum += part;
            *ns = sum.as_ns() - before;
        }
        parts
    }
}

impl fmt::Debug for Breakdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let some = self.parts().filter(|(_, span)| *span > Span::ZERO);
        f.debug_map().entries(some.map(|(cause, span)| (cause.name(), span))).finish()
    }
}

/// What a flash operation does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Reads pages.
    Read(ReadCause),
    /// Programs pages.
    Program(Cause),
    /// Erases a block.
    Erase,
}

impl Work {
    /// How many kinds there are, for tables of counts.
    pub const KINDS: usize = ReadCause::NAMES.len() + Cause::NAMES.len() + 1;

    /// All kinds, in the order of their places.
    pub const ALL: [Work; Work::KINDS] = [
        Work::Read(ReadCause::Host),
        Work::Read(ReadCause::Gc),
        Work::Read(ReadCause::Tx),
        Work::Read(ReadCause::Map),
        Work::Read(ReadCause::Metadata),
        Work::Read(ReadCause::Rmw),
        Work::Read(ReadCause::Recovery),
        Work::Program(Cause::Host),
        Work::Program(Cause::Gc),
        Work::Program(Cause::Tx),
        Work::Program(Cause::Map),
        Work::Program(Cause::Metadata),
        Work::Program(Cause::Padding),
        Work::Erase,
    ];

    /// Its place in a table of counts.
    pub fn index(self) -> usize {
        match self {
            Work::Read(cause) => cause as usize,
            Work::Program(cause) => ReadCause::NAMES.len() + cause as usize,
            Work::Erase => Work::KINDS - 1,
        }
    }

    /// For people: `gc program`.
    pub fn label(self) -> &'static str {
        match self {
            Work::Read(ReadCause::Host) => "host read",
            Work::Read(ReadCause::Gc) => "gc read",
            Work::Read(ReadCause::Tx) => "tx read",
            Work::Read(ReadCause::Map) => "map read",
            Work::Read(ReadCause::Metadata) => "metadata read",
            Work::Read(ReadCause::Rmw) => "rmw read",
            Work::Read(ReadCause::Recovery) => "recovery read",
            Work::Program(Cause::Host) => "host program",
            Work::Program(Cause::Gc) => "gc program",
            Work::Program(Cause::Tx) => "tx program",
            Work::Program(Cause::Map) => "map program",
            Work::Program(Cause::Metadata) => "metadata program",
            Work::Program(Cause::Padding) => "padding program",
            Work::Erase => "erase",
        }
    }

    /// What the time that it takes counts as; `own` if the request ordered it.
    pub fn spent(self, own: bool) -> Spent {
        match self {
            Work::Read(ReadCause::Host | ReadCause::Rmw) | Work::Program(Cause::Host) if own => {
                Spent::Own
            }
            Work::Read(ReadCause::Host | ReadCause::Rmw) => Spent::HostRead,
            Work::Program(Cause::Host) => Spent::HostProgram,
            Work::Read(ReadCause::Gc) | Work::Program(Cause::Gc) => Spent::Gc,
            Work::Read(ReadCause::Map) | Work::Program(Cause::Map) => Spent::Map,
            Work::Erase => Spent::Erase,
            Work::Read(ReadCause::Tx | ReadCause::Metadata | ReadCause::Recovery)
            | Work::Program(Cause::Tx | Cause::Metadata | Cause::Padding) => Spent::Metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use block::Rng;

    use super::*;

    #[test]
    fn whole_nanoseconds_sum_to_the_whole_nanoseconds_of_the_total() {
        let mut rng = Rng::new(5);
        for _ in 0..1_000 {
            let mut parts = Breakdown::default();
            for cause in Spent::ALL {
                parts.add(cause, Span::from_ps(rng.below(5_000)));
            }
            assert_eq!(parts.in_ns().iter().sum::<u64>(), parts.total().as_ns());
        }
    }

    #[test]
    fn names_and_places_are_those_of_the_causes() {
        for (i, cause) in Spent::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, i);
        }
        for (i, work) in Work::ALL.into_iter().enumerate() {
            assert_eq!(work.index(), i);
            let name = match work {
                Work::Read(cause) => format!("{} read", ReadCause::NAMES[cause as usize]),
                Work::Program(cause) => format!("{} program", Cause::NAMES[cause as usize]),
                Work::Erase => "erase".to_string(),
            };
            assert_eq!(work.label(), name);
        }
    }
}
