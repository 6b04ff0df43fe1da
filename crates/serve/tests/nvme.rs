//! NVMe over TCP: what a real initiator sends is answered as it needs it, and what ours asks is done.

mod controller;

use std::time::{Duration, Instant};

use block::Rng;
use controller::{DRIVE, NQN, Raw, bytes_of, run};
use stack::power::When;
use varve_serve::nvme::codec::{Sqe, admin, io};
use varve_serve::nvme::initiator::{Wish, blocks, configure, discover, log};
use varve_serve::nvme::pdu::{Digests, u16_at, u32_at, u64_at};
use varve_serve::nvme::{DISCOVERY, Digest, Initiator, InitiatorError, Options, Status};

/// Bytes of memory with a switch: sectors of 512 bytes.
const RAM: &str = "ram(16MiB)+cut(5)";

#[test]
fn a_transcript_of_linux_is_answered_byte_by_byte() {
    let running = run(&[RAM], Options::default());
    let mut lines: std::collections::BTreeMap<String, Raw> = std::collections::BTreeMap::new();
    let mut on = String::new();
    let (mut sent, mut answers) = (0, 0);
    for (number, line) in include_str!("controller/transcript.txt").lines().enumerate() {
        let at = format!("line {}: {line}", number + 1);
        if let Some(name) = line.strip_prefix('@') {
            on = name.to_string();
            lines.entry(on.clone()).or_insert_with(|| Raw::open(running.at));
        }
        // An I/O queue names its controller.
        let bytes = |text: &str| bytes_of(text, NQN, if on == "admin" { u16::MAX } else { 1 });
        if let Some(text) = line.strip_prefix('>') {
            let all: Vec<u8> = bytes(text).into_iter().map(|byte| byte.expect("known")).collect();
            let length = u32_at(&all, 4) as usize;
            assert_eq!(all.len(), length, "{at}");
            lines.get_mut(&on).expect("a line").send(&all);
            sent += 1;
        }
        if let Some(text) = line.strip_prefix('<') {
            let (expected, found) = (bytes(text), lines.get_mut(&on).expect("a line").pdu());
            assert_eq!(found.len(), expected.len(), "{at}: {:02x?}", &found[..found.len().min(64)]);
            for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                assert!(expected.is_none_or(|e| e == *found), "{at}: byte {i} is {found:02x}");
            }
            answers += 1;
        }
    }
    assert!(sent >= 40 && answers >= 49, "{sent} {answers}");
}

/// The bytes and the digests of a real connection.
#[test]
fn digests_are_those_that_linux_computes() {
    let running = run(&[RAM], Options::default());
    let mut raw = Raw::open(running.at);
    let hex = |text: &str| bytes_of(text, NQN, u16::MAX).into_iter().flatten().collect::<Vec<u8>>();
    raw.send(&hex("0000800080000000 0000 00 03 00000000 z112"));
    assert_eq!(raw.pdu()[11], 3);
    let mut connect = hex(
        "0403484c50040000 7f400000010000000000000000000000000000000000000000000000000000000004000000\
         000001000000001f000000d0070000000000000000000000000000 f75004c7 hello",
    );
    let data = connect[76..].to_vec();
    connect.extend(block::crc32c(0, &data).to_le_bytes());
    raw.send(&connect);
    let expected = hex("050118001c000000 01000000000000000100000000000000 42623332");
    assert_eq!(raw.pdu(), expected);
    // One bit of a header: the connection ends, and says why.
    connect[79] ^= 1;
    connect[20] ^= 1;
    raw.send(&connect);
    let last = raw.pdu();
    assert_eq!((last[0], u16_at(&last, 8)), (3, 3), "{last:02x?}");
    assert!(raw.is_closed());
}

fn wishes() -> Vec<Wish> {
    let mut all = Vec::new();
    for bits in 0..4 {
        for capsule in [None, Some(4096), Some(0)] {
            let digests = Digests::of_bits(bits).expect("bits");
            all.push(Wish { digests, capsule, ..Wish::default() });
        }
    }
    all
}

