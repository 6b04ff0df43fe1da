//! Protobuf messages taken apart: their fields, and the byte of the file at which each stands.
//!
//! Invariants: nothing is read beyond the message; what is no message ends in an error that says where,
//! what was found and what was expected, never in a panic; a text is UTF-8.

use std::fmt;

use super::proto::{BYTES, FIXED64, VARINT};

/// Four bytes: nothing of ours is written so, and it is passed over.
const FIXED32: u64 = 5;

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    /// The byte of the file.
    pub at: usize,
    /// What stands there.
    pub found: String,
    pub expected: String,
}

impl Wrong {
    pub fn new(at: usize, found: impl Into<String>, expected: impl Into<String>) -> Wrong {
        Wrong { at, found: found.into(), expected: expected.into() }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}: expected {}", self.at, self.found, self.expected)
    }
}

/// A message or a text, and where it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    bytes: &'a [u8],
    pub at: usize,
}

/// What a field holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Held<'a> {
    Number(u64),
    Part(Part<'a>),
}

/// A field, and where it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a> {
    pub number: u64,
    pub at: usize,
    held: Held<'a>,
}

impl<'a> Field<'a> {
    /// Its number; `what` is what it should be.
    pub fn value(&self, what: &str) -> Result<u64, Wrong> {
        match self.held {
            Held::Number(value) => Ok(value),
            Held::Part(_) => Err(Wrong::new(self.at, "bytes", format!("a number: {what}"))),
        }
    }
    /// Its message; `what` is what it should be.
    pub fn part(&self, what: &str) -> Result<Part<'a>, Wrong> {
        match self.held {
            Held::Part(part) => Ok(part),
            Held::Number(value) => {
                Err(Wrong::new(self.at, format!("the number {value}"), format!("bytes: {what}")))
            }
        }
    }
}

impl<'a> Part<'a> {
    /// All of a file.
    pub fn file(bytes: &'a [u8]) -> Part<'a> {
        Part { bytes, at: 0 }
    }
    pub fn text(&self) -> Result<&'a str, Wrong> {
        std::str::from_utf8(self.bytes).map_err(|error| {
            Wrong::new(self.at + error.valid_up_to(), "bytes that are no UTF-8", "a text")
        })
    }
    /// Its fields, in their order; the first error is the last item.
    pub fn fields(self) -> Fields<'a> {
        Fields { rest: self.bytes, at: self.at }
    }
}

/// The fields of a message.
#[derive(Clone, Debug)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    fn take(&mut self, count: u64, what: &str) -> Result<&'a [u8], Wrong> {
        let left = self.rest.len();
        let count =
            usize::try_from(count).ok().filter(|count| *count <= left).ok_or_else(|| {
                let found = format!("{left} bytes are left");
                Wrong::new(self.at, found, format!("{count} bytes of {what}"))
            })?;
        let (taken, rest) = self.rest.split_at(count);
        (self.rest, self.at) = (rest, self.at + count);
        Ok(taken)
    }

    fn varint(&mut self, what: &str) -> Result<u64, Wrong> {
        let (begin, mut value) = (self.at, 0_u64);
        for shift in (0..64).step_by(7) {
            let byte = self.take(1, what)?[0];
            let bits = u64::from(byte & 0x7F);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Wrong::new(begin, "a number of more than 64 bits", what))
    }

    fn field(&mut self) -> Result<Field<'a>, Wrong> {
        let at = self.at;
        let key = self.varint("the key of a field")?;
        let number = key >> 3;
        if number == 0 {
            return Err(Wrong::new(at, "field 0", "the key of a protobuf field"));
        }
        let held = match key & 7 {
            VARINT => Held::Number(self.varint("a field's value")?),
            FIXED64 => {
                let bytes = self.take(8, "a number")?;
                Held::Number(
                    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)),
                )
            }
            BYTES => {
                let length = self.varint("a length")?;
                let begin = self.at;
                Held::Part(Part { bytes: self.take(length, "a field")?, at: begin })
            }
            FIXED32 => {
                let bytes = self.take(4, "a number")?;
                Held::Number(
                    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)),
                )
            }
            kind => {
                let found = format!("a field of wire type {kind}");
                return Err(Wrong::new(at, found, "the key of a protobuf field"));
            }
        };
        Ok(Field { number, at, held })
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Wrong>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::super::proto::Message;
    use super::*;

    fn all(bytes: &[u8]) -> Result<Vec<Field<'_>>, Wrong> {
        Part::file(bytes).fields().collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let values = [0, 1, 0x7F, 0x80, 300, u64::from(u32::MAX), 1 << 62, u64::MAX - 1, u64::MAX];
        for value in values {
            let mut message = Message::default();
            message.int(8, value);
            message.fixed(47, value);
            message.bytes(60, "a name, µ".as_bytes());
            let fields = all(&message.0).unwrap();
            let numbers: Vec<u64> = fields.iter().map(|field| field.number).collect();
            assert_eq!(numbers, [8, 47, 60]);
            assert_eq!(fields[0].value("").unwrap(), value);
            assert_eq!(fields[1].value("").unwrap(), value);
            let part = fields[2].part("").unwrap();
            assert_eq!(part.text().unwrap(), "a name, µ");
            assert_eq!(part.at, message.0.len() - "a name, µ".len());
            assert!(fields[0].part("").is_err() && fields[2].value("").is_err());
        }
    }

    #[test]
    fn every_cut_is_told_with_its_place() {
        let mut message = Message::default();
        message.int(8, 1 << 40);
        message.fixed(47, 9);
        message.bytes(60, b"name");
        let ends: Vec<usize> = all(&message.0).unwrap().iter().map(|field| field.at).collect();
        for cut in 0..message.0.len() {
            let read = all(&message.0[..cut]);
            // Between two fields there is nothing to be missed.
            assert_eq!(read.is_ok(), ends.contains(&cut), "{cut}: {read:?}");
            if let Err(wrong) = read {
                assert!(wrong.at <= cut, "{wrong}");
            }
        }
    }

    #[test]
    fn what_is_no_message_is_told() {
        let cases: [(&[u8], usize, &str); 6] = [
            (&[0x00], 0, "field 0"),
            (&[0x0B], 0, "wire type 3"),
            (&[0x08, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02], 1, "64 bits"),
            (&[0x0A, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 1], 6, "1 bytes are left: expected 4294967295"),
            (&[0x09, 1, 2], 1, "2 bytes are left: expected 8 bytes"),
            (&[0x08], 1, "0 bytes are left"),
        ];
        for (bytes, at, said) in cases {
            let wrong = all(bytes).unwrap_err();
            assert!(wrong.at == at && wrong.to_string().contains(said), "{wrong}");
        }
        let wrong = Part::file(&[b'a', 0xFF]).text().unwrap_err();
        assert_eq!(wrong.at, 1, "{wrong}");
    }

    #[test]
    fn drawn_bytes_end_in_fields_or_an_error() {
        let mut rng = block::Rng::new(22);
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..rng.below(40)).map(|_| rng.below(256) as u8).collect();
            let mut at = 0;
            for field in Part::file(&bytes).fields() {
                let Ok(field) = field else { break };
                assert!(field.at >= at && field.at < bytes.len());
                at = field.at + 1;
            }
        }
    }
}
