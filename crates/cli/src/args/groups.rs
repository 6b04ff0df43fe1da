//! Subcommands by what they are for: the page that `varve --help` shows.

use std::fmt::Write;

use clap::{Command, CommandFactory};

use super::Args;

/// Every subcommand stands in one of these.
const GROUPS: [(&str, &[&str]); 6] = [
    (
        "Simulate",
        &["sim", "run", "points", "merge", "compare", "view", "cite", "trace", "reproduce", "list"],
    ),
    ("Serve", &["serve", "ctl", "top", "conformance", "remap"]),
    ("SQLite", &["sqlite"]),
    ("File system", &["mkfs", "mount", "umount", "fsck", "dump"]),
    ("Proof", &["prove", "torture", "replay", "doctor"]),
    ("This program", &["man", "completions"]),
];

/// The command line, its subcommands in groups.
pub fn command() -> Command {
    let command = Args::command();
    let mut listed = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(listed, "{title}:");
        for sub in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(listed, "  {:<12} {about}", sub.get_name());
        }
        listed.push('\n');
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{listed}Options:\n{{options}}\n\n\
         `varve help COMMAND` says more.\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subcommand_is_in_one_group() {
        let mut grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let there = Args::command();
        let mut there: Vec<&str> = there.get_subcommands().map(Command::get_name).collect();
        grouped.sort_unstable();
        there.sort_unstable();
        assert_eq!(grouped, there);
        let help = command().render_help().to_string();
        assert!(help.contains("\nFile system:\n  mkfs "), "{help}");
    }
}