#[test]
fn what_is_written_is_read_with_and_without_digests_in_capsules_and_asked_for() {
    for text in [RAM, "ram(16MiB)", DRIVE] {
        let running = run(&[text], Options::default());
        for (seed, wish) in (1..).zip(wishes()) {
            let (mut host, of) = running.host(&wish);
            let mut rng = Rng::new(seed);
            let most = host.transfer() >> of.shift;
            for _ in 0..20 {
                let count = rng.between(1, 2 * most);
                let first = rng.below(of.blocks - count);
                let data: Vec<u8> = (0..count << of.shift).map(|_| rng.next_u64() as u8).collect();
                host.write(of, first, &data, rng.below(2) == 0).expect("written");
                assert_eq!(host.read(of, first, count).expect("read"), data, "{wish:?}");
                let compare = blocks(io::COMPARE, of, first, 1);
                let one = 1usize << of.shift;
                host.line().done(compare, &data[..one], 0).expect("equal");
                let differs = host.line().ask(compare, &vec![data[0] ^ 1; one], 0).expect("asked");
                assert_eq!(differs.cqe.status, Status::COMPARE);
                let half = count / 2;
                host.zero(of, first, half, seed.is_multiple_of(2)).expect("zeroed");
                host.deallocate(of, first + half, (count - half) as u32).expect("forgotten");
                let found = host.read(of, first, count).expect("read");
                let keeps =
                    text == RAM && found[(half << of.shift) as usize..].iter().any(|b| *b > 0);
                assert!(keeps || found.iter().all(|byte| *byte == 0), "{text}: {wish:?}");
            }
            host.flush(of).expect("flushed");
        }
        let stats = running.count("errors");
        assert_eq!(stats, 12 * 20, "only what was to differ");
    }
}

/// Writes in flight together, over a log that lays them down together: each is answered, the last of a block
/// stays, and a forced one is durable.
#[test]
fn writes_that_come_together_take_effect_in_order() {
    let running = run(&["ram(16MiB)+cut(3)+log"], Options::default());
    for digests in [Digests::both(false), Digests::both(true)] {
        let (mut host, of) = running.host(&Wish { digests, ..Wish::default() });
        let mut rng = Rng::new(5);
        let there = host.read(of, 0, 64).expect("read");
        let mut held: Vec<u8> = there.chunks(1 << of.shift).map(|page| page[17]).collect();
        for round in 0..30 {
            let mut sent = std::collections::BTreeSet::new();
            for i in 0..60 {
                let (place, byte) = (rng.below(64), (round * 7 + i) as u8);
                let force = if i == 59 { 1 << 30 } else { 0 };
                // One is refused in the middle of the row.
                let at = if i == 30 { of.blocks } else { place };
                let sqe = blocks(io::WRITE, of, at, 1);
                let sqe = sqe.word(12, sqe.dword(12) | force);
                let page = vec![byte; 1 << of.shift];
                let cid = host.line().send(sqe, &page, 0).expect("sent");
                sent.insert((cid, i == 30));
                if i != 30 {
                    held[place as usize] = byte;
                }
            }
            while !sent.is_empty() {
                let done = host.line().receive().expect("answered").cqe;
                let wrong = done.status == Status::LBA_RANGE;
                assert!(wrong || done.status == Status::OK, "{done:?}");
                assert!(sent.remove(&(done.cid, wrong)), "{done:?}");
            }
            if round % 10 == 9 {
                running.stacks[0].power.cut(When::Now).expect("cut");
                running.stacks[0].power.on().expect("on");
            }
            let there = host.read(of, 0, 64).expect("read");
            let found: Vec<u8> = there.chunks(1 << of.shift).map(|page| page[17]).collect();
            assert_eq!(found, held, "round {round}");
        }
    }
}

