//! What it does while a disk is full, and with the files that it left.

use super::stage::{Disk, Rings, publish, rings_end, text};
use super::{lost, records};
use crate::command::json_lines;
use nix::sys::signal::Signal;
use perfring_consumer::stat::Stat;
use perfring_producer::Policy;
use perfring_testkit::wait::until;
use serde_json::Value;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Records that go through a buffer.
const ALL: u64 = 50_000;

#[test]
fn an_output_on_a_full_disk_holds_up_no_other_and_sighup_repairs_it() {
    const ALL: u64 = 100_000;
    let rings = Rings::new();
    let Some(Disk(disk)) = &rings.disk() else { return };
    let mut producer = rings.large_ring("one");
    let (stuck, healthy, config) =
        (format!("{disk}/stuck.jsonl"), rings.path("healthy.jsonl"), rings.path("sidecar.toml"));
    let write_config = |stuck: &str| {
        let output =
            |name, path| format!("[[output]]\ntype = \"json\"\nname = {name:?}\npath = {path:?}\n");
        fs::write(&config, output("stuck", stuck) + &output("healthy", &healthy)).unwrap();
    };
    write_config(&stuck);
    let live = rings.sidecar(&["--config", &config]);
    publish(&mut producer, 0, ALL / 2);
    let count = |name: &str| rings.lines(name).len() as u64;
    until("the healthy one has half", || count("healthy") == ALL / 2);
    until("the disk is full", || rings.said().contains("No space left on device"));
    publish(&mut producer, ALL / 2, ALL);
    until("the healthy one has all", || count("healthy") == ALL);
    let mended = rings.path("mended.jsonl");
    write_config(&mended);
    live.signal(Signal::SIGHUP);
    until("it is applied", || rings.said().contains("was reloaded"));
    let path = rings.place.path("rings").join("one");
    until("all is released", || {
        let totals = Stat::read(path.clone()).unwrap().totals.unwrap();
        totals.tail == totals.head
    });
    live.signal(Signal::SIGTERM);
    assert_eq!(rings_end(live).2, 0, "{}", rings.said());
    let before = fs::read_to_string(&stuck).unwrap();
    assert!(before.ends_with('\n') && before.len() > 400 << 10, "it is truncated to whole lines");
    let before = json_lines(&before);
    let after = rings.lines("mended");
    eprintln!("{} lines before, {} after", before.len(), after.len());
    assert_eq!((before.len() + after.len()) as u64, ALL, "none is lost, and none doubled");
    let texts = |lines: &[Value]| -> Vec<String> {
        lines.iter().map(|line| line["text"].as_str().unwrap().to_owned()).collect()
    };
    let all: Vec<String> = [texts(&before), texts(&after)].concat();
    assert!(all.iter().cloned().eq((0..ALL).map(text)) && texts(&rings.lines("healthy")) == all);
}

