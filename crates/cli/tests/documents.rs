//! Documents keep to the program: every command line in them is one that it accepts, the guides are
//! run, what they show is what comes out, and every subcommand has its manual page.
//!
//! How documents are read, for who writes them:
//!
//! * Blocks fenced as `sh`, `console` or nothing hold command lines; of a `console` block those behind
//!   `$ `, or `# ` for root's. All that begin with `varve` must be accepted by the program's own
//!   definition of its options.
//! * Of `docs/guide-*.md` the `sh` blocks are run, in order, in one new folder by one shell. What needs
//!   root, FUSE, a network or minutes stands in a `console` block, which is not run.
//! * Between back-ticks `varve ..` may be a form: capitals stand for values, `a|b` for either, what
//!   is required may be missing. What is there must exist.
//! * Below `<!-- figures printed by: COMMAND -->` and an empty line stands a table of which each number with
//!   a decimal point is one that the command prints. Minutes are needed to see that:
//!   `VARVE_DOCUMENTS=all cargo test -p varve-cli --test documents`; without, only the command is looked at.
//! * A `diff` block holds lines of the files that it names, in their order.
//! * A block below `<!-- printed by: COMMAND -->` holds lines of what that command prints, and in the
//!   order it prints them; in a guide it is run where the reader is then.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use clap::CommandFactory;
use clap::error::ErrorKind;

#[allow(dead_code, missing_docs, unused_imports)] // as the program has it; here only its definition is of interest
#[path = "../src/args/mod.rs"]
mod args;

/// What the definition of the command line asks for.
const VERSION: &str = "of the test";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Documents for people: path from the root, text.
fn documents() -> Vec<(String, String)> {
    let (root, mut found) = (root(), Vec::new());
    let folder = |path: PathBuf| {
        let entries = std::fs::read_dir(path).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    };
    let mut paths = vec![root.join("README.md"), root.join("ARCHITECTURE.md")];
    paths.extend(folder(root.join("docs")));
    paths.extend(folder(root.join("docs/design")));
    paths.extend(folder(root.join("crates")).into_iter().map(|path| path.join("README.md")));
    paths.sort();
    for path in paths.into_iter().filter(|path| path.extension().is_some_and(|e| e == "md")) {
        if let Ok(text) = std::fs::read_to_string(&path) {
            let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
            found.push((name, text));
        }
    }
    assert!(found.len() > 20, "{} documents", found.len());
    found
}

/// A piece of a document.
#[derive(Debug)]
struct Block {
    /// Line of the document, from 1.
    line: usize,
    /// After the fence; `None` for text between blocks.
    fence: Option<String>,
    /// The line before it.
    above: String,
    lines: Vec<String>,
}

fn blocks(text: &str) -> Vec<Block> {
    let new = |line, fence, above: &str| Block {
        line,
        fence,
        above: above.to_string(),
        lines: Vec::new(),
    };
    let (mut all, mut now, mut above) = (Vec::new(), new(1, None, ""), String::new());
    for (i, line) in text.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), &now.fence) {
            (Some(_), Some(_)) => all.push(std::mem::replace(&mut now, new(i + 2, None, ""))),
            (Some(fence), None) => {
                let block = new(i + 2, Some(fence.trim().to_string()), &above);
                all.push(std::mem::replace(&mut now, block));
            }
            _ => now.lines.push(line.to_string()),
        }
        above = line.to_string();
    }
    assert!(now.fence.is_none(), "a block is open at the end");
    all.push(now);
    all
}

/// Words as a shell reads them; operators are words of their own.
fn words(line: &str) -> Vec<Vec<String>> {
    let (mut commands, mut command, mut word) = (Vec::new(), Vec::new(), None::<String>);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                word.extend(chars.by_ref().take_while(|other| *other != c));
            }
            '\\' => word.get_or_insert_default().extend(chars.next()),
            '#' if word.is_none() => break,
            ' ' | '\t' => command.extend(word.take()),
            ';' | '&' | '|' | '(' | ')' | '\n' => {
                command.extend(word.take());
                commands.push(std::mem::take(&mut command));
            }
            '<' | '>' => {
                // A file descriptor belongs to what is taken away.
                if word.as_ref().is_none_or(|w| !w.chars().all(|c| c.is_ascii_digit())) {
                    command.extend(word.take());
                }
                word = None;
                while chars.next_if(|c| "<>&- ".contains(*c)).is_some() {}
                while chars.next_if(|c| !" ;|)".contains(*c)).is_some() {}
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    command.extend(word);
    commands.push(command);
    commands
}

