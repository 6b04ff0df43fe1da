//! What `varve man` and `varve completions` accept.

use std::path::PathBuf;

use clap::Args as ClapArgs;

#[derive(ClapArgs)]
#[command(
    after_help = "To read one: `man -l DIR/varve-top.1`. To have them all: DIR is a folder `man1` \
    of MANPATH, such as /usr/local/share/man/man1."
)]
pub struct Man {
    /// The folder; it is made if it is not there
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}

#[derive(ClapArgs)]
#[command(after_help = "In bash: source <(varve completions bash)")]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}
