//! What a paper says of a run: a paragraph on methods, made of what the result document says, and whom to
//! cite. Nothing is in it that the document does not have.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::Value;

use crate::metric;
use crate::report::{impossible, parts, setting_name};

/// Papers whose mechanisms are here: key, entry.
const PAPERS: [(&str, &str); 4] = [
    (
        "sung2022remapping",
        "@article{sung2022remapping,\n  author = {Sung, D. K. and Son, Y. and Eom, H. and Kim, S.},\n  \
         title = {Improving {I/O} Performance via Address Remapping in {NVMe} Interface},\n  \
         journal = {IEEE Access},\n  year = {2022},\n  doi = {10.1109/ACCESS.2022.3221733}\n}\n",
    ),
    (
        "gwak2021scj",
        "@article{gwak2021scj,\n  author = {Gwak, H. and Shin, D.},\n  \
         title = {{SCJ}: Segment Cleaning Journaling for Log-Structured File Systems},\n  \
         journal = {IEEE Access},\n  year = {2021},\n  doi = {10.1109/ACCESS.2021.3121423}\n}\n",
    ),
    (
        "jeong2021isolation",
        "@article{jeong2021isolation,\n  author = {Jeong, J. and Lee, G. and Lee, J. and Choi, J. and \
         Song, Y. H.},\n  title = {Buffer Management With Append-Only Data Isolation for Improving {SSD} \
         Performance},\n  journal = {IEEE Access},\n  year = {2021},\n  \
         doi = {10.1109/ACCESS.2021.3130278}\n}\n",
    ),
    (
        "yin2025nolog",
        "@article{yin2025nolog,\n  author = {Yin and Du and Fan and Noh},\n  title = {Eliminating \
         duplicate writes of logging via no-logging flash translation layer in {SSDs}},\n  \
         journal = {Journal of Systems Architecture},\n  volume = {160},\n  pages = {103347},\n  \
         year = {2025}\n}\n",
    ),
];

/// What a paper says of a run.
#[derive(Clone, Debug)]
pub struct Citation {
    /// A paragraph on methods.
    pub methods: String,
    /// Entries of BibTeX: the program, and the papers whose mechanisms ran.
    pub bibtex: String,
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

/// Members of a list, or the one value.
fn list(value: &Value) -> Vec<String> {
    match value.as_array() {
        Some(values) => values.iter().map(text).collect(),
        None if value.is_null() => Vec::new(),
        None => vec![text(value)],
    }
}

/// `1, 2, 3` as `1 to 3`.
fn seeds(value: &Value) -> String {
    let numbers: Vec<u64> = match value.as_array() {
        Some(values) => values.iter().filter_map(Value::as_u64).collect(),
        None => value.as_u64().into_iter().collect(),
    };
    let in_order = numbers.windows(2).all(|two| two[1] == two[0] + 1);
    match numbers.as_slice() {
        [first, .., last] if in_order => format!("seeds {first} to {last}"),
        [one] => format!("seed {one}"),
        _ => format!("seeds {}", list(value).join(", ")),
    }
}

/// What the program says of a run.
struct Facts<'a> {
    document: &'a Value,
}

