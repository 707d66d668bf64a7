//! Files as the real `perf script` and `perf report` read them.

use crate::common::shapes::{
    BYTES, TEXT, full_ring, kernel_ring, lapped_ring, metrics_area, two_of_one_pid,
};
use crate::common::{Followed, Kept, close_at_once, run, skip};
use perfring_export::{Output, PerfData, PerfDataOptions};
use perfring_producer::{Options, Producer};
use perfring_telemetry::{Log, Resource, Sink, options};
use std::path::Path;
use std::process::id;

fn options_of(path: &Path) -> PerfDataOptions {
    PerfDataOptions::new(path)
}

/// Returns what perf prints; `None` if there is no perf.
fn perf(args: &[&str], path: &Path) -> Option<String> {
    let path = path.to_str().unwrap();
    let Some(ran) = run("perf", &[args, &["-i", path]].concat()) else {
        skip("there is no perf (Debian: linux-perf)");
        return None;
    };
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    Some(String::from_utf8(ran.stdout).unwrap())
}

/// Returns perf's name of a type.
fn event(name: &str) -> &str {
    match name {
        "perfring-export.Plain" => "perfring_export:Plain",
        "perfring-export.Line" => "perfring_export:Line",
        "demo.Tagged event" => "demo:Tagged_event",
        "demo.Text" => "demo:Text",
        "demo.Json" => "demo:Json",
        "demo.Bytes" => "demo:Bytes",
        "" => "perfring:unknown",
        other => panic!("{other}"),
    }
}

/// Returns the lines that `perf script -F trace:pid,time,event,trace --ns` should print for a ring.
fn lines(ring: &Followed) -> Vec<String> {
    let mut lines = Vec::new();
    let line = |time: u64, event: &str, text: &str| {
        let (s, ns) = (time / 1_000_000_000, time % 1_000_000_000);
        format!("{} {s}.{ns:09}: {event}: {text}", id()).trim_end().to_owned()
    };
    let mut newest = 0;
    ring.events(0, |reported| match &reported.what {
        perfring_export::What::Record(record) => {
            newest = record.time.unwrap();
            let text = match (record.kind_of(), record.value()) {
                (Some(kind), Some(Ok(value))) => kind.render_text(value),
                (_, Some(Err(bad))) => bad.to_string(),
                _ => "type=4999".into(),
            };
            let name = record.kind_of().map_or("", |kind| kind.name.as_str());
            lines.push(line(newest, event(name), &text));
        }
        perfring_export::What::Lost(lost) => {
            let cause = lost.cause.name();
            let text = format!("records={} bytes={} cause={cause:?}", lost.records, lost.bytes);
            lines.push(line(newest, "perfring:lost", &text));
        }
        _ => {}
    });
    lines
}

#[test]
fn perf_script_shows_every_record_and_every_loss() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("perf.data");
    let rings =
        [full_ring(&dir.path().join("full"), 1), lapped_ring(&dir.path().join("lapped"), 2)];
    let mut out = PerfData::open("perf", &options_of(&path)).unwrap();
    rings.iter().for_each(|ring| ring.export(&mut out));
    assert!(!path.exists(), "it has no header yet");
    close_at_once(out);
    let own: Vec<_> =
        dir.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(own.len(), 3, "{own:?}"); // no other file is left

    let Some(shown) = perf(&["script", "--ns", "-F", "trace:pid,time,event,trace"], &path) else {
        return;
    };
    let shown: Vec<String> =
        shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let expected: Vec<String> = rings
        .iter()
        .flat_map(lines)
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    for (is, should) in shown.iter().zip(&expected) {
        assert_eq!(is, should);
    }
    assert_eq!(shown.len(), expected.len());
    println!("{} lines", shown.len());

    let lost: Vec<u64> = rings.iter().flat_map(Followed::losses).map(|lost| lost.records).collect();
    let shown = perf(&["script", "--show-lost-events"], &path).unwrap();
    let reported = shown.lines().filter_map(|line| line.split("PERF_RECORD_LOST lost ").nth(1));
    assert_eq!(reported.map(|lost| lost.trim().parse().unwrap()).collect::<Vec<u64>>(), lost);
    let stats = perf(&["report", "--stats"], &path).unwrap();
    let stat = |name: &str| {
        let line = stats.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        line.split_whitespace().nth(2).unwrap().parse::<usize>().unwrap()
    };
    assert_eq!((stat("SAMPLE"), stat("LOST")), (expected.len(), lost.len()));
    assert_eq!(stat("COMM"), 1);

    // Wall-clock times: those of the ring's records, in the test's time zone, UTC.
    let shown = perf(&["script", "-F", "trace:tod,time", "--ns"], &path).unwrap();
    let first = shown.lines().next().unwrap().split_whitespace().nth(1).unwrap();
    let nanos = rings[0].records()[0].wall.unwrap() % 1_000_000_000;
    let reported: u64 = first.rsplit('.').next().unwrap().trim_end_matches(':').parse().unwrap();
    assert!(reported.abs_diff(nanos) < 20_000, "{first} {nanos}");
}

