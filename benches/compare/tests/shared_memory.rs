//! What each rival in shared memory says it can do, it does: between two processes, every byte
//! verified, and a full ring refuses or overwrites as it claims.

use perfring_bench::payload::{Check, fill, verify};
use perfring_bench::{BenchError, Pace, payload::sized};
use perfring_compare::contest::{self, Contestant, Receiver, Sender, Setup};
use std::env::{current_exe, var};
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Tells a run of this executable that it is the sender of another one.
const CHILD: &str = "PERFRING_COMPARE_TEST_CHILD";
const RECORDS: u64 = 100_000;

fn setup(payload: usize) -> Setup {
    Setup {
        data_size: 1 << 20,
        payload,
        overwrite: false,
        senders: 1,
        receivers: 1,
        pace: Pace::Adaptive,
        sleeping: false,
    }
}

/// A name in memory for a contestant's files.
fn place() -> (tempfile::TempDir, PathBuf) {
    let shm = Path::new("/dev/shm");
    let dir = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() };
    let dir = dir.expect("a directory");
    let path = dir.path().join("ring");
    (dir, path)
}

/// Two threads in turn; if one of them fails, so does the other.
#[derive(Default)]
struct Turns {
    come: AtomicU64,
    broken: AtomicBool,
}

impl Turns {
    /// Waits until both have come here as often as this: `turn` counts from 1.
    fn meet(&self, turn: u64) {
        self.come.fetch_add(1, Ordering::AcqRel);
        self.until(|| self.come.load(Ordering::Acquire) >= 2 * turn);
    }

    fn until(&self, ready: impl Fn() -> bool) {
        while !ready() {
            assert!(!self.broken.load(Ordering::Acquire), "the other one failed");
            thread::yield_now();
        }
    }

    fn watch(&self) -> Watch<'_> {
        Watch(self)
    }
}

struct Watch<'a>(&'a Turns);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.broken.store(true, Ordering::Release);
        }
    }
}

/// Blocks as a benchmark sends them.
fn send_all<C: Contestant, const N: usize>(path: &Path, setup: &Setup, count: u64) {
    let mut sender = C::sender(path, setup, 0).expect("a sender");
    for start in (0..count).step_by(64) {
        sender.send::<N>(start..(start + 64).min(count), fill).expect("sent");
    }
    // What it holds must live until the reader is done; the reader's end tells.
    let (done, parent) = (path.with_extension("done"), parent_id());
    while !done.exists() && parent_id() == parent {
        thread::yield_now();
    }
}

fn spawn_child(name: &str, path: &Path, setup: &Setup, count: u64) -> Child {
    let order = serde_json::json!({ "name": name, "path": path, "setup": setup, "count": count });
    Command::new(current_exe().expect("this executable"))
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env(CHILD, order.to_string())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("a process")
}

/// Reads until so many have come.
fn read_all<R: Receiver, const N: usize>(receiver: &mut R, count: u64) -> Check {
    let mut check = Check::default();
    let mut seen = 0;
    while seen < count {
        let found = receiver.drain::<N>(|bytes| check.see(bytes)).expect("drained");
        seen += found;
        if found == 0 {
            receiver.wait();
        }
    }
    check
}

fn streams<C: Contestant>(name: &str) {
    for payload in [8, 64, 4096, 65_472] {
        if payload > C::can().payload {
            continue;
        }
        let count = if payload > 4096 { RECORDS / 20 } else { RECORDS };
        let setup = setup(payload);
        let (_dir, path) = place();
        let held = C::create(&path, &setup).expect("created");
        let mut child = spawn_child(name, &path, &setup, count);
        let mut receiver = C::receiver(&path, &setup, 0).expect("a receiver");
        let mut check = sized!(payload, N => Ok::<_, BenchError>(
            read_all::<_, N>(&mut receiver, count)
        ))
        .expect("a payload");
        check.finish(count);
        assert_eq!((check.lost, check.bad), (0, 0), "{payload} bytes");
        std::fs::write(path.with_extension("done"), b"").expect("done");
        assert!(child.wait().expect("its status").success());
        drop((receiver, held));
    }
}

