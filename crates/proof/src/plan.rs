//! Plan files: a run as data. Execution reads a plan and draws nothing, so a failure found once
//! is found again for as long as the file is kept (seeds rot, plans do not).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use block::{BlockId, Span, Time};
use nand::{Cut, Fault, Instant, Left, Torn};
use toml::{Table, Value};

use crate::cuts::PowerCut;
use crate::failure::Contract;
use crate::step::Step;

/// Why a plan cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The file cannot be read or written.
    #[error("{0}")]
    File(String),
    /// Not TOML, or a field is missing or of another kind.
    #[error("plan: {0}")]
    Malformed(String),
    /// The configuration makes no drive.
    #[error("plan: {0}")]
    Config(String),
}

/// A run: a drive, what it is asked to do, and what goes wrong.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Plan {
    /// The source it was found with; for people.
    pub commit: String,
    /// The seed it was drawn from; for people.
    pub seed: u64,
    /// The line of the contract that broke; none for a plan that must hold.
    pub contract: Option<Contract>,
    /// What was seen; for people.
    pub what: String,
    /// Name of the preset the configuration starts from, if any.
    pub preset: Option<String>,
    /// Keys of the drive's configuration.
    pub config: BTreeMap<String, String>,
    /// Payloads are bytes, not stamps.
    pub bytes: bool,
    /// A bug to plant, by name.
    pub bug: Option<String>,
    /// Before the first cut.
    pub work: Vec<Step>,
    /// After each power-on.
    pub after: Vec<Step>,
    /// Faults of the array.
    pub faults: Vec<Fault>,
    /// The cuts, one for each power-on that ends with one.
    pub cuts: Vec<PowerCut>,
    /// Event hash of the run up to the first cut, if known.
    pub hash: Option<u64>,
}

impl Plan {
    /// Whether its drive has transactions.
    pub fn has_transactions(&self) -> bool {
        self.config.get("tx.mode").is_some_and(|mode| mode != "off")
    }

    /// Whether it is of a host log, not of a drive.
    pub fn has_log(&self) -> bool {
        self.config.contains_key("remap.mode")
    }

    /// Whether it is of a whole stack.
    pub fn has_stack(&self) -> bool {
        self.config.contains_key("stack")
    }

    /// Whether it is of a file system.
    pub fn has_files(&self) -> bool {
        self.config.contains_key("lfs.cleaning")
    }

