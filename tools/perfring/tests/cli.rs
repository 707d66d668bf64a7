//! The promises of the command line, tested on the real binary.

use crate::command::{
    Done, Live, Place, close_and_wait, json_lines, perfring, publish, run, subcommands,
};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::signal::Signal;
use perfring_consumer::{Consumer, ConsumerOptions, stat::Stat};
use perfring_producer::{Options, Producer};
use perfring_testkit::wait::{sleeps, until};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};

const LINES: &[u8] = b"one\n\ntab\there\ngr\xc3\xbc\xc3\x9fe\nbytes \xff\x00\x1b\nno end";

#[test]
fn lines_come_back_in_every_format_from_every_reader() {
    let text = "one\n\ntab\there\ngrüße\nbytes \\xff\\x00\\x1b\nno end\n";
    let raw = b"onetab\theregr\xc3\xbc\xc3\x9febytes \xff\x00\x1bno end";
    for reader in ["tail", "dump", "consume"] {
        let place = Place::new();
        let ring = place.ring(&[]);
        publish(&ring, LINES);
        let read = |format| {
            // A consumer takes them out: publish new ones for each format.
            let done = run(&[reader, &ring, "--format", format], b"");
            assert_eq!(done.code(), 0, "{}", done.err());
            if reader == "consume" {
                publish(&ring, LINES);
            }
            done
        };
        assert_eq!(read("text").out(), text, "{reader}");
        assert_eq!(read("raw").0.stdout, raw, "{reader}");
        let lines = json_lines(&read("json").out());
        assert_eq!(lines.len(), 6, "{reader}");
        let first = &lines[0];
        assert_eq!(first["text"], "one");
        assert_eq!(first["len"], 3);
        assert_eq!(first["type"], 4096);
        assert!(first["pos"].is_u64() && first.get("base64").is_none());
        assert_eq!(lines[1]["text"], "");
        assert_eq!(lines[3]["text"], "grüße");
        assert_eq!(lines[4]["base64"], "Ynl0ZXMg/wAb");
        assert_eq!(lines[4]["len"], 9);
        assert!(lines[4].get("text").is_none());
        assert_eq!(lines[5]["text"], "no end");
    }
}

#[test]
fn text_can_show_positions_and_types() {
    let place = Place::new();
    let ring = place.ring(&[]);
    assert_eq!(run(&["publish", &ring, "--type", "0x1388"], b"a\nb\n").code(), 0);
    let shown = run(&["tail", "--positions", &ring], b"").out();
    let fields: Vec<Vec<&str>> =
        shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(fields, [["0", "5000", "a"], ["16", "5000", "b"]]);
    run(&["tail", "--positions", "--format", "raw", &ring], b"").refuses(2, "--format text");
}

#[test]
fn a_consumer_continues_where_the_last_one_ended() {
    for policy in ["drop", "overwrite"] {
        let place = Place::new();
        let ring = place.ring(&["--policy", policy]);
        publish(&ring, b"1\n2\n3\n4\n5\n");
        assert_eq!(run(&["consume", &ring, "-n", "2"], b"").out(), "1\n2\n", "{policy}");
        assert_eq!(run(&["tail", &ring, "-n", "1"], b"").code(), 0);
        assert_eq!(run(&["consume", &ring], b"").out(), "3\n4\n5\n", "{policy}");
        assert_eq!(run(&["consume", &ring], b"").out(), "", "{policy}");
    }
}

#[test]
fn tail_consumes_nothing() {
    let place = Place::new();
    let ring = place.ring(&[]);
    publish(&ring, b"1\n2\n");
    let before = fs::read(&ring).unwrap();
    fs::set_permissions(&ring, fs::Permissions::from_mode(0o400)).unwrap();
    for _ in 0..2 {
        assert_eq!(run(&["tail", &ring], b"").out(), "1\n2\n");
    }
    assert_eq!(run(&["dump", &ring], b"").out(), "1\n2\n");
    assert!(fs::read(&ring).unwrap() == before, "an observer wrote to the ring");
}

