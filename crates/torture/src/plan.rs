//! Plan files of a crash test, `plan = 2`: a failure again, from its log, its cut and its checker.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};
use toml::{Table, Value};

use crate::cut_text::{left_of, left_text};
use crate::error::TortureError;
use crate::stage::Setup;
use crate::states::Cut;
use crate::subject::Subject;

/// A plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The data log, beside the plan.
    pub log: PathBuf,
    /// Its SHA-256.
    pub sha256: String,
    /// What is tested.
    pub subject: Subject,
    /// The cut.
    pub cut: Cut,
    /// Promises by then.
    pub acked: u64,
    /// The state.
    pub state: String,
    /// What was found: `lost`, or another fate, and the reason.
    pub found: (String, String),
    /// Of the program that wrote it.
    pub version: String,
}

/// The SHA-256 of bytes, in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a text is a plan of this kind.
pub fn is_plan(text: &str) -> bool {
    let table: Result<Table, _> = text.parse();
    table.is_ok_and(|table| table.get("plan").and_then(Value::as_integer) == Some(2))
}

fn words(words: &[OsString]) -> Value {
    Value::Array(words.iter().map(|word| word.to_string_lossy().into_owned().into()).collect())
}

fn ms(time: Duration) -> Value {
    Value::Integer(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

impl Plan {
    /// As a text.
    pub fn text(&self) -> String {
        let s = &self.subject;
        let mut table = Table::new();
        let mut put = |name: &str, value: Value| drop(table.insert(name.to_string(), value));
        put("plan", Value::Integer(2));
        put("kind", "torture".into());
        put("log", self.log.to_string_lossy().into_owned().into());
        put("sha256", self.sha256.clone().into());
        put("fs", s.setup.kind.name().into());
        put("mount_options", s.setup.options.clone().into());
        put("sector", Value::Integer(s.atomic as i64));
        put("cut", Value::Integer(self.cut.at as i64));
        put("left", left_text(&self.cut.left).into());
        if let Some(check) = &s.check {
            put("check", check.clone().into());
        }
        put("program", words(&s.program));
        put("limit_ms", ms(s.limit));
        put("run_limit_ms", ms(s.run_limit));
        put("acked", Value::Integer(self.acked as i64));
        put("state", self.state.clone().into());
        put("fate", self.found.0.clone().into());
        put("found", self.found.1.clone().into());
        put("version", self.version.clone().into());
        let env = s.env.iter();
        let env =
            env.map(|(name, value)| (name.clone(), value.to_string_lossy().into_owned().into()));
        put("env", Value::Table(env.collect()));
        table.to_string()
    }

    /// Reads a plan.
    ///
    /// # Errors
    /// The file; or the key, what was found and what was expected.
    pub fn load(path: &Path) -> Result<Plan, TortureError> {
        let text = std::fs::read_to_string(path).map_err(TortureError::io(path))?;
        let wrong = |what: String| TortureError::Input(format!("{}: {what}", path.display()));
        Plan::read(&text, path.parent().unwrap_or(Path::new("."))).map_err(wrong)
    }

    fn read(text: &str, folder: &Path) -> Result<Plan, String> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
        let keys = Keys(&table);
        if keys.int("plan")? != 2 || keys.text("kind")? != "torture" {
            return Err("plan, kind: expected 2 and \"torture\"".to_string());
        }
        let atomic = keys.int("sector")?;
        if atomic != 512 && atomic != 4096 {
            return Err(format!("sector = {atomic}: expected 512 or 4096"));
        }
        let left = keys.text("left")?;
        let expected = "worst, all, seed:N, keep:BLOCK:VERSION,.. or lying:N";
        let left =
            left_of(&left).ok_or_else(|| format!("left = \"{left}\": expected {expected}"))?;
        let at = usize::try_from(keys.int("cut")?).map_err(|error| format!("cut: {error}"))?;
        let kind = keys.text("fs")?;
        let subject = Subject {
            setup: Setup {
                kind: kind.parse().map_err(|error| format!("fs: {error}"))?,
                mkfs: String::new(),
                options: keys.text("mount_options")?,
            },
            atomic,
            program: keys.words("program")?.into_iter().map(OsString::from).collect(),
            check: table.contains_key("check").then(|| keys.text("check")).transpose()?,
            env: keys.env()?,
            run_limit: Duration::from_millis(keys.int("run_limit_ms")?),
            limit: Duration::from_millis(keys.int("limit_ms")?),
        };
        Ok(Plan {
            log: folder.join(keys.text("log")?),
            sha256: keys.text("sha256")?,
            subject,
            cut: Cut { at, left },
            acked: keys.int("acked")?,
            state: keys.text("state")?,
            found: (keys.text("fate")?, keys.text("found")?),
            version: keys.text("version")?,
        })
    }
}

struct Keys<'a>(&'a Table);