/// Has an output with a buffer stuck, and the sidecar killed. `between` is given the buffer's files; then the disk is mended, and
/// the rest comes out of the buffer. Returns the output's lines, what the sidecars said, and how many records were offered to the
/// ring.
fn through_a_buffer(between: impl FnOnce(Vec<PathBuf>)) -> Option<(Vec<Value>, String, u64)> {
    let rings = Rings::new();
    let Some(Disk(disk)) = &rings.disk() else { return None };
    let (mut producer, config) = (rings.ring("one", Policy::Drop), rings.path("sidecar.toml"));
    let (stuck, healthy) = (format!("{disk}/stuck.jsonl"), rings.path("healthy.jsonl"));
    let buffer = rings.path("buffer");
    let text_of = format!(
        "[[output]]\ntype = \"json\"\nname = \"stuck\"\npath = {stuck:?}\n\
         buffer = {{ path = {buffer:?} }}\n\
         [[output]]\ntype = \"json\"\nname = \"healthy\"\npath = {healthy:?}\n"
    );
    fs::write(&config, text_of).unwrap();
    let mut live = rings.sidecar(&["--config", &config]);
    // The ring has room for some two thousand of them.
    for n in 0..ALL {
        until("there is room", || producer.publish(text(n).as_bytes()).is_ok());
    }
    until("the healthy one has all", || {
        records(&rings.lines("healthy"), "one").len() as u64 == ALL
    });
    assert!(rings.said().contains("No space left on device"), "{}", rings.said());
    let path = rings.place.path("rings").join("one");
    until("the ring is empty", || {
        let totals = Stat::read(path.clone()).unwrap().totals.unwrap();
        totals.tail == totals.head
    });
    let written = json_lines(fs::read_to_string(&stuck).unwrap().rsplit_once('\n').unwrap().0);
    assert!((written.len() as u64) < ALL / 2, "{}", written.len());
    live.child.kill().unwrap();
    live.child.wait().unwrap();
    let files = fs::read_dir(&buffer).unwrap().map(|entry| entry.unwrap().path());
    between(files.filter(|path| path.extension().is_some_and(|of| of == "perfrec")).collect());
    let more = std::process::Command::new("mount")
        .args(["-o", "remount,size=64m", disk])
        .status()
        .unwrap();
    assert!(more.success());
    let live = rings.sidecar(&["--config", &config]);
    let lines = || {
        let whole = fs::read_to_string(&stuck).unwrap();
        json_lines(whole.rsplit_once('\n').map_or("", |(whole, _)| whole))
    };
    let last = text(ALL - 1);
    until("it has the last", || records(&lines(), "one").into_values().any(|text| text == last));
    live.signal(Signal::SIGTERM);
    assert_eq!(rings_end(live).2, 0, "{}", rings.said());
    let refused = Stat::read(path).unwrap().totals.unwrap().producer.refused;
    Some((lines(), rings.said(), ALL + refused.total().records))
}

#[test]
fn a_buffer_takes_what_a_stuck_output_lacks_and_a_small_ring_goes_on() {
    let Some((lines, ..)) = through_a_buffer(|_| {}) else { return };
    assert!(records(&lines, "one").into_values().eq((0..ALL).map(text)));
}

#[test]
fn damage_to_a_buffer_is_a_loss_with_its_number_in_the_outputs_file_and_in_what_the_sidecar_says() {
    let damage = |files: Vec<PathBuf>| {
        let size = |path: &PathBuf| fs::metadata(path).unwrap().len();
        let largest = files.into_iter().max_by_key(size).unwrap();
        let middle = size(&largest) / 2;
        let file = fs::File::options().write(true).read(true).open(largest).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, middle).unwrap();
        file.write_all_at(&[!byte[0]], middle).unwrap();
    };
    let Some((lines, said, offered)) = through_a_buffer(damage) else { return };
    assert_eq!(records(&lines, "one").len() as u64 + lost(&lines, "one"), offered);
    let of_damage = lines.iter().map(|line| &line["lost"]);
    let of_damage: Vec<_> = of_damage.filter(|lost| lost["cause"] == "buffer damaged").collect();
    let [of_damage] = of_damage[..] else { panic!("{of_damage:?}") };
    let told = format!("{} lost in its damaged buffer", of_damage["records"]);
    assert!(said.contains(&told), "{said}");
    assert!(said.contains("what is lost of it is reported as lost"), "{said}");
}

#[test]
fn a_full_disk_is_reported_and_nothing_is_lost() {
    let rings = Rings::new();
    let Some(Disk(disk)) = &rings.disk() else { return };
    let filler = format!("{disk}/filler");
    fs::write(&filler, vec![0; 480 << 10]).unwrap();
    let mut producer = rings.ring("one", Policy::Drop);
    let out = format!("{disk}/out.jsonl");
    let live = rings.sidecar(&["--output", &format!("json:{out}")]);
    let mut sent = 0;
    until("the disk is full", || {
        if sent < 1000 && producer.publish(text(sent).as_bytes()).is_ok() {
            sent += 1;
        }
        rings.said().contains("No space left on device")
    });
    fs::remove_file(&filler).unwrap();
    publish(&mut producer, sent, sent + 1);
    until("it continues", || rings.said().contains("level=info output=json msg=recovered"));
    until("all are present", || {
        let whole = fs::read_to_string(&out).unwrap();
        whole.ends_with('\n') && records(&json_lines(&whole), "one").len() as u64 == sent + 1
    });
    live.signal(Signal::SIGTERM);
    assert_eq!(rings_end(live).2, 0);
    let lines = json_lines(&fs::read_to_string(&out).unwrap());
    assert_eq!(lines.len() as u64, sent + 1, "none twice, none torn");
}