/// Sends 64-byte records until it is refused, reads them, and can send again. Does so several
/// times, so that it happens at different places of the ring.
fn refuses<C: Contestant>() {
    let setup = setup(64);
    let (_dir, path) = place();
    let held = C::create(&path, &setup).expect("created");
    let turns = Turns::default();
    let room = (1 << 20) / 64;
    thread::scope(|scope| {
        scope.spawn(|| {
            let _watch = turns.watch();
            let mut sender = C::sender(&path, &setup, 0).expect("a sender");
            let mut sent = 0;
            for round in 0..5 {
                let first = sent;
                // Who was told to wait may have to, until a third one has seen the room.
                while !sender.offer::<64>(sent, fill).expect("an answer") {
                    assert!(round > 0 && !turns.broken.load(Ordering::Acquire), "refused first");
                    thread::yield_now();
                }
                sent += 1;
                while sender.offer::<64>(sent, fill).expect("an answer") {
                    sent += 1;
                    assert!(sent - first < 64 * room, "never full");
                }
                // As many as fit, whatever the headers take.
                assert!(sent - first >= room / 4, "full after {}", sent - first);
                assert!(!sender.offer::<64>(sent, fill).expect("an answer"), "still full");
                turns.meet(2 * round + 1);
                turns.meet(2 * round + 2);
            }
            turns.meet(11);
        });
        let _watch = turns.watch();
        let mut receiver = C::receiver(&path, &setup, 0).expect("a receiver");
        let (mut check, mut seen) = (Check::default(), 0);
        for round in 0..5 {
            turns.meet(2 * round + 1);
            loop {
                let found = receiver.drain::<64>(|bytes| check.see(bytes)).expect("drained");
                seen += found;
                if found == 0 {
                    break;
                }
            }
            turns.meet(2 * round + 2);
        }
        check.finish(seen);
        assert_eq!((check.lost, check.bad), (0, 0));
        turns.meet(11);
        drop(receiver);
    });
    drop(held);
}

/// Sends five rings' worth while nobody reads: what is left is whole, in order and the newest.
fn overwrites<C: Contestant>() {
    let setup = Setup { overwrite: true, ..setup(64) };
    let (_dir, path) = place();
    let held = C::create(&path, &setup).expect("created");
    let count = 5 * (1 << 20) / 64;
    let turns = Turns::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            let _watch = turns.watch();
            let mut sender = C::sender(&path, &setup, 0).expect("a sender");
            turns.meet(1);
            sender.send::<64>(0..count, fill).expect("sent");
            assert!(sender.offer::<64>(count, fill).expect("an answer"), "never full");
            turns.meet(2);
            turns.meet(3);
        });
        let _watch = turns.watch();
        let mut receiver = C::receiver(&path, &setup, 0).expect("a receiver");
        // Some are known to the sender once they have looked.
        assert_eq!(receiver.drain::<64>(|_| {}).expect("drained"), 0);
        turns.meet(1);
        turns.meet(2);
        let (mut check, mut seen, mut last) = (Check::default(), 0, 0);
        loop {
            let found = receiver
                .drain::<64>(|bytes| {
                    last = number_of(bytes);
                    check.see(bytes);
                })
                .expect("drained");
            seen += found;
            if found == 0 {
                break;
            }
        }
        assert_eq!(last, count, "the newest is there");
        check.finish(count + 1);
        assert_eq!(check.bad, 0);
        assert_eq!(check.lost + seen, count + 1);
        assert!(check.lost >= count / 2, "only {} lost", check.lost);
        if let Some(told) = receiver.told_lost() {
            assert_eq!(told, check.lost, "what it tells");
        }
        turns.meet(3);
        drop(receiver);
    });
    drop(held);
}

fn number_of(bytes: &[u8; 64]) -> u64 {
    bytes.first_chunk().map_or(0, |first| u64::from_ne_bytes(*first))
}

