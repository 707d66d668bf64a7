//! The list of contestants.

use crate::CompareError;
use crate::contest::{
    agrona, bpf, disruptor_mp, faulty, limits, lttng, perf_buffer, perf_overwrite, perfring,
    photon_ring, pipe, ringfire, rtrb, shmem_ipc, unix_seqpacket, unix_stream,
};
use crate::contestant::{Cannot, Role};
use crate::options::Options;
use crate::player::{Of, Player};
use perfring_bench::contest::calls::{Publish, PublishPod, PublishTimeout, ReserveTimeout};

/// How it takes part.
#[derive(Clone, Copy)]
pub enum Kind {
    /// One process copies the payload into a buffer.
    Memcpy,
    /// One cache line goes back and forth.
    Line,
    /// Two ends with something in between.
    Ends(&'static dyn Player),
    /// It was not compiled in: how to add it, or why it cannot be added.
    NotBuilt(&'static str),
}

/// A contestant.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Its name in reports.
    pub name: &'static str,
    /// Its role in the comparison.
    pub role: Role,
    /// How it takes part.
    pub kind: Kind,
}

impl Entry {
    /// Returns the combinations that it cannot be asked to do.
    pub fn cannot(&self) -> Cannot {
        match self.kind {
            Kind::Ends(player) => player.cannot(),
            _ => Cannot::NOTHING,
        }
    }

