//! Every ring file in `proto/golden` is read, through every entry point, with the content in its `.expect.json`.
//! Other implementations can be tested with the files, and the files detect changes of the layout.
//!
//! `PERFRING_NEW_GOLDEN=1 cargo test -p perfring-tests golden_files::` writes missing files.

use perfring_abi::{Cause, RecordType};
use perfring_consumer::{
    Anchors, AttachError, Consumer, ConsumerOptions, Item, Observer, Snapshot, Start, WriterId,
    files::recover,
    metrics::{MetricSample, MetricSamples, MetricValue},
    stat::{Count, ProducerFigures, RingTotals, Seat, Stat},
};
use perfring_testkit::image::{Image, word};
use perfring_testkit::wait::until;
use perfring_tests::golden::{self, unmarked, with_unmarked};
use perfring_types::Entry;
use perfring_types::read::TypeTable;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The number of lines that `SHA256SUMS` had, and their own hash, when version 1 was frozen.
const FROZEN: (usize, &str) =
    (56, "6c76723d239d0199ee59674bc86e5e15fa38f33e433d34d65c691c9e7e07d393");

/// Returns the directory, with new files if they were requested: written once, before any test
/// reads it. Existing files are frozen.
fn folder() -> &'static Path {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/golden");
        if std::env::var_os("PERFRING_NEW_GOLDEN").is_some_and(|value| value == "1") {
            let mut sums = fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
            for ring in golden::all() {
                let text = serde_json::to_string_pretty(&ring.expect).unwrap() + "\n";
                for (kind, bytes) in [("perfring", &*ring.file), ("expect.json", text.as_bytes())] {
                    let name = format!("{}.{kind}", ring.name);
                    if !folder.join(&name).exists() {
                        fs::write(folder.join(&name), bytes).unwrap();
                        sums += &format!("{}  {name}\n", sha256(bytes));
                    }
                }
            }
            fs::write(folder.join("SHA256SUMS"), sums).unwrap();
        }
        folder
    });
    &FOLDER
}

fn sha256(bytes: &[u8]) -> String {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    let said = Command::new("sha256sum").stdin(file).output().unwrap().stdout;
    String::from_utf8(said).unwrap()[..64].to_owned()
}

/// Returns the names of the ring files in the directory.
fn names() -> BTreeSet<String> {
    let names: BTreeSet<_> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".perfring").map(str::to_owned))
        .collect();
    assert!(!names.is_empty(), "there are no golden files");
    names
}

/// Returns the files whose hashes are in `SHA256SUMS`: all except that file and the README.
fn frozen(folder: &Path) -> BTreeSet<String> {
    let names = fs::read_dir(folder).unwrap();
    names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".perfring") || name.ends_with(".expect.json"))
        .collect()
}

/// The frozen set of `proto/GROWTH.md`: no later version may fail to read it, so no file in it may
/// be changed or removed.
#[test]
fn the_frozen_set_is_what_it_was() {
    let sums = fs::read_to_string(folder().join("SHA256SUMS")).unwrap();
    let (lines, hash) = FROZEN;
    let first: String = sums.split_inclusive('\n').take(lines).collect();
    assert_eq!(
        sha256(first.as_bytes()),
        hash,
        "a line of version 1 was changed, see proto/GROWTH.md"
    );
    let listed: BTreeSet<_> =
        sums.lines().filter_map(|line| line.split("  ").nth(1)).map(str::to_owned).collect();
    assert_eq!(listed, frozen(folder()), "golden files and SHA256SUMS name different ones");
    let checked = Command::new("sha256sum")
        .args(["--check", "--strict", "--quiet", "SHA256SUMS"])
        .current_dir(folder())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "a golden file was changed: see proto/GROWTH.md\n{said}");
}

fn expectation(name: &str) -> Value {
    let path = folder().join(format!("{name}.expect.json"));
    let text = fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("a golden file without an expectation: {path:?}: {error}"));
    serde_json::from_str(&text).unwrap()
}

/// Returns whether this machine can map the golden files at all; if not, checks the error.
fn readable(path: &Path) -> bool {
    if cfg!(target_endian = "big") {
        let error = Observer::attach(path, Start::Oldest).unwrap_err();
        assert!(matches!(error, AttachError::Bad { .. }), "{error}");
        println!("this machine has the other byte order: {error}");
        return false;
    }
    true
}

