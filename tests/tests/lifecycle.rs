//! Permission to attach, the state after a restart, and the errors of refusals.

use perfring_abi::{HeaderPage, MAGIC};
use perfring_consumer::{
    AttachError, Consumer, Item, Observer, Policy, Snapshot, Start, stat::Stat,
};
use perfring_producer::{
    Options, Producer, ReserveError,
    error::CreateError,
    files::{Removal, create, remove},
};
use perfring_tests::{NUMBERED, actor, number_of, numbered, numbers, ring_dir, skip};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A process that holds a seat and answers line by line.
struct Holder {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Holder {
    fn start(role: &str, ring: &Path) -> Self {
        let mut child = actor(env!("CARGO_BIN_EXE_actor"), &["hold", role], ring)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("an actor");
        let to = child.stdin.take().expect("its stdin");
        let from = BufReader::new(child.stdout.take().expect("its stdout"));
        let mut holder = Holder { child, to, from };
        assert_eq!(holder.line(), "attached");
        holder
    }

    fn ask(&mut self, what: &str) {
        writeln!(self.to, "{what}").expect("the actor listens");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).expect("the actor answers");
        line.trim().to_owned()
    }

    fn kill(mut self) {
        self.child.kill().expect("a kill");
        self.child.wait().expect("a death");
    }
}

fn read_numbers(consumer: &mut Consumer) -> Vec<u64> {
    let mut found = Vec::new();
    while let Some(item) = consumer.read().unwrap() {
        if let Item::Record(record) = item {
            found.push(number_of(record.bytes));
        }
    }
    found
}

#[test]
fn one_producer_and_one_consumer_at_a_time_and_the_error_names_the_holder() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    create(&ring, &Options::default()).unwrap();
    let (producer, consumer) = (Holder::start("producer", &ring), Holder::start("consumer", &ring));
    for (error, role, pid) in [
        (Producer::attach(&ring).unwrap_err(), "producer", producer.child.id()),
        (Consumer::attach(&ring).unwrap_err(), "consumer", consumer.child.id()),
    ] {
        let said = error.to_string();
        println!("{said}");
        assert!(matches!(error, AttachError::Busy { holder, .. } if holder.pid == pid));
        assert!(said.contains(role) && said.contains("the-holder"), "{said}");
    }
    let stat = Stat::read(&ring).unwrap();
    assert!(stat.producer.is_alive() && stat.consumer.is_alive());
    assert!(matches!(remove(&ring, Removal::IfFree), Err(AttachError::Busy { .. })));
    // Death frees the seats: the kernel's locks decide, not pids.
    producer.kill();
    consumer.kill();
    let stat = Stat::read(&ring).unwrap();
    assert!(!stat.producer.is_alive() && !stat.consumer.is_alive());
    assert_eq!((stat.producer.owner.epoch, stat.consumer.owner.epoch), (1, 1));
    drop((Producer::attach(&ring).unwrap(), Consumer::attach(&ring).unwrap()));
    assert_eq!(Stat::read(&ring).unwrap().producer.owner.epoch, 2);
    remove(&ring, Removal::IfFree).unwrap();
    assert!(!ring.exists());
}

#[test]
fn either_side_is_killed_and_restarted_and_nothing_is_lost_or_doubled() {
    for policy in [Policy::Drop, Policy::Overwrite] {
        let dir = ring_dir();
        let ring = dir.path().join("ring");
        create(&ring, &Options { policy, ..Options::default() }).unwrap();
        let mut number = 0;
        let mut read = 0;
        for round in 0..20 {
            let mut producer = Holder::start("producer", &ring);
            for _ in 0..10 {
                producer.ask(&number.to_string());
                assert_eq!(producer.line(), "published");
                number += 1;
            }
            let mut consumer = Holder::start("consumer", &ring);
            let count = 5 + round % 6;
            consumer.ask(&count.to_string());
            for _ in 0..count {
                assert_eq!(consumer.line(), read.to_string());
                read += 1;
            }
            assert_eq!(consumer.line(), "done");
            producer.kill();
            consumer.kill();
        }
        let mut consumer = Consumer::attach(&ring).unwrap();
        assert!(read_numbers(&mut consumer).into_iter().eq(read..number));
        drop(consumer);
        let totals = Stat::read(&ring).unwrap().totals.unwrap();
        assert_eq!(totals.producer.written.records, number);
        assert_eq!(totals.consumer.read.records, number);
        println!("{}: {number} records over 20 deaths of each side", policy.name());
    }
}

#[test]
fn what_was_read_and_not_released_comes_again() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    let mut producer = Producer::create(&ring, &Options::default()).unwrap();
    for number in 0..10 {
        producer.publish_as(NUMBERED, &numbered(number, 16)).unwrap();
    }
    let mut consumer = Consumer::attach(&ring).unwrap();
    let pinned = consumer.pinned().unwrap().unwrap();
    let held: Vec<_> = std::iter::from_fn(|| pinned.read().unwrap()).collect();
    assert_eq!(held.len(), 10);
    pinned.put_back();
    assert_eq!(read_numbers(&mut consumer).len(), 10);
    drop(consumer); // releases
    assert_eq!(read_numbers(&mut Consumer::attach(&ring).unwrap()).len(), 0);
}

