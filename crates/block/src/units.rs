//! Units as types. A conversion is a named function.

/// Bytes of one logical sector, the grain of [`Lba`].
pub const SECTOR_BYTES: u64 = 512;
/// Bytes of the smallest mapping unit and buffer entry.
pub const UNIT_BYTES: u64 = 4096;

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
        pub struct $name(pub $inner);

        impl $name {
            /// The bare number, for arithmetic inside a module.
            #[inline(always)]
            pub const fn get(self) -> $inner {
                self.0
            }
            /// The number as an index into a table.
            #[inline(always)]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

unit! {
    /// Logical block address: a 512-byte sector of a device.
    Lba(u64)
}
unit! {
    /// A number of 512-byte sectors.
    Sectors(u64)
}
unit! {
    /// A number of bytes.
    Bytes(u64)
}
unit! {
    /// Logical page number: the number of a mapping unit of the drive (4 KiB unless configured).
    Lpn(u32)
}
unit! {
    /// Physical page number: the place of one mapping unit on flash, block by block.
    Ppn(u32)
}
unit! {
    /// An erase block of the NAND array.
    BlockId(u32)
}
unit! {
    /// A transaction number; 0 means "no transaction".
    TxId(u64)
}
unit! {
    /// A stream of writes that their writer expects to die together: a log's head, a file system's
    /// temperature, a group of transactions. Only equality means anything; 0 = nobody said.
    StreamId(u8)
}
unit! {
    /// The application (tenant) a request belongs to.
    AppId(u16)
}

impl StreamId {
    /// Nobody said which writes die together.
    pub const NONE: StreamId = StreamId(0);
    /// Whether the writer said anything.
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }
}
impl Lba {
    /// Byte offset of the sector.
    pub const fn bytes(self) -> Bytes {
        Bytes(self.0 * SECTOR_BYTES)
    }
}
impl Sectors {
    /// Length in bytes.
    pub const fn bytes(self) -> Bytes {
        Bytes(self.0 * SECTOR_BYTES)
    }
}
impl Bytes {
    /// Whole sectors, rounded up.
    pub const fn sectors(self) -> Sectors {
        Sectors(self.0.div_ceil(SECTOR_BYTES))
    }
}

/// Written as people read sizes: `16 KiB`, `1.5 MiB`; exact multiples only, else bytes.
impl Bytes {
    /// The shortest exact text with a binary unit.
    pub fn human(self) -> String {
        let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        for (shift, name) in units {
            if self.0 != 0 && self.0.is_multiple_of(1 << shift) {
                return format!("{} {name}", self.0 >> shift);
            }
        }
        format!("{} B", self.0)
    }
}
