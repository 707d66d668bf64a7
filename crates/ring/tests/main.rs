//! The tests of the algorithm. With `--cfg loom` this program has the models for loom and nothing else, and without it
//! all others: each file says at its top which it is. An ordinary run then links nothing for loom.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    missing_docs,
    reason = "a test that cannot continue has failed"
)]

mod bpf;
mod bpf_kernel;
mod common;
mod cpu;
mod cpu_loom;
mod hostile;
mod hostile_shared;
mod kernel_traces;
mod large;
mod loom;
mod loom_cpu;
mod loom_cpu_deaths;
mod loom_metrics;
mod loom_model;
mod loom_named;
mod loom_shared;
mod loom_time;
mod loom_types;
mod metrics;
mod model;
mod named;
mod named_model;
mod refusals;
mod replaced;
mod shared;
mod signed_off;
mod spoiled;
mod threads;
mod time;
