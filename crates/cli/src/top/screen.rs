//! Two samples for a person: a screen, a line, or a document.

use block::Bytes;
use report::format::significant;
use serde_json::{Map, Value, json};

use super::sample::{Asked, Kind, Layer, Sample, since};
use super::trend::Measure;

/// What happened between two samples of one source.
pub struct Between<'a> {
    now: &'a Sample,
    seconds: f64,
    host: Asked,
    device: Option<Asked>,
    layers: Vec<Layer>,
    /// Bytes read from flash, and blocks erased.
    nand: Option<(u64, u64)>,
}

fn asked(before: &Asked, now: &Asked) -> Asked {
    let mut kinds = now.kinds.clone();
    for ((_, kind), (_, old)) in kinds.iter_mut().zip(&before.kinds) {
        *kind = kind.since(old);
    }
    Asked { kinds, errors: since(before.errors, now.errors) }
}

impl<'a> Between<'a> {
    /// From `before` to `now`.
    pub fn new(before: &Sample, now: &'a Sample) -> Between<'a> {
        let layer = |layer: &Layer| match before.layers.iter().find(|b| b.name == layer.name) {
            Some(old) => layer.since(old),
            // Its power was off: all of it is new.
            None => layer.clone(),
        };
        let nand = now.nand.map(|nand| {
            let (read, erases) = before.nand.map_or((0, 0), |old| (old.read, old.erases));
            (since(read, nand.read), since(erases, nand.erases))
        });
        Between {
            now,
            seconds: now.at.saturating_duration_since(before.at).as_secs_f64().max(1e-3),
            host: asked(&before.host, &now.host),
            device: now.device.as_ref().map(|device| match &before.device {
                Some(old) => asked(old, device),
                None => device.clone(),
            }),
            layers: now.layers.iter().map(layer).collect(),
            nand,
        }
    }

    fn rate(&self, count: u64) -> f64 {
        count as f64 / self.seconds
    }

    fn bytes(&self, count: u64) -> String {
        bytes(self.rate(count)) + "/s"
    }

    fn each(&self, count: u64) -> String {
        let rate = self.rate(count);
        if rate >= 100.0 { format!("{rate:.0}/s") } else { format!("{}/s", significant(rate, 2)) }
    }

    /// Requests of one place, a line each.
    fn place(&self, name: &str, of: &Asked, text: &mut Vec<String>) {
        for (i, (kind, count)) in of.kinds.iter().enumerate() {
            let name = if i == 0 { name } else { "" };
            let volume = if i < 2 { self.bytes(count.bytes) } else { String::new() };
            let line = format!(
                "{name:<8} {kind:<6} {volume:>13} {:>11}   p50 {:>8}  p99 {:>8}  mean {:>8}",
                self.each(count.count),
                edge(count, 50),
                edge(count, 99),
                mean(count),
            );
            text.push(line);
        }
        if of.errors > 0 {
            text.push(format!("{:<8} {} refused", "", of.errors));
        }
    }

    /// A screen.
    pub fn screen(&self) -> String {
        let power = if self.now.on { "on" } else { "OFF" };
        let cuts = match self.now.cuts {
            0 => String::new(),
            1 => ", cut once".to_string(),
            n => format!(", cut {n} times"),
        };
        let mut text = vec![format!("{}   power {power}{cuts}", self.now.stack), String::new()];
        self.place(if self.device.is_some() { "files" } else { "host" }, &self.host, &mut text);
        if let Some(device) = &self.device {
            self.place("device", device, &mut text);
        }
        for (layer, whole) in self.layers.iter().zip(&self.now.layers) {
            let name = if layer.name == "drive" { "NAND" } else { layer.name };
            text.push(String::new());
            text.push(format!(
                "{name:<8} write  {:>13}   amplification {} now, {} in all",
                self.bytes(layer.total()),
                ratio(layer.amplification()),
                ratio(whole.amplification()),
            ));
            if let (Some((read, erases)), "drive") = (self.nand, layer.name) {
                let (read, erases) = (self.bytes(read), self.each(erases));
                text.push(format!("{:<8} read   {read:>13}   {erases} blocks erased", ""));
            }
            text.push(format!("{:<8} causes {}", "", causes(layer)));
            let free = layer.free.map_or("-".to_string(), |free| free.to_string());
            text.push(format!(
                "{:<8} clean  {:>13}   {} cleaned, {} copied; {free} {} free",
                "",
                self.each(layer.cleaned),
                whole.cleaned,
                bytes(whole.copied as f64),
                layer.unit,
            ));
            if let Some(damage) = whole.damage.filter(|damage| damage.blocks > 0) {
                text.push(format!(
                    "{:<8} DAMAGE {} blocks, {} requests refused because of them",
                    "", damage.blocks, damage.requests,
                ));
            }
        }
        text.join("\n") + "\n"
    }

    /// What is followed over time.
    pub fn measures(&self) -> Vec<Measure> {
        let per_second = |count: u64| Some(self.rate(count));
        let [(_, read), (_, write), (_, flush), _] = &self.host.kinds;
        let volume = |v: f64| bytes(v) + "/s";
        let p99 = |of: &Kind| of.below(99).flatten().map(|ns| ns as f64);
        let say_time = |ns: f64| time(ns as u64);
        let mut all = Vec::new();
        let mut add = |name: String, value, say| all.push(Measure { name, value, say });
        add("read".to_string(), per_second(read.bytes), volume as fn(f64) -> String);
        add("write".to_string(), per_second(write.bytes), volume);
        add("read p99".to_string(), p99(read), say_time);
        add("write p99".to_string(), p99(write), say_time);
        add("flush p99".to_string(), p99(flush), say_time);
        for layer in &self.layers {
            let name = if layer.name == "drive" { "NAND" } else { layer.name };
            add(format!("{name} write"), per_second(layer.total()), volume);
            add(format!("{name} waf"), layer.amplification(), |waf| ratio(Some(waf)));
            add(format!("{name} cleaned"), per_second(layer.cleaned), |n| significant(n, 3) + "/s");
            add(format!("{name} free"), layer.free.map(|free| free as f64), |n| format!("{n}"));
        }
        all
    }

    /// The heading of [`Between::line`].
    pub fn heading(&self) -> String {
        let mut text =
            format!("{:>12} {:>12} {:>9} {:>9} {:>9}", "read", "write", "ops", "w p50", "w p99");
        for layer in &self.layers {
            let [wrote, waf, free] =
                ["write", "waf", "free"].map(|w| format!("{} {w}", layer.name));
            text += &format!(" {wrote:>13} {waf:>9} {free:>10} {:>9}", "cleaned");
        }
        text + "\n"
    }

    /// One line.
    pub fn line(&self) -> String {
        let [(_, read), (_, write), ..] = &self.host.kinds;
        let all: u64 = self.host.kinds.iter().map(|(_, kind)| kind.count).sum();
        let mut text = format!(
            "{:>12} {:>12} {:>9} {:>9} {:>9}",
            self.bytes(read.bytes),
            self.bytes(write.bytes),
            self.each(all),
            edge(write, 50),
            edge(write, 99),
        );
        for layer in &self.layers {
            text += &format!(
                " {:>13} {:>9} {:>10} {:>9}",
                self.bytes(layer.total()),
                ratio(layer.amplification()),
                layer.free.map_or("-".to_string(), |free| free.to_string()),
                self.each(layer.cleaned),
            );
        }
        text + "\n"
    }

    fn place_document(&self, of: &Asked, whole: &Asked) -> Value {
        let kinds = of.kinds.iter().zip(&whole.kinds).map(|((name, kind), (_, all))| {
            let known = |share| kind.below(share).flatten();
            let mut document = json!({
                "per_second": self.rate(kind.count),
                "bytes_per_second": self.rate(kind.bytes),
                "count": all.count,
                "bytes": all.bytes,
            });
            // Without a request, or beyond the last edge, it is not known.
            for (key, value) in [("p50_ns", known(50)), ("p99_ns", known(99))] {
                if let Some(value) = value {
                    document[key] = json!(value);
                }
            }
            (name.to_string(), document)
        });
        Value::Object(kinds.collect::<Map<_, _>>())
    }

    /// One document.
    pub fn document(&self) -> Value {
        let mut results = json!({
            "stack": self.now.stack,
            "power": { "on": self.now.on, "cuts": self.now.cuts },
            "seconds": self.seconds,
            "host": self.place_document(&self.host, &self.now.host),
        });
        if let (Some(device), Some(whole)) = (&self.device, &self.now.device) {
            results["device"] = self.place_document(device, whole);
        }
        for (layer, whole) in self.layers.iter().zip(&self.now.layers) {
            let causes = whole.written.iter().map(|(name, n)| (name.to_string(), json!(n)));
            let mut document = json!({
                "bytes_per_second": self.rate(layer.total()),
                "bytes_by_cause": causes.collect::<Map<_, _>>(),
                "cleaned_per_second": self.rate(layer.cleaned),
                "cleaned": whole.cleaned,
                "copied_bytes": whole.copied,
            });
            let known = [
                ("write_amplification", whole.amplification().map(|waf| json!(waf))),
                ("write_amplification_now", layer.amplification().map(|waf| json!(waf))),
                (
                    if layer.unit == "blocks" { "free_blocks" } else { "free_segments" },
                    layer.free.map(|free| json!(free)),
                ),
            ];
            for (key, value) in known {
                if let Some(value) = value {
                    document[key] = value;
                }
            }
            if let Some(damage) = whole.damage {
                document["damaged_blocks"] = json!(damage.blocks);
                document["damaged_requests"] = json!(damage.requests);
            }
            results[layer.name] = document;
        }
        if let Some(nand) = self.now.nand {
            results["nand"] = json!({ "read_bytes": nand.read, "erases": nand.erases });
        }
        json!({ "schema": "varve.top/1", "version": crate::VERSION, "results": results })
    }
}

fn bytes(count: f64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let found = units.iter().find(|(shift, _)| count >= (1_u64 << shift) as f64);
    match found {
        Some((shift, unit)) => {
            format!("{} {unit}", significant(count / (1_u64 << shift) as f64, 3))
        }
        None => Bytes(count as u64).human(),
    }
}

fn time(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    match units.iter().find(|(scale, _)| ns >= *scale) {
        Some((scale, unit)) => format!("{} {unit}", significant(ns as f64 / *scale as f64, 3)),
        None => format!("{ns} ns"),
    }
}

fn edge(of: &Kind, share: u64) -> String {
    match of.below(share) {
        None => "-".to_string(),
        Some(None) => "> 34 s".to_string(),
        Some(Some(ns)) => time(ns),
    }
}

fn mean(of: &Kind) -> String {
    of.ns.checked_div(of.count).map_or("-".to_string(), time)
}

fn ratio(of: Option<f64>) -> String {
    of.map_or("-".to_string(), |waf| format!("{waf:.3}"))
}

/// Shares of what was written, the small ones left out.
fn causes(of: &Layer) -> String {
    let all = of.total();
    let shares = of.written.iter().filter(|(_, n)| *n > 0 && n * 200 >= all);
    let text: Vec<String> =
        shares.map(|(name, n)| format!("{name} {} %", (n * 100 + all / 2) / all)).collect();
    if text.is_empty() { "-".to_string() } else { text.join(", ") }
}
