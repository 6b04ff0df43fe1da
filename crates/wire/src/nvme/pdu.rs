//! PDUs as bytes: headers, their digests, and what speaks against one.
//!
//! Pure: bytes in, bytes or a reason out. All fields are little-endian; a digest is CRC32C.

/// Bytes of the header that all PDUs begin with.
pub const COMMON: usize = 8;
/// Bytes of a digest.
pub const DIGEST: usize = 4;
/// Bytes of a command.
pub const SQE: usize = 64;
/// Bytes of a completion.
pub const CQE: usize = 16;
/// Bytes of both PDUs that begin a connection.
pub const INITIALIZE: usize = 128;
/// Bytes of the header of those that carry or ask for data.
pub const DATA_HEAD: usize = 24;
/// Bytes of a PDU that ends a connection at most.
pub const TERMINATE: usize = 24 + 128;

/// Kinds of PDUs.
pub mod kind {
    /// The host begins.
    pub const INITIALIZE_REQUEST: u8 = 0;
    /// The controller agrees.
    pub const INITIALIZE_RESPONSE: u8 = 1;
    /// The host ends the connection.
    pub const HOST_TERMINATE: u8 = 2;
    /// The controller ends the connection.
    pub const CONTROLLER_TERMINATE: u8 = 3;
    /// A command.
    pub const COMMAND: u8 = 4;
    /// A completion.
    pub const RESPONSE: u8 = 5;
    /// Data to the controller.
    pub const HOST_DATA: u8 = 6;
    /// Data to the host.
    pub const CONTROLLER_DATA: u8 = 7;
    /// The controller is ready for data.
    pub const READY: u8 = 9;
}

/// Flags of PDUs.
pub mod flag {
    /// A header digest is there.
    pub const HEADER_DIGEST: u8 = 1;
    /// A data digest is there.
    pub const DATA_DIGEST: u8 = 1 << 1;
    /// The last PDU of a transfer.
    pub const LAST: u8 = 1 << 2;
    /// The command has succeeded, and no completion follows.
    pub const SUCCESS: u8 = 1 << 3;
}

/// Why a connection is ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Fatal {
    /// A field of a header.
    Header = 1,
    /// It may not come now.
    Sequence = 2,
    /// The digest of a header differs.
    HeaderDigest = 3,
    /// Data beyond what was asked for.
    Range = 4,
    /// More than may be under way.
    Limit = 5,
    /// What is not offered here.
    Parameter = 6,
}

/// A reason, and the byte of the header that it is about.
pub type Reason = (Fatal, u32);

