//! What a caller may say about a trace file.

use block::Span;

/// Unit of a time column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeUnit {
    /// Picoseconds.
    Ps,
    /// Nanoseconds.
    Ns,
    /// 100 ns, the tick of Windows file times.
    Tick100Ns,
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
    /// Seconds.
    S,
}

impl TimeUnit {
    /// Picoseconds of one unit.
    pub const fn ps(self) -> u64 {
        match self {
            TimeUnit::Ps => 1,
            TimeUnit::Ns => 1_000,
            TimeUnit::Tick100Ns => 100_000,
            TimeUnit::Us => 1_000_000,
            TimeUnit::Ms => 1_000_000_000,
            TimeUnit::S => 1_000_000_000_000,
        }
    }
    /// `ps`, `ns`, `100ns`, `us`, `ms` or `s`; `None` for another text.
    pub fn parse(text: &str) -> Option<TimeUnit> {
        Some(match text {
            "ps" => TimeUnit::Ps,
            "ns" => TimeUnit::Ns,
            "100ns" => TimeUnit::Tick100Ns,
            "us" | "µs" => TimeUnit::Us,
            "ms" => TimeUnit::Ms,
            "s" => TimeUnit::S,
            _ => return None,
        })
    }
}

/// Unit of an offset, length or block-number column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SizeUnit {
    /// Bytes.
    Byte,
    /// 512-byte sectors.
    Sector,
    /// 1024 bytes.
    KiB,
    /// 4 KiB pages.
    Page,
}

impl SizeUnit {
    /// Bytes of one unit.
    pub const fn bytes(self) -> u64 {
        match self {
            SizeUnit::Byte => 1,
            SizeUnit::Sector => 512,
            SizeUnit::KiB => 1024,
            SizeUnit::Page => 4096,
        }
    }
    /// `byte`, `sector`, `kib` or `page`; `None` for another text.
    pub fn parse(text: &str) -> Option<SizeUnit> {
        Some(match text {
            "byte" | "bytes" | "B" => SizeUnit::Byte,
            "sector" | "sectors" | "512" => SizeUnit::Sector,
            "kib" | "KiB" => SizeUnit::KiB,
            "page" | "pages" | "4K" | "4k" => SizeUnit::Page,
            _ => return None,
        })
    }
}

/// An option of the command line, and the formats that it is of.
pub type OfFormats = (&'static str, &'static [&'static str]);

impl ReadOptions {
    /// The options that are given and mean something to some formats alone.
    pub fn of_some_formats(&self) -> impl Iterator<Item = OfFormats> {
        let ids: &[&str] = &["flashsim", "ids", "arc", "u32", "oracle-general"];
        let all: [(bool, OfFormats); 5] = [
            (self.time_unit.is_some(), ("--time-unit", &["ssdsim"])),
            (self.size_unit.is_some(), ("--size-unit", ids)),
            (self.columns.is_some(), ("--columns", &["csv"])),
            (self.op_map.is_some(), ("--op", &["csv"])),
            (self.app_is_comm, ("--app-is-comm", &["msr"])),
        ];
        all.into_iter().filter(|(given, _)| *given).map(|(_, option)| option)
    }
}

/// How a trace is to be read. The default detects the format and tolerates nothing.
#[derive(Clone, Default, Debug)]
pub struct ReadOptions {
    /// Name of the format; `None` = by content.
    pub format: Option<String>,
    /// Unit of the time column, for formats whose files differ in it (`ssdsim`).
    pub time_unit: Option<TimeUnit>,
    /// Unit of the size column (`flashsim`) or of a block number (`ids`, `u32`, `arc`,
    /// `oracle-general`; pages of 4 KiB if absent).
    pub size_unit: Option<SizeUnit>,
    /// Columns of a generic CSV: `at=1:us,op=2,off=3:sector,len=4:byte[,app=5][,resp=6:us]`.
    pub columns: Option<String>,
    /// Texts of the operations of a generic CSV: `R=0,W=1[,F=..][,D=..][,Z=..]`.
    pub op_map: Option<String>,
    /// Bad lines (or binary records) to leave out and count before giving up.
    pub skip_bad: u64,
    /// Only the requests of this device, volume, address space or file, by its name.
    pub app: Option<String>,
    /// MSR with `Comm`: the issuing thread is the app, not the volume.
    pub app_is_comm: bool,
    /// Bytes added to every offset, e.g. to move an old partition start onto a page boundary.
    pub align_shift: i64,
    /// The options are those of several traces: one of another format than this trace's is for the others,
    /// and whoever opens them all looks that somebody knows it.
    pub for_several: bool,
    /// Sort within this span of time instead of refusing a time that falls.
    pub sort_window: Option<Span>,
}