#[test]
fn follow_shows_new_records_and_ends_with_the_ring() {
    let place = Place::new();
    let ring = place.ring(&[]);
    for reader in ["tail", "consume"] {
        publish(&ring, b"early\n");
        let mut live = Live::start(&[reader, "-f", &ring]);
        assert_eq!(live.line(), "early");
        publish(&ring, b"late\n");
        assert_eq!(live.line(), "late");
        // Removed, or replaced by another ring: no more records can arrive.
        if reader == "consume" {
            assert_eq!(run(&["rm", "--force", &ring], b"").code(), 0);
        } else {
            let other = place.path("other");
            assert_eq!(run(&["create", other.to_str().unwrap()], b"").code(), 0);
            fs::rename(other, &ring).unwrap();
        }
        let (rest, err, code) = live.end();
        assert_eq!((rest.as_str(), code), ("", 0));
        assert!(err.contains("was removed"), "{err}");
    }
}

#[test]
fn from_latest_shows_only_new_records() {
    let place = Place::new();
    let ring = place.ring(&[]);
    let mut producer = Producer::attach(Path::new(&ring)).unwrap();
    producer.publish(b"old").unwrap();
    let mut live = Live::start(&["tail", "-f", "--first", "1", "--from", "latest", &ring]);
    // Its start cannot be detected: publish until it shows something.
    let (mut n, shown) = (0, std::cell::OnceCell::new());
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| live.line());
        until("a new record is shown", || {
            n += 1;
            let full = producer.publish(format!("new {n}").as_bytes());
            if full.is_err() {
                run(&["consume", &ring], b"");
            }
            reader.is_finished()
        });
        shown.set(reader.join().unwrap()).unwrap();
    });
    assert!(shown.get().unwrap().starts_with("new "), "{shown:?}");
    run(&["tail", "--from", "latest", &ring], b"").refuses(2, "-f");
}

#[test]
fn a_timeout_ends_with_124_and_reports_its_progress() {
    let place = Place::new();
    let ring = place.ring(&[]);
    publish(&ring, b"only\n");
    for reader in ["tail", "consume"] {
        let few = if reader == "tail" { "--first" } else { "-n" };
        let done = run(&[reader, few, "2", "--timeout", "50ms", &ring], b"");
        assert_eq!((done.code(), done.out().as_str()), (124, "only\n"));
        assert!(done.err().contains("1 of 2 records"), "{}", done.err());
    }
    // Enough records in time are a success.
    publish(&ring, b"next\n");
    assert_eq!(run(&["consume", "-n", "1", "--timeout", "5m", &ring], b"").code(), 0);
}

#[test]
fn a_ring_that_is_never_empty_neither_outlives_a_timeout_nor_holds_back_what_was_shown() {
    let place = Place::new();
    for (reader, policy) in [("tail", "drop"), ("consume", "drop"), ("consume", "overwrite")] {
        let ring = place.ring(&["--policy", policy]);
        publish(&ring, &b"x\n".repeat(4096));
        // The time is over before anything is read, and there are more records after every turn.
        let done = run(&[reader, "--timeout", "1ns", &ring], b"");
        assert_eq!((done.code(), done.out().len()), (124, 2 * 1024), "{reader} {policy}");
        fs::remove_file(&ring).unwrap();
    }
    // Each write is a datagram: what a turn has shown is written at its end.
    let ring = place.ring(&[]);
    publish(&ring, &b"x\n".repeat(4096));
    let (ours, theirs) = UnixDatagram::pair().unwrap();
    let mut tail = perfring(&["tail", &ring]).stdout(OwnedFd::from(theirs)).spawn().unwrap();
    assert!(tail.wait().unwrap().success());
    ours.set_nonblocking(true).unwrap();
    assert_eq!([(); 4].map(|()| ours.recv(&mut [0; 9000]).unwrap()), [2048; 4]);
}

#[test]
fn ctrl_c_and_term_end_in_order() {
    let place = Place::new();
    let ring = place.ring(&[]);
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        for reader in ["tail", "consume"] {
            publish(&ring, b"line\n");
            let mut live = Live::start(&[reader, "-f", &ring]);
            assert_eq!(live.line(), "line");
            live.signal(signal);
            let (_, err, ended) = live.end();
            assert_eq!((ended, err.as_str()), (code, ""), "{reader}");
            if reader == "tail" {
                assert_eq!(run(&["consume", &ring], b"").out(), "line\n");
            }
        }
        // A consumer has released what it showed.
        let stat = Stat::read(Path::new(&ring)).unwrap();
        assert!(!stat.consumer.is_alive());
        assert_eq!(stat.totals.unwrap().present.records, 0);
        let mut live = Live::start(&["stat", "--json", "-i", "10ms", &ring]);
        live.line();
        live.line();
        live.signal(signal);
        assert_eq!(live.end().2, code);
    }
}

