//! What came of a command.

use std::fmt;

/// The status of a completion: code, type (from bit 8), and that trying again is no use (bit 14).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Status(pub u16);

const DNR: u16 = 1 << 14;
const COMMAND: u16 = 1 << 8;
const MEDIA: u16 = 2 << 8;
const VENDOR: u16 = 7 << 8;

impl Status {
    /// It was done.
    pub const OK: Status = Status(0);
    /// No such command here.
    pub const INVALID_OPCODE: Status = Status(DNR | 0x01);
    /// A field of the command.
    pub const INVALID_FIELD: Status = Status(DNR | 0x02);
    /// Another command in flight has its number.
    pub const ID_CONFLICT: Status = Status(DNR | 0x03);
    /// Its data did not come through.
    pub const TRANSFER: Status = Status(0x04);
    /// The device failed.
    pub const INTERNAL: Status = Status(DNR | 0x06);
    /// No such namespace.
    pub const INVALID_NAMESPACE: Status = Status(DNR | 0x0b);
    /// It may not come now.
    pub const SEQUENCE: Status = Status(DNR | 0x0c);
    /// Its data is of another length.
    pub const DATA_LENGTH: Status = Status(DNR | 0x0f);
    /// No such descriptor of data.
    pub const SGL_TYPE: Status = Status(DNR | 0x11);
    /// Data does not begin there.
    pub const SGL_OFFSET: Status = Status(DNR | 0x16);
    /// The namespace may only be read.
    pub const WRITE_PROTECTED: Status = Status(DNR | 0x20);
    /// Beyond the end.
    pub const LBA_RANGE: Status = Status(DNR | 0x80);
    /// Another host has claimed the namespace.
    pub const RESERVED: Status = Status(DNR | 0x83);
    /// There is no room left.
    pub const CAPACITY: Status = Status(0x81);
    /// More asynchronous events than are held.
    pub const EVENT_LIMIT: Status = Status(DNR | COMMAND | 0x05);
    /// No such log.
    pub const INVALID_LOG: Status = Status(DNR | COMMAND | 0x09);
    /// It cannot be changed.
    pub const NOT_CHANGEABLE: Status = Status(DNR | COMMAND | 0x0e);
    /// Connect: of another format.
    pub const CONNECT_FORMAT: Status = Status(DNR | COMMAND | 0x80);
    /// Connect: as many hosts are there as can be.
    pub const CONNECT_BUSY: Status = Status(COMMAND | 0x81);
    /// Connect: a parameter.
    pub const CONNECT_INVALID: Status = Status(DNR | COMMAND | 0x82);
    /// Connect: this host is not allowed.
    pub const CONNECT_HOST: Status = Status(DNR | COMMAND | 0x84);
    /// The host has not shown who it is.
    pub const AUTHENTICATION: Status = Status(DNR | COMMAND | 0x91);
    /// The data there is damaged.
    pub const UNREADABLE: Status = Status(MEDIA | 0x81);
    /// What is there differs.
    pub const COMPARE: Status = Status(DNR | MEDIA | 0x85);
    /// Open transactions hold as many pages as can be.
    pub const TX_FULL: Status = Status(DNR | VENDOR | 0xc0);
    /// A page of another transaction.
    pub const TX_CONFLICT: Status = Status(DNR | VENDOR | 0xc1);
    /// No such transaction of this host is open.
    pub const TX_UNKNOWN: Status = Status(DNR | VENDOR | 0xc2);
    /// As many are open as can be.
    pub const TX_TOO_MANY: Status = Status(DNR | VENDOR | 0xc3);
    /// The oldest open one is too old.
    pub const TX_SPAN: Status = Status(DNR | VENDOR | 0xc4);
    /// It cannot be claimed: another host has done so.
    pub const CLAIMED: Status = Status(DNR | VENDOR | 0xc5);
    /// The power has gone since this host has claimed it.
    pub const CLAIM_VOID: Status = Status(DNR | VENDOR | 0xc6);

    /// Its type.
    pub fn kind(self) -> u16 {
        self.0 >> 8 & 7
    }
    /// Its code.
    pub fn code(self) -> u16 {
        self.0 & 0xff
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status type {} code {:02x}h", self.kind(), self.code())?;
        if self.0 & DNR != 0 { write!(f, " (do not retry)") } else { Ok(()) }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