/// The arguments of `varve` in a command of a shell, if it is one.
fn arguments(command: &[String]) -> Option<Vec<String>> {
    let assigned = |word: &&String| {
        word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
        })
    };
    let skipped = command.iter().take_while(assigned).count();
    let command: Vec<&str> = command[skipped..].iter().map(String::as_str).collect();
    let rest = match command.as_slice() {
        ["sudo", "varve", rest @ ..] | ["varve" | "target/release/varve", rest @ ..] => rest,
        ["exec" | "time", "varve", rest @ ..] => rest,
        ["cargo", "run", "--release", "--", rest @ ..] => rest,
        _ => return None,
    };
    Some(rest.iter().map(|word| word.to_string()).collect())
}

/// The command lines of a fenced block, each with its place in it.
fn lines(block: &Block) -> Vec<(usize, String)> {
    let fence = block.fence.as_deref();
    let (mut all, mut going_on) = (Vec::<(usize, String)>::new(), false);
    for (i, line) in block.lines.iter().enumerate() {
        let prompt = line.strip_prefix("$ ").or_else(|| line.strip_prefix("# "));
        let line = match (fence, going_on) {
            (Some("sh" | ""), _) | (Some("console"), true) => line.as_str(),
            (Some("console"), false) => match prompt {
                Some(command) => command,
                None => continue,
            },
            _ => return Vec::new(),
        };
        let part = line.strip_suffix('\\').unwrap_or(line);
        match all.last_mut() {
            Some((_, last)) if going_on => *last += part,
            _ => all.push((block.line + i, part.to_string())),
        }
        going_on = line.ends_with('\\');
    }
    all
}

/// Why the program does not take these arguments.
fn refused(arguments: &[String]) -> Option<clap::Error> {
    let all = std::iter::once("varve").chain(arguments.iter().map(String::as_str));
    let error = args::Args::command().try_get_matches_from(all).err()?;
    let asked = [ErrorKind::DisplayHelp, ErrorKind::DisplayVersion];
    (!asked.contains(&error.kind())).then_some(error)
}

fn told(error: &clap::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_string()
}

#[test]
fn every_command_line_is_accepted() {
    let (mut found, mut seen) = (Vec::new(), 0);
    for (path, text) in documents() {
        for block in blocks(&text) {
            for (line, command) in lines(&block) {
                for given in words(&command).iter().filter_map(|command| arguments(command)) {
                    seen += 1;
                    if let Some(error) = refused(&given) {
                        found.push(format!("{path}:{line}: {}: {}", given.join(" "), told(&error)));
                    }
                }
            }
        }
    }
    assert!(found.is_empty(), "command lines that varve refuses:\n{}", found.join("\n"));
    assert!(seen > 40, "{seen} command lines");
}

/// A drive of a stack is refused only when it is made, so the definition of options does not tell.
#[test]
fn every_drive_of_a_stack_is_one() {
    let (mut found, mut seen) = (Vec::new(), 0);
    for (path, text) in documents() {
        for block in blocks(&text).iter().filter(|block| block.fence.is_some()) {
            for (i, line) in block.lines.iter().enumerate() {
                let Some(drive) = line.find("drive(").map(|at| &line[at..]) else { continue };
                let Some(end) = drive.find(')').filter(|_| !drive.starts_with("drive(..")) else {
                    continue;
                };
                seen += 1;
                let made = drive[..=end].parse().and_then(|stack: stack::Description| {
                    let stack::Base::Drive { preset, keys } = stack.base else { unreachable!() };
                    stack::drive_params(&preset, &keys)
                });
                if let Err(error) = made {
                    found.push(format!("{path}:{}: {}: {error}", block.line + i, &drive[..=end]));
                }
            }
        }
    }
    assert!(found.is_empty(), "drives that are none:\n{}", found.join("\n"));
    assert!(seen >= 6, "{seen} drives");
}

