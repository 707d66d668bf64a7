//! The contestants of the system and between threads. Every record arrives intact and in order from
//! another process (or thread), also from several and to several; a full one refuses, and accepts
//! again once it was read; one that overwrites keeps the newest. The program runs itself again as
//! the other process.

use perfring_bench::WaitStrategy;
use perfring_bench::cores::{Pinned, two_cores};
use perfring_bench::payload::{Check, fill, sized};
use perfring_compare::CompareError;
use perfring_compare::contest::bpf::{Bpf, BpfQuiet};
use perfring_compare::contest::lttng::Lttng;
use perfring_compare::contest::perf_buffer::PerfBuffer;
use perfring_compare::contest::perf_overwrite::PerfOverwrite;
use perfring_compare::contest::photon_ring::{PhotonRing, PhotonRingMany};
use perfring_compare::contest::pipe::{Pipe, PipeEach};
use perfring_compare::contest::rtrb::Rtrb;
use perfring_compare::contest::unix_seqpacket::UnixSeqpacket;
use perfring_compare::contest::unix_stream::UnixStream;
use perfring_compare::contestant::{Contestant, Location, Receiver, Sender, Setup};
use std::path::Path;
use std::process::{Child, Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

type Fallible<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const DATA_SIZE: u64 = 1 << 18;
/// Longer than any live operation takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than any sender takes to wake a sleeper.
const UNWOKEN: Duration = Duration::from_secs(20);

fn setup(payload: usize) -> Setup {
    Setup {
        data_size: DATA_SIZE,
        payload,
        overwrite: false,
        senders: 1,
        receivers: 1,
        pace: WaitStrategy::Adaptive,
        sleeping: false,
    }
}

/// Runs a sender: blocks, and single records in between.
fn send<C: Contestant, const N: usize>(
    path: &Path,
    setup: &Setup,
    index: usize,
    records: u64,
) -> Fallible {
    // Rings of one per processor keep only the order of senders that stay on one.
    let _pinned = pinned(index)?;
    let mut sender = C::sender(path, setup, index)?;
    let mut next = 0;
    while next < records {
        let end = records.min(next + if next % 7 == 0 { 1 } else { 1000 });
        sender.send::<N>(next..end, fill)?;
        next = end;
    }
    Ok(())
}

fn pinned(index: usize) -> Fallible<Option<Pinned>> {
    let cores = two_cores()?;
    Ok(cores.map(|cores| Pinned::to(cores[index % 2])).transpose()?)
}

/// Another process or thread that sends.
enum Other {
    Process(Killed),
    Thread(thread::JoinHandle<Fallible>),
}

/// A child that does not outlive its parent: it may wait for room for ever.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It has ended already, most of the time.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn other<C: Contestant, const N: usize>(
    path: &Path,
    setup: &Setup,
    index: usize,
    records: u64,
) -> Fallible<Other> {
    let about = C::about(setup);
    if about.location == Location::Threads {
        let (path, setup) = (path.to_owned(), setup.clone());
        return Ok(Other::Thread(thread::spawn(move || {
            send::<C, N>(&path, &setup, index, records)
        })));
    }
    let child = Command::new(std::env::current_exe()?)
        .args(["--child", about.name])
        .arg(path)
        .args([index.to_string(), records.to_string(), serde_json::to_string(setup)?])
        .spawn()?;
    Ok(Other::Process(Killed(child)))
}

fn finish(other: Other) -> Fallible {
    match other {
        Other::Process(mut child) => {
            let status = child.0.wait()?;
            if status.success() {
                Ok(())
            } else {
                Err(format!("the other process: {status}").into())
            }
        }
        Other::Thread(thread) => thread.join().map_err(|_| "the other thread")?,
    }
}

/// Checks records of several senders: those of each come in order, with `next` as the expected
/// numbers.
struct Several {
    seen: Vec<Check>,
}

impl Several {
    fn see<const N: usize>(&mut self, bytes: &[u8; N], records: u64) {
        // All count from 0, so a record belongs to a sender that is due to send it; the first one
        // that is.
        let number = bytes.first_chunk().map_or(0, |first| u64::from_ne_bytes(*first));
        let due = self.seen.iter_mut().find(|check| check.good() == number);
        match due {
            Some(check) => check.see(bytes),
            None => self.seen[0].bad += 1,
        }
        assert!(number < records);
    }
}

