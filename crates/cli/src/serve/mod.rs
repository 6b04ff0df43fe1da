//! `varve serve`: a stack becomes a device.

mod nvme;
mod vhost;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lab::LabError;
use serve::control::{Control, ControlSocket};
use serve::faults::{Faults, FaultyDisk};
use serve::fuse::{
    Mount, Options, Patience, advertised, clear, is_dead, shield_from_own_writeback, who_holds,
};
use serve::nbd::{Address, Export, Limits, Server};
use stack::live::Stack;
use stack::{Base, Description, Keys, Layer, StackError};

use crate::args::{self, Serve, ServeFuse, ServeNbd, ServeNvme, ServeVhost, StackArgs};
use crate::ready::{ready, stopping};
use crate::{background, note, print, stop};

pub use nvme::secrets;

/// How often it looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(50);

/// `varve serve FRONT-END ..`.
pub fn serve(args: &Serve) -> Result<(), LabError> {
    let (Serve::Nbd(ServeNbd { place, .. })
    | Serve::NvmeTcp(ServeNvme { place, .. })
    | Serve::VhostUser(ServeVhost { place, .. })
    | Serve::Fuse(ServeFuse { place, .. })) = args;
    if place.background {
        return in_background(place);
    }
    match args {
        Serve::Nbd(nbd) => serve_nbd(nbd),
        Serve::NvmeTcp(nvme) => nvme::serve_nvme(nvme),
        Serve::VhostUser(vhost) => vhost::serve_vhost(vhost),
        Serve::Fuse(fuse) => serve_fuse(fuse),
    }
}

/// What the program in the background says when all is well.
const READY: &str = "serving";

fn in_background(place: &args::Background) -> Result<(), LabError> {
    let own = |word: &OsString| {
        let text = word.to_string_lossy();
        text == "--background" || text == "--log" || text.starts_with("--log=")
    };
    let mut given = Vec::new();
    let mut words = crate::words().into_iter().skip(1);
    while let Some(word) = words.next() {
        match own(&word) {
            false => given.push(word),
            true if word == "--log" => drop(words.next()),
            true => {}
        }
    }
    given.push("--detached".into());
    background::start(&given, place.log.as_deref(), READY, "the server")
}

/// Clients can come: whoever waits for that is told.
fn clients_can_come(place: &args::Background, ready_fd: Option<u32>) -> Result<(), LabError> {
    ready(ready_fd)?;
    if !place.detached {
        return Ok(());
    }
    // Its folder stays: names that were given may begin there.
    background::leave_terminal();
    print(&format!("{READY}\n"))
}

fn wrong(error: StackError) -> LabError {
    match error {
        StackError::Config(error) => LabError::Config(error),
        StackError::Io { path, error } => LabError::io(path, error),
        other => LabError::Input(other.to_string()),
    }
}

/// The name that stands for the drive which lives on an image.
const ON_IMAGE: &str = "image";