fn item(found: Item<'_>, anchors: &Anchors) -> Value {
    match found {
        Item::Record(found) => {
            let mut shown = golden::record(found.pos, found.kind, found.bytes);
            if let Some(time) = found.time {
                shown["time"] = time.into();
                shown["wall"] = found.wall(anchors).into();
            }
            if let Some(WriterId { pid, tid }) = found.writer {
                shown["pid"] = pid.get().into();
                shown["tid"] = tid.into();
            }
            shown
        }
        Item::Lost(lost) => json!({
            "pos": lost.pos,
            "cause": lost.cause.name(),
            "lost_records": lost.records,
            "lost_bytes": lost.bytes,
        }),
    }
}

fn shown(totals: &RingTotals) -> Value {
    let mut shown = json!({
        "lost_markers": totals.producer.lost_markers,
        "consumer_pos": totals.consumer.pos,
    });
    for (name, count) in [
        ("written", totals.producer.written),
        ("discarded", totals.producer.discarded),
        ("reclaimed", totals.producer.reclaimed),
        ("read", totals.consumer.read),
        ("lapped", totals.consumer.lapped),
        ("overwritten", totals.overwritten),
        ("present", totals.present),
        ("stranded", totals.stranded),
    ] {
        count_in(&mut shown, name, count);
    }
    for (cause, refused) in totals.producer.refused.by_cause() {
        count_in(&mut shown, cause.name(), refused);
    }
    for (cause, reported) in totals.producer.reported.by_cause() {
        count_in(&mut shown, &format!("told_{}", cause.name()), reported);
    }
    shown
}

fn count_in(shown: &mut Value, name: &str, count: Count) {
    shown[format!("{name}_records")] = count.records.into();
    shown[format!("{name}_bytes")] = count.bytes.into();
}

/// Returns the producers of a shared ring, as in `Stat`.
fn slots(stat: &Stat) -> Value {
    let member = |member: &Seat<ProducerFigures>| {
        let figures = &member.figures;
        let mut found = holding(member);
        found["slot"] = member.number.into();
        for (name, count) in [
            ("written", figures.written),
            ("discarded", figures.discarded),
            ("reclaimed", figures.reclaimed),
            ("open", figures.open),
        ] {
            count_in(&mut found, name, count);
        }
        for (cause, count) in figures.refused.by_cause() {
            count_in(&mut found, cause.name(), count);
        }
        found
    };
    stat.producers.iter().map(member).collect()
}

/// Returns whether the file is a shared ring's, or a ring's per CPU, which has slots, too.
fn is_shared(expect: &Value) -> bool {
    expect["layout"]["producers"] != "one"
}

fn is_per_cpu(expect: &Value) -> bool {
    expect["layout"]["producers"] == "cpu"
}

fn holding<F>(place: &Seat<F>) -> Value {
    json!({
        "alive": place.is_alive(),
        "epoch": place.owner.epoch,
        "attached_ns": place.owner.attached_ns,
        "pid": place.owner.pid,
        "uid": place.owner.uid,
        "name": place.owner.name,
    })
}

/// Returns the content of the metrics area.
fn metrics(observer: &Observer) -> Value {
    let MetricSamples { fill, samples, .. } = observer.metrics().unwrap();
    assert_eq!(fill.damage, None);
    let sample = |sample: &MetricSample| {
        assert!(!sample.is_alive);
        let value = match &sample.value {
            MetricValue::U64(value) => json!(value),
            MetricValue::I64(value) => json!(value),
            MetricValue::F64(value) => json!(value),
            MetricValue::Record(payload) => json!({ "record": str::from_utf8(payload).unwrap() }),
            MetricValue::Histogram { buckets, counts, zeros, sum, range, refused } => json!({
                "scale": buckets.scale(), "first": buckets.first(), "counts": counts, "zeros": zeros,
                "sum": sum, "range": range, "refused": refused,
            }),
        };
        json!({
            "at": sample.at,
            "type": sample.kind.get(),
            "owner": sample.owner,
            "pid": sample.pid,
            "start_ns": sample.start_time_unix_nano,
            "value": value,
        })
    };
    json!({
        "size": fill.size,
        "used": fill.used,
        "instruments": fill.instruments,
        "refused": fill.refused,
        "replaced": fill.replaced,
        "samples": samples.iter().map(sample).collect::<Vec<_>>(),
    })
}

