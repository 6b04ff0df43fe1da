//! Programs of others, ready to run: `recipe/*.toml`.

use std::path::Path;

use toml::{Table, Value};

use crate::stage::search_path;

/// What a recipe promises of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expect {
    /// Promises are lost.
    Lost,
    /// All are kept: a control.
    Kept,
}

/// A configuration of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// What it sets.
    pub set: Vec<(String, String)>,
    /// What the program's documentation promises.
    pub promise: String,
    /// What comes out.
    pub expect: Expect,
    /// What comes out on the strict file system.
    pub strict: Expect,
    /// The power goes from the first operation on.
    pub init: bool,
    /// Bytes that the drive keeps whole, where that matters.
    pub sector: Option<u64>,
}

/// A program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recipe {
    /// Its name.
    pub name: String,
    /// What it does.
    pub about: String,
    /// Programs or files that it needs.
    pub needs: Vec<String>,
    /// Debian packages that have them.
    pub packages: Vec<String>,
    /// Keys and what they are if nobody says.
    pub keys: Vec<(String, String)>,
    /// Configurations.
    pub rows: Vec<Row>,
    /// A script that is the program.
    pub program: String,
    /// A script that judges.
    pub check: String,
    /// Bytes of the drive at least.
    pub size: Option<u64>,
    /// Seconds of the program at most, and of a check.
    pub limits: (Option<u64>, Option<u64>),
}

const FILES: [(&str, &str); 10] = [
    ("etcd", include_str!("../recipe/etcd.toml")),
    ("git", include_str!("../recipe/git.toml")),
    ("leveldb", include_str!("../recipe/leveldb.toml")),
    ("lmdb", include_str!("../recipe/lmdb.toml")),
    ("mariadb", include_str!("../recipe/mariadb.toml")),
    ("postgres", include_str!("../recipe/postgres.toml")),
    ("redis", include_str!("../recipe/redis.toml")),
    ("rename", include_str!("../recipe/rename.toml")),
    ("rocksdb", include_str!("../recipe/rocksdb.toml")),
    ("sqlite", include_str!("../recipe/sqlite.toml")),
];

/// All of them.
///
/// # Errors
/// One is wrong: which, and why.
pub fn all() -> Result<Vec<Recipe>, String> {
    FILES.iter().map(|(name, text)| Recipe::read(name, text)).collect()
}

