//! The promises of the command line for shared rings: many producers, and what dead ones leave.

use crate::command::{Done, Live, Place, check, json_lines, perfring, publish, run};
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use nix::sys::signal::Signal;
use perfring_abi::{FIELDS, RECOVER_LOCK_BYTE};
use perfring_consumer::stat::Stat;
use perfring_producer::{RecordType, SharedProducer};
use perfring_testkit::wait::{state, until};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};

/// The environment variable with the ring of [`a_producer_that_follows_commands`].
const RING: &str = "PERFRING_TEST_RING";

/// Not a test of its own: the process that [`Holder`] starts from this very file. It attaches, and
/// follows the commands on its stdin, until it is killed or they end.
#[test]
fn a_producer_that_follows_commands() {
    let Some(ring) = std::env::var_os(RING) else { return };
    let producer = SharedProducer::attach_as(Path::new(&ring), "holder").unwrap();
    let mut open = Vec::new();
    println!("\ndone");
    for line in std::io::stdin().lines() {
        match line.unwrap().as_str() {
            "reserve" => open.push(producer.reserve(RecordType::BYTES, 100).unwrap()),
            "discard" => open.clear(),
            text => producer.publish(text.as_bytes()).unwrap(),
        }
        println!("\ndone");
    }
}

/// A producer in a process of its own, that can be stopped and killed.
struct Holder {
    live: Live,
    stdin: ChildStdin,
}

impl Holder {
    fn attach(ring: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "shared::a_producer_that_follows_commands", "--nocapture"])
            .env(RING, ring)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut live = Live::of(command);
        let stdin = live.child.stdin.take().unwrap();
        let mut holder = Holder { live, stdin };
        holder.wait();
        holder
    }

    fn report(&mut self, line: &str) {
        self.stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
        self.wait();
    }

    fn wait(&mut self) {
        loop {
            let line = self.live.line_or_end().unwrap();
            if line == "done" {
                return;
            }
        }
    }

    fn pid(&self) -> u32 {
        self.live.child.id()
    }

    /// Kills it as kill -9 does, and waits for its end.
    fn kill(mut self) -> u32 {
        self.live.child.kill().unwrap();
        self.live.child.wait().unwrap();
        self.pid()
    }

    fn stop(&self) {
        self.live.signal(Signal::SIGSTOP);
        until("it is stopped", || state(self.pid()) == Some('T'));
    }
}

fn stat(ring: &str) -> Value {
    let done = run(&["stat", "--json", ring], b"");
    assert_eq!(done.code(), 0, "{}", done.err());
    json_lines(&done.out()).remove(0)
}

fn numbers(count: u64) -> String {
    (0..count).map(|n| format!("{n}\n")).collect()
}

/// Leaves the ring's lock taken by the first holder of a slot, once it is free.
fn take_lock(ring: &str, slot: u64) {
    let lock = FIELDS.iter().find(|field| field.name == "shared_lock").unwrap();
    let file = fs::File::options().read(true).write(true).open(ring).unwrap();
    let mut word = [0; 8];
    until("the lock is free", || {
        file.read_exact_at(&mut word, lock.offset as u64).unwrap();
        word == [0; 8]
    });
    let taken = (slot + 1) | 1 << 16;
    file.write_all_at(&taken.to_ne_bytes(), lock.offset as u64).unwrap();
}

#[test]
fn create_makes_rings_of_either_kind() {
    let place = Place::new();
    let ring = place.ring(&["--producers", "many", "--slots", "3"]);
    let made = stat(&ring);
    assert_eq!((&made["producers"], &made["slot_count"]), (&json!("many"), &json!(3)));
    fs::remove_file(&ring).unwrap();
    let ring = place.ring(&["--producers", "many"]);
    assert_eq!(stat(&ring)["slot_count"], 64);
    fs::remove_file(&ring).unwrap();
    run(&["create", &ring, "--slots", "3"], b"").refuses(2, "add --producers many");
    run(&["create", &ring, "--producers", "many", "--slots", "0"], b"").refuses(2, "1 to 4096");
    run(&["create", &ring, "--producers", "many", "--slots", "4097"], b"").refuses(2, "1 to 4096");
    assert!(!Path::new(&ring).exists());
}

