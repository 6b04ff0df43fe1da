//! A policy as it is written: `lru`, or `vbbms(random=70 %, sequential_block=12)`.
//!
//! Each policy of the registry lists its options; what is not given has the default listed there.

use std::collections::BTreeMap;

use super::front::Front;
use super::inner::Inner;
use super::policies::{find, policies};
use super::policy::{Policy, PolicyInfo};
use super::pool::Pool;
use crate::config::{KeyKind, parse_share};

const PAGE: u64 = 4096;

/// One option of a policy.
#[derive(Clone, Copy, Debug)]
pub struct PolicyOption {
    /// Name within the parentheses.
    pub name: &'static str,
    /// What its value is.
    pub kind: KeyKind,
    /// Default, as text.
    pub default: &'static str,
    /// What it means.
    pub doc: &'static str,
}

/// A policy and its options, checked.
#[derive(Clone, Debug)]
pub struct PolicySpec {
    /// The registry's entry.
    pub info: &'static PolicyInfo,
    text: String,
    given: BTreeMap<&'static str, String>,
}

/// The buffer that a policy is built for.
#[derive(Clone, Copy, Debug)]
pub struct BufferShape {
    /// DRAM in 4 KiB entries, the policy's own tables included.
    pub entries: usize,
    /// 4 KiB pages of the drive.
    pub pages: u32,
    /// Entries are kept by sector.
    pub mask: bool,
    /// Seed of the policy's draws.
    pub seed: u64,
    /// Planes of the drive: so many flash pages can be programmed at once.
    pub planes: u32,
    /// Entries in a flash page.
    pub page_entries: u32,
    /// 4 KiB pages in an erase block; on a drive with a map of blocks, in a logical block of it.
    pub block_pages: u32,
}

impl BufferShape {
    /// A buffer alone, beside a drive of 8 x 8 dies with 4 KiB pages and blocks of 256 KiB.
    pub fn alone(entries: usize, pages: u32) -> BufferShape {
        BufferShape {
            entries,
            pages,
            mask: false,
            seed: 1,
            planes: 64,
            page_entries: 1,
            block_pages: 64,
        }
    }
}

/// What a policy is made from.
#[derive(Debug)]
pub struct Setup<'a> {
    /// The buffer it is made for.
    pub shape: BufferShape,
    spec: &'a PolicySpec,
    /// Only the policy is wanted: it goes into another.
    alone: bool,
}

/// A buffer with its policy: what [`Setup::buffer`] makes.
#[derive(Debug)]
pub struct Buffer(Made);

#[derive(Debug)]
enum Made {
    Whole(Box<dyn Front>),
    Alone(Box<dyn Inner>),
}

impl PolicySpec {
    /// Reads `name` or `name(option=value, ..)`.
    ///
    /// # Errors
    /// What was expected instead.
    pub fn parse(text: &str) -> Result<PolicySpec, String> {
        let text = text.trim();
        let (name, rest) = match text.split_once('(') {
            None => (text, ""),
            Some((name, rest)) => {
                let inner = rest.strip_suffix(')');
                (name.trim(), inner.ok_or_else(|| format!("`{text}`: expected `)` at the end"))?)
            }
        };
        let Some(info) = find(name) else {
            let names: Vec<&str> = policies().iter().map(|info| info.name).collect();
            return Err(format!("`{name}`: expected one of {}", names.join(", ")));
        };
        let mut given = BTreeMap::new();
        for pair in split_policies(rest).into_iter().filter(|pair| !pair.is_empty()) {
            let (key, value) = pair
                .split_once('=')
                .ok_or_else(|| format!("`{pair}` in `{text}`: expected option=value"))?;
            let (key, value) = (key.trim(), value.trim());
            let Some(option) = info.options.iter().find(|o| o.name == key) else {
                let names: Vec<&str> = info.options.iter().map(|o| o.name).collect();
                let known = if names.is_empty() { "none".into() } else { names.join(", ") };
                return Err(format!("`{name}` has no option `{key}`; its options: {known}"));
            };
            option
                .kind
                .check(value)
                .map_err(|expected| format!("`{key}={value}` of `{name}`: expected {expected}"))?;
            if given.insert(option.name, value.to_string()).is_some() {
                return Err(format!("`{text}` gives `{key}` twice"));
            }
        }
        Ok(PolicySpec { info, text: text.to_string(), given })
    }

    /// The policy as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text of an option: as given, or its default.
    ///
    /// # Panics
    /// If the policy lists no such option.
    pub fn option(&self, name: &str) -> &str {
        let option = self.info.options.iter().find(|o| o.name == name);
        let option = option.unwrap_or_else(|| panic!("{} lists `{name}`", self.info.name));
        self.given.get(name).map_or(option.default, String::as_str)
    }

    pub(crate) fn build(&self, shape: BufferShape) -> Result<Box<dyn Front>, String> {
        match self.made(shape, false)?.0 {
            Made::Whole(front) => Ok(front),
            Made::Alone(_) => Err(format!("{}: made as the inner policy of none", self.info.name)),
        }
    }