#[test]
fn a_ring_has_the_requested_mode_with_any_umask() {
    let dir = ring_dir();
    for (umask, mode) in [("000", 0o600), ("077", 0o644), ("027", 0o666)] {
        let ring = dir.path().join(format!("ring-{umask}"));
        // The umask belongs to the process: another process creates the ring.
        let done = Command::new("sh")
            .args(["-c", "umask $0; exec \"$@\"", umask, env!("CARGO_BIN_EXE_actor"), "create"])
            .arg(format!("{mode:o}"))
            .arg(&ring)
            .status()
            .unwrap();
        assert!(done.success());
        assert_eq!(ring.metadata().unwrap().permissions().mode() & 0o777, mode);
    }
}

#[test]
fn a_new_ring_is_whole_allocated_and_alone() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    create(&ring, &Options { size: 1 << 20, ..Options::default() }).unwrap();
    let meta = ring.metadata().unwrap();
    assert!(meta.blocks() * 512 >= meta.len(), "{} of {}", meta.blocks() * 512, meta.len());
    let names: Vec<_> = dir.path().read_dir().unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["ring"], "no temporary file is left");
    assert!(matches!(create(&ring, &Options::default()), Err(CreateError::Exists { .. })));
    for size in [0, 1, 4095, 5000, 1 << 41] {
        let error = create(dir.path().join("x"), &Options { size, ..Options::default() });
        assert!(matches!(error, Err(CreateError::Size { .. })), "{size}");
    }
    let error = create(dir.path().join("x"), &Options { mode: 0o4755, ..Options::default() });
    assert!(matches!(error, Err(CreateError::Mode { .. })));
    let error = create(dir.path().join("no/such/dir"), &Options::default()).unwrap_err();
    println!("{error}");
    let error = Producer::attach(dir.path().join("nothing")).unwrap_err();
    assert!(matches!(error, AttachError::NotFound { .. }));
}

#[test]
fn a_full_tmpfs_is_an_error_when_the_ring_is_made() {
    let dir = ring_dir();
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
    command.arg(
        "mount -t tmpfs -o size=1m tmpfs \"$1\" || exit 77; exec \"$2\" create 600 \"$1/ring\"",
    );
    let output = command
        .args(["sh", &dir.path().to_string_lossy(), env!("CARGO_BIN_EXE_actor")])
        .env("PERFRING_SIZE", "4194304")
        .output();
    let Ok(output) = output else { return skip("there is no unshare(1) (Debian: util-linux)") };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(77) || said.contains("unshare:") {
        return skip(&format!("cannot make a mount namespace: {}", said.trim()));
    }
    println!("{}", said.trim());
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("no room for"), "{said}");
    assert!(dir.path().read_dir().unwrap().next().is_none());
}

#[test]
fn an_observer_needs_no_more_than_read_permission() {
    if !nix::unistd::Uid::effective().is_root() {
        return skip("only root can become another user to try");
    }
    let dir = ring_dir();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let exe = dir.path().join("actor");
    // By another process: no child that another test just starts has it open for writing, which
    // would be "text file busy".
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_actor")).arg(&exe).status().unwrap();
    assert!(copied.success());
    let run = |args: &[&str], ring: &Path| {
        let mut command = Command::new(&exe);
        command.args(args).arg(ring).uid(65534).gid(65534).output().unwrap()
    };
    let ring = dir.path().join("ring");
    let mut producer =
        Producer::create(&ring, &Options { mode: 0o644, ..Options::default() }).unwrap();
    producer.publish_as(NUMBERED, &numbered(0, 16)).unwrap();
    let output = run(&["observe"], &ring);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "0");
    // Not writable: a consumer is refused, with a message.
    let output = run(&["hold", "consumer"], &ring);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("Error: no permission to open"), "{said}");
    assert!(!output.status.success());
    // Not even readable.
    std::fs::set_permissions(&ring, PermissionsExt::from_mode(0o600)).unwrap();
    let output = run(&["observe"], &ring);
    assert!(!output.status.success());
}

