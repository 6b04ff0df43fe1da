//! Prometheus' text format, version 0.0.4.
//!
//! Invariants: every sample stands below the HELP and TYPE of its family, a family stands once, and
//! what the source does not count has no family.

use std::fmt::Write;

use super::sample::{Asked, Sample};

/// The type of the answer.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Upper edges of histograms in nanoseconds: every other power of two from 1 us to 17 s, each also an
/// edge of the source's finer buckets.
const EDGES: std::ops::RangeInclusive<u32> = 10..=34;

struct Text(String);

impl Text {
    /// A family: its samples as labels (without braces; empty for none) and values.
    fn family(&mut self, name: &str, kind: &str, help: &str, samples: &[(String, String)]) {
        if samples.is_empty() {
            return;
        }
        let _ = write!(self.0, "# HELP varve_{name} {help}\n# TYPE varve_{name} {kind}\n");
        for (labels, value) in samples {
            let _ = match labels.is_empty() {
                true => writeln!(self.0, "varve_{name} {value}"),
                false => writeln!(self.0, "varve_{name}{{{labels}}} {value}"),
            };
        }
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: u64) {
        self.family(name, kind, help, &[(String::new(), value.to_string())]);
    }

    fn asked(&mut self, of: &Asked, place: &str, who: &str) {
        let words = [
            ("reads", "read", "Reads"),
            ("writes", "write", "Writes"),
            ("flushes", "flush", "Flushes"),
            ("trims", "trim", "Discards and writes of zeroes"),
        ];
        for ((many, one, what), (_, kind)) in words.iter().zip(&of.kinds) {
            let help = format!("{what} by {who}.");
            self.one(&format!("{place}_{many}_total"), "counter", &help, kind.count);
            let past = match *one {
                "read" => "read",
                "write" => "written",
                _ => continue,
            };
            let help = format!("Bytes {past} by {who}.");
            self.one(&format!("{place}_{past}_bytes_total"), "counter", &help, kind.bytes);
        }
        let help = format!("Requests by {who} that were refused.");
        self.one(&format!("{place}_errors_total"), "counter", &help, of.errors);
        self.latency(of, place, who);
    }

    fn latency(&mut self, of: &Asked, place: &str, who: &str) {
        let name = format!("varve_{place}_latency_seconds");
        let _ = write!(
            self.0,
            "# HELP {name} Time from a request by {who} to its answer.\n# TYPE {name} histogram\n"
        );
        for (operation, kind) in &of.kinds {
            let labels = format!("operation=\"{operation}\"");
            for power in EDGES.step_by(2) {
                let edge = 1_u64 << power;
                let below = |(high, _): &&(Option<u64>, u64)| high.is_some_and(|h| h <= edge);
                let count: u64 = kind.latency.iter().filter(below).map(|(_, n)| n).sum();
                let seconds = edge as f64 / 1e9;
                let _ = writeln!(self.0, "{name}_bucket{{{labels},le=\"{seconds}\"}} {count}");
            }
            let count: u64 = kind.latency.iter().map(|(_, n)| n).sum();
            let _ = writeln!(self.0, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
            let _ = writeln!(self.0, "{name}_sum{{{labels}}} {}", kind.ns as f64 / 1e9);
            let _ = writeln!(self.0, "{name}_count{{{labels}}} {count}");
        }
    }

    fn layers(&mut self, of: &Sample) {
        let each = |value: &dyn Fn(&super::sample::Layer) -> Option<String>| {
            let found = of
                .layers
                .iter()
                .filter_map(|layer| Some((format!("layer=\"{}\"", layer.name), value(layer)?)));
            found.collect::<Vec<_>>()
        };
        self.family(
            "write_amplification",
            "gauge",
            "Bytes a layer wrote for each byte of data it wrote or, the drive, was given.",
            &each(&|layer| layer.amplification().map(|waf| waf.to_string())),
        );
        for unit in ["segments", "blocks"] {
            let free = each(&|layer| Some(layer.free.filter(|_| layer.unit == unit)?.to_string()));
            let help = format!("Free {unit} of a layer.");
            self.family(&format!("free_{unit}"), "gauge", &help, &free);
        }
        self.family(
            "cleanings_total",
            "counter",
            "Segments, or lines of a drive, cleaned by a layer.",
            &each(&|layer| Some(layer.cleaned.to_string())),
        );
        self.family(
            "cleaning_copied_bytes_total",
            "counter",
            "Bytes copied by a layer's cleaning.",
            &each(&|layer| Some(layer.copied.to_string())),
        );
        self.family(
            "damaged_blocks_total",
            "counter",
            "Blocks that a layer found damaged.",
            &each(&|layer| Some(layer.damage?.blocks.to_string())),
        );
        self.family(
            "damaged_requests_total",
            "counter",
            "Requests that a layer refused because of damaged blocks.",
            &each(&|layer| Some(layer.damage?.requests.to_string())),
        );
        for layer in &of.layers {
            let (name, help) = match layer.name {
                "drive" => ("nand_programmed_bytes_total", "Bytes programmed to flash, by cause."),
                "log" => ("log_written_bytes_total", "Bytes the host log wrote, by cause."),
                _ => ("fs_written_bytes_total", "Bytes the file system wrote, by cause."),
            };
            let label = |cause: &str| format!("cause=\"{cause}\"");
            let samples: Vec<_> =
                layer.written.iter().map(|(cause, n)| (label(cause), n.to_string())).collect();
            self.family(name, "counter", help, &samples);
        }
    }
}

/// The value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// All that a sample says.
pub fn text(of: &Sample) -> String {
    let mut text = Text(String::new());
    let stack = format!("stack=\"{}\"", escaped(&of.stack));
    let info = [(stack, "1".to_string())];
    text.family("info", "gauge", "What the stack is made of.", &info);
    text.one("power_on", "gauge", "Whether the power of the stack is on.", u64::from(of.on));
    text.one("power_cuts_total", "counter", "Power cuts.", of.cuts);
    text.asked(&of.host, "host", "programs");
    if let Some(device) = &of.device {
        text.asked(device, "device", "the mounted file system");
    }
    text.layers(of);
    if let Some(nand) = &of.nand {
        text.one("nand_read_bytes_total", "counter", "Bytes read from flash.", nand.read);
        text.one("nand_erases_total", "counter", "Blocks of flash erased.", nand.erases);
    }
    text.0
}
