//! Secrets in their standard form, `DHHC-1:HH:BASE64:`, and a file of them.
//!
//! HH says by which hash function a secret becomes the key of one name (00: it is that already); behind the secret
//! (32, 48 or 64 bytes) stands its CRC-32.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::hash::Hash;

/// What the line of the controller's secret begins with.
pub const CONTROLLER: &str = "controller";
/// Bytes of a file of secrets at most: thousands of them.
const MOST: u64 = 1 << 20;
const FORM: &str = "DHHC-1:HH:BASE64:, as `nvme gen-dhchap-key` prints it";

/// A secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    bytes: Vec<u8>,
    /// By which it becomes the key of a name.
    by: Option<Hash>,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Bytes of a text in base64; `None`: it is none.
fn base64(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    if !text.len().is_multiple_of(4) || padding > 2 {
        return None;
    }
    let (mut bytes, mut held, mut bits) = (Vec::new(), 0u32, 0);
    for byte in digits.bytes() {
        held = held << 6 | u32::from(digit(byte)?);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
        }
        held &= (1 << bits) - 1;
    }
    // What is over are zeroes, in the one way that a text is written.
    (held == 0).then_some(bytes)
}

impl FromStr for Secret {
    type Err = String;

    fn from_str(text: &str) -> Result<Secret, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let ["DHHC-1", by, body, ""] = parts[..] else { return Err(format!("expected {FORM}")) };
        let by = match by {
            "00" => None,
            "01" => Some(Hash::Sha256),
            "02" => Some(Hash::Sha384),
            "03" => Some(Hash::Sha512),
            _ => return Err(format!("hash function {by}: expected 00, 01, 02 or 03")),
        };
        let bytes = base64(body).ok_or_else(|| format!("no base64: expected {FORM}"))?;
        let Some((secret, crc)) = bytes.split_last_chunk::<4>().filter(|(secret, _)| {
            // The lengths of the hash functions.
            Hash::ALL.iter().any(|hash| hash.bytes() == secret.len())
        }) else {
            return Err(format!(
                "{} bytes of secret and checksum: expected 36, 52 or 68",
                bytes.len()
            ));
        };
        if crc32fast::hash(secret) != u32::from_le_bytes(*crc) {
            return Err("its checksum differs: a character is wrong".to_string());
        }
        Ok(Secret { bytes: secret.to_vec(), by })
    }
}

impl Secret {
    /// The key of a name.
    pub(super) fn of(&self, name: &str) -> Vec<u8> {
        match self.by {
            None => self.bytes.clone(),
            Some(hash) => hash.hmac(&self.bytes, &[name.as_bytes(), b"NVMe-over-Fabrics"]),
        }
    }
}

/// What is wrong with a file of secrets. No text shows a secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// It cannot be read.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A line is not understood.
    #[error("{path}:{line}: {what}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1 on.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// It says too little, or too much.
    #[error("{path}: {what}")]
    Whole {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
}

/// A file of secrets: on each line a secret of any host; of one host, behind its qualified name; or of the controller,
/// behind `controller`. Empty lines and those that begin with `#` say nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Secrets {
    path: PathBuf,
    hosts: Vec<(Option<String>, Secret)>,
    controller: Option<Secret>,
}

impl Secrets {
    /// Reads a file.
    ///
    /// # Errors
    /// [`SecretError`].
    pub fn read(path: &Path) -> Result<Secrets, SecretError> {
        let io = |error| SecretError::Io { path: path.to_path_buf(), error };
        if std::fs::metadata(path).map_err(io)?.len() > MOST {
            let (path, what) = (path.to_path_buf(), "more than 1 MiB: expected a file of secrets");
            return Err(SecretError::Whole { path, what });
        }
        Secrets::parse(path, &std::fs::read_to_string(path).map_err(io)?)
    }