#[test]
fn after_sigkill_outputs_that_write_files_go_on_beside_their_last_ones() {
    let rings = Rings::new();
    let mut producer = rings.ring("one", Policy::Drop);
    let outputs = [("recording", "run.perfrec"), ("perfetto", "run.pftrace"), ("ctf", "run")];
    let flags = outputs.map(|(kind, name)| format!("{kind}:{}", rings.path(name)));
    let args: Vec<&str> = flags.iter().flat_map(|flag| ["--output", flag]).collect();
    let path = rings.place.path("rings").join("one");
    for life in 0..3 {
        let mut live = rings.sidecar(&args);
        publish(&mut producer, 1000 * life, 1000 * (life + 1));
        until("all is delivered", || {
            let totals = Stat::read(path.clone()).unwrap().totals.unwrap();
            totals.tail == totals.head
        });
        live.child.kill().unwrap();
        live.child.wait().unwrap();
        // As if the machine had died in the middle of a write.
        let last = rings.path(if life == 0 { "run.perfrec" } else { "run.000002.perfrec" });
        if life < 2 {
            let mut torn = fs::read(&last).unwrap();
            torn.extend(b"PFRB half a block");
            fs::write(&last, torn).unwrap();
        }
    }
    let mut came = Vec::new();
    for name in ["run.perfrec", "run.000002.perfrec", "run.000003.perfrec"] {
        let mut reader =
            perfring_export::recording::Reader::open(rings.path(name).as_ref()).unwrap();
        while let Ok(Some(event)) = reader.next() {
            if let perfring_export::What::Record(record) = event.what {
                came.push(String::from_utf8(record.bytes.to_vec()).unwrap());
            }
        }
    }
    came.dedup();
    assert_eq!(came, (0..3000).map(text).collect::<Vec<_>>());
    for name in ["run.pftrace", "run.000002.pftrace", "run.000003.pftrace", "run.000003"] {
        assert!(Path::new(&rings.path(name)).exists(), "{name}: {}", rings.said());
    }
}

/// A copy that lost its pages of zeros (`cp --sparse`) can be read once the file system has room for them.
#[test]
fn rings_that_lack_pages_on_a_full_disk_are_read_once_there_is_room() {
    let rings = Rings::new();
    let Some(Disk(disk)) = &rings.disk() else { return };
    for (name, policy) in [("drops", Policy::Drop), ("flight", Policy::Overwrite)] {
        let mut producer = rings.ring(name, policy);
        publish(&mut producer, 0, 1);
        producer.publish(&[0; 16 << 10]).unwrap();
        publish(&mut producer, 1, 2);
        drop(producer);
        let copied = Command::new("cp")
            .args(["--sparse=always", &rings.path(&format!("rings/{name}")), disk])
            .status();
        assert!(copied.unwrap().success());
        fs::remove_file(rings.path(&format!("rings/{name}"))).unwrap();
    }
    let (fill, out) = (format!("{disk}/fill"), format!("json:{}", rings.path("out.jsonl")));
    let full = fs::write(&fill, vec![1; 512 << 10]).unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    let live = rings.sidecar(&[disk, "--output", &out]);
    until("the copy that is consumed is refused", || rings.said().contains("lacks pages"));
    until("the copy that is observed ends", || {
        rings.said().contains("each second, and the others continue")
    });
    fs::remove_file(fill).unwrap();
    let texts = |ring: &str| records(&rings.lines("out"), ring);
    until("all come", || {
        let count = |name: &str| {
            let lines = rings.lines("out");
            lines.iter().filter(|line| line["ring"] == name && line["lost"].is_null()).count()
        };
        (count("drops"), count("flight")) == (3, 3)
    });
    live.signal(Signal::SIGTERM);
    assert_eq!(rings_end(live).2, 0);
    for ring in ["drops", "flight"] {
        assert_eq!(texts(ring).values().last().cloned(), Some(text(1)));
    }
    let said = rings.said();
    assert!(
        !said.contains("set aside") && said.matches("second, and the others continue").count() == 1,
        "{said}"
    );
}
