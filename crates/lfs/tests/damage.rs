//! Damaged volumes: any bytes are an answer or a typed error, never a panic, and end in time.

mod tools;

use block::{BlockDevice, CutDevice, Data, Lba, Request, Rng, Sectors, Time};
use lfs::{Fs, Options};
use tools::crash::{Plan, volume, work};
use tools::model::{Mix, draw, fresh, perform};
use tools::now;

const MIX: Mix = Mix { write: 40, fsync: 10, sync: 2, blocks: 30, names: 30 };

#[test]
fn damage_is_an_error_and_no_panic() {
    let plan = Plan {
        seed: 1,
        per_seg: 4,
        blocks: 2_000,
        options: Options::default(),
        mix: MIX,
        steps: 120,
    };
    let (mut tree, mut clock, mut rng) = (fresh(), 1, Rng::new(1));
    let run = work(plan, volume(&plan), &mut tree, &mut clock, &mut rng);
    let image = run.device.image();
    let used: Vec<u64> = (0..plan.blocks)
        .filter(|at| {
            let mut block = [0; 4096];
            image.read_at(Lba(at * 8), &mut block).unwrap();
            block != [0; 4096]
        })
        .collect();
    // Superblocks, packs and tables come first.
    let tables: Vec<u64> = used.iter().copied().filter(|at| *at < 760).collect();
    let (mut refused, mut worked) = (0, 0);
    for seed in 0..2_000 {
        let mut rng = Rng::new(seed);
        let mut device = CutDevice::power_on(image.clone());
        for _ in 0..=rng.below(6) {
            let half = rng.ratio(1, 2);
            let at = Lba(*rng.pick(if half { &tables } else { &used }) * 8);
            let mut block = [0; 4096];
            device
                .submit(Time::ZERO, Request::read(at, Sectors(8)).with(Data::Read(&mut block)))
                .unwrap();
            for _ in 0..=rng.below(8) {
                let i = rng.below(4096) as usize;
                // Small numbers in the right places do most harm.
                block[i] = *rng.pick(&[0, 1, 2, 3, 0x7F, 0x80, 0xFF, rng.clone().next_u64() as u8]);
            }
            device
                .submit(Time::ZERO, Request::write(at, Sectors(8)).with(Data::Write(&block)))
                .unwrap();
        }
        let Ok(mut fs) = Fs::mount(device, plan.options, now(1 << 20)) else {
            refused += 1;
            continue;
        };
        worked += 1;
        for ino in tree.keys() {
            let (late, mut bytes) = (now(1 << 20), [0; 70_000]);
            let _ = fs.attributes(late, *ino);
            let _ = fs.readdir(late, *ino);
            let _ = fs.read(late, *ino, block::Bytes(5), &mut bytes);
            let _ = fs.xattrs(late, *ino);
        }
        let _ = fs.check(now(1 << 20));
        for _ in 0..40 {
            let op = draw(&mut rng, &tree, MIX);
            let _ = perform(&mut fs, now(1 << 20), &op);
        }
        let _ = fs.unmount(now(1 << 20));
    }
    assert!(refused > 20 && worked > 100, "{refused} refused, {worked} worked");
}
