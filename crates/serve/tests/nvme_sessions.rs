//! Sessions of hosts that are drawn: no panic, no memory, no byte that is not theirs (C11).

mod controller;
mod script;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use block::Rng;
use controller::bytes::{SIZE, begin, configure, filled, judge, resident};
use controller::{NQN, Raw, run_stacks, stack};
use script::{BEFORE, OTHERS, Script, WRITTEN};
use varve_serve::nvme::codec::{Place, Sqe, io, vendor};
use varve_serve::nvme::initiator::Wish;
use varve_serve::nvme::pdu::{self, Digests, Part, command, kind, u16_at};
use varve_serve::nvme::{Initiator, Namespace, Options, Subsystem, serve};

fn number(rng: &mut Rng) -> u32 {
    match rng.below(6) {
        0 => rng.next_u64() as u32,
        1 => u32::MAX - rng.below(3) as u32,
        2 => 1 << rng.below(32),
        _ => rng.below(300) as u32,
    }
}

/// A command, mostly as a good host would send it.
fn draw_command(rng: &mut Rng, opcodes: &[u8]) -> Vec<u8> {
    let opcode = if rng.below(30) == 0 { rng.next_u64() as u8 } else { *rng.pick(opcodes) };
    let count = rng.between(1, 8);
    let mut sqe = Sqe::new(opcode, if rng.below(20) == 0 { number(rng) } else { 1 })
        .words(10, rng.below(SIZE / 4096 - 8))
        .word(12, count as u32 - 1)
        .numbered(rng.below(64) as u16);
    for word in 10..16 {
        if rng.below(25) == 0 {
            sqe = sqe.word(word, number(rng));
        }
    }
    let bytes = if rng.below(12) == 0 { number(rng) % 300_000 } else { count as u32 * 4096 };
    let brings = opcode & 3 == 1;
    let mut data = Vec::new();
    if brings && rng.below(4) > 0 {
        data = vec![WRITTEN; bytes as usize % 140_000];
        sqe = sqe.moving(data.len() as u32, Place::Capsule);
    } else {
        sqe = sqe.moving(bytes, Place::Transport);
    }
    if rng.below(25) == 0 {
        sqe.0[rng.below(64) as usize] = rng.next_u64() as u8;
    }
    let (head, length) = command(&sqe.0, data.len(), Digests::default());
    let mut all = head[..length].to_vec();
    all.extend(data);
    if rng.below(60) == 0 {
        let at = rng.below(8) as usize;
        all[at] = rng.next_u64() as u8;
    }
    all
}

/// Data that may have been asked for.
fn draw_data(rng: &mut Rng) -> Vec<u8> {
    let bytes = rng.between(1, 8) as u32 * 4096;
    let part = Part {
        cid: rng.below(64) as u16,
        tag: rng.between(1, 4) as u16,
        at: if rng.below(5) == 0 { number(rng) } else { 0 },
        bytes: if rng.below(9) == 0 { number(rng) } else { bytes },
    };
    let (mut head, count) =
        Part { bytes, ..part }.head(kind::HOST_DATA, rng.below(4) > 0, Digests::default());
    pdu::put(&mut head, 16, &part.bytes.to_le_bytes());
    let mut all = head[..count].to_vec();
    all.extend(vec![WRITTEN; bytes as usize]);
    all
}

/// Sessions of the admin queue, from memory.
#[test]
fn ten_thousand_admin_sessions_and_no_panic() {
    let opcodes = [0x02, 0x06, 0x06, 0x08, 0x09, 0x0a, 0x0c, 0x18, 0x7f];
    let namespaces = || vec![Namespace::new("disk", filled(BEFORE), &[])];
    let shared = Subsystem::new(NQN, namespaces(), Options::default());
    let (mut answers, before) = (0, resident());
    for seed in 0..10_000 {
        let mut rng = Rng::stream(seed, "nvme/admin");
        let mut bytes = begin(0, u16::MAX, &Wish::default());
        bytes.extend(configure(0x0046_0001));
        for _ in 0..rng.below(12) {
            bytes.extend(draw_command(&mut rng, &opcodes));
        }
        if rng.below(10) == 0 {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << rng.below(8);
        }
        if rng.below(10) == 0 {
            bytes.truncate(rng.below(bytes.len() as u64) as usize);
        }
        let mut script = Script::new(&bytes);
        script.step = *rng.pick(&[1 << 20, 4096, 1000, 72, 7]);
        let out = Arc::clone(&script.out);
        serve(&shared, script, None, &AtomicBool::new(false));
        answers += judge(&out.lock().expect("whole"), OTHERS)
            .unwrap_or_else(|why| panic!("{seed}: {why}"));
    }
    assert!(answers > 50_000, "{answers}: sessions get somewhere");
    assert_eq!(shared.hosts(), 0, "nobody stays");
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
}

/// Sessions of I/O queues beside a good host.
#[test]
fn three_thousand_io_sessions_beside_a_good_host() {
    let opcodes = [
        io::FLUSH,
        io::WRITE,
        io::WRITE,
        io::READ,
        io::READ,
        io::COMPARE,
        io::WRITE_ZEROES,
        io::DATASET,
        vendor::BEGIN,
        vendor::WRITE,
        vendor::READ,
        vendor::COMMIT,
        vendor::COMMIT_SET,
        vendor::ABORT,
        vendor::REMAP,
        vendor::TRIM,
    ];
    let options = Options { queues: 48, ..Options::default() };
    let drive = stack(controller::DRIVE);
    let running = run_stacks(vec![filled(BEFORE), filled(OTHERS), drive], options);
    let (mut good, _) = running.host(&Wish::default());
    let (other, before) = (good.namespaces[1], resident());
    let mean = Initiator::connect(&running.address(), NQN, &Wish { queues: 1, ..Wish::default() });
    let mean = mean.expect("connected");
    let cntlid = u16_at(&mean.controller, 78);
    let mut answers = 0;
    for seed in 0..3000u64 {
        let mut rng = Rng::stream(seed, "nvme/io");
        let mut bytes = begin(2 + (seed % 40) as u16, cntlid, &Wish::default());
        for _ in 0..rng.below(16) {
            bytes.extend(match rng.below(6) {
                0 => draw_data(&mut rng),
                _ => draw_command(&mut rng, &opcodes),
            });
        }
        if rng.below(10) == 0 {
            bytes.truncate(rng.below(bytes.len() as u64) as usize);
        }
        let mut raw = Raw::open(running.at);
        let mut twin = raw.0.try_clone().expect("a twin");
        let reader = std::thread::spawn(move || {
            let mut out = Vec::new();
            // A connection that was ended in the middle of what we send is reset.
            let _ = twin.read_to_end(&mut out);
            out
        });
        let _ = raw.0.write_all(&bytes);
        let _ = raw.0.shutdown(Shutdown::Write);
        let out = reader.join().expect("read");
        answers += judge(&out, OTHERS).unwrap_or_else(|why| panic!("{seed}: {why}"));
    }
    assert!(answers > 6000, "{answers}: sessions get somewhere");
    let page = [OTHERS; 4096];
    assert_eq!(good.read(other, 3, 1).expect("read"), page, "a good host is served");
    running.until("they are gone", |running| running.count("connections_now") == 4);
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
}
