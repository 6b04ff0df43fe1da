//! Hosts that are broken or mean: no panic, no memory, no byte that is not theirs (C11).

mod controller;
mod script;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use controller::bytes::{SIZE, begin, capsule, configure, filled, judge, resident};
use controller::{NQN, Raw, connect_data, run, run_stacks};
use script::{BEFORE, OTHERS, Script, WRITTEN};
use varve_serve::nvme::codec::{Place, Sqe, admin, io};
use varve_serve::nvme::initiator::{Wish, blocks, connect_command};
use varve_serve::nvme::pdu::{
    Digests, Fatal, INITIALIZE, Part, command, initialize, kind, u16_at, u32_at,
};
use varve_serve::nvme::{End, Namespace, Options, Status, Subsystem, serve};

/// A host whose connections are bytes: an admin queue, and an I/O queue.
struct Host {
    admin: Raw,
    queue: Raw,
}

fn raw_host(running: &controller::Running) -> Host {
    let mut admin = Raw::open(running.at);
    admin.send(&begin(0, u16::MAX, &Wish::default()));
    assert_eq!(admin.pdu().len(), INITIALIZE);
    let cntlid = u16_at(&admin.pdu(), 8);
    admin.send(&configure(0x0046_0001));
    assert_eq!(admin.pdu()[0], kind::RESPONSE);
    let mut queue = Raw::open(running.at);
    queue.send(&begin(1, cntlid, &Wish::default()));
    queue.pdu();
    assert_eq!(u16_at(&queue.pdu(), 22), 0, "connected");
    Host { admin, queue }
}

/// Whether a connection ends with this reason, and is closed.
fn ends(raw: &mut Raw, why: Fatal, field: u32) {
    let last = raw.pdu();
    assert_eq!(last.first(), Some(&kind::CONTROLLER_TERMINATE), "{last:02x?}");
    assert_eq!((u16_at(&last, 8), u32_at(&last, 10)), (why as u16, field), "{last:02x?}");
    assert!(raw.is_closed());
}

fn status(raw: &mut Raw) -> Status {
    let pdu = raw.pdu();
    assert_eq!(pdu.first(), Some(&kind::RESPONSE), "{pdu:02x?}");
    Status(u16_at(&pdu, 22) >> 1)
}

const OF: varve_serve::nvme::initiator::Told = varve_serve::nvme::initiator::Told {
    nsid: 1,
    blocks: 256,
    shift: 12,
    read_only: false,
    transactions: None,
};

fn asks_to_write(cid: u16, bytes: u32) -> Vec<u8> {
    let sqe = blocks(io::WRITE, OF, 0, u64::from(bytes) / 4096);
    capsule(sqe.numbered(cid).moving(bytes, Place::Transport), &[])
}

fn data(cid: u16, tag: u16, at: u32, bytes: usize, last: bool) -> Vec<u8> {
    let part = Part { cid, tag, at, bytes: bytes as u32 };
    let (head, count) = part.head(kind::HOST_DATA, last, Digests::default());
    let mut all = head[..count].to_vec();
    all.extend(vec![WRITTEN; bytes]);
    all
}

