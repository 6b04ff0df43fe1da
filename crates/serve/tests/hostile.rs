//! Clients that are broken or mean: no panic, no memory, no byte that is not theirs (C11).

mod script;
mod server;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use block::Medium;
use block::Rng;
use script::{BEFORE, OTHERS, Script, WRITTEN, draw, judge, play};
use stack::disk::{Capabilities, Disk, DiskError, Done, Extent, MediumDisk, RamDisk};
use varve_serve::nbd::client::{ALL, Client, go_data, option_bytes};
use varve_serve::nbd::wire::{Request, command, option};
use varve_serve::nbd::{Address, Export, Limits};

const SIZE: u64 = 1 << 19;
const SESSIONS: u64 = 20_000;

fn filled(byte: u8) -> Arc<RamDisk> {
    let disk = Arc::new(RamDisk::new(SIZE).expect("memory"));
    disk_write(&*disk, 0, &vec![byte; SIZE as usize]);
    disk
}

fn disk_write(disk: &dyn Disk, at: u64, bytes: &[u8]) {
    disk.write(at, bytes, false).expect("written").wait().unwrap();
}

/// A disk that fails now and then, or answers late.
#[derive(Debug)]
struct Moody {
    below: Arc<RamDisk>,
    calls: AtomicU64,
    fails: u64,
    late: u64,
}

impl Moody {
    fn mood(&self) -> Result<Done, DiskError> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        if self.fails > 0 && call.is_multiple_of(self.fails) {
            return Err(DiskError::Damaged("on purpose".to_string()));
        }
        Ok(match self.late > 0 {
            true => Done::at(Instant::now() + Duration::from_micros(call * 37 % self.late)),
            false => Done::NOW,
        })
    }
}

