//! The buffer policies in another program: a cache of one's own pages, any policy by name.
//!
//! `cargo run --release -p varve-ssd --example policies -- "arc,s3-fifo,aoi(cap=8, chunk=64 KiB)" 1000`

use block::{AppId, Lpn, Op, Rng};
use varve_ssd::{BufferShape, HitAccess, HitSim, split_policies};

fn main() -> Result<(), String> {
    let mut args = std::env::args().skip(1);
    let list = args.next().unwrap_or_else(|| "lru,sieve,s3-fifo,arc".to_string());
    let entries =
        args.next().map_or(Ok(1000), |n| n.parse()).map_err(|e| format!("entries: {e}"))?;
    let pages = 1 << 16;
    for policy in split_policies(&list) {
        let mut sim = HitSim::new(policy, BufferShape::alone(entries, pages))?;
        let mut rng = Rng::new(1);
        for request in 1..=1_000_000 {
            // Nine requests of ten go to a tenth of the pages.
            let space = if rng.ratio(9, 10) { pages / 10 } else { pages };
            sim.play(&[HitAccess {
                page: Lpn(rng.below(u64::from(space)) as u32),
                op: if rng.ratio(1, 3) { Op::Write } else { Op::Read },
                app: AppId(0),
                request,
                len: 4096,
                next_use: u64::MAX,
            }]);
        }
        let app = sim.apps()[0];
        let hits = app.read_hits + app.write_hits;
        println!("{policy}: {hits} of 1000000 hit, {:?}", sim.occupancy());
    }
    Ok(())
}
