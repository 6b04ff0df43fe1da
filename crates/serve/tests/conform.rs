//! The conformance checks: our stacks pass them, and what is broken fails the right one.

mod controller;
mod server;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use stack::disk::{Capabilities, Disk, DiskError, Done, Extent};
use stack::live::Stack;
use varve_serve::conform::{Conformance, Outcome, Target};
use varve_serve::control::{Control, ControlSocket};
use varve_serve::nbd::{Export, Limits};

fn stack(text: &str) -> Stack {
    Stack::start(&text.parse().expect("a text")).expect("a stack")
}

/// Numbers of the checks that failed, and of those that were not offered.
fn check(stack: Stack) -> (Vec<usize>, Vec<usize>) {
    let path: PathBuf = server::socket("control");
    let control = Control::new(stack.clone(), Box::new(|| {}));
    let socket = ControlSocket::bind(&path, control).expect("a socket");
    let running = server::run(vec![Export::new("disk", stack.disk)], Limits::default());
    let conformance = Conformance {
        target: Target::Nbd(running.address.clone(), "disk".to_string()),
        control: Some(path),
        restart: None,
        seed: 3,
    };
    let lines = conformance.run(&AtomicBool::new(false), |line| println!("{line:?}"));
    drop(socket);
    assert_eq!(lines.len(), 18);
    let with = |wanted: fn(&Outcome) -> bool| {
        lines.iter().filter(|line| wanted(&line.outcome)).map(|line| line.number).collect()
    };
    (with(|o| matches!(o, Outcome::Fail(_))), with(|o| matches!(o, Outcome::NotOffered(_))))
}

#[test]
fn memory_with_a_switch_passes() {
    let (failed, absent) = check(stack("ram(40MiB)+cut(5)"));
    assert_eq!((failed, absent), (vec![], vec![13, 18]));
}

#[test]
fn a_modelled_drive_passes() {
    let drive = stack(
        "drive(mqsim-default, geometry.blocks=0, capacity=40 MiB, geometry.channels=2, \
         geometry.dies=1, line=plane, op=80 %)",
    );
    let (failed, _) = check(drive);
    assert!(failed.is_empty(), "{failed:?}");
}

/// A disk that lies in one way.
#[derive(Debug)]
struct Liar {
    below: Arc<dyn Disk>,
    lie: Lie,
    flip: AtomicBool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lie {
    ForgetsFlush,
    ForgetsForce,
    HolesEverywhere,
    RoundsZeroes,
    TrimsToGarbage,
    SwallowsWrites,
}

impl Disk for Liar {
    fn capabilities(&self) -> Capabilities {
        self.below.capabilities()
    }
    fn read(&self, at: u64, into: &mut [u8]) -> Result<Done, DiskError> {
        self.below.read(at, into)
    }
    fn write(&self, at: u64, from: &[u8], fua: bool) -> Result<Done, DiskError> {
        let every_other = self.flip.fetch_xor(true, Ordering::Relaxed);
        match self.lie {
            Lie::SwallowsWrites if every_other && from.len() == 4096 => Ok(Done::NOW),
            Lie::ForgetsForce => self.below.write(at, from, false),
            _ => self.below.write(at, from, fua),
        }
    }
    fn flush(&self) -> Result<Done, DiskError> {
        if self.lie == Lie::ForgetsFlush { Ok(Done::NOW) } else { self.below.flush() }
    }
    fn trim(&self, at: u64, bytes: u64, fua: bool) -> Result<Done, DiskError> {
        match self.lie {
            Lie::TrimsToGarbage => self.below.write(at, &vec![7; bytes as usize], fua),
            _ => self.below.trim(at, bytes, fua),
        }
    }
    fn zero(&self, at: u64, bytes: u64, keep: bool, fua: bool) -> Result<Done, DiskError> {
        match self.lie {
            Lie::RoundsZeroes => self.below.zero(at / 512 * 512, bytes, keep, fua),
            _ => self.below.zero(at, bytes, keep, fua),
        }
    }
    fn zero_is_fast(&self, at: u64, bytes: u64, keep: bool) -> bool {
        self.below.zero_is_fast(at, bytes, keep)
    }
    fn extents(&self, at: u64, bytes: u64, most: usize) -> Result<Vec<Extent>, DiskError> {
        match self.lie {
            Lie::HolesEverywhere => Ok(vec![Extent { bytes, hole: true }]),
            _ => self.below.extents(at, bytes, most),
        }
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Each lie is seen by the check of its number.
fn caught(lies: &[(Lie, usize)], check: fn(Stack) -> (Vec<usize>, Vec<usize>)) {
    for (lie, number) in lies {
        let honest = stack("ram(40MiB)+cut(4)");
        let flip = AtomicBool::new(false);
        let disk = Arc::new(Liar { below: Arc::clone(&honest.disk), lie: *lie, flip });
        let (failed, _) = check(Stack { disk, ..honest });
        assert!(failed.contains(number), "{lie:?}: {failed:?}");
    }
}

#[test]
fn every_lie_is_found() {
    let lies = [
        (Lie::ForgetsFlush, 3),
        (Lie::ForgetsForce, 5),
        (Lie::HolesEverywhere, 9),
        (Lie::RoundsZeroes, 8),
        (Lie::TrimsToGarbage, 7),
        (Lie::SwallowsWrites, 17),
    ];
    caught(&lies, check);
}

/// The same checks over NVMe; numbers of the checks that failed, and of those that were not offered.
fn check_nvme(stack: Stack) -> (Vec<usize>, Vec<usize>) {
    let path: PathBuf = server::socket("control");
    let control = Control::new(stack.clone(), Box::new(|| {}));
    let socket = ControlSocket::bind(&path, control).expect("a socket");
    let running = controller::run_stacks(vec![stack], varve_serve::nvme::Options::default());
    let uri = format!("nvme-tcp://{}", running.at);
    let target = uri.parse().expect("a target");
    let conformance = Conformance { target, control: Some(path), restart: None, seed: 3 };
    let lines = conformance.run(&AtomicBool::new(false), |line| println!("{line:?}"));
    drop(socket);
    assert_eq!(lines.len(), 18);
    let with = |wanted: fn(&Outcome) -> bool| {
        lines.iter().filter(|line| wanted(&line.outcome)).map(|line| line.number).collect()
    };
    (with(|o| matches!(o, Outcome::Fail(_))), with(|o| matches!(o, Outcome::NotOffered(_))))
}

/// No block status (2, 9), no request of 32 MiB (11), it may be written (13), nobody restarts it (18).
#[test]
fn stacks_pass_over_nvme() {
    for text in ["ram(40MiB)+cut(5)", controller::DRIVE] {
        assert_eq!(check_nvme(stack(text)), (vec![], vec![2, 9, 11, 13, 18]), "{text}");
    }
    assert_eq!(check_nvme(stack("ram(40MiB)+read-only")).0, Vec::<usize>::new());
}

#[test]
fn lies_are_found_over_nvme() {
    let lies = [
        (Lie::ForgetsFlush, 3),
        (Lie::ForgetsForce, 5),
        (Lie::TrimsToGarbage, 7),
        (Lie::SwallowsWrites, 17),
    ];
    caught(&lies, check_nvme);
}
