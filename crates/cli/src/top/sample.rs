//! What a source counted at one moment, under one set of names whatever the stack is made of.
//!
//! Invariant: what the source does not say is absent, never zero.

use std::time::Instant;

use serde_json::Value;

/// Bytes of a block of the host log and of the file system.
const BLOCK: u64 = 4096;

/// Requests of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// Requests answered.
    pub count: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Sum of their latencies in nanoseconds.
    pub ns: u64,
    /// Latencies in nanoseconds: upper edge (none: no bound) and how many; rising.
    pub latency: Vec<(Option<u64>, u64)>,
}

/// What came in at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// `read`, `write`, `flush`, `trim`.
    pub kinds: [(&'static str, Kind); 4],
    /// Requests refused.
    pub errors: u64,
}

/// A layer that writes more than it is given, and cleans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// `fs`, `log` or `drive`.
    pub name: &'static str,
    /// Bytes it wrote, by cause.
    pub written: Vec<(&'static str, u64)>,
    /// Bytes of data among them, or that it was given to write: what amplification divides by.
    pub given: u64,
    /// What `free` counts.
    pub unit: &'static str,
    /// Units that are free.
    pub free: Option<u64>,
    /// Units cleaned.
    pub cleaned: u64,
    /// Bytes copied by cleaning.
    pub copied: u64,
    /// What was found damaged, where a layer checks what it reads.
    pub damage: Option<Damage>,
}

/// What a layer found damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Blocks.
    pub blocks: u64,
    /// Requests refused because of them.
    pub requests: u64,
}

/// A flash array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nand {
    /// Bytes read.
    pub read: u64,
    /// Blocks erased.
    pub erases: u64,
}

/// One moment.
#[derive(Clone, Debug)]
pub struct Sample {
    /// When it was taken.
    pub at: Instant,
    /// The stack in words.
    pub stack: String,
    /// The power is on.
    pub on: bool,
    /// How often it was cut.
    pub cuts: u64,
    /// What programs ask: of files if a volume is mounted, else of the device.
    pub host: Asked,
    /// What a mounted volume asks of the device.
    pub device: Option<Asked>,
    /// From the top down.
    pub layers: Vec<Layer>,
    /// The array of a modelled drive.
    pub nand: Option<Nand>,
}

fn kind(of: &Value) -> Option<Kind> {
    let pair = |pair: &Value| match pair.as_array()?.as_slice() {
        [edge, count] => Some((edge.as_u64(), count.as_u64()?)),
        _ => None,
    };
    Some(Kind {
        count: of["count"].as_u64()?,
        bytes: of["bytes"].as_u64()?,
        ns: of["ns"].as_u64()?,
        latency: of["latency_ns"].as_array()?.iter().map(pair).collect::<Option<_>>()?,
    })
}

fn asked(of: &Value) -> Option<Asked> {
    let [read, write, flush, trim] = ["read", "write", "flush", "trim"].map(|name| kind(&of[name]));
    let kinds = [("read", read?), ("write", write?), ("flush", flush?), ("trim", trim?)];
    Some(Asked { kinds, errors: of["errors"].as_u64()? })
}

fn causes(
    of: &Value,
    unit: u64,
    names: &[(&'static str, &'static str)],
) -> Option<Vec<(&'static str, u64)>> {
    names.iter().map(|(cause, key)| Some((*cause, of[*key].as_u64()? * unit))).collect()
}

/// The file system, as its counters have it.
fn fs(of: &Value) -> Option<Layer> {
    let names = [
        ("data", "written_data_blocks"),
        ("directory", "written_directory_blocks"),
        ("node", "written_node_blocks"),
        ("cleaning_data", "cleaning_data_blocks"),
        ("cleaning_node", "cleaning_node_blocks"),
        ("nat", "written_nat_blocks"),
        ("sit", "written_sit_blocks"),
        ("ssa", "written_ssa_blocks"),
        ("checkpoint", "written_checkpoint_blocks"),
        ("journal", "written_journal_blocks"),
        ("superblock", "written_superblock_blocks"),
    ];
    Some(Layer {
        name: "fs",
        written: causes(of, BLOCK, &names)?,
        given: of["written_data_blocks"].as_u64()? * BLOCK,
        unit: "segments",
        free: of["free_segments"].as_u64(),
        cleaned: of["cleaned_segments"].as_u64()?,
        copied: of["cleaning_copied_blocks"].as_u64()? * BLOCK,
        damage: None,
    })
}

fn damage(of: &Value) -> Option<Damage> {
    let (blocks, requests) = (of["blocks_damaged"].as_u64()?, of["requests_damaged"].as_u64()?);
    Some(Damage { blocks, requests })
}

/// The host log.
fn log(of: &Value) -> Option<Layer> {
    let names = [
        ("user", "user_blocks"),
        ("header", "header_blocks"),
        ("gc", "gc_blocks"),
        ("meta", "meta_blocks"),
        ("root", "root_blocks"),
    ];
    Some(Layer {
        name: "log",
        written: causes(of, BLOCK, &names)?,
        given: of["user_blocks"].as_u64()? * BLOCK,
        unit: "segments",
        free: of["segments_free"].as_u64(),
        cleaned: of["segments_cleaned"].as_u64()?,
        copied: of["gc_blocks"].as_u64()? * BLOCK,
        damage: damage(of),
    })
}

