//! demo
use crate::failure::Failure;
/// demo
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}
/// child
#[derive(Debug, clap::Args)]
pub(crate) struct ChildArgs {}
pub(crate) fn run(_: &Args) -> Result<(), Failure> {
    Ok(())
}
pub(crate) fn child(_: &ChildArgs) -> Result<(), Failure> {
    Ok(())
}