/// Each ends its connection, says why, and changes nothing.
#[test]
fn what_breaks_the_protocol_ends_the_connection_and_says_why() {
    let running = run_stacks(vec![filled(BEFORE)], Options::default());
    let head = |kind: u8, header: u8, data_at: u8, length: u32| {
        let mut all = vec![kind, 0, header, data_at];
        all.extend(length.to_le_bytes());
        all.extend([0; 16]);
        all
    };
    let first = [
        (head(kind::COMMAND, 72, 0, 72), Fatal::Sequence, 0),
        (head(0, 128, 0, 127), Fatal::Header, 4),
        (head(0, 127, 0, 128), Fatal::Header, 2),
        (head(0x55, 24, 0, 24), Fatal::Sequence, 0),
    ];
    for (bytes, why, field) in first {
        let mut raw = Raw::open(running.at);
        raw.send(&bytes);
        ends(&mut raw, why, field);
    }
    for (at, value, why) in
        [(8, 1, Fatal::Parameter), (10, 3, Fatal::Parameter), (11, 9, Fatal::Header)]
    {
        let mut hello = initialize(0, Digests::default(), 0);
        hello[at] = value;
        let mut raw = Raw::open(running.at);
        raw.send(&hello);
        ends(&mut raw, why, at as u32);
    }
    let write = asks_to_write(5, 8192);
    let with_write = |bytes: Vec<u8>| [write.clone(), bytes].concat();
    let later = [
        // Kinds that nobody knows, or that go the other way.
        (head(0x0a, 24, 0, 24), Fatal::Header, 0),
        (head(kind::CONTROLLER_DATA, 24, 24, 4120), Fatal::Header, 0),
        (head(kind::READY, 24, 0, 24), Fatal::Header, 0),
        (initialize(0, Digests::default(), 0).to_vec(), Fatal::Sequence, 0),
        // Lengths that are not believed.
        (head(kind::COMMAND, 72, 72, 64 << 20), Fatal::Header, 4),
        (head(kind::COMMAND, 72, 72, u32::MAX), Fatal::Header, 4),
        (head(kind::COMMAND, 72, 0, 71), Fatal::Header, 4),
        (head(kind::COMMAND, 72, 80, 4096), Fatal::Header, 3),
        (head(kind::HOST_DATA, 24, 24, 64 << 20), Fatal::Header, 4),
        // Data that nobody has asked for.
        (data(5, 1, 0, 4096, true), Fatal::Sequence, 0),
        (with_write(data(6, 1, 0, 8192, true)), Fatal::Header, 8),
        (with_write(data(5, 7, 0, 8192, true)), Fatal::Header, 10),
        (with_write(data(5, 1, 4096, 4096, true)), Fatal::Range, 12),
        (with_write(data(5, 1, 0, 12288, true)), Fatal::Range, 16),
        (with_write(data(5, 1, 0, 4096, true)), Fatal::Header, 1),
        (with_write(data(5, 1, 0, 8192, false)), Fatal::Header, 1),
    ];
    for (bytes, why, field) in later {
        let mut host = raw_host(&running);
        let asked = bytes.starts_with(&write);
        host.queue.send(&bytes);
        if asked {
            assert_eq!(host.queue.pdu().first(), Some(&kind::READY));
        }
        ends(&mut host.queue, why, field);
        // The rest of the host lives.
        host.admin.send(&capsule(Sqe::new(admin::KEEP_ALIVE, 0).numbered(9), &[]));
        assert_eq!(status(&mut host.admin), Status::OK);
    }
    let mut there = vec![0; SIZE as usize];
    running.stacks[0].disk.read(0, &mut there).expect("read").wait().unwrap();
    assert!(there.iter().all(|byte| *byte == BEFORE), "something was written");
    assert_eq!(running.count("terminated"), 7 + 16);
}

#[test]
fn what_is_wrong_in_a_command_fails_the_command() {
    let running = run_stacks(vec![filled(BEFORE)], Options::default());
    let mut host = raw_host(&running);
    let queue = &mut host.queue;
    let mut expect = |sqe: Sqe, data: &[u8], expected: Status| {
        let (head, count) = command(&sqe.0, data.len(), Digests::default());
        queue.send(&[&head[..count], data].concat());
        assert_eq!(status(queue), expected, "{sqe:02x?}");
    };
    let page = [WRITTEN; 4096];
    let write = blocks(io::WRITE, OF, 0, 1).numbered(7).moving(4096, Place::Capsule);
    let changed = |at: usize, value: u8| {
        let mut sqe = write;
        sqe.0[at] = value;
        sqe
    };
    expect(changed(1, 0x00), &page, Status::INVALID_FIELD); // pages instead of a list
    expect(changed(1, 0x41), &page, Status::INVALID_FIELD); // fused
    expect(changed(39, 0x02), &page, Status::SGL_TYPE);
    expect(changed(24, 0x08), &page, Status::SGL_OFFSET);
    expect(changed(4, 2), &page, Status::INVALID_NAMESPACE);
    expect(changed(4, 0), &page, Status::INVALID_NAMESPACE);
    expect(changed(48, 1), &page, Status::DATA_LENGTH);
    expect(changed(0, 0x7d), &page, Status::INVALID_OPCODE);
    expect(
        write.words(10, 255).word(12, 1).moving(8192, Place::Capsule),
        &[&page[..], &page].concat(),
        Status::LBA_RANGE,
    );
    expect(write.words(10, u64::MAX), &page, Status::LBA_RANGE);
    expect(write, &page[..4092], Status::DATA_LENGTH);
    expect(write.moving(4096, Place::Transport), &page, Status::DATA_LENGTH);
    expect(write.word(12, 0xffff).moving(256 << 20, Place::Transport), &[], Status::INVALID_FIELD);
    expect(
        Sqe::new(io::DATASET, 1).word(10, 255).word(11, 4).moving(4080, Place::Capsule),
        &page[..4080],
        Status::DATA_LENGTH,
    );
    // Two connections of one number, and what may not come twice.
    let (connect, bytes) = connect_command(NQN, &Wish::default(), 1, 31, 1);
    expect(connect.moving(1024, Place::Capsule), &bytes, Status::SEQUENCE);
    let admin = &mut host.admin;
    let (connect, bytes) = connect_command(NQN, &Wish::default(), 0, 31, u16::MAX);
    admin.send(&capsule(connect.numbered(3), &bytes));
    assert_eq!(status(admin), Status::SEQUENCE);
    // More events than are held; a number that is still in flight.
    for cid in 10..14 {
        admin.send(&capsule(Sqe::new(admin::ASYNC_EVENT, 0).numbered(cid), &[]));
    }
    admin.send(&capsule(Sqe::new(admin::ASYNC_EVENT, 0).numbered(14), &[]));
    assert_eq!(status(admin), Status::EVENT_LIMIT);
    admin.send(&capsule(Sqe::new(admin::KEEP_ALIVE, 0).numbered(12), &[]));
    assert_eq!(status(admin), Status::ID_CONFLICT);
    let mut there = vec![0; SIZE as usize];
    running.stacks[0].disk.read(0, &mut there).expect("read").wait().unwrap();
    assert!(there.iter().all(|byte| *byte == BEFORE), "something was written");
}

