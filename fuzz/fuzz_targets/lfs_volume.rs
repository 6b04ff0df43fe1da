//! An image that was damaged, in ways that the bytes draw: see the module.
#![no_main]

#[path = "../../crates/lfs/tests/hostile/mod.rs"]
mod hostile;

use std::sync::LazyLock;

static SAMPLES: LazyLock<Vec<hostile::Sample>> = LazyLock::new(hostile::samples);

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((first, rest)) = bytes.split_first() {
        hostile::look(&SAMPLES[*first as usize % SAMPLES.len()], rest);
    }
});
