//! `varve serve`: a stack becomes a device.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lab::LabError;
use serve::control::{Control, ControlSocket};
use serve::disk::Timing;
use serve::nbd::{Address, Export, Limits, Server};
use serve::stack::{Backing, ON_IMAGE, Remap, Stack, StackError, StackOptions};

use crate::args::{self, Serve, ServeNbd, StackArgs};
use crate::{note, print, stop};

/// How often it looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(50);

/// `varve serve FRONT-END ..`.
pub fn serve(args: &Serve) -> Result<(), LabError> {
    match args {
        Serve::Nbd(nbd) => serve_nbd(nbd),
    }
}

fn wrong(error: StackError) -> LabError {
    match error {
        StackError::Config(error) => LabError::Config(error),
        StackError::Io { path, error } => LabError::io(path, error),
        other => LabError::Input(other.to_string()),
    }
}

fn options(args: &StackArgs) -> Result<StackOptions, LabError> {
    let input = |text: &str| Err(LabError::Input(text.to_string()));
    let backing = match (&args.ram, &args.image, &args.device, args.ssd.as_deref()) {
        (Some(size), None, None, None) => Backing::Ram(*size),
        (None, Some(path), None, None) => Backing::Image(path.clone(), args.size),
        (None, None, Some(path), None) => Backing::Device(path.clone()),
        (None, Some(path), None, Some(ON_IMAGE)) => Backing::SsdImage(path.clone(), args.size),
        (None, None, None, Some(ON_IMAGE)) => return input("--ssd image needs --image FILE"),
        (None, Some(_), None, Some(_)) => {
            return input(
                "a drive on an image has a geometry of its own: --ssd image --image FILE",
            );
        }
        (None, None, None, Some(preset)) => {
            let mut keys = args.set.clone();
            keys.extend(args.size.map(|size| format!("capacity={}", size.human())));
            Backing::Ssd(preset.to_string(), keys)
        }
        _ => return input("expected one of --ram, --image, --device, --ssd"),
    };
    Ok(StackOptions {
        backing,
        remap: match args.remap {
            args::Remap::Off => Remap::Off,
            args::Remap::Varve => Remap::Varve,
            args::Remap::Paper => Remap::Paper,
        },
        timing: match args.timing {
            args::Timing::Off => Timing::Off,
            args::Timing::Model => Timing::Model,
        },
        cut_seed: args.cut_seed,
        read_only: args.read_only,
    })
}

/// A stack, and what an operator asks it with. `varve ctl SOCKET quit` is the first signal to stop.
fn start(args: &StackArgs) -> Result<(Stack, Arc<Control>, Option<ControlSocket>), LabError> {
    let stack = options(args)?.build().map_err(wrong)?;
    let quit = || stop::flag().store(true, Ordering::Relaxed);
    let control = Control::new(stack.clone(), Box::new(quit));
    let bind = |path: &PathBuf| {
        ControlSocket::bind(path, Arc::clone(&control)).map_err(|error| LabError::io(path, error))
    };
    let socket = args.control.as_ref().map(bind).transpose()?;
    Ok((stack, control, socket))
}

/// How late the system wakes who sleeps: no latency below it can be emulated.
fn floor() -> Duration {
    let nap = Duration::from_micros(20);
    let mut late: Vec<Duration> = (0..31)
        .map(|_| {
            let since = Instant::now();
            std::thread::sleep(nap);
            since.elapsed().saturating_sub(nap)
        })
        .collect();
    late.sort();
    late[late.len() / 2]
}

fn address(args: &ServeNbd) -> Result<Address, LabError> {
    let address = match (&args.socket, args.tcp) {
        (Some(path), _) => Address::Unix(path.clone()),
        (None, Some(address)) => Address::Tcp(address),
        (None, None) => return Err(LabError::Input("expected --socket or --tcp".to_string())),
    };
    if !address.is_local() {
        if !args.listen_any {
            let what = format!("{address}: other machines reach it; --listen-any allows that");
            return Err(LabError::Input(what));
        }
        note(
            "varve: whoever reaches this address may read and overwrite the export: NBD here has \
             neither passwords nor encryption",
        );
    }
    Ok(address)
}

fn serve_nbd(args: &ServeNbd) -> Result<(), LabError> {
    let address = address(args)?;
    let (stack, control, socket) = start(&args.stack)?;
    let mut export = Export::new(&args.name, Arc::clone(&stack.disk));
    export.description.clone_from(&stack.name);
    export.smallest = args.min_block;
    let (list, name) = (export.list(), stack.name.clone());
    let limits = Limits { connections: usize::from(args.max_connections), listed: !args.no_list };
    let failed = |error| LabError::Failed(format!("{address}: {error}"));
    let server = Server::bind(&address, vec![export], limits).map_err(failed)?;
    let found = server.address().map_err(failed)?;
    let handle = server.handle();
    let counted = handle.clone();
    control.count(Box::new(move || counted.counters()));
    print(&format!("{found}\n{name}\n{list}\n"))?;
    if args.stack.timing == args::Timing::Model {
        let late = floor().as_micros();
        print(&format!("latencies are emulated; answers leave about {late} us late or more\n"))?;
    }
    let thread = std::thread::spawn(move || server.run());
    while !stop::flag().load(Ordering::Relaxed) && !thread.is_finished() {
        std::thread::sleep(LOOK);
    }
    handle.stop();
    let ended = thread.join().map_err(|_| LabError::Failed("the server failed".to_string()))?;
    drop(socket);
    close(&stack)?;
    ended.map_err(failed)
}

/// What is acknowledged is durable, and the next start quick.
fn close(stack: &Stack) -> Result<(), LabError> {
    if !stack.power.state().on {
        note("varve: the power is off: nothing is written any more");
        return Ok(());
    }
    stack.disk.close().map_err(|error| LabError::Failed(error.to_string()))
}
