//! Opening BPF ring-buffer maps.

use crate::bpf_options::BpfOptions;
use crate::bpf_ring::BpfRing;
use crate::sandbox::sandbox;
use perfring_consumer::error::ClockError;
use perfring_ring::BpfRole;
use perfring_shm::{BpfMap, BpfPlace, MappedBpf, NoBpfMap};
use std::io;
use thiserror::Error;

/// Why a BPF map cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BpfOpenError {
    /// There is no such path, or no map with this id.
    #[error("{}", missing(.place))]
    NotFound {
        /// Where it was looked for.
        place: BpfPlace,
    },
    /// The path leads to something that is no object of BPF.
    #[error(
        "{place} is not a pinned BPF map: name a path on a BPF file system, such as /sys/fs/bpf/NAME, where `bpftool map \
         pin` or the map's program has put it, or id:N"
    )]
    NotPinned {
        /// The path.
        place: BpfPlace,
    },
    /// The pinned object is no map.
    #[error(
        "{place} is a BPF {what}, not a map: pin the map that its records are written to, and name that"
    )]
    NotMap {
        /// The path.
        place: BpfPlace,
        /// What it is.
        what: &'static str,
    },
    /// A map of another kind.
    #[error("{place} is a BPF map of the type {}, not a ring buffer (BPF_MAP_TYPE_RINGBUF): {}", kind_of(*.kind), instead(*.kind))]
    Kind {
        /// Where it is.
        place: BpfPlace,
        /// Its type: `enum bpf_map_type`.
        kind: u32,
    },
    /// This user lacks a capability.
    #[error(
        "this user may not open the BPF map {place}: be root, or have {}{}",
        if matches!(.place, BpfPlace::Id(_)) { "CAP_SYS_ADMIN, or name the path of a pinned map" } else { "CAP_BPF" },
        sandbox("bpf")
    )]
    Forbidden {
        /// Where it is.
        place: BpfPlace,
    },
    /// The mode of the pinned file forbids it.
    #[error(
        "the mode of {place} does not let this user read and write it, and the kernel maps no map otherwise, not even for an \
         observer: be root, or have its owner allow that (`chmod`)"
    )]
    Denied {
        /// Where it is.
        place: BpfPlace,
    },
    /// The map is frozen.
    #[error(
        "the BPF map {place} is frozen: no process can consume it any more, and programs write to it until it is full. \
         See what is in it with `,observe`, and create a map that is not frozen"
    )]
    Frozen {
        /// Where it is.
        place: BpfPlace,
    },
    /// The kernel has no BPF.
    #[error(
        "this kernel does not open BPF maps for programs: it is older than Linux 5.8, was built without \
         CONFIG_BPF_SYSCALL, or is emulated{}",
        sandbox("bpf")
    )]
    Missing,
    /// The limit for descriptors is too low.
    #[error(
        "cannot open the BPF map {place}: this process may open no more files; raise `ulimit -n`"
    )]
    Descriptors {
        /// Where it is.
        place: BpfPlace,
    },
    /// The map is damaged, or another process consumes it.
    #[error("{place}: {what}")]
    Damaged {
        /// Where it is.
        place: BpfPlace,
        /// What is wrong and what to do.
        what: String,
    },
    /// The time of records cannot be found out.
    #[error(transparent)]
    Clock(#[from] ClockError),
    /// Another error of the system.
    #[error("cannot open the BPF map {place}: {step}: {source}")]
    Io {
        /// Where it is.
        place: BpfPlace,
        /// The step that failed.
        step: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl BpfOpenError {
    /// Returns whether this machine, or its administrator, forbids it: the request itself is valid.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        matches!(
            self,
            BpfOpenError::Forbidden { .. } | BpfOpenError::Denied { .. } | BpfOpenError::Missing
        )
    }

    fn of(options: &BpfOptions, error: NoBpfMap) -> Self {
        let place = options.place.clone();
        match error {
            NoBpfMap::NotFound => BpfOpenError::NotFound { place },
            NoBpfMap::NotPinned => BpfOpenError::NotPinned { place },
            NoBpfMap::NotMap(what) => BpfOpenError::NotMap { place, what },
            NoBpfMap::Kind(kind) => BpfOpenError::Kind { place, kind },
            NoBpfMap::Forbidden => BpfOpenError::Forbidden { place },
            NoBpfMap::Denied => BpfOpenError::Denied { place },
            NoBpfMap::Frozen => BpfOpenError::Frozen { place },
            NoBpfMap::Missing => BpfOpenError::Missing,
            NoBpfMap::Descriptors => BpfOpenError::Descriptors { place },
            NoBpfMap::Other { step, source } => BpfOpenError::Io { place, step, source },
            _ => {
                BpfOpenError::Io { place, step: "opening it", source: io::ErrorKind::Other.into() }
            }
        }
    }
}