#[test]
fn processes_have_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let (path, ring) = (dir.path().join("perf.data"), dir.path().join("ring"));
    let sink = Sink::create(
        &ring,
        &options(),
        Resource::default().with("service.name", "a shop é of all"),
    )
    .unwrap();
    sink.emit(&Log { body: "hello".into(), ..Log::default() }).unwrap();
    let mut followed = Followed::open(&ring, 1);
    let mut out = PerfData::open("perf", &options_of(&path)).unwrap();
    followed.read().export(&mut out);
    close_at_once(out);
    let Some(shown) = perf(&["script", "-F", "trace:comm,event,trace"], &path) else { return };
    let last: Vec<_> = shown.lines().last().unwrap().split_whitespace().collect();
    let last = last.join(" ");
    // 15 bytes, like the kernel's names.
    assert!(last.starts_with("a shop é of al perfring:Log: "), "{last}");
    assert!(last.contains("body=hello"), "{last}");
}

#[test]
fn two_processes_of_one_pid_have_their_own_names() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("perf.data");
    let mut out = PerfData::open("perf", &options_of(&path)).unwrap();
    for (id, name) in (1..).zip(["shop", "pay"]) {
        two_of_one_pid(dir.path(), id, name).export(&mut out);
    }
    close_at_once(out);
    let Some(shown) = perf(&["script", "-F", "trace:comm,pid,tid"], &path) else { return };
    let shown: Vec<_> =
        shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let (pid, other, thread) = (id(), 4_194_304, 4_194_305);
    let all = |name: &str, pid: u32, tid: u32| {
        [pid, pid, tid].map(|tid| format!("{name} {pid}/{tid}")).into_iter()
    };
    assert_eq!(shown, all("shop", pid, 77).chain(all("pay", other, thread)).collect::<Vec<_>>());
}

#[test]
fn the_kernels_records_are_of_their_threads() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("perf.data");
    let mut out = PerfData::open("perf", &options_of(&path)).unwrap();
    kernel_ring(&dir.path().join("ring"), 1).export(&mut out);
    close_at_once(out);
    let Some(shown) = perf(&["script", "-F", "trace:pid,tid,event"], &path) else { return };
    let tids: Vec<_> = shown.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(tids, ["10/11", "10/12", "10/11"]);
}

#[test]
fn samples_of_a_metrics_area_are_of_the_process_that_they_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("perf.data");
    let mut out = PerfData::open("perf", &options_of(&path)).unwrap();
    metrics_area(&dir.path().join("area"), 1).export(&mut out);
    close_at_once(out);
    let Some(shown) = perf(&["script", "-F", "trace:pid,tid,event"], &path) else { return };
    let tids: Vec<_> = shown.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(tids, [format!("{0}/{0}", id())]);
}

/// Returns the samples' raw data in the file.
fn raws(file: &[u8]) -> Vec<&[u8]> {
    let word = |at: usize| u64::from_ne_bytes(file[at..at + 8].try_into().unwrap()) as usize;
    let (mut at, end) = (word(40), word(40) + word(48));
    let mut raws = Vec::new();
    while at < end {
        let (kind, size) = (word(at) & 0xffff_ffff, word(at) >> 48);
        assert!(size >= 8 && size % 8 == 0 && at + size <= end, "{kind} {size}");
        if kind == 9 {
            let len = u32::from_ne_bytes(file[at + 48..at + 52].try_into().unwrap()) as usize;
            assert_eq!(52 + len, size);
            raws.push(&file[at + 52..at + size]);
        }
        at += size;
    }
    raws
}