#[test]
fn an_interrupted_publish_reports_and_keeps_what_it_published() {
    let place = Place::new();
    let ring = place.ring(&["--size", "4K"]);
    // Waiting for stdin.
    let mut live = Live::of({
        let mut command = perfring(&["publish", &ring]);
        command.stdin(Stdio::piped());
        command
    });
    let mut stdin = live.child.stdin.take().unwrap();
    stdin.write_all(b"first\n").unwrap();
    let records = || Stat::read(Path::new(&ring)).unwrap().totals.unwrap().present.records;
    until("the line is published", || records() == 1);
    live.signal(Signal::SIGINT);
    let (_, err, code) = live.end();
    assert_eq!((code, err.as_str()), (130, "perfring: published 1 records, lost 0\n"));
    drop(stdin);
    // Waiting for space, for longer than this test lives.
    let long = [b"x".repeat(3000), b"y".repeat(3000)].join(&b'\n');
    let mut live = Live::of({
        let mut command = perfring(&["publish", "--wait", "1h", &ring]);
        command.stdin(Stdio::piped());
        command
    });
    live.child.stdin.take().unwrap().write_all(&long).unwrap();
    until("the first line is published", || records() == 2);
    live.signal(Signal::SIGTERM);
    let (_, err, code) = live.end();
    assert_eq!(code, 143, "{err}");
    assert!(err.contains("published 1 records, lost 0"), "{err}");
    assert_eq!(run(&["dump", &ring], b"").out().lines().count(), 2);
}

#[test]
fn publish_waits_for_space_if_asked() {
    let place = Place::new();
    let ring = place.ring(&["--size", "4K"]);
    let lines: String = (0..1000).map(|n| format!("line {n}\n")).collect();
    let reader = Live::start(&["consume", "-n", "1000", "--timeout", "5m", &ring]);
    let done = run(&["publish", "--wait", "5m", "--fail-on-loss", &ring], lines.as_bytes());
    assert_eq!(done.code(), 0, "{}", done.err());
    let (out, _, code) = reader.end();
    assert_eq!(code, 0);
    assert!(out == lines, "the lines came in another order or number");
}

#[test]
fn a_closed_pipe_ends_quietly_and_loses_nothing() {
    let place = Place::new();
    let ring = place.ring(&["--size", "1M"]);
    let lines: String = (0..20_000).map(|n| format!("{n:020}\n")).collect();
    publish(&ring, lines.as_bytes());
    for reader in ["tail", "dump", "consume"] {
        let mut live = Live::start(&[reader, &ring]);
        assert_eq!(live.line(), format!("{:020}", 0), "{reader}");
        // As `head -1` does: closes its end with more to come, when the pipe is full.
        until("it sleeps in a write", || sleeps(live.child.id()));
        let (err, code) = close_and_wait(live);
        assert_eq!((err.as_str(), code), ("", 0), "{reader}");
    }
    // What stdout did not take stays in the ring: a pipe takes 64 KiB, our own buffer 8.
    let left = run(&["consume", &ring], b"").out();
    let consumed = lines.len() - left.len();
    assert!(lines.ends_with(&left));
    assert!(consumed <= 72 << 10, "{consumed} bytes were consumed, and not shown");
}