#[test]
fn every_golden_file_has_an_expectation_and_the_other_way_round() {
    let expectations: BTreeSet<_> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".expect.json").map(str::to_owned))
        .collect();
    assert_eq!(names(), expectations);
}

#[test]
fn snapshot_observer_and_stat_find_what_is_expected() {
    let mut found = 0;
    for name in names() {
        let path = folder().join(format!("{name}.perfring"));
        if !readable(&path) {
            return;
        }
        let untouched = fs::read(&path).unwrap();
        let expect = expectation(&name);

        let snapshot = Snapshot::take(&path).unwrap();
        let items: Vec<_> = {
            let shown = |found: Result<_, _>| item(found.unwrap(), snapshot.anchors());
            snapshot.iter().map(shown).collect()
        };
        // Records behind a dead producer's reservation are also in a snapshot.
        let (mut all, mut upto) = (expect["items"].clone(), &expect["data_head"]);
        if is_shared(&expect) {
            let stranded = &expect["stranded"];
            all.as_array_mut().unwrap().extend(stranded["items"].as_array().unwrap().clone());
            upto = &stranded["upto"];
        }
        // A marker among them reports losses that are unmarked before the head.
        let mut unmarked_here = unmarked(&expect, upto);
        unmarked_here.retain(|_| upto == &expect["data_head"]);
        all.as_array_mut().unwrap().extend(unmarked_here);
        assert_eq!(json!(items), all, "{name}: snapshot");
        assert_eq!(json!(snapshot.span().start), expect["data_tail"], "{name}: span");
        assert_eq!(&json!(snapshot.span().end), upto, "{name}: span");
        assert_eq!(shown(snapshot.totals()), expect["books"], "{name}: the snapshot's totals");

        let mut observer = Observer::attach(&path, Start::Oldest).unwrap();
        let anchors = observer.anchors();
        let mut items = Vec::new();
        let mut places = vec![observer.saved()];
        while let Some(found) = observer.read().unwrap() {
            items.push(item(found, &anchors));
            places.push(observer.saved());
        }
        let wanted = with_unmarked(&expect["items"], &expect);
        assert_eq!(json!(items), wanted, "{name}: observer");
        // Their records are unchanged, and their ranges are not.
        let gone = items.iter().filter(|item| item["cause"] == "lapped").count() as u64;
        assert_eq!(observer.lapped().records, gone, "{name}");
        found += items.len();

        // From each position that it has been at, an observer finds the rest.
        for (read, place) in places.into_iter().enumerate() {
            let mut observer = Observer::attach(&path, Start::At(place)).unwrap();
            let rest = std::iter::from_fn(|| observer.read().unwrap().map(drop)).count();
            assert_eq!(rest, items.len() - read, "{name}: from {place:?}");
        }
        let mut observer = Observer::attach(&path, Start::Latest).unwrap();
        let mut rest = Vec::new();
        while let Some(found) = observer.read().unwrap() {
            rest.push(item(found, &anchors));
        }
        // Losses from before its beginning are not its losses.
        assert_eq!(rest, Vec::<Value>::new(), "{name}: nothing comes any more");
        assert_eq!(json!(observer.saved().pos), expect["data_head"], "{name}: latest");
        let before = observer.saved().before.records;
        assert_eq!(json!(before), expect["books"]["written_records"], "{name}: latest");

        let stat = Stat::read(&path).unwrap();
        let totals = stat.totals.unwrap_or_else(|| panic!("{name}: no totals"));
        assert_eq!(shown(&totals), expect["books"], "{name}: totals");
        assert_eq!(json!(totals.tail), expect["data_tail"], "{name}");
        assert_eq!(json!(totals.head), expect["data_head"], "{name}");
        let aux = json!({
            "aux_size": stat.layout.aux_size,
            "aux_head": totals.aux_head,
            "aux_tail": totals.aux_tail,
        });
        match expect.get("aux") {
            Some(expected) => assert_eq!(&aux, expected, "{name}: AUX area"),
            None => assert_eq!(stat.layout.aux_size, 0, "{name}"),
        }
        assert_eq!(holding(&stat.producer), expect["producer"], "{name}: producer");
        assert_eq!(holding(&stat.consumer), expect["consumer"], "{name}: consumer");
        if is_shared(&expect) {
            assert_eq!(slots(&stat), expect["slots"], "{name}: slots");
            let held_up = stat.held_up.as_ref().map(
                |held| json!({ "slot": held.slot, "alive": held.alive, "locked": held.locked }),
            );
            assert_eq!(json!(held_up), expect["held_up"], "{name}: held up");
        }
        let found = match stat.layout.metrics_size {
            0 => Value::Null,
            _ => metrics(&observer),
        };
        assert_eq!(&found, expect.get("metrics").unwrap_or(&Value::Null), "{name}: metrics area");
        let mut layout = json!({
            "page_size": stat.layout.page_size,
            "data_size": stat.layout.data_size,
            "policy": stat.layout.policy.name(),
            "evict": format!("{:?}", stat.layout.evict).to_lowercase(),
            "tell": match stat.layout.report.code() { 0 => "in_stream", _ => "counters_only" },
            "producers": stat.layout.producers.name(),
            "time": stat.layout.time,
            "slot_count": stat.layout.slots,
            "created_ns": stat.layout.created_ns,
            "creator_pid": stat.layout.creator_pid,
            "creator_uid": stat.layout.creator_uid,
            "uuid": golden::hex(&stat.layout.uuid),
            "boot_id": golden::hex(&stat.layout.boot_id),
        });
        if is_per_cpu(&expect) {
            layout["cpu_number"] = stat.layout.cpu.into();
        }
        if stat.layout.sample_id {
            layout["sample_id"] = true.into();
        }
        assert_eq!(layout, expect["layout"], "{name}: layout");
        assert_eq!(fs::read(&path).unwrap(), untouched, "{name}: reading changed the file");
    }
    println!("{} golden files, {found} items, found by observer and snapshot", names().len());
}