impl Disk for Moody {
    fn capabilities(&self) -> Capabilities {
        self.below.capabilities()
    }
    fn read(&self, at: u64, into: &mut [u8]) -> Result<Done, DiskError> {
        let mood = self.mood()?;
        Disk::read(&*self.below, at, into).map(|done| done.and(mood))
    }
    fn write(&self, at: u64, from: &[u8], fua: bool) -> Result<Done, DiskError> {
        let mood = self.mood()?;
        Disk::write(&*self.below, at, from, fua).map(|done| done.and(mood))
    }
    fn flush(&self) -> Result<Done, DiskError> {
        self.mood()
    }
    fn trim(&self, at: u64, bytes: u64, fua: bool) -> Result<Done, DiskError> {
        let mood = self.mood()?;
        self.below.trim(at, bytes, fua).map(|done| done.and(mood))
    }
    fn zero(&self, at: u64, bytes: u64, keep: bool, fua: bool) -> Result<Done, DiskError> {
        let mood = self.mood()?;
        self.below.zero(at, bytes, keep, fua).map(|done| done.and(mood))
    }
    fn zero_is_fast(&self, at: u64, bytes: u64, keep: bool) -> bool {
        self.below.zero_is_fast(at, bytes, keep)
    }
    fn extents(&self, at: u64, bytes: u64, most: usize) -> Result<Vec<Extent>, DiskError> {
        self.mood().and_then(|_| self.below.extents(at, bytes, most))
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

fn exports(disk: Arc<dyn Disk>) -> Vec<Export> {
    static OTHER: LazyLock<Arc<RamDisk>> = LazyLock::new(|| filled(OTHERS));
    vec![Export::new("disk", disk), Export::new("other", Arc::clone(&OTHER) as _)]
}

/// Bytes of memory this process has.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("this is Linux");
    text.split(' ').nth(1).expect("a second field").parse::<u64>().expect("a number") * 4096
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A session that broke a promise is kept, so that it can be played again.
fn keep(seed: u64, bytes: &[u8], why: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("varve-session-{seed}.json"));
    let document = serde_json::json!({ "seed": seed, "why": why, "bytes": hex(bytes) });
    std::fs::write(&path, document.to_string()).expect("kept");
    path
}

fn one_session(seed: u64) -> Result<u64, String> {
    let mut rng = Rng::stream(seed, "serve/hostile");
    let bytes = draw(&mut rng, SIZE);
    let moody = Moody {
        below: filled(BEFORE),
        calls: AtomicU64::new(0),
        fails: if rng.below(4) == 0 { 2 + rng.below(5) } else { 0 },
        late: if rng.below(40) == 0 { 300 } else { 0 },
    };
    let mut script = Script::new(&bytes);
    script.step = *rng.pick(&[1 << 20, 1 << 20, 4096, 1000, 28, 7]);
    if rng.below(20) == 0 {
        script.room = rng.below(5000) as usize;
    }
    let whole = script.room > 5000;
    let Some((agreed, got)) = play(script, &exports(Arc::new(moody))) else { return Ok(0) };
    match judge(&bytes, agreed, &got) {
        Err(why) if whole && agreed.export == 0 => {
            Err(format!("{why}; kept as {}", keep(seed, &bytes, &why).display()))
        }
        Err(_) => Ok(0),
        Ok(replies) => Ok(replies),
    }
}

#[test]
fn twenty_thousand_sessions_and_no_panic() {
    let before = resident();
    let next = AtomicU64::new(0);
    let replies: u64 = std::thread::scope(|scope| {
        let work = || {
            let mut replies = 0;
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= SESSIONS {
                    return replies;
                }
                replies += one_session(seed).unwrap_or_else(|why| panic!("session {seed}: {why}"));
            }
        };
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    println!("{SESSIONS} sessions, {replies} replies, {} KiB", resident().abs_diff(before) >> 10);
    assert!(replies > SESSIONS, "{replies}: hardly a session came to requests");
    assert!(resident().saturating_sub(before) < 64 << 20, "memory grows");
}

/// Sessions that once broke something.
#[test]
fn sessions_that_broke_something_do_not_any_more() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sessions");
    for entry in std::fs::read_dir(folder).expect("the folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|end| end != "json") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a session");
        let document: serde_json::Value = serde_json::from_str(&text).expect("a document");
        let digits = document["bytes"].as_str().expect("bytes").as_bytes();
        let digit = |byte: u8| (byte as char).to_digit(16).expect("a digit") as u8;
        let bytes: Vec<u8> = digits.chunks(2).map(|p| digit(p[0]) << 4 | digit(p[1])).collect();
        for step in [1, 28, 1 << 20] {
            let mut script = Script::new(&bytes);
            script.step = step;
            if let Some((agreed, got)) = play(script, &exports(filled(BEFORE))) {
                judge(&bytes, agreed, &got).unwrap_or_else(|why| panic!("{path:?}: {why}"));
            }
        }
    }
}

/// A handshake and some of everything, none of it wrong.
fn recorded() -> Vec<u8> {
    let mut bytes = 3u32.to_be_bytes().to_vec();
    bytes.extend(option_bytes(option::STRUCTURED, &[]));
    bytes.extend(option_bytes(option::GO, &go_data("disk", &[3])));
    let mut cookie = 0;
    let mut ask = |kind, flags, at, length: u32| {
        cookie += 1;
        let request = Request { flags, kind, cookie, at, bytes: length };
        bytes.extend(request.encode());
        bytes.resize(bytes.len() + request.payload() as usize, WRITTEN);
    };
    ask(command::WRITE, 0, 4096, 8192);
    ask(command::READ, 0, 0, 8192);
    ask(command::FLUSH, 0, 0, 0);
    ask(command::WRITE, 1, 65_536, 4096);
    ask(command::TRIM, 0, 131_072, 65_536);
    ask(command::WRITE_ZEROES, 1, 262_144, 4096);
    ask(command::DISC, 0, 0, 0);
    bytes
}

#[test]
fn a_stream_cut_at_every_byte_leaves_old_or_new() {
    let bytes = recorded();
    for cut in 0..=bytes.len() {
        let disk = filled(BEFORE);
        let played = play(Script::new(&bytes[..cut]), &exports(Arc::clone(&disk) as _));
        if let Some((agreed, got)) = played {
            judge(&bytes[..cut], agreed, &got).unwrap_or_else(|why| panic!("cut at {cut}: {why}"));
        }
        let mut found = vec![0; SIZE as usize];
        Disk::read(&*disk, 0, &mut found).expect("read").wait().unwrap();
        for (number, block) in found.chunks(4096).enumerate() {
            let one = block[0];
            let known = [0, WRITTEN, BEFORE].contains(&one);
            assert!(known && block.iter().all(|b| *b == one), "cut at {cut}: block {number}");
        }
    }
}

