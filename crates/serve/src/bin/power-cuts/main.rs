//! Cuts the power of a served device under a real file system, again and again, and compares what
//! is there afterwards with what `fsync` had acknowledged.
//!
//! Each cycle: mount, threads change files and wait for `fsync` each time, the power goes (at once,
//! at the next flush, or at an operation drawn from the seed), unmount, power on, the device is
//! found anew, sometimes the power goes again while the file system recovers, mount, compare,
//! unmount, and the system's own checker must find nothing.

mod content;
mod cycle;
mod ledger;
mod load;
mod machine;

use std::path::PathBuf;
use std::process::ExitCode;

use crate::cycle::{Plan, Total};
use crate::machine::{KINDS, Kind, Machine, Place};

const USAGE: &str = "\
power-cuts (--device DEV --control PATH | --file DISK.IMG [--control PATH]) --fs NAME --mount DIR
           [--cycles N] [--seed N] [--threads N] [--longest MS] [--probes N] [--quiet]
  Makes a file system on a served device and cuts its power N times (default 100) under load.
  --device   a block device, and --control a control socket or a serial line that leads to one
  --file     disk.img of a served directory: a loop device is made of it in each cycle
  --fs       ext4, xfs, btrfs or f2fs: everything on the device is lost
  --longest  milliseconds of load before the power goes at the latest (default 600)
  --probes   power cuts before that, of the bare device: unflushed writes must be lost in some
             (default 8)
  Exit code 0 only if nothing acknowledged was lost, every check was clean, and the cuts were real;
  77: skipped, because the device is none for that file system.";

/// Exit code of a run that this device is not for.
const SKIPPED: u8 = 77;

struct Options {
    place: Place,
    control: PathBuf,
    kind: Kind,
    mount: PathBuf,
    plan: Plan,
}

fn options() -> Result<Options, String> {
    let (mut device, mut file, mut control, mut kind, mut mount) = (None, None, None, None, None);
    let mut plan = Plan { cycles: 100, seed: 1, threads: 4, longest: 600, probes: 8, quiet: false };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg}: expected a value"));
        let number = |text: String| {
            text.parse::<u64>().map_err(|_| format!("{arg} {text}: expected a whole number"))
        };
        match arg.as_str() {
            "--device" => device = Some(PathBuf::from(value()?)),
            "--file" => file = Some(PathBuf::from(value()?)),
            "--control" => control = Some(PathBuf::from(value()?)),
            "--mount" => mount = Some(PathBuf::from(value()?)),
            "--cycles" => plan.cycles = number(value()?)?,
            "--seed" => plan.seed = number(value()?)?,
            "--threads" => plan.threads = number(value()?)?.clamp(1, 64),
            "--longest" => plan.longest = number(value()?)?.max(1),
            "--probes" => plan.probes = number(value()?)?,
            "--quiet" => plan.quiet = true,
            "--fs" => {
                let name = value()?;
                let found = KINDS.iter().find(|kind| kind.name == name);
                kind = Some(*found.ok_or_else(|| format!("--fs {name}: unknown"))?);
            }
            _ => return Err(format!("unknown option {arg}")),
        }
    }
    let place = match (device, file) {
        (Some(device), None) => Place::Device(device),
        (None, Some(file)) => {
            control = control.or_else(|| Some(machine::beside(&file)));
            Place::Loop(file)
        }
        _ => return Err("expected --device or --file".to_string()),
    };
    Ok(Options {
        place,
        control: control.ok_or("--control is required")?,
        kind: kind.ok_or("--fs is required")?,
        mount: mount.ok_or("--mount is required")?,
        plan,
    })
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(e) => {
            eprintln!("power-cuts: {e}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let name = options.kind.name;
    let total = Machine::new(options.kind, options.mount, options.place, &options.control)
        .and_then(|mut machine| {
            let total = cycle::run(&mut machine, &options.plan);
            // What a failure leaves mounted or attached would be in the way of the next run.
            let _ = machine.unmount();
            let _ = machine.detach();
            total
        });
    match total {
        Ok(Total { skipped: Some(reason), .. }) => {
            println!("{name}: skipped: {reason}");
            ExitCode::from(SKIPPED)
        }
        Ok(total) => {
            println!("{name}: {}", total.line());
            if total.good(&options.plan, &options.kind) {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(e) => {
            println!("{name}: FAILED: {e}");
            ExitCode::FAILURE
        }
    }
}

impl Total {
    fn line(&self) -> String {
        let came = &self.came;
        format!(
            "{} cycles, {} operations acknowledged by fsync, {} files compared, {} lost; \
             {} acknowledged after the device was gone and not done; {} names from before a \
             rename; \
             {} under way: {} old, {} new, {} between ({} with blocks of before); {} cuts in recovery; checker clean {} of {}; \
             bare device: {} of {} unflushed blocks lost, {} of {} flushed",
            self.cycles,
            self.acknowledged,
            self.files,
            self.broken,
            self.late,
            self.stale,
            came.iter().sum::<u64>(),
            came[0],
            came[1],
            came[2],
            self.exposed,
            self.again,
            self.clean,
            self.cycles,
            self.unflushed_lost,
            self.unflushed,
            self.flushed_lost,
            self.flushed,
        )
    }

    fn good(&self, plan: &Plan, kind: &Kind) -> bool {
        let real = plan.probes == 0 || self.unflushed_lost > 0;
        self.broken == 0
            && self.cycles == plan.cycles
            && self.clean == self.cycles
            && self.flushed_lost == 0
            && self.unexpected == 0
            && (self.late == 0 || kind.late)
            && (self.stale == 0 || kind.stale)
            && (self.exposed == 0 || kind.exposes)
            && real
    }
}
