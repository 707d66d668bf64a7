//! Guests of qemu's that die at a random moment, and what the host reads of their rings then.
//!
//! `tools/guest test` builds what a guest starts from, and runs these. Seen red: with the ring on the same device
//! without DAX.

use perfring_abi::{HeaderPage, Layout};
use perfring_consumer::{Item, Observer, Snapshot, Start, files::recover};
use perfring_testkit::rng::Rng;
use perfring_testkit::wait::{WATCHDOG, Watchdog};
use perfring_tests::ring_dir;
use perfring_tests::shared::{balance, reporter};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

const PRODUCERS: u64 = 3;
/// Bytes of the persistent memory.
const PMEM: u64 = 32 << 20;

/// A guest. It dies with this.
struct Guest {
    child: Child,
    console: ChildStdin,
    lines: Receiver<String>,
}

impl Guest {
    /// Starts one with a file of the host's as its persistent memory, which runs this command with `/mnt` there.
    fn start(memory: &Path, command: &str) -> Self {
        let backend = format!(
            "memory-backend-file,id=pmem,share=on,mem-path={},size={PMEM}",
            memory.display()
        );
        let device = ["-object", &backend, "-device", "virtio-pmem-pci,memdev=pmem"];
        Self::start_with(&device, command)
    }

    fn start_with(devices: &[&str], command: &str) -> Self {
        let machine = std::env::var("PERFRING_GUEST_MACHINE").unwrap();
        let mut words = machine.split_whitespace();
        let mut qemu = Command::new(words.next().unwrap());
        qemu.args(words).args(["-serial", "stdio"]).args(devices);
        qemu.arg("-append").arg(format!("console=ttyS0 quiet panic=-1 \"run={command}\""));
        let mut child = qemu.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (console, out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(out).split(b'\n').map_while(Result::ok);
            lines
                .map(|line| String::from_utf8_lossy(&line).trim().to_owned())
                .all(|line| send.send(line).is_ok())
        });
        Guest { child, console, lines }
    }

    /// Waits for a line of its console. Returns whether it came: an emulated guest may hang or crash before its first program,
    /// as its kernel patches its own code.
    fn has_said(&mut self, wanted: &str) -> bool {
        let mut said = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(WATCHDOG) {
            if line == wanted {
                return true;
            }
            said.push(line);
        }
        assert!(said.iter().all(|line| line != "BEGIN"), "no {wanted}: {said:#?}");
        false
    }

    /// Returns a guest that `start` started and whose producers run. Counts those that hung before: none of our code has run in
    /// them.
    fn producing(hung: &mut u64, most: u64, mut start: impl FnMut() -> Self) -> Self {
        loop {
            let mut guest = start();
            if guest.has_said("PRODUCING") {
                return guest;
            }
            *hung += 1;
            assert!(*hung <= most, "{hung} guests have not started");
        }
    }

    fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the offset and the shape of the only ring in an image.
fn find(image: &Path) -> (u64, Layout) {
    let file = File::open(image).unwrap();
    let mut page = [0; HeaderPage::LEN];
    let mut found = (0..PMEM / 4096).filter_map(|nth| {
        file.read_exact_at(&mut page, nth * 4096).unwrap();
        let layout = Layout::check(&HeaderPage::from_bytes(&page).unwrap(), PMEM - nth * 4096);
        Some((nth * 4096, layout.ok()?))
    });
    let ring = found.next().expect("a ring in the image");
    assert!(found.next().is_none(), "another one");
    ring
}

/// What producers' records were, in the order of the ring.
#[derive(Debug, Default)]
struct Seen {
    next: BTreeMap<u64, u64>,
    records: u64,
}

impl Seen {
    /// Takes a record: every byte of it, and nothing of its producer's between it and the last one.
    fn take(&mut self, bytes: &[u8], with_gaps: bool) {
        let (who, seq) = reporter(bytes);
        assert!(who < PRODUCERS);
        let next = self.next.entry(who).or_insert(seq);
        assert!(seq == *next || with_gaps && seq > *next, "{seq} of {who} instead of {next}");
        *next = seq + 1;
        self.records += 1;
    }
}

