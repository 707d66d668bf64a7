//! sidecar
#![forbid(unsafe_code)]
