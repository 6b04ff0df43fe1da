//! Throughput of the whole drive: uniform random 8 KiB writes in steady state.
use block::{BlockDevice, Lba, Request, Rng, Sectors, Time};
use ssd::{Drive, preset};

fn cpu() -> f64 {
    let s = std::fs::read_to_string("/proc/self/schedstat").unwrap();
    s.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}
fn main() {
    let mut c = preset("mqsim-default").unwrap().config;
    for a in std::env::args().skip(1) {
        c.set_pair(&a).unwrap();
    }
    let p = c.resolve().unwrap();
    println!(
        "logical {} GiB op {} ppm slots/page {} lines of {} groups",
        p.logical_pages as f64 * 4096.0 / (1u64 << 30) as f64,
        p.op_ppm,
        p.geometry.slots_per_page,
        p.groups.len()
    );
    let mut d = Drive::new(&p).unwrap();
    let pages = u64::from(p.logical_pages) / 2;
    let mut rng = Rng::new(1);
    d.set_timing(false);
    for i in 0..pages {
        d.submit(Time::ZERO, Request::write(Lba(i * 16), Sectors(16))).unwrap();
    }
    for _ in 0..2 * pages {
        d.submit(Time::ZERO, Request::write(Lba(rng.below(pages) * 16), Sectors(16))).unwrap();
    }
    d.set_timing(true);
    d.reset_stats();
    let n = 3_000_000u64;
    let t = cpu();
    let mut at = Time::ZERO;
    let mut ring = vec![Time::ZERO; 64];
    for i in 0..n {
        let slot = (i % 64) as usize;
        at = at.max(ring[slot]);
        ring[slot] = d.submit(at, Request::write(Lba(rng.below(pages) * 16), Sectors(16))).unwrap();
    }
    let dt = cpu() - t;
    let s = d.stats();
    let (a, b) = s.waf();
    println!(
        "{:.2} s cpu; {:.2} M host req/s; page ops {:.2} M/s; waf {:.3}; gc slots {}; victims {} valid/victim {} ; virtual {:?} gaps {} hash {:x}",
        dt,
        n as f64 / dt / 1e6,
        (n as f64
            + s.gc.pages as f64
                / p.geometry.slots_per_page as f64
                / (8192.0 / p.geometry.page_bytes as f64))
            / dt
            / 1e6,
        a as f64 / b as f64,
        s.gc.pages,
        s.gc.victims,
        s.gc.valid_at_choice / s.gc.victims.max(1),
        at,
        s.nand.gaps_dropped,
        s.event_hash
    );
    d.check().unwrap();
}