#[test]
fn bytes_that_come_one_by_one_are_the_same_session() {
    let bytes = recorded();
    let whole = play(Script::new(&bytes), &exports(filled(BEFORE))).expect("a session");
    for step in [1, 2, 3, 17, 27, 29, 4097] {
        let mut script = Script::new(&bytes);
        script.step = step;
        let pieces = play(script, &exports(filled(BEFORE))).expect("a session");
        assert_eq!(pieces.0, whole.0);
        // A flush is answered with its batch: the order of replies may differ, the bytes not.
        assert_eq!(pieces.1.len(), whole.1.len(), "{step} bytes at a time");
    }
}

/// Handshakes that once met an assertion, or an overflow of a header's length, elsewhere.
#[test]
fn strange_handshakes_end_without_harm() {
    let flags = 3u32.to_be_bytes().to_vec();
    let with = |parts: &[Vec<u8>]| [std::slice::from_ref(&flags), parts].concat().concat();
    let mut huge = option_bytes(option::GO, &[]);
    huge[12..].copy_from_slice(&u32::MAX.to_be_bytes());
    let mut name = go_data("disk", &[]);
    name[..4].copy_from_slice(&(u32::MAX - 3).to_be_bytes());
    let mut count = go_data("disk", &[]);
    let end = count.len();
    count[end - 2..].copy_from_slice(&u16::MAX.to_be_bytes());
    let structured = option_bytes(option::STRUCTURED, &[]);
    let cases = [
        vec![],
        vec![0],
        4u32.to_be_bytes().to_vec(),
        with(&[huge]),
        with(&[option_bytes(option::GO, &name)]),
        with(&[option_bytes(option::GO, &count)]),
        with(&[option_bytes(option::SET_META, &[0; 3])]),
        with(&vec![structured.clone(); 100]),
        with(&[option_bytes(option::EXPORT_NAME, &[b'x'; 5000])]),
        with(&[option_bytes(option::STARTTLS, &[]), structured, vec![0xFF; 16]]),
        vec![0xFF; 100_000],
    ];
    for (number, bytes) in cases.iter().enumerate() {
        let played = play(Script::new(bytes), &exports(filled(BEFORE)));
        assert!(played.is_none(), "case {number} came to an export");
    }
}

fn path(address: &Address) -> PathBuf {
    match address {
        Address::Unix(path) => path.clone(),
        Address::Tcp(_) => panic!("a unix socket"),
    }
}

fn works(server: &server::Running) {
    let mut c = Client::connect(&server.address, "disk", ALL).expect("a client");
    c.write(0, &[9; 4096], 0).expect("written");
    assert_eq!(c.read(0, 4096).expect("read"), [9; 4096]);
}

#[test]
fn floods_of_half_handshakes_leave_nothing() {
    let limits = Limits { connections: 120, ..Limits::default() };
    let server = server::run(exports(filled(BEFORE)), limits);
    let path = path(&server.address);
    let before = resident();
    // A hundred that say nothing, and stay.
    let silent: Vec<UnixStream> =
        (0..100).map(|_| UnixStream::connect(&path).expect("in")).collect();
    works(&server);
    for number in 0..3000 {
        let mut stream = UnixStream::connect(&path).expect("a connection");
        if number % 3 > 0 {
            // It may be closed already: there are too many.
            let _ = stream.write_all(&recorded()[..number % 60]);
        }
    }
    drop(silent);
    let since = Instant::now();
    let now = |name| server.handle.counters().into_iter().find(|c| c.0 == name).expect(name).1;
    while now("connections_now") > 0 {
        assert!(since.elapsed() < Duration::from_secs(60), "connections stay");
        std::thread::sleep(Duration::from_millis(20));
    }
    works(&server);
    println!("{} refused, {} KiB", now("refused"), resident().saturating_sub(before) >> 10);
    assert!(resident().saturating_sub(before) < 64 << 20, "memory grows");
}