fn streams<C: Contestant, const N: usize>(
    directory: &Path,
    change: impl Fn(&mut Setup),
    records: u64,
) -> Fallible<f64> {
    let mut setup = setup(N);
    change(&mut setup);
    let path = directory.join("ring");
    let held = C::create(&path, &setup)?;
    let start = Instant::now();
    let others: Vec<_> = (0..setup.senders)
        .map(|index| other::<C, N>(&path, &setup, index, records))
        .collect::<Result<_, _>>()?;
    // Readers beyond the first are threads of this process: only contestants within it can have
    // them.
    let more: Vec<_> = (1..setup.receivers)
        .map(|index| {
            let (path, setup) = (path.clone(), setup.clone());
            thread::spawn(move || read::<C, N>(&path, &setup, index, records))
        })
        .collect();
    read::<C, N>(&path, &setup, 0, records)?;
    for thread in more {
        thread.join().map_err(|_| "another reader")??;
    }
    let rate = (records * setup.senders as u64) as f64 / start.elapsed().as_secs_f64() / 1e6;
    for other in others {
        finish(other)?;
    }
    drop(held);
    Ok(rate)
}

fn read<C: Contestant, const N: usize>(
    path: &Path,
    setup: &Setup,
    index: usize,
    records: u64,
) -> Fallible {
    let mut receiver = C::receiver(path, setup, index)?;
    let all = records * setup.senders as u64;
    let mut several = Several { seen: vec![Check::default(); setup.senders] };
    let (start, mut count, mut turn) = (Instant::now(), 0, 0);
    while count < all {
        // Alternately everything present, and only the next one.
        turn += 1;
        let came = if turn % 3 == 0 {
            receiver.next::<N>(|bytes| several.see(bytes, records))?.into()
        } else {
            receiver.drain::<N>(|bytes| several.see(bytes, records))?
        };
        if came == 0 {
            if setup.sleeping {
                let before = Instant::now();
                receiver.sleep(UNWOKEN)?;
                if before.elapsed() >= UNWOKEN {
                    return Err("it was not woken".into());
                }
            } else {
                receiver.wait();
            }
            if start.elapsed() > PATIENCE {
                return Err(format!("{count} of {all} came").into());
            }
        }
        count += came;
    }
    for check in &several.seen {
        if (check.lost, check.bad, check.good()) != (0, 0, records) {
            return Err(format!("{:?}", several.seen).into());
        }
    }
    if receiver.next::<N>(|_| ())? {
        return Err("one too many".into());
    }
    Ok(())
}

/// A full one refuses, delivers what it took, and accepts again.
fn refuses<C: Contestant, const N: usize>(directory: &Path) -> Fallible<u64> {
    let _pinned = pinned(0)?;
    let (setup, path) = (setup(N), directory.join("full"));
    let held = C::create(&path, &setup)?;
    let (mut sender, mut receiver) = ends::<C>(&path, &setup)?;
    let (mut check, mut taken) = (Check::default(), 0);
    for _ in 0..3 {
        let before = taken;
        while sender.offer::<N>(taken, fill)? {
            taken += 1;
            if taken - before > 10_000_000 {
                return Err("it is never full".into());
            }
        }
        if taken == before || sender.offer::<N>(taken, fill)? {
            return Err(format!("{} taken, and one after a refusal", taken - before).into());
        }
        while receiver.drain::<N>(|bytes| check.see(bytes))? > 0 {}
    }
    check.finish(taken);
    if (check.lost, check.bad) != (0, 0) {
        return Err(format!("{check:?} of {taken}").into());
    }
    drop((sender, receiver, held));
    Ok(taken)
}

/// One that overwrites has the newest, in order, after a run without a reader.
fn overwrites<C: Contestant, const N: usize>(directory: &Path) -> Fallible<u64> {
    let _pinned = pinned(0)?;
    let setup = Setup { overwrite: true, ..setup(N) };
    let path = directory.join("over");
    let held = C::create(&path, &setup)?;
    let (mut sender, mut receiver) = ends::<C>(&path, &setup)?;
    let records = 5 * DATA_SIZE / N as u64;
    sender.send::<N>(0..records, fill)?;
    let mut check = Check::default();
    while receiver.drain::<N>(|bytes| check.see(bytes))? > 0 {}
    let (good, lost) = (check.good(), check.lost);
    check.finish(records);
    if check.bad > 0 || check.lost != lost || lost == 0 || good < DATA_SIZE / N as u64 / 4 {
        return Err(format!("{check:?}, {good} of {records}").into());
    }
    drop((sender, receiver, held));
    Ok(good)
}

