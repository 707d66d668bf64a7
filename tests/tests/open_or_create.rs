//! A ring is opened, or made if it is missing: processes and threads that do so at once get one ring, and a
//! ring with other options is refused with the name of the option that differs.

use perfring_consumer::Observer;
use perfring_producer::{
    AttachError, CpuProducer, OpenError, Options, Policy, Producer, Report, ReserveError,
    SharedProducer,
    error::{CpuSetError, CreateError},
    files::{create, create_if_missing},
};
use perfring_testkit::wait::WATCHDOG;
use perfring_tests::shared::Driven;
use perfring_tests::{actor, ring_dir, skip};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Barrier;

const ROUNDS: usize = 200;
const AT_ONCE: usize = 4;

fn uuid_of(ring: &Path) -> u128 {
    let observer = Observer::attach(ring, perfring_consumer::Start::Oldest).unwrap();
    u128::from_be_bytes(observer.layout().uuid)
}

#[test]
fn processes_that_open_or_create_a_ring_at_once_get_one_ring() {
    for kind in ["one", "many"] {
        let dir = ring_dir();
        let exe = env!("CARGO_BIN_EXE_opener");
        let mut openers: Vec<Driven> = (0..AT_ONCE)
            .map(|_| {
                let (driven, said) = Driven::of(&mut actor(exe, &[kind], dir.path()));
                assert_eq!(said, "ready");
                driven
            })
            .collect();
        let mut winners = [0; AT_ONCE];
        for round in 0..ROUNDS {
            let name = format!("ring-{round}");
            let ring = dir.path().join(&name);
            openers.iter_mut().for_each(|opener| opener.send(&name));
            let answers: Vec<String> = openers.iter_mut().map(Driven::line).collect();
            let id = format!("{:032x}", uuid_of(&ring));
            let got: Vec<usize> =
                (0..AT_ONCE).filter(|nth| answers[*nth].starts_with(&id)).collect();
            winners[got[0]] += 1;
            match kind {
                "one" => {
                    let busy = answers.iter().filter(|answer| *answer == "busy").count();
                    assert_eq!((got.len(), busy), (1, AT_ONCE - 1), "{round}: {answers:?}");
                }
                _ => {
                    let slots: BTreeSet<&String> = answers.iter().collect();
                    assert_eq!(
                        (got.len(), slots.len()),
                        (AT_ONCE, AT_ONCE),
                        "{round}: {answers:?}"
                    );
                }
            }
            std::fs::remove_file(ring).unwrap();
        }
        // No draft is left behind either.
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
        println!("{kind}: {ROUNDS} rounds, first by process {winners:?}");
        openers.iter_mut().for_each(Driven::end);
    }
}

#[test]
fn threads_that_open_or_create_a_shared_ring_at_once_lose_nothing() {
    let dir = ring_dir();
    let start = Barrier::new(AT_ONCE);
    for round in 0..ROUNDS {
        let ring = dir.path().join(round.to_string());
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(|| {
                    start.wait();
                    let options = Options { size: 1 << 16, types_size: 0, ..Options::many() };
                    let producer = SharedProducer::open_or_create(&ring, &options).unwrap();
                    producer.set_lock_wait(WATCHDOG);
                    producer.publish(b"one each").unwrap();
                });
            }
        });
        let consumer = perfring_consumer::stat::Stat::read(&ring).unwrap();
        assert_eq!(consumer.totals.unwrap().producer.written.records, AT_ONCE as u64, "{round}");
        std::fs::remove_file(&ring).unwrap();
    }
}

