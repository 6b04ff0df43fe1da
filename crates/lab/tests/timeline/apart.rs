//! A timeline taken apart, by a reader of protobuf that shares no code with what writes it.

use std::collections::BTreeMap;

/// The fields of a protobuf message: number, and a number or bytes.
#[derive(Debug)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        value |= u64::from(byte & 0x7F) << shift;
        shift += 7;
        if byte < 0x80 {
            return value;
        }
    }
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let field = match key & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => {
                let (number, rest) = bytes.split_at(8);
                bytes = rest;
                Field::Number(u64::from_le_bytes(number.try_into().unwrap()))
            }
            2 => {
                let length = varint(&mut bytes) as usize;
                let (inner, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(inner)
            }
            kind => panic!("wire type {kind}"),
        };
        all.push((key >> 3, field));
    }
    all
}

fn number(of: &[(u64, Field<'_>)], field: u64) -> Option<u64> {
    of.iter().find_map(|(at, value)| match value {
        Field::Number(value) if *at == field => Some(*value),
        _ => None,
    })
}

fn bytes<'a>(of: &[(u64, Field<'a>)], field: u64) -> impl Iterator<Item = &'a [u8]> {
    let all: Vec<&'a [u8]> = of
        .iter()
        .filter_map(|(at, value)| match value {
            Field::Bytes(bytes) if *at == field => Some(*bytes),
            _ => None,
        })
        .collect();
    all.into_iter()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[derive(Debug, Default)]
pub struct Apart {
    pub tracks: BTreeMap<u64, String>,
    /// By track: begin, end, name, flows, annotations.
    pub slices: BTreeMap<u64, Vec<Drawn>>,
    pub counts: BTreeMap<u64, usize>,
}

#[derive(Debug)]
pub struct Drawn {
    pub start: u64,
    pub end: u64,
    pub name: String,
    pub flows: Vec<u64>,
    pub notes: BTreeMap<String, u64>,
}

/// Takes a trace apart; every slice that begins ends, in its track, before the next begins.
pub fn read(file: &[u8]) -> Apart {
    let (mut read, mut names, mut notes) = (Apart::default(), BTreeMap::new(), BTreeMap::new());
    let mut open: BTreeMap<u64, Drawn> = BTreeMap::new();
    for (_, packet) in fields(file) {
        let Field::Bytes(packet) = packet else { panic!("a packet is a message") };
        let packet = fields(packet);
        for interned in bytes(&packet, 12) {
            let interned = fields(interned);
            for (list, into) in [(2, &mut names), (3, &mut notes)] {
                for one in bytes(&interned, list).map(fields) {
                    let name = bytes(&one, 2).next().map(text).unwrap();
                    into.insert(number(&one, 1).unwrap(), name);
                }
            }
        }
        for track in bytes(&packet, 60).map(fields) {
            let uuid = number(&track, 1).unwrap();
            let name = bytes(&track, 2).next().or_else(|| {
                bytes(&track, 3).next().and_then(|process| bytes(&fields(process), 6).next())
            });
            read.tracks.insert(uuid, name.map(text).unwrap());
        }
        let at = number(&packet, 8);
        for event in bytes(&packet, 11).map(fields) {
            let track = number(&event, 11).unwrap();
            assert!(read.tracks.contains_key(&track), "a track is described before it is used");
            match number(&event, 9).unwrap() {
                1 => {
                    let note = |one: &[u8]| {
                        let one = fields(one);
                        (notes[&number(&one, 1).unwrap()].clone(), number(&one, 3).unwrap())
                    };
                    let flows = event.iter().filter(|(field, _)| *field == 47);
                    let drawn = Drawn {
                        start: at.unwrap(),
                        end: 0,
                        name: String::clone(&names[&number(&event, 10).unwrap()]),
                        flows: flows
                            .map(|(_, flow)| match flow {
                                Field::Number(flow) => *flow,
                                Field::Bytes(_) => panic!("a flow is a number"),
                            })
                            .collect(),
                        notes: bytes(&event, 4).map(note).collect(),
                    };
                    assert!(open.insert(track, drawn).is_none(), "a slice within another");
                }
                2 => {
                    let mut drawn = open.remove(&track).expect("what ends has begun");
                    drawn.end = at.unwrap();
                    let slices = read.slices.entry(track).or_default();
                    let last = slices.last().map_or(0, |last| last.end);
                    assert!(drawn.start >= last && drawn.end >= drawn.start, "{drawn:?}");
                    slices.push(drawn);
                }
                4 => *read.counts.entry(track).or_default() += 1,
                kind => panic!("an event of type {kind}"),
            }
        }
    }
    assert!(open.is_empty(), "what begins ends");
    read
}

impl Apart {
    pub fn of<'a>(&'a self, part: &'a str) -> impl Iterator<Item = (&'a str, &'a [Drawn])> {
        let named = self.tracks.iter().filter(move |(_, name)| name.contains(part));
        named.filter_map(|(track, name)| Some((name.as_str(), self.slices.get(track)?.as_slice())))
    }
}