/// Little-endian numbers.
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}
/// The same.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}
/// The same.
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
/// Puts bytes where they belong.
pub fn put(into: &mut [u8], at: usize, bytes: &[u8]) {
    into[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Which digests were agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Digests {
    /// Of headers.
    pub header: bool,
    /// Of data.
    pub data: bool,
}

impl Digests {
    /// Both or neither.
    pub const fn both(on: bool) -> Digests {
        Digests { header: on, data: on }
    }
    /// As the beginning of a connection says it.
    pub fn bits(self) -> u8 {
        u8::from(self.header) | u8::from(self.data) << 1
    }
    /// The reverse; `None`: other bits are set.
    pub fn of_bits(bits: u8) -> Option<Digests> {
        (bits < 4).then_some(Digests { header: bits & 1 != 0, data: bits & 2 != 0 })
    }
    /// Bytes behind a header.
    pub fn header_bytes(self) -> usize {
        if self.header { DIGEST } else { 0 }
    }
    /// Bytes behind data.
    pub fn data_bytes(self) -> usize {
        if self.data { DIGEST } else { 0 }
    }
}

/// The header that all PDUs begin with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Common {
    /// [`kind`].
    pub kind: u8,
    /// [`flag`].
    pub flags: u8,
    /// Bytes of the header.
    pub header: u8,
    /// Where data begins.
    pub data_at: u8,
    /// Bytes of all of it.
    pub length: u32,
}

impl Common {
    /// From bytes.
    pub fn decode(bytes: &[u8; COMMON]) -> Common {
        Common {
            kind: bytes[0],
            flags: bytes[1],
            header: bytes[2],
            data_at: bytes[3],
            length: u32_at(bytes, 4),
        }
    }

    /// As bytes.
    pub fn encode(self) -> [u8; COMMON] {
        let n = self.length.to_le_bytes();
        [self.kind, self.flags, self.header, self.data_at, n[0], n[1], n[2], n[3]]
    }

    /// Whether a PDU of this kind may look so: `most` bytes of data at most. Returns bytes of data.
    ///
    /// # Errors
    /// The field that is wrong.
    pub fn check(self, header: usize, digests: Digests, most: usize) -> Result<usize, Reason> {
        let wrong = |at| Err((Fatal::Header, at));
        if usize::from(self.header) != header {
            return wrong(2);
        }
        if (self.flags & flag::HEADER_DIGEST != 0) != digests.header {
            return wrong(1);
        }
        let (length, bare) = (self.length as usize, header + digests.header_bytes());
        if length == bare {
            // Without data there is no digest of it.
            return if self.flags & flag::DATA_DIGEST != 0 { wrong(1) } else { Ok(0) };
        }
        if (self.flags & flag::DATA_DIGEST != 0) != digests.data {
            return wrong(1);
        }
        let around = bare + digests.data_bytes();
        // We ask for no padding (CPDA 0): data begins at once.
        if length < around {
            return wrong(4);
        }
        if usize::from(self.data_at) != bare {
            return wrong(3);
        }
        if length - around > most {
            return wrong(4);
        }
        Ok(length - around)
    }
}

/// Whether the digest behind a header is its.
pub fn header_digest_fits(pdu: &[u8], header: usize) -> bool {
    pdu.get(header..header + DIGEST)
        .is_some_and(|found| u32_at(found, 0) == block::crc32c(0, &pdu[..header]))
}

/// A header with its digest, if there is to be one: bytes, and how many count.
pub type Head = ([u8; INITIALIZE], usize);

fn seal(mut bytes: [u8; INITIALIZE], header: usize, digests: Digests) -> Head {
    if !digests.header {
        return (bytes, header);
    }
    let crc = block::crc32c(0, &bytes[..header]);
    put(&mut bytes, header, &crc.to_le_bytes());
    (bytes, header + DIGEST)
}

fn head(kind: u8, flags: u8, header: usize, data: usize, digests: Digests) -> [u8; INITIALIZE] {
    let bare = header + digests.header_bytes();
    let mut flags = flags | if digests.header { flag::HEADER_DIGEST } else { 0 };
    let (mut length, mut data_at) = (bare, 0);
    if data > 0 {
        length += data + digests.data_bytes();
        data_at = bare;
        flags |= if digests.data { flag::DATA_DIGEST } else { 0 };
    }
    let common =
        Common { kind, flags, header: header as u8, data_at: data_at as u8, length: length as u32 };
    let mut bytes = [0; INITIALIZE];
    put(&mut bytes, 0, &common.encode());
    bytes
}

/// The PDU that begins a connection, from either side: digests, and what fits into one PDU of data to the
/// controller (0 from the host).
pub fn initialize(kind: u8, digests: Digests, most: u32) -> [u8; INITIALIZE] {
    let mut bytes = head(kind, 0, INITIALIZE, 0, Digests::default());
    bytes[11] = digests.bits();
    put(&mut bytes, 12, &most.to_le_bytes());
    bytes
}

/// A completion.
pub fn response(cqe: &[u8; CQE], digests: Digests) -> Head {
    let mut bytes = head(kind::RESPONSE, 0, COMMON + CQE, 0, digests);
    put(&mut bytes, COMMON, cqe);
    seal(bytes, COMMON + CQE, digests)
}

/// A command with this many bytes of data behind it.
pub fn command(sqe: &[u8; SQE], data: usize, digests: Digests) -> Head {
    let mut bytes = head(kind::COMMAND, 0, COMMON + SQE, data, digests);
    put(&mut bytes, COMMON, sqe);
    seal(bytes, COMMON + SQE, digests)
}

/// A part of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The command.
    pub cid: u16,
    /// The controller's name for the transfer; 0 in data to the host.
    pub tag: u16,
    /// Where it begins in the transfer.
    pub at: u32,
    /// Bytes.
    pub bytes: u32,
}