#[test]
fn losses_are_exact_and_reported_to_every_reader() {
    let place = Place::new();
    let ring = place.ring(&["--size", "4K"]);
    // 16 bytes each: 255 fit into a ring that is never quite full.
    let lines: String = (0..300).map(|n| format!("{n:03}\n")).collect();
    let done = run(&["publish", &ring, "--fail-on-loss"], lines.as_bytes());
    assert_eq!(done.code(), 5);
    assert!(
        done.err().contains("published 255 records, lost 45: full 45, too_large 0"),
        "{}",
        done.err()
    );
    // Without the flag a loss is only reported.
    let long = [&[b'x'; 5000][..], b"\n"].concat();
    let done = run(&["publish", &ring], &long);
    assert_eq!(done.code(), 0);
    assert!(done.err().contains("published 0 records, lost 1: full 0, too_large 1"));
    // No marker reports it, because none fits: each reader returns it at the end.
    assert_eq!(run(&["tail", &ring], b"").code(), 0);
    // A reader that ends before it counts them as well.
    run(&["tail", "--first", "0", "--fail-on-loss", &ring], b"").refuses(5, "46 records");
    let done = run(&["tail", "--first", "1", "--fail-on-loss", &ring], b"");
    assert!(done.code() == 5 && done.err().contains("46 records"), "{}", done.err());
    let are_reported = |done: &Done| {
        let err = done.err();
        assert!(err.contains("LOST 45 records") && err.contains(": full"), "{err}");
        assert!(err.contains("LOST 1 record ") && err.contains(": too_large"), "{err}");
    };
    for reader in ["tail", "dump"] {
        let done = run(&[reader, &ring], b"");
        assert_eq!((done.code(), done.out().lines().count()), (0, 255), "{reader}");
        are_reported(&done);
    }
    let done = run(&["tail", "--fail-on-loss", &ring], b"");
    assert!(done.code() == 5 && done.err().contains("46 records"), "{}", done.err());
    let done = run(&["consume", "-n", "255", "--format", "json", &ring], b"");
    assert_eq!((done.code(), json_lines(&done.out()).len()), (0, 255));
    let done = run(&["consume", "--fail-on-loss", &ring], b"");
    assert_eq!((done.code(), done.out().as_str()), (5, ""));
    assert!(done.err().contains("46 records"), "{}", done.err());
    are_reported(&done);
    assert_eq!(run(&["consume", "--fail-on-loss", &ring], b"").code(), 0, "it was told");
    // The next record that fits follows the report.
    publish(&ring, b"after\n");
    let text = run(&["tail", &ring], b"");
    assert_eq!(text.out(), "after\n");
    are_reported(&text);
    let lines = json_lines(&run(&["tail", "--format", "json", &ring], b"").out());
    let lost: Vec<&Value> = lines.iter().filter_map(|line| line.get("lost")).collect();
    assert_eq!(lost.len(), 2);
    assert_eq!((&lost[0]["records"], &lost[0]["cause"]), (&json!(45), &json!("full")));
    assert_eq!((&lost[0]["bytes"], &lost[1]["bytes"]), (&json!(45 * 16), &json!(5008)));
    assert!(lost[0]["pos"].is_u64());
    assert_eq!(run(&["tail", "--fail-on-loss", &ring], b"").code(), 5);
    // The consumer was told before, and passes the report.
    let done = run(&["consume", "--fail-on-loss", &ring], b"");
    assert_eq!((done.code(), done.out().as_str()), (0, "after\n"), "{}", done.err());
    let err = run(&["dump", &ring], b"").err();
    assert!(err.contains("full 45, too_large 1"), "{err}");
}

#[test]
fn a_lapped_tail_reports_how_much_it_missed() {
    let place = Place::new();
    let ring = place.ring(&["--size", "4K", "--policy", "overwrite"]);
    publish(&ring, b"first\n");
    assert_eq!(run(&["consume", "-n", "1", &ring], b"").out(), "first\n");
    let lines: String = (0..1000).map(|n| format!("{n:03}\n")).collect();
    publish(&ring, lines.as_bytes());
    let done = run(&["consume", "--fail-on-loss", &ring], b"");
    let read = done.out().lines().count();
    assert_eq!(done.code(), 5);
    assert!(done.err().contains(&format!("LOST {} records", 1000 - read)), "{}", done.err());
    assert!(done.err().contains("lapped"), "{}", done.err());
}

#[test]
fn only_a_full_ring_is_100_percent_full() {
    let place = Place::new();
    let ring = place.ring(&["--size", "64K"]);
    // 585 records of 112 bytes: 16 of 65536 bytes are left.
    publish(&ring, format!("{}\n", "x".repeat(100)).repeat(600).as_bytes());
    let one = run(&["stat", &ring], b"").out();
    assert!(one.contains(", 99.9% full (65520 of 65536 bytes)"), "{one}");
    let dir = place.path("");
    let [ls, set] = ["ls", "stat"].map(|what| run(&[what, dir.to_str().unwrap()], b"").out());
    assert!(ls.contains(" 99%") && set.contains(" 99.9% full (65520 of 65536 bytes)"), "{ls}{set}");
}