/// A modelled drive.
fn drive(of: &Value) -> Option<Layer> {
    let names = [
        ("host", "nand_programs_host"),
        ("gc", "nand_programs_gc"),
        ("tx", "nand_programs_tx"),
        ("map", "nand_programs_map"),
        ("metadata", "nand_programs_metadata"),
        ("padding", "nand_programs_padding"),
    ];
    let slot = of["slot_bytes"].as_u64()?;
    Some(Layer {
        name: "drive",
        written: causes(of, slot, &names)?,
        given: of["host_write_bytes"].as_u64()?,
        unit: "blocks",
        free: of["free_blocks"].as_u64(),
        cleaned: of["gc_victims"].as_u64()?,
        copied: of["gc_copies"].as_u64()? * slot,
        damage: None,
    })
}

fn nand(of: &Value) -> Option<Nand> {
    let read = of["nand_reads"].as_u64()? * of["slot_bytes"].as_u64()?;
    Some(Nand { read, erases: of["nand_erases"].as_u64()? })
}

impl Sample {
    /// Of a document of counters that was read now.
    ///
    /// # Errors
    /// What is missing in it.
    pub fn new(document: &Value) -> Result<Sample, String> {
        let disk = &document["disk"];
        // A mount's own counters: in its attribute, or where a server's are.
        let volume = [&document["results"], &document["server"]];
        let device = asked(&document["asked"]).ok_or("`asked` is missing: an older varve?")?;
        let (host, device) = match asked(&document["files"]) {
            Some(files) => (files, Some(device)),
            None => (device, None),
        };
        let layers = [volume.into_iter().find_map(fs), log(disk), drive(disk)];
        Ok(Sample {
            at: Instant::now(),
            stack: document["stack"].as_str().ok_or("`stack` is missing")?.to_string(),
            on: document["power"]["on"].as_bool().ok_or("`power` is missing")?,
            cuts: document["power"]["cuts"].as_u64().ok_or("`power` is missing")?,
            host,
            device,
            layers: layers.into_iter().flatten().collect(),
            nand: nand(disk),
        })
    }
}

impl Layer {
    /// All bytes it wrote.
    pub fn total(&self) -> u64 {
        self.written.iter().map(|(_, bytes)| bytes).sum()
    }
    /// Bytes written for each byte of data; none before there is any.
    pub fn amplification(&self) -> Option<f64> {
        (self.given > 0).then(|| self.total() as f64 / self.given as f64)
    }
}

/// What was added since; after a power cut what a layer counts begins anew.
pub fn since(before: u64, now: u64) -> u64 {
    if now >= before { now - before } else { now }
}

impl Kind {
    /// What came since `before`.
    pub fn since(&self, before: &Kind) -> Kind {
        let had = |edge: &Option<u64>| {
            let found = before.latency.iter().find(|(other, _)| other == edge);
            found.map_or(0, |(_, count)| *count)
        };
        let latency = self.latency.iter().map(|(edge, count)| (*edge, since(had(edge), *count)));
        Kind {
            count: since(before.count, self.count),
            bytes: since(before.bytes, self.bytes),
            ns: since(before.ns, self.ns),
            latency: latency.collect(),
        }
    }

    /// The edge in nanoseconds below which `share` percent of the latencies lie. None if there are
    /// none; `Some(None)` if it lies beyond the last edge.
    pub fn below(&self, share: u64) -> Option<Option<u64>> {
        let all: u64 = self.latency.iter().map(|(_, count)| count).sum();
        let wanted = (all * share).div_ceil(100).max(1);
        let mut seen = 0;
        let found = self.latency.iter().find(|(_, count)| {
            seen += count;
            seen >= wanted
        });
        found.map(|(edge, _)| *edge)
    }
}

impl Layer {
    /// What was done since `before`; `free` as it is.
    pub fn since(&self, before: &Layer) -> Layer {
        let written = self.written.iter().zip(&before.written);
        Layer {
            written: written.map(|((name, now), (_, was))| (*name, since(*was, *now))).collect(),
            given: since(before.given, self.given),
            cleaned: since(before.cleaned, self.cleaned),
            copied: since(before.copied, self.copied),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_latencies_lies_below_an_edge() {
        let latency = vec![(Some(1024), 50), (Some(2048), 49), (None, 1)];
        let kind = Kind { latency, ..Kind::default() };
        assert_eq!(kind.below(50), Some(Some(1024)));
        assert_eq!(kind.below(51), Some(Some(2048)));
        assert_eq!(kind.below(99), Some(Some(2048)));
        assert_eq!(kind.below(100), Some(None));
        assert_eq!(Kind::default().below(50), None);
        let later = Kind { latency: vec![(Some(1024), 50), (Some(4096), 2)], ..Kind::default() };
        assert_eq!(later.since(&kind).below(1), Some(Some(4096)));
    }

    #[test]
    fn counters_that_began_anew_are_not_negative() {
        assert_eq!((since(7, 9), since(9, 4), since(3, 3)), (2, 4, 0));
    }
}
