//! `msr:VOLUME`: synthetic targets with the statistics of MSR Cambridge volumes.
//! What the statistics do not say is assumed, and every assumption is printed.

use std::sync::Arc;

use block::{AppId, Bytes, Rng, SECTOR_BYTES, Span, UNIT_BYTES};

use super::clock::{Arrival, ArrivalClock};
use super::fields::{Fields, percent_text, span_text};
use super::recipe::Asked;
use super::scatter::Scatter;
use super::simple::SCATTER;
use super::simple::arrival_text;
use super::sizes::Sizes;
use super::zipf::Zipf;
use super::{Generator, Source};
use crate::{BLOCK_RECORDS, Flags, Record, SourceError, TraceOp};

const TABLE: &str = include_str!("msr_stats.csv");
/// Requests the statistics are of.
const REQUESTS: f64 = 1e6;
/// The read area is this many times the written one (assumed).
const READ_AREA: u64 = 4;
/// The drive of paper 3, 300 GiB: a target that does not fit says so.
const DRIVE_BYTES: u64 = 300 << 30;
/// Pages of the largest request.
const LARGEST: u64 = 64;

/// Statistics of a volume's first million requests.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeStats {
    /// Name as in the table.
    pub name: String,
    /// Share of the requests that read, in millionths.
    pub read_ppm: u64,
    /// Mean size of a read.
    pub read_mean: Bytes,
    /// Mean size of a write.
    pub write_mean: Bytes,
    /// Share of the written sectors that had been written before.
    pub rewritten: f64,
    /// Mean time between two requests.
    pub interarrival: Span,
    /// What was assumed about it, beyond what is assumed for every volume.
    pub assumed: &'static str,
}

/// One row of the table.
fn row(line: &str) -> Option<VolumeStats> {
    let fields: Vec<&str> = line.split(',').collect();
    let number = |i: usize| fields.get(i)?.parse::<u64>().ok();
    let (reads, writes) = (number(1)?, number(2)?);
    let (read_sectors, write_sectors, rewritten) = (number(3)?, number(4)?, number(7)?);
    let (ms, tenths) = fields.get(9)?.split_once('.')?;
    let tenths = ms.parse::<u64>().ok()? * 10 + tenths.parse::<u64>().ok()?;
    Some(VolumeStats {
        name: fields[0].to_string(),
        read_ppm: (reads * 1_000_000 + (reads + writes) / 2) / (reads + writes),
        read_mean: Bytes(read_sectors * SECTOR_BYTES / reads),
        write_mean: Bytes(write_sectors * SECTOR_BYTES / writes),
        rewritten: rewritten as f64 / write_sectors as f64,
        interarrival: Span::from_us(tenths * 100),
        assumed: "",
    })
}

/// The millionth share of reads that gives `read` of `100` bytes at these mean sizes.
fn by_bytes(read_ppm_of_bytes: u64, read_mean: Bytes, write_mean: Bytes) -> u64 {
    let reads = u128::from(read_ppm_of_bytes) * u128::from(write_mean.0);
    let writes = u128::from(1_000_000 - read_ppm_of_bytes) * u128::from(read_mean.0);
    ((reads * 1_000_000 + (reads + writes) / 2) / (reads + writes)) as u64
}

/// The volumes of paper 3's Table 1 that the statistics lack: only R/W in bytes is known.
fn missing(table: &[VolumeStats]) -> Option<[VolumeStats; 3]> {
    const AS_RSRCH: &str = "R/W by bytes from paper 3, Table 1; sizes, rewritten share and times \
                            between requests as RSRCH";
    const USR: &str = "R/W by bytes from paper 3, Table 1; reads of 50 KiB, writes of 25 KiB, \
                       90 % rewritten; times between requests as RSRCH";
    let rsrch = table.iter().find(|v| v.name == "RSRCH")?;
    let like = |name: &str, read_bytes_ppm, read_mean, write_mean, rewritten, assumed| {
        let read_ppm = by_bytes(read_bytes_ppm, read_mean, write_mean);
        let interarrival = rsrch.interarrival;
        let name = name.to_string();
        VolumeStats { name, read_ppm, read_mean, write_mean, rewritten, interarrival, assumed }
    };
    let (read, write, again) = (rsrch.read_mean, rsrch.write_mean, rsrch.rewritten);
    Some([
        like("MDS_0", 300_000, read, write, again, AS_RSRCH),
        like("USR_0", 730_000, Bytes(50 << 10), Bytes(25 << 10), 0.9, USR),
        like("WDEV_0", 280_000, read, write, again, AS_RSRCH),
    ])
}