#[test]
fn stat_has_the_names_of_the_abi_and_balances() {
    for policy in ["drop", "overwrite"] {
        let place = Place::new();
        let ring = place.ring(&["--size", "4K", "--policy", policy]);
        let lines: String = (0..300).map(|n| format!("{n:03}\n")).collect();
        publish(&ring, lines.as_bytes());
        run(&["consume", "-n", "10", &ring], b"");
        let stat = &json_lines(&run(&["stat", "--json", &ring], b"").out())[0];
        let figure =
            |name: &str| stat[name].as_u64().unwrap_or_else(|| panic!("no {name}: {stat}"));
        assert_eq!(stat["policy"], policy);
        assert_eq!(stat["balanced"], true);
        assert_eq!(figure("data_size"), 4096);
        assert!(figure("data_tail") <= figure("data_head"));
        for name in [
            "written",
            "discarded",
            "full",
            "too_large",
            "reported_full",
            "reported_too_large",
            "unreported",
            "overwritten",
            "read",
            "lapped",
            "present",
        ] {
            for unit in ["records", "bytes"] {
                figure(&format!("{name}_{unit}"));
            }
        }
        for name in ["created_ns", "creator_pid", "creator_uid", "page_size", "max_len"] {
            figure(name);
        }
        for unit in ["records", "bytes"] {
            let figure = |name: &str| figure(&format!("{name}_{unit}"));
            let freed = if policy == "drop" { figure("read") } else { figure("overwritten") };
            assert_eq!(figure("written"), freed + figure("present"), "{policy} {unit}");
        }
        let (written, full) = if policy == "drop" { (255, 45) } else { (300, 0) };
        assert_eq!((figure("written_records"), figure("full_records")), (written, full));
        assert_eq!(figure("read_records"), 10);
        assert_eq!(stat["uuid"].as_str().unwrap().len(), 36);
        assert_eq!(stat["boot_id"].as_str().unwrap().len(), 36);
        for role in ["producer", "consumer"] {
            assert_eq!(stat[role]["alive"], false);
            assert_eq!(stat[role]["epoch"], 1);
            for name in ["pid", "attached_ns"] {
                assert!(stat[role][name].is_u64(), "{role} {name}");
            }
            assert_eq!(
                (&stat[role]["state"], &stat[role]["uid"]),
                (&json!("detached"), &json!(null))
            );
        }
        assert_eq!(stat["producer"]["name"], "perfring publish");
        let text = run(&["stat", &ring], b"").out();
        assert!(text.contains(&format!("balance      written {written} = ")), "{text}");
        assert!(text.contains("detached: perfring publish"), "{text}");
        let mut producer = Producer::attach_as(Path::new(&ring), "me").unwrap();
        producer.publish(b"").ok();
        let stat = &json_lines(&run(&["stat", "--json", &ring], b"").out())[0];
        assert_eq!(
            (&stat["producer"]["alive"], &stat["producer"]["name"]),
            (&json!(true), &json!("me"))
        );
        assert_eq!(stat["producer"]["pid"], std::process::id());
        assert_eq!(stat["consumer"]["alive"], false);
    }
}

#[test]
fn create_refuses_invalid_options() {
    let place = Place::new();
    let path = place.path("ring");
    let ring = path.to_str().unwrap();
    for (args, says) in [
        (["--size", "3000"], "power of two"),
        (["--size", "2K"], "power of two"),
        (["--size", "2T"], "1 TiB"),
        (["--size", "4Q"], "64K"),
        (["--mode", "01777"], "0777"),
        (["--mode", "rw"], "octal"),
        (["--policy", "maybe"], "overwrite"),
        (["--evict", "half"], "--policy overwrite"),
    ] {
        run(&["create", ring, args[0], args[1]], b"").refuses(2, says);
        assert!(!path.exists());
    }
    run(&["create"], b"").refuses(2, "<RING>");
    run(&["create", ""], b"").refuses(2, "needs a name");
    run(&["create", "shm:a/b"], b"").refuses(2, "cannot name a segment");
    run(&["create", place.path("no/such/dir").to_str().unwrap()], b"")
        .refuses(1, "such: make it first");
    assert_eq!(run(&["create", ring, "--mode", "0640"], b"").code(), 0);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    run(&["create", ring], b"").refuses(1, "exists already");
    let left: Vec<_> = fs::read_dir(place.0.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "a draft was left behind");
}

