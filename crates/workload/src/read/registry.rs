//! The list of formats, and which of them a file is.

use super::field::Bad;
use super::input::Input;
use super::stage::{Order, Stage};
use super::table::Table;
use super::text::{Item, LineFormat, shown};
use super::{ReadOptions, TraceSource};
use super::{
    alibaba, biotracer, blkparse, blktrace, cloudphysics, csv, fio, fiu, ids, msr, oracle,
};
use super::{spc, systor, table, tencent, vtr_read};
use crate::SourceError;

/// Lines looked at to find out the format.
const LOOKED: usize = 64;
/// Bytes looked at.
const HEAD: usize = 64 << 10;

/// What a format knows of each request. Results must not claim more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carries {
    /// Times; without them only closed-loop or untimed replay makes sense.
    pub time: bool,
    /// Operations; without them everything counts as a read and says nothing about writes.
    pub op: bool,
    /// Response times of the traced device.
    pub response: bool,
    /// Flushes and discards.
    pub flush: bool,
}

impl Carries {
    /// What both know.
    pub const fn and(self, other: Carries) -> Carries {
        Carries {
            time: self.time && other.time,
            op: self.op && other.op,
            response: self.response && other.response,
            flush: self.flush && other.flush,
        }
    }
}

impl Default for Carries {
    /// Everything.
    fn default() -> Self {
        ALL
    }
}

type Open = fn(Input, &ReadOptions) -> Result<Box<dyn TraceSource>, SourceError>;

enum Probe {
    /// The leading bytes decide.
    Head(fn(&[u8]) -> bool),
    /// Counts good and bad lines.
    Lines(fn(&[&[u8]]) -> (usize, usize)),
    /// Cannot be told from other files.
    Never,
}

/// One trace format.
pub struct Format {
    /// Its name on the command line.
    pub name: &'static str,
    /// Other names it goes by.
    pub aliases: &'static [&'static str],
    /// What it is, in one line.
    pub about: &'static str,
    /// What it knows.
    pub carries: Carries,
    pub(crate) open: Open,
    probe: Probe,
}

impl std::fmt::Debug for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Format({})", self.name)
    }
}

const ALL: Carries = Carries { time: true, op: true, response: true, flush: true };
const TIMED: Carries = Carries { response: false, flush: false, ..ALL };
const IDS: Carries = Carries { time: false, op: false, response: false, flush: false };

/// One row of the list.
const fn row(
    name: &'static str,
    aliases: &'static [&'static str],
    carries: Carries,
    open: Open,
    probe: Probe,
    about: &'static str,
) -> Format {
    Format { name, aliases, about, carries, open, probe }
}