#[test]
fn two_publish_into_one_ring_and_no_line_is_lost() {
    const EACH: u64 = 20_000;
    let place = Place::new();
    let ring = place.ring(&["--producers", "many", "--size", "64K"]);
    let all = (2 * EACH).to_string();
    let reader = Live::start(&["consume", "-n", &all, "--timeout", "5m", &ring]);
    let publish = |name: &str| {
        let lines: String = (0..EACH).map(|n| format!("{name} {n}\n")).collect();
        let args = ["publish", "--wait", "5m", "--fail-on-loss", "--name", name, &ring];
        let done = run(&args, lines.as_bytes());
        let said = format!("perfring: published {EACH} records, lost 0\n");
        assert_eq!((done.code(), done.err()), (0, said));
    };
    let (out, err, code) = std::thread::scope(|scope| {
        for name in ["left", "right"] {
            scope.spawn(move || publish(name));
        }
        reader.end()
    });
    assert_eq!((code, err.as_str()), (0, ""));
    for name in ["left", "right"] {
        let mine: Vec<&str> = out.lines().filter(|line| line.starts_with(name)).collect();
        let wanted: Vec<String> = (0..EACH).map(|n| format!("{name} {n}")).collect();
        assert!(mine == wanted, "{name}: {} lines, or out of order", mine.len());
    }
    let after = stat(&ring);
    assert_eq!(after["written_records"], 2 * EACH);
    assert_eq!(after["read_records"], 2 * EACH);
    assert_eq!((&after["balanced"], &after["epoch"]), (&json!(true), &json!(2)));
    let mut names: Vec<&str> =
        after["slots"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["left", "right"]);
    for slot in after["slots"].as_array().unwrap() {
        assert_eq!((&slot["written_records"], &slot["alive"]), (&json!(EACH), &json!(false)));
    }
    println!("{} lines of two producers, each in its order", 2 * EACH);
}

#[test]
fn the_reports_of_two_publishers_match_the_rings_counts() {
    const EACH: u64 = 5000;
    let place = Place::new();
    let ring = place.ring(&["--producers", "many", "--size", "64K"]);
    let lines = numbers(EACH);
    let reports = std::thread::scope(|scope| {
        let publish = || run(&["publish", &ring], lines.as_bytes()).err();
        let both = [scope.spawn(publish), scope.spawn(publish)];
        both.map(|thread| thread.join().unwrap())
    });
    // "perfring: published P records, lost L: full F, too_large 0, contended C, pending 0"
    let of = |report: &str| -> Vec<u64> {
        let words = report.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty());
        words.map(|word| word.parse().unwrap()).collect()
    };
    let after = stat(&ring);
    let (mut written, mut full, mut contended) = (0, 0, 0);
    for report in &reports {
        let said = of(report);
        assert_eq!(said[0] + said[1], EACH, "{report}");
        written += said[0];
        full += said[2];
        contended += said[4];
        assert!(report.contains("too_large 0") && report.contains("pending 0"), "{report}");
    }
    assert_eq!(after["written_records"], written);
    assert_eq!(after["full_records"], full);
    assert_eq!(after["contended_records"], contended);
    // The next one reports only its own records, whatever its slot.
    let place = Place::new();
    let ring = place.ring(&["--producers", "many", "--slots", "1"]);
    publish(&ring, b"1\n2\n3\n");
    let again = run(&["publish", &ring], b"4\n");
    assert_eq!(again.err(), "perfring: published 1 records, lost 0\n");
    let slot = &stat(&ring)["slots"][0];
    assert_eq!((&slot["written_records"], &slot["epoch"]), (&json!(1), &json!(2)));
}

#[test]
fn a_producer_has_a_name_and_a_lack_of_slots_is_reported() {
    let place = Place::new();
    let ring = place.ring(&["--producers", "many", "--slots", "1"]);
    let holder = Holder::attach(&ring);
    run(&["publish", &ring], b"x\n").refuses(1, "no free slot for a producer (of 1)");
    run(&["rm", &ring], b"").refuses(1, "has a producer already: holder");
    let done = run(&["doctor", "--json", &ring], b"");
    let (level, says) = check(&done, &ring, "producers");
    assert_eq!((level.as_str(), done.code()), ("warn", 1), "{says}");
    assert!(says.contains("1 of 1 slot in use: end one"), "{says}");
    holder.kill();
    assert_eq!(run(&["publish", "--name", "me, too", &ring], b"x\n").code(), 0);
    assert_eq!(stat(&ring)["slots"][0]["name"], "me, too");
    let text = run(&["stat", &ring], b"").out();
    assert!(text.contains("  me, too\n") && text.contains("0 of 1 slots in use"), "{text}");
    run(&["publish", "--name", &"n".repeat(65), &ring], b"").refuses(2, "64 bytes");
    // The same in an exclusive ring.
    let place = Place::new();
    let ring = place.ring(&[]);
    assert_eq!(run(&["publish", "--name", "me", &ring], b"x\n").code(), 0);
    assert_eq!(stat(&ring)["producer"]["name"], "me");
}