    /// Reads a plan file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn load(path: &Path) -> Result<Plan, PlanError> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| PlanError::File(format!("{}: {e}", path.display())))?;
        Plan::parse(&text)
    }

    /// Writes a plan file.
    ///
    /// # Errors
    /// What the file system says.
    pub fn save(&self, path: &Path) -> Result<(), PlanError> {
        std::fs::write(path, self.text())
            .map_err(|e| PlanError::File(format!("{}: {e}", path.display())))
    }

    /// The text of a plan file.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let contract = self.contract.map(|c| c.to_string()).unwrap_or_default();
        let quote = |text: &str| Value::String(text.to_string()).to_string();
        let _ = writeln!(out, "plan = 1\ncommit = {}\nseed = {}", quote(&self.commit), self.seed);
        let _ = writeln!(out, "contract = {}", quote(&contract));
        if !self.what.is_empty() {
            let _ = writeln!(out, "what = {}", quote(&self.what));
        }
        if let Some(preset) = &self.preset {
            let _ = writeln!(out, "preset = {}", quote(preset));
        }
        if self.bytes {
            out.push_str("bytes = true\n");
        }
        if let Some(bug) = &self.bug {
            let _ = writeln!(out, "bug = {}", quote(bug));
        }
        let _ = writeln!(out, "expect = {}", quote(crate::atlas::worst(&self.faults).letter()));
        if let Some(hash) = self.hash {
            let _ = writeln!(out, "hash = \"{hash:016x}\"");
        }
        for (name, steps) in [("workload", &self.work), ("after", &self.after)] {
            let _ = writeln!(out, "{name} = [");
            for line in steps.chunks(8) {
                let words: Vec<String> = line.iter().map(|s| quote(&s.to_string())).collect();
                let _ = writeln!(out, "  {},", words.join(", "));
            }
            out.push_str("]\n");
        }
        out.push_str("\n[config]\n");
        for (key, value) in &self.config {
            let _ = writeln!(out, "{} = {}", quote(key), quote(value));
        }
        let faults = self.faults.iter().map(fault_table);
        for table in faults.chain(self.cuts.iter().map(cut_table)) {
            let _ = write!(out, "\n[[fault]]\n{table}");
        }
        out
    }

    /// Reads the text of a plan file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Plan, PlanError> {
        let table: Table =
            text.parse().map_err(|e: toml::de::Error| malformed(e.to_string().trim()))?;
        if integer(&table, "plan")? != 1 {
            return Err(malformed("`plan` = 1 is the version known here"));
        }
        let contract = match string(&table, "contract")?.as_str() {
            "" => None,
            text => Some(text.parse().map_err(malformed)?),
        };
        let mut plan = Plan {
            commit: string(&table, "commit")?,
            seed: integer(&table, "seed")?,
            contract,
            what: optional(&table, "what")?.unwrap_or_default(),
            preset: optional(&table, "preset")?,
            bytes: flag(&table, "bytes")?,
            bug: optional(&table, "bug")?,
            hash: optional(&table, "hash")?
                .map(|text| u64::from_str_radix(&text, 16))
                .transpose()
                .map_err(|_| malformed("`hash`: expected 16 hexadecimal digits"))?,
            work: steps(&table, "workload")?,
            after: steps(&table, "after")?,
            ..Plan::default()
        };
        let config = table.get("config").and_then(Value::as_table);
        for (key, value) in config.into_iter().flatten() {
            let Value::String(text) = value else {
                return Err(malformed(format!("`config.{key}`: expected a text")));
            };
            plan.config.insert(key.clone(), text.clone());
        }
        let none = Vec::new();
        let faults = match table.get("fault") {
            None => &none,
            Some(Value::Array(list)) => list,
            Some(_) => return Err(malformed("`fault`: expected [[fault]] tables")),
        };
        for value in faults {
            let Value::Table(fault) = value else {
                return Err(malformed("`fault`: expected [[fault]] tables"));
            };
            if string(fault, "kind")? == "cut" {
                plan.cuts.push(parse_cut(fault)?);
            } else {
                plan.faults.push(parse_fault(fault)?);
            }
        }
        Ok(plan)
    }
}

fn malformed(what: impl Into<String>) -> PlanError {
    PlanError::Malformed(what.into())
}

fn integer(table: &Table, key: &str) -> Result<u64, PlanError> {
    match table.get(key) {
        Some(Value::Integer(n)) if *n >= 0 => Ok(*n as u64),
        _ => Err(malformed(format!("`{key}`: expected a whole number"))),
    }
}

fn small(table: &Table, key: &str) -> Result<u32, PlanError> {
    u32::try_from(integer(table, key)?).map_err(|_| malformed(format!("`{key}` is too large")))
}

fn optional(table: &Table, key: &str) -> Result<Option<String>, PlanError> {
    match table.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(malformed(format!("`{key}`: expected a text"))),
    }
}

fn string(table: &Table, key: &str) -> Result<String, PlanError> {
    optional(table, key)?.ok_or_else(|| malformed(format!("`{key}` is missing")))
}

fn flag(table: &Table, key: &str) -> Result<bool, PlanError> {
    match table.get(key) {
        None => Ok(false),
        Some(Value::Boolean(flag)) => Ok(*flag),
        Some(_) => Err(malformed(format!("`{key}`: expected true or false"))),
    }
}

fn steps(table: &Table, key: &str) -> Result<Vec<Step>, PlanError> {
    let list = table.get(key).and_then(Value::as_array);
    let list = list.ok_or_else(|| malformed(format!("`{key}`: expected a list of steps")))?;
    list.iter()
        .map(|value| match value {
            Value::String(text) => text.parse().map_err(malformed),
            _ => Err(malformed(format!("`{key}`: expected a list of steps"))),
        })
        .collect()
}