/// All volumes a recipe can name.
pub fn volumes() -> Vec<VolumeStats> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#')).skip(1);
    let mut all: Vec<VolumeStats> = lines.filter_map(row).collect();
    all.extend(missing(&all).into_iter().flatten());
    all
}

/// A volume by name in either case; `rsrch_0` is the table's RSRCH.
fn volume(name: &str) -> Option<VolumeStats> {
    let plain = name.to_ascii_uppercase();
    let short = plain.strip_suffix("_0").unwrap_or(&plain).to_string();
    volumes().into_iter().find(|v| v.name == plain || v.name == short)
}

/// The generator of one volume, calibrated.
#[derive(Clone, Debug)]
pub struct Msr {
    stats: VolumeStats,
    seed: u64,
    app: String,
    draws: String,
    theta: f64,
    count: u64,
    arrival: Arrival,
    reads: Sizes,
    writes: Sizes,
    /// Number of extents that are written.
    extents: u64,
    /// Pages of an extent: the mean write, rounded.
    pages: u64,
}

impl Msr {
    fn new(stats: VolumeStats, theta: f64) -> Option<Msr> {
        let (reads, writes) =
            (Sizes::with_mean(stats.read_mean)?, Sizes::with_mean(stats.write_mean)?);
        let pages = ((writes.mean_pages() + 0.5) as u64).max(1);
        let requests = REQUESTS * (1_000_000 - stats.read_ppm) as f64 / 1e6;
        let extents = solve(&writes, pages, requests, theta, stats.rewritten);
        let arrival = Arrival::Exponential(stats.interarrival);
        let (seed, app, draws, count) = (0, String::new(), String::new(), 0);
        Some(Msr { stats, seed, app, draws, theta, count, arrival, reads, writes, extents, pages })
    }

    fn stream(&self, purpose: &str) -> Rng {
        let app = if purpose == SCATTER { &self.app } else { &self.draws };
        Rng::stream(self.seed, &format!("{app}/msr:{}/{purpose}", self.stats.name))
    }

    fn written_pages(&self) -> u64 {
        self.extents * self.pages
    }
}

/// The share of written pages that were written before, expected after `requests` writes.
///
/// A write goes to extent r with the probability p of its rank and covers its size from the start
/// of the extent on, into the next extents if it is larger. Extents lie at random, so a page at
/// distance d from the start of its extent stays unwritten with the product, over the extents i
/// before it that can reach it, of the mean over all ranks of exp(−requests · p · P(size > i·pages
/// + d)). What is not a first write is a rewrite.
fn rewritten(sizes: &Sizes, pages: u64, requests: f64, zipf: &Zipf) -> f64 {
    let extents = zipf.ranks() as f64;
    let mut means = [1.0; LARGEST as usize];
    let mut last = (0.0, 1.0);
    for (distance, mean) in means.iter_mut().enumerate() {
        let reach = sizes.above(distance as u64);
        if reach != last.0 {
            last = (reach, zipf.sum(|p| libm::exp(-requests * p * reach)) / extents);
        }
        *mean = last.1;
    }
    let untouched = |d: u64| {
        let reaching = (d..LARGEST).step_by(pages as usize).map(|d| means[d as usize]);
        reaching.product::<f64>()
    };
    let first_writes = extents * (0..pages).map(|d| 1.0 - untouched(d)).sum::<f64>();
    1.0 - first_writes / (requests * sizes.mean_pages())
}