#[test]
fn a_producer_that_holds_the_ring_up_is_named_and_not_taken_over() {
    let place = Place::new();
    let ring = place.ring(&["--producers", "many", "--slots", "2", "--size", "4K"]);
    let mut holder = Holder::attach(&ring);
    holder.report("reserve");
    holder.stop();
    let pid = holder.pid();
    // Its record has 112 bytes, ours 16 each: 248 fit into a ring that is never quite full.
    let done = run(&["publish", &ring], numbers(300).as_bytes());
    let err = done.err();
    let said = "published 248 records, lost 52: full 0, too_large 0, contended 0, pending 52; \
                `perfring stat";
    assert!(done.code() == 0 && err.contains(said), "{err}");
    let done = run(&["publish", "--wait", "50ms", "--fail-on-loss", &ring], b"one more\n");
    assert_eq!(done.code(), 5);
    assert!(done.err().contains("pending 1"), "{}", done.err());

    let now = stat(&ring);
    let held = &now["held_up"];
    assert_eq!((&held["slot"], &held["alive"]), (&json!(0), &json!(true)), "{held}");
    assert_eq!(held["locked"], false);
    assert!(held["for_ns"].as_u64().unwrap() >= 20_000_000, "{held}");
    assert_eq!(now["pending_records"], 53);
    assert_eq!(now["slots"][0]["open_records"], 1);
    assert_eq!(now["slots"][1]["pending_records"], 1);
    assert_eq!((&now["written_records"], &now["stranded_records"]), (&json!(0), &json!(0)));

    let sentence = format!("by slot 0 (holder, pid {pid}), alive, for at least ");
    let text = run(&["stat", &ring], b"").out();
    assert!(text.contains(&format!("held up      {sentence}")), "{text}");
    assert!(text.contains("continue or end it"), "{text}");
    run(&["recover", &ring], b"").refuses(1, &format!("is held up {sentence}"));
    let done = run(&["doctor", "--json", &ring], b"");
    let (level, says) = check(&done, &ring, "held up");
    assert_eq!((level.as_str(), done.code()), ("warn", 1));
    assert!(says.contains("stopped by a signal") && says.contains(&sentence), "{says}");
    assert!(says.contains(&format!("kill -CONT {pid}")), "{says}");
    run(&["rm", &ring], b"").refuses(1, "--force");

    // Continued, it finishes its record; and the losses of the others are reported by cause.
    holder.live.signal(Signal::SIGCONT);
    holder.report("discard");
    assert_eq!(run(&["recover", &ring], b"").out(), format!("{ring}: nothing to recover\n"));
    assert_eq!(run(&["consume", &ring], b"").out(), numbers(248));
    publish(&ring, b"after\n");
    let tail = run(&["tail", "--fail-on-loss", &ring], b"");
    assert_eq!((tail.code(), tail.out().as_str()), (5, "after\n"), "{}", tail.err());
    assert!(
        tail.err().contains("LOST 53 records") && tail.err().contains(": pending"),
        "{}",
        tail.err()
    );
}

