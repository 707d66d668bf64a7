//! How much the command says on stderr, and whether it uses colours: `-q`, `-v` and `--color`.

use std::fmt::{self, Display};
use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// The options that all commands have.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of all commands")]
pub(crate) struct GeneralArgs {
    /// When text has colours; auto is on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = When::Auto)]
    color: When,
    /// Print no summaries and no progress on stderr, only what is wrong and what was lost
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Also print on stderr which rings are opened, and which end
    #[arg(long, short, global = true)]
    verbose: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum When {
    Auto,
    Always,
    Never,
}

/// What is printed besides warnings and errors.
static LEVEL: AtomicU8 = AtomicU8::new(SUMMARIES);
const NOTHING: u8 = 0;
const SUMMARIES: u8 = 1;
const DETAILS: u8 = 2;
/// Whether text on stdout has colours.
static COLORS: AtomicBool = AtomicBool::new(false);

impl GeneralArgs {
    /// Applies the options, before the command runs.
    pub(crate) fn apply(&self) {
        let level = match (self.quiet, self.verbose) {
            (true, _) => NOTHING,
            (_, true) => DETAILS,
            _ => SUMMARIES,
        };
        // Relaxed: nothing else is published with it, and there is one thread.
        LEVEL.store(level, Ordering::Relaxed);
        let colors = match self.color {
            When::Always => true,
            When::Never => false,
            When::Auto => may_color(),
        };
        COLORS.store(colors, Ordering::Relaxed);
    }
}

/// Returns whether text has colours, if no option says so.
pub(crate) fn may_color() -> bool {
    is_screen() && !is_set("NO_COLOR")
}

/// Returns whether stdout is a terminal that can move its cursor.
pub(crate) fn is_screen() -> bool {
    io::stdout().is_terminal() && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
}

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// Returns whether summaries and progress are printed.
pub(crate) fn has_summaries() -> bool {
    LEVEL.load(Ordering::Relaxed) >= SUMMARIES
}

/// Returns whether details are printed.
pub(crate) fn has_details() -> bool {
    LEVEL.load(Ordering::Relaxed) >= DETAILS
}

/// The emphasis of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Bold,
    Dim,
    Good,
    Warning,
    Bad,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Style::Plain => "",
            Style::Bold => "1",
            Style::Dim => "2",
            Style::Good => "32",
            Style::Warning => "33",
            Style::Bad => "31",
        }
    }
}

/// A text with an emphasis, where stdout has colours. Padding belongs into the text.
#[derive(Debug)]
pub(crate) struct Painted<T>(pub(crate) Style, pub(crate) T);

impl<T: Display> Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.code() {
            "" => self.1.fmt(f),
            _ if !COLORS.load(Ordering::Relaxed) => self.1.fmt(f),
            code => write!(f, "\x1b[{code}m{}\x1b[0m", self.1),
        }
    }
}
