//! One look at a workload before it is replayed: how far it reaches and what it holds.

use block::Bytes;
use workload::read::{Carries, OpenTrace};
use workload::split::{UnitSize, unit_range};
use workload::{BLOCK_RECORDS, Record, Source, TraceOp};

use super::Fit;
use super::place::Layout;
use crate::LabError;
use crate::replay::Watch;
use report::json::{Json, Map, MapExt};

/// Each volume of a trace starts on such a boundary of the drive.
const AREA: u64 = 1 << 20;

/// What a workload holds.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Records; 0 = not counted (a recipe knows its extent without being run).
    pub records: u64,
    /// Records by operation: read, write, flush, discard, zero.
    pub by_op: [u64; 5],
    /// Names of the applications by number.
    pub apps: Vec<String>,
    /// Format of a trace.
    pub format: Option<&'static str>,
    /// What that format knows.
    pub carries: Option<Carries>,
    /// What a recipe says of itself.
    pub recipe: Vec<(String, String)>,
    /// Bad lines left out.
    pub skipped: u64,
    /// One past the last byte, by application; one for all if they share an address space.
    ends: Vec<u64>,
    volumes: bool,
    chunk: u64,
    /// Pieces touched, one bit each, by application as `ends`.
    touched: Vec<Vec<u64>>,
}

impl Survey {
    /// Of a trace file. Unless they share one, each volume has an address space of its own.
    pub(super) fn of_trace(
        mut trace: OpenTrace,
        chunk: Option<Bytes>,
        watch: Watch<'_>,
    ) -> Result<Survey, LabError> {
        let mut survey = Survey { volumes: !trace.is_shared(), ..Survey::default() };
        survey.read(&mut trace, chunk, watch)?;
        survey.apps = trace.apps().to_vec();
        survey.format = Some(trace.format().name);
        survey.carries = Some(trace.carries());
        survey.skipped = trace.summary().skipped;
        Ok(survey)
    }

    /// Of any source with one address space.
    pub(super) fn of_source(
        source: &mut dyn Source,
        chunk: Option<Bytes>,
        watch: Watch<'_>,
    ) -> Result<Survey, LabError> {
        let mut survey = Survey::default();
        survey.read(source, chunk, watch)?;
        Ok(survey)
    }

    /// Of a recipe, which knows how far it reaches.
    pub(super) fn of_recipe(&mut self, extent: Bytes, describe: Vec<(String, String)>) {
        self.ends = vec![extent.0];
        self.recipe = describe;
    }

    fn read(
        &mut self,
        source: &mut dyn Source,
        chunk: Option<Bytes>,
        watch: Watch<'_>,
    ) -> Result<(), LabError> {
        self.chunk = chunk.map_or(0, |c| c.0);
        let mut block = Vec::with_capacity(BLOCK_RECORDS);
        loop {
            source.fill(&mut block)?;
            if block.is_empty() {
                break;
            }
            watch.tick(0)?;
            for record in &block {
                self.note(record)?;
            }
        }
        if self.records == 0 {
            return Err(LabError::Input("the workload has no requests".to_string()));
        }
        Ok(())
    }

    fn note(&mut self, record: &Record) -> Result<(), LabError> {
        self.records += 1;
        self.by_op[record.op as usize] += 1;
        let range = unit_range(record, UnitSize::PAGE)
            .map_err(|e| LabError::Input(format!("request {}: {e}", self.records)))?;
        let area = if self.volumes { usize::from(record.app.0) } else { 0 };
        if self.ends.len() <= area {
            self.ends.resize(area + 1, 0);
            self.touched.resize_with(area + 1, Vec::new);
        }
        if record.op == TraceOp::Flush || range.count() == 0 {
            return Ok(());
        }
        let end = range.end * UnitSize::PAGE.bytes();
        // A discard of what was never touched needs no room when gaps are left out.
        if self.chunk == 0 {
            self.ends[area] = self.ends[area].max(end);
        } else if record.op != TraceOp::Discard {
            self.ends[area] = self.ends[area].max(end);
            let (first, last) = (range.first * 4096 / self.chunk, (end - 1) / self.chunk);
            let bits = &mut self.touched[area];
            let words = (last / 64) as usize + 1;
            if words > MOST_WORDS {
                let enough = Bytes(end.div_ceil(MOST_WORDS as u64 * 64).next_power_of_two());
                return Err(LabError::Input(format!(
                    "request {}: byte {} is beyond what pieces of {} can compact; expected \
                     larger pieces (`fit = compact:{}`)",
                    self.records,
                    record.offset,
                    Bytes(self.chunk).human(),
                    enough.human().replace(' ', "")
                )));
            }
            if bits.len() < words {
                bits.resize(words, 0);
            }
            for piece in first..=last {
                bits[(piece / 64) as usize] |= 1 << (piece % 64);
            }
        }
        Ok(())
    }