/// The stack that was asked for, by its text or by the options that stand for one.
pub fn description(args: &StackArgs) -> Result<Description, LabError> {
    if let Some(text) = &args.stack {
        return Ok(text.parse()?);
    }
    let input = |text: &str| Err(LabError::Input(text.to_string()));
    let base = match (&args.ram, &args.image, &args.device, args.ssd.as_deref()) {
        (Some(size), None, None, None) => Base::Ram(*size),
        (None, Some(path), None, None) => Base::Image { path: path.clone(), size: args.size },
        (None, None, Some(path), None) => Base::Device(path.clone()),
        (None, Some(path), None, Some(ON_IMAGE)) => {
            Base::DriveImage { path: path.clone(), size: args.size }
        }
        (None, None, None, Some(ON_IMAGE)) => return input("--ssd image needs --image FILE"),
        (None, Some(_), None, Some(_)) => {
            return input(
                "a drive on an image has a geometry of its own: --ssd image --image FILE",
            );
        }
        (None, None, None, Some(preset)) => {
            let pair = |text: &String| match text.split_once('=') {
                Some((key, value)) => Ok((key.trim().to_string(), value.trim().to_string())),
                None => Err(LabError::Input(format!("--set {text}: expected KEY=VALUE"))),
            };
            let mut keys = args.set.iter().map(pair).collect::<Result<Vec<_>, _>>()?;
            if let Some(size) = args.size {
                // A preset has so many blocks; of two keys that say how large, one gives way.
                keys.push(("geometry.blocks".to_string(), "0".to_string()));
                keys.push(("capacity".to_string(), size.human()));
            }
            Base::Drive { preset: preset.to_string(), keys }
        }
        _ => return input("expected one of --stack, --ram, --image, --device, --ssd"),
    };
    // Nothing that is asked for is passed over.
    if args.size.is_some() && matches!(base, Base::Ram(_) | Base::Device(_)) {
        return input("--size: expected with --image or --ssd; memory and a device have theirs");
    }
    if !args.set.is_empty() && !matches!(base, Base::Drive { .. }) {
        return input("--set: expected with --ssd PRESET: only a drive that is made has keys");
    }
    let mut layers = Vec::new();
    layers.extend((args.timing == args::Timing::Model).then_some(Layer::RealTime));
    layers.extend(args.read_only.then_some(Layer::ReadOnly));
    layers.extend(args.cut_seed.map(|seed| Layer::Cut { seed, witness: args.witness }));
    layers.extend(log(args.remap, args.verify)?);
    layers.extend(args.record.clone().map(Layer::Record));
    Ok(Description { base, layers })
}

/// The layer that `--remap` and `--verify` stand for.
pub fn log(remap: args::Remap, verify: args::Switch) -> Result<Option<Layer>, LabError> {
    let keys = match verify {
        args::Switch::On => Vec::new(),
        args::Switch::Off => vec![("verify".to_string(), "clean".to_string())],
    };
    match (remap, verify) {
        (args::Remap::Log, _) => Ok(Some(Layer::Log(keys.into()))),
        (_, args::Switch::Off) => Err(LabError::Input(
            "--verify off: only the host log (--remap log) has checksums of what it reads"
                .to_string(),
        )),
        (args::Remap::Off, _) => Ok(None),
        (args::Remap::PaperLog, _) => Ok(Some(Layer::PaperLog(Keys::default()))),
    }
}

/// Makes a stack one that can be made to fail: the rules, of which there are none yet.
pub fn fallible(stack: &mut Stack) -> Arc<Faults> {
    let faults = Arc::new(Faults::default());
    stack.disk = Arc::new(FaultyDisk::new(Arc::clone(&stack.disk), Arc::clone(&faults)));
    faults
}

/// A stack, and what an operator asks it with. `varve ctl SOCKET quit` is the first signal to stop.
fn start(args: &StackArgs) -> Result<(Stack, Arc<Control>, Option<ControlSocket>), LabError> {
    let mut stack = Stack::start(&description(args)?).map_err(wrong)?;
    let faults = fallible(&mut stack);
    let quit = || stop::flag().store(true, Ordering::Relaxed);
    let control = Control::new(stack.clone(), Box::new(quit));
    control.fail_by(faults);
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
    say_timing(&args.stack)?;
    let ended = until_stopped(&args.place, args.ready_fd, move || server.run(), || handle.stop());
    drop(socket);
    close(&stack)?;
    ended?.map_err(failed)
}

fn say_timing(args: &StackArgs) -> Result<(), LabError> {
    if args.timing == args::Timing::Off {
        return Ok(());
    }
    let late = floor().as_micros();
    print(&format!("latencies are emulated; answers leave about {late} us late or more\n"))
}

