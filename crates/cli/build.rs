//! Puts the commit into the version that results carry. Outside a repository there is none.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=VARVE_COMMIT");
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.git/logs/HEAD");
    if logs.exists() {
        println!("cargo::rerun-if-changed={}", logs.display());
    }
    let git = || {
        let out = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
        let text = String::from_utf8(out.stdout).ok()?;
        (out.status.success() && !text.trim().is_empty()).then(|| text.trim().to_string())
    };
    let commit = std::env::var("VARVE_COMMIT").ok().filter(|c| !c.is_empty()).or_else(git);
    let version = env!("CARGO_PKG_VERSION");
    let text = commit.map_or(version.to_string(), |commit| format!("{version}+{commit}"));
    println!("cargo::rustc-env=VARVE_VERSION={text}");
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=VARVE_TARGET={target}");
}