#[test]
fn a_named_segment_is_a_ring_like_any_other() {
    let name = format!("shm:perfring-test-{}", std::process::id());
    let mut producer = Producer::create(name.as_str(), &Options::default()).unwrap();
    assert!(matches!(create(name.as_str(), &Options::default()), Err(CreateError::Exists { .. })));
    producer.publish_as(NUMBERED, &numbered(1, 500)).unwrap();
    let mut consumer = Consumer::attach(name.as_str()).unwrap();
    let mut observer = Observer::attach(name.as_str(), Start::Oldest).unwrap();
    assert_eq!(read_numbers(&mut consumer), [1]);
    assert!(observer.read().unwrap().is_some());
    // A trap of named segments: dropping the creator's handle must not remove the name.
    drop(producer);
    let mut producer = Producer::attach(name.as_str()).unwrap();
    producer.publish_as(NUMBERED, &numbered(2, 500)).unwrap();
    assert_eq!(read_numbers(&mut consumer), [2]);
    drop((producer, consumer));
    let path = Path::new("/dev/shm").join(&name[4..]);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    remove(name.as_str(), Removal::IfFree).unwrap();
    assert!(!path.exists());
    for bad in ["shm:", "shm:a/b", "shm:..", "shm:a\0b"] {
        let error = create(bad, &Options::default());
        assert!(matches!(error, Err(CreateError::Name { .. })), "{bad:?} {error:?}");
    }
}

#[test]
fn the_page_size_comes_from_the_file() {
    let dir = ring_dir();
    let made = dir.path().join("made");
    create(&made, &Options { size: 1 << 16, ..Options::default() }).unwrap();
    // The same ring as created by a machine with pages of 16 KiB.
    let layout = perfring_abi::Layout { page_size: 16 << 10, ..Stat::read(&made).unwrap().layout };
    let ring = dir.path().join("ring");
    let file = std::fs::File::create_new(&ring).unwrap();
    file.set_len(layout.file_size()).unwrap();
    let mut page: HeaderPage = layout.to_page();
    page.set_magic(MAGIC);
    file.write_all_at(page.as_bytes(), 0).unwrap();

    let mut producer = Producer::attach(&ring).unwrap();
    let mut consumer = Consumer::attach(&ring).unwrap();
    for number in 0..1000 {
        producer.publish_as(NUMBERED, &numbered(number, 300)).unwrap();
        assert_eq!(read_numbers(&mut consumer), [number]);
    }
    // A page smaller than this machine's: for readers that copy only.
    assert_eq!(Snapshot::take(&ring).unwrap().totals().producer.written.records, 1000);
}

#[test]
fn the_file_of_dead_processes_is_complete_elsewhere_as_well() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    create(&ring, &Options { size: 1 << 14, ..Options::default() }).unwrap();
    let mut holder = Holder::start("producer", &ring);
    for number in 0..50 {
        holder.ask(&number.to_string());
        assert_eq!(holder.line(), "published");
    }
    let pid = holder.child.id();
    holder.kill();
    // Copied elsewhere, read-only, under another name.
    let copy = tempfile::tempdir().unwrap();
    let file = copy.path().join("evidence");
    std::fs::copy(&ring, &file).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o400)).unwrap();
    let snapshot = Snapshot::take(&file).unwrap();
    assert!(numbers(&snapshot).0.into_iter().eq(0..50));
    let stat = Stat::read(&file).unwrap();
    assert_eq!((stat.producer.owner.pid, stat.producer.owner.name.as_str()), (pid, "the-holder"));
    assert!(!stat.producer.is_alive());
}

#[test]
fn a_batch_is_published_in_one_piece() {
    let dir = ring_dir();
    for policy in [Policy::Drop, Policy::Overwrite] {
        let ring = dir.path().join(policy.name());
        let options = Options { size: 1 << 16, policy, ..Options::default() };
        let mut producer = Producer::create(&ring, &options).unwrap();
        let mut consumer = Consumer::attach(&ring).unwrap();
        let mut number = 0;
        for round in 0..200 {
            let mut batch = producer.batch();
            // Up to 8 KiB, at every position in the ring.
            for _ in 0..(round * 7) % 110 {
                batch.push_as(NUMBERED, &numbered(number, 60)).unwrap();
                number += 1;
                assert_eq!(read_numbers(&mut consumer), [0; 0], "held back: {policy:?}");
            }
            drop(batch);
            let read = read_numbers(&mut consumer);
            assert!(read.iter().copied().eq(number - (round * 7) % 110..number));
            consumer.release();
        }
        assert_eq!(producer.totals().refused.full.records, 0);
    }
}

#[test]
fn a_batch_larger_than_the_ring_is_published_in_parts() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    let mut producer =
        Producer::create(&ring, &Options { size: 4096, ..Options::default() }).unwrap();
    let mut batch = producer.batch();
    let mut pushed = 0;
    while batch.push_as(NUMBERED, &numbered(pushed, 100)) != Err(ReserveError::Full) {
        pushed += 1;
    }
    // Refused: the held-back records are published, because otherwise the consumer could not release anything.
    let mut consumer = Consumer::attach(&ring).unwrap();
    assert!(read_numbers(&mut consumer).into_iter().eq(0..pushed));
    consumer.release();
    batch.push_as(NUMBERED, &numbered(pushed, 100)).unwrap();
    assert_eq!(read_numbers(&mut consumer), [0; 0], "held back");
    drop(batch);
    assert_eq!(read_numbers(&mut consumer), [pushed]);
}
