//! The list of contestants.

use crate::contest::{
    agrona, bpf, faulty, limits, lttng, perf_overwrite, perfring, pipe, ringfire, rtrb, shmem_ipc,
    unix_stream,
};
use crate::options::Options;
use perfring_bench::contest::Floor;
use perfring_bench::contest::calls::{Calls, Publish, PublishPod, PublishTimeout, ReserveTimeout};
use perfring_bench::contest::perfring::{InPlace, Ring};
use perfring_bench::contestant::Role;
use perfring_bench::player::{Entry, Kind, LINE, MEMCPY};
use perfring_bench::{BenchError, Result};

/// The list: name, role, type; `if "feature"` for those that are compiled only with that cargo
/// feature.
macro_rules! contestants {
    ($($name:literal $role:ident $type:ty $(, if $feature:literal)?;)*) => {
        &[
            MEMCPY,
            LINE,
            $(
                $(#[cfg(feature = $feature)])?
                Entry::of::<$type>($name, Role::$role),
                $(
                    #[cfg(not(feature = $feature))]
                    Entry {
                        name: $name,
                        role: Role::$role,
                        kind: Kind::NotBuilt(concat!(
                            "not compiled in; `cargo run` with `--features ", $feature, "` adds it"
                        )),
                    },
                )?
            )*
        ]
    };
}

/// All of them, in the order of the report. To add one, add its line.
pub static ALL: &[Entry] = contestants! {
    "floor" Limit Floor;
    "floor back" Limit limits::Slots;
    "floor lock word" Limit limits::LockWord;
    "perfring publish" Ours Ring<Calls<Publish>>;
    "perfring publish_timeout" Ours Ring<Calls<PublishTimeout>>;
    "perfring reserve_timeout" Ours Ring<Calls<ReserveTimeout>>;
    "perfring publish_pod" Ours Ring<Calls<PublishPod>>;
    "perfring default reader" Ours Ring<Calls<PublishTimeout, true>>;
    "perfring in place" Ours Ring<InPlace<false>>;
    "perfring batch" Ours Ring<perfring::Batched>;
    "perfring values" Ours Ring<perfring::Values>;
    "perfring half" Ours Ring<InPlace<true>>;
    "perfring shared" Ours Ring<perfring::Shared>;
    "perfring shared batch" Ours Ring<perfring::SharedBatched>;
    "perfring named" Ours Ring<perfring::Named<false>>;
    "perfring named batch" Ours Ring<perfring::Named<true>>;
    "perfring cpu" Ours Ring<perfring::Cpu>;
    "perfring rings" Ours Ring<perfring::Fullest>;
    "perfring rings in turn" Ours Ring<perfring::InTurn>;
    "perfring rings merged" Ours Ring<perfring::InOrder>;
    "ringfire" Rival ringfire::Ringfire;
    "agrona one-to-one" Rival agrona::OneToOne;
    "agrona many-to-one" Rival agrona::ManyToOne;
    "agrona broadcast" Rival agrona::Broadcast;
    "iceoryx2" Rival crate::contest::iceoryx2::Iceoryx2, if "iceoryx2";
    "aeron" Rival crate::contest::aeron::AeronIpc, if "aeron";
    "shmem-ipc" Rival shmem_ipc::ShmemIpc;
    "pipe" Rival pipe::Pipe;
    "unix stream" Rival unix_stream::UnixStream;
    "bpf" Rival bpf::Bpf;
    "perf overwrite" Rival perf_overwrite::PerfOverwrite;
    "lttng" Rival lttng::Lttng;
    "rtrb" Reference rtrb::Rtrb;
};

/// Those that only tests ask for.
#[doc(hidden)]
pub static FAULTY: &[Entry] = &[
    faulty::<{ faulty::NOTHING }>("faulty: nothing"),
    faulty::<{ faulty::HANGS }>("faulty: hangs"),
    faulty::<{ faulty::DIES }>("faulty: dies"),
    faulty::<{ faulty::DAMAGES }>("faulty: damages"),
    faulty::<{ faulty::LOSES }>("faulty: loses"),
    faulty::<{ faulty::LIES }>("faulty: lies"),
];

const fn faulty<const FAULT: u8>(name: &'static str) -> Entry {
    Entry::of::<faulty::Faulty<FAULT>>(name, Role::Rival)
}

/// Returns the contestant of this name.
pub fn by_name(name: &str) -> Option<Entry> {
    ALL.iter().chain(FAULTY).find(|entry| entry.name == name).copied()
}

/// Returns the chosen contestants. Limits always take part: without them a figure says little.
///
/// # Errors
/// [`BenchError::Usage`] if a name is unknown.
pub fn chosen(options: &Options) -> Result<Vec<Entry>> {
    if let Some(name) = options.contestants.iter().find(|name| by_name(name).is_none()) {
        return Err(BenchError::Usage(format!("no contestant {name:?}; --list has all")));
    }
    let named = |entry: &&Entry| options.contestants.iter().any(|name| name == entry.name);
    let wanted = |entry: &&Entry| {
        options.contestants.is_empty() || named(entry) || entry.role == Role::Limit
    };
    Ok(ALL.iter().filter(wanted).chain(FAULTY.iter().filter(named)).copied().collect())
}

#[cfg(test)]
mod tests {
    use super::{ALL, FAULTY};
    use perfring_bench::case::{Case, Scale};
    use perfring_bench::rows::Kind;
    use perfring_bench::workload::Workload;

    /// What the size of processes does not show is known of each contestant, and is not zero only
    /// for those in the kernel.
    #[test]
    fn what_the_kernel_holds_is_known() {
        const KERNELS: [&str; 3] = ["pipe", "unix stream", "bpf"];
        let scale = Scale { data_size: 1 << 18, ..Scale::default() };
        for entry in ALL {
            let Some(player) = entry.player() else { continue };
            if player.can().lossless.is_err() || player.check().is_err() {
                continue;
            }
            let setup = Case { kind: Kind::of(Workload::Memory, 64), entry: *entry }.setup(&scale);
            let bytes = player.kernel_bytes(&setup);
            let is_kernels = KERNELS.contains(&entry.name);
            assert_eq!(bytes.map(|bytes| bytes > 0), Some(is_kernels), "{}: {bytes:?}", entry.name);
            if entry.name == "pipe" {
                assert!(bytes >= Some(1 << 16), "{bytes:?}");
            }
        }
    }

    #[test]
    fn nobody_takes_part_twice() {
        let mut names: Vec<&str> = ALL.iter().chain(FAULTY).map(|entry| entry.name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