#[test]
fn nothing_is_done_before_a_queue_is_connected_and_its_controller_ready() {
    let running = run_stacks(vec![filled(BEFORE)], Options::default());
    let mut raw = Raw::open(running.at);
    raw.send(&initialize(0, Digests::default(), 0));
    raw.pdu();
    raw.send(&configure(0x0046_0001));
    assert_eq!(status(&mut raw), Status::SEQUENCE);
    raw.send(&capsule(blocks(io::READ, OF, 0, 1).moving(4096, Place::Transport), &[]));
    assert_eq!(status(&mut raw), Status::SEQUENCE);
    raw.send(&asks_to_write(4, 4096));
    assert_eq!(status(&mut raw), Status::SEQUENCE);
    // A queue of a controller that is not there, or is somebody else's.
    let owner = raw_host(&running);
    for (cntlid, host) in
        [(77, Wish::default()), (1, Wish { id: *b"somebody else ..", ..Wish::default() })]
    {
        let (sqe, data) = connect_command(NQN, &host, 2, 31, cntlid);
        raw.send(&capsule(sqe.numbered(5), &data));
        assert_eq!(status(&mut raw), Status::CONNECT_INVALID);
    }
    let wrong: [(usize, &[u8], Status); 4] = [
        (44, &[0, 0], Status::CONNECT_INVALID),
        (44, &[0xff, 0xff], Status::CONNECT_INVALID),
        (40, &[1, 0], Status::CONNECT_FORMAT),
        (42, &[99, 0], Status::CONNECT_INVALID),
    ];
    for (at, bytes, expected) in wrong {
        let (mut sqe, data) = connect_command(NQN, &Wish::default(), 2, 31, 1);
        sqe.0[at..at + 2].copy_from_slice(bytes);
        raw.send(&capsule(sqe.numbered(6), &data));
        assert_eq!(status(&mut raw), expected, "byte {at}");
    }
    let mut endless = connect_data(NQN, u16::MAX);
    endless[256..1024].fill(b'x');
    let (sqe, _) = connect_command(NQN, &Wish::default(), 0, 31, u16::MAX);
    raw.send(&capsule(sqe.numbered(7), &endless));
    assert_eq!(status(&mut raw), Status::CONNECT_INVALID);
    // Connected, and not ready.
    let (sqe, data) = connect_command(NQN, &Wish::default(), 0, 31, u16::MAX);
    raw.send(&capsule(sqe.numbered(8), &data));
    assert_eq!(status(&mut raw), Status::OK);
    raw.send(&capsule(
        Sqe::new(admin::IDENTIFY, 0).word(10, 1).moving(4096, Place::Transport),
        &[],
    ));
    assert_eq!(status(&mut raw), Status::SEQUENCE);
    drop(owner);
}

/// A digest of data that differs fails its command, in a capsule and in a transfer.
#[test]
fn data_that_was_damaged_on_its_way_is_not_written() {
    let running = run_stacks(vec![filled(BEFORE)], Options::default());
    let digests = Digests::both(true);
    for capsule in [None, Some(0)] {
        let (mut host, of) = running.host(&Wish { digests, capsule, ..Wish::default() });
        let page = [WRITTEN; 4096];
        let sqe = blocks(io::WRITE, of, 9, 1).numbered(200);
        let line = host.line();
        let (head, count) = match capsule {
            None => command(&sqe.moving(4096, Place::Capsule).0, 4096, digests),
            Some(_) => {
                line.put_command(&sqe.moving(4096, Place::Transport), &[]);
                line.push().expect("sent");
                let part = line.asked_for().expect("asked for");
                part.head(kind::HOST_DATA, true, digests)
            }
        };
        let mut bytes = [&head[..count], &page].concat();
        bytes.extend((block::crc32c(0, &page) ^ 1).to_le_bytes());
        line.stream().write_all(&bytes).expect("sent");
        // Its answer is to nothing that the line knows of.
        let answer = line.receive().expect_err("an answer to command 200");
        assert!(answer.to_string().contains("command 200"), "{answer}");
        let (mut other, of) = running.host(&Wish::default());
        assert_eq!(other.read(of, 9, 1).expect("read"), [BEFORE; 4096]);
    }
}