    /// Takes the text of the file at `path`.
    ///
    /// # Errors
    /// [`SecretError`].
    pub fn parse(path: &Path, text: &str) -> Result<Secrets, SecretError> {
        let path = path.to_path_buf();
        let mut all = Secrets { path: path.clone(), hosts: Vec::new(), controller: None };
        for (line, text) in (1..).zip(text.lines()) {
            let wrong = |what: String| SecretError::Line { path: path.clone(), line, what };
            let words: Vec<&str> = text.split_whitespace().collect();
            let (name, secret) = match words[..] {
                [] => continue,
                [first, ..] if first.starts_with('#') => continue,
                [secret] => (None, secret),
                [name, secret] => (Some(name), secret),
                _ => {
                    let what = format!("{} words: expected a name and a secret", words.len());
                    return Err(wrong(what));
                }
            };
            let secret: Secret = secret.parse().map_err(wrong)?;
            if name == Some(CONTROLLER) {
                if all.controller.replace(secret).is_some() {
                    return Err(wrong("a second secret of the controller".to_string()));
                }
                continue;
            }
            if let Some(name) = name.filter(|name| !name.starts_with("nqn.") || name.len() > 223) {
                let what =
                    format!("{name}: expected the qualified name of a host, or {CONTROLLER}");
                return Err(wrong(what));
            }
            let name = name.map(str::to_string);
            if all.hosts.iter().any(|(known, _)| *known == name) {
                let whose = name.as_deref().unwrap_or("any host");
                return Err(wrong(format!("a second secret of {whose}")));
            }
            all.hosts.push((name, secret));
        }
        let whole = |what| Err(SecretError::Whole { path: path.clone(), what });
        if all.hosts.is_empty() {
            return whole("no secret of a host");
        }
        // Who is asked could send back what he asks.
        if all.hosts.iter().any(|(_, secret)| Some(secret) == all.controller.as_ref()) {
            return whole("the controller has the secret of a host: expected one of its own");
        }
        Ok(all)
    }

    /// Where they are from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The secret of a host: its own, or that of any.
    pub fn of_host(&self, name: &str) -> Option<&Secret> {
        let find = |whose: Option<&str>| {
            self.hosts.iter().find(|(known, _)| known.as_deref() == whose).map(|(_, secret)| secret)
        };
        find(Some(name)).or_else(|| find(None))
    }

    /// The secret of the controller.
    pub fn controller(&self) -> Option<&Secret> {
        self.controller.as_ref()
    }

