//! `--format` and `--json`, as all commands have them that print figures.

use clap::ValueEnum;

/// The format of figures on stdout.
#[derive(Debug, clap::Args)]
pub(crate) struct FiguresFormat {
    /// The format of the output; json is one object per line
    #[arg(long, value_enum, default_value_t = Form::Text)]
    format: Form,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    Text,
    Json,
}

impl FiguresFormat {
    pub(crate) fn is_json(&self) -> bool {
        self.json || self.format == Form::Json
    }
}