#[test]
fn a_consumer_finds_what_is_unread_and_leaves_it_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut found = 0;
    for name in names() {
        let expect = expectation(&name);
        let file = fs::read(folder().join(format!("{name}.perfring"))).unwrap();
        let copy = dir.path().join(&name);

        fs::write(&copy, &file).unwrap();
        if !readable(&copy) {
            return;
        }
        let mut consumer = match Consumer::attach_with(&copy, &ConsumerOptions::named("test")) {
            Err(error @ AttachError::PageSize { .. }) => {
                println!("this machine's pages are larger: {error}");
                return;
            }
            attached => attached.unwrap(),
        };
        let (mut items, anchors) = (Vec::new(), consumer.anchors());
        while let Some(found) = consumer.read().unwrap() {
            items.push(item(found, &anchors));
        }
        let wanted = with_unmarked(&expect["unread"], &expect);
        assert_eq!(json!(items), wanted, "{name}: consumer");
        assert_eq!(json!(consumer.position()), expect["data_head"], "{name}: consumer");
        drop(consumer);
        found += items.len();

        // It has read everything now: nothing is left, and nothing was lost meanwhile.
        let stat = Stat::read(&copy).unwrap();
        let totals = stat.totals.unwrap();
        if let [one] = &stat.consumers[..] {
            // The tail is the producer's to move.
            assert_eq!((one.figures.totals.pos, totals.tail), (totals.head, 0), "{name}");
            assert_eq!(
                one.figures.totals.read, totals.producer.written,
                "{name}: a named consumer"
            );
            return;
        }
        let (read, lapped) = (totals.consumer.read, totals.consumer.lapped);
        assert_eq!(totals.consumer.pos, totals.head, "{name}");
        assert_eq!(read.plus(lapped), totals.producer.written, "{name}: written = read + lapped");
        assert_eq!(
            Consumer::attach_with(&copy, &ConsumerOptions::named("test")).unwrap().read().unwrap(),
            None,
            "{name}"
        );

        // Pinned, all at once.
        fs::write(&copy, &file).unwrap();
        let mut consumer = Consumer::attach_with(&copy, &ConsumerOptions::named("test")).unwrap();
        if let Some(pinned) = consumer.pinned().unwrap() {
            let mut held = Vec::new();
            while let Some(found) = pinned.read().unwrap() {
                held.push(found);
            }
            let items: Vec<_> = held.into_iter().map(|found| item(found, &anchors)).collect();
            assert_eq!(json!(items), with_unmarked(&expect["unread"], &expect), "{name}: pinned");
        } else {
            assert_eq!(expect["layout"]["policy"], "overwrite", "{name}: nothing pins these");
        }
    }
    println!("{} golden files, {found} items, found by a consumer", names().len());
}

