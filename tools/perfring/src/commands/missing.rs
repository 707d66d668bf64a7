//! What this build leaves out, and how to get it.

use crate::failure::Failure;
use std::ffi::OsString;

/// Not in this build
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _all: Vec<OsString>,
}

/// Refuses what only a build with `features` has.
pub(crate) fn refusal(what: &str, features: &str) -> Failure {
    Failure::Usage(format!(
        "this build has no {what}: `cargo install perfring-cli --features {features}`"
    ))
}