impl Facts<'_> {
    fn runs(&self) -> impl Iterator<Item = &Value> {
        self.document["results"].as_array().into_iter().flatten()
    }

    /// Every value that a key of the drive has in any run.
    fn values(&self, key: &str) -> BTreeSet<String> {
        let said = parts(self.document).into_iter().map(|part| &part["config"][key]["value"]);
        let swept = self.runs().map(|run| &run["params"][key]);
        let swept: BTreeSet<String> = swept.filter_map(Value::as_str).map(str::to_string).collect();
        if !swept.is_empty() {
            return swept;
        }
        said.filter_map(Value::as_str).map(str::to_string).collect()
    }

    /// Presets that drives began with.
    fn presets(&self) -> BTreeSet<String> {
        let entries = parts(self.document)
            .into_iter()
            .flat_map(|part| part["config"].as_object().into_iter().flatten());
        let from = entries.filter_map(|(_, entry)| entry["from"].as_str());
        let name = |from: &str| {
            let rest = &from[from.find("preset ")? + "preset ".len()..];
            let name = rest.split([',', ':', ' ', ')']).next().unwrap_or_default();
            ssd::presets().contains(&name).then(|| name.to_string())
        };
        from.filter_map(name).collect()
    }

    fn drive(&self) -> String {
        let presets = Vec::from_iter(self.presets());
        let mut out = match presets.len() {
            0 => "The drive is configured key by key".to_string(),
            1 => format!("The drive is the preset {}", presets[0]),
            _ => format!("The drives are the presets {}", presets.join(", ")),
        };
        let scales: BTreeSet<String> = parts(self.document)
            .into_iter()
            .filter_map(|part| part["scale"]["by"].as_str())
            .map(str::to_string)
            .collect();
        if !scales.is_empty() {
            let _ = write!(out, ", scaled by {}", Vec::from_iter(scales).join(" and "));
        }
        for (key, what) in [("remap", "host log"), ("layers", "layers")] {
            if !self.document[key].is_null() {
                let _ = write!(out, ", with {what} above it ({})", text(&self.document[key]));
            }
        }
        out + "."
    }

    fn workload(&self) -> String {
        let mut named = Vec::new();
        for part in parts(self.document) {
            let workload = &part["workload"];
            let short = |name: String| name.rsplit('/').next().unwrap_or(&name).to_string();
            let tenants = workload["tenants"].as_array().into_iter().flatten();
            let tenants: Vec<String> = tenants.map(|tenant| text(&tenant["name"])).collect();
            let mut name = list(&workload["source"]).into_iter().map(short).collect::<Vec<_>>();
            name.extend((!tenants.is_empty()).then(|| tenants.join(" + ")));
            name.extend(workload["files"].as_str().map(str::to_string));
            if name.is_empty() {
                continue;
            }
            let requests = workload["requests"].as_u64();
            let requests = requests.map_or(String::new(), |n| format!(" ({n} requests)"));
            let one = format!("{}{requests}", name.join(", "));
            if !named.contains(&one) {
                named.push(one);
            }
        }
        let replay = &self.document["replay"];
        let mode = match (replay["mode"].as_str(), replay["qd"].as_u64()) {
            (Some("closed"), Some(depth)) => format!(", in a closed loop with {depth} in flight"),
            (Some("open"), _) => {
                format!(", at {} times the speed of its own times", text(&replay["speed"]))
            }
            (Some("dependent"), _) => {
                ", each request a given time after the one before".to_string()
            }
            (Some(mode), _) => format!(", {mode}"),
            _ => String::new(),
        };
        let before = match replay["precondition"].as_str() {
            None | Some("none") => String::new(),
            Some(how) => format!(", on a drive preconditioned with {how}"),
        };
        format!("The workload is {}{mode}{before}.", named.join("; "))
    }

    fn swept(&self) -> String {
        let mut keys: Vec<(String, BTreeSet<String>)> = Vec::new();
        for run in self.runs() {
            for (key, value) in run["params"].as_object().into_iter().flatten() {
                match keys.iter_mut().find(|(known, _)| known == key) {
                    Some((_, values)) => drop(values.insert(text(value))),
                    None => keys.push((key.clone(), BTreeSet::from([text(value)]))),
                }
            }
        }
        keys.retain(|(key, _)| key != "seed");
        let one = |(key, values): &(String, BTreeSet<String>)| {
            format!("{key} ({})", Vec::from_iter(values.clone()).join(", "))
        };
        let count = self.runs().count();
        let mut out = format!(
            "{count} run{}, {}",
            if count == 1 { "" } else { "s" },
            seeds(&self.document["seed"])
        );
        if !keys.is_empty() {
            let _ = write!(out, ", over {}", keys.iter().map(one).collect::<Vec<_>>().join("; "));
        }
        let cannot = impossible(self.document).len();
        if cannot > 0 {
            let _ = write!(out, "; {cannot} of them cannot be");
        }
        if let Some(finished) = self.document["partial"]["finished"].as_u64() {
            let of = text(&self.document["partial"]["of"]);
            let _ = write!(out, "; only {finished} of {of} are finished");
        }
        out + "."
    }

    /// Where the values of the drives come from.
    fn sources(&self) -> Vec<String> {
        let entries = parts(self.document)
            .into_iter()
            .flat_map(|part| part["config"].as_object().into_iter().flatten());
        let sources: BTreeSet<String> =
            entries.filter_map(|(_, entry)| entry["source"].as_str()).map(str::to_string).collect();
        Vec::from_iter(sources)
    }

    /// Policies that ran and where their definitions are from.
    fn policies(&self) -> Vec<String> {
        let values = self.values("buffer.policy");
        let names: BTreeSet<&str> =
            values.iter().map(|text| text.split('(').next().unwrap_or(text).trim()).collect();
        let known = ssd::policies();
        let info = |name: &&str| {
            known.iter().find(|info| info.name == *name || info.aliases.contains(name))
        };
        names
            .iter()
            .filter_map(info)
            .map(|info| format!("{} ({})", info.name, info.source))
            .collect()
    }

    /// Papers whose mechanisms ran.
    fn papers(&self) -> Vec<&'static str> {
        let presets = self.presets();
        let stack = |what: &str| {
            let said = [&self.document["remap"], &self.document["layers"]];
            let swept =
                self.runs().flat_map(|run| [&run["params"]["stack"], &run["params"]["remap.mode"]]);
            said.into_iter().chain(swept).any(|value| text(value).contains(what))
        };
        let policies = self.values("buffer.policy");
        let tx = self.runs().any(|run| metric::PROGRAMS_TX.of(run).is_some_and(|n| n > 0.0));
        let files = parts(self.document).iter().any(|part| part["workload"]["files"].is_string());
        let used = [
            presets.contains("paper-remap") || stack("log"),
            // Journalled cleaning is what a volume has unless another one is named.
            files && !stack("cleaning=bl"),
            presets.contains("paper-isolation")
                || policies.iter().any(|p| p.starts_with("aoi") || p.starts_with("isolation")),
            presets.contains("paper-nolog") || tx,
        ];
        PAPERS.iter().zip(used).filter(|(_, used)| *used).map(|((_, entry), _)| *entry).collect()
    }
}

