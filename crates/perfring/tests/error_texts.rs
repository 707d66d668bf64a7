//! The guide's page of error messages has the texts that users see.

use perfring::{
    AttachError, Location, OpenError, Producers, ReadError, ReserveError,
    error::{BadRing, ClockError, CpuSetError, CreateError, NoRseq, TypeError, TypeMismatch},
    files::Role,
    metrics::{BadArea, BadPart, MetricKind, MetricsError},
    stat::OwnerInfo,
};
use perfring_testkit::headings::begins;
use std::fmt::{Debug, Display};

const PAGE: &str = include_str!("../src/guide/errors.md");
/// Headings that are the compiler's, the shell's or the command's, which `tools/newcomer` runs.
const OTHERS: [&str; 28] = [
    "Bus error (core dumped)",
    "A consumer waits for ever",
    "the trait bound `…: Pod` is not satisfied",
    "cannot find `bytemuck` in the crate root",
    "cannot find `perfring_types` in the crate root",
    "could not find `read` in `types`",
    "this build has no …",
    // `perfring-export` compares them.
    "… answers …: …; records are held until it accepts them",
    "… items were refused (…): …",
    // The command's tests of `perfring view` compare these.
    "cannot listen at …: …; another process listens there: choose another port, or 0 for a free one",
    "cannot listen at …: …; ports below 1024 are not for every user: choose a higher one, or 0 for a free one",
    "cannot listen at …: …; this machine has no such address: `ip address` lists those it has",
    "cannot listen at …: …; write an address of this machine and a port, as 127.0.0.1:0",
    "there is no …: check the path; rings that come later are shown, so the directory is enough",
    "cannot read …: …; its owner may read it, or let you",
    "… is neither a ring nor a recording: …",
    "…: the recording has no end: it was truncated, or is still being written; …",
    "… is not a loopback address: what the page shows crosses the network unencrypted",
    "open the address that `perfring view` printed: it has a token",
    "this server has another name: open it by an address, or by the name that `--listen` has",
    // `perfring-sidecar` compares these.
    "another sidecar listens on …: end it by `perfring sidecar drain`, or set another path in [control]",
    "[control]: cannot listen on …: …",
    "[control]: there is no directory for the socket: set path, or RUNTIME_DIRECTORY or XDG_RUNTIME_DIR in the environment",
    "[health]: cannot listen on …: …",
    "no sidecar listens on …: …; it does if its configuration has [control], or with --control, …",
    "no permission to use the socket …: only root and the sidecar's user may",
    "the sidecar at … gave no answer: …",
    "this build has no health: …",
];

fn of_rings() -> Vec<AttachError> {
    let location = || Location::from("/dev/shm/ticks");
    let holder =
        || OwnerInfo { pid: 17, uid: 1000, name: "shop".to_owned(), ..OwnerInfo::default() };
    let bad = [
        BadRing::Short { len: 10 },
        BadRing::Foreign { magic: 17 },
        BadRing::Endian,
        BadRing::Newer { version: 3, compat: 2 },
        BadRing::Features { unknown: 1 << 60 },
        BadRing::Field { name: "data_size", value: 3 },
        BadRing::Truncated { len: 4096, needed: 8192 },
    ];
    let mut all: Vec<_> =
        bad.map(|source| AttachError::Bad { location: location(), source }).into_iter().collect();
    all.extend([
        AttachError::NotFound { location: location(), leads_to: None, holder: None },
        AttachError::NotFound {
            location: location(),
            leads_to: Some("/run/ticks".into()),
            holder: None,
        },
        AttachError::NotFound {
            location: Location::from("/tmp/disk.img@0x2000"),
            leads_to: None,
            holder: Some("/tmp/disk.img".into()),
        },
        AttachError::NotReachable { location: location(), dir: "/run/closed".into() },
        AttachError::ReadOnly { location: location() },
        AttachError::Permission { location: location(), wanted: "reading" },
        AttachError::NotRemovable { location: location() },
        AttachError::NoSpace { location: location() },
        AttachError::Removed { location: location() },
        AttachError::Busy { location: location(), role: Role::Producer, holder: holder() },
        AttachError::Slots { location: location(), slots: 64 },
        AttachError::Consumers { location: location(), consumers: 2 },
        AttachError::Kind { location: location(), producers: Producers::One },
        AttachError::HeldUp { location: location(), slot: 3, holder: holder() },
        AttachError::ReadLocked { location: location() },
        AttachError::UnderOverlay { location: location(), shown: "/merged/ticks".into() },
        AttachError::TooLargeToCopy { location: location(), size: 1 << 30 },
        AttachError::Clock { location: location(), source: ClockError::OtherNamespace },
        AttachError::PageSize { location: location(), ring: 4096, host: 65_536 },
        AttachError::OtherBoot { location: location() },
        AttachError::Rseq { location: location(), source: NoRseq::Taken },
    ]);
    all
}

/// Returns the sentence, which `main() -> Result` and `unwrap` print, too.
fn said<E: Debug + Display>(error: &E) -> String {
    assert_eq!(format!("{error:?}"), error.to_string());
    error.to_string()
}

