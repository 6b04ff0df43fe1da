//! All pairs of what a stack can hold: each works in a world, or is refused there by the rule that
//! `docs/stack.md` says, with the same text from the rules and from whoever builds.

use std::path::{Path, PathBuf};

use block::{BlockDevice, Lba, Request, Sectors};
use varve_stack::disk::Done;
use varve_stack::live::Stack;
use varve_stack::rules::{Top, World, check};
use varve_stack::{Base, Description, Layer, Modelled};

const LAYERS: [&str; 7] = ["log", "paper-log", "lfs", "cut", "record", "read-only", "real-time"];
const BASES: [&str; 4] = ["ram", "image", "drive", "drive-image"];

/// A folder that goes with its owner.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn base(name: &str, folder: &Path) -> String {
    let file = folder.join("image").display().to_string();
    match name {
        "ram" => "ram(48MiB)".to_string(),
        "drive" => "drive(mqsim-default, geometry.blocks=0, capacity=48 MiB, geometry.channels=2, \
                    geometry.dies=1, line=plane, op=80 %)"
            .to_string(),
        "image" => {
            // One that may only be read is not made.
            let made = std::fs::File::create(&file).and_then(|file| file.set_len(48 << 20));
            made.expect("an image");
            format!("image({file})")
        }
        _ => format!("{name}({file}, size=48MiB)"),
    }
}

fn layer(name: &str, number: usize, folder: &Path) -> String {
    match name {
        "log" => "log(segment=64KiB)".to_string(),
        "cut" => "cut(1)".to_string(),
        "record" => format!("record({})", folder.join(format!("{number}.vtr")).display()),
        other => other.to_string(),
    }
}

/// Whether a stack works in virtual time, or what refuses it.
fn modelled(text: &str) -> Result<(), String> {
    let described: Description = text.parse().expect(text);
    check(&described, World::Modelled, Top::Files).map_err(|e| e.to_string())?;
    let blocks = described.layers.iter().filter(|layer| !matches!(layer, Layer::Lfs(_)));
    let blocks: Vec<Layer> = blocks.cloned().collect();
    let ground = match &described.base {
        Base::Ram(size) => Modelled::ram(*size),
        Base::Drive { preset, keys } => {
            let mut config = ssd::preset(preset).expect("a preset").config;
            for (key, value) in keys {
                config.set_pair(&format!("{key}={value}")).expect("a key");
            }
            Modelled::drive(&config.resolve().expect("a drive")).expect("a drive")
        }
        other => panic!("{text}: the rules let {other} pass"),
    };
    let mut device = ground.below(&blocks, "a test").unwrap_or_else(|e| panic!("{text}: {e}"));
    let mut at = varve_stack::Device::now(&device);
    for lba in 0..100 {
        let write = Request::write(Lba(lba * 56), Sectors(8));
        at = device.submit(at, write).unwrap_or_else(|e| panic!("{text}: {e}"));
    }
    device.submit(at, Request::flush()).unwrap_or_else(|e| panic!("{text}: {e}"));
    varve_stack::Device::end(&mut device).unwrap_or_else(|e| panic!("{text}: {e}"));
    Ok(())
}

/// The same for what is served. Files are asked for of a volume, which lies on the layers below it.
fn live(text: &str) -> Result<(), String> {
    let mut described: Description = text.parse().expect(text);
    let top = check(&described, World::Live, Top::Files).map_err(|e| e.to_string());
    if matches!(described.layers.last(), Some(Layer::Lfs(_))) && top.is_ok() {
        described.layers.pop();
    }
    let refused = match (Stack::start(&described), top) {
        (Ok(stack), Ok(())) => return serves(text, &stack),
        (Ok(_), Err(rule)) => panic!("{text}: started against the rule `{rule}`"),
        (Err(error), Ok(())) => panic!("{text}: {error}"),
        (Err(error), Err(rule)) => (error.to_string(), rule),
    };
    assert_eq!(refused.0, refused.1, "{text}");
    Err(refused.1)
}

fn serves(text: &str, stack: &Stack) -> Result<(), String> {
    let (mut read, bytes) = (vec![0; 4096], vec![7; 4096]);
    let write = stack.disk.write(28672, &bytes, false).and_then(Done::wait);
    if text.contains("read-only") {
        assert!(write.is_err(), "{text}: written");
    } else {
        write.unwrap_or_else(|e| panic!("{text}: {e}"));
        stack.disk.flush().and_then(Done::wait).unwrap_or_else(|e| panic!("{text}: {e}"));
        stack
            .disk
            .read(28672, &mut read)
            .and_then(Done::wait)
            .unwrap_or_else(|e| panic!("{text}: {e}"));
        assert!(read == bytes, "{text}: another block came back");
    }
    stack.stop().map_err(|e| panic!("{text}: {e}"))
}

/// One cell of the table: where a stack works.
fn cell(base_name: &str, layers: &[&str]) -> String {
    let name: String = layers.iter().map(|layer| format!("-{layer}")).collect();
    let name = format!("varve-pairs-{}-{base_name}{name}", std::process::id());
    let folder = Folder(std::env::temp_dir().join(name));
    let with = |world: &str| {
        std::fs::create_dir_all(&folder.0).expect("a folder");
        let layers = layers.iter().enumerate().map(|(i, name)| layer(name, i, &folder.0));
        let text = layers.fold(base(base_name, &folder.0), |text, layer| format!("{text}+{layer}"));
        let works = if world == "live" { live(&text) } else { modelled(&text) };
        std::fs::remove_dir_all(&folder.0).expect("removed");
        works.is_ok()
    };
    match (with("modelled"), with("live")) {
        (true, true) => "both",
        (false, true) => "live",
        (true, false) => "modelled",
        (false, false) => "-",
    }
    .to_string()
}

fn row(name: &str, cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.collect();
    format!("| `{name}` | {} |\n", cells.join(" | "))
}

#[test]
fn every_pair_works_or_is_refused_as_the_document_says() {
    let layers = LAYERS.map(|layer| format!(" `+{layer}` |")).concat();
    let head = format!("| |{layers}\n|{}\n", " --- |".repeat(LAYERS.len() + 1));
    let mut table = head;
    for base in BASES {
        table += &row(base, LAYERS.iter().map(|layer| cell(base, &[layer])));
    }
    for lower in LAYERS {
        let upper = LAYERS.iter().map(|upper| cell("drive", &[lower, upper]));
        table += &row(&format!("drive+{lower}"), upper);
    }
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/stack.md");
    let document = std::fs::read_to_string(document).expect("a document");
    assert!(document.contains(&table), "docs/stack.md does not have this table:\n{table}");
}