impl Part {
    /// From a header.
    pub fn decode(pdu: &[u8]) -> Part {
        Part {
            cid: u16_at(pdu, 8),
            tag: u16_at(pdu, 10),
            at: u32_at(pdu, 12),
            bytes: u32_at(pdu, 16),
        }
    }

    /// The header of data, either way.
    pub fn head(self, kind: u8, last: bool, digests: Digests) -> Head {
        let flags = if last { flag::LAST } else { 0 };
        let bytes = head(kind, flags, DATA_HEAD, self.bytes as usize, digests);
        seal(self.fields(bytes), DATA_HEAD, digests)
    }

    /// The PDU that says that the controller is ready for it.
    pub fn ready(self, digests: Digests) -> Head {
        seal(self.fields(head(kind::READY, 0, DATA_HEAD, 0, digests)), DATA_HEAD, digests)
    }

    fn fields(self, mut bytes: [u8; INITIALIZE]) -> [u8; INITIALIZE] {
        put(&mut bytes, 8, &self.cid.to_le_bytes());
        put(&mut bytes, 10, &self.tag.to_le_bytes());
        put(&mut bytes, 12, &self.at.to_le_bytes());
        put(&mut bytes, 16, &self.bytes.to_le_bytes());
        bytes
    }
}

/// The PDU that ends a connection: why, and the header of what was wrong. It has no digests.
pub fn terminate(kind: u8, (why, field): Reason, wrong: &[u8]) -> Vec<u8> {
    let wrong = &wrong[..wrong.len().min(INITIALIZE)];
    let length = DATA_HEAD + wrong.len();
    let common = Common { kind, flags: 0, header: 24, data_at: 0, length: length as u32 };
    let mut bytes = vec![0; DATA_HEAD];
    put(&mut bytes, 0, &common.encode());
    put(&mut bytes, 8, &(why as u16).to_le_bytes());
    put(&mut bytes, 10, &field.to_le_bytes());
    bytes.extend_from_slice(wrong);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_found_again_with_and_without_digests() {
        for digests in (0..4).filter_map(Digests::of_bits) {
            let part = Part { cid: 0x1012, tag: 7, at: 4096, bytes: 8192 };
            let (bytes, count) = part.head(kind::HOST_DATA, true, digests);
            let common = Common::decode(bytes.first_chunk().expect("eight bytes"));
            assert_eq!(Part::decode(&bytes), part);
            assert_eq!(common.check(DATA_HEAD, digests, 8192), Ok(8192));
            assert_eq!(common.check(DATA_HEAD, digests, 8191), Err((Fatal::Header, 4)));
            assert_eq!(count, DATA_HEAD + digests.header_bytes());
            assert_eq!(header_digest_fits(&bytes[..count], DATA_HEAD), digests.header);
            let other = Digests { header: !digests.header, ..digests };
            assert!(common.check(DATA_HEAD, other, 8192).is_err());
            let bare = Common::decode(part.ready(digests).0.first_chunk().expect("eight bytes"));
            assert_eq!(bare.check(DATA_HEAD, digests, 0), Ok(0));
        }
        assert_eq!(Digests::of_bits(4), None);
    }

    #[test]
    fn no_length_is_believed() {
        let good = Common { kind: 4, flags: 0, header: 72, data_at: 72, length: 72 + 512 };
        let check = |common: Common| common.check(72, Digests::default(), 4096);
        assert_eq!(check(good), Ok(512));
        for (wrong, field) in [
            (Common { header: 71, ..good }, 2),
            (Common { flags: 1, ..good }, 1),
            (Common { flags: 2, ..good }, 1),
            (Common { data_at: 73, ..good }, 3),
            (Common { length: 0, ..good }, 4),
            (Common { length: 71, ..good }, 4),
            (Common { length: 72 + 4097, ..good }, 4),
            (Common { length: u32::MAX, ..good }, 4),
        ] {
            assert_eq!(check(wrong), Err((Fatal::Header, field)), "{wrong:?}");
        }
    }
}