static FORMATS: &[Format] = &[
    row(
        "vtr",
        &[],
        ALL,
        vtr_read::open,
        Probe::Head(|h| h.starts_with(super::vtr::MAGIC)),
        "varve's own: columns, compressed, checksummed (any request, exact times)",
    ),
    row(
        "msr",
        &["msr+2", "own"],
        ALL,
        msr::open,
        Probe::Lines(|l| count(msr::Msr::probe(), l)),
        "MSR Cambridge CSV; also with Flags,Comm and Flush and Discard (varve's captures)",
    ),
    row(
        "blkparse",
        &[],
        ALL,
        blkparse::open,
        Probe::Lines(|l| count(blkparse::Blkparse, l)),
        "blkparse text: D lines are requests, C lines their response times",
    ),
    row(
        "blktrace",
        &[],
        ALL,
        blktrace::open,
        Probe::Head(blktrace::looks_like),
        "blktrace binary, either byte order; all per-CPU files NAME.blktrace.N together",
    ),
    row(
        "fio2",
        &["fio-v2"],
        Carries { time: false, flush: true, ..TIMED },
        fio::open_v2,
        Probe::Head(|h| h.starts_with(b"fio version 2 iolog")),
        "fio I/O log version 2: no times, closed loop only",
    ),
    row(
        "fio3",
        &["fio-v3"],
        Carries { flush: true, ..TIMED },
        fio::open_v3,
        Probe::Head(|h| h.starts_with(b"fio version 3 iolog")),
        "fio I/O log version 3: times in microseconds",
    ),
    row(
        "disksim",
        &[],
        TIMED,
        table::disksim,
        Probe::Lines(|l| count(Table::probe_flags(), l)),
        "DiskSim ASCII: ms device sector sectors flags (bit 0 set = read)",
    ),
    row(
        "ssdsim",
        &["mqsim"],
        TIMED,
        table::ssdsim,
        Probe::Lines(|l| count(Table::probe_number(), l)),
        "SSDsim and MQSim ASCII: time device sector sectors op (1 = read); needs a time unit",
    ),
    row(
        "flashsim",
        &[],
        TIMED,
        table::flashsim,
        Probe::Lines(|l| count(Table::probe_number(), l)),
        "FlashSim ASCII: ms device sector size op (1 = read); needs a size unit",
    ),
    row(
        "spc",
        &["umass"],
        TIMED,
        spc::open,
        Probe::Lines(|l| count(spc::Spc, l)),
        "SPC / UMass CSV: ASU,LBA,Size,Opcode,Timestamp",
    ),
    row(
        "fiu",
        &[],
        TIMED,
        fiu::open,
        Probe::Lines(|l| count(fiu::Fiu, l)),
        "FIU: ns pid process sector sectors R/W major minor md5",
    ),
    row(
        "systor",
        &["systor17"],
        Carries { response: true, ..TIMED },
        systor::open,
        Probe::Lines(|l| count(systor::Systor::default(), l)),
        "SYSTOR '17 CSV: Timestamp,Response,IOType,LUN,Offset,Size; sorted within 10 s",
    ),
    row(
        "tencent",
        &["cbs"],
        TIMED,
        tencent::open,
        Probe::Lines(|l| count(tencent::Tencent, l)),
        "Tencent cloud block storage CSV; whole seconds are spread evenly",
    ),
    row(
        "alibaba",
        &[],
        TIMED,
        alibaba::open,
        Probe::Lines(|l| count(alibaba::Alibaba, l)),
        "Alibaba block traces CSV: device_id,opcode,offset,length,timestamp (us)",
    ),
    row(
        "cloudphysics",
        &[],
        Carries { flush: true, ..TIMED },
        cloudphysics::open,
        Probe::Head(|h| h.starts_with(b"version,time,op,size,lbn")),
        "CloudPhysics CSV: version,time,op,size,lbn with SCSI operation codes",
    ),
    row(
        "biotracer",
        &["nexus5"],
        Carries { response: true, ..TIMED },
        biotracer::open,
        Probe::Lines(|l| count(biotracer::BioTracer::default(), l)),
        "BIOtracer (Nexus 5): sector sectors bytes type t1 t2 t3 t4",
    ),
    row(
        "arc",
        &["lis"],
        IDS,
        ids::open_arc,
        Probe::Lines(|l| count(ids::Arc { unit: 4096 }, l)),
        "ARC .lis: start count ignored number; hit ratios only",
    ),
    row(
        "ids",
        &["lirs"],
        IDS,
        ids::open,
        Probe::Lines(|l| count(ids::Ids { unit: 4096 }, l)),
        "one block number per line (plain lists, LIRS); hit ratios only",
    ),
    row(
        "u32",
        &[],
        IDS,
        ids::open_u32,
        Probe::Never,
        "block numbers as little-endian 32-bit words; hit ratios only; never detected",
    ),
    row(
        "oracle-general",
        &["oracleGeneral"],
        Carries { time: true, ..IDS },
        oracle::open,
        Probe::Head(oracle::looks_like),
        "oracleGeneral, 24-byte records without operations; an object larger than a page reaches into the next ids",
    ),
    row(
        "csv",
        &[],
        ALL,
        csv::open,
        Probe::Never,
        "any table of text, described by --columns and --op; never detected",
    ),
];

/// All formats, in the order they are listed.
pub fn formats() -> &'static [Format] {
    FORMATS
}

/// The format of that name or alias.
pub(crate) fn by_name(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|f| f.name == name || f.aliases.contains(&name))
}

/// Names of all formats, for messages.
pub(crate) fn names() -> String {
    FORMATS.iter().map(|f| f.name).collect::<Vec<_>>().join(" ")
}