/// The number of extents at which the expected rewritten share is `target`.
fn solve(sizes: &Sizes, pages: u64, requests: f64, theta: f64, target: f64) -> u64 {
    // The share falls as the extents grow in number.
    let (mut low, mut high) = (1u64, 1 << 30);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match rewritten(sizes, pages, requests, &Zipf::new(middle, theta)) > target {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

pub(super) fn build(
    asked: &Asked<'_>,
    fields: &mut Fields<'_>,
) -> Result<Arc<dyn Generator>, SourceError> {
    let name = asked.argument.unwrap_or_default();
    let Some(mut stats) = volume(name) else {
        let known: Vec<String> = volumes().into_iter().map(|v| v.name).collect();
        return Err(fields.wrong("volume", name, &format!("one of {}", known.join(", "))));
    };
    stats.read_ppm = fields.percent("read", stats.read_ppm)?;
    let bytes = fields.percent("readbytes", u64::MAX)?;
    if bytes != u64::MAX {
        stats.read_ppm = by_bytes(bytes, stats.read_mean, stats.write_mean);
    }
    if stats.read_ppm >= 1_000_000 {
        return Err(fields.wrong("read", "100 %", "less than 100 %: the model needs writes"));
    }
    let theta = fields.real("theta", 0.95, 0.01, 10.0)?;
    let count = fields.count("count", 1_000_000, 1)?;
    let arrival = fields.arrival(Arrival::Exponential(stats.interarrival), count)?;
    let sizes = "mean sizes between 4 and 256 KiB";
    let msr = Msr::new(stats, theta).ok_or_else(|| fields.wrong("volume", name, sizes))?;
    let (seed, app, draws) = (asked.seed, asked.app.to_string(), asked.draws.to_string());
    Ok(Arc::new(Msr { seed, app, draws, count, arrival, ..msr }))
}

impl Generator for Msr {
    fn open(&self) -> Box<dyn Source + Send> {
        Box::new(MsrSource {
            zipf: Zipf::new(self.extents, self.theta),
            scatter: Scatter::new(self.extents, &mut self.stream(SCATTER)),
            operations: self.stream("operation"),
            sizes: self.stream("size"),
            addresses: self.stream("address"),
            clock: ArrivalClock::new(self.arrival, self.stream("arrival")),
            left: self.count,
            read_area: self.written_pages() * READ_AREA,
            model: self.clone(),
        })
    }

    fn describe(&self) -> Vec<(String, String)> {
        let written = Bytes(self.written_pages() * UNIT_BYTES);
        let kib = |bytes: Bytes| format!("{:.1} KiB", bytes.0 as f64 / 1024.0);
        let mut out = vec![
            ("volume", self.stats.name.clone()),
            ("read", percent_text(self.stats.read_ppm)),
            ("read mean", kib(self.stats.read_mean)),
            ("read q", format!("{:.4}", self.reads.q())),
            ("write mean", kib(self.stats.write_mean)),
            ("write q", format!("{:.4}", self.writes.q())),
            ("rewritten", format!("{:.2} % of a million requests", 100.0 * self.stats.rewritten)),
            ("theta", format!("{}", self.theta)),
            ("extents", format!("{} of {} KiB", self.extents, self.pages * 4)),
            ("written area", written.human()),
            ("count", self.count.to_string()),
            ("iat", span_text(self.arrival.mean())),
            ("arrival", arrival_text(self.arrival).to_string()),
            ("statistics", "stat.txt of 1020xyr/ssdsim, commit cdc1aea7".to_string()),
            ("assumed sizes", "powers of two from 4 to 256 KiB, weights q^k".to_string()),
            ("assumed writes", "extents of the mean write, Zipf ranks, scattered".to_string()),
            (
                "assumed reads",
                format!("half as the writes, half uniform over {READ_AREA} written areas"),
            ),
            ("assumed times", "independent of each other".to_string()),
        ];
        if self.extent().0 > DRIVE_BYTES {
            let note = "the areas exceed a 300 GiB drive: at this skew, few rewrites take many \
                        extents; a lower theta shrinks them, `modulo` wraps them";
            out.push(("note", note.to_string()));
        }
        if !self.stats.assumed.is_empty() {
            out.push(("assumed volume", self.stats.assumed.to_string()));
        }
        out.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }

    fn extent(&self) -> Bytes {
        Bytes((self.written_pages() * READ_AREA + LARGEST) * UNIT_BYTES)
    }
}

struct MsrSource {
    model: Msr,
    zipf: Zipf,
    scatter: Scatter,
    operations: Rng,
    sizes: Rng,
    addresses: Rng,
    clock: ArrivalClock,
    left: u64,
    read_area: u64,
}

impl MsrSource {
    #[inline]
    fn page(&mut self, far: bool) -> u64 {
        if far {
            return self.addresses.below(self.read_area);
        }
        let rank = self.zipf.draw(&mut self.addresses);
        self.scatter.apply(rank) * self.model.pages
    }
}

impl Source for MsrSource {
    fn fill(&mut self, block: &mut Vec<Record>) -> Result<(), SourceError> {
        block.clear();
        while self.left > 0 && block.len() < BLOCK_RECORDS {
            self.left -= 1;
            // One draw says both: reads fall into a near and a far half.
            let draw = self.operations.below(2_000_000);
            let read = draw < 2 * self.model.stats.read_ppm;
            let page = self.page(read && draw < self.model.stats.read_ppm);
            let sizes = if read { &self.model.reads } else { &self.model.writes };
            block.push(Record {
                at: self.clock.tick(),
                offset: Bytes(page * UNIT_BYTES),
                len: sizes.draw(&mut self.sizes),
                response: None,
                app: AppId(0),
                op: if read { TraceOp::Read } else { TraceOp::Write },
                flags: Flags::default(),
                hint: 0,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::parse_recipe;

    /// Read share, mean sizes in sectors, rewritten share of a million requests.
    fn measure(text: &str) -> (f64, [f64; 2], f64) {
        let recipe = parse_recipe(text, 7).unwrap();
        let (mut source, mut block) = (recipe.open(), Vec::new());
        let (mut requests, mut sectors, mut written) = ([0u64; 2], [0u64; 2], Vec::new());
        loop {
            source.fill(&mut block).unwrap();
            if block.is_empty() {
                break;
            }
            for record in &block {
                let kind = usize::from(record.op == TraceOp::Write);
                requests[kind] += 1;
                sectors[kind] += record.len.0 / SECTOR_BYTES;
                let first = record.offset.0 / UNIT_BYTES;
                let pages = first..first + record.len.0 / UNIT_BYTES;
                written.extend(pages.filter(|_| kind == 1));
            }
        }
        // Every write of a page but its first is a rewrite.
        let writes = written.len();
        written.sort_unstable();
        written.dedup();
        let rewritten = 8 * (writes - written.len());
        let mean = |k: usize| sectors[k] as f64 / requests[k] as f64;
        let share = rewritten as f64 / sectors[1] as f64;
        (requests[0] as f64 / 1e6, [mean(0), mean(1)], share)
    }

    #[test]
    fn every_volume_meets_its_statistics() {
        let all = volumes();
        assert_eq!(all.len(), 16);
        for stats in all {
            let (read, means, again) = measure(&format!("msr:{}", stats.name));
            let name = &stats.name;
            let want = stats.read_ppm as f64 / 1e6;
            assert!((read - want).abs() < 0.01, "{name}: reads {read}, not {want}");
            assert!(
                (again - stats.rewritten).abs() < 0.01,
                "{name}: {again} of {}",
                stats.rewritten
            );
            for (got, want) in means.iter().zip([stats.read_mean, stats.write_mean]) {
                let want = want.0 as f64 / 512.0;
                assert!((got / want - 1.0).abs() < 0.03, "{name}: {got} sectors, not {want}");
            }
        }
    }

    #[test]
    fn a_target_too_large_for_the_drive_says_so() {
        let notes = |text: &str| {
            let recipe = parse_recipe(text, 1).unwrap();
            let noted = recipe.describe().iter().any(|(name, _)| name == "note");
            assert_eq!(noted, recipe.extent().0 > 300 << 30, "{text}");
            noted
        };
        // The volumes the paper uses fit; of the others, three need a lower theta than 0.95.
        for volume in ["mds_0", "hm_0", "prxy_0", "prn_0", "usr_0", "rsrch_0", "wdev_0"] {
            assert!(!notes(&format!("msr:{volume}")), "{volume}");
        }
        for volume in ["PROJ_1", "PROJ_3", "SRC2_2"] {
            assert!(notes(&format!("msr:{volume}")), "{volume}");
        }
        assert!(!notes("msr:PROJ_1,theta=0.5") && !notes("msr:PROJ_3,theta=0.8"));
        assert!(!notes("msr:SRC2_2,theta=0.8"));
    }

    #[test]
    fn the_skew_may_change_and_the_share_stays() {
        for theta in ["0.8", "1.1"] {
            let (_, _, again) = measure(&format!("msr:HM_0,theta={theta}"));
            assert!((again - 0.905).abs() < 0.01, "{theta}: {again}");
        }
    }

    #[test]
    fn the_table_is_read_as_it_is_written() {
        let hm = volume("hm_0").unwrap();
        assert_eq!(hm.read_ppm, 249_162);
        assert_eq!(hm.interarrival, Span::from_us(195_200));
        assert!((hm.rewritten - 15_236_000.0 / 16_837_464.0).abs() < 1e-12);
        assert_eq!(hm.write_mean.0, 16_837_464 * 512 / 750_839);
        assert_eq!(volume("rsrch_0").unwrap().name, "RSRCH");
        // usr_0: 73 % of the bytes in reads twice as large as writes.
        let usr = volume("usr_0").unwrap();
        assert_eq!(usr.read_ppm, 574_803);
        let described = parse_recipe("msr:usr_0", 1).unwrap().describe();
        assert!(
            described
                .iter()
                .any(|(name, text)| name == "assumed volume" && text.contains("50 KiB"))
        );
        assert!(described.iter().any(|(_, text)| text.contains("cdc1aea7")));
    }

    #[test]
    fn shares_by_bytes_are_met() {
        // W1 of paper 3: mds_0 with R/W 5/95.
        let (read, means, _) = measure("msr:mds_0,readbytes=5");
        let bytes = [read * means[0], (1.0 - read) * means[1]];
        assert!((bytes[0] / (bytes[0] + bytes[1]) - 0.05).abs() < 0.002);
        for bad in ["msr:nope", "msr:hm_0,read=100", "msr", "msr:hm_0,theta=0"] {
            assert!(parse_recipe(bad, 1).is_err(), "{bad}");
        }
    }
}