    /// For a host: its secret is the only one of hosts, and says its name if there is one before it.
    ///
    /// # Errors
    /// [`SecretError`]: there are several.
    pub fn own(&self) -> Result<(Option<&str>, &Secret), SecretError> {
        match &self.hosts[..] {
            [(name, secret)] => Ok((name.as_deref(), secret)),
            _ => {
                let what = "secrets of several hosts: expected one, this host's";
                Err(SecretError::Whole { path: self.path.clone(), what })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `nvme gen-dhchap-key` of nvme-cli 2.3 printed them, for each hash function.
    const PRINTED: [(&str, usize); 4] = [
        ("DHHC-1:00:aABrxn14+/t08ay1kONmRV0i6Hyy7pIKRFg49C/RKYXsE8aE:", 32),
        ("DHHC-1:01:gkB8E7oiMHc9iq+02Gw2OPefK8Yb9Wxj8wmuroQiT75PEHUJ:", 32),
        ("DHHC-1:02:TNQH0Yz67ERMyGOEWYVdigffHwrIj+tjV1zvaCI+5Y62XnCJHTEfczLO9egWvPLLPZ6p3Q==:", 48),
        (
            "DHHC-1:03:15XIvk/+HYSLUGBt9hTl/BHp8Z3Y6F8Zg/yp18CnFRzH5wY0YRXJwHnLar9RpMcIvKhMwABGkQesgjNIDLc2+wBR64Q=:",
            64,
        ),
    ];

    fn text(what: &SecretError) -> String {
        what.to_string()
    }

    fn parse(text: &str) -> Result<Secrets, SecretError> {
        Secrets::parse(Path::new("keys"), text)
    }

    #[test]
    fn what_nvme_prints_is_read() {
        for (printed, bytes) in PRINTED {
            let secret: Secret = printed.parse().expect(printed);
            assert_eq!(secret.bytes.len(), bytes);
            assert_eq!(format!("{secret:?}"), "Secret", "it is shown to nobody");
            // No character may be another: the checksum tells, or the form does.
            for at in 0..printed.len() {
                let other = if &printed[at..=at] == "A" { "B" } else { "A" };
                let mut wrong = printed.to_string();
                wrong.replace_range(at..=at, other);
                assert!(wrong.parse::<Secret>().is_err(), "{wrong}");
                assert!(printed[..at].parse::<Secret>().is_err(), "the first {at} of {printed}");
            }
        }
    }

    #[test]
    fn another_form_is_refused_with_what_was_expected() {
        for (wrong, why) in [
            ("", "expected DHHC-1:HH:BASE64:"),
            ("secret", "expected DHHC-1:HH:BASE64:"),
            ("NVMeTLSkey-1:01:aABrxn14+/t0:", "expected DHHC-1:HH:BASE64:"),
            ("DHHC-1:04:aABrxn14+/t08ay1kONmRV0i6Hyy7pIKRFg49C/RKYXsE8aE:", "expected 00, 01"),
            ("DHHC-1:00:aABr:", "3 bytes of secret and checksum: expected 36"),
            ("DHHC-1:00:aAB=r:", "no base64"),
            ("DHHC-1:00:aABrxn14+/t08ay1kONmRV0i6Hyy7pIKRFg49C/RKYXsE8aF:", "checksum differs"),
        ] {
            let found = wrong.parse::<Secret>().expect_err(wrong);
            assert!(found.contains(why), "{wrong}: {found}");
            assert!(!found.contains("aABrxn14"), "{found}: it shows a secret");
        }
    }

    #[test]
    fn a_file_says_whose_each_secret_is() {
        let [any, one, own, _] = PRINTED.map(|(printed, _)| printed);
        let all = parse(&format!("# of us\n\n{any}\n nqn.a:x  {one}\ncontroller {own}\n")).unwrap();
        assert_eq!(all.of_host("nqn.a:x"), Some(&one.parse().unwrap()));
        assert_eq!(all.of_host("nqn.a:y"), Some(&any.parse().unwrap()));
        assert_eq!(all.controller(), Some(&own.parse().unwrap()));
        assert!(text(&all.own().unwrap_err()).contains("keys: secrets of several hosts"));
        let bare = parse(any).unwrap();
        assert_eq!(bare.own().unwrap().0, None);
        let named = parse(&format!("nqn.a:x {one}")).unwrap();
        assert_eq!(named.own().unwrap(), (Some("nqn.a:x"), &one.parse().unwrap()));
        assert_eq!(named.of_host("nqn.a:y"), None);
    }

    #[test]
    fn a_line_that_is_not_understood_is_told_with_its_number() {
        let [any, one, ..] = PRINTED.map(|(printed, _)| printed);
        for (wrong, why) in [
            (format!("{any}\n{any}"), "keys:2: a second secret of any host"),
            (format!("nqn.a:x {any}\nnqn.a:x {one}"), "keys:2: a second secret of nqn.a:x"),
            (
                format!("{any}\ncontroller {one}\ncontroller {one}"),
                "keys:3: a second secret of the",
            ),
            (format!("host {any}"), "keys:1: host: expected the qualified name"),
            (format!("nqn.a:x {any} {one}"), "keys:1: 3 words"),
            ("\nnqn.a:x secret".to_string(), "keys:2: expected DHHC-1"),
            ("# nothing\n".to_string(), "keys: no secret of a host"),
            (format!("controller {any}"), "keys: no secret of a host"),
            (format!("{any}\ncontroller {any}"), "keys: the controller has the secret of a host"),
        ] {
            let found = text(&parse(&wrong).expect_err(&wrong));
            assert!(found.starts_with(why), "{wrong}: {found}");
        }
        let missing = Secrets::read(Path::new("/nowhere/keys")).expect_err("no file");
        assert!(text(&missing).starts_with("/nowhere/keys: "));
    }
}