/// What a paper says of a run.
pub fn cite(document: &Value) -> Citation {
    let facts = Facts { document };
    let version = text(&document["version"]);
    let mut methods = format!(
        "All results are from varve {version}, a model of flash storage in virtual time: the same scenario and \
         seeds give the same bytes. {} {} {} Write amplification is bytes programmed by the flash array for each \
         byte that the host wrote; latencies count from arrival to completion.",
        facts.drive(),
        facts.workload(),
        facts.swept()
    );
    let policies = facts.policies();
    if !policies.is_empty() {
        let _ = write!(methods, " Buffer policies: {}.", policies.join("; "));
    }
    let sources = facts.sources();
    if !sources.is_empty() {
        let _ = write!(methods, " Values of the drive are from: {}.", sources.join("; "));
    }
    for setting in document["settings"].as_array().into_iter().flatten() {
        if let Some(by) = setting["scale"]["by"].as_str() {
            let _ = write!(methods, " The drive of {} is scaled by {by}.", setting_name(setting));
        }
    }
    let mut bibtex = format!(
        "@software{{varve,\n  title = {{varve: a flash storage stack in user space, modelled and live}},\n  \
         version = {{{version}}}\n}}\n"
    );
    for entry in facts.papers() {
        bibtex += "\n";
        bibtex += entry;
    }
    Citation { methods, bibtex }
}
