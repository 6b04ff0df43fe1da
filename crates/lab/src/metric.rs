//! The numbers of a run: each has an id that stays, the path of its key in the result document, and
//! a unit. Reports, tables and comparisons name them here, so that one that does not exist does not
//! compile; that the document has each of them under its id is a test (`tests/metrics.rs`).

use serde_json::Value;

/// What a number counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Things: a whole number.
    Count,
    /// Bytes: a whole number.
    Bytes,
    /// A quotient, or a share of 1.
    Ratio,
    /// Nanoseconds of virtual time.
    Nanoseconds,
    /// Things in a second of virtual time: a whole number.
    PerSecond,
}

impl Unit {
    /// Its name, as a column's kind.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Count => "count",
            Unit::Bytes => "bytes",
            Unit::Ratio => "ratio",
            Unit::Nanoseconds => "ns",
            Unit::PerSecond => "per second",
        }
    }
}

/// A number of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metric {
    id: &'static str,
    name: Option<&'static str>,
    unit: Unit,
}

impl Metric {
    /// Its id: `latency_ns.write.p99`.
    pub const fn id(self) -> &'static str {
        self.id
    }
    /// What people call it: `write.p99`. `varve compare` shows those that have a name.
    pub const fn name(self) -> Option<&'static str> {
        self.name
    }
    /// What it counts.
    pub const fn unit(self) -> Unit {
        self.unit
    }
    /// Its value in a run of a result document; `None` if that does not know it.
    pub fn of(self, run: &Value) -> Option<f64> {
        at(run, self.id)?.as_f64()
    }
    /// The metric of an id or a name.
    pub fn find(text: &str) -> Option<Metric> {
        ALL.iter().copied().find(|metric| metric.id == text || metric.name == Some(text))
    }
}

/// Numbers of a run, one after the other: a list in its document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    id: &'static str,
}

impl Column {
    /// Its id: `series.waf`.
    pub const fn id(self) -> &'static str {
        self.id
    }
    fn list(self, run: &Value) -> &[Value] {
        at(run, self.id).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
    /// Its values in a run; one that is not known is `None`.
    pub fn of(self, run: &Value) -> Vec<Option<f64>> {
        self.list(run).iter().map(Value::as_f64).collect()
    }
}

/// The value at a dotted path, for people who name one (`--fail-over nand.reads.total`).
pub(crate) fn at<'a>(run: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(run, |at, key| at.get(key))
}

macro_rules! metrics {
    ($($metric:ident = $id:literal, $unit:ident $(, $name:literal)?;)*) => {
        $(
            #[doc = concat!("`", $id, "`.")]
            pub const $metric: Metric = Metric { id: $id, name: metrics!(@ $($name)?), unit: Unit::$unit };
        )*
        /// All of them; those with a name in the order in which a comparison shows them.
        pub const ALL: &[Metric] = &[$($metric),*];
    };
    (@ $name:literal) => { Some($name) };
    (@) => { None };
}

metrics! {
    HIT = "hit_ratio.total", Ratio, "hit";
    HIT_READ = "hit_ratio.read", Ratio, "hit.read";
    HIT_WRITE = "hit_ratio.write", Ratio, "hit.write";
    WAF = "waf", Ratio, "waf";
    WAF_FLASH = "waf_flash", Ratio, "waf_flash";
    ERASES = "erases", Count, "erases";
    PROGRAMS = "nand.programs.total", Count, "programs";
    GC_PAGES = "gc.pages", Count, "gc.pages";
    GC_STALL = "gc.stall_ns", Nanoseconds, "stall";
    IOPS = "iops", PerSecond, "iops";
    BYTES_PER_S = "bytes_per_s", PerSecond, "bytes_per_s";
    READ_MEAN = "latency_ns.read.mean", Nanoseconds, "read.mean";
    READ_P50 = "latency_ns.read.p50", Nanoseconds, "read.p50";
    READ_P99 = "latency_ns.read.p99", Nanoseconds, "read.p99";
    READ_P999 = "latency_ns.read.p999", Nanoseconds, "read.p999";
    WRITE_MEAN = "latency_ns.write.mean", Nanoseconds, "write.mean";
    WRITE_P50 = "latency_ns.write.p50", Nanoseconds, "write.p50";
    WRITE_P99 = "latency_ns.write.p99", Nanoseconds, "write.p99";
    WRITE_P999 = "latency_ns.write.p999", Nanoseconds, "write.p999";
    WAF_DRIVE = "waf_drive", Ratio;
    PROGRAMS_HOST = "nand.programs.host", Count;
    PROGRAMS_GC = "nand.programs.gc", Count;
    PROGRAMS_TX = "nand.programs.tx", Count;
    PROGRAMS_MAP = "nand.programs.map", Count;
    PROGRAMS_METADATA = "nand.programs.metadata", Count;
    PROGRAMS_PADDING = "nand.programs.padding", Count;
    READ_COUNT = "latency_ns.read.count", Count;
    WRITE_COUNT = "latency_ns.write.count", Count;
    FLUSH_COUNT = "latency_ns.flush.count", Count;
    HOST_READ_UNITS = "host.read.units", Count;
    HOST_WRITE_UNITS = "host.write.units", Count;
    HOST_WRITE_BYTES = "host.write.bytes", Bytes;
    READ_UNWRITTEN = "host.read_unwritten", Count;
    SLOWDOWN_LEAST = "slowdown.least", Ratio;
    SLOWDOWN_MOST = "slowdown.most", Ratio, "slowdown";
    FAIRNESS = "slowdown.fairness", Ratio, "fairness";
    WAITED_SHARE = "host_queue.waited_share", Ratio;
    OFFERED_PER_S = "host_queue.offered_per_s", PerSecond;
    SERVED_PER_S = "host_queue.served_per_s", PerSecond;
    TIME = "time_ns", Nanoseconds;
    WINDOW = "series.requests_per_window", Count;
    WEAR_MOST = "wear.max", Count;
    LAST_WINDOW = "series.requests_in_last_window", Count;
}

macro_rules! columns {
    ($($column:ident = $id:literal;)*) => {
        $(
            #[doc = concat!("`", $id, "`.")]
            pub const $column: Column = Column { id: $id };
        )*
        /// All lists of numbers.
        pub const COLUMNS: &[Column] = &[$($column),*];
    };
}

columns! {
    OVER_TIME = "series.time_ns";
    OVER_STALL = "series.gc_stall_ns";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_names_are_unique() {
        let names = ALL.iter().filter_map(|metric| metric.name.filter(|name| *name != metric.id));
        let mut all: Vec<&str> = ALL.iter().map(|metric| metric.id).chain(names).collect();
        all.extend(COLUMNS.iter().map(|column| column.id));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert_eq!(Metric::find("write.p99"), Some(WRITE_P99));
        assert_eq!(Metric::find("latency_ns.write.p99"), Some(WRITE_P99));
        assert_eq!(Metric::find("latency"), None);
    }
}
