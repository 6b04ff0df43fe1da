//! Checks of what survives: power cuts by the control socket, and a clean stop.

use std::process::Stdio;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::link::Link;
use super::stamp::{SECTOR, stamp, versions};
use super::{Check, Verdict, absent, must, pass};
use crate::nbd::wire::flag;

const PAGE: u64 = 4096;
/// Pages that a trial writes to.
const PAGES: u64 = 256;

/// Why no cut can be made, if none can.
fn offered(c: &Check<'_>, link: &Link) -> Result<Option<String>, String> {
    if link.can(flag::READ_ONLY) {
        return Ok(Some("it is read-only".to_string()));
    }
    let Some(report) = c.control("report")? else {
        return Ok(Some("no --control: nobody can cut the power".to_string()));
    };
    must(report["power"]["on"] == true, || "the power is off".to_string())?;
    Ok(None)
}

macro_rules! need_power {
    ($c:expr, $link:expr) => {
        if let Some(why) = offered($c, $link)? {
            return absent(why);
        }
    };
}

fn cut(c: &Check<'_>) -> Result<(), String> {
    c.control("power-cut")?;
    c.control("power-on").map(drop)
}

fn read(link: &mut Link) -> Result<Vec<u64>, String> {
    versions(0, &link.read(0, (PAGES * PAGE) as u32)?)
}

/// Writes pages drawn at random; the versions that every sector must have then.
fn scatter(
    c: &mut Check<'_>,
    link: &mut Link,
    count: u64,
    fua: bool,
    held: &mut [u64],
) -> Result<(), String> {
    for _ in 0..count {
        let (page, version) = (c.rng.below(PAGES), c.fresh());
        link.write(page * PAGE, &stamp(version, page * PAGE, PAGE), fua)?;
        let per = (PAGE / SECTOR) as usize;
        held[page as usize * per..][..per].fill(version);
    }
    Ok(())
}

/// All pages of one version, durable.
fn settle(c: &mut Check<'_>, link: &mut Link) -> Result<Vec<u64>, String> {
    let version = c.fresh();
    link.write(0, &stamp(version, 0, PAGES * PAGE), false)?;
    link.flush()?;
    Ok(vec![version; (PAGES * PAGE / SECTOR) as usize])
}

fn present(c: &mut Check<'_>, fua: bool) -> Verdict {
    let mut link = c.link()?;
    need_power!(c, &link);
    if fua && !link.can(flag::FUA) {
        return absent("no FUA");
    }
    let mut held = settle(c, &mut link)?;
    for trial in 0..30 {
        scatter(c, &mut link, 20, fua, &mut held)?;
        if !fua {
            link.flush()?;
        }
        cut(c)?;
        must(read(&mut link)? == held, || format!("lost after cut {trial}"))?;
    }
    pass("30 cuts")
}

/// 3
pub fn flushed(c: &mut Check<'_>) -> Verdict {
    present(c, false)
}

/// 5
pub fn forced(c: &mut Check<'_>) -> Verdict {
    present(c, true)
}

/// 4
pub fn unflushed(c: &mut Check<'_>) -> Verdict {
    let mut link = c.link()?;
    need_power!(c, &link);
    let mut held = settle(c, &mut link)?;
    let (mut old, mut new) = (0, 0);
    for trial in 0..100 {
        let before = held.clone();
        scatter(c, &mut link, 20, false, &mut held)?;
        cut(c)?;
        let found = read(&mut link)?;
        for ((found, before), after) in found.iter().zip(&before).zip(&held) {
            // A page may have been written twice: each version in between is new enough.
            let fits = found == before || (found > before && found <= after);
            must(fits, || format!("cut {trial}: version {found} of {before}..{after}"))?;
            old += u64::from(before != after && found == before);
            new += u64::from(before != after && found == after);
        }
        held = found;
    }
    let volatile = c.control("stats")?.is_some_and(|s| s["capabilities"]["volatile"] == true);
    must(old > 0 || !volatile, || "nothing was ever lost: the cut is not real".to_string())?;
    pass(format!("100 cuts: {old} sectors old, {new} new"))
}