fn with_seed(name: &str, key: &str, seed: Option<u64>) -> String {
    match seed {
        Some(seed) => format!("{key} = \"{name}\"\n{key}_seed = {seed}\n"),
        None => format!("{key} = \"{name}\"\n"),
    }
}

fn cut_table(cut: &PowerCut) -> String {
    let cut = match cut {
        PowerCut::At(cut) => cut,
        PowerCut::After(steps) => {
            return format!("kind = \"cut\"\nat = {steps}\ninstant = \"after\"\n");
        }
    };
    let instant = match cut.instant {
        Instant::Before => "before",
        Instant::Inside => "inside",
        Instant::Booked => "booked",
    };
    let (torn, torn_seed) = match cut.torn {
        Torn::Nothing => ("none", None),
        Torn::Prefix => ("prefix", None),
        Torn::Garbage => ("garbage", None),
        Torn::Mixed(seed) => ("mixed", Some(seed)),
    };
    let (left, left_seed) = match cut.left {
        Left::Old => ("old", None),
        Left::Blank => ("ff", None),
        Left::Garbage => ("garbage", None),
        Left::Mixed(seed) => ("mixed", Some(seed)),
    };
    format!(
        "kind = \"cut\"\nat = {}\ninstant = \"{instant}\"\npair = {}\n{}{}",
        cut.op,
        cut.pair,
        with_seed(torn, "torn", torn_seed),
        with_seed(left, "left", left_seed)
    )
}

fn parse_cut(table: &Table) -> Result<PowerCut, PlanError> {
    let instant = match string(table, "instant")?.as_str() {
        "after" => return Ok(PowerCut::After(integer(table, "at")?)),
        "before" => Instant::Before,
        "inside" => Instant::Inside,
        "booked" => Instant::Booked,
        _ => return Err(malformed("`instant`: expected before, inside, booked or after")),
    };
    let torn = match string(table, "torn")?.as_str() {
        "none" => Torn::Nothing,
        "prefix" => Torn::Prefix,
        "garbage" => Torn::Garbage,
        "mixed" => Torn::Mixed(integer(table, "torn_seed")?),
        _ => return Err(malformed("`torn`: expected none, prefix, garbage or mixed")),
    };
    let left = match string(table, "left")?.as_str() {
        "old" => Left::Old,
        "ff" => Left::Blank,
        "garbage" => Left::Garbage,
        "mixed" => Left::Mixed(integer(table, "left_seed")?),
        _ => return Err(malformed("`left`: expected old, ff, garbage or mixed")),
    };
    let (op, pair) = (integer(table, "at")?, flag(table, "pair")?);
    Ok(PowerCut::At(Cut { op, instant, torn, pair, left }))
}

/// One fault of the array as TOML.
fn fault_table(fault: &Fault) -> String {
    let kind = crate::atlas::name(fault);
    let rest = match fault {
        Fault::Cut(cut) => return cut_table(&PowerCut::At(*cut)),
        Fault::ProgramFail { at, always } => format!("at = {at}\nalways = {always}\n"),
        Fault::EraseFail { at } | Fault::ProgramNoop { at } | Fault::MisdirectWrite { at } => {
            format!("at = {at}\n")
        }
        Fault::ReadRetry { read, steps } => format!("at = {read}\nsteps = {steps}\n"),
        Fault::ReadUncorrectable { read } | Fault::MisdirectRead { read } => {
            format!("at = {read}\n")
        }
        Fault::BitRot { at, oob } => format!("at = {at}\noob = {oob}\n"),
        Fault::SlowDie { die, factor, from, to } => format!(
            "die = {die}\nfactor = {factor}\nfrom = {}\nto = {}\n",
            from.as_ps(),
            to.as_ps()
        ),
        Fault::StuckOp { at, span } => format!("at = {at}\nspan = {}\n", span.as_ps()),
        Fault::BadBlock { block } => format!("block = {block}\n"),
    };
    format!("kind = \"{kind}\"\n{rest}")
}

