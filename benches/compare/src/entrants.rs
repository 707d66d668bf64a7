//! The list of contestants.

use crate::contest::{agrona, bpf, faulty, limits, lttng, pipe, ringfire, shmem_ipc};
use perfring_bench::contestant::{Contestant, Role};
use perfring_bench::entrants::{Entrants, LIMITS, WAYS};
use perfring_bench::player::Entry;
use perfring_bench::workload::Workload;

const fn rival<C: Contestant>(name: &'static str) -> Entry {
    Entry::of::<C>(name, Role::Rival)
}

/// All of them, in the order of the report. To add one, add its line.
pub static ALL: Entrants = Entrants {
    lists: &[
        LIMITS,
        &[
            Entry::of::<limits::Slots>("floor back", Role::Limit),
            Entry::of::<limits::LockWord>("floor lock word", Role::Limit),
        ],
        WAYS,
        &[
            rival::<ringfire::Ringfire>("ringfire"),
            rival::<agrona::OneToOne>("agrona one-to-one"),
            rival::<agrona::ManyToOne>("agrona many-to-one"),
            rival::<agrona::Broadcast>("agrona broadcast"),
            #[cfg(feature = "iceoryx2")]
            rival::<crate::contest::iceoryx2::Iceoryx2>("iceoryx2"),
            #[cfg(not(feature = "iceoryx2"))]
            Entry::not_built(
                "iceoryx2",
                "not compiled in; `cargo run` with `--features iceoryx2` adds it",
            ),
            rival::<shmem_ipc::ShmemIpc>("shmem-ipc"),
            rival::<pipe::Pipe>("pipe"),
            rival::<bpf::Bpf>("bpf"),
            rival::<lttng::Lttng>("lttng"),
        ],
    ],
    named_only: &[
        faulty::<{ faulty::NOTHING }>("faulty: nothing"),
        faulty::<{ faulty::HANGS }>("faulty: hangs"),
        faulty::<{ faulty::DIES }>("faulty: dies"),
        faulty::<{ faulty::DAMAGES }>("faulty: damages"),
        faulty::<{ faulty::LOSES }>("faulty: loses"),
        faulty::<{ faulty::LIES }>("faulty: lies"),
    ],
    workloads: &Workload::ALL,
    commit: Some(env!("COMPARE_COMMIT")),
};

const fn faulty<const FAULT: u8>(name: &'static str) -> Entry {
    rival::<faulty::Faulty<FAULT>>(name)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::ALL;
    use perfring_bench::Options;
    use perfring_bench::case::Case;
    use perfring_bench::kinds::{fits, kinds};
    use perfring_bench::part::Audience;
    use perfring_bench::rows::Kind;
    use perfring_bench::scale::Scale;
    use perfring_bench::workload::Workload;
    use std::process::Command;

    /// What the size of processes does not show is known of each contestant, and is not zero only
    /// for those in the kernel.
    #[test]
    fn what_the_kernel_holds_is_known() {
        const KERNELS: [&str; 2] = ["pipe", "bpf"];
        let scale = Scale { data_size: 1 << 18, ..Scale::default() };
        for entry in ALL.all() {
            let Some(player) = entry.player() else { continue };
            if (player.can)().lossless.is_err() || (player.check)().is_err() {
                continue;
            }
            let setup = Case { kind: Kind::of(Workload::Memory, 64), entry: *entry }.setup(&scale);
            let bytes = (player.kernel_bytes)(&setup);
            let is_kernels = KERNELS.contains(&entry.name);
            assert_eq!(bytes.map(|bytes| bytes > 0), Some(is_kernels), "{}: {bytes:?}", entry.name);
            if entry.name == "pipe" {
                assert!(bytes >= Some(1 << 16), "{bytes:?}");
            }
        }
    }

    #[test]
    fn nobody_takes_part_twice() {
        let mut names: Vec<&str> =
            ALL.all().chain(ALL.named_only).map(|entry| entry.name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn who_cannot_be_followed_is_absent_there_only() {
        let fits = |name: &str, workload, wanted: &dyn Fn(&Kind) -> bool| {
            let kinds = kinds(&Options::default(), &Workload::ALL).into_iter();
            let mut kinds = kinds.filter(|kind| kind.workload == workload);
            fits(&kinds.find(|kind| wanted(kind)).unwrap(), &ALL.by_name(name).unwrap())
        };
        for audience in [Audience::Slow, Audience::Keen] {
            let why = fits("lttng", Workload::Overwrite, &|kind| kind.audience == audience);
            assert!(why.unwrap_err().unwrap().contains("snapshot"));
        }
        let alone = fits("lttng", Workload::Overwrite, &|kind| kind.audience == Audience::None);
        assert_eq!(alone, Ok(()));
        assert_eq!(fits("perfring named", Workload::Fanout, &|kind| !kind.lossy), Ok(()));
        assert!(fits("perfring named", Workload::Fanout, &|kind| kind.lossy).is_err());
        // Nothing waits for perfring's observers; ringfire can do both.
        assert!(fits("perfring in place", Workload::Fanout, &|kind| !kind.lossy).is_err());
        assert_eq!(fits("perfring in place", Workload::Fanout, &|kind| kind.lossy), Ok(()));
        assert_eq!(fits("ringfire", Workload::Fanout, &|kind| !kind.lossy), Ok(()));
    }

    /// Cargo rebuilds after each commit: a header that names another one is detected here.
    #[test]
    fn the_commit_is_that_of_the_source() {
        let output = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output();
        let Some(output) = output.ok().filter(|output| output.status.success()) else {
            assert_eq!(env!("COMPARE_COMMIT"), "unknown");
            return;
        };
        let head = String::from_utf8_lossy(&output.stdout);
        assert_eq!(env!("COMPARE_COMMIT").trim_end_matches("-dirty"), head.trim());
    }
}