/// Returns what to do where nothing is found.
fn missing(place: &BpfPlace) -> String {
    match place {
        BpfPlace::Id(id) => format!(
            "there is no BPF map with the id {id}: `bpftool map` lists those that are there"
        ),
        BpfPlace::Pinned(path) => format!(
            "there is no {}: the program that makes the map has to pin it there, or `bpftool map pin`; where /sys/fs/bpf is \
             empty, it may have to be mounted (`mount -t bpf bpf /sys/fs/bpf`)",
            path.display()
        ),
    }
}

/// The names of the map types, by their numbers.
const KINDS: [&str; 35] = [
    "unspec",
    "hash",
    "array",
    "prog_array",
    "perf_event_array",
    "percpu_hash",
    "percpu_array",
    "stack_trace",
    "cgroup_array",
    "lru_hash",
    "lru_percpu_hash",
    "lpm_trie",
    "array_of_maps",
    "hash_of_maps",
    "devmap",
    "sockmap",
    "cpumap",
    "xskmap",
    "sockhash",
    "cgroup_storage",
    "reuseport_sockarray",
    "percpu_cgroup_storage",
    "queue",
    "stack",
    "sk_storage",
    "devmap_hash",
    "struct_ops",
    "ringbuf",
    "inode_storage",
    "task_storage",
    "bloom_filter",
    "user_ringbuf",
    "cgrp_storage",
    "arena",
    "insn_array",
];

fn kind_of(kind: u32) -> String {
    match KINDS.get(kind as usize) {
        Some(name) => (*name).to_owned(),
        None => format!("number {kind}"),
    }
}

fn instead(kind: u32) -> &'static str {
    match KINDS.get(kind as usize) {
        Some(&"user_ringbuf") => "user space writes it, and a BPF program reads it",
        Some(&"perf_event_array") => {
            "its records are in perf's rings, which the map's own program opens"
        }
        _ => "name the map to which the program submits its records",
    }
}

impl BpfRing {
    /// Opens a map, and begins at its oldest record: a consumer begins where the last one stopped.
    ///
    /// # Errors
    /// See [`BpfOpenError`].
    pub fn open(options: &BpfOptions) -> Result<Self, BpfOpenError> {
        let sorted = |error| BpfOpenError::of(options, error);
        let role = if options.observe { BpfRole::Observer } else { BpfRole::Consumer };
        let map = BpfMap::open(&options.place).map_err(sorted)?;
        let mapped = MappedBpf::map(map, role).map_err(sorted)?;
        let mapped = mapped.map_err(|fault| BpfOpenError::Damaged {
            place: options.place.clone(),
            what: fault.to_string(),
        })?;
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(|source| BpfOpenError::Io {
            place: options.place.clone(),
            step: "drawing random bytes for its id",
            source: source.into(),
        })?;
        let id = uuid::Builder::from_random_bytes(id).into_uuid().into_bytes();
        Ok(BpfRing::new(mapped, options.time, id)?)
    }
}

#[cfg(test)]
#[path = "bpf_open_tests.rs"]
mod tests;