    /// Returns whether each sender has a channel of its own.
    pub fn own_channels(&self) -> bool {
        matches!(self.kind, Kind::Ends(player) if player.own_channels())
    }
}

/// The list: name, role, type; `if "feature"` for those that are compiled only with that cargo
/// feature.
macro_rules! contestants {
    ($($name:literal $role:ident $type:ty $(, if $feature:literal)?;)*) => {
        &[
            Entry { name: "memcpy", role: Role::Limit, kind: Kind::Memcpy },
            Entry { name: "line", role: Role::Limit, kind: Kind::Line },
            $(
                $(#[cfg(feature = $feature)])?
                Entry { name: $name, role: Role::$role, kind: Kind::Ends(&Of::<$type>::NEW) },
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
            Entry { name: "bbq", role: Role::Rival, kind: Kind::NotBuilt(NO_BBQ) },
        ]
    };
}

const NO_BBQ: &str = "its only crate, bbq-rs 0.1.1, needs a nightly compiler and hands values between \
                      threads of one process";

/// All of them, in the order of the report. To add one, add its line.
pub static ALL: &[Entry] = contestants! {
    "floor" Limit limits::Floor;
    "floor slots" Limit limits::Slots<1, false>;
    "floor layout back" Limit limits::Flag<true, false>;
    "floor flag back" Limit limits::Flag<false, true>;
    "floor flag head back" Limit limits::Flag<true, true>;
    "floor batch" Limit limits::Slots<64, false>;
    "floor back" Limit limits::Slots<1, true>;
    "floor batch back" Limit limits::Slots<64, true>;
    "floor lock word" Limit limits::LockWord;
    "perfring publish" Ours perfring::Calls<Publish>;
    "perfring publish_timeout" Ours perfring::Calls<PublishTimeout>;
    "perfring reserve_timeout" Ours perfring::Calls<ReserveTimeout>;
    "perfring publish_pod" Ours perfring::Calls<PublishPod>;
    "perfring default reader" Ours perfring::Calls<PublishTimeout, true>;
    "perfring in place" Ours perfring::Exclusive;
    "perfring batch" Ours perfring::Batched;
    "perfring values" Ours perfring::Values;
    "perfring half" Ours perfring::Half;
    "perfring shared" Ours perfring::Shared;
    "perfring shared batch" Ours perfring::SharedBatched;
    "perfring named" Ours perfring::Named<false>;
    "perfring named batch" Ours perfring::Named<true>;
    "perfring cpu" Ours perfring::Cpu;
    "perfring rings" Ours perfring::Rings;
    "perfring rings in turn" Ours perfring::InTurn;
    "perfring rings merged" Ours perfring::InOrder;
    "ringfire" Rival ringfire::Slots;
    "ringfire blobs" Rival ringfire::Blobs;
    "ringfire many" Rival ringfire::Many;
    "agrona one-to-one" Rival agrona::OneToOne;
    "agrona many-to-one" Rival agrona::ManyToOne;
    "agrona broadcast" Rival agrona::Broadcast;
    "iceoryx2" Rival crate::contest::iceoryx2::Iceoryx2, if "iceoryx2";
    "aeron invoker 1 MiB" Rival crate::contest::aeron::Aeron<true, 1>, if "aeron";
    "aeron invoker 64 MiB" Rival crate::contest::aeron::Aeron<true, 64>, if "aeron";
    "aeron driver 1 MiB" Rival crate::contest::aeron::Aeron<false, 1>, if "aeron";
    "aeron driver 64 MiB" Rival crate::contest::aeron::Aeron<false, 64>, if "aeron";
    "disruptor-mp" Rival disruptor_mp::DisruptorMp;
    "shmem-ipc" Rival shmem_ipc::ShmemIpc;
    "pipe" Rival pipe::Pipe;
    "pipe each" Rival pipe::PipeEach;
    "unix seqpacket" Rival unix_seqpacket::UnixSeqpacket;
    "unix stream" Rival unix_stream::UnixStream;
    "bpf" Rival bpf::Bpf;
    "bpf quiet" Rival bpf::BpfQuiet;
    "perf buffer" Rival perf_buffer::PerfBuffer;
    "perf overwrite" Rival perf_overwrite::PerfOverwrite;
    "lttng" Rival lttng::Lttng;
    "rtrb" Reference rtrb::Rtrb;
    "photon-ring" Reference photon_ring::PhotonRing;
    "photon-ring many" Reference photon_ring::PhotonRingMany;
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
    let kind = Kind::Ends(&Of::<faulty::Faulty<FAULT>>::NEW);
    Entry { name, role: Role::Rival, kind }
}

/// Returns the contestant of this name.
pub fn by_name(name: &str) -> Option<&'static Entry> {
    ALL.iter().chain(FAULTY).find(|entry| entry.name == name)
}

/// Returns the chosen contestants. Limits always take part: without them a figure says little.
///
/// # Errors
/// [`CompareError::Usage`] if a name is unknown.
pub fn chosen(options: &Options) -> Result<Vec<&'static Entry>, CompareError> {
    if let Some(name) = options.contestants.iter().find(|name| by_name(name).is_none()) {
        return Err(CompareError::Usage(format!("no contestant {name:?}; --list has all")));
    }
    let named = |entry: &&Entry| options.contestants.iter().any(|name| name == entry.name);
    let wanted = |entry: &&Entry| {
        options.contestants.is_empty() || named(entry) || entry.role == Role::Limit
    };
    Ok(ALL.iter().filter(wanted).chain(FAULTY.iter().filter(named)).collect())
}

#[cfg(test)]
mod tests {
    use super::{ALL, FAULTY, Kind};
    use crate::contestant::Setup;
    use perfring_bench::WaitStrategy;

    /// What the size of processes does not show is known of each contestant, and is not zero only
    /// for those in the kernel.
    #[test]
    fn what_the_kernel_holds_is_known() {
        const KERNELS: [&str; 7] = [
            "pipe",
            "pipe each",
            "unix seqpacket",
            "unix stream",
            "bpf",
            "bpf quiet",
            "perf buffer",
        ];
        let setup = Setup {
            data_size: 1 << 18,
            payload: 64,
            overwrite: false,
            senders: 1,
            receivers: 1,
            pace: WaitStrategy::Adaptive,
            sleeping: false,
        };
        for entry in ALL {
            let Kind::Ends(player) = entry.kind else { continue };
            if player.can().lossless.is_err() || player.check().is_err() {
                continue;
            }
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