    /// Bytes of address space needed.
    pub(super) fn extent(&self, fit: Fit) -> Bytes {
        let of = |area: usize| match fit {
            Fit::Compact(_) => {
                let pieces = self.touched[area].iter().map(|w| u64::from(w.count_ones()));
                pieces.sum::<u64>() * self.chunk
            }
            _ => self.ends[area],
        };
        match self.ends.len() {
            0 => Bytes(0),
            1 => Bytes(of(0)),
            n => Bytes((0..n).map(|area| of(area).next_multiple_of(AREA)).sum()),
        }
    }

    /// Where records go on a drive of `capacity`.
    pub(super) fn layout(&self, fit: Fit, capacity: Bytes) -> Result<Layout, LabError> {
        let extent = self.extent(fit);
        if extent.0 > capacity.0 && fit != Fit::Wrap {
            return Err(LabError::Input(format!(
                "the workload reaches {}, the drive holds {}: expected a larger drive \
                 (`capacity`), or `fit` wrap or compact",
                extent.human(),
                capacity.human()
            )));
        }
        let mut base = 0;
        let mut bases = Vec::new();
        for area in 0..self.ends.len() {
            bases.push(base);
            let one = Survey {
                ends: vec![self.ends[area]],
                touched: self.touched.get(area).cloned().into_iter().collect(),
                chunk: self.chunk,
                ..Survey::default()
            };
            base += one.extent(fit).0.next_multiple_of(AREA);
        }
        let wrap = (fit == Fit::Wrap && extent.0 > capacity.0).then_some(capacity);
        Ok(Layout::new(bases, self.volumes, self.chunk, &self.touched, wrap))
    }

    pub(super) fn to_json(&self) -> Map {
        let mut map = Map::new();
        if self.records > 0 {
            map.int("requests", self.records);
            let mut ops = Map::new();
            for (name, n) in ["read", "write", "flush", "discard", "zero"].iter().zip(self.by_op) {
                ops.int(name, n);
            }
            map.put("by_op", Json::Map(ops));
        }
        if !self.apps.is_empty() {
            map.put("apps", Json::List(self.apps.iter().map(Json::text).collect()));
        }
        map.maybe("format", self.format.map(Json::text));
        if self.skipped > 0 {
            map.int("skipped_bad", self.skipped);
        }
        if !self.recipe.is_empty() {
            let items = self.recipe.iter().map(|(k, v)| (k.clone(), Json::text(v)));
            map.put("recipe", Json::Map(items.collect()));
        }
        map
    }
}

/// Words of a bitmap of pieces at most: 64 MiB, 2^29 pieces.
const MOST_WORDS: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// It named 64 MiB, whatever was too small: also those.
    #[test]
    fn pieces_that_are_too_small_are_told_the_size_that_is_enough() {
        let record = Record {
            at: block::Time::ZERO,
            offset: Bytes((1 << 62) - 4096),
            len: Bytes(4096),
            response: None,
            app: block::AppId(0),
            op: TraceOp::Write,
            flags: workload::Flags::default(),
            hint: 0,
        };
        let note = |chunk: u64| Survey { chunk, ..Survey::default() }.note(&record);
        let error = note(64 << 20).unwrap_err().to_string();
        let size = error.rsplit("compact:").next().and_then(|text| text.split('`').next()).unwrap();
        let Ok(Fit::Compact(enough)) = format!("compact:{size}").parse() else { panic!("{error}") };
        assert!(enough.0 > 64 << 20, "{error}");
        assert!(note(enough.0 / 2).is_err(), "{error}");
        note(enough.0).unwrap();
    }
}
