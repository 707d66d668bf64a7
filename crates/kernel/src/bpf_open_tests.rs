#![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use super::*;

/// No two reasons have one sentence. Each names the place and says what to do.
#[test]
fn each_reason_has_a_sentence_that_says_what_to_do() {
    let pinned = BpfOptions::of(BpfPlace::Pinned("/sys/fs/bpf/events".into()));
    let by_id = BpfOptions::of(BpfPlace::Id(7));
    let other =
        || NoBpfMap::Other { step: "mapping it", source: io::ErrorKind::OutOfMemory.into() };
    let mut sentences = Vec::new();
    for (options, reason, place, what) in [
        (&pinned, NoBpfMap::NotFound, "/sys/fs/bpf/events", "bpftool map pin"),
        (&by_id, NoBpfMap::NotFound, "id 7", "`bpftool map` lists"),
        (&pinned, NoBpfMap::NotPinned, "/sys/fs/bpf/events", "or id:N"),
        (&pinned, NoBpfMap::NotMap("program"), "/sys/fs/bpf/events", "is a BPF program, not a map"),
        (&pinned, NoBpfMap::Kind(1), "/sys/fs/bpf/events", "of the type hash, not a ring buffer"),
        (&pinned, NoBpfMap::Kind(31), "/sys/fs/bpf/events", "user space writes it"),
        (&by_id, NoBpfMap::Kind(4), "id:7", "perf's rings"),
        (&by_id, NoBpfMap::Kind(99), "id:7", "of the type number 99"),
        (&pinned, NoBpfMap::Forbidden, "/sys/fs/bpf/events", "have CAP_BPF"),
        (&by_id, NoBpfMap::Forbidden, "id:7", "CAP_SYS_ADMIN, or name the path"),
        (&pinned, NoBpfMap::Denied, "/sys/fs/bpf/events", "have its owner allow that"),
        (&pinned, NoBpfMap::Frozen, "/sys/fs/bpf/events", "is frozen"),
        (&pinned, NoBpfMap::Missing, "", "older than Linux 5.8"),
        (&pinned, NoBpfMap::Descriptors, "/sys/fs/bpf/events", "ulimit -n"),
        (&pinned, other(), "/sys/fs/bpf/events", "mapping it: out of memory"),
    ] {
        let error = BpfOpenError::of(options, reason).to_string();
        assert!(error.contains(place) && error.contains(what), "{error}");
        sentences.push(error);
    }
    let all = sentences.len();
    sentences.sort();
    sentences.dedup();
    assert_eq!(sentences.len(), all, "two reasons have one sentence");
}

#[test]
fn map_types_have_the_kernels_names() {
    for (kind, name) in [
        (0, "unspec"),
        (4, "perf_event_array"),
        (27, "ringbuf"),
        (31, "user_ringbuf"),
        (33, "arena"),
    ] {
        assert_eq!(kind_of(kind), name);
    }
}