#[test]
fn a_producer_goes_on_where_the_file_ends() {
    use perfring_producer::{Producer, SharedProducer};
    let dir = tempfile::tempdir().unwrap();
    for name in names() {
        let expect = expectation(&name);
        let copy = dir.path().join(&name);
        fs::copy(folder().join(format!("{name}.perfring")), &copy).unwrap();
        if !readable(&copy) {
            return;
        }
        if is_per_cpu(&expect) {
            // It is made for the producers of another machine's CPU.
            let before = fs::read(&copy).unwrap();
            for error in [
                SharedProducer::attach_as(&copy, "test").unwrap_err(),
                Producer::attach_as(&copy, "test").unwrap_err(),
            ] {
                assert!(error.to_string().contains("the producers of one CPU"), "{name}: {error}");
            }
            assert_eq!(fs::read(&copy).unwrap(), before, "{name}");
            continue;
        }
        let refused = if is_shared(&expect) {
            let producer = match SharedProducer::attach_as(&copy, "test") {
                Err(AttachError::PageSize { .. }) => return,
                attached => attached.unwrap(),
            };
            assert!(matches!(Producer::attach_as(&copy, "test"), Err(AttachError::Kind { .. })));
            producer.publish(b"after").is_err()
        } else {
            let mut producer = match Producer::attach_as(&copy, "test") {
                Err(AttachError::PageSize { .. }) => return,
                attached => attached.unwrap(),
            };
            let written = expect["books"]["written_records"].as_u64().unwrap();
            assert_eq!(producer.totals().written.records, written, "{name}");
            let other = SharedProducer::attach_as(&copy, "test");
            assert!(matches!(other, Err(AttachError::Kind { .. })));
            producer.publish(b"after").is_err()
        };
        // One ring is full.
        assert_eq!(refused, name == "drop_max_record", "{name}");
        let snapshot = Snapshot::take(&copy).unwrap();
        let items = snapshot.iter().map(Result::unwrap);
        let records = items.filter_map(|item| match item {
            Item::Record(record) => Some(record.bytes),
            Item::Lost(_) => None,
        });
        assert_eq!(records.last() == Some(b"after"), !refused, "{name}");
    }
    println!("a producer went on in {} golden files", names().len());
}

