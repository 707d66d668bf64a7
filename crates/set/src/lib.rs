//! set
#![forbid(unsafe_code)]