/// A receiver that reads while it is overtaken sees whole records only, in order.
fn overtaken<C: Contestant>() {
    let setup = Setup { overwrite: true, data_size: 1 << 16, ..setup(256) };
    let (_dir, path) = place();
    let held = C::create(&path, &setup).expect("created");
    let turns = Turns::default();
    let done = AtomicBool::new(false);
    let count = 1_000_000;
    thread::scope(|scope| {
        scope.spawn(|| {
            let _watch = turns.watch();
            let mut sender = C::sender(&path, &setup, 0).expect("a sender");
            sender.send::<256>(0..count, fill).expect("sent");
            done.store(true, Ordering::Release);
            turns.meet(1);
        });
        let _watch = turns.watch();
        let mut receiver = C::receiver(&path, &setup, 0).expect("a receiver");
        let mut check = Check::default();
        loop {
            let last = done.load(Ordering::Acquire) || turns.broken.load(Ordering::Acquire);
            let found = receiver.drain::<256>(|bytes| check.see(bytes)).expect("drained");
            if found == 0 && last {
                break;
            }
        }
        check.finish(count);
        assert_eq!(check.bad, 0);
        assert_eq!(check.good() + check.lost, count);
        turns.meet(1);
        drop(receiver);
    });
    drop(held);
}

/// Three senders, each in its own order, nothing lost where that is promised.
fn many_send<C: Contestant>() {
    const EACH: u64 = 50_000;
    let lossless = C::can().lossless.is_ok();
    let setup = Setup { senders: 3, overwrite: !lossless, ..setup(64) };
    let (_dir, path) = place();
    let held = C::create(&path, &setup).expect("created");
    let sent = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for index in 0..3 {
            let (path, setup, sent, done) = (&path, &setup, &sent, &done);
            scope.spawn(move || {
                let mut sender = C::sender(path, setup, index).expect("a sender");
                let base = (index as u64) << 32;
                for start in (0..EACH).step_by(50) {
                    sender.send::<64>(base + start..base + start + 50, fill).expect("sent");
                }
                sent.fetch_add(1, Ordering::AcqRel);
                while !done.load(Ordering::Acquire) {
                    thread::yield_now();
                }
            });
        }
        let mut receiver = C::receiver(&path, &setup, 0).expect("a receiver");
        let (mut next, mut seen, mut bad) = ([0; 3], 0, 0);
        loop {
            let last = sent.load(Ordering::Acquire) == 3;
            let found = receiver
                .drain::<64>(|bytes| {
                    let number = number_of(bytes);
                    let (from, number) = ((number >> 32) as usize, number & 0xffff_ffff);
                    if from > 2
                        || !verify(bytes, ((from as u64) << 32) + number)
                        || number < next[from]
                    {
                        bad += 1;
                    } else {
                        next[from] = number + 1;
                        seen += 1;
                    }
                })
                .expect("drained");
            if found == 0 {
                receiver.wait();
                if last && (!lossless || seen + bad >= 3 * EACH) {
                    break;
                }
            }
        }
        assert_eq!(bad, 0);
        if lossless {
            assert_eq!(seen, 3 * EACH);
        } else {
            assert!(seen > 0);
        }
        done.store(true, Ordering::Release);
        drop(receiver);
    });
    drop(held);
}

/// Three receivers, each of which gets everything.
fn many_receive<C: Contestant>() {
    let setup = Setup { receivers: 3, ..setup(64) };
    let (_dir, path) = place();
    let held = C::create(&path, &setup).expect("created");
    let finished = AtomicU64::new(0);
    thread::scope(|scope| {
        for index in 0..3 {
            let (path, setup, finished) = (&path, &setup, &finished);
            scope.spawn(move || {
                let mut receiver = C::receiver(path, setup, index).expect("a receiver");
                let mut check = read_all::<_, 64>(&mut receiver, RECORDS);
                check.finish(RECORDS);
                assert_eq!((check.lost, check.bad), (0, 0));
                if finished.fetch_add(1, Ordering::AcqRel) == 2 {
                    std::fs::write(path.with_extension("done"), b"").expect("done");
                }
                while finished.load(Ordering::Acquire) < 3 {
                    // The first of them may have to look after the others.
                    receiver.drain::<64>(|_| {}).expect("drained");
                    receiver.wait();
                    thread::yield_now();
                }
            });
        }
        send_all::<C, 64>(&path, &setup, RECORDS);
    });
    drop(held);
}