#[test]
fn a_shared_ring_is_recovered_whoever_does_it() {
    use perfring_producer::SharedProducer;
    let dir = tempfile::tempdir().unwrap();
    let mut reclaimed = 0;
    for name in names() {
        let mut expect = expectation(&name);
        if !is_shared(&expect) || is_per_cpu(&expect) {
            continue;
        }
        let copy = dir.path().join(&name);
        let original = folder().join(format!("{name}.perfring"));
        fs::copy(&original, &copy).unwrap();
        if !readable(&copy) {
            return;
        }
        // By a call of `recover`.
        if let Err(AttachError::PageSize { .. }) = recover(&copy) {
            return;
        }
        let wanted = &mut expect["recovered"];
        let stat = Stat::read(&copy).unwrap();
        assert_eq!(shown(&stat.totals.unwrap()), wanted["books"], "{name}: recovered");
        assert_eq!(slots(&stat), wanted["slots"], "{name}: recovered");
        assert_eq!(stat.held_up, None, "{name}: recovered");
        let file = fs::read(&copy).unwrap();
        assert_eq!(word(&file, "shared_lock"), 0, "{name}");
        assert_eq!(json!(word(&file, "producer_pos")), wanted["data_head"], "{name}");
        let mut observer = Observer::attach(&copy, Start::Oldest).unwrap();
        let (mut items, anchors) = (Vec::new(), observer.anchors());
        while let Some(found) = observer.read().unwrap() {
            items.push(item(found, &anchors));
        }
        assert_eq!(json!(items), with_unmarked(&wanted["items"], wanted), "{name}: recovered");
        assert_eq!(recover(&copy).unwrap().swept, [], "{name}: again");
        assert_eq!(fs::read(&copy).unwrap(), file, "{name}: there is nothing more to recover");

        // By a consumer that is about to sleep.
        fs::copy(&original, &copy).unwrap();
        let mut consumer = Consumer::attach_with(&copy, &ConsumerOptions::named("test")).unwrap();
        let mut items = Vec::new();
        // A reservation that is open the first time may be a slow producer's. Losses are returned before it, and not by the
        // marker behind it.
        let sorted = |items: &[Value]| {
            let is_lost = |item: &&Value| item.get("lost_records").is_some();
            let (lost, records): (Vec<_>, Vec<_>) = items.iter().partition(is_lost);
            let of =
                |lost: &&Value| json!([lost["cause"], lost["lost_records"], lost["lost_bytes"]]);
            (json!(records), lost.iter().map(of).collect::<Vec<_>>())
        };
        let wanted_unread = with_unmarked(&wanted["unread"], wanted);
        let wanted_unread = wanted_unread.as_array().unwrap();
        let all = wanted_unread.len();
        until(format!("{name}: the consumer has all"), || {
            while let Some(found) = consumer.read().unwrap() {
                items.push(item(found, &anchors));
            }
            consumer.sleep(std::time::Duration::from_millis(1));
            items.len() >= all
        });
        assert_eq!(sorted(&items), sorted(wanted_unread), "{name}: consumer");
        drop(consumer);

        // By producers that take the slots of the dead.
        fs::copy(&original, &copy).unwrap();
        let all: Vec<_> = (0..stat.layout.slots)
            .map(|_| SharedProducer::attach_as(&copy, "test").unwrap())
            .collect();
        let Err(full) = SharedProducer::attach_as(&copy, "test") else {
            panic!("{name}: one producer too many");
        };
        assert!(matches!(full, AttachError::Slots { .. }), "{full}");
        let wanted = &mut wanted["books"];
        // At their detach, the successors report the losses that the dead producers had not reported.
        drop(all);
        let found = shown(&Stat::read(&copy).unwrap().totals.unwrap());
        for (key, value) in wanted.as_object().unwrap() {
            if !key.starts_with("told_") && key != "lost_markers" {
                assert_eq!(&found[key], value, "{name}: {key}");
            }
        }
        for cause in Cause::REFUSED.map(Cause::name) {
            assert_eq!(found[format!("told_{cause}_records")], wanted[format!("{cause}_records")]);
        }
        reclaimed += wanted["reclaimed_records"].as_u64().unwrap();
    }
    assert!(reclaimed > 0);
    println!("{reclaimed} reservations of the dead were reclaimed, in three ways each");
}

/// Its CPU's number means another one here.
#[test]
fn a_ring_per_cpu_of_another_boot_is_read_and_not_published_to() {
    use nix::sched::{CpuSet, sched_getaffinity};
    use perfring_producer::{CpuProducer, error::CpuSetError};
    let allowed = sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap();
    let cpus: Vec<_> =
        (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu) == Ok(true)).collect();
    for name in ["per_cpu_drop", "per_cpu_overwrite"] {
        let dir = tempfile::tempdir().unwrap();
        for &cpu in &cpus {
            let mut image = Image::golden(name);
            image.set_field("cpu_number", cpu as u64);
            let path = dir.path().join(format!("cpu{cpu}"));
            fs::write(&path, &image.bytes).unwrap();
            if !readable(&path) {
                return;
            }
        }
        let refused = CpuProducer::attach(dir.path()).unwrap_err();
        match refused {
            CpuSetError::Rseq { .. } => println!("no rings per CPU here: {refused}"),
            refused => assert!(refused.to_string().contains("another boot"), "{refused}"),
        }
        for &cpu in &cpus {
            let path = dir.path().join(format!("cpu{cpu}"));
            assert_eq!(Stat::read(&path).unwrap().layout.cpu as usize, cpu);
            assert!(Observer::attach(&path, Start::Oldest).unwrap().read().unwrap().is_some());
        }
    }
    println!("on {} CPUs", cpus.len());
}

