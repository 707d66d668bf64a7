//! kernel
#![forbid(unsafe_code)]
