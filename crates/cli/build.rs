//! Puts the commit into the version that results carry. A package says of which it is; elsewhere, outside a repository,
//! there is none.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=VARVE_COMMIT");
    // Where a work tree's commits are noted: asked of git, because a second work tree of a repository has them elsewhere.
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    let commit = std::env::var("VARVE_COMMIT")
        .ok()
        .filter(|c| !c.is_empty())
        .or_else(packaged)
        .or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    let version = env!("CARGO_PKG_VERSION");
    let text = commit.map_or(version.to_string(), |commit| format!("{version}+{commit}"));
    println!("cargo::rustc-env=VARVE_VERSION={text}");
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=VARVE_TARGET={target}");
}

/// What cargo writes into a package: whoever unpacks it may do so inside a repository of something else.
const PACKAGED: &str = ".cargo_vcs_info.json";

/// The commit that a package was made of.
fn packaged() -> Option<String> {
    let text = std::fs::read_to_string(PACKAGED).ok()?;
    let after = text.split_once("\"sha1\"")?.1.split('"').nth(1)?;
    after.get(..12).map(str::to_string)
}

fn git(arguments: &[&str]) -> Option<String> {
    let out = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(out.stdout).ok()?;
    (out.status.success() && !text.trim().is_empty()).then(|| text.trim().to_string())
}