#[test]
fn wrong_usage_is_one_sentence_and_help_is_no_error() {
    run(&[], b"").refuses(2, "--help");
    run(&["tal"], b"").refuses(2, "'tail'");
    run(&["publish", "x", "--type", "2"], b"").refuses(2, "kernel");
    run(&["tail", "x", "--timeout", "-1"], b"").refuses(2, "see `perfring tail --help`");
    let commands = subcommands();
    assert!(commands.len() > 15, "{commands:?}");
    for command in commands.iter().filter(|name| *name != "help") {
        let help = run(&[command, "--help"], b"");
        assert_eq!((help.code(), help.err().as_str()), (0, ""));
        assert!(help.out().contains("Example: "), "{command} has no example");
        assert!(help.out().contains(&format!("perfring {command}")), "{command} has no example");
    }
    assert_eq!(run(&["--version"], b"").code(), 0);
}

#[cfg(feature = "bench")]
#[test]
fn bench_reports_what_it_needs() {
    run(&["bench", "--frob"], b"").refuses(2, "--frob");
    // An option that needs the source code says so without it.
    let compare = perfring(&["bench", "--compare"]).current_dir("/").output().unwrap();
    crate::command::Done(compare)
        .refuses(2, "cargo run --release --manifest-path benches/compare/Cargo.toml");
}

#[cfg(not(feature = "bench"))]
#[test]
fn there_is_no_bench_without_its_feature() {
    run(&["bench", "--short"], b"").refuses(2, "this build has no bench");
}

#[cfg(feature = "bench")]
#[test]
fn a_short_bench_loses_nothing_and_speaks_json() {
    let bench = run(&["bench", "--short", "--json", "--payloads", "8,64"], b"");
    assert_eq!(bench.code(), 0, "{}", bench.err());
    let mut ratios = 0;
    for line in bench.out().lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        if row["row"] == "sample" {
            for key in ["workload", "payload", "senders", "contestant", "records_per_s"] {
                assert!(!row[key].is_null(), "{key} in {line}");
            }
            assert!(row["lossless"] == false || row["lost"] == 0, "{line}");
            assert_eq!(row["bad"], 0, "{line}");
        }
        ratios += u32::from(row["of_floor"].is_number());
    }
    assert!(ratios > 0);
}

#[test]
fn a_missing_ring_is_3() {
    let place = Place::new();
    let path = place.path("none");
    let ring = path.to_str().unwrap();
    for command in ["publish", "tail", "consume", "dump", "stat"] {
        run(&[command, ring], b"line\n").refuses(3, "perfring create");
        run(&[command, "shm:perfring-no-such-ring"], b"").refuses(3, "shm:perfring-no-such-ring");
    }
    run(&["rm", ring], b"").refuses(3, "nothing to remove");
    assert!(!path.exists());
}

#[test]
fn a_file_that_is_no_ring_is_4_and_is_not_changed() {
    let place = Place::new();
    let ring = place.ring(&[]);
    publish(&ring, b"line\n");
    let whole = fs::read(&ring).unwrap();
    let mut newer = whole.clone();
    newer[1164..1168].copy_from_slice(&u32::MAX.to_ne_bytes()); // abi_compat
    for (name, bytes, says) in [
        ("empty", &[][..], "not a perfring file"),
        ("short", b"hello", "not a perfring file"),
        ("foreign", &[7; 8192], "not a perfring file"),
        ("truncated", &whole[..whole.len() - 4096], "cut short"),
        ("newer", &newer, "update perfring"),
    ] {
        let path = place.path(name);
        fs::write(&path, bytes).unwrap();
        let file = path.to_str().unwrap();
        for command in ["publish", "tail", "consume", "dump", "stat", "rm"] {
            run(&[command, file], b"line\n").refuses(4, says);
            assert!(fs::read(&path).unwrap() == bytes, "{command} changed it");
        }
    }
    let dir = place.0.path().to_str().unwrap();
    run(&["consume", dir], b"").refuses(1, "it is a directory: name a ring in it");
    let shown = run(&["tail", dir], b"");
    assert_eq!(
        (shown.code(), shown.out(), shown.err().lines().count()),
        (0, "ring: line\n".into(), 5)
    );
    let shown = run(&["stat", dir], b"");
    assert_eq!((shown.code(), shown.err().lines().count()), (0, 5));
}