fn texts() -> Vec<String> {
    let location = || Location::from("/dev/shm/ticks");
    let create = [
        CreateError::Exists { location: location() },
        CreateError::Link { location: location(), leads_to: "/run/ticks".into() },
        CreateError::Permission { location: location(), dir: "/run/closed".into() },
        CreateError::Size { size: 5, min: 4096 },
        CreateError::NoSpace { location: location(), needed: 1 << 30 },
        CreateError::FileSizeLimit { location: location(), needed: 1 << 30, limit: 1 << 20 },
        CreateError::Clock { location: location(), source: ClockError::Offsets },
        CreateError::SampleId,
        CreateError::NoSegments { name: "ticks".into() },
        CreateError::Consumers { consumers: 33 },
        CreateError::Cpu { cpu: 9000 },
    ];
    let dir = || "/dev/shm/set".into();
    let set = [
        CpuSetError::Empty { dir: dir() },
        CpuSetError::Exists { dir: dir() },
        CpuSetError::Rseq { source: NoRseq::Unregistered },
        CpuSetError::Clock { source: ClockError::Offsets },
        CpuSetError::Cpu { cpu: 9000 },
        CpuSetError::Interrupted { cpu: 3 },
        CpuSetError::Types { cpu: 3, source: ReserveError::Type(TypeError::Busy) },
    ];
    let rseq = [NoRseq::Architecture, NoRseq::Taken, NoRseq::Unregistered];
    let differs = [
        OpenError::Differs {
            location: location(),
            option: "size",
            wanted: "4096".to_owned(),
            found: "8192".to_owned(),
        },
        OpenError::Owner { location: location(), link: false, owner: 1001 },
        OpenError::Owner { location: location(), link: true, owner: 1001 },
        OpenError::Mode { location: location(), wanted: 0o600, found: 0o666 },
    ];
    let reserve = [
        ReserveError::Full,
        ReserveError::TooLarge { len: 70_000, max: 65_528 },
        ReserveError::Contended { slot: 3 },
        ReserveError::Pending { slot: 3 },
        ReserveError::BatchFull,
        ReserveError::Forked,
        ReserveError::Replaced,
        ReserveError::NoRing { cpu: 3 },
        ReserveError::Detached,
        ReserveError::Corrupt { tail: 7 },
        ReserveError::Truncated,
        ReserveError::NoSpace,
        ReserveError::Type(TypeError::NoTable),
        ReserveError::Type(TypeError::Full { needed: 300, left: 17 }),
        ReserveError::Type(TypeError::Taken { id: 5000 }),
    ];
    let read = [
        ReadError::Corrupt { pos: 17 },
        ReadError::Truncated,
        ReadError::NoSpace,
        ReadError::OutOfMemory { bytes: 1 << 30 },
        ReadError::Removed,
    ];
    let damage = BadArea { at: 192, what: BadPart::Size, value: 72 };
    let (present, wanted) = (MetricKind::CounterU64, MetricKind::CounterF64);
    let metrics = [
        MetricsError::NoArea { location: location() },
        MetricsError::Full { location: location(), needed: 128, left: 64 },
        MetricsError::OtherKind { present, wanted },
    ];
    let mut all =
        vec![TypeMismatch::Kind { kind: 5000, wanted: 5001 }.to_string(), damage.to_string()];
    all.extend(metrics.iter().map(said));
    all.extend(differs.iter().map(said));
    all.extend(of_rings().iter().map(|error| match error {
        // The page has it without the ring's name.
        AttachError::Bad { source, .. } => source.to_string(),
        error => said(error),
    }));
    all.extend(create.iter().map(said));
    all.extend(set.iter().map(said));
    all.extend(rseq.iter().map(said));
    all.extend(reserve.iter().map(said));
    all.extend(read.iter().map(said));
    all
}

#[test]
fn every_heading_is_a_text_that_users_see_and_every_such_text_is_on_the_page() {
    // A bracket is escaped there, as it would begin a link.
    let plain = |line: &str| Some(line.strip_prefix("## ")?.replace('\\', ""));
    let headings: Vec<String> = PAGE.lines().filter_map(plain).collect();
    let texts = texts();
    for heading in headings.iter().filter(|heading| !OTHERS.contains(&heading.as_str())) {
        assert!(texts.iter().any(|text| begins(text, heading)), "no error says: {heading}");
    }
    for text in &texts {
        let short = text.starts_with("not a perfring file: 10 bytes");
        let found = headings.iter().any(|heading| begins(text, heading));
        assert!(found || short, "not on the page: {text}");
    }
    println!("{} headings, {} texts", headings.len(), texts.len());
}

#[cfg(all(feature = "context", feature = "set", feature = "telemetry"))]
#[test]
fn the_errors_of_sets_sinks_and_contexts_print_their_sentences_too() {
    use perfring::context::ContextError;
    use perfring::set::{FollowError, SetError, SourceError};
    use perfring::telemetry::SinkError;
    let location = || Location::from("/dev/shm/ticks");
    let denied = || std::io::Error::from_raw_os_error(13);
    let dir = || std::path::PathBuf::from("/dev/shm/set");
    let texts = [
        said(&ContextError::Denied { pid: 17 }),
        said(&ContextError::Invalid { pid: 17, why: "its length is odd" }),
        said(&ContextError::Io { pid: 17, source: denied() }),
        said(&FollowError::Io { dir: dir(), step: "watching it", source: denied() }),
        said(&FollowError::Clock(ClockError::OtherNamespace)),
        said(&SetError::Dir { dir: dir(), step: "making it", source: denied() }),
        said(&SetError::Foreign { path: dir(), owner: 1001, me: 1000 }),
        said(&SetError::Create(CreateError::Exists { location: location() })),
        said(&SourceError::Read(ReadError::Truncated)),
        said(&SinkError::Attach(AttachError::ReadOnly { location: location() })),
        said(&SinkError::First(ReserveError::Full)),
    ];
    for text in texts {
        assert!(text.contains(' ') && !text.contains('{'), "{text}");
    }
}
