//! A trace named by what it is: `sha256:HEX`, the digest of its file's bytes, and perhaps `@URL` behind it.
//!
//! It lies in the folder that `$VARVE_TRACES` names, as `HEX` or `HEX.csv.zst`, a file or a link. What is not there
//! is fetched from its URL, once for all processes of a host, by the program that `$VARVE_FETCH` names: it is
//! called with the URL and the file to be written. No file is read whose bytes have another digest.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use workload::SourceError;
use workload::read::{file_sha256, files};

use crate::LabError;
use crate::files::PART;

/// The folder of traces.
const FOLDER: &str = "VARVE_TRACES";
/// The program that fetches one.
const FETCH: &str = "VARVE_FETCH";
const SCHEME: &str = "sha256:";
/// Digits of a digest.
const DIGITS: usize = 64;
/// Digits that tables show of one.
const SHOWN: usize = 12;
const LOCK: &str = ".lock";

/// Who fetches where [`FETCH`] names nobody: from a URL to a file.
pub type Fetch = fn(&str, &Path) -> Result<(), String>;

static FETCHER: Mutex<Option<Fetch>> = Mutex::new(None);
/// Files whose bytes were digested, by what the system says of them.
static CHECKED: Mutex<BTreeMap<PathBuf, Checked>> = Mutex::new(BTreeMap::new());

/// A file's length and when it was changed, and its digest.
type Checked = ((u64, Option<SystemTime>), String);

/// For a program that has its own way to fetch: who does it where `$VARVE_FETCH` names nobody.
pub fn replace_fetch(fetch: Fetch) {
    *FETCHER.lock().unwrap_or_else(PoisonError::into_inner) = Some(fetch);
}

/// A digest, and perhaps a URL.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Pinned {
    sha256: String,
    url: Option<String>,
}

/// As it is written.
impl fmt::Display for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name())?;
        self.url.as_ref().map_or(Ok(()), |url| write!(f, "@{url}"))
    }
}

impl Pinned {
    /// A text that begins with `sha256:`.
    ///
    /// # Errors
    /// What comes behind is no digest, or an empty URL.
    pub fn parse(text: &str) -> Option<Result<Pinned, String>> {
        let rest = text.strip_prefix(SCHEME)?;
        let (digest, url) = rest.split_once('@').map_or((rest, None), |(d, url)| (d, Some(url)));
        let is_digest = digest.len() == DIGITS && digest.bytes().all(|b| b.is_ascii_hexdigit());
        if !is_digest || url.is_some_and(str::is_empty) {
            let what = format!("`{text}`: expected {SCHEME} and {DIGITS} digits (and @URL)");
            return Some(Err(what));
        }
        let sha256 = digest.to_ascii_lowercase();
        Some(Ok(Pinned { sha256, url: url.map(str::to_string) }))
    }

    /// Of a table of a scenario: its digest with or without `sha256:`, and its URL.
    ///
    /// # Errors
    /// As [`Pinned::parse`].
    pub fn of(sha256: &str, url: Option<&str>) -> Result<Pinned, String> {
        let digest = sha256.strip_prefix(SCHEME).unwrap_or(sha256);
        let url = url.map(|url| format!("@{url}")).unwrap_or_default();
        let text = format!("{SCHEME}{digest}{url}");
        Pinned::parse(&text).expect("it begins so")
    }

    /// Its digest, in lower case.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// What it is called wherever it came from: results are the same on every host.
    pub fn name(&self) -> String {
        format!("{SCHEME}{}", self.sha256)
    }

    /// The beginning of that, for tables.
    pub fn short(&self) -> String {
        format!("{SCHEME}{}", &self.sha256[..SHOWN])
    }

    fn fail(&self, reason: impl Into<String>) -> SourceError {
        SourceError::Unusable { path: PathBuf::from(self.name()), reason: reason.into() }
    }