/// Lines a format reads as requests or events, and lines it cannot read.
fn count<F: LineFormat>(mut format: F, lines: &[&[u8]]) -> (usize, usize) {
    let mut stage = Stage::new(Order::Untimed, None, &ReadOptions::default());
    let (mut good, mut bad) = (0, 0);
    for line in lines {
        let item: Result<Item, Bad> = format.parse(line, &mut stage);
        match item {
            Ok(Item::One(_) | Item::Run { .. } | Item::Done(_) | Item::OtherEvent) => good += 1,
            Ok(Item::NotRequest | Item::Incomplete) => {}
            Ok(Item::Tail) => break,
            Err(_) => bad += 1,
        }
    }
    (good, bad)
}

/// What the beginning of `input` looks like: formats by their leading bytes, or by their lines, and the
/// first line.
struct Looks {
    by_head: Vec<&'static Format>,
    by_lines: Vec<&'static Format>,
    first: String,
}

fn looks(input: &mut Input) -> Result<Looks, SourceError> {
    let whole = input.peek(HEAD + 1)?.len() <= HEAD;
    let head = input.peek(HEAD)?;
    if head.is_empty() {
        return Err(input.unusable("the file is empty; expected a trace"));
    }
    let is_head = |f: &&Format| matches!(f.probe, Probe::Head(is) if is(head));
    let by_head: Vec<&'static Format> = FORMATS.iter().filter(is_head).collect();
    if !by_head.is_empty() {
        return Ok(Looks { by_head, by_lines: Vec::new(), first: String::new() });
    }
    if head.len() > 262 && &head[257..262] == b"ustar" {
        let reason = "this is a tar archive; expected one trace file out of it";
        return Err(input.unusable(reason));
    }
    let mut lines: Vec<&[u8]> = head.split(|b| *b == b'\n').collect();
    if !whole && lines.len() > 1 {
        lines.pop(); // cut in the middle
    }
    lines.iter_mut().for_each(|l| *l = l.strip_suffix(b"\r").unwrap_or(l));
    lines.retain(|l| !l.is_empty());
    lines.truncate(LOOKED);
    let first = lines.first().map_or(String::new(), |l| shown(l));
    Ok(Looks { by_head, by_lines: by_lines(&lines), first })
}

/// The one format `input` is in.
pub(crate) fn detect(input: &mut Input) -> Result<&'static Format, SourceError> {
    let Looks { by_head, by_lines, first } = looks(input)?;
    match [by_head, by_lines].concat()[..] {
        [] => Err(input.unusable(format!(
            "the first lines fit none of the formats that show themselves (first line `{first}`); \
             expected one of them, or the option `--format` with one of: {}",
            names()
        ))),
        [one] => Ok(one),
        ref several => Err(input.unusable(format!(
            "the first lines fit several formats: {}; expected the option `--format` with one of them (for one trace of a merge: \
             `tenant.NAME.format`)",
            listed(several)
        ))),
    }
}

fn listed(formats: &[&Format]) -> String {
    formats.iter().map(|f| f.name).collect::<Vec<_>>().join(", ")
}

/// The format of one of several traces, some of which are tables whose columns are told: what no other
/// format is like is a table. Lines that fit another format may be either, and nobody guesses.
pub(crate) fn detect_beside_tables(input: &mut Input) -> Result<&'static Format, SourceError> {
    let Looks { by_head, by_lines, first } = looks(input)?;
    match (&by_head[..], &by_lines[..]) {
        ([one], _) => Ok(one),
        ([], []) => by_name("csv").ok_or_else(|| input.unusable("no format `csv`")),
        _ => Err(input.unusable(format!(
            "the first line `{first}` fits {}, and columns of a table are told: expected `format` of \
             this trace alone, csv or another (`[tenant.NAME]` of a scenario, `--set \
             tenant.NAME.format=..` of a merge)",
            listed(&[by_head, by_lines].concat())
        ))),
    }
}

/// Formats that read every line, else those that read most of them (their parser then says which
/// line is bad).
fn by_lines(lines: &[&[u8]]) -> Vec<&'static Format> {
    let mut counts = Vec::new();
    for format in FORMATS {
        if let Probe::Lines(count) = format.probe {
            let (good, bad) = count(lines);
            if good > 0 {
                counts.push((format, good, bad));
            }
        }
    }
    let clean: Vec<_> = counts.iter().filter(|c| c.2 == 0).map(|c| c.0).collect();
    if !clean.is_empty() {
        return clean;
    }
    counts.iter().filter(|c| c.1 > c.2).map(|c| c.0).collect()
}
