//! What a file of a store is to be, by its name and the parameters of its URI.

use std::ffi::c_int;
use std::path::Path;

use block::{Bytes, parse_size, parse_switch};
use live::{ImageDrive, PowerCut};
use wire::nvme::Place;
use wire::nvme::auth::Secrets;

use super::StoreOptions;
use super::open::{FIRST_CAPACITY, LOG_PAGE, USUAL_LIMIT};
use crate::abi::Name;
use crate::vfs::Kind;

/// A file that SQLite asks for, and how its image is to be opened, or made.
pub(super) struct Asked {
    pub(super) path: String,
    /// The namespace behind a wire that it lies in.
    pub(super) place: Option<Place>,
    pub(super) kind: Kind,
    /// Those of xOpen.
    pub(super) flags: c_int,
    pub(super) capacity: Bytes,
    pub(super) options: StoreOptions,
    /// A machine that fails on command: `?power_cut=N` is the write or sync that never happens.
    pub(super) cut: Option<PowerCut>,
    pub(super) group: Option<u64>,
    /// BATCH_ATOMIC is offered.
    pub(super) batch: bool,
    /// The URI names the VFS: who wrote it would name it for another image, too.
    pub(super) by_uri: bool,
}

impl Asked {
    /// One beside a database that is open, which is kept as that is.
    pub(super) fn beside(path: &str, kind: Kind, flags: c_int) -> Asked {
        Asked {
            path: path.to_string(),
            place: None,
            kind,
            flags,
            capacity: FIRST_CAPACITY,
            options: StoreOptions::default(),
            cut: None,
            group: None,
            batch: false,
            by_uri: false,
        }
    }

    /// As the parameters say; the error says which one is wrong.
    pub(super) fn of(name: &Name<'_>, kind: Kind, flags: c_int) -> Result<Asked, String> {
        locks(name)?;
        let mut options = options(name)?;
        // One that says what it holds stays so, unless it says what it may hold, too.
        let (capacity, limit) = (size(name, "capacity")?, size(name, "limit")?);
        if let (Some(capacity), Some(limit)) = (capacity, limit)
            && capacity > limit
        {
            return Err(format!(
                "capacity={} with limit={}: expected a limit of as much, or more",
                capacity.human(),
                limit.human()
            ));
        }
        if let Some(limit) = limit {
            ImageDrive::image_bytes(limit).map_err(|why| format!("limit={why}"))?;
        }
        let most = limit.or(capacity).unwrap_or(USUAL_LIMIT);
        let capacity = capacity.unwrap_or(FIRST_CAPACITY.min(most));
        options.limit = Some(most);
        let seed = number(name, "cut_seed")?.unwrap_or(0);
        Ok(Asked {
            path: name.text().unwrap_or_default().to_string(),
            place: if kind == Kind::Database { place(name)? } else { None },
            kind,
            flags,
            capacity,
            options,
            cut: number(name, "power_cut")?.map(|at| PowerCut { at, seed }),
            group: number(name, "group")?,
            batch: name.parameter("batch").is_some_and(|b| b == "1" || b == "on"),
            by_uri: name.parameter("vfs").is_some(),
        })
    }
}

/// SQLite leaves the locks of a database alone with these, and a store knows by them what belongs together, and who may read.
fn locks(name: &Name<'_>) -> Result<(), String> {
    for (key, instead) in [
        ("nolock", "a store in an image is locked as a whole, by its process"),
        ("immutable", "mode=ro reads an image, also beside the program that writes it"),
    ] {
        let Some(text) = name.parameter(key) else { continue };
        if !["0", "no", "off", "false"].contains(&text.to_lowercase().as_str()) {
            return Err(format!("{key}={text}: expected without it: {instead}"));
        }
    }
    Ok(())
}

/// The namespace that `device` names, if it is there, and what its host knows by the file that `secret` names.
fn place(name: &Name<'_>) -> Result<Option<Place>, String> {
    let secret = name.parameter("secret");
    let Some(text) = name.parameter("device") else {
        return match secret {
            Some(_) => Err("secret: expected with device=nvme-tcp://..".to_string()),
            None => Ok(None),
        };
    };
    let place: Place = text.parse().map_err(|why| format!("device={why}"))?;
    // Of a file: what a URI says is shown, logged and passed on.
    let place = secret.map_or(Ok(place.clone()), |file| {
        Secrets::read(Path::new(&*file)).and_then(|secrets| place.knowing(secrets))
    });
    place.map(Some).map_err(|why| format!("secret={why}"))
}

/// The whole number that parameter `key` of the URI gives, if it is there.
fn number(name: &Name<'_>, key: &str) -> Result<Option<u64>, String> {
    let Some(text) = name.parameter(key) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| format!("{key}={text}: expected a whole number"))
}

/// The size that parameter `key` gives, if it is there.
fn size(name: &Name<'_>, key: &str) -> Result<Option<Bytes>, String> {
    let Some(text) = name.parameter(key) else { return Ok(None) };
    parse_size(&text).map(Some).map_err(|wrong| format!("{key}: expected {}", wrong.expected))
}

/// How an image is to be kept.
fn options(name: &Name<'_>) -> Result<StoreOptions, String> {
    let mut options = StoreOptions::default();
    if let Some(text) = name.parameter("delta") {
        options.delta = parse_switch(&text)
            .map_err(|wrong| format!("delta={text}: expected {}", wrong.expected))?;
    }
    if let Some(text) = name.parameter("log") {
        let bytes =
            parse_size(&text).map_err(|wrong| format!("log: expected {}", wrong.expected))?;
        if !bytes.0.is_multiple_of(LOG_PAGE) || bytes.0 > 1 << 30 {
            return Err(format!(
                "log={text}: expected a multiple of {LOG_PAGE} bytes, at most 1 GiB"
            ));
        }
        options.log_pages = Some((bytes.0 / LOG_PAGE) as u32);
    }
    let small = |key: &str, value: u64| {
        u32::try_from(value).map_err(|_| format!("{key}={value}: too large"))
    };
    if let Some(text) = name.parameter("read_wait") {
        options.read_wait = parse_switch(&text)
            .map_err(|wrong| format!("read_wait={text}: expected {}", wrong.expected))?;
    }
    if let Some(bytes) = number(name, "log_grain")? {
        options.log_grain = small("log_grain", bytes)?;
    }
    if let Some(pages) = number(name, "overlay")? {
        options.overlay = small("overlay", pages)?;
    }
    Ok(options)
}