#[test]
fn who_comes_too_many_is_sent_away() {
    let limits = Limits { connections: 3, ..Limits::default() };
    let server = server::run(exports(filled(BEFORE)), limits);
    let seats: Vec<Client> =
        (0..3).map(|_| Client::connect(&server.address, "disk", ALL).expect("a seat")).collect();
    assert!(Client::connect(&server.address, "disk", ALL).is_err());
    drop(seats);
    let since = Instant::now();
    while Client::connect(&server.address, "disk", ALL).is_err() {
        assert!(since.elapsed() < Duration::from_secs(60), "no seat is given up");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Clients that ask for much and take nothing, or announce much and send nothing, and one that is
/// good.
#[test]
fn slow_clients_do_not_hold_up_others() {
    let server = server::run(exports(filled(BEFORE)), Limits::default());
    let mut slow = Vec::new();
    for number in 0..40u64 {
        let mut c = Client::connect(&server.address, "disk", ALL).expect("a client");
        match number % 2 {
            0 => {
                for _ in 0..20 {
                    c.send(command::READ, 0, 0, SIZE as u32, &[]).expect("sent");
                }
            }
            _ => drop(c.send(command::WRITE, 0, 0, 32 << 20, &[WRITTEN; 100]).expect("sent")),
        }
        slow.push(c);
    }
    for _ in 0..50 {
        works(&server);
    }
    let mut c = Client::connect(&server.address, "disk", ALL).expect("a client");
    let block = c.read(8192, 4096).expect("read");
    assert!(block.iter().all(|byte| *byte == BEFORE), "half a payload was written");
    drop(slow);
}

#[test]
fn who_leaves_while_answers_are_written_harms_nobody() {
    let server = server::run(exports(filled(BEFORE)), Limits::default());
    let before = resident();
    for number in 0..600u64 {
        let mut c = Client::connect(&server.address, "disk", ALL).expect("a client");
        for _ in 0..1 + number % 4 {
            c.send(command::READ, 0, 0, SIZE as u32, &[]).expect("sent");
        }
        if number % 2 == 0 {
            let mut some = [0; 1000];
            c.stream().read_exact(&mut some).expect("some of it");
        }
    }
    works(&server);
    assert!(resident().saturating_sub(before) < 64 << 20, "memory grows");
}

/// A medium that counts how many sync it at a time.
#[derive(Debug)]
struct Syncs {
    ram: RamDisk,
    now: AtomicU64,
    most: AtomicU64,
    all: AtomicU64,
}

impl Medium for Syncs {
    fn read(&self, at: u64, out: &mut [u8]) -> std::io::Result<()> {
        Medium::read(&self.ram, at, out)
    }
    fn write(&self, at: u64, bytes: &[u8]) -> std::io::Result<()> {
        Medium::write(&self.ram, at, bytes)
    }
    fn sync(&self) -> std::io::Result<()> {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        self.all.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(2));
        self.now.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }
    fn size(&self) -> std::io::Result<u64> {
        Medium::size(&self.ram)
    }
}

#[test]
fn a_storm_of_flushes_is_one_flush_at_a_time() {
    let ram = RamDisk::new(SIZE).expect("memory");
    let (now, most, all) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let medium = Arc::new(Syncs { ram, now, most, all });
    let disk = MediumDisk::new(Arc::clone(&medium) as _).expect("a disk");
    let server = server::run(exports(Arc::new(disk)), Limits::default());
    std::thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| {
                let mut c = Client::connect(&server.address, "disk", ALL).expect("a client");
                for _ in 0..20 {
                    c.flush().expect("flushed");
                }
            });
        }
    });
    let all = medium.all.load(Ordering::SeqCst);
    assert_eq!(medium.most.load(Ordering::SeqCst), 1);
    assert!(all < 32 * 20, "{all} syncs for 640 flushes: none was shared");
}
