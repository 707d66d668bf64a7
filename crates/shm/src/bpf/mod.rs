//! The kernel's BPF ring-buffer maps, opened by `bpf(2)` and mapped.

mod call;
pub(crate) mod map;
pub(crate) mod mapped;