/// A ring per CPU without a reservation, open or closed, has nothing to be ended: records of sequences are
/// published.
#[test]
fn a_recovery_finds_nothing_to_do_in_a_ring_per_cpu_without_a_reservation() {
    let dir = tempfile::tempdir().unwrap();
    let mut tried = 0;
    for name in names().into_iter().filter(|name| is_per_cpu(&expectation(name))) {
        let copy = dir.path().join(&name);
        fs::copy(folder().join(format!("{name}.perfring")), &copy).unwrap();
        if !readable(&copy) {
            return;
        }
        let before = fs::read(&copy).unwrap();
        let recovered = match recover(&copy) {
            Err(AttachError::PageSize { .. }) => return,
            recovered => recovered.unwrap(),
        };
        assert_eq!((recovered.lock, recovered.swept), (None, vec![]), "{name}");
        assert_eq!(fs::read(&copy).unwrap(), before, "{name}: there is nothing to recover");
        tried += 1;
    }
    println!("{tried} rings per CPU");
    assert!(tried >= 2);
}

#[test]
fn types_are_found_and_records_are_read_by_them() {
    let mut read = 0;
    for name in names() {
        let path = folder().join(format!("{name}.perfring"));
        if !readable(&path) {
            return;
        }
        let (expect, snapshot) = (expectation(&name), Snapshot::take(&path).unwrap());
        let found: Vec<_> = snapshot
            .types()
            .entries()
            .map(|entry| {
                let Entry { id, layout, text, .. } = entry.unwrap();
                json!({ "id": id.get(), "layout": format!("{layout:016x}"), "text": text })
            })
            .collect();
        let Some(types) = expect.get("types") else {
            assert!(found.is_empty(), "{name}");
            continue;
        };
        assert_eq!(&json!(found), types, "{name}");
        let table = TypeTable::from_words(snapshot.types().words());
        assert!(table.damage().is_empty(), "{name}");
        let fields: Vec<_> = snapshot
            .iter()
            .map(|item| match item.unwrap() {
                Item::Record(record) => RecordType::new(record.kind)
                    .and_then(|id| table.get(id))
                    .map(|found| json!(found.decode(record.bytes).unwrap())),
                lost => panic!("{lost:?}"),
            })
            .collect();
        assert_eq!(json!(fields), expect["fields"], "{name}");
        read += fields.len();
    }
    println!("{read} records read by their types");
}

#[test]
fn the_writer_still_writes_these_very_bytes() {
    if cfg!(target_endian = "big") {
        println!("this machine has the other byte order: it writes other bytes");
        return;
    }
    let made = golden::all();
    for ring in &made {
        let path = folder().join(format!("{}.perfring", ring.name));
        let stored = fs::read(&path).unwrap();
        if let Some(at) =
            (0..stored.len().max(ring.file.len())).find(|&at| stored.get(at) != ring.file.get(at))
        {
            panic!(
                "{}: the writer now writes other bytes, from byte {at} on: {}; if old readers can read them, \
                 give the ring another name in tests/src/golden, and let this one stay",
                ring.name,
                field_at(at),
            );
        }
        assert_eq!(expectation(ring.name), ring.expect, "{}", ring.name);
    }
    let ours: BTreeSet<_> = made.iter().map(|ring| ring.name.to_owned()).collect();
    let known = names();
    assert!(ours.is_subset(&known), "{ours:?} {known:?}");
    println!("{} golden files written again, byte for byte", made.len());
}

/// Returns the field that a byte belongs to, for the message.
fn field_at(at: usize) -> &'static str {
    perfring_abi::FIELDS
        .iter()
        .find(|field| (field.offset..field.offset + field.size).contains(&at))
        .map_or("no field of the header page", |field| field.name)
}
