//! Large payloads through the command: rings with an AUX area.

use crate::command::{Place, run};
use perfring_producer::{Producer, RecordType};
use serde_json::{Value, json};
use std::path::Path;

fn stat(ring: &str) -> Value {
    serde_json::from_str(&run(&["stat", "--json", ring], b"").out()).unwrap()
}

/// Returns lines of these lengths.
fn lines(lens: &[usize]) -> Vec<u8> {
    lens.iter().flat_map(|len| [vec![b'x'; *len], b"\n".to_vec()].concat()).collect()
}

#[test]
fn large_lines_go_in_and_come_out() {
    for kind in [&[][..], &["--producers", "many"], &["--policy", "overwrite", "--time"]] {
        let place = Place::new();
        let ring = place.ring(&[&["--size", "64K", "--aux-size", "1M"], kind].concat());
        let input = lines(&[5, 100_000, 0, 65_521, 300_000]);
        crate::command::publish(&ring, &input);
        let figures = stat(&ring);
        let taken = 100_032 + 65_536 + 300_032;
        assert_eq!(figures["aux_size"], json!(1 << 20));
        assert_eq!(figures["max_len"], json!(1 << 20));
        assert_eq!((&figures["aux_head"], &figures["aux_tail"]), (&json!(taken), &json!(0)));
        let text = run(&["stat", &ring], b"").out();
        let percent = format!("aux area     1 MiB, 44.4% full ({taken} of 1048576 bytes)");
        assert!(text.contains(&percent) && text.contains("\n  aux_head"), "{text}");
        let doctor = run(&["doctor", &ring], b"").out();
        assert!(doctor.contains("64 KiB and 1 MiB for large payloads"), "{doctor}");
        for reader in ["dump", "tail", "consume"] {
            let done = run(&[reader, &ring], b"");
            assert_eq!(done.code(), 0, "{reader}: {}", done.err());
            let out = done.0.stdout;
            let plain = if kind.contains(&"--time") {
                // Each line follows its time.
                out.split(|byte| *byte == b'\n')
                    .map(|line| line.iter().filter(|byte| **byte == b'x').count())
                    .filter(|count| *count > 0)
                    .sum::<usize>()
            } else {
                assert!(out == input, "{reader}");
                input.iter().filter(|byte| **byte == b'x').count()
            };
            assert_eq!(plain, 5 + 100_000 + 65_521 + 300_000, "{reader}");
        }
        let figures = stat(&ring);
        let tail = if kind.contains(&"overwrite") { 0 } else { taken };
        assert_eq!(figures["aux_tail"], json!(tail), "{figures}");
        assert_eq!(figures["balanced"], true);
    }
}

#[test]
fn payloads_too_long_for_the_area_are_counted_and_reported() {
    let place = Place::new();
    let ring = place.ring(&["--aux-size", "128K"]);
    let done = run(&["publish", &ring, "--fail-on-loss"], &lines(&[200_000, 100_000, 3]));
    assert_eq!(done.code(), 5, "{}", done.err());
    assert!(done.err().contains("1 of the lines were lost"), "{}", done.err());
    let figures = stat(&ring);
    assert_eq!(
        (&figures["too_large_records"], &figures["written_records"]),
        (&json!(1), &json!(2))
    );
    let out = run(&["dump", &ring], b"");
    assert!(out.err().contains("too_large 1"), "{}", out.err());
    run(&["create", &ring, "--aux-size", "100K"], b"")
        .refuses(2, "a power of two from 65536 bytes");
    let none = place.path("none");
    run(&["create", none.to_str().unwrap()], b"");
    let figures = stat(none.to_str().unwrap());
    assert_eq!((&figures["aux_size"], &figures["aux_head"]), (&json!(0), &json!(0)));
}

/// The file of a dead process, with payloads that are too large for a line of most tools.
#[test]
fn a_dead_file_with_payloads_of_64_mib_is_dumped_and_recorded_or_losses_are_reported() {
    let place = Place::new();
    let ring = place.ring(&["--aux-size", "128M"]);
    let mut producer = Producer::attach(Path::new(&ring)).unwrap();
    for nth in [1u8, 2] {
        let mut space = producer.reserve(RecordType::BYTES, 64 << 20).unwrap();
        space.fill(b'0' + nth);
        space.commit();
    }
    producer.publish(b"small").unwrap();
    drop(producer);
    let done = run(&["dump", "--format", "raw", &ring], b"");
    assert_eq!(done.code(), 0, "{}", done.err());
    let out = done.0.stdout;
    let half = 64 << 20;
    assert_eq!(out.len(), 2 * half + 5);
    assert!(out[..half].iter().all(|byte| *byte == b'1'));
    assert!(out[half..2 * half].iter().all(|byte| *byte == b'2') && out.ends_with(b"small"));
    // A recording takes no payload of this size, and reports that.
    let file = place.path("recording");
    let file = file.to_str().unwrap();
    let done = run(&["record", "-n", "3", "--fail-on-loss", "-o", file, &ring], b"");
    assert_eq!(done.code(), 5, "{}", done.err());
    assert!(done.err().contains("too_large 2"), "{}", done.err());
}