/// Returns the error for options that differ from the ring's.
fn differs(ring: &Path, options: &Options) -> (&'static str, String, String) {
    match Producer::open_or_create(ring, options) {
        Err(error @ OpenError::Differs { option, .. }) => {
            let said = error.to_string();
            let OpenError::Differs { wanted, found, .. } = error else { unreachable!() };
            for part in [option, &wanted, &found, &ring.display().to_string()] {
                assert!(said.contains(part), "{part} is not in {said}");
            }
            (option, wanted, found)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn options_that_differ_from_the_rings_are_named() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    let made = Options { types_size: 5000, ..Options::default() };
    create(&ring, &made).unwrap();
    let before = std::fs::read(&ring).unwrap();
    let said =
        |option: &'static str, wanted: &str, found: &str| (option, wanted.into(), found.into());
    for (options, expected) in [
        (Options { size: 1 << 21, ..made }, said("size", "2097152", "1048576")),
        (Options { policy: Policy::Overwrite, ..made }, said("policy", "Overwrite", "Drop")),
        (Options { types_size: 8193, ..made }, said("types_size", "12288", "8192")),
        (Options { time: true, ..made }, said("time", "true", "false")),
        (Options { aux_size: 1 << 16, ..made }, said("aux_size", "65536", "0")),
    ] {
        assert_eq!(differs(&ring, &options), expected);
    }
    let counters = Options { report: Report::CountersOnly, ..made };
    assert_eq!(differs(&ring, &counters).1, "CountersOnly");
    assert!(before == std::fs::read(&ring).unwrap(), "a refused ring was written to");
    // A size that rounds to the same, and options without effect here: the mode, options of other kinds of rings.
    let same = Options { types_size: 8192, mode: 0o640, slots: 9, ..Options::many() };
    Producer::open_or_create(&ring, &same).unwrap();

    let shared = dir.path().join("shared");
    create(&shared, &Options::many()).unwrap();
    let fewer = SharedProducer::open_or_create(&shared, &Options { slots: 3, ..Options::many() });
    assert!(matches!(fewer.unwrap_err(), OpenError::Differs { option: "slots", .. }));
    SharedProducer::open_or_create(&shared, &Options::default()).unwrap();
}

#[test]
fn a_ring_is_made_only_if_it_is_missing() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    create_if_missing(&ring, &Options::default()).unwrap();
    let made = uuid_of(&ring);
    let _taken = Producer::attach(&ring).unwrap();
    create_if_missing(&ring, &Options::default()).unwrap();
    assert_eq!(uuid_of(&ring), made);
    let kind = create_if_missing(&ring, &Options::many()).unwrap_err();
    assert!(matches!(kind, OpenError::Attach(AttachError::Kind { .. })), "{kind}");
}

#[test]
fn a_taken_ring_and_one_of_the_other_kind_say_so() {
    let dir = ring_dir();
    let (one, many) = (dir.path().join("one"), dir.path().join("many"));
    let options = Options { slots: 1, ..Options::many() };
    let _one = Producer::open_or_create(&one, &options).unwrap();
    let _many = SharedProducer::open_or_create(&many, &options).unwrap();

    let busy = Producer::open_or_create(&one, &options).unwrap_err();
    assert!(matches!(busy, OpenError::Attach(AttachError::Busy { .. })), "{busy}");
    let full = SharedProducer::open_or_create(&many, &options).unwrap_err();
    assert!(matches!(full, OpenError::Attach(AttachError::Slots { slots: 1, .. })), "{full}");
    let kind = SharedProducer::open_or_create(&one, &options).unwrap_err();
    assert!(kind.to_string().contains("made for one producer"), "{kind}");
    let kind = Producer::open_or_create(&many, &options).unwrap_err();
    assert!(kind.to_string().contains("made for many producers"), "{kind}");
}

#[test]
fn what_is_no_ring_stays_as_it_is() {
    let dir = ring_dir();
    let file = dir.path().join("file");
    std::fs::write(&file, "a letter").unwrap();
    let bad = Producer::open_or_create(&file, &Options::default()).unwrap_err();
    assert!(matches!(bad, OpenError::Attach(AttachError::Bad { .. })), "{bad}");
    assert_eq!(std::fs::read(&file).unwrap(), b"a letter");
    // A name that leads nowhere: neither there nor free.
    let link = dir.path().join("link");
    std::os::unix::fs::symlink("nowhere", &link).unwrap();
    let error = Producer::open_or_create(&link, &Options::default()).unwrap_err();
    assert!(matches!(error, OpenError::Create(CreateError::Link { .. })), "{error}");
    let size =
        Producer::open_or_create(dir.path().join("x"), &Options { size: 5, ..Options::default() });
    assert!(matches!(size, Err(OpenError::Create(CreateError::Size { size: 5, .. }))));
}

#[test]
fn errors_show_their_sentence_also_as_debug() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    let mut errors: Vec<Box<dyn std::error::Error>> = vec![
        Box::new(Producer::attach(&ring).unwrap_err()),
        Box::new(create(&ring, &Options { size: 5, ..Options::default() }).unwrap_err()),
        Box::new(perfring_consumer::Consumer::attach(&ring).unwrap_err()),
    ];
    let mut producer =
        Producer::create(&ring, &Options { size: 4096, ..Options::default() }).unwrap();
    errors.push(Box::new(Producer::create(&ring, &Options::default()).unwrap_err()));
    errors.push(Box::new(Producer::open_or_create(&ring, &Options::default()).unwrap_err()));
    errors.push(Box::new(producer.publish(&[0; 5000]).unwrap_err()));
    errors.push(Box::new(ReserveError::Full));
    errors.push(Box::new(ReserveError::Type(perfring_producer::error::TypeError::Busy)));
    for error in errors {
        let (debug, said) = (format!("{error:?}"), error.to_string());
        assert_eq!(debug, said);
        assert!(said.contains(' ') && !said.contains('{'), "{said}");
    }
}