    /// Where it is on this host; it is fetched if it is not there.
    ///
    /// # Errors
    /// It cannot be had, or its bytes are others.
    pub fn located(&self) -> Result<PathBuf, SourceError> {
        let folder = folder().map_err(|what| self.fail(what))?;
        if let Some(path) = self.there(&folder)? {
            return Ok(path);
        }
        let Some(url) = &self.url else {
            let what = format!("not in {} (${FOLDER}), and no URL is given", folder.display());
            return Err(self.fail(what));
        };
        // Of all processes of this host one fetches, the others wait here, and find it.
        let wrong = |path: &Path, source| SourceError::Io { path: path.to_path_buf(), source };
        let lock = folder.join(format!("{}{LOCK}", self.sha256));
        let held = File::options().create(true).append(true).open(&lock);
        let held = held.map_err(|error| wrong(&lock, error))?;
        held.lock().map_err(|error| wrong(&lock, error))?;
        let done = self.fetched_into(&folder, url);
        // Nobody who waits for it needs its name any more, and who comes later makes another one.
        let _ = std::fs::remove_file(&lock);
        done
    }

    /// Fetches it, unless another process has done so meanwhile.
    fn fetched_into(&self, folder: &Path, url: &str) -> Result<PathBuf, SourceError> {
        if let Some(path) = self.there(folder)? {
            return Ok(path);
        }
        let (found, part) = fetched(url, folder).map_err(|what| self.fail(what))?;
        if found != self.sha256 {
            let _ = std::fs::remove_file(&part);
            let what = format!("{url} has sha256 {found}: expected the one in its name");
            return Err(self.fail(what));
        }
        let path = folder.join(format!("{}{}", self.sha256, endings(url)));
        let renamed = std::fs::rename(&part, &path);
        renamed.map_err(|source| SourceError::Io { path: path.clone(), source })?;
        Ok(path)
    }

    /// The file in the folder, if there is one.
    fn there(&self, folder: &Path) -> Result<Option<PathBuf>, SourceError> {
        let wrong = |source| SourceError::Io { path: folder.to_path_buf(), source };
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(wrong)? {
            let name = entry.map_err(wrong)?.file_name();
            let name = name.to_string_lossy();
            let Some(rest) = name.strip_prefix(&self.sha256) else { continue };
            let is_own = rest.is_empty() || rest.starts_with('.');
            if is_own && rest != LOCK && !rest.ends_with(PART) {
                found.push(folder.join(&*name));
            }
        }
        found.sort();
        let Some(path) = found.into_iter().next() else { return Ok(None) };
        let digest =
            checked(&path).map_err(|source| SourceError::Io { path: path.clone(), source });
        let digest = digest?;
        if digest != self.sha256 {
            let what = format!("{} has sha256 {digest}: expected that of its name", path.display());
            return Err(self.fail(what));
        }
        Ok(Some(path))
    }
}

/// Puts a trace into the folder, from a file or a URL, and says what it is called there.
///
/// # Errors
/// It cannot be had, or not be kept.
pub fn keep(source: &str) -> Result<Pinned, LabError> {
    let wrong = |what: String| LabError::Input(format!("{source}: {what}"));
    let folder = folder().map_err(wrong)?;
    let is_url = source.contains("://");
    let (sha256, part) = match is_url {
        true => fetched(source, &folder).map_err(wrong)?,
        false => {
            let files = files(Path::new(source))?.len();
            if files > 1 {
                let what = format!(
                    "is one of {files} files of a trace, and a digest is of one file; expected one file: `varve trace \
                     convert` makes it"
                );
                return Err(wrong(what));
            }
            let part = new_part(&folder);
            let copied = std::fs::copy(source, &part).and_then(|_| file_sha256(&part));
            let digest = copied.map_err(|error| {
                // The first error counts; a part that cannot be removed does no harm.
                let _ = std::fs::remove_file(&part);
                LabError::io(source, error)
            })?;
            (digest, part)
        }
    };
    let path = folder.join(format!("{sha256}{}", endings(source)));
    std::fs::rename(&part, &path).map_err(|error| {
        let _ = std::fs::remove_file(&part);
        LabError::io(&path, error)
    })?;
    Ok(Pinned { sha256, url: is_url.then(|| source.to_string()) })
}

fn folder() -> Result<PathBuf, String> {
    let name = std::env::var_os(FOLDER).filter(|name| !name.is_empty());
    let folder = PathBuf::from(name.ok_or_else(|| {
        format!("traces with a digest are kept in the folder that ${FOLDER} names: it is not set")
    })?);
    let found = std::fs::create_dir_all(&folder);
    found
        .map(|()| folder.clone())
        .map_err(|error| format!("{} (${FOLDER}): {error}", folder.display()))
}