/// The stream ends at every byte of a session that writes in all ways.
#[test]
fn a_host_that_leaves_at_any_byte_leaves_nothing_behind() {
    let running = run_stacks(vec![filled(BEFORE)], Options::default());
    let host = raw_host(&running);
    let mut whole = begin(2, 1, &Wish::default());
    let start = whole.len();
    whole.extend(capsule(blocks(io::WRITE, OF, 1, 1).numbered(2), &[WRITTEN; 4096]));
    whole.extend(asks_to_write(3, 8192));
    whole.extend(data(3, 1, 0, 4096, false));
    whole.extend(data(3, 1, 4096, 4096, true));
    whole.extend(capsule(Sqe::new(io::FLUSH, 1).numbered(4), &[]));
    let mut ends: Vec<usize> = (0..whole.len()).step_by(97).collect();
    ends.extend(start..start + 80);
    ends.push(whole.len());
    for end in ends {
        running.until("the queue is free", |running| running.count("connections_now") == 2);
        let mut raw = Raw::open(running.at);
        raw.send(&whole[..end]);
        raw.0.shutdown(Shutdown::Write).expect("shut");
        let mut out = Vec::new();
        raw.0.read_to_end(&mut out).expect("all of it");
        judge(&out, OTHERS).expect("PDUs");
        // A block is old or new.
        let mut there = vec![0; 16384];
        running.stacks[0].disk.read(0, &mut there).expect("read").wait().unwrap();
        for block in there.chunks(4096) {
            assert!(block.iter().all(|byte| *byte == block[0]), "torn at {end}");
        }
    }
    drop(host);
    running.until("all are gone", |running| running.count("connections_now") == 0);
}

/// More than there is room for: seats, a queue, transactions.
#[test]
fn floods_are_bounded() {
    let options = Options { connections: 12, ..Options::default() };
    let running = run(&[controller::DRIVE], options);
    let before = resident();
    let mut half: Vec<Raw> = Vec::new();
    for _ in 0..200 {
        half.push(Raw::open(running.at));
    }
    running.until("most are refused", |running| running.count("refused") >= 188);
    assert!(running.count("connections_now") <= 12);
    let grown = resident().saturating_sub(before);
    assert!(grown < 48 << 20, "{grown} bytes");
    drop(half);
    running.until("they are gone", |running| running.count("connections_now") == 0);
    // Commands that all wait for their data: a queue of 32 holds no more.
    let mut host = raw_host(&running);
    for cid in 0..33 {
        host.queue.send(&asks_to_write(cid, 4096));
    }
    assert_eq!(host.queue.pdu().first(), Some(&kind::READY), "one at a time is asked for");
    ends(&mut host.queue, Fatal::Limit, 0);
    drop(host);
    // Transactions until there are no more.
    let (mut greedy, of) = running.host(&Wish::default());
    let mut count = 0;
    while greedy.tx_begin(of).is_ok() {
        count += 1;
        assert!(count < 10_000);
    }
    drop(greedy);
    running.until("it is gone", |running| running.count("hosts_now") == 0);
    let (mut next, of) = running.host(&Wish::default());
    next.tx_begin(of).expect("there is room again");
}

/// A connection that says nothing, or half of something, is given up.
#[test]
fn who_does_not_connect_is_closed() {
    let shared =
        Subsystem::new(NQN, vec![Namespace::new("disk", filled(BEFORE), &[])], Options::default());
    let hello = initialize(0, Digests::default(), 0);
    for end in [0, 1, 100, 128] {
        let script = Script::new(&hello[..end]);
        let end = serve(&shared, script, None, &AtomicBool::new(false));
        assert!(matches!(end, End::Closed), "{end:?}");
    }
    let running = run(&["ram(4MiB)"], Options::default());
    let mut raw = Raw::open(running.at);
    raw.send(&hello);
    raw.pdu();
    let since = std::time::Instant::now();
    assert!(raw.is_closed());
    assert!(since.elapsed() > Duration::from_secs(5));
}
