//! The rules in CONTRIBUTING about the sources, each as a test. Beside them, `module_graph` has those about imports.
//!
//! Code that broke a rule when its test was written is in a list of that test. A list may only shrink: an entry
//! that breaks the rule no longer, or whose file is gone, fails the test too.

pub(crate) mod allowed;
mod files;
pub(crate) mod graph;
mod names;
mod offsets;
mod orderings;
mod places;
pub(crate) mod sources;
