//! An answer that was still to come when the power went is never one of success: a drive in real time takes back what it
//! had not done by then.
//!
//! The drive takes long, and the power goes while it works. A machine that is slower still answers before: then what was
//! answered has to be there.

mod controller;
mod server;

use std::sync::Arc;
use std::time::{Duration, Instant};

use block::{Lpn, TxId};
use controller::run_stacks;
use stack::disk::{Ask, Disk, DiskError, Done, Told, Witness};
use stack::live::Stack;
use stack::power::{Power, When};
use varve_serve::nbd::client::{ALL, Client};
use varve_serve::nbd::wire::how;
use varve_serve::nbd::{Export, Limits};
use varve_serve::nvme::Options;
use varve_serve::nvme::initiator::Wish;

/// A drive that takes so many milliseconds for a page.
fn slow(ms: u64) -> String {
    format!(
        "drive(mqsim-default, geometry.blocks=0, capacity=16 MiB, geometry.channels=2, geometry.dies=1, line=plane, \
         op=80 %, unit=4 KiB, nand.oob=full, map.mode=full, tx.mode=nolog, nand.program={ms} ms)+real-time"
    )
}

fn start(text: &str) -> Stack {
    Stack::start(&text.parse().expect("a text")).expect("a stack")
}

/// Cuts the power as soon as something was programmed since there were so many operations.
fn cut_behind(power: &dyn Power, operations: u64) {
    let since = Instant::now();
    while power.state().operations == operations {
        assert!(since.elapsed() < Duration::from_secs(60), "nothing is programmed");
        std::thread::sleep(Duration::from_millis(1));
    }
    power.cut(When::Now).expect("cut");
}

const PLACE: u64 = 3 * 4096;

fn first(disk: &dyn Disk) -> u8 {
    let mut there = vec![0; 4096];
    disk.read(PLACE, &mut there).and_then(Done::wait).expect("read");
    there[0]
}

/// Has `ask` make a page of sevens durable while the power goes: whether it was answered.
fn asked<R: Send>(stack: &Stack, ask: impl FnOnce() -> Result<R, String> + Send) -> bool {
    let operations = stack.power.state().operations;
    let answered = std::thread::scope(|scope| {
        let asking = scope.spawn(ask);
        cut_behind(&*stack.power, operations);
        asking.join().expect("it ended")
    });
    stack.power.on().expect("on");
    answered.is_ok()
}

#[test]
fn nothing_is_acknowledged_whose_drive_has_lost_its_power() {
    let durable = |disk: &dyn Disk, how: u8| match how {
        0 => disk
            .write(PLACE, &[7; 4096], false)
            .and_then(Done::wait)
            .and_then(|()| disk.flush())
            .and_then(Done::wait),
        1 => disk.write(PLACE, &[7; 4096], true).and_then(Done::wait),
        _ => disk
            .zero(PLACE - 512, 1024, true, true)
            .and_then(Done::wait)
            .and_then(|()| disk.write(PLACE, &[7; 4096], true))
            .and_then(Done::wait),
    };
    for text in
        [slow(700), format!("{}+log", slow(200)), format!("{}+cut(1, witness=on)", slow(700))]
    {
        for how in 0..3 {
            let stack = start(&text);
            let disk = Arc::clone(&stack.disk);
            let answered = asked(&stack, move || durable(&*disk, how).map_err(|e| e.to_string()));
            assert!(!answered || first(&*stack.disk) == 7, "{text}: {how}: answered, and lost");
        }
    }
}

#[test]
fn a_commit_is_not_acknowledged_either() {
    let stack = start(&slow(700));
    let disk = Arc::clone(&stack.disk);
    let Told::Begun(TxId(tid)) = disk.transact(Ask::Begin).expect("begun") else {
        panic!("no number")
    };
    let commit = move || {
        let done = |told| match told {
            Told::Done(done) => done.wait().map_err(|error: DiskError| error.to_string()),
            other => Err(format!("{other:?}")),
        };
        let write = disk.transact(Ask::Write(TxId(tid), Lpn(3), &[7; 4096]));
        // When it is there is of no interest.
        let _ = write.map_err(|error| error.to_string())?;
        done(disk.transact(Ask::Commit(&[TxId(tid)])).map_err(|error| error.to_string())?)
    };
    assert!(!asked(&stack, commit) || first(&*stack.disk) == 7, "answered, and lost");
}

#[test]
fn a_cut_at_an_operation_takes_back_no_answer() {
    let stack = start(&slow(700));
    let disk = Arc::clone(&stack.disk);
    let operations = stack.power.state().operations;
    let done = disk.write(PLACE, &[7; 4096], true).expect("under way");
    let now = stack.power.state().operations;
    assert!(now > operations, "it was programmed");
    stack.power.cut(When::Operation(now + 1)).expect("armed");
    let other = disk.write(PLACE + 8 * 4096, &[8; 4096], true).and_then(Done::wait);
    assert!(matches!(other, Err(DiskError::PowerOff)), "{other:?}");
    let answered = done.wait();
    stack.power.on().expect("on");
    assert!(answered.is_err() || first(&*disk) == 7, "answered, and lost");
}

#[test]
fn a_witness_is_not_alarmed_by_what_nobody_was_told() {
    let stack = start(&slow(700));
    let watched = Arc::new(Witness::new(Arc::clone(&stack.disk), Arc::clone(&stack.power)));
    let operations = stack.power.state().operations;
    let disk = Arc::clone(&watched);
    let answered = std::thread::scope(|scope| {
        let asking = scope.spawn(move || {
            disk.write(PLACE, &[7; 4096], false)
                .and_then(Done::wait)
                .and_then(|()| disk.flush())
                .and_then(Done::wait)
        });
        cut_behind(&*watched, operations);
        asking.join().expect("it ended")
    });
    let on = watched.on();
    assert!(on.is_ok(), "{answered:?}: {on:?}");
}

#[test]
fn no_client_of_a_server_is_told_that_it_is_durable() {
    for forced in [false, true] {
        let stack = start(&slow(700));
        let running =
            server::run(vec![Export::new("disk", Arc::clone(&stack.disk))], Limits::default());
        let mut client = Client::connect(&running.address, "disk", ALL).expect("a client");
        let answered = asked(&stack, || {
            let how = if forced { how::FUA } else { 0 };
            let written = client.write(PLACE, &[7; 4096], how);
            let done = if forced { written } else { written.and_then(|()| client.flush()) };
            done.map_err(|error| error.to_string())
        });
        let there = client.read(PLACE, 4096).expect("the connection lives");
        assert!(!answered || there[0] == 7, "NBD, forced: {forced}: answered, and lost");
    }
    for forced in [false, true] {
        let running = run_stacks(vec![start(&slow(700))], Options::default());
        let stack = running.stacks[0].clone();
        let (mut host, of) = running.host(&Wish::default());
        let answered = asked(&stack, || {
            let written = host.write(of, 3, &[7; 4096], forced);
            let done = if forced { written } else { written.and_then(|()| host.flush(of)) };
            done.map_err(|error| error.to_string())
        });
        assert!(
            !answered || first(&*stack.disk) == 7,
            "NVMe, forced: {forced}: answered, and lost"
        );
    }
}
