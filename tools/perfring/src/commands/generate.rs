//! `perfring completions` and `perfring man`: files that packages install beside the command,
//! generated from the definitions of its arguments.

use crate::failure::Failure;
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use perfring_export::{Stream, WriteError};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Print the completions of this command for a shell
///
/// Example: perfring completions bash > /usr/share/bash-completion/completions/perfring
///
/// zsh: .../zsh/vendor-completions/_perfring, fish: .../fish/vendor_completions.d/perfring.fish
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Write the manual pages into a directory
///
/// One for perfring, and one for each subcommand, as perfring-stat.1.
///
/// Example: perfring man /usr/share/man/man1 && man perfring
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// Created if it does not exist; pages of the same names are replaced
    dir: PathBuf,
}

pub(crate) fn completions(args: &CompletionsArgs, all: &Command) -> Result<(), Failure> {
    // Without hidden commands, which the generators would show.
    let mut command = Command::new("perfring")
        .version(env!("CARGO_PKG_VERSION"))
        .args(all.get_arguments().cloned())
        .subcommands(all.get_subcommands().filter(|sub| !sub.is_hide_set()).cloned());
    // Into memory first: the generator panics on a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "perfring", &mut script);
    Stream::stdout().write_all(&script).map_err(Failure::output)
}

pub(crate) fn man(args: &ManArgs, all: Command) -> Result<(), Failure> {
    let cannot = |path: &Path, error| {
        Failure::General(format!("cannot write {}: {}", path.display(), WriteError(&error)))
    };
    fs::create_dir_all(&args.dir).map_err(|error| cannot(&args.dir, error))?;
    let mut command = all.disable_help_subcommand(true);
    command.build();
    let mut pages = vec![("perfring".to_owned(), command.clone())];
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let name = format!("perfring-{}", sub.get_name());
        // The file's name in the page's title and first section, and the typed form in its
        // synopsis.
        let typed = format!("perfring {}", sub.get_name());
        for below in sub.get_subcommands() {
            let name = format!("{name}-{}", below.get_name());
            let typed = format!("{typed} {}", below.get_name());
            pages.push((name.clone(), below.clone().display_name(name).bin_name(typed)));
        }
        pages.push((name.clone(), sub.clone().display_name(name).bin_name(typed)));
    }
    for (name, command) in pages {
        let path = args.dir.join(format!("{name}.1"));
        let page = page(command).map_err(|error| cannot(&path, error))?;
        fs::write(&path, page).map_err(|error| cannot(&path, error))?;
    }
    Ok(())
}

fn page(command: Command) -> std::io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let version = format!("perfring {}", env!("CARGO_PKG_VERSION"));
    Man::new(command).source(version).manual("perfring").render(&mut page)?;
    Ok(page)
}
