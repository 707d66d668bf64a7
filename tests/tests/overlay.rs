//! A ring on an overlay file system, and the same file in the overlay's upper directory: two inodes with
//! one set of pages, so neither side sees the other's locks.

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use perfring_consumer::{Consumer, Observer, Start, stat::Stat};
use perfring_producer::{
    AttachError, Options, Policy, Producer, ReserveError, SharedProducer, files::create,
};
use perfring_tests::foreign::{Build, Peer, c_peer};
use perfring_tests::{NUMBERED, numbered, skip};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use tempfile::TempDir;

/// An overlay that is mounted in the mount namespace of a separate thread.
struct Overlay {
    dir: TempDir,
    jobs: Sender<Job>,
    done: Receiver<()>,
}

type Job = Box<dyn FnOnce() + Send>;

impl Overlay {
    /// `None`, with a message, where this cannot be tried.
    fn new() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        for name in ["lower", "upper", "work", "merged"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let (jobs, work) = channel::<Job>();
        let (end, done) = channel();
        let (mounted, is_mounted) = channel();
        let at = dir.path().to_owned();
        std::thread::spawn(move || {
            let result = mount_overlay(&at);
            mounted.send(result.is_ok()).unwrap();
            if let Err(error) = result {
                println!("{error}");
                return;
            }
            for job in work {
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
                // The test fails where it waits for this.
                if result.is_err() || end.send(()).is_err() {
                    return;
                }
            }
        });
        if !is_mounted.recv().unwrap() {
            skip("no overlay can be mounted (root, and the kernel's overlayfs, are needed)");
            return None;
        }
        Some(Overlay { dir, jobs, done })
    }

    /// Runs this where the overlay is mounted.
    fn inside<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (result, got) = channel();
        self.jobs.send(Box::new(move || result.send(job()).unwrap())).unwrap();
        self.done.recv().expect("what ran inside has failed");
        got.recv().unwrap()
    }

    /// The ring as it is seen through the overlay, and in the upper directory.
    fn paths(&self) -> (PathBuf, PathBuf) {
        (self.dir.path().join("merged/ring"), self.dir.path().join("upper/ring"))
    }
}

fn mount_overlay(dir: &Path) -> nix::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    let [lower, upper, work] = ["lower", "upper", "work"].map(|name| dir.join(name));
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        lower.display(),
        upper.display(),
        work.display()
    );
    mount(
        Some("overlay"),
        &dir.join("merged"),
        Some("overlay"),
        MsFlags::empty(),
        Some(&options[..]),
    )
}

#[test]
fn where_the_overlay_is_seen_nobody_attaches_to_its_upper_directory() {
    let Some(overlay) = Overlay::new() else { return };
    let (merged, upper) = overlay.paths();
    overlay.inside(move || {
        let named = |error: AttachError| match error {
            AttachError::UnderOverlay { ref shown, .. } => {
                assert_eq!(shown, &merged);
                assert!(error.to_string().contains("attach by that path"), "{error}");
            }
            error => panic!("{error}"),
        };
        // Both kinds of producers, the consumer, a recovery and a removal of the ring.
        create(&merged, &Options::many()).unwrap();
        let producer = SharedProducer::attach(&merged).unwrap();
        named(SharedProducer::attach(&upper).unwrap_err());
        named(perfring_consumer::files::recover(&upper).unwrap_err());
        drop(producer);
        fs::remove_file(&merged).unwrap();
        let mut producer = Producer::create(&merged, &Options::default()).unwrap();
        named(Producer::attach(&upper).unwrap_err());
        named(Consumer::attach(&upper).unwrap_err());
        named(
            perfring_producer::files::remove(&upper, perfring_producer::files::Removal::IfFree)
                .unwrap_err(),
        );
        // Readers are permitted.
        producer.publish_as(NUMBERED, &numbered(1, 40)).unwrap();
        let mut observer = Observer::attach(&upper, Start::Oldest).unwrap();
        assert!(observer.read().unwrap().is_some());
        // The mount that shows the file is its own path.
        assert!(Stat::read(&merged).unwrap().producer.is_alive());
        assert!(!Stat::read(&upper).unwrap().producer.is_alive(), "it is not the lock's inode");
        Consumer::attach(&merged).unwrap();
    });
}

#[test]
fn where_it_is_not_seen_the_first_of_two_producers_stops() {
    let Some(overlay) = Overlay::new() else { return };
    let c = c_peer(Build::C11, overlay.dir.path()).expect("a C compiler: install gcc");
    let (merged, upper) = overlay.paths();
    let options = Options { policy: Policy::Overwrite, size: 1 << 14, ..Options::default() };
    let path = merged.clone();
    // The first in the container, by the overlay; the second on the host, which has another mount namespace.
    let mut first = overlay.inside(move || Producer::create(&path, &options).unwrap());
    first.publish_as(NUMBERED, &numbered(0, 40)).unwrap();
    let mut second = Producer::attach(&upper).unwrap();
    let refused = (1..1000).find_map(|n| first.publish_as(NUMBERED, &numbered(n, 40)).err());
    let refused = refused.expect("the first one goes on beside the second");
    assert_eq!(refused, ReserveError::Replaced);
    println!("{refused}");
    let head = |producer: &Producer| producer.totals().written.records;
    let before = fs::read(&upper).unwrap();
    assert_eq!(first.publish(b"again").unwrap_err(), ReserveError::Replaced);
    assert_eq!(first.batch().push(b"again").unwrap_err(), ReserveError::Replaced);
    drop(first);
    assert_eq!(fs::read(&upper).unwrap(), before, "it has changed the ring after it noticed");
    let written = head(&second);
    for n in 0..1000 {
        second.publish_as(NUMBERED, &numbered(n, 40)).unwrap();
    }
    assert_eq!(head(&second), written + 1000);
    drop(second);

    // The same for a program in C, which a Rust one follows by the other path.
    let (merged, upper) = (merged.with_file_name("other"), upper.with_file_name("other"));
    let path = merged.clone();
    let options = Options { size: 1 << 14, ..Options::default() };
    overlay.inside(move || create(&path, &options).unwrap());
    let mut c = Peer::start(&c, &["script"], &upper);
    assert_eq!(c.ask("publish 40"), "0");
    let mut second = overlay.inside(move || Producer::attach(&merged).unwrap());
    let refused = (0..1000).find_map(|_| {
        let said = c.ask("publish 40");
        c.ask("read 1");
        (said != "0").then_some(said)
    });
    assert_eq!(refused.as_deref(), Some("-25"), "PERFRING_E_REPLACED");
    assert_eq!(c.ask("publish 8"), "-25", "a smaller one too");
    let before = fs::read(&upper).unwrap();
    assert_eq!(c.ask("publish 100000"), "-25", "too large: not counted either");
    assert_eq!(fs::read(&upper).unwrap(), before, "it has changed the ring after it noticed");
    c.end();
    second.publish_as(NUMBERED, &numbered(0, 40)).unwrap();
}