    fn made(&self, shape: BufferShape, alone: bool) -> Result<Buffer, String> {
        let made = (self.info.make)(&Setup { shape, spec: self, alone });
        made.map_err(|e| format!("{}: {e}", self.info.name))
    }
}

/// The same policy with the same options given, however it was written.
impl PartialEq for PolicySpec {
    fn eq(&self, other: &PolicySpec) -> bool {
        self.info.name == other.info.name && self.given == other.given
    }
}

impl Eq for PolicySpec {}

impl std::fmt::Display for PolicySpec {
    /// As it was written.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// Splits a list of policies at the commas outside parentheses.
pub fn split_policies(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut out) = (0u32, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                out.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    out.push(list[start..].trim());
    out
}

impl Setup<'_> {
    /// The policy that is made.
    pub fn info(&self) -> &'static PolicyInfo {
        self.spec.info
    }
    fn text(&self, name: &str) -> &str {
        self.spec.option(name)
    }
    /// A whole number.
    ///
    /// # Panics
    /// If the policy lists no such option.
    pub fn count(&self, name: &str) -> u64 {
        self.text(name).replace('_', "").parse().expect("checked when read")
    }
    /// A size in bytes.
    ///
    /// # Panics
    /// If the policy lists no such option.
    pub fn size(&self, name: &str) -> u64 {
        block::parse_size(self.text(name)).expect("checked when read").0
    }
    /// A share in parts per million.
    ///
    /// # Panics
    /// If the policy lists no such option.
    pub fn share(&self, name: &str) -> u64 {
        parse_share(self.text(name)).expect("checked when read")
    }
    /// That share of all entries, rounded down.
    ///
    /// # Panics
    /// If the policy lists no such option.
    pub fn share_of_entries(&self, name: &str) -> usize {
        (self.shape.entries as u64 * self.share(name) / 1_000_000) as usize
    }
    /// That share of all entries, of which it is a part.
    ///
    /// # Errors
    /// A share of more than all.
    ///
    /// # Panics
    /// If the policy lists no such option.
    pub fn part_of_entries(&self, name: &str) -> Result<usize, String> {
        match self.share(name) > 1_000_000 {
            true => Err(format!("`{name}` = {}: expected at most 100 %", self.text(name))),
            false => Ok(self.share_of_entries(name)),
        }
    }
    /// A word.
    ///
    /// # Panics
    /// If the policy lists no such option.
    pub fn word(&self, name: &str) -> &str {
        self.text(name)
    }
    /// The policy that an option names, for a part of the buffer.
    ///
    /// # Errors
    /// One that stands alone: it knows the future, has no entries, or has a queue beside another.
    pub(super) fn inner(&self, name: &str, shape: BufferShape) -> Result<Box<dyn Inner>, String> {
        let spec = PolicySpec::parse(self.text(name))?;
        if spec.info.clairvoyant || matches!(spec.info.name, "none" | "aoi") {
            return Err(format!(
                "{name}={}: expected a policy that another can hold",
                spec.info.name
            ));
        }
        match spec.made(shape, true)?.0 {
            Made::Alone(policy) => Ok(policy),
            Made::Whole(_) => {
                Err(format!("{name}={}: it makes a buffer of its own", spec.info.name))
            }
        }
    }
    /// A switch.
    ///
    /// # Panics
    /// If the policy lists no such option.
    pub fn flag(&self, name: &str) -> bool {
        self.text(name) == "on"
    }

    /// The buffer: the policy's own tables are taken from its entries.
    ///
    /// # Errors
    /// The tables take more than there is.
    pub fn buffer<P: Policy>(&self, policy: P) -> Result<Buffer, String> {
        if self.alone {
            return Ok(Buffer(Made::Alone(Box::new(policy))));
        }
        let bytes = self.shape.entries as u64 * PAGE;
        let left = bytes.checked_sub(policy.overhead().0).ok_or_else(|| {
            format!("its tables take {} B of a buffer of {bytes} B", policy.overhead().0)
        })?;
        let pool = Pool::new((left / PAGE) as usize, self.shape.pages, self.shape.mask);
        Ok(Buffer(Made::Whole(super::front::boxed(policy, pool, self.shape.mask))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_split_outside_parentheses() {
        assert_eq!(
            split_policies("lru, vbbms(random=70 %, sequential_block=6),fifo"),
            ["lru", "vbbms(random=70 %, sequential_block=6)", "fifo"]
        );
    }

    #[test]
    fn unknown_names_and_options_are_told() {
        assert!(PolicySpec::parse("lrru").unwrap_err().contains("expected one of none, fifo, lru"));
        assert_eq!(
            PolicySpec::parse("lru(x=1)").unwrap_err(),
            "`lru` has no option `x`; its options: none"
        );
        assert!(PolicySpec::parse("lru(x").unwrap_err().contains("expected `)`"));
    }
}
