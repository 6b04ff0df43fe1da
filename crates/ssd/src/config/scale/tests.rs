//! What scaling keeps of a drive, what it says it changed, and where it refuses.

use block::Span;

use super::*;
use crate::config::{load_text, preset, presets};

fn fails(text: &str) -> String {
    load_text("x.toml", text).expect_err(text).to_string()
}

fn scaled(name: &str, by: &str) -> Config {
    let mut config = preset(name).unwrap().config;
    config.scale(by, "a test").unwrap();
    config
}

#[test]
fn scaling_keeps_lines_dies_times_and_spare_space_of_every_preset() {
    for name in presets() {
        let whole = preset(name).unwrap().config;
        let scales = whole.scales();
        let n = *scales.iter().rfind(|n| **n <= 64).unwrap();
        let small = scaled(name, &format!("1/{n}"));
        let (a, b) = (whole.resolve().unwrap(), small.resolve().unwrap());
        assert_eq!(a.line, b.line, "{name}");
        let part = a.geometry.pages_per_block / b.geometry.pages_per_block;
        println!("{name}: 1/{n}, pages / {part}, {} -> {} lines; {scales:?}", a.lines(), b.lines());
        let lines = a.lines() * part / n as u32;
        assert!(lines.abs_diff(b.lines()) <= lines / 50 + a.groups.len() as u32, "{name}");
        let plain = a.timing.page_types == nand::PageTypes::Uniform || a.timing.one_shot;
        assert!(u64::from(part) == n || !plain, "{name} keeps its lines");
        assert!(n >= if plain { 32 } else { 2 }, "{name}: 1/{n}");
        assert_eq!(a.groups, b.groups, "{name}");
        assert_eq!(a.timing.t_read, b.timing.t_read, "{name}");
        assert_eq!(a.timing.t_program, b.timing.t_program, "{name}");
        assert_eq!(a.timing.t_erase.as_ps() / u64::from(part), b.timing.t_erase.as_ps(), "{name}");
        assert_eq!(a.queue_depth, b.queue_depth);
        let (whole, small) = (u64::from(a.logical_pages), u64::from(b.logical_pages));
        assert!((whole / n).abs_diff(small) <= whole / n / 100, "{name}: {whole} {small}");
        assert!(a.op_ppm.abs_diff(b.op_ppm) <= a.op_ppm / 50 + 2000, "{name}");
        assert!(b.buffer.size.0 <= a.buffer.size.0 && b.buffer.size.0 * n >= a.buffer.size.0);
    }
}

#[test]
fn what_scaling_changed_is_said_with_its_origin() {
    let text = "preset = \"mqsim-default\"\nscale = \"1/32\"";
    let small = load_text("x.toml", text).unwrap();
    let changed: Vec<_> = small.scaled().unwrap().changed.iter().map(|c| c.0).collect();
    assert_eq!(changed, ["geometry.pages", "nand.erase", "buffer.size", "map.cache"]);
    assert_eq!((small.text("geometry.pages"), small.text("geometry.blocks")), ("8", "2048"));
    assert_eq!(small.time("nand.erase"), Span::from_ps(3_800_000_000 / 32));
    assert_eq!(small.text("buffer.size"), "8 MiB");
    let origin = &small.values["geometry.pages"].origin;
    assert_eq!(origin.from, "preset mqsim-default, scaled 1/32 by x.toml:2");
    assert_eq!(origin.tag.as_deref(), Some("published"));
    for bad in ["1/0", "2/3", "1/x", "1/3", "1/3000", "half"] {
        let text = format!("preset = \"mqsim-default\"\nscale = \"{bad}\"");
        assert!(fails(&text).starts_with("x.toml:2: `scale`"), "{bad}");
    }
    // Its word lines of two pages are completed before every erase: short blocks are padding.
    let error = fails("preset = \"samsung-970pro\"\nscale = \"1/256\"");
    assert!(error.contains("down to 1/64 here, and down to 1/256 with op = 13 % ("), "{error}");
}

/// 128 lines are few: `auto` would take half of the dies. So the line is named, and that is said.
#[test]
fn a_drive_scaled_far_keeps_its_kind_of_line_by_name() {
    let whole = preset("samsung-970pro").unwrap().config;
    assert_eq!(whole.scales().last(), Some(&32), "what fits a workload keeps many lines");
    let small = scaled("samsung-970pro", "1/64");
    let line = small.scaled().unwrap().changed.iter().find(|c| c.0 == "line");
    assert_eq!(line, Some(&("line", "auto".to_string(), "superblock".to_string())));
    assert_eq!(small.resolve().unwrap().lines(), 128);
    let mut roomy = whole.clone();
    roomy.set_pair("op = 13 %").unwrap();
    roomy.scale("1/256", "a test").unwrap();
    assert_eq!((roomy.resolve().unwrap().lines(), roomy.text("line")), (128, "superblock"));
    let mut own = whole;
    for pair in ["line=die", "scale=1/256"] {
        own.set_pair(pair).unwrap();
    }
    assert_eq!(own.resolve().unwrap().line, LineKind::Die);
}

/// The reason is of a division, where there is one.
#[test]
fn why_a_drive_cannot_be_scaled_so_far_is_said() {
    for (name, by, told) in [
        ("femu-default", "1/65536", "2 open lines of 1: at most a quarter"),
        ("paper-remap", "1/65536", "30 lines: a scaled drive has 100 at least"),
        ("samsung-970pro", "1/3", "geometry.blocks: 8192 are not divided by 3"),
    ] {
        let mut config = preset(name).unwrap().config;
        let error = config.scale(by, "a test").unwrap_err().to_string();
        assert!(error.contains(told), "{name}: {error}");
    }
}

#[test]
fn what_is_wrong_at_any_size_is_not_said_of_the_scale() {
    let mut config = preset("samsung-970pro").unwrap().config;
    config.set_pair("op = 0.1 %").unwrap();
    let error = config.resolve().unwrap_err().to_string();
    config.set_pair("scale=1/8").unwrap();
    let scaled = config.resolve().unwrap_err().to_string();
    assert!(
        scaled.starts_with("op, geometry, gc.reserve: ") && error.starts_with("op, "),
        "{scaled} {error}"
    );
}

/// The idle read of 128 KiB that takes 1.1 ms instead of 0.2: the drive writes one die at a time.
#[test]
fn a_drive_made_small_by_its_capacity_is_refused_unless_the_line_has_a_name() {
    let mut config = preset("mqsim-default").unwrap().config;
    for pair in ["geometry.blocks=0", "capacity=4 GiB"] {
        config.set_pair(pair).unwrap();
    }
    let error = config.resolve().unwrap_err().to_string();
    assert!(error.starts_with("line: auto would collect and write a die at a time"), "{error}");
    assert!(error.contains("mqsim-default has a superblock as its line, over 64 dies"), "{error}");
    config.set_pair("line=die").unwrap();
    assert_eq!(config.resolve().unwrap().line, LineKind::Die);
    // A drive nobody made smaller may have any line.
    let mut own = Config::default();
    own.set_pair("capacity=4 MiB").unwrap();
    assert!(own.resolve().is_ok());
}
