//! Random work on a volume and on a map in memory: the same answers, the same tree, and a checker
//! that is content.

mod tools;

use block::{RamDevice, Rng, Sectors};
use lfs::{Fs, FsError, MkfsOptions, Options, mkfs};
use tools::model::{Mix, Tree, apply, difference, draw, fresh, perform, read_tree};
use tools::{Image, now};

const MIX: Mix = Mix { write: 40, fsync: 5, sync: 2, blocks: 40, names: 60 };

fn volume(mib: u64) -> RamDevice {
    let device = RamDevice::new(Sectors(mib << 11));
    mkfs(device, &MkfsOptions::new([3; 16], 77), now(0)).unwrap()
}

/// Works for so many steps; time goes on from `clock`.
fn work(
    fs: &mut Fs<RamDevice>,
    tree: &mut Tree,
    rng: &mut Rng,
    mix: Mix,
    clock: &mut u64,
    steps: u64,
) {
    for step in 0..steps {
        let op = draw(rng, tree, mix);
        *clock += 1;
        let real = perform(fs, now(*clock), &op);
        if real == Err(FsError::NoSpace) {
            continue;
        }
        let model = apply(tree, &op, real.as_ref().ok().copied().flatten());
        assert_eq!(real.map(|_| ()), model, "step {step}: {op:?}");
        if step % 64 == 0 {
            fs.check(now(*clock)).unwrap_or_else(|e| panic!("step {step}, {op:?}: {e}"));
        }
    }
}

fn one(seed: u64, mib: u64, mix: Mix, steps: u64) {
    let mut rng = Rng::new(seed);
    let (mut tree, mut clock) = (fresh(), 1);
    let mut device = volume(mib);
    for round in 0..3 {
        let mut fs = Fs::mount(device, Options::default(), now(clock)).unwrap();
        assert_eq!(difference(&read_tree(&mut fs, now(clock)).unwrap(), &tree), None);
        work(&mut fs, &mut tree, &mut rng, mix, &mut clock, steps);
        assert_eq!(difference(&read_tree(&mut fs, now(clock)).unwrap(), &tree), None);
        fs.check(now(clock)).unwrap();
        device = fs.unmount(now(clock)).unwrap();
        let complaints = Image::of(&mut device).complaints();
        assert_eq!(complaints, [""; 0], "seed {seed}, round {round}");
    }
    let options = Options { read_only: true, ..Options::default() };
    let mut fs = Fs::mount(device, options, now(clock)).unwrap();
    assert_eq!(difference(&read_tree(&mut fs, now(clock)).unwrap(), &tree), None);
    assert!(matches!(fs.sync(now(clock)), Err(FsError::ReadOnly(_))));
}

#[test]
fn random_work_leaves_what_the_model_has() {
    for seed in 0..12 {
        one(seed, 64, MIX, 300);
    }
}
