//! What a server costs for each request: NBD and NVMe/TCP beside one another, over loopback, in one run.
//!
//! One load for both: requests made beforehand go out, and as many answers of fixed length come back. So
//! what differs is the servers, and the bytes of the protocols. The time of a server is that of its threads
//! alone; those of the load are the other half of the machine.

use std::fs;
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use block::Rng;
use serve::nbd::client::{Client, Wish};
use serve::nbd::wire::{Request, command};
use serve::nbd::{self, Address, Export};
use serve::nvme::codec::{Place, io};
use serve::nvme::initiator::{self, Initiator, blocks};
use serve::nvme::pdu::{self, Digests};
use serve::nvme::{Namespace, Options, Subsystem};
use serve::stream::Socket;
use stack::disk::Done;
use stack::live::Stack;

use crate::args::Args;

/// Text of the `wire` command.
pub const HELP: &str = "\
varve-bench wire [--depth 32] [--connections 2] [--seconds 2] [--rounds 5]
    NBD and NVMe/TCP over memory of 256 MiB, by loopback: random reads and writes of 4 KiB, the servers by
    turns. Prints requests per second, and microseconds of the server's threads for each (median of the
    rounds, least and most), and what NVMe has of NBD's.";

const SIZE: &str = "ram(256MiB)";
const PAGE: usize = 4096;
const PAGES: u64 = (256 << 20) / PAGE as u64;
const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:76617276-6500-8000-8000-0000000000be";

/// A connection, and how its requests and answers look.
struct Lane {
    stream: Socket,
    /// Keeps what else belongs to the connection.
    _host: Option<Initiator>,
    encode: fn(u16, u64, bool) -> Vec<u8>,
    /// Bytes of an answer, by what was asked; and where two bytes in it are zero if all is well.
    read: (usize, usize),
    write: (usize, usize),
}

fn nbd_request(number: u16, page: u64, write: bool) -> Vec<u8> {
    let kind = if write { command::WRITE } else { command::READ };
    let at = page * PAGE as u64;
    let request = Request { flags: 0, kind, cookie: u64::from(number), at, bytes: PAGE as u32 };
    let mut all = request.encode().to_vec();
    all.resize(all.len() + if write { PAGE } else { 0 }, number as u8);
    all
}

fn nvme_request(number: u16, page: u64, write: bool) -> Vec<u8> {
    let of =
        initiator::Told { nsid: 1, blocks: PAGES, shift: 12, read_only: false, transactions: None };
    let opcode = if write { io::WRITE } else { io::READ };
    let place = if write { Place::Capsule } else { Place::Transport };
    let sqe = blocks(opcode, of, page, 1).numbered(number).moving(PAGE as u32, place);
    let data = if write { PAGE } else { 0 };
    let (head, count) = pdu::command(&sqe.0, data, Digests::default());
    let mut all = head[..count].to_vec();
    all.resize(all.len() + data, number as u8);
    all
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn nbd_lane(address: &Address) -> Result<Lane, String> {
    let plain = Wish { structured: false, status: false, sizes: false };
    let mut client = Client::connect(address, "", plain).map_err(text)?;
    let stream = serve::stream::Transport::twin(client.stream()).map_err(text)?;
    // The number of the error lies behind the magic.
    Ok(Lane { stream, _host: None, encode: nbd_request, read: (16 + PAGE, 6), write: (16, 6) })
}

fn nvme_lane(address: &Address) -> Result<Lane, String> {
    let mut host = Initiator::connect(address, NQN, &initiator::Wish::default()).map_err(text)?;
    let stream = serve::stream::Transport::twin(host.line().stream()).map_err(text)?;
    let read = (24 + PAGE + 24, 24 + PAGE + 22);
    Ok(Lane { stream, _host: Some(host), encode: nvme_request, read, write: (24, 22) })
}

/// Keeps `depth` requests in flight until the time is over, and takes all answers; how many.
fn load(
    lane: &mut Lane,
    depth: u64,
    write: bool,
    time: Duration,
    seed: u64,
) -> Result<u64, String> {
    let (length, zero) = if write { lane.write } else { lane.read };
    let mut rng = Rng::stream(seed, "bench/wire");
    let mut buffer = vec![0; 1 << 20];
    let (mut have, mut asked, mut done) = (0, 0u64, 0u64);
    let (mut out, until) = (Vec::new(), Instant::now() + time);
    loop {
        let more = Instant::now() < until;
        while more && asked - done < depth {
            out.extend((lane.encode)((asked % 4096) as u16, rng.below(PAGES), write));
            asked += 1;
        }
        lane.stream.write_all(&out).map_err(text)?;
        out.clear();
        if asked == done {
            return Ok(done);
        }
        match lane.stream.read(&mut buffer[have..]).map_err(text)? {
            0 => return Err("the server ended the connection".to_string()),
            count => have += count,
        }
        let whole = have / length;
        for answer in buffer[..whole * length].chunks(length) {
            if answer[zero..zero + 2] != [0, 0] {
                return Err(format!("an error: {:02x?}", &answer[..16]));
            }
        }
        done += whole as u64;
        buffer.copy_within(whole * length..have, 0);
        have -= whole * length;
    }
}

/// Nanoseconds that threads of this name have run.
fn ran(name: &str) -> Result<u64, String> {
    let mut all = 0;
    for task in fs::read_dir("/proc/self/task").map_err(text)? {
        let folder = task.map_err(text)?.path();
        // One that has just ended is not there any more.
        let Ok(found) = fs::read_to_string(folder.join("comm")) else { continue };
        if found.trim() == name {
            let stat = fs::read_to_string(folder.join("schedstat")).map_err(text)?;
            let first = stat.split(' ').next().and_then(|word| word.parse::<u64>().ok());
            all += first.ok_or_else(|| format!("{}/schedstat: {stat}", folder.display()))?;
        }
    }
    Ok(all)
}

/// Requests per second, and microseconds of the server for each.
type Sample = (f64, f64);

fn measure(
    name: &str,
    lanes: &mut [Lane],
    depth: u64,
    write: bool,
    time: Duration,
    seed: u64,
) -> Result<Sample, String> {
    let (before, since) = (ran(name)?, Instant::now());
    let counts: Result<Vec<u64>, String> = std::thread::scope(|scope| {
        let started: Vec<_> = (seed..)
            .zip(lanes.iter_mut())
            .map(|(seed, lane)| scope.spawn(move || load(lane, depth, write, time, seed)))
            .collect();
        let end = |thread: std::thread::ScopedJoinHandle<'_, Result<u64, String>>| {
            thread.join().unwrap_or_else(|_| Err("the load failed".to_string()))
        };
        started.into_iter().map(end).collect()
    });
    let (total, took) = (counts?.iter().sum::<u64>().max(1), since.elapsed());
    let cost = (ran(name)? - before) as f64 / 1000.0;
    Ok((total as f64 / took.as_secs_f64(), cost / total as f64))
}