fn parse_fault(table: &Table) -> Result<Fault, PlanError> {
    let at = || integer(table, "at");
    let time = |key| integer(table, key).map(Time::from_ps);
    Ok(match string(table, "kind")?.as_str() {
        "program-fail" => Fault::ProgramFail { at: at()?, always: flag(table, "always")? },
        "erase-fail" => Fault::EraseFail { at: at()? },
        "program-noop" => Fault::ProgramNoop { at: at()? },
        "misdirect-write" => Fault::MisdirectWrite { at: at()? },
        "read-retry" => Fault::ReadRetry { read: at()?, steps: small(table, "steps")? },
        "read-uncorrectable" => Fault::ReadUncorrectable { read: at()? },
        "misdirect-read" => Fault::MisdirectRead { read: at()? },
        "bit-rot" => Fault::BitRot { at: at()?, oob: flag(table, "oob")? },
        "slow-die" => Fault::SlowDie {
            die: small(table, "die")?,
            factor: small(table, "factor")?,
            from: time("from")?,
            to: time("to")?,
        },
        "stuck-op" => Fault::StuckOp { at: at()?, span: Span::from_ps(integer(table, "span")?) },
        "bad-block" => Fault::BadBlock { block: BlockId(small(table, "block")?) },
        other => return Err(malformed(format!("unknown fault kind `{other}`"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_survives_its_text() {
        let cut =
            |instant, torn, left, pair| PowerCut::At(Cut { op: 17, instant, torn, pair, left });
        let plan = Plan {
            commit: "abc".to_string(),
            seed: 7,
            contract: Some(Contract::C5),
            what: "page 3 holds \"v1\"\nnot zeroes".to_string(),
            preset: Some("femu-default".to_string()),
            config: [("geometry.page".to_string(), "4 KiB".to_string())].into(),
            bytes: true,
            bug: Some("TrimLost".to_string()),
            work: ["w 0 1", "&wf 2 2 @1", "f", "d 0 4", "s"].map(|s| s.parse().unwrap()).to_vec(),
            after: vec!["r 0 8".parse().unwrap()],
            faults: vec![
                Fault::ProgramFail { at: 3, always: true },
                Fault::EraseFail { at: 4 },
                Fault::ProgramNoop { at: 5 },
                Fault::MisdirectWrite { at: 6 },
                Fault::ReadRetry { read: 7, steps: 2 },
                Fault::ReadUncorrectable { read: 8 },
                Fault::MisdirectRead { read: 9 },
                Fault::BitRot { at: 10, oob: true },
                Fault::SlowDie { die: 1, factor: 9, from: Time::from_ps(1), to: Time::from_ps(2) },
                Fault::StuckOp { at: 11, span: Span::from_us(3) },
                Fault::BadBlock { block: BlockId(4) },
            ],
            cuts: vec![
                cut(Instant::Before, Torn::Nothing, Left::Old, false),
                cut(Instant::Inside, Torn::Mixed(5), Left::Mixed(6), true),
                cut(Instant::Booked, Torn::Prefix, Left::Blank, false),
                PowerCut::After(3),
            ],
            hash: Some(0xFEDC_BA98_7654_3210),
        };
        assert_eq!(Plan::parse(&plan.text()).unwrap(), plan);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let good = Plan { work: vec!["f".parse().unwrap()], ..Plan::default() }.text();
        assert!(Plan::parse(&good).is_ok());
        for (from, to, named) in [
            ("plan = 1", "plan = 2", "plan"),
            ("seed = 0", "seed = -1", "seed"),
            ("\"f\"", "\"q\"", "step"),
            ("contract = \"\"", "contract = \"C99\"", "C99"),
            ("[config]", "[config]\nx = 1", "config.x"),
            ("[config]", "[[fault]]\nkind = \"gremlin\"\n[config]", "gremlin"),
        ] {
            let error = Plan::parse(&good.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
