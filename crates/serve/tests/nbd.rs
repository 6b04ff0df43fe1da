//! The NBD server, asked by our own client and by the usual tools.

mod server;

use std::sync::Arc;

use block::Rng;
use server::{Running, run};
use stack::disk::{Disk, MediumDisk, RamDisk, ReadOnly};
use stack::power::{Power, Switch, When};
use varve_serve::nbd::client::{ALL, Client, Wish};
use varve_serve::nbd::wire::{Errno, command, flag, how, state};
use varve_serve::nbd::{Address, ClientError, Export, Limits};

const MIB: u64 = 1 << 20;

fn ram(size: u64) -> Arc<dyn Disk> {
    Arc::new(RamDisk::new(size).expect("memory"))
}

fn one(disk: Arc<dyn Disk>) -> Running {
    run(vec![Export::new("disk", disk)], Limits::default())
}

fn client(server: &Running) -> Client {
    Client::connect(&server.address, "disk", ALL).expect("a client")
}

#[test]
fn what_is_written_is_read_in_every_mode() {
    let server = one(ram(64 * MIB));
    for structured in [false, true] {
        let wish = Wish { structured, ..ALL };
        let mut c = Client::connect(&server.address, "", wish).expect("a client");
        assert_eq!((c.size, c.structured), (64 * MIB, structured));
        assert_eq!(c.can(flag::DF), structured);
        let mut rng = Rng::new(3);
        for bytes in [1, 511, 4096, 65_536, 262_144, 262_145, 1 << 20, (1 << 20) - 28, 32 << 20] {
            let data: Vec<u8> = (0..bytes).map(|i| (i * 7 + bytes) as u8).collect();
            let at = rng.below(32 * MIB);
            c.write(at, &data, how::FUA).expect("written");
            assert!(c.read(at, bytes as u32).expect("read") == data, "{bytes} bytes");
            if structured {
                let whole = c.ask(command::READ, how::DF, at, bytes as u32, &[]).expect("read");
                assert!(whole.data == data && whole.chunks == 1, "{bytes} bytes in one chunk");
            }
            c.zero(at, bytes as u32, 0).expect("zeroed");
            assert!(c.read(at, bytes as u32).expect("read").iter().all(|b| *b == 0));
        }
        c.flush().expect("flushed");
        c.leave().expect("left");
    }
    let counts = server.stop();
    assert!(counts.contains(&("errors", 0)), "{counts:?}");
}

#[test]
fn what_is_wrong_is_an_error_and_the_connection_lives() {
    let server = one(ram(MIB));
    let mut c = client(&server);
    let mut fails = |kind, flags, at, bytes, payload: &[u8], errno: Errno| {
        let reply = c.ask(kind, flags, at, bytes, payload).expect("a reply");
        assert_eq!(reply.errno, errno as u32, "command {kind}, {bytes} bytes at {at}");
    };
    let (inval, space) = (Errno::Inval, Errno::NoSpace);
    fails(command::READ, 0, MIB, 1, &[], inval);
    fails(command::READ, 0, u64::MAX, 4096, &[], inval);
    fails(command::READ, 0, 0, u32::MAX, &[], inval);
    fails(command::WRITE, 0, MIB - 1, 2, &[1, 2], space);
    fails(command::WRITE, 0, u64::MAX - 1, 2, &[1, 2], space);
    fails(command::WRITE_ZEROES, 0, MIB, 512, &[], space);
    fails(command::TRIM, 0, MIB, 512, &[], inval);
    fails(command::BLOCK_STATUS, 0, MIB, 512, &[], inval);
    fails(command::BLOCK_STATUS, 0, 0, 0, &[], inval);
    fails(command::CACHE, 0, 0, 512, &[], inval);
    fails(99, 0, 0, 0, &[], inval);
    fails(command::READ, how::NO_HOLE, 0, 512, &[], inval);
    fails(command::WRITE, 1 << 12, 0, 3, &[1, 2, 3], inval);
    fails(command::WRITE_ZEROES, how::FAST_ZERO, 1, 100, &[], Errno::NotSup);
    c.ask(command::WRITE, 0, 0, (33 << 20) as u32, &vec![1; 33 << 20]).expect("taken, refused");
    // A flush has no address.
    let flush = c.ask(command::FLUSH, 0, u64::MAX, u32::MAX, &[]).expect("a reply");
    assert_eq!(flush.errno, 0);
    for (kind, at) in [(command::READ, MIB), (command::WRITE, 0), (command::TRIM, 5)] {
        assert_eq!(c.ask(kind, how::FUA, at, 0, &[]).expect("a reply").errno, 0);
    }
    assert!(c.read(0, 4096).expect("it lives").iter().all(|byte| *byte == 0));
}