/// A form with each of its alternatives: `check|stats FILE` is two command lines.
fn either(form: &[String]) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    for word in form {
        let choices: Vec<&str> = word.split('|').collect();
        let with = |choice: &&str| {
            let more = all.iter().map(|so_far: &Vec<String>| {
                let mut line = so_far.clone();
                line.push(choice.to_string());
                line
            });
            more.collect::<Vec<_>>()
        };
        all = choices.iter().flat_map(with).collect();
    }
    all
}

/// Whether a word stands for a value.
fn stands_for(value: &str) -> bool {
    let letters = value.chars().filter(|c| c.is_ascii_alphabetic());
    value.contains("..") || letters.clone().count() > 0 && letters.clone().all(|c| c.is_uppercase())
}

/// Whether a form says nothing that is not there.
fn fits(form: &[String]) -> Result<(), String> {
    let Some(error) = refused(form) else { return Ok(()) };
    let value = error.get(clap::error::ContextKind::InvalidValue).map(ToString::to_string);
    match error.kind() {
        ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        | ErrorKind::TooFewValues => Ok(()),
        // An option without its value.
        ErrorKind::InvalidValue if value.as_deref() == Some("") => Ok(()),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation
            if value.as_deref().is_some_and(stands_for) =>
        {
            Ok(())
        }
        _ => Err(told(&error)),
    }
}

#[test]
fn what_does_not_exist_is_found() {
    let form = |text: &str| fits(&text.split(' ').map(str::to_string).collect::<Vec<_>>());
    for good in
        ["sim TRACE --policy P", "serve nbd", "sqlite check --at N", "ctl SOCKET stats", "top"]
    {
        assert_eq!(form(good), Ok(()), "{good}");
    }
    for bad in
        ["simulate", "sim --polcy lru", "serve nbd --remap maybe", "ctl SOCKET stat", "list all"]
    {
        assert!(form(bad).is_err(), "{bad}");
    }
    let given = words("X=1 varve sim 'a b' \"c\" 2> /dev/null | head # not this");
    assert_eq!(arguments(&given[0]), Some(["sim", "a b", "c"].map(str::to_string).to_vec()));
    assert_eq!(given[1], ["head"]);
}

#[test]
fn what_text_says_of_the_program_exists() {
    let (mut found, mut seen) = (Vec::new(), 0);
    for (path, text) in documents() {
        for block in blocks(&text).iter().filter(|block| block.fence.is_none()) {
            let text = block.lines.join("\n");
            for part in text.split('`').skip(1).step_by(2) {
                let Some(rest) = part.strip_prefix("varve ") else { continue };
                let form: Vec<String> = rest
                    .split_whitespace()
                    .map(|word| word.trim_matches(['[', ']', '\'', '"']).to_string())
                    .filter(|word| word != ".." && !word.is_empty())
                    .collect();
                for form in either(&form) {
                    seen += 1;
                    if let Err(why) = fits(&form) {
                        found.push(format!("{path}: `{part}`: {why}"));
                    }
                }
            }
        }
    }
    found.dedup();
    assert!(found.is_empty(), "varve has nothing of the kind:\n{}", found.join("\n"));
    assert!(seen > 60, "{seen} forms");
}

/// A folder with `varve` in it for a shell.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("varve-documents-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(path.join("bin")).unwrap();
        std::fs::create_dir_all(path.join("here")).unwrap();
        let program = path.join("bin/varve");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_varve"), program).unwrap();
        Folder(path)
    }

    /// Runs a script, and ends what it left running.
    fn shell(&self, script: &str) -> Output {
        let mut path = self.0.join("bin").into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let ended = "trap 'kill $(jobs -p) 2>/dev/null || :' EXIT\n";
        let mut command = Command::new("sh");
        command.args(["-eu", "-c", &format!("{ended}{script}")]);
        command.current_dir(self.0.join("here")).env("PATH", path).stdin(Stdio::null());
        command.output().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn is_guide(path: &str) -> bool {
    path.starts_with("docs/guide-")
}

#[test]
fn guides_do_what_they_say() {
    // That of Python is run by scripts/python, where its package is.
    let python = "docs/guide-python.md";
    let guides = documents().into_iter().filter(|(path, _)| is_guide(path) && path != python);
    let guides: BTreeMap<String, String> = guides.collect();
    assert_eq!(guides.len(), 5, "{:?}", guides.keys());
    std::thread::scope(|scope| {
        for (path, text) in &guides {
            scope.spawn(move || run(path, text));
        }
    });
}

/// The command that a block says it shows the output of.
fn printed_by<'a>(path: &str, block: &'a Block) -> Option<&'a str> {
    let above = block.fence.as_ref().and(block.above.strip_prefix("<!-- printed"))?;
    let command = above.strip_prefix(" by: ").and_then(|rest| rest.strip_suffix(" -->"));
    Some(command.unwrap_or_else(|| panic!("{path}: {}", block.above)))
}