/// The uid of another user.
const NOBODY: u32 = 65534;

#[test]
fn a_ring_that_another_user_can_have_put_there_is_refused_unless_told_otherwise() {
    if !nix::unistd::geteuid().is_root() {
        return skip("only root can make another user's ring");
    }
    let dir = ring_dir();
    let own = Options::default();
    let any = Options { any_owner: true, ..own };
    let open = |ring: &Path, options: &Options| {
        Producer::open_or_create(ring, options).map(|mut producer| producer.publish(b"x").unwrap())
    };
    let gives_to_nobody =
        |path: &Path| std::os::unix::fs::lchown(path, Some(NOBODY), None).unwrap();
    let of_nobody = |error: OpenError| matches!(error, OpenError::Owner { owner: NOBODY, .. });

    let ring = dir.path().join("ring");
    create(&ring, &own).unwrap();
    gives_to_nobody(&ring);
    let before = std::fs::read(&ring).unwrap();
    let refused = open(&ring, &own).unwrap_err();
    assert!(refused.to_string().contains("belongs to user 65534"), "{refused}");
    assert!(of_nobody(refused));
    assert!(of_nobody(create_if_missing(&ring, &own).unwrap_err()));
    assert!(std::fs::read(&ring).unwrap() == before, "nothing was written");
    open(&ring, &any).unwrap();
    Producer::attach(&ring).unwrap();

    // A link to a ring of one's own; and to nothing.
    let mine = dir.path().join("mine");
    create(&mine, &own).unwrap();
    for target in ["mine", "nothing"] {
        let link = dir.path().join(format!("link to {target}"));
        std::os::unix::fs::symlink(target, &link).unwrap();
        if target == "mine" {
            open(&link, &own).unwrap();
        }
        gives_to_nobody(&link);
        assert!(of_nobody(open(&link, &own).unwrap_err()), "{target}");
    }
    assert!(!dir.path().join("nothing").exists());
    // One's own link to another user's, which leads to a ring of one's own.
    let chain = dir.path().join("chain");
    std::os::unix::fs::symlink("link to mine", &chain).unwrap();
    let refused = open(&chain, &own).unwrap_err();
    let said = "link to mine, a symbolic link, belongs to user 65534";
    assert!(refused.to_string().contains(said), "{refused}");
    open(&chain, &any).unwrap();

    // A set: its directory, and a ring in it.
    let per_cpu = Options::per_cpu();
    let any = Options { any_owner: true, ..per_cpu };
    let set = dir.path().join("set");
    drop(CpuProducer::create(&set, &per_cpu).unwrap());
    for path in std::fs::read_dir(&set).unwrap().map(|it| it.unwrap().path()).chain([set.clone()]) {
        gives_to_nobody(&path);
        let CpuSetError::Ring(refused) = CpuProducer::open_or_create(&set, &per_cpu).unwrap_err()
        else {
            panic!("{path:?}")
        };
        assert!(of_nobody(refused), "{path:?}");
        drop(CpuProducer::open_or_create(&set, &any).unwrap());
        drop(CpuProducer::attach(&set).unwrap());
        std::os::unix::fs::chown(&path, Some(0), None).unwrap();
    }
    // The ring of a CPU that this thread is not on.
    let other = set.join("cpu4000");
    create(&other, &Options { cpu: 4000, ..per_cpu }).unwrap();
    drop(CpuProducer::open_or_create(&set, &per_cpu).unwrap());
    gives_to_nobody(&other);
    let refused = CpuProducer::open_or_create(&set, &per_cpu).unwrap_err();
    assert!(
        matches!(refused, CpuSetError::Ring(OpenError::Owner { owner: NOBODY, .. })),
        "{refused}"
    );
}