#[test]
fn everything_readable_of_a_damaged_ring_is_shown() {
    let place = Place::new();
    let ring = place.ring(&[]);
    publish(&ring, b"one\ntwo\nthree\nfour\n");
    // The header of the third record: records are 16 bytes each, after a page.
    let file = fs::File::options().write(true).open(&ring).unwrap();
    file.write_all_at(&[0; 8], 4096 + 32).unwrap();
    let dump = run(&["dump", &ring], b"");
    assert_eq!((dump.code(), dump.out().as_str()), (4, "one\ntwo\n"));
    assert!(dump.err().contains("damaged at position 32"), "{}", dump.err());
    assert!(dump.err().contains("written 4"), "the counters are missing: {}", dump.err());
    for reader in ["tail", "consume"] {
        let done = run(&[reader, &ring], b"");
        assert_eq!((done.code(), done.out().as_str()), (4, "one\ntwo\n"), "{reader}");
        assert!(done.err().contains("perfring dump"), "{}", done.err());
    }
    // Also after a killed producer, whose totals cannot be recovered because of the damage.
    fs::remove_file(&ring).unwrap();
    let ring = place.ring(&[]);
    let mut producer = Producer::attach(Path::new(&ring)).unwrap();
    for line in ["one", "two", "three", "four"] {
        producer.publish(line.as_bytes()).unwrap();
    }
    // A copy of the file is what a killed producer leaves behind.
    let left = place.path("left");
    fs::copy(&ring, &left).unwrap();
    drop(producer);
    let ring = left.to_str().unwrap().to_owned();
    let file = fs::File::options().write(true).open(&ring).unwrap();
    file.write_all_at(&[0; 8], 4096 + 32).unwrap();
    let dump = run(&["dump", &ring], b"");
    assert_eq!((dump.code(), dump.out().as_str()), (4, "one\ntwo\n"));
    assert!(dump.err().contains("the 2 records before it are intact"), "{}", dump.err());
    // An invalid head: nothing can be read, which is reported, and nothing hangs.
    file.write_all_at(&u64::MAX.to_ne_bytes(), 1024).unwrap();
    for command in ["dump", "tail", "consume", "publish", "stat"] {
        let done = run(&[command, &ring], b"x\n");
        assert_eq!(done.code(), 4, "{command}: {}", done.err());
    }
}

#[test]
fn rm_refuses_while_a_process_is_attached() {
    let place = Place::new();
    let ring = place.ring(&[]);
    let path = Path::new(&ring);
    let producer = Producer::attach_as(path, "holder").unwrap();
    run(&["rm", &ring], b"").refuses(1, "--force");
    run(&["publish", &ring], b"x\n").refuses(1, "has a producer already: holder");
    drop(producer);
    let consumer = Consumer::attach_with(path, &ConsumerOptions::named("holder")).unwrap();
    run(&["rm", &ring], b"").refuses(1, "has a consumer already: holder");
    run(&["consume", &ring], b"").refuses(1, "perfring tail");
    assert!(path.exists());
    assert_eq!(run(&["rm", "--force", &ring], b"").code(), 0);
    assert!(!path.exists());
    drop(consumer);
    let ring = place.ring(&[]);
    assert_eq!(run(&["rm", &ring], b"").code(), 0);
    assert!(!path.exists());
}

#[test]
fn named_segments_are_rings_too() {
    let name = format!("perfring-cli-test-{}", std::process::id());
    let ring = format!("shm:{name}");
    assert_eq!(run(&["create", &ring], b"").code(), 0);
    let path = Path::new("/dev/shm").join(&name);
    assert!(path.exists());
    publish(&ring, b"in a segment\n");
    assert_eq!(run(&["tail", &ring], b"").out(), "in a segment\n");
    assert_eq!(run(&["tail", path.to_str().unwrap()], b"").out(), "in a segment\n");
    assert_eq!(run(&["rm", &ring], b"").code(), 0);
    assert!(!path.exists());
}