/// Runs a server until this program is told to stop; what `run` said, unless nobody could be told that it
/// runs or ends.
fn until_stopped(
    place: &args::Background,
    ready_fd: Option<u32>,
    run: impl FnOnce() -> std::io::Result<()> + Send + 'static,
    stop: impl FnOnce(),
) -> Result<std::io::Result<()>, LabError> {
    let thread = std::thread::spawn(run);
    let told = clients_can_come(place, ready_fd);
    while told.is_ok() && !stop::flag().load(Ordering::Relaxed) && !thread.is_finished() {
        std::thread::sleep(LOOK);
    }
    let said = stopping();
    stop();
    let ended = thread.join().map_err(|_| LabError::Failed("the server failed".to_string()))?;
    told.and(said).map(|()| ended)
}

fn serve_fuse(args: &ServeFuse) -> Result<(), LabError> {
    // Before there are threads, which inherit it.
    if args.looped {
        for why in shield_from_own_writeback() {
            note(&format!("varve: {why}"));
        }
    }
    let (stack, control, socket) = start(&args.stack)?;
    let failed = |error: serve::fuse::FuseError| LabError::Failed(error.to_string());
    let (asked, counted) = (Arc::clone(&control), Arc::clone(&control));
    let options = Options {
        threads: usize::from(args.threads),
        stats: Arc::new(move || format!("{:#}\n", counted.stats())),
        command: Some(Arc::new(move |line: &str| Ok(asked.command(line)?.to_string()))),
    };
    if args.force && is_dead(&args.dir) {
        clear(&args.dir, true).map_err(failed)?;
        note(&format!("varve: {}: a dead mount was there, and is gone", args.dir.display()));
    }
    let mut mount = Mount::new(Arc::clone(&stack.disk), &args.dir, options).map_err(failed)?;
    let errors = mount.error_count();
    control.count(Box::new(move || vec![("errors", errors.load(Ordering::Relaxed))]));
    let device = if args.looped {
        mount.attach_loop().map(|path| path.display().to_string())
    } else {
        Ok(String::new())
    };
    let told = device.map_err(failed).and_then(|device| {
        let list = advertised(&stack.disk.capabilities());
        let device = if device.is_empty() { device } else { device + "\n" };
        print(&format!("{}\n{device}{}\n{list}\n", mount.file().display(), stack.name))?;
        clients_can_come(&args.place, args.ready_fd)
    });
    if told.is_ok() {
        while !stop::flag().load(Ordering::Relaxed) && !mount.ended() {
            std::thread::sleep(LOOK);
        }
    }
    let told = told.and(stopping());
    // A second signal ends the program while this waits for who still uses it.
    let mut waiting = Waiting { force: args.force, said: String::new(), since: Instant::now() };
    let stopped = mount.stop(|what, place| waiting.look(what, place));
    drop(socket);
    close(&stack)?;
    told.and(stopped.map(|_| ()).map_err(failed))
}

/// How long whoever still uses a device is waited for before he is named, or cut off.
const LINGER: Duration = Duration::from_secs(5);

/// A stop that waits for something in use.
struct Waiting {
    force: bool,
    /// What was said last.
    said: String,
    since: Instant,
}

impl Waiting {
    fn look(&mut self, what: &str, place: &Path) -> Patience {
        if !self.said.starts_with(what) {
            (self.said, self.since) = (what.to_string(), Instant::now());
            note(&format!("varve: {what}: waiting for it"));
        }
        if self.since.elapsed() < LINGER {
            return Patience::Wait;
        }
        if self.force {
            note(&format!("varve: {what}: cut off ({})", who_holds(place)));
            return Patience::CutOff;
        }
        if self.said == what {
            self.said = format!("{what}: {}", who_holds(place));
            note(&format!("varve: {} (--force cuts it off)", self.said));
        }
        Patience::Wait
    }
}

/// What is acknowledged is durable, and the next start quick.
fn close(stack: &Stack) -> Result<(), LabError> {
    if !stack.power.state().on {
        note("varve: the power is off: nothing is written any more");
    }
    stack.stop().map_err(wrong)
}