#[test]
fn a_ring_that_lets_in_more_than_was_asked_for_is_refused() {
    let dir = ring_dir();
    for (found, wanted, taken) in [
        (0o600, 0o600, true),
        (0o600, 0o666, true),
        (0o640, 0o640, true),
        (0o755, 0o744, true), // nothing is executed
        (0o640, 0o600, false),
        (0o620, 0o640, false),
        (0o666, 0o600, false),
        (0o604, 0o660, false),
    ] {
        let ring = dir.path().join(format!("{found:o} {wanted:o}"));
        create(&ring, &Options { mode: found, ..Options::default() }).unwrap();
        let options = Options { mode: wanted, ..Options::default() };
        let opened = Producer::open_or_create(&ring, &options).map(drop);
        match opened {
            Ok(()) => assert!(taken, "{found:o} {wanted:o}"),
            Err(OpenError::Mode { .. }) => assert!(!taken, "{found:o} {wanted:o}"),
            Err(error) => panic!("{error}"),
        }
        Producer::open_or_create(&ring, &Options { any_owner: true, ..options }).unwrap();
    }
}

#[test]
fn in_a_set_that_all_may_write_to_nobody_replaces_the_rings_of_another_user() {
    use std::os::unix::fs::PermissionsExt;
    let dir = ring_dir();
    for (ring, expected) in
        [(0o600, 0o700), (0o640, 0o750), (0o660, 0o770), (0o644, 0o755), (0o666, 0o1777)]
    {
        let set = dir.path().join(format!("{ring:o}"));
        drop(CpuProducer::create(&set, &Options { mode: ring, ..Options::per_cpu() }).unwrap());
        let mode = std::fs::metadata(&set).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode, expected, "{ring:o}");
    }
}

/// In a volume of several containers: the ring belongs to the group of its readers.
#[test]
fn a_set_in_a_directory_of_a_group_has_that_group() {
    use std::os::unix::fs::PermissionsExt;
    let dir = ring_dir();
    let mode = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(dir.path(), mode(0o2770)).unwrap();
    let sets = [dir.path().join("per cpu"), dir.path().join("by threads")];
    let options = Options { mode: 0o660, ..Options::per_cpu() };
    drop(CpuProducer::create(&sets[0], &options).unwrap());
    perfring_consumer::create_dir(&sets[1], 0o770).unwrap();
    for set in sets {
        let mode = std::fs::metadata(&set).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode, 0o2770, "{}", set.display());
    }
}