#[test]
fn who_asked_for_the_limits_keeps_to_them() {
    let server = one(ram(MIB));
    let mut c =
        Client::connect(&server.address, "disk", Wish { sizes: true, ..ALL }).expect("a client");
    assert_eq!(c.sizes, Some([4096, 4096, 32 << 20]));
    assert_eq!(c.ask(command::READ, 0, 512, 512, &[]).expect("a reply").errno, 22);
    assert_eq!(c.read(4096, 4096).expect("read").len(), 4096);
    let unbound = client(&server).read(513, 3).expect("read");
    assert_eq!(unbound, [0; 3]);
}

#[test]
fn holes_are_told_and_sent_as_holes() {
    let server = one(ram(16 * MIB));
    let mut c = client(&server);
    c.write(MIB, &[5; 65_536], 0).expect("written");
    let hole = state::HOLE | state::ZERO;
    let extents = c.status(0, 4 << 20).expect("told");
    assert_eq!(extents, [(1 << 20, hole), (65_536, 0), ((3 << 20) - 65_536, hole)]);
    let one = c.ask(command::BLOCK_STATUS, how::REQ_ONE, 0, 4 << 20, &[]).expect("told");
    assert_eq!(one.extents, [(1 << 20, hole)]);
    let reply = c.ask(command::READ, 0, MIB - 65_536, 3 * 65_536, &[]).expect("read");
    assert_eq!(reply.chunks, 3);
    assert!(reply.data[65_536..131_072].iter().all(|byte| *byte == 5));
    c.trim(0, (16 * MIB) as u32, how::FUA).expect("trimmed");
    assert_eq!(c.status(0, 4 << 20).expect("told"), [(4 << 20, hole)]);
    let bare = Wish { status: false, ..ALL };
    let mut bare = Client::connect(&server.address, "disk", bare).expect("a client");
    assert_eq!(bare.ask(command::BLOCK_STATUS, 0, 0, 4096, &[]).expect("a reply").errno, 22);
}

#[test]
fn two_exports_are_two() {
    let exports = vec![Export::new("a", ram(MIB)), Export::new("b", ram(2 * MIB))];
    let server = run(exports, Limits::default());
    let mut a = Client::connect(&server.address, "a", ALL).expect("a");
    let mut b = Client::connect(&server.address, "b", ALL).expect("b");
    a.write(0, &[1; 4096], 0).expect("written");
    assert_eq!(b.read(0, 4096).expect("read"), [0; 4096]);
    assert_eq!((a.size, b.size), (MIB, 2 * MIB));
    let mut first = Client::connect(&server.address, "", ALL).expect("the first");
    assert_eq!(first.read(0, 4096).expect("read"), [1; 4096]);
    let none = Client::connect(&server.address, "c", ALL);
    assert!(matches!(none, Err(ClientError::Refused { .. })), "{none:?}");
}

#[test]
fn a_read_only_export_refuses_every_kind_of_write() {
    let disk = ram(MIB);
    disk.write(0, &[7; 4096], false).expect("written").wait().unwrap();
    let server = one(Arc::new(ReadOnly(disk)));
    let mut c = client(&server);
    assert!(c.can(flag::READ_ONLY) && !c.can(flag::TRIM | flag::WRITE_ZEROES));
    for kind in [command::WRITE, command::TRIM, command::WRITE_ZEROES] {
        let payload = if kind == command::WRITE { &[1; 4096][..] } else { &[] };
        let reply = c.ask(kind, 0, 0, 4096, payload).expect("a reply");
        assert_eq!(reply.errno, Errno::Perm as u32);
    }
    assert_eq!(c.read(0, 4096).expect("read"), [7; 4096]);
}