#[test]
fn leftovers_of_a_killed_producer_are_shown_and_recovered() {
    let place = Place::new();
    let ring = place.ring(&["--producers", "many"]);
    let mut holder = Holder::attach(&ring);
    holder.report("before");
    holder.report("reserve");
    holder.report("reserve");
    publish(&ring, b"behind\nthem\n");
    let pid = holder.kill();

    let now = stat(&ring);
    assert_eq!((&now["written_records"], &now["stranded_records"]), (&json!(1), &json!(2)));
    assert_eq!(now["held_up"]["alive"], false);
    let slot = &now["slots"][0];
    assert_eq!((&slot["open_records"], &slot["alive"]), (&json!(2), &json!(false)));
    assert_eq!((&slot["pid"], &slot["written_records"]), (&json!(pid), &json!(1)));
    let text = run(&["stat", &ring], b"").out();
    let says = format!("by slot 0 (holder, pid {pid}), dead: run `perfring recover {ring}`");
    assert!(text.contains(&says), "{text}");

    let dump = run(&["dump", &ring], b"");
    assert_eq!((dump.code(), dump.out().as_str()), (0, "before\nbehind\nthem\n"));
    let err = dump.err();
    assert!(err.contains("3 records shown, of them 2 stranded behind a dead"), "{err}");
    assert_eq!(run(&["tail", &ring], b"").out(), "before\n");

    let done = run(&["doctor", "--json", &ring], b"");
    let (level, says) = check(&done, &ring, "leftovers");
    assert_eq!((level.as_str(), done.code()), ("warn", 1));
    let wanted = format!("slot 0 (holder, pid {pid}), dead, left 2 reservations open");
    assert!(says.starts_with(&wanted), "{says}");
    assert!(says.contains("2 records stranded: run `perfring recover"), "{says}");

    let done = run(&["recover", &ring], b"");
    let reclaimed = format!(
        "slot 0 (holder, pid {pid}): 2 reservations reclaimed\n2 records behind them are \
         published now\n"
    );
    assert_eq!((done.code(), done.out()), (0, reclaimed), "{}", done.err());
    let done = run(&["recover", &ring], b"");
    assert_eq!((done.code(), done.out()), (0, format!("{ring}: nothing to recover\n")));
    let now = stat(&ring);
    assert_eq!((&now["written_records"], &now["stranded_records"]), (&json!(3), &json!(0)));
    assert_eq!((&now["reclaimed_records"], &now["balanced"]), (&json!(2), &json!(true)));
    assert_eq!((&now["held_up"], &now["slots"][0]["reclaimed_records"]), (&Value::Null, &json!(2)));
    assert_eq!(run(&["tail", &ring], b"").out(), "before\nbehind\nthem\n");
    assert!(run(&["dump", &ring], b"").err().contains("reclaimed 2"));
    let (level, says) = check(&run(&["doctor", "--json", &ring], b""), &ring, "leftovers");
    assert_eq!(level, "ok", "{says}");
}

#[test]
fn a_held_lock_is_reported_and_a_dead_producers_is_freed() {
    let place = Place::new();
    let ring = place.ring(&["--producers", "many"]);
    let holder = Holder::attach(&ring);
    let pid = holder.pid();
    let mut other = Live::of({
        let mut command = perfring(&["publish", &ring]);
        command.stdin(Stdio::piped());
        command
    });
    let mut stdin = other.child.stdin.take().unwrap();
    stdin.write_all(b"first\n").unwrap();
    let written = || Stat::read(Path::new(&ring)).unwrap().totals.unwrap().producer.written;
    until("the first line is published", || written().records == 1);

    take_lock(&ring, 0);
    stdin.write_all(b"second\nthird\n").unwrap();
    drop(stdin);
    let (_, err, code) = other.end();
    assert_eq!(code, 0);
    assert!(err.contains("published 1 records, lost 2: full 0, too_large 0, contended 2"), "{err}");
    let says = format!("slot 0 (holder, pid {pid}), alive, for at least ");
    let held = &stat(&ring)["held_up"];
    assert_eq!((&held["locked"], &held["alive"]), (&json!(true), &json!(true)));
    let text = run(&["stat", &ring], b"").out();
    assert!(text.contains(&says) && text.contains("(it has the ring's lock)"), "{text}");
    for command in ["publish", "recover"] {
        run(&[command, &ring], b"x\n").refuses(1, "slot 0, which is alive and does not continue");
    }

    holder.kill();
    let done = run(&["doctor", "--json", &ring], b"");
    let (level, says) = check(&done, &ring, "held up");
    assert_eq!((level.as_str(), done.code()), ("warn", 1));
    let dead = format!("by slot 0 (holder, pid {pid}), dead (it has the ring's lock): run");
    assert!(says.starts_with(&dead), "{says}");
    let done = run(&["recover", &ring], b"");
    let freed = format!("the lock was left by slot 0 (holder, pid {pid}), dead: freed\n");
    assert_eq!((done.code(), done.out()), (0, freed), "{}", done.err());
    publish(&ring, b"last\n");
    let tail = run(&["tail", &ring], b"");
    assert_eq!(tail.out(), "first\nlast\n");
}

