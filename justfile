# `just` lists what there is; each line is a script that runs without `just`, too.

_list:
    @just --list

# What a change must pass
test *OPTIONS:
    scripts/test {{OPTIONS}}

# Only test programs whose names hold one of these
only *NAMES:
    scripts/test-binaries {{NAMES}}

# What takes longer than a change can wait
nightly *OPTIONS:
    scripts/nightly {{OPTIONS}}

# A search for broken promises, release build
prove *OPTIONS:
    cargo run --release -- prove {{OPTIONS}}

# Power cuts by ranges of seeds, and the page of how many there were
record *OPTIONS:
    scripts/record {{OPTIONS}}

# What a run costs this machine
bench *OPTIONS:
    cargo run --release --bin varve-bench -- {{OPTIONS}}

# Lints, as `just test` has them
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings

# Licences and advisories of all dependencies (cargo-deny)
deny:
    cargo deny check