impl Keys<'_> {
    fn get(&self, name: &str) -> Result<&Value, String> {
        self.0.get(name).ok_or_else(|| format!("`{name}` is missing"))
    }
    fn text(&self, name: &str) -> Result<String, String> {
        let value = self.get(name)?;
        let text = value.as_str().map(str::to_string);
        text.ok_or_else(|| format!("{name} = {value}: expected a text"))
    }
    fn int(&self, name: &str) -> Result<u64, String> {
        let value = self.get(name)?;
        let found = value.as_integer().and_then(|number| u64::try_from(number).ok());
        found.ok_or_else(|| format!("{name} = {value}: expected a whole number"))
    }
    fn words(&self, name: &str) -> Result<Vec<String>, String> {
        let value = self.get(name)?;
        let all = value.as_array().and_then(|list| {
            list.iter().map(|word| word.as_str().map(str::to_string)).collect::<Option<Vec<_>>>()
        });
        all.ok_or_else(|| format!("{name} = {value}: expected a list of texts"))
    }
    fn env(&self) -> Result<Vec<(String, OsString)>, String> {
        let Some(value) = self.0.get("env") else { return Ok(Vec::new()) };
        let pair = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.into()));
        let all = value.as_table().and_then(|table| table.iter().map(pair).collect());
        all.ok_or_else(|| format!("env = {value}: expected a table of texts"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::Kind;
    use crate::states::Left;

    fn plan() -> Plan {
        Plan {
            log: "some.vlog".into(),
            sha256: sha256(b""),
            subject: Subject {
                setup: Setup { kind: Kind::Lfs, mkfs: String::new(), options: String::new() },
                atomic: 512,
                program: vec!["sh".into(), "-c".into(), "echo \"a\"\n".into()],
                check: Some("exit 1\n".to_string()),
                env: vec![("A".to_string(), "b".into())],
                run_limit: Duration::from_secs(9),
                limit: Duration::from_secs(3),
            },
            cut: Cut { at: 14, left: Left::Keep(vec![(9, 1)]) },
            acked: 1,
            state: "0".to_string(),
            found: ("lost".to_string(), "lost 1 of 1".to_string()),
            version: "test".to_string(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let text = plan().text();
        assert!(is_plan(&text), "{text}");
        assert_eq!(Plan::read(&text, Path::new("")).unwrap(), plan());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let text = plan().text();
        for (from, to, said) in [
            ("cut = 14", "cut = -1", "cut = -1: expected a whole number"),
            ("sector = 512", "sector = 513", "sector = 513: expected 512 or 4096"),
            ("\"keep:9:1\"", "\"keep:9\"", "left = \"keep:9\": expected worst"),
            ("fs = \"lfs\"", "fs = \"fat\"", "expected one of ext4"),
            ("kind = ", "kinds = ", "`kind` is missing"),
        ] {
            assert!(text.contains(from), "{from}\n{text}");
            let error = Plan::read(&text.replace(from, to), Path::new("")).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
