//! Who keeps a directory or a device from being let go, as far as this process may see it.

use std::fs;
use std::path::Path;

/// Processes that are named at most.
const NAMED: usize = 8;

/// Processes with something under `path` open (a directory that is mounted, or a device), one text each:
/// number, name, and what it has open.
pub fn holders(path: &Path) -> Vec<String> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let own = std::process::id().to_string();
    let mut found = Vec::new();
    for process in processes.flatten() {
        let number = process.file_name().to_string_lossy().into_owned();
        // This process has them open by its trade.
        if number == own || !number.bytes().all(|b| b.is_ascii_digit()) {
            continue;
        }
        let links = ["cwd", "root", "exe"].map(|link| process.path().join(link));
        let open = fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        let all = links.into_iter().chain(open.map(|entry| entry.path()));
        // The links name what is open without asking the file system behind it, which may be stuck.
        let held = all.filter_map(|link| fs::read_link(link).ok()).find(|to| to.starts_with(path));
        if let Some(held) = held {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            found.push(format!("process {number} ({}): {}", name.trim(), held.display()));
        }
    }
    found.sort();
    found
}

/// Mounts of a device, one text each.
fn mounts(device: &Path) -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let lines = table.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        (Path::new(fields.next()?) == device).then(|| fields.next())?
    });
    lines.map(|dir| format!("it is mounted on {dir}")).collect()
}

/// The same in one line for people, and where a device is mounted; who cannot be seen is said so.
pub fn who_holds(path: &Path) -> String {
    let mut found = mounts(path);
    found.extend(holders(path));
    let more = found.len().saturating_sub(NAMED);
    found.truncate(NAMED);
    if more > 0 {
        found.push(format!("and {more} more"));
    }
    match found.is_empty() {
        true => "by whom cannot be seen (a process of another user, or the kernel)".to_string(),
        false => found.join("; "),
    }
}