/// Holds what a block shows to what was printed.
fn shows(path: &str, block: &Block, printed: &str) {
    let mut printed = printed.lines().map(str::trim_end);
    for line in block.lines.iter().map(|line| line.trim_end()).filter(|line| !line.is_empty()) {
        assert!(
            printed.any(|other| other == line),
            "{path}:{}: is not printed, or not in this order:\n{line}",
            block.line,
        );
    }
}

/// Runs the blocks of a guide. What it shows is printed where the reader is then.
fn run(path: &str, text: &str) {
    let name = path.trim_start_matches("docs/").trim_end_matches(".md");
    let (folder, blocks, mut script) = (Folder::new(name), blocks(text), String::new());
    for block in &blocks {
        // Where it is, for who reads that it failed.
        let place = format!("echo '== {path}:{}' >&2\n", block.line);
        if block.fence.as_deref() == Some("sh") {
            script += &format!("{place}{}\n", block.lines.join("\n"));
        } else if let Some(command) = printed_by(path, block) {
            script += &format!("{place}{command} > ../shown-{}\n", block.line);
        }
    }
    assert!(script.lines().count() > 10, "{path}: hardly anything is run");
    let out = folder.shell(&script);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{path}: {}\n{said}", out.status);
    for block in blocks.iter().filter(|block| printed_by(path, block).is_some()) {
        let shown = folder.0.join(format!("shown-{}", block.line));
        shows(path, block, &std::fs::read_to_string(shown).unwrap());
    }
}

#[test]
fn what_is_shown_is_what_is_printed() {
    let folder = Folder::new("shown");
    // Pages other than guides are read in a checkout.
    std::os::unix::fs::symlink(root().join("scenarios"), folder.0.join("here/scenarios")).unwrap();
    let mut seen = 0;
    for (path, text) in documents().iter().filter(|(path, _)| !is_guide(path)) {
        for block in &blocks(text) {
            let Some(command) = printed_by(path, block) else { continue };
            seen += 1;
            let out = folder.shell(command);
            let said = String::from_utf8_lossy(&out.stderr);
            assert!(out.status.success(), "{path}: {command}: {said}");
            shows(path, block, &String::from_utf8_lossy(&out.stdout));
        }
    }
    assert!(seen > 0);
}

/// Numbers with a decimal point, each with its sign if it has one, and without.
fn numbers(text: &str) -> std::collections::BTreeSet<String> {
    let text = text.replace('\u{2212}', "-");
    let part = |c: char| c.is_ascii_digit() || ".,+-".contains(c);
    let mut all = std::collections::BTreeSet::new();
    for word in text.split(|c| !part(c)) {
        let word = word.trim_end_matches(['.', ',', '-', '+']).replace(',', "");
        if word.parse::<f64>().is_ok() && word.contains('.') {
            all.insert(word.trim_start_matches(['+', '-']).to_string());
            all.insert(word);
        }
    }
    all
}