/// A receiver sleeps before each record. One that nobody wakes sleeps for far longer than anybody
/// would wait for this test.
fn sleeps<C: Contestant>() {
    const COUNT: u64 = 200;
    let setup = Setup { sleeping: true, overwrite: C::can().lossless.is_err(), ..setup(64) };
    let (_dir, path) = place();
    let held = C::create(&path, &setup).expect("created");
    let seen = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut sender = C::sender(&path, &setup, 0).expect("a sender");
            for number in 0..COUNT {
                sender.send::<64>(number..number + 1, fill).expect("sent");
                while seen.load(Ordering::Acquire) <= number {
                    thread::yield_now();
                }
            }
        });
        let mut receiver = C::receiver(&path, &setup, 0).expect("a receiver");
        let mut check = Check::default();
        for number in 0..COUNT {
            let mut sleeps = 0;
            while !receiver.next::<64>(|bytes| check.see(bytes)).expect("read") {
                receiver.sleep(Duration::from_secs(600)).expect("slept");
                sleeps += 1;
                assert!(sleeps < 10_000, "it does not sleep");
            }
            seen.store(number + 1, Ordering::Release);
        }
        check.finish(COUNT);
        assert_eq!((check.lost, check.bad), (0, 0));
    });
    drop(held);
}

macro_rules! contestants {
    ($($(#[$built:meta])? $module:ident: $contestant:ty;)*) => {
        $($(#[$built])? mod $module {
            use super::*;

            type Who = $contestant;

            fn here() -> bool {
                match Who::check() {
                    Ok(()) => true,
                    Err(why) => {
                        eprintln!("{}: {why}", stringify!($module));
                        false
                    }
                }
            }

            #[test]
            fn moves_every_byte_between_processes() {
                if here() && Who::can().lossless.is_ok() {
                    streams::<Who>(stringify!($module));
                }
            }

            #[test]
            fn a_full_one_refuses() {
                if here() && Who::can().refuses.is_ok() {
                    refuses::<Who>();
                }
            }

            #[test]
            fn keeps_the_newest_where_it_overwrites() {
                if here() && Who::can().overwrite.is_ok() {
                    overwrites::<Who>();
                }
            }

            #[test]
            fn an_overtaken_reader_sees_no_torn_record() {
                if here() && Who::can().overwrite.is_ok() {
                    overtaken::<Who>();
                }
            }

            #[test]
            fn many_may_send() {
                if here() && Who::can().senders.is_ok() {
                    many_send::<Who>();
                }
            }

            #[test]
            fn many_may_receive() {
                if here() && Who::can().receivers.is_ok() && Who::can().lossless.is_ok() {
                    many_receive::<Who>();
                }
            }

            #[test]
            fn a_sleeping_receiver_is_woken() {
                if here() && Who::can().sleeping.is_ok() {
                    sleeps::<Who>();
                }
            }
        })*

        /// The sender of another test's.
        #[test]
        #[ignore = "run by the others"]
        fn child() {
            let Ok(order) = var(CHILD) else { return };
            let order: serde_json::Value = serde_json::from_str(&order).expect("an order");
            let setup: Setup = serde_json::from_value(order["setup"].clone()).expect("a set-up");
            let path = PathBuf::from(order["path"].as_str().expect("a path"));
            let count = order["count"].as_u64().expect("a count");
            match order["name"].as_str() {
                $($(#[$built])? Some(stringify!($module)) => sized!(setup.payload, N => Ok::<_, BenchError>(
                    send_all::<$contestant, N>(&path, &setup, count)
                ))
                .expect("a payload"),)*
                other => unreachable!("{other:?}"),
            }
        }
    };
}

contestants! {
    agrona_one: contest::agrona::OneToOne;
    agrona_many: contest::agrona::ManyToOne;
    agrona_broadcast: contest::agrona::Broadcast;
    ringfire_slots: contest::ringfire::Slots;
    ringfire_many: contest::ringfire::Many;
    ringfire_blobs: contest::ringfire::Blobs;
    shmem_ipc: contest::shmem_ipc::ShmemIpc;
    #[cfg(feature = "iceoryx2")]
    iceoryx2: contest::iceoryx2::Iceoryx2;
    #[cfg(feature = "aeron")]
    aeron_invoker_small: contest::aeron::Aeron<true, 1>;
    #[cfg(feature = "aeron")]
    aeron_invoker: contest::aeron::Aeron<true, 64>;
    #[cfg(feature = "aeron")]
    aeron_driver_small: contest::aeron::Aeron<false, 1>;
    #[cfg(feature = "aeron")]
    aeron_driver: contest::aeron::Aeron<false, 64>;
}