#[test]
fn publish_ends_with_an_error_when_its_ring_was_removed() {
    let says = "was removed, or another file has its name";
    for (options, wait) in [(&[][..], &[][..]), (&["--producers", "many"], &["--wait", "1h"])] {
        let place = Place::new();
        let ring = place.ring(options);
        let mut command = perfring(&["publish", &ring]);
        let mut child = command.args(wait).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"one\n").unwrap();
        until("the line", || run(&["dump", &ring], b"").out() == "one\n");
        fs::remove_file(&ring).unwrap();
        // Its input does not end, and nothing comes.
        let done = Done(child.wait_with_output().unwrap());
        drop(stdin);
        assert!(done.code() == 1 && done.err().contains(says), "{}", done.err());
    }
    // What came within the last second is found out at the end of the input.
    let place = Place::new();
    let ring = place.ring(&[]);
    let mut child = perfring(&["publish", &ring]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"one\n").unwrap();
    until("the line", || run(&["dump", &ring], b"").out() == "one\n");
    fs::remove_file(&ring).unwrap();
    run(&["create", &ring], b"");
    drop(stdin);
    let done = Done(child.wait_with_output().unwrap());
    assert!(done.code() == 1 && done.err().contains(says), "{}", done.err());
}

#[test]
fn publish_into_a_ring_that_is_cut_says_so_and_counts_nothing_as_published() {
    let kinds =
        [&[][..], &["--policy", "overwrite"], &["--producers", "many"], &["--producers", "cpu"]];
    // Nothing, a part of the first page, the first page, some of the data.
    for (kind, left) in kinds.into_iter().flat_map(|kind| [0, 100, 4096, 9000].map(|at| (kind, at)))
    {
        let place = Place::new();
        let named = place.ring(kind);
        let mut child = perfring(&["publish", &named]).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"one\n").unwrap();
        until("the line", || run(&["dump", &named, "-q"], b"").out().contains("one"));
        let mut rings = vec![named.clone()];
        if kind.contains(&"cpu") {
            let paths = fs::read_dir(&named).unwrap().map(|entry| entry.unwrap().path());
            rings = paths.map(|path| path.display().to_string()).collect();
        }
        for ring in &rings {
            fs::File::options().write(true).open(ring).unwrap().set_len(left).unwrap();
        }
        drop(stdin);
        let done = Done(child.wait_with_output().unwrap());
        let err = done.err();
        let says = format!("perfring: {named} was truncated while it was in use");
        assert!(done.code() == 4 && err.contains(&says), "{kind:?}, {left}: {err}");
        assert!(!err.contains("published"), "{kind:?}, {left}: {err}");
    }
}

#[test]
fn a_limit_for_the_size_of_files_is_an_error_that_names_it() {
    let place = Place::new();
    let ring = place.0.path().join("ring");
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -f 1024; exec \"$0\" create \"$1\" --size 64M"]);
    let output = shell.arg(env!("CARGO_BIN_EXE_perfring")).arg(&ring).output().unwrap();
    Done(output).refuses(1, "raise that limit (`ulimit -f`)");
    assert_eq!(fs::read_dir(place.0.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn a_low_limit_of_descriptors_leaves_no_ring_out() {
    let place = Place::new();
    let rings = place.0.path().join("rings");
    for nth in 0..150 {
        let options = Options { size: 4096, ..Options::default() };
        fs::create_dir_all(&rings).unwrap();
        let mut producer = Producer::create(rings.join(nth.to_string()), &options).unwrap();
        producer.publish(b"one").unwrap();
    }
    let recording = place.0.path().join("all.perfrec");
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -Sn 64; exec \"$0\" record \"$1\" -o \"$2\" --for 1s"]);
    shell.arg(env!("CARGO_BIN_EXE_perfring")).args([&rings, &recording]);
    let done = Done(shell.output().unwrap());
    assert_eq!(done.code(), 0, "{}", done.err());
    let exported = run(&["export", recording.to_str().unwrap(), "--to", "json", "-q"], b"").out();
    assert_eq!(exported.lines().count(), 150);
}

#[test]
fn stat_opens_a_ring_once() {
    let place = Place::new();
    let ring = place.ring(&[]);
    publish(&ring, b"one\n");
    let opened = Inotify::init(InitFlags::IN_NONBLOCK).unwrap();
    opened.add_watch(&*ring, AddWatchFlags::IN_OPEN).unwrap();
    let done = run(&["stat", "--json", &ring], b"");
    assert_eq!(done.code(), 0, "{}", done.err());
    assert_eq!(opened.read_events().unwrap().len(), 1);
}