#[test]
fn a_host_finds_all_namespaces_and_sees_none_twice() {
    let running = run(&["ram(8MiB)", DRIVE, "ram(4MiB)+read-only"], Options::default());
    let told = discover(&running.address(), &Wish::default()).expect("told");
    assert_eq!(told.iter().map(|one| one.nqn.as_str()).collect::<Vec<_>>(), [NQN]);
    assert_eq!(told[0].secure, 0, "a host that were told more would ask for TLS");
    let wish = Wish { queues: 8, ..Wish::default() };
    let (mut host, first) = running.host(&wish);
    assert_eq!(host.queues.len(), 4, "as many as there are");
    let all = host.namespaces.clone();
    assert_eq!(all.len(), 3);
    assert!(all[2].read_only && !all[0].read_only);
    let page = |byte| vec![byte; 1 << first.shift];
    host.write(all[0], 5, &page(1), false).expect("written");
    host.write(all[1], 5, &page(2), false).expect("written");
    assert_eq!(host.read(all[0], 5, 1).expect("read"), page(1));
    assert_eq!(host.read(all[1], 5, 1).expect("read"), page(2));
    let refused = host.write(all[2], 5, &page(3), false);
    let Err(InitiatorError::Failed { status, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(status, Status::WRITE_PROTECTED);
    // A Flush of all namespaces.
    host.line().done(Sqe::new(io::FLUSH, u32::MAX), &[], 0).expect("flushed");
    // The same stacks under the same names have the same names for hosts.
    let names = |host: &mut Initiator, nsid| {
        let sqe = Sqe::new(admin::IDENTIFY, nsid).word(10, 3);
        host.admin.done(sqe, &[], 4096).expect("told").data
    };
    let told: Vec<Vec<u8>> = (1..4).map(|nsid| names(&mut host, nsid)).collect();
    assert!(told[0] != told[1] && told[1] != told[2]);
    let again = run(&["ram(8MiB)", DRIVE, "ram(4MiB)+read-only"], Options::default());
    let (mut other, _) = again.host(&Wish::default());
    let same: Vec<Vec<u8>> = (1..4).map(|nsid| names(&mut other, nsid)).collect();
    assert_eq!(told, same);
}

#[test]
fn only_those_who_may_connect_do_and_only_as_they_may() {
    let me = Wish::default();
    let hosts = vec![me.host.clone()];
    let running =
        run(&["ram(4MiB)"], Options { hosts, digest: Digest::Require, ..Options::default() });
    let safe = Wish { digests: Digests::both(true), ..me.clone() };
    running.host(&safe);
    let other = Wish { host: me.host.replace("0001", "0009"), ..safe.clone() };
    let refused = Initiator::connect(&running.address(), NQN, &other);
    let Err(InitiatorError::Failed { status, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(status, Status::CONNECT_HOST);
    let bare = Initiator::connect(&running.address(), NQN, &me);
    assert!(matches!(bare, Err(InitiatorError::Terminated(6, 11))), "{bare:?}");
    let nobody = Initiator::connect(&running.address(), &NQN.replace("00ff", "00fe"), &safe);
    let Err(InitiatorError::Failed { status, result, .. }) = nobody else { panic!("{nobody:?}") };
    assert_eq!((status, result), (Status::CONNECT_INVALID, 256 | 1 << 16));
    // Discovery has no I/O queues.
    assert!(Initiator::connect(&running.address(), DISCOVERY, &safe).is_err());
}

#[test]
fn a_cut_is_an_error_until_the_power_is_on_and_is_told_then() {
    let running = run(&[DRIVE], Options::default());
    let (mut host, of) = running.host(&Wish::default());
    let events = Sqe::new(admin::SET_FEATURES, 0).word(10, 0x0b).word(11, 0x100);
    host.admin.done(events, &[], 0).expect("set");
    let waiting = host.admin.send(Sqe::new(admin::ASYNC_EVENT, 0), &[], 0).expect("sent");
    host.admin.push().expect("sent");
    let page = vec![7; 1 << of.shift];
    host.write(of, 3, &page, true).expect("durable");
    let power = &running.stacks[0].power;
    power.cut(When::Now).expect("cut");
    for force in [false, true] {
        let refused = host.write(of, 3, &page, force);
        let Err(InitiatorError::Failed { status, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(status, Status::INTERNAL);
    }
    power.on().expect("on");
    assert_eq!(host.read(of, 3, 1).expect("read"), page);
    let told = host.admin.receive().expect("told");
    assert_eq!((told.cqe.cid, told.cqe.result), (waiting, 0x04_00_02));
    // Which namespaces: one, and once it was read none.
    let list = log(&mut host.admin, 0x04, 0, 4096).expect("a log");
    assert_eq!((u32_at(&list, 0), u32_at(&list, 4)), (1, 0));
    assert_eq!(u32_at(&log(&mut host.admin, 0x04, 0, 4096).expect("a log"), 0), 0);
}

#[test]
fn discovery_tells_what_was_reached_or_what_it_is_to_tell() {
    let at = |told: Option<(&str, Option<u16>)>| {
        let told = told.map(|(ip, port)| (ip.parse().expect("an address"), port));
        let running = run(&["ram(4MiB)"], Options { told, ..Options::default() });
        let found = discover(&running.address(), &Wish::default()).expect("told").remove(0).at;
        (found, running.at.port().to_string())
    };
    let (found, port) = at(None);
    assert_eq!(found, ("127.0.0.1".to_string(), port));
    // A guest of QEMU reaches this machine's loopback there.
    let (found, port) = at(Some(("10.0.2.2", None)));
    assert_eq!(found, ("10.0.2.2".to_string(), port));
    let (found, _) = at(Some(("fd00::7", Some(4420))));
    assert_eq!(found, ("fd00::7".to_string(), "4420".to_string()));
}

#[test]
fn both_logs_of_what_was_written_go_on_over_a_power_cut() {
    let running = run(&[DRIVE], Options::default());
    let (mut host, of) = running.host(&Wish::default());
    let power = &running.stacks[0].power;
    let written = |host: &mut Initiator| {
        let media = log(&mut host.admin, 0xc0, 0, 512).expect("the log of the media");
        let health = log(&mut host.admin, 0x02, 0, 512).expect("health");
        (u64_at(&media, 0), u64_at(&health, 48) * 512_000)
    };
    let mut before = (0, 0);
    for cuts in 1..=3 {
        for first in (0..of.blocks - 64).step_by(64) {
            host.write(of, first, &vec![cuts; 64 << of.shift], false).expect("written");
        }
        host.flush(of).expect("flushed");
        let (physical, asked) = written(&mut host);
        // Nothing that was flushed came by without the medium.
        assert!(physical - before.0 + 512_000 >= asked - before.1, "{cuts}: {physical} {asked}");
        assert!(asked > before.1, "{cuts}: {asked}");
        power.cut(When::Now).expect("cut");
        power.on().expect("on");
        before = written(&mut host);
        assert!(before.0 >= physical && before.1 == asked, "{cuts}: {before:?} {physical} {asked}");
    }
}

#[test]
fn what_was_answered_is_durable_once_the_controller_is_shut_down() {
    let running = run(&[DRIVE], Options::default());
    let power = &running.stacks[0].power;
    let kept = |shut_down: bool| {
        let (mut host, of) = running.host(&Wish::default());
        let page = vec![6 + u8::from(shut_down); 1 << of.shift];
        host.write(of, 5, &page, false).expect("written");
        if shut_down {
            configure(&mut host.admin, 0x0046_0001 | 1 << 14).expect("shut down");
        }
        power.cut(When::Now).expect("cut");
        power.on().expect("on");
        host.read(of, 5, 1).expect("read") == page
    };
    assert!(!kept(false), "else this shows nothing");
    assert!(kept(true));
}

#[test]
fn who_vanishes_answers_nobody_and_is_there_again() {
    let running = run(&[DRIVE], Options { vanish: true, ..Options::default() });
    let (mut host, of) = running.host(&Wish::default());
    let page = vec![9; 1 << of.shift];
    host.write(of, 8, &page, true).expect("durable");
    let power = &running.stacks[0].power;
    power.cut(When::Now).expect("cut");
    let gone = host.write(of, 9, &page, false);
    assert!(matches!(gone, Err(InitiatorError::Io(_))), "{gone:?}");
    running.until("all are gone", |running| running.count("connections_now") == 0);
    let refused = Initiator::connect(&running.address(), NQN, &Wish::default());
    assert!(matches!(refused, Err(InitiatorError::Io(_))), "{:?}", refused.err());
    power.on().expect("on");
    let since = Instant::now();
    let mut host = loop {
        match Initiator::connect(&running.address(), NQN, &Wish::default()) {
            Ok(host) => break host,
            Err(_) if since.elapsed() < Duration::from_secs(30) => {}
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(host.read(of, 8, 1).expect("read"), page);
    // Off and on again before anybody looks: who was connected is not any more.
    power.cut(When::Now).expect("cut");
    power.on().expect("on");
    assert!(host.read(of, 8, 1).is_err());
}

#[test]
fn a_host_that_is_silent_is_gone_with_its_transactions() {
    let running = run(&[DRIVE], Options::default());
    let (mut quick, of) = running.host(&Wish { alive: 500, ..Wish::default() });
    let tid = quick.tx_begin(of).expect("begun");
    quick.tx_write(of, tid, 4, &[1; 4096]).expect("written");
    let (mut other, _) = running.host(&Wish::default());
    let refused = other.write(of, 4, &[2; 4096], false);
    let Err(InitiatorError::Failed { status, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(status, Status::TX_CONFLICT);
    running.until("the silent one is gone", |running| running.count("hosts_now") == 1);
    assert_eq!((running.count("expired"), running.count("aborts")), (1, 1));
    other.write(of, 4, &[2; 4096], false).expect("nobody has it any more");
    assert!(quick.read(of, 0, 1).is_err(), "its queue is gone as well");
    // One that says something stays.
    let (mut loud, _) = running.host(&Wish { alive: 2000, ..Wish::default() });
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(4) {
        loud.read(of, 0, 1).expect("commands show that it lives");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(running.count("expired"), 1);
}

#[test]
fn logs_say_what_the_stack_counts() {
    let running = run(&[DRIVE], Options::default());
    let (mut host, of) = running.host(&Wish::default());
    for round in 0..40 {
        for first in (0..of.blocks - 64).step_by(64) {
            host.write(of, first, &vec![round; 64 << of.shift], false).expect("written");
        }
    }
    host.flush(of).expect("flushed");
    let missing = host.line().ask(Sqe::new(0x7e, 1), &[], 0).expect("asked");
    assert_eq!(missing.cqe.status, Status::INVALID_OPCODE);
    let counted: std::collections::BTreeMap<_, _> =
        running.stacks[0].disk.counters().into_iter().collect();
    let media = log(&mut host.admin, 0xc0, 0, 512).expect("the log of the media");
    let physical = u64_at(&media, 0);
    assert_eq!(physical, counted["nand_programs"] * counted["slot_bytes"]);
    assert_eq!(u64_at(&media, 16), counted["nand_reads"] * counted["slot_bytes"]);
    assert_eq!(u64::from(u32_at(&media, 88)), counted["erases_most"]);
    assert_eq!(u64::from(u32_at(&media, 92)), counted["erases_least"]);
    let name = [0xc5, 0xaf, 0x10, 0x28, 0xea, 0xbf, 0xf2, 0xa4, 0x9c, 0x4f, 0x6f, 0x7c, 0xc9, 0x14];
    assert_eq!(media[496..510], name);
    let health = log(&mut host.admin, 0x02, 0, 512).expect("health");
    let units = u64_at(&health, 48);
    assert_eq!(units, counted["host_write_bytes"].div_ceil(512_000));
    // What the drive wrote for what it was asked to, by two logs and by its own counters: within 0.1 %.
    let exact = u128::from(physical) * 1_000_000 / u128::from(counted["host_write_bytes"]);
    let told = u128::from(physical) * 1_000_000 / u128::from(units * 512_000);
    assert!(exact > 0 && told.abs_diff(exact) * 1000 <= exact, "{told} {exact}");
    assert_eq!((u16_at(&health, 1), health[3], u64_at(&health, 112)), (300, 100, 1));
    let errors = log(&mut host.admin, 0x01, 0, 4096).expect("errors");
    assert_eq!((u64_at(&errors, 0), u16_at(&errors, 8)), (1, 1));
    assert_eq!(u16_at(&errors, 12) >> 1, Status::INVALID_OPCODE.0);
    assert_eq!(u64_at(&health, 176), 1);
    let firmware = log(&mut host.admin, 0x03, 0, 512).expect("firmware");
    assert_eq!(firmware[0], 1);
    // In two pieces, as a host with little room reads it.
    let whole = log(&mut host.admin, 0xd0, 0, 65536).expect("a document");
    let text: Vec<u8> = whole.iter().copied().take_while(|byte| *byte > 0).collect();
    let document: serde_json::Value = serde_json::from_slice(&text).expect("a document");
    assert_eq!(document[0]["asked"]["write"]["bytes"], counted["host_write_bytes"]);
    let tail = log(&mut host.admin, 0xc0, 496, 16).expect("the rest");
    assert_eq!(tail, media[496..512]);
    // Memory has no media.
    let plain = run(&["ram(4MiB)"], Options::default());
    let (mut host, _) = plain.host(&Wish::default());
    assert!(log(&mut host.admin, 0xc0, 0, 512).is_err());
}