#[test]
fn payloads_are_complete_as_far_as_a_sample_can_hold_them() {
    let dir = tempfile::tempdir().unwrap();
    let (path, ring) = (dir.path().join("perf.data"), dir.path().join("ring"));
    let create = Options { size: 1 << 20, time: true, ..Options::default() };
    let mut producer = Producer::create(&ring, &create).unwrap();
    let mut followed = Followed::open(&ring, 1);
    producer.register(&BYTES).unwrap();
    producer.register(&TEXT).unwrap();
    let sizes: Vec<usize> = (0..40).chain([15_000, 40_000, 60_000, 64_000, 65_500]).collect();
    for (at, size) in sizes.iter().enumerate() {
        let bytes: Vec<u8> = (0..*size).map(|byte| (byte * 31 + at) as u8).collect();
        producer.publish_as(BYTES.id, &bytes).unwrap();
    }
    producer.publish_as(TEXT.id, "é".repeat(30_000).as_bytes()).unwrap();
    let mut out = PerfData::open("perf", &options_of(&path)).unwrap();
    followed.read().export(&mut out);
    close_at_once(out);

    let file = std::fs::read(&path).unwrap();
    let raws = raws(&file);
    assert_eq!(raws.len(), followed.items.len());
    for (raw, item) in raws.iter().zip(&followed.items) {
        let Kept::Record { bytes, .. } = item else { panic!("a loss") };
        let word = |at: usize| u32::from_ne_bytes(raw[at..at + 4].try_into().unwrap()) as usize;
        let payload = &raw[word(24) & 0xffff..][..word(24) >> 16];
        assert_eq!(word(28), bytes.len());
        assert_eq!(payload, &bytes[..payload.len()]);
        assert!(payload.len() == bytes.len() || payload.len() > 64_000);
        let text = &raw[word(20) & 0xffff..][..word(20) >> 16];
        assert!(str::from_utf8(text).unwrap().ends_with('\0'));
    }
    let Some(shown) = perf(&["script", "-F", "trace:event,trace"], &path) else { return };
    assert_eq!(shown.lines().count(), raws.len());
}

#[test]
fn an_unfinished_output_leaves_nothing_and_an_existing_file_is_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("perf.data");
    let mut out = PerfData::open("perf", &options_of(&path)).unwrap();
    out.flush().unwrap();
    assert_eq!(dir.path().read_dir().unwrap().count(), 1);
    drop(out);
    assert_eq!(dir.path().read_dir().unwrap().count(), 0);
    std::fs::write(&path, "mine").unwrap();
    let refused = PerfData::open("perf", &options_of(&path)).unwrap_err();
    assert!(refused.to_string().contains("already exists"), "{refused}");
    let overwrite = PerfDataOptions { overwrite: true, ..options_of(&path) };
    let mut out = PerfData::open("perf", &overwrite).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"mine"); // until the new one is complete
    out.close(std::time::Instant::now()).unwrap();
    assert!(std::fs::read(&path).unwrap().starts_with(b"PERFILE2"));
    let Some(shown) = perf(&["script"], &path) else { return };
    assert_eq!(shown, "");
}

#[test]
fn nothing_is_delivered_before_the_end_and_a_dropped_one_is_finished() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("perf.data");
    let ring = full_ring(&dir.path().join("full"), 1);
    let mut out = PerfData::open("perf", &options_of(&path)).unwrap();
    ring.events(7, |event| assert_eq!(out.take(event).unwrap(), perfring_export::Took::Yes));
    out.flush().unwrap();
    assert_eq!((out.unsettled(), out.figures().delivered), (Some(7), 0));
    drop(out);
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes[..8], *b"PERFILE2");
    let Some(shown) = perf(&["script", "-F", "event"], &path) else { return };
    assert_eq!(shown.lines().count(), lines(&ring).len());
}

#[test]
fn only_a_regular_file_is_replaced() {
    // A socket, as a failure with a device would damage the machine of the test.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let options = PerfDataOptions { overwrite: true, ..options_of(&path) };
    let error = PerfData::open("perf", &options).unwrap_err().to_string();
    assert!(error.contains("it is not a regular file"), "{error}");
    assert!(!path.symlink_metadata().unwrap().is_file());
}