#[test]
#[ignore = "boots guests: tools/guest test"]
fn rings_on_persistent_memory_survive_guests_that_die_at_random_moments() {
    let guests: u64 = std::env::var("PERFRING_GUESTS").unwrap().parse().unwrap();
    let dir = ring_dir();
    let mut rng = Rng::from_env();
    let template = dir.path().join("template");
    File::create(&template).unwrap().set_len(PMEM).unwrap();
    let made = Command::new("mkfs.ext4").args(["-q", "-b", "4096"]).arg(&template).status();
    assert!(made.unwrap().success());
    let (mut records, mut written, mut read) = (0, 0, 0);
    let (mut panics, mut files, mut hung) = (0, 0, 0);
    for nth in 0..guests {
        let memory = dir.path().join(format!("memory{nth}"));
        // Of four guests, each has another of the four ends.
        let (panic, sync) = (nth.is_multiple_of(2), (nth / 2).is_multiple_of(2));
        let command = format!("survivor flood /mnt/ring {PRODUCERS} {} 0", u8::from(sync));
        let mut guest = Guest::producing(&mut hung, 1 + guests / 20, || {
            fs::copy(&template, &memory).unwrap();
            Guest::start(&memory, &command)
        });
        let (offset, layout) = find(&memory);
        let ring = PathBuf::from(format!("{}@{offset:#x}", memory.display()));

        // The host reads along, until a random one of the first records.
        let last = rng.below(20_000);
        let mut observer = Observer::attach(&ring, Start::Oldest).unwrap();
        let (mut seen, mut lost, dog) = (Seen::default(), 0, Watchdog::default());
        while seen.records + lost <= last {
            dog.check(format_args!("record {last} of guest {nth}"));
            match observer.read().unwrap() {
                Some(Item::Record(record)) => seen.take(record.bytes, lost > 0),
                Some(Item::Lost(gone)) => lost += gone.records,
                None => std::thread::yield_now(),
            }
        }
        read += seen.records;
        match panic {
            true => {
                writeln!(guest.console, "c").unwrap();
                panics += 1;
                // qemu ends when the guest wants to reboot.
                let dog = Watchdog::default();
                while !guest.is_over() {
                    dog.pause("the end of a guest that has crashed");
                }
            }
            false => guest.kill(),
        }
        drop((guest, observer));

        // What is left, in place.
        let snapshot = Snapshot::take(&ring).unwrap();
        let mut seen = Seen::default();
        for item in &snapshot {
            if let Item::Record(record) = item.unwrap() {
                seen.take(record.bytes, false);
            }
        }
        let totals = snapshot.totals();
        assert_eq!(seen.records, totals.present.records);
        assert_eq!(totals.producer.written, totals.overwritten.plus(totals.present));
        // And to the byte, in a copy, with the reservations that were open.
        let copy = dir.path().join("copy");
        let mut bytes = vec![0; layout.file_size() as usize];
        File::open(&memory).unwrap().read_exact_at(&mut bytes, offset).unwrap();
        fs::write(&copy, &bytes).unwrap();
        recover(&copy).unwrap();
        balance(&copy, true);
        if sync {
            files += 1;
            of_file_system(&memory, &dir.path().join("file"), &bytes);
        }
        (records, written) = (records + seen.records, written + totals.producer.written.records);
        fs::remove_file(&memory).unwrap();
    }
    println!(
        "{guests} guests: {panics} crashed, {} were killed; {written} records written, {records} of them left and \
         verified, {read} read while they lived; {files} rings also as files; {hung} that did not start were started again",
        guests - panics
    );
    assert!(records > guests * 100);
}

/// The ring is also in the file system, whose journal is played first.
fn of_file_system(memory: &Path, copy: &Path, bytes: &[u8]) {
    let repaired = Command::new("e2fsck").arg("-p").arg(memory).output().unwrap();
    // 1: the journal was played, or an error corrected.
    assert!(matches!(repaired.status.code(), Some(0 | 1)), "{repaired:?}");
    let request = format!("dump /ring {}", copy.display());
    let dumped = Command::new("debugfs").args(["-R", &request]).arg(memory).output().unwrap();
    assert!(dumped.status.success(), "{dumped:?}");
    assert!(fs::read(copy).unwrap() == bytes, "the file differs from what is in memory");
}

#[test]
#[ignore = "boots a guest: tools/guest test"]
fn a_ring_in_one_huge_page_is_whole_in_the_core_file_of_its_guest() {
    let command = std::env::var("PERFRING_COMMAND").unwrap();
    let dir = ring_dir();
    let (core, monitor) = (dir.path().join("vmcore"), dir.path().join("monitor"));
    let listens = format!("unix:{},server=on,wait=off", monitor.display());
    let run = format!(
        "mkdir /huge && mount -t tmpfs -o huge=always none /huge && survivor flood /huge/ring {PRODUCERS} 0 10000"
    );
    let guest = Guest::producing(&mut 0, 2, || Guest::start_with(&["-monitor", &listens], &run));
    // The monitor prompts at first, and again when the dump is there.
    let mut monitor = UnixStream::connect(&monitor).unwrap();
    writeln!(monitor, "dump-guest-memory {}", core.display()).unwrap();
    let (dog, mut said, mut byte, mut prompts) = (Watchdog::default(), Vec::new(), [0], 0);
    while prompts < 2 {
        dog.check("the core file");
        monitor.read_exact(&mut byte).unwrap();
        said.push(byte[0]);
        prompts += u32::from(said.ends_with(b"\n(qemu) "));
    }
    drop(guest);

    let stat = Command::new(command).args(["stat", "--image"]).arg(&core).output().unwrap();
    let figures = String::from_utf8(stat.stdout).unwrap();
    assert!(figures.contains("of another boot"), "{figures} {:?}", stat.stderr);
    let ring = figures.lines().next().unwrap();
    let snapshot = Snapshot::take(ring).unwrap();
    let mut seen = Seen::default();
    for item in &snapshot {
        if let Item::Record(record) = item.unwrap() {
            seen.take(record.bytes, false);
        }
    }
    let totals = snapshot.totals();
    println!(
        "{ring}: written {}, {} of them verified",
        totals.producer.written.records, seen.records
    );
    assert!(seen.records > 500 && totals.producer.written.records >= 10_000);
    assert_eq!(seen.records, totals.present.records);
    assert_eq!(totals.producer.written, totals.overwritten.plus(totals.present));
}
