//! Perfetto's trace format, as far as a timeline needs it: protobuf messages of track events, names
//! interned. Field numbers are those of its published definitions (`TracePacket`, `TrackDescriptor`,
//! `TrackEvent`, `InternedData`).

/// A protobuf message being put together.
#[derive(Clone, Debug, Default)]
pub(super) struct Message(pub Vec<u8>);

/// How a field's value is written.
pub(super) const VARINT: u64 = 0;
pub(super) const FIXED64: u64 = 1;
pub(super) const BYTES: u64 = 2;

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
    /// A number.
    pub fn int(&mut self, field: u64, value: u64) {
        self.varint(field << 3 | VARINT);
        self.varint(value);
    }
    /// A number of eight bytes.
    pub fn fixed(&mut self, field: u64, value: u64) {
        self.varint(field << 3 | FIXED64);
        self.0.extend_from_slice(&value.to_le_bytes());
    }
    /// Bytes with their length: a text.
    pub fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | BYTES);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }
    /// A message within.
    pub fn message(&mut self, field: u64, make: impl FnOnce(&mut Message)) {
        let mut inner = Message::default();
        make(&mut inner);
        self.bytes(field, &inner.0);
    }
}

pub(super) const TRACE_PACKET: u64 = 1;

pub(super) mod packet {
    pub const TIMESTAMP: u64 = 8;
    pub const SEQUENCE: u64 = 10;
    pub const TRACK_EVENT: u64 = 11;
    pub const INTERNED: u64 = 12;
    pub const SEQUENCE_FLAGS: u64 = 13;
    pub const TRACK_DESCRIPTOR: u64 = 60;
}
pub(super) mod track {
    pub const UUID: u64 = 1;
    pub const NAME: u64 = 2;
    pub const PROCESS: u64 = 3;
    pub const PARENT: u64 = 5;
    pub const COUNTER: u64 = 8;
    pub const CHILD_ORDERING: u64 = 11;
    pub const RANK: u64 = 12;
}
pub(super) mod event {
    pub const CATEGORIES: u64 = 3;
    pub const ANNOTATIONS: u64 = 4;
    pub const TYPE: u64 = 9;
    pub const NAME: u64 = 10;
    pub const TRACK: u64 = 11;
    pub const COUNTER: u64 = 30;
    pub const FLOWS: u64 = 47;
}
/// Lists of interned names.
pub(super) mod interned {
    pub const CATEGORIES: u64 = 1;
    pub const EVENTS: u64 = 2;
    pub const ANNOTATIONS: u64 = 3;
}
/// A process, which a group of tracks is shown as.
pub(super) mod process {
    pub const PID: u64 = 1;
    pub const NAME: u64 = 6;
}
/// An interned name: its number and its text.
pub(super) mod name {
    pub const IID: u64 = 1;
    pub const TEXT: u64 = 2;
}
/// An annotation: the number of its name, its value.
pub(super) mod annotation {
    pub const NAME: u64 = 1;
    pub const VALUE: u64 = 3;
}

pub(super) const SLICE_BEGIN: u64 = 1;
pub(super) const SLICE_END: u64 = 2;
pub(super) const COUNTER_VALUE: u64 = 4;
const EXPLICIT: u64 = 3;
const STATE_CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;
/// All packets are of one sequence.
const ONE: u64 = 1;

/// The names of a trace, which events call by number: the place in its list and one.
pub(super) struct Names<'a> {
    pub categories: &'a [&'a str],
    pub events: &'a [&'a str],
    pub annotations: &'a [String],
}

/// A slice of a track.
pub(super) struct Slice<'a> {
    pub track: u64,
    pub start_ns: u64,
    pub end_ns: u64,
    /// Places in the lists of names.
    pub name: usize,
    pub category: usize,
    pub annotations: &'a [(usize, u64)],
    pub flows: &'a [u64],
}

/// A trace being written.
#[derive(Debug, Default)]
pub(super) struct Trace {
    out: Message,
}