/// The middle one, the least and the most.
fn spread(mut all: Vec<f64>) -> (f64, f64, f64) {
    all.sort_by(f64::total_cmp);
    (all[all.len() / 2], all[0], all[all.len() - 1])
}

fn memory() -> Result<Stack, String> {
    let stack = Stack::start(&SIZE.parse().map_err(|_| "a stack")?).map_err(text)?;
    // Memory that was never written costs nothing to read.
    for page in 0..PAGES {
        stack
            .disk
            .write(page * PAGE as u64, &[7; PAGE], false)
            .and_then(Done::wait)
            .map_err(text)?;
    }
    Ok(stack)
}

/// The `wire` command.
///
/// # Errors
/// Bad arguments; a server or a connection fails.
pub fn run(mut args: Args) -> Result<(), String> {
    let depth = args.number("depth", 32)?.clamp(1, 127);
    let connections = args.number("connections", 2)?.clamp(1, 16);
    let time = Duration::from_secs(args.number("seconds", 2)?.max(1));
    let rounds = args.number("rounds", 5)?.max(1);
    args.finish()?;
    let any = Address::Tcp("127.0.0.1:0".parse().map_err(text)?);
    let exports = vec![Export::new("", memory()?.disk)];
    let nbd = nbd::Server::bind(&any, exports, nbd::Limits::default()).map_err(text)?;
    let namespaces = vec![Namespace::new("disk", memory()?, &[])];
    let subsystem = Subsystem::new(NQN, namespaces, Options::default());
    let nvme = serve::nvme::Server::bind(&any, Arc::clone(&subsystem)).map_err(text)?;
    let places = (nbd.address().map_err(text)?, nvme.address().map_err(text)?);
    let stop = (nbd.handle(), nvme.handle());
    let threads = (std::thread::spawn(|| nbd.run()), std::thread::spawn(|| nvme.run()));
    let compared = compare(&places, depth, connections, time, rounds);
    stop.0.stop();
    stop.1.stop();
    for thread in [threads.0, threads.1] {
        thread.join().map_err(|_| "a server failed")?.map_err(text)?;
    }
    compared
}

fn compare(
    places: &(Address, Address),
    depth: u64,
    connections: u64,
    time: Duration,
    rounds: u64,
) -> Result<(), String> {
    let lanes = |open: fn(&Address) -> Result<Lane, String>, at: &Address| {
        (0..connections).map(|_| open(at)).collect::<Result<Vec<Lane>, String>>()
    };
    let mut sides = [("nbd", lanes(nbd_lane, &places.0)?), ("nvme", lanes(nvme_lane, &places.1)?)];
    for write in [false, true] {
        let what = if write { "write" } else { "read" };
        let mut found = [Vec::new(), Vec::new()];
        for round in 0..rounds {
            for ((name, lanes), found) in sides.iter_mut().zip(&mut found) {
                found.push(measure(name, lanes, depth, write, time, round << 8)?);
            }
        }
        let mut middle = Vec::new();
        for ((name, _), found) in sides.iter().zip(found) {
            let (rate, least, most) = spread(found.iter().map(|sample| sample.0).collect());
            let (cost, ..) = spread(found.iter().map(|sample| sample.1).collect());
            println!("{name}_{what}_per_second {rate:.0}");
            println!("{name}_{what}_per_second_least {least:.0}");
            println!("{name}_{what}_per_second_most {most:.0}");
            println!("{name}_{what}_server_us {cost:.2}");
            middle.push((rate, cost));
        }
        println!("nvme_of_nbd_{what} {:.2}", middle[1].0 / middle[0].0);
        println!("nvme_of_nbd_{what}_server_us {:.2}", middle[1].1 / middle[0].1);
    }
    Ok(())
}