#[test]
fn figures_of_tables_are_printed() {
    let mut tables = BTreeMap::<String, Vec<(String, String)>>::new();
    for (path, text) in documents() {
        let lines: Vec<&str> = text.lines().collect();
        for (i, line) in lines.iter().enumerate() {
            let Some(rest) = line.strip_prefix("<!-- figures printed by: ") else { continue };
            let command = rest.strip_suffix(" -->").unwrap_or_else(|| panic!("{path}: {line}"));
            let given = words(command).concat();
            let given = arguments(&given).unwrap_or_else(|| panic!("{path}: {line}"));
            assert!(refused(&given).is_none(), "{path}: {line}");
            let table = lines[i + 1..].iter().skip_while(|line| line.is_empty());
            let table: Vec<&str> = table.take_while(|l| l.starts_with('|')).copied().collect();
            assert!(numbers(&table.join("\n")).len() > 5, "{path}: {line}: no table");
            let place = format!("{path}:{}", i + 1);
            tables.entry(command.to_string()).or_default().push((place, table.join("\n")));
        }
    }
    assert!(tables.len() > 2, "{:?}", tables.keys());
    if std::env::var("VARVE_DOCUMENTS").as_deref() != Ok("all") {
        return;
    }
    let (folder, mut wrong) = (Folder::new("figures"), Vec::new());
    for (command, tables) in tables {
        let (data, start) = (root().join("data"), std::time::Instant::now());
        let out = folder.shell(&format!("ln -sfn '{}' data; {command}", data.display()));
        println!("{command}: {} s", start.elapsed().as_secs());
        if !out.status.success() {
            wrong.push(format!("{command}: {}", String::from_utf8_lossy(&out.stderr)));
            continue;
        }
        let printed = numbers(&String::from_utf8_lossy(&out.stdout));
        for (place, table) in tables {
            let missing: Vec<String> =
                numbers(&table).into_iter().filter(|number| !printed.contains(number)).collect();
            if !missing.is_empty() {
                wrong.push(format!("{place}: {command} does not print {missing:?}"));
            }
        }
    }
    // All of them: to find the next one takes an hour.
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_a_document_adds_to_a_file_is_in_it() {
    let mut seen = 0;
    for (path, text) in documents() {
        for block in blocks(&text).iter().filter(|block| block.fence.as_deref() == Some("diff")) {
            let mut file: Option<(&str, Vec<String>)> = None;
            for line in &block.lines {
                if let Some(name) = line.strip_prefix("+++ ") {
                    let text = std::fs::read_to_string(root().join(name));
                    let text = text.unwrap_or_else(|error| panic!("{path}: {name}: {error}"));
                    file = Some((name, text.lines().map(str::to_string).collect()));
                } else if let Some(added) = line.strip_prefix('+') {
                    let (name, lines) = file.as_mut().unwrap_or_else(|| panic!("{path}: no file"));
                    let at = lines.iter().position(|other| other == added);
                    let at = at.unwrap_or_else(|| panic!("{path}: not in {name}, so: {added}"));
                    lines.drain(..=at);
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 50, "{seen} lines");
}

/// The names of the pages of a command and of all below it.
fn pages(of: &clap::Command, name: &str, into: &mut Vec<(String, Vec<String>)>) {
    let options = of.get_arguments().filter(|option| !option.is_hide_set());
    let options = options.filter_map(|option| option.get_long()).map(str::to_string).collect();
    into.push((format!("{name}.1"), options));
    for below in of.get_subcommands().filter(|below| below.get_name() != "help") {
        pages(below, &format!("{name}-{}", below.get_name()), into);
    }
}

#[test]
fn every_subcommand_has_a_manual_page() {
    let folder = Folder::new("man");
    let out = folder.shell("varve man man1");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let mut expected = Vec::new();
    pages(&args::Args::command(), "varve", &mut expected);
    assert!(expected.len() > 35, "{} pages", expected.len());
    for (page, options) in expected {
        let text = std::fs::read_to_string(folder.0.join("here/man1").join(&page));
        let text = text.unwrap_or_else(|error| panic!("{page}: {error}"));
        assert!(text.contains(".TH ") && text.contains(".SH NAME"), "{page}");
        let plain = text.replace('\\', "");
        for option in options {
            assert!(plain.contains(&format!("--{option}")), "{page} does not name --{option}");
        }
    }
}

#[test]
fn shells_complete_every_subcommand() {
    let folder = Folder::new("complete");
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let out = folder.shell(&format!("varve completions {shell}"));
        assert!(out.status.success(), "{shell}");
        let text = String::from_utf8_lossy(&out.stdout);
        for below in args::Args::command().get_subcommands() {
            assert!(text.contains(below.get_name()), "{shell}: {}", below.get_name());
        }
    }
}
