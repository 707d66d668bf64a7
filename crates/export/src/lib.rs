//! export
#![forbid(unsafe_code)]