#[test]
fn a_recovery_that_is_stopped_holds_the_ring_up_too() {
    let place = Place::new();
    let ring = place.ring(&["--producers", "many", "--slots", "4"]);
    publish(&ring, b"x\n");
    // As a recovery does: it locks a byte, and uses the slot after the last one.
    let file = fs::File::options().read(true).write(true).open(&ring).unwrap();
    let byte = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: RECOVER_LOCK_BYTE as libc::off_t,
        l_len: 1,
        l_pid: 0,
    };
    fcntl(&file, FcntlArg::F_OFD_SETLK(&byte)).unwrap();
    take_lock(&ring, 4);
    let text = run(&["stat", &ring], b"").out();
    let says = "by a recovery of the ring, alive, for at least ";
    assert!(text.contains(says), "{text}");
    run(&["recover", &ring], b"").refuses(1, says);
    // Killed, it is like any other process that died with the lock.
    drop(file);
    let done = run(&["recover", &ring], b"");
    let freed = "the lock was left by a recovery of the ring, dead: freed\n";
    assert_eq!((done.code(), done.out().as_str()), (0, freed), "{}", done.err());
}

#[test]
fn recover_reports_why_there_is_nothing_to_do_or_what_is_wrong() {
    let place = Place::new();
    let ring = place.ring(&[]);
    publish(&ring, b"x\n");
    let before = fs::read(&ring).unwrap();
    let done = run(&["recover", &ring], b"");
    assert_eq!((done.code(), done.err().as_str()), (0, ""));
    assert!(done.out().contains("one producer at a time: nothing to recover"), "{}", done.out());
    assert!(fs::read(&ring).unwrap() == before, "it wrote to a ring for one producer");
    let none = place.path("none");
    run(&["recover", none.to_str().unwrap()], b"").refuses(3, "does not exist");
    fs::write(&none, [7; 8192]).unwrap();
    run(&["recover", none.to_str().unwrap()], b"").refuses(4, "not a perfring file");
}

#[test]
fn a_ring_for_one_producer_shows_nothing_of_many() {
    let place = Place::new();
    let ring = place.ring(&[]);
    publish(&ring, b"x\n");
    let text = run(&["stat", &ring], b"").out();
    for word in ["contended", "pending", "reclaimed", "stranded", "slot", "held up"] {
        assert!(!text.contains(word), "{word} in {text}");
    }
    assert!(text.contains("kind         one producer at a time, epoch 1"), "{text}");
    let now = stat(&ring);
    assert_eq!((&now["producers"], &now["slot_count"]), (&json!("one"), &json!(1)));
    assert_eq!((&now["slots"], &now["held_up"]), (&json!([]), &Value::Null));
    let done = run(&["publish", &ring], &[b'x'; 70_000]);
    assert!(done.err().ends_with("lost 1: full 0, too_large 1\n"), "{}", done.err());
}

#[test]
fn stat_of_a_shared_ring_has_all_figures_and_fits_a_narrow_terminal() {
    let place = Place::new();
    let ring = place.ring(&["--producers", "many", "--size", "4K"]);
    run(&["publish", &ring], numbers(300).as_bytes());
    let mut holder = Holder::attach(&ring);
    run(&["consume", "-n", "100", &ring], b"");
    holder.report("reserve");
    let now = stat(&ring);
    let causes = ["full", "too_large", "contended", "pending"];
    let counts = ["written", "discarded", "reclaimed"].into_iter().chain(causes);
    for unit in ["records", "bytes"] {
        for name in counts.clone().chain(["open"]) {
            let key = format!("{name}_{unit}");
            assert!(now["slots"][0][&key].is_u64(), "no {key} in {}", now["slots"][0]);
        }
        for name in causes.map(|cause| format!("reported_{cause}")).iter().map(String::as_str) {
            assert!(now[format!("{name}_{unit}")].is_u64(), "no {name}_{unit}");
        }
        for name in counts.clone().chain(["stranded"]) {
            assert!(now[format!("{name}_{unit}")].is_u64(), "no {name}_{unit}");
        }
    }
    for name in ["slot", "pid", "uid", "epoch", "attached_ns"] {
        assert!(now["slots"][1][name].is_u64(), "no {name}");
    }
    assert_eq!((&now["producer"], &now["slots"][1]["alive"]), (&Value::Null, &json!(true)));
    let wide = run(&["stat", &ring], b"").out();
    assert!(wide.contains("  slot     state ") && wide.contains("  detached "), "{wide}");
    for command in [&["stat", &ring][..], &["doctor", &ring][..]] {
        let done = Done(perfring(command).env("COLUMNS", "60").output().unwrap());
        for line in done.out().lines().filter(|line| !line.contains(&ring)) {
            assert!(line.chars().count() <= 60, "{line:?}");
        }
        assert!(done.out().lines().count() > 10, "{}", done.out());
    }
}
