//! The tests between processes, in one program: linking each takes longer than running most of them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    missing_docs,
    reason = "a test that cannot continue has failed"
)]

mod abi_agrees;
mod at_full_speed;
mod beside_da0ee0c;
mod c_creates;
mod c_headers;
mod c_hostile;
mod c_metrics;
mod c_removed;
mod c_types;
mod cpu_deaths;
mod cpu_elsewhere;
mod cpu_own_area;
mod cpu_rings;
mod cpu_storm;
mod cpu_waits;
mod ends_well;
mod foreign_reader;
mod golden_files;
mod guest_deaths;
mod hostile_files;
mod hostile_live;
mod hostile_named;
mod hot_path_is_quiet;
mod killed_at_every_instruction;
mod large;
mod lent;
mod lifecycle;
mod lock_wait;
mod locks;
mod metrics;
mod module_graph;
mod open_or_create;
mod overlay;
mod pages;
mod pollable;
mod refused_files;
mod registration;
mod rules;
mod shared_containers;
mod shared_deaths;
mod shared_life;
mod shared_storm;
mod time;
mod truncated_files;
mod type_table;
mod typed;
mod unwinding;
mod verbs;
mod verification;
mod waiting;