fn ends<C: Contestant>(path: &Path, setup: &Setup) -> Fallible<(C::Sender, C::Receiver)>
where
    C::Sender: Sender,
{
    // Either may wait for the other.
    let (there, other) = (path.to_owned(), setup.clone());
    let (give, take) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let receiver = C::receiver(path, setup, 0);
            give.send(Parcel(receiver)).ok();
        });
        let sender = C::sender(&there, &other, 0);
        let Parcel(receiver) = take.recv()?;
        Ok((sender?, receiver?))
    })
}

/// Moves an end out of the thread that created it: it is not in use meanwhile.
struct Parcel<T>(Result<T, CompareError>);
// SAFETY: it is created, sent and then used by one thread at a time, and no end is bound to the
// thread that created it.
unsafe impl<T> Send for Parcel<T> {}

fn all_of<C: Contestant>() -> Fallible<bool> {
    let about = C::about(&setup(64));
    if let Err(why) = C::check() {
        println!("{}: {why}", about.name);
        return Ok(true);
    }
    let can = C::can();
    println!("{} ({}): {}; {}", about.name, about.version, about.settings, about.waits);
    let mut fine = true;
    let mut report = |what: &str, result: Fallible<String>| match result {
        Ok(good) => println!("  {what}: {good}"),
        Err(error) => {
            fine = false;
            println!("  {what}: FAILED: {error}");
        }
    };
    let directory = tempfile::tempdir_in("/dev/shm")?;
    let at = directory.path();
    let rate = |rate| format!("{rate:.2} M/s");
    if can.lossless.is_ok() {
        report("8", streams::<C, 8>(at, |_| (), 100_000).map(rate));
        report("64", streams::<C, 64>(at, |_| (), 100_000).map(rate));
        report("4096", streams::<C, 4096>(at, |_| (), 20_000).map(rate));
        if can.payload >= 65_472 {
            report("65472", streams::<C, 65_472>(at, |_| (), 500).map(rate));
        }
    }
    if can.senders.and(can.lossless).is_ok() {
        report("4 senders", streams::<C, 64>(at, |setup| setup.senders = 4, 50_000).map(rate));
    }
    if can.receivers.and(can.lossless).is_ok() {
        report("3 receivers", streams::<C, 64>(at, |setup| setup.receivers = 3, 50_000).map(rate));
    }
    if can.sleeping.is_ok() {
        report("asleep", streams::<C, 64>(at, |setup| setup.sleeping = true, 50_000).map(rate));
    }
    if can.refuses.is_ok() {
        let taken = |taken| format!("took {taken} in three goes");
        report("refuses 8", refuses::<C, 8>(at).map(taken));
        report("refuses 64", refuses::<C, 64>(at).map(taken));
        report("refuses 4096", refuses::<C, 4096>(at).map(taken));
        if can.payload >= 16_384 {
            report("refuses 16384", refuses::<C, 16_384>(at).map(taken));
        }
    }
    if can.overwrite.is_ok() {
        report("overwrites", overwrites::<C, 64>(at).map(|kept| format!("keeps {kept}")));
    }
    Ok(fine)
}

/// Calls a generic function with each contestant's type, or with that of one name.
macro_rules! contestants {
    ($($contestant:ty),* $(,)?) => {
        fn all(only: Option<&str>) -> Fallible<bool> {
            let mut fine = true;
            $(if only.is_none_or(|only| only == <$contestant>::about(&setup(64)).name) {
                fine &= all_of::<$contestant>()?;
            })*
            Ok(fine)
        }

        fn child(args: &[String]) -> Fallible {
            let [name, path, index, records, setup] = args else { return Err("arguments".into()) };
            let setup: Setup = serde_json::from_str(setup)?;
            let (path, index, records) = (Path::new(path), index.parse()?, records.parse()?);
            $(if *name == <$contestant>::about(&setup).name {
                let mut sent = Ok(());
                sized!(setup.payload, N => {
                    sent = send::<$contestant, N>(path, &setup, index, records);
                    Ok(())
                })?;
                return sent;
            })*
            Err("no contestant of this name".into())
        }
    };
}
contestants!(
    Pipe,
    PipeEach,
    UnixStream,
    UnixSeqpacket,
    Rtrb,
    PhotonRing,
    PhotonRingMany,
    Bpf,
    BpfQuiet,
    PerfBuffer,
    PerfOverwrite,
    Lttng,
);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.first().map(String::as_str) {
        Some("--child") => child(&args[1..]).map(|()| true),
        Some(only) if !only.starts_with('-') => all(Some(only)),
        _ => all(None),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