impl Recipe {
    fn read(name: &str, text: &str) -> Result<Recipe, String> {
        let wrong = |what: &str| format!("recipe {name}: {what}");
        let table: Table =
            text.parse().map_err(|error: toml::de::Error| wrong(&error.to_string()))?;
        let text = |table: &Table, key: &str| {
            let found = table.get(key).and_then(Value::as_str).map(str::to_string);
            found.ok_or_else(|| wrong(&format!("`{key}` is missing, or no text")))
        };
        let list = |key: &str| -> Vec<String> {
            let found = table.get(key).and_then(Value::as_array).into_iter().flatten();
            found.filter_map(|word| word.as_str().map(str::to_string)).collect()
        };
        let pairs = |table: Option<&Value>| -> Vec<(String, String)> {
            let pairs = table.and_then(Value::as_table).into_iter().flatten();
            pairs
                .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_string())))
                .collect()
        };
        let number = |key: &str| {
            table.get(key).and_then(Value::as_integer).and_then(|n| u64::try_from(n).ok())
        };
        let rows = table.get("row").and_then(Value::as_array).into_iter().flatten();
        let row = |row: &Value| -> Result<Row, String> {
            let row = row.as_table().ok_or_else(|| wrong("a row is no table"))?;
            let expected = |key: &str| match text(row, key)?.as_str() {
                "lost" => Ok(Expect::Lost),
                "kept" => Ok(Expect::Kept),
                other => Err(wrong(&format!("{key} = \"{other}\": expected lost or kept"))),
            };
            let expect = expected("expect")?;
            let strict = if row.contains_key("strict") { expected("strict")? } else { expect };
            let (name, promise) = (text(row, "name")?, text(row, "promise")?);
            let init = row.get("init").and_then(Value::as_bool).unwrap_or(false);
            let sector = row.get("sector").and_then(Value::as_integer);
            let sector = sector.and_then(|bytes| u64::try_from(bytes).ok());
            Ok(Row { name, set: pairs(row.get("set")), promise, expect, strict, init, sector })
        };
        Ok(Recipe {
            name: name.to_string(),
            about: text(&table, "about")?,
            needs: list("needs"),
            packages: list("packages"),
            keys: pairs(table.get("keys")),
            rows: rows.map(row).collect::<Result<_, _>>()?,
            program: text(&table, "program")?,
            check: text(&table, "check")?,
            size: number("size_mib").map(|mib| mib << 20),
            limits: (number("run_seconds"), number("check_seconds")),
        })
    }

    /// The keys of a row, with what else is set.
    ///
    /// # Errors
    /// A key that the recipe does not have.
    pub fn settings(
        &self,
        row: Option<&Row>,
        set: &[(String, String)],
    ) -> Result<Vec<(String, String)>, String> {
        let mut all = self.keys.clone();
        let rows = row.map(|row| row.set.as_slice()).unwrap_or_default();
        for (key, value) in rows.iter().chain(set) {
            let names: Vec<&str> = self.keys.iter().map(|(key, _)| key.as_str()).collect();
            let place = all.iter_mut().find(|(name, _)| name == key);
            let place = place.ok_or_else(|| {
                format!("recipe {}: `{key}`: expected some of {}", self.name, names.join(", "))
            })?;
            place.1.clone_from(value);
        }
        Ok(all)
    }

    /// Why it cannot be run here.
    pub fn why_not(&self) -> Option<String> {
        let there = |need: &str| match need.contains('/') {
            true => Path::new(need).exists(),
            false => std::env::split_paths(&search_path()).any(|dir| dir.join(need).exists()),
        };
        let missing: Vec<&str> =
            self.needs.iter().map(String::as_str).filter(|need| !there(need)).collect();
        (!missing.is_empty()).then(|| {
            format!("there is no {} (Debian: {})", missing.join(", "), self.packages.join(" "))
        })
    }
}

/// A recipe by its name, by that of one of its rows, or by its file: `FILE.toml`.
///
/// # Errors
/// There is none: which there are.
pub fn find(name: &str) -> Result<(Recipe, Option<Row>), String> {
    if name.ends_with(".toml") {
        let text = std::fs::read_to_string(name).map_err(|error| format!("{name}: {error}"))?;
        let recipe = Recipe::read(name, &text)?;
        let first = recipe.rows.first().cloned();
        return Ok((recipe, first));
    }
    let all = all()?;
    let mut names = Vec::new();
    for recipe in all {
        if recipe.name == name {
            let first = recipe.rows.first().cloned();
            return Ok((recipe, first));
        }
        if let Some(row) = recipe.rows.iter().find(|row| row.name == name) {
            return Ok((recipe.clone(), Some(row.clone())));
        }
        names.push(recipe.name.clone());
        names.extend(recipe.rows.iter().map(|row| row.name.clone()));
    }
    Err(format!("`{name}`: expected one of {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recipe_is_read_and_its_rows_set_what_it_has() {
        let mut names = std::collections::BTreeSet::new();
        for recipe in all().unwrap() {
            assert!(!recipe.rows.is_empty() && !recipe.needs.is_empty(), "{}", recipe.name);
            assert!(names.insert(recipe.name.clone()), "{}", recipe.name);
            for row in &recipe.rows {
                recipe.settings(Some(row), &[]).unwrap();
                assert_ne!(row.name, recipe.name);
                assert!(names.insert(row.name.clone()), "{}", row.name);
            }
            let wrong = [("nonsense".to_string(), String::new())];
            assert!(recipe.settings(None, &wrong).unwrap_err().contains("expected some of"));
        }
        assert!(find("sqlite-delete-full").unwrap().1.is_some());
        assert!(find("nonsense").unwrap_err().contains("rename-fsync"));
    }
}