/// 6
pub fn crossed(c: &mut Check<'_>) -> Verdict {
    let (mut a, mut b) = (c.link()?, c.link()?);
    need_power!(c, &a);
    if !a.can(flag::MULTI_CONN) {
        return absent("no MULTI_CONN");
    }
    let mut held = settle(c, &mut a)?;
    for trial in 0..30 {
        scatter(c, &mut a, 20, false, &mut held)?;
        b.flush()?;
        cut(c)?;
        must(read(&mut b)? == held, || format!("lost after cut {trial}"))?;
    }
    pass("30 cuts")
}

/// 12
pub fn atomic(c: &mut Check<'_>) -> Verdict {
    let mut link = c.link()?;
    need_power!(c, &link);
    let stats = c.control("stats")?.unwrap_or_default();
    let Some(unit) = stats["capabilities"]["atomic"].as_u64().filter(|unit| *unit >= SECTOR) else {
        return absent("no atomic unit is told");
    };
    let unit = unit.min(PAGES * PAGE);
    settle(c, &mut link)?;
    for trial in 0..60 {
        let version = c.fresh();
        let bytes = c.rng.between(1, PAGES * PAGE / unit) * unit;
        link.write(0, &stamp(version, 0, bytes), false)?;
        if c.rng.below(3) == 0 {
            link.flush()?;
            link.write(0, &stamp(c.fresh(), 0, bytes), false)?;
        }
        cut(c)?;
        let per = (unit / SECTOR) as usize;
        for (number, sectors) in read(&mut link)?.chunks(per).enumerate() {
            let same = sectors.iter().all(|found| *found == sectors[0]);
            must(same, || format!("cut {trial}: unit {number} is mixed: {sectors:?}"))?;
        }
    }
    pass(format!("60 cuts, {unit} bytes"))
}

/// 18
pub fn restart(c: &mut Check<'_>) -> Verdict {
    let (Some(_), Some(command)) = (&c.all.control, c.all.restart.clone()) else {
        return absent("no --control and --restart: nobody can stop and start it");
    };
    let mut link = c.link()?;
    need_power!(c, &link);
    let held = Mutex::new(settle(c, &mut link)?);
    let first = c.fresh();
    let ended = std::thread::scope(|scope| {
        let load = scope.spawn(|| under_load(&mut link, first, &held));
        std::thread::sleep(Duration::from_millis(300));
        let quit = c.control("quit");
        (load.join().map_err(|_| "the load failed".to_string()), quit)
    });
    let writes = ended.0?;
    ended.1?;
    *c.version += writes + 1;
    drop(link);
    let since = Instant::now();
    while c.link().is_ok() {
        must(since.elapsed() < Duration::from_secs(60), || "it does not stop".to_string())?;
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut link = start(c, &command, since)?;
    let held = held.into_inner().unwrap_or_default();
    for (found, least) in read(&mut link)?.iter().zip(&held) {
        must(found >= least, || format!("version {found}: {least} was flushed"))?;
    }
    pass(format!("{writes} writes before the stop"))
}

/// Starts the server; again, if the old one still holds what it served. It is the user's then, and
/// outlives this program.
fn start(c: &Check<'_>, command: &str, since: Instant) -> Result<Link, String> {
    loop {
        let mut shell = std::process::Command::new("sh");
        // It must not hold our pipes: whoever reads them would wait for it to end.
        shell
            .arg("-c")
            .arg(command)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = shell.spawn().map_err(|error| format!("{command}: {error}"))?;
        while matches!(child.try_wait(), Ok(None)) {
            match c.link() {
                Ok(link) => return Ok(link),
                Err(why) if since.elapsed() > Duration::from_secs(90) => return Err(why),
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
        must(since.elapsed() < Duration::from_secs(90), || format!("{command}: it ended"))?;
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Writes and flushes until the server is gone; notes what is durable. Returns how often it wrote.
fn under_load(link: &mut Link, first: u64, held: &Mutex<Vec<u64>>) -> u64 {
    let per = (PAGE / SECTOR) as usize;
    let mut open = Vec::new();
    for number in 0.. {
        let (page, version) = (number * 7 % PAGES, first + number);
        if link.write(page * PAGE, &stamp(version, page * PAGE, PAGE), false).is_err() {
            return number;
        }
        open.push((page, version));
        if number % 16 == 15 {
            if link.flush().is_err() {
                return number;
            }
            if let Ok(mut held) = held.lock() {
                for (page, version) in open.drain(..) {
                    held[page as usize * per..][..per].fill(version);
                }
            }
        }
    }
    0
}