impl Trace {
    /// A trace whose events take their names from these lists.
    pub fn new(names: &Names<'_>) -> Trace {
        let mut trace = Trace::default();
        trace.packet(STATE_CLEARED | NEEDS_STATE, |packet| {
            packet.message(packet::INTERNED, |lists| {
                let mut list = |field, iid: usize, text: &str| {
                    lists.message(field, |one| {
                        one.int(name::IID, iid as u64 + 1);
                        one.bytes(name::TEXT, text.as_bytes());
                    });
                };
                names
                    .categories
                    .iter()
                    .enumerate()
                    .for_each(|(i, name)| list(interned::CATEGORIES, i, name));
                names
                    .events
                    .iter()
                    .enumerate()
                    .for_each(|(i, name)| list(interned::EVENTS, i, name));
                names
                    .annotations
                    .iter()
                    .enumerate()
                    .for_each(|(i, name)| list(interned::ANNOTATIONS, i, name));
            });
        });
        trace
    }

    fn packet(&mut self, flags: u64, fill: impl FnOnce(&mut Message)) {
        self.out.message(TRACE_PACKET, |packet| {
            packet.int(packet::SEQUENCE, ONE);
            packet.int(packet::SEQUENCE_FLAGS, flags);
            fill(packet);
        });
    }

    /// A group of tracks, shown as a process of its own.
    pub fn group(&mut self, uuid: u64, name: &str) {
        self.packet(NEEDS_STATE, |packet| {
            packet.message(packet::TRACK_DESCRIPTOR, |track| {
                track.int(track::UUID, uuid);
                track.message(track::PROCESS, |of| {
                    of.int(process::PID, uuid);
                    of.bytes(process::NAME, name.as_bytes());
                });
                track.int(track::CHILD_ORDERING, EXPLICIT);
            });
        });
    }

    /// A track of slices or, if `counter`, of a number over time.
    pub fn track(&mut self, uuid: u64, group: u64, name: &str, rank: u64, counter: bool) {
        self.packet(NEEDS_STATE, |packet| {
            packet.message(packet::TRACK_DESCRIPTOR, |track| {
                track.int(track::UUID, uuid);
                track.int(track::PARENT, group);
                track.bytes(track::NAME, name.as_bytes());
                track.int(track::RANK, rank);
                if counter {
                    track.bytes(track::COUNTER, &[]);
                }
            });
        });
    }

    /// A slice. Slices of a track come in order and do not overlap.
    pub fn slice(&mut self, slice: &Slice<'_>) {
        self.packet(NEEDS_STATE, |packet| {
            packet.int(packet::TIMESTAMP, slice.start_ns);
            packet.message(packet::TRACK_EVENT, |event| {
                event.int(event::TYPE, SLICE_BEGIN);
                event.int(event::TRACK, slice.track);
                event.int(event::NAME, slice.name as u64 + 1);
                event.int(event::CATEGORIES, slice.category as u64 + 1);
                for (name, value) in slice.annotations {
                    event.message(event::ANNOTATIONS, |one| {
                        one.int(annotation::NAME, *name as u64 + 1);
                        one.int(annotation::VALUE, *value);
                    });
                }
                for flow in slice.flows {
                    event.fixed(event::FLOWS, *flow);
                }
            });
        });
        self.packet(NEEDS_STATE, |packet| {
            packet.int(packet::TIMESTAMP, slice.end_ns);
            packet.message(packet::TRACK_EVENT, |event| {
                event.int(event::TYPE, SLICE_END);
                event.int(event::TRACK, slice.track);
            });
        });
    }

    /// A value of a counter's track.
    pub fn count(&mut self, track: u64, at_ns: u64, value: u64) {
        self.packet(NEEDS_STATE, |packet| {
            packet.int(packet::TIMESTAMP, at_ns);
            packet.message(packet::TRACK_EVENT, |event| {
                event.int(event::TYPE, COUNTER_VALUE);
                event.int(event::TRACK, track);
                event.int(event::COUNTER, value);
            });
        });
    }

    /// The file.
    pub fn finish(self) -> Vec<u8> {
        self.out.0
    }
}
