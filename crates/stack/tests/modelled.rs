//! Stacks in virtual time: layers count what they add, and nothing is counted twice.

use block::{BlockDevice, Bytes, Lba, Op, Request, Rng, Sectors, Time};
use varve_stack::{Amplification, Description, Device, Layer, Modelled};

fn drive() -> Modelled {
    let mut config = ssd::preset("mqsim-default").unwrap().config;
    for pair in [
        "geometry.blocks=0",
        "capacity=96 MiB",
        "geometry.channels=2",
        "geometry.dies=1",
        "line=plane",
        "op=40 %",
        "buffer.policy=none",
    ] {
        config.set_pair(pair).unwrap();
    }
    Modelled::drive(&config.resolve().unwrap()).unwrap()
}

/// Overwrites at random until the space was written three times.
fn load(device: &mut Modelled) {
    let blocks = device.capacity().0 / 8;
    let (mut rng, mut at) = (Rng::new(1), device.now());
    for _ in 0..3 * blocks {
        let request = Request::write(Lba(rng.below(blocks) * 8), Sectors(8));
        at = device.submit(at, request).unwrap();
    }
    device.submit(at, Request::flush()).unwrap();
}

#[test]
fn what_layers_add_and_what_the_drive_adds_is_what_the_whole_adds() {
    for layers in ["log(segment=128KiB)", "paper-log", "log(segment=128KiB)+log(segment=128KiB)"] {
        let layers = Layer::list(layers).unwrap();
        let mut device = drive().below(&layers, "a test").unwrap();
        load(&mut device);
        device.check().unwrap();
        let (stats, counts) = (device.stats(), device.layers());
        assert_eq!(counts.len(), layers.len());
        // Each layer asks of the next what that one counts.
        for pair in counts.windows(2) {
            assert_eq!(pair[0].below, pair[1].asked);
        }
        assert_eq!(counts[0].asked, stats.of(Op::Write).bytes);
        let found = Amplification::of(&stats, &counts);
        let (programmed, asked) = found.whole();
        let (_, written) = found.drive();
        assert!(programmed >= written && written >= asked, "{found:?}");
    }
}

#[test]
fn a_log_over_memory_runs_in_virtual_time() {
    let described: Description = "ram(64 MiB)+log(segment=128KiB)".parse().unwrap();
    let mut device = Modelled::ram(Bytes(64 << 20)).below(&described.layers, "ram").unwrap();
    load(&mut device);
    device.check().unwrap();
    let layers = device.layers();
    assert!(layers[0].below > layers[0].asked);
    assert_eq!(device.stats().nand.programs_total(), 0);
}

#[test]
fn what_passes_a_recorder_is_played_again_to_the_same_end() {
    let path = std::env::temp_dir().join(format!("varve-recorded-{}.vtr", std::process::id()));
    let layers = vec![Layer::Record(path.clone())];
    let mut device = drive().below(&layers, "a drive").unwrap();
    load(&mut device);
    device.end().unwrap();
    let mut source = workload::read::open(&path, &workload::read::ReadOptions::default()).unwrap();
    let (mut again, mut at, mut records) = (drive(), Time::ZERO, Vec::new());
    loop {
        workload::Source::fill(&mut source, &mut records).unwrap();
        if records.is_empty() {
            break;
        }
        for record in &records {
            let (lba, sectors) = (Lba(record.offset.0 / 512), Sectors(record.len.0 / 512));
            let request = match record.op {
                workload::TraceOp::Flush => Request::flush(),
                _ => Request::write(lba, sectors),
            };
            at = again.submit(at.max(record.at), request).unwrap();
        }
    }
    let programs = |device: &Modelled| device.stats().nand.programs;
    assert_eq!(programs(&again), programs(&device));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn what_has_no_virtual_time_is_refused() {
    for layers in ["cut(1)", "read-only", "real-time", "lfs"] {
        let error = drive().below(&Layer::list(layers).unwrap(), "").unwrap_err();
        assert!(error.to_string().contains("no device in virtual time"), "{error}");
    }
}