/// A name in the folder that no other process or thread has.
fn new_part(folder: &Path) -> PathBuf {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    folder.join(format!("fetched.{}.{number}{PART}", std::process::id()))
}

/// Fetches a file under a name of its own, and says the digest of its bytes.
fn fetched(url: &str, folder: &Path) -> Result<(String, PathBuf), String> {
    let part = new_part(folder);
    let result = fetch(url, &part).and_then(|()| {
        let read =
            File::open(&part).and_then(|file| file.sync_all()).and_then(|()| file_sha256(&part));
        read.map_err(|error| format!("{url}: what was fetched cannot be read: {error}"))
    });
    match result {
        Ok(digest) => Ok((digest, part)),
        Err(what) => {
            let _ = std::fs::remove_file(&part);
            Err(what)
        }
    }
}

fn fetch(url: &str, file: &Path) -> Result<(), String> {
    let program = std::env::var_os(FETCH).filter(|name| !name.is_empty());
    let Some(program) = program else {
        let own = *FETCHER.lock().unwrap_or_else(PoisonError::into_inner);
        let nobody = || format!("{url}: ${FETCH} names no program that fetches (URL FILE)");
        return own.ok_or_else(nobody)?(url, file);
    };
    let shown = Path::new(&program).display().to_string();
    let ran = Command::new(&program).args([OsStr::new(url), file.as_os_str()]).output();
    let ran = ran.map_err(|error| format!("{shown} (${FETCH}): {error}"))?;
    if ran.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ran.stderr);
    let said = said.trim().lines().last().unwrap_or("it said nothing").to_string();
    Err(format!("{shown} {url} (${FETCH}): {}: {said}", ran.status))
}

/// What a reader may look at of a name: `.csv.zst` of `https://host/a/hm_0.csv.zst?x=1`.
fn endings(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or_default();
    let last = match name.contains("://") {
        true => last.split(['?', '#']).next().unwrap_or_default(),
        false => last,
    };
    let endings = last.trim_start_matches('.').split_once('.').map_or("", |(_, endings)| endings);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    match !endings.is_empty() && endings.bytes().all(plain) {
        true => format!(".{endings}"),
        false => String::new(),
    }
}

/// The digest of a file that is opened often: read again if the system says that it has changed.
fn checked(path: &Path) -> std::io::Result<String> {
    let metadata = std::fs::metadata(path)?;
    let now = (metadata.len(), metadata.modified().ok());
    let known = || CHECKED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((then, digest)) = known().get(path)
        && *then == now
    {
        return Ok(digest.clone());
    }
    let digest = file_sha256(path)?;
    known().insert(path.to_path_buf(), (now, digest.clone()));
    Ok(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_and_written() {
        let digest = "0123456789ABCDEF".repeat(4);
        let text = format!("sha256:{digest}@https://host/a.vtr@2");
        let pinned = Pinned::parse(&text).unwrap().unwrap();
        assert_eq!(pinned.to_string(), text.replace(&digest, &digest.to_lowercase()));
        assert_eq!(pinned.short(), "sha256:0123456789ab");
        assert_eq!(Pinned::of(&digest, Some("https://host/a.vtr@2")), Ok(pinned));
        assert!(Pinned::parse("trace.vtr").is_none());
        for wrong in ["sha256:", "sha256:12", &format!("sha256:{}g", &digest[1..])] {
            let error = Pinned::parse(wrong).unwrap().unwrap_err();
            assert!(error.contains(wrong) && error.contains("64 digits"), "{error}");
        }
        assert!(Pinned::parse(&format!("sha256:{digest}@")).unwrap().is_err());
    }

    #[test]
    fn endings_are_those_that_a_reader_knows() {
        for (name, expected) in [
            ("https://host/a/hm_0.csv.zst?x=1#y", ".csv.zst"),
            ("traces/src1_2.vtr", ".vtr"),
            ("s3://bucket/hm_0", ""),
            (".hidden", ""),
            ("a b.c d", ""),
        ] {
            assert_eq!(endings(name), expected, "{name}");
        }
    }
}