#[test]
fn many_requests_in_flight_on_many_connections() {
    let server = one(ram(8 * MIB));
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let address = &server.address;
            scope.spawn(move || {
                let mut c = Client::connect(address, "disk", ALL).expect("a client");
                let mut rng = Rng::stream(thread, "many");
                // Each thread has pages of its own, and knows what they hold.
                let mut held = vec![0u8; 512];
                for round in 1..40u8 {
                    for _ in 0..32 {
                        let page = rng.below(512);
                        held[page as usize] = round;
                        let at = (page * 4 + thread) * 4096;
                        let flags = if rng.below(8) == 0 { how::FUA } else { 0 };
                        c.send(command::WRITE, flags, at, 4096, &[round; 4096]).expect("sent");
                    }
                    c.send(command::FLUSH, 0, 0, 0, &[]).expect("sent");
                    while c.outstanding() > 0 {
                        assert_eq!(c.receive().expect("a reply").errno, 0);
                    }
                    for _ in 0..32 {
                        let page = rng.below(512);
                        let at = (page * 4 + thread) * 4096;
                        let found = c.read(at, 4096).expect("read");
                        assert_eq!(found, [held[page as usize]; 4096]);
                    }
                }
            });
        }
    });
}

#[test]
fn a_power_cut_is_an_error_until_the_power_is_back() {
    let ram = Arc::new(RamDisk::new(MIB).expect("memory"));
    let open = |medium| Ok(Arc::new(MediumDisk::new(medium)?) as Arc<dyn Disk>);
    let switch = Arc::new(Switch::of_medium(ram, 9, Box::new(open)).expect("a stack"));
    let server = one(Arc::clone(&switch) as _);
    let mut c = client(&server);
    c.write(0, &[1; 4096], 0).expect("written");
    c.flush().expect("flushed");
    switch.cut(When::NextFlush).expect("armed");
    c.write(0, &[2; 4096], 0).expect("written");
    for _ in 0..2 {
        assert_eq!(c.ask(command::FLUSH, 0, 0, 0, &[]).expect("a reply").errno, Errno::Io as u32);
    }
    assert_eq!(c.ask(command::READ, 0, 0, 512, &[]).expect("a reply").errno, Errno::Io as u32);
    switch.on().expect("on");
    let found = c.read(0, 4096).expect("read");
    assert!(found.iter().all(|byte| *byte == 1 || *byte == 2));
    c.write(0, &[3; 4096], how::FUA).expect("written");
    assert_eq!(c.read(0, 4096).expect("read"), [3; 4096]);
}

#[test]
fn a_stop_finishes_what_is_admitted() {
    let server = one(ram(8 * MIB));
    let mut c = client(&server);
    for page in 0..64u64 {
        c.send(command::WRITE, how::FUA, page * 4096, 4096, &[page as u8; 4096]).expect("sent");
    }
    c.receive().expect("the first");
    let address = server.address.clone();
    let counts = server.stop();
    let mut answered = 1;
    while c.outstanding() > 0 && c.receive().is_ok() {
        answered += 1;
    }
    let writes = counts.iter().find(|(name, _)| *name == "writes").expect("counted").1;
    assert!(answered >= writes, "{writes} were done, {answered} answered");
    assert!(Client::connect(&address, "disk", ALL).is_err());
}

#[test]
fn tcp_on_this_machine_serves_as_well() {
    let any = Address::Tcp("127.0.0.1:0".parse().expect("an address"));
    let server = server::run_at(&any, vec![Export::new("x", ram(MIB))], Limits::default());
    let mut c = Client::connect(&server.address, "x", ALL).expect("a client");
    c.write(77, &[4; 9], 0).expect("written");
    assert_eq!(c.read(77, 9).expect("read"), [4; 9]);
}
