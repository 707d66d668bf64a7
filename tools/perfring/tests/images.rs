//! Rings inside larger files: raw images and core files. `tools/guest` has those of guests that died.

use crate::command::{Done, Place, json_lines, perfring, publish, run};
use crate::files::exported;
use perfring_consumer::stat::Stat;
use perfring_testkit::rng::Rng;
use perfring_testkit::size::workspace;
use perfring_testkit::wait::until;
use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;

const PAGE: usize = 4096;

/// Returns the golden files, with their names.
fn golden() -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<PathBuf> = fs::read_dir(workspace().join("proto/golden"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "perfring"))
        .collect();
    all.sort();
    let read = |path: &PathBuf| {
        (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap())
    };
    all.iter().map(read).collect()
}

/// A core file of a kernel: each segment is at a physical address.
fn core(segments: &[(u64, Vec<u8>)]) -> Vec<u8> {
    core_at(segments.iter().map(|(physical, content)| ([0, *physical], &**content)).collect())
}

/// A core file: an ELF header, a list of segments and their bytes, each at a virtual and a physical address.
fn core_at(segments: Vec<([u64; 2], &[u8])>) -> Vec<u8> {
    let list = 64 + 56 * segments.len();
    // A note stands before the memory, so that no page is where a page begins in the file.
    let mut offset = list + 24;
    let mut bytes = Vec::from(*b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    bytes.extend([4u16, 62].map(u16::to_le_bytes).concat());
    bytes.extend(1u32.to_le_bytes());
    bytes.extend([0u64, 64, 0].map(u64::to_le_bytes).concat());
    bytes.extend(0u32.to_le_bytes());
    bytes.extend([64u16, 56, segments.len() as u16, 64, 0, 0].map(u16::to_le_bytes).concat());
    for ([virtual_address, physical], content) in &segments {
        bytes.extend([1u32, 7].map(u32::to_le_bytes).concat());
        let (at, len) = (offset as u64, content.len() as u64);
        let words = [at, *virtual_address, *physical, len, len, 0];
        bytes.extend(words.map(u64::to_le_bytes).concat());
        offset += content.len();
    }
    bytes.resize(list + 24, 0x55);
    segments.iter().for_each(|(_, content)| bytes.extend(*content));
    bytes
}

fn write(place: &Place, name: &str, bytes: &[u8]) -> String {
    let path = place.path(name);
    fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_ring_in_an_image_and_in_a_core_file_is_shown_like_its_file() {
    let (place, mut shown) = (Place::new(), 0);
    for (name, bytes) in golden() {
        let ring = write(&place, &name, &bytes);
        let alone = run(&["dump", "--json", &ring], b"");
        let raw = [vec![0; 3 * PAGE], bytes.clone(), vec![0xee; 5 * PAGE + 77]].concat();
        let raw = write(&place, "raw", &raw);
        // A physical address that is no multiple of a page: so its first page begins later.
        let before = vec![0x11; 2 * PAGE - 16];
        let content = [before, bytes.clone(), vec![0; 100]].concat();
        let core =
            write(&place, "core", &core(&[(0x10_0000, vec![1; PAGE]), (0x50_0010, content)]));
        let (at, copied) = (format!("{raw}@0x3000"), 64 + 112 + 24 + PAGE + 2 * PAGE - 16);
        let copied = format!("{core}@{copied:#x}");
        for args in [
            &["dump", "--json", "--image", &raw][..],
            &["dump", "--json", &core],
            &["dump", "--json", &at],
            &["dump", "--json", &copied],
        ] {
            let found = run(args, b"");
            assert_eq!(found.code(), alone.code(), "{name}, {args:?}: {}", found.err());
            // Of what is lost, the ring's name is in the line.
            assert_eq!(found.out(), alone.out(), "{name}, {args:?}");
            shown += 1;
        }
        // The figures, but for their name and what the kernel knows of locks.
        let figures = |out: String| {
            let lines = out.lines().skip(1).map(str::to_owned);
            lines
                .filter(|line| line.contains("data_") || line.contains("written"))
                .collect::<Vec<_>>()
        };
        let [alone, found] = [run(&["stat", &ring], b""), run(&["stat", "--image", &raw], b"")];
        assert_eq!(figures(found.out()), figures(alone.out()), "{name}");
        fs::remove_file(ring).unwrap();
    }
    println!("{shown} times");
    assert!(shown >= 4 * 15);
}

#[test]
fn two_rings_of_one_image_are_recorded_as_two_and_a_wrong_place_is_one_of_the_image() {
    let place = Place::new();
    let (mut image, mut places) = (vec![0u8; PAGE], Vec::new());
    for text in [b"one\n", b"two\n"] {
        let ring = place.ring(&[]);
        publish(&ring, text);
        places.push(image.len());
        image.extend(fs::read(&ring).unwrap());
        image.resize(image.len().next_multiple_of(PAGE), 0);
        fs::remove_file(ring).unwrap();
    }
    let (file, out) = (write(&place, "image", &image), place.path("run.perfrec"));
    let out = out.to_str().unwrap();
    let [one, two] = [places[0], places[1]].map(|at| format!("{file}@{at:#x}"));
    let done = run(&["-v", "record", &one, &two, "-o", out, "--for", "300ms"], b"");
    let said = done.err();
    assert_eq!(done.code(), 0, "{said}");
    assert!(!said.contains("removed") && !said.contains(" now"), "{said}");
    assert_eq!(exported(out, &[]).len(), 2, "{said}");
    let doctor = run(&["doctor", &one], b"").out();
    assert!(!doctor.contains("removed"), "{doctor}");
    let advice = format!("`perfring dump --image {file}` finds the rings of {file}");
    run(&["dump", &format!("{file}@0x10")], b"").refuses(4, &advice);
    run(&["dump", &format!("{file}.no@0x10")], b"").refuses(3, "does not exist");
}

#[test]
fn a_ring_of_another_boot_is_said_to_be_one() {
    let place = Place::new();
    let (name, bytes) =
        golden().into_iter().find(|(name, _)| name.starts_with("drop_few")).unwrap();
    let ring = write(&place, &name, &bytes);
    let said = "of another boot or another machine: its processes are not here";
    assert!(run(&["dump", &ring], b"").err().contains(said));
    assert!(run(&["stat", &ring], b"").out().contains(said));
    let here = place.ring(&[]);
    let told = run(&["dump", &here], b"").err() + &run(&["stat", &here], b"").out();
    assert!(!told.contains("another boot"), "{told}");
}

#[test]
fn of_several_rings_each_has_a_line_and_a_location() {
    let place = Place::new();
    let rings: Vec<_> =
        golden().into_iter().filter(|(name, _)| name.starts_with("drop_")).collect();
    let (mut image, mut places) = (vec![0u8; PAGE], Vec::new());
    for (_, bytes) in &rings {
        places.push(image.len());
        image.extend(bytes);
        image.resize(image.len().next_multiple_of(PAGE) + PAGE, 0);
    }
    let file = write(&place, "image", &image);
    for command in ["dump", "stat"] {
        let listed = run(&[command, "--image", &file], b"");
        let out = listed.out();
        assert_eq!((listed.code(), out.lines().count()), (0, rings.len()), "{out}");
        for (line, at) in out.lines().zip(&places) {
            let location = format!("{file}@{at:#x}");
            assert!(line.starts_with(&format!("{location}: a ring at {at:#x}: ")), "{line}");
            assert!(line.contains("can be read") && line.contains("of another boot"), "{line}");
            for reader in ["stat", "types", "dump"] {
                let done = run(&[reader, &location], b"");
                assert_eq!(done.code(), 0, "{reader} {location}: {}", done.err());
            }
        }
        assert!(listed.err().contains("name one to see what it holds"), "{}", listed.err());
    }
    // In JSON, an object each, and nothing else.
    for command in ["dump", "stat"] {
        let listed = run(&[command, "--image", &file, "--json"], b"");
        assert_eq!(listed.code(), 0, "{}", listed.err());
        let objects = json_lines(&listed.out());
        assert_eq!(objects.len(), rings.len());
        for (object, at) in objects.iter().zip(&places) {
            let location = format!("{file}@{at:#x}");
            let alone = json_lines(&run(&["stat", "--json", &location], b"").out());
            let mut figures = object.as_object().unwrap().clone();
            let image = figures.remove("image").unwrap();
            assert_eq!(Some(&figures), alone[0].as_object());
            assert_eq!((&image["offset"], &image["inside"]), (&(*at).into(), &Value::Null));
            let shown = run(&["dump", "--json", &location], b"").out();
            let records = json_lines(&shown).iter().filter(|line| line["lost"].is_null()).count();
            assert_eq!((&image["readable"], &image["damage"]), (&records.into(), &Value::Null));
        }
    }
    // On a terminal, sentences are wrapped below the locations.
    let mut narrow = perfring(&["stat", "--image", &file]);
    let narrow = Done(narrow.env("COLUMNS", "80").output().unwrap()).out();
    let sentences = narrow.lines().filter(|line| line.starts_with("  "));
    assert!(sentences.clone().count() >= 2 * rings.len(), "{narrow}");
    assert!(sentences.clone().all(|line| line.chars().count() <= 80), "{narrow}");
    assert_eq!(narrow.lines().count() - sentences.count(), rings.len(), "{narrow}");
    // They cannot be changed.
    let location = format!("{file}@{:#x}", places[0]);
    for command in ["publish", "consume", "rm"] {
        run(&[command, &location], b"x\n")
            .refuses(1, "a ring inside a larger file can only be read");
    }
    assert!(fs::read(&file).unwrap() == image);
}

#[test]
fn of_a_ring_whose_pages_are_scattered_the_first_records_are_shown_and_the_rest_is_damage() {
    let place = Place::new();
    let ring = place.ring(&["--size", "64K"]);
    let lines: String = (0..3000).map(|nth| format!("line {nth}\n")).collect();
    publish(&ring, lines.as_bytes());
    let bytes = fs::read(&ring).unwrap();
    let mut pages: Vec<&[u8]> = bytes.chunks(PAGE).collect();
    pages[4..17].reverse();
    let image = write(&place, "image", &pages.concat());
    let done = run(&["dump", "--image", &image], b"");
    let out = done.out();
    let shown = out.lines().count();
    assert_eq!(done.code(), 4, "{}", done.err());
    assert!(done.err().contains("records before it are intact"), "{}", done.err());
    assert!((100..3000).contains(&shown), "{shown}");
    // All but the one that lies on the last page and the next.
    let same = out.lines().zip(lines.lines()).take_while(|(left, right)| left == right);
    assert!(same.count() + 1 >= shown);
    // An export counts what it cannot read, too.
    let ring = format!("{image}@0x0");
    let totals = Stat::read(&*ring).unwrap().totals.unwrap();
    let done = run(&["export", &ring, "--to", "json"], b"");
    let (records, bytes) = (3000 - shown as u64, totals.present.bytes);
    let lines = json_lines(&done.out());
    assert_eq!((done.code(), lines.len()), (4, shown + 1), "{}", done.err());
    let says = format!("exported {shown} records, lost {records}: ring damaged {records}; ");
    assert!(done.err().contains(&says), "{}", done.err());
    let lost = &lines[shown]["lost"];
    assert_eq!((&lost["records"], &lost["cause"]), (&records.into(), &"ring damaged".into()));
    assert!(lost["bytes"].as_u64() < Some(bytes), "{lost}");
}

#[test]
fn an_image_without_a_ring_or_in_another_format_has_a_sentence() {
    let place = Place::new();
    let file = |bytes: &[u8]| write(&place, "image", bytes);
    let says =
        |file: &str, code, what: &str| run(&["dump", "--image", file], b"").refuses(code, what);
    says(&file(&[]), 3, "no ring begins at a page of it");
    says(&file(&[7; 9000]), 3, "no ring begins at a page of it");
    // The magic is a word, which also programs have in their texts.
    says(&file(&b"perfring".repeat(5000)), 3, "no ring begins at a page of it");
    says(&file(b"KDUMP   and more"), 4, "makedumpfile -E -d 16");
    says(&file(b"DISKDUMP"), 4, "makedumpfile -E -d 16");
    says(&file(b"makedumpfile\0\0\0"), 4, "makedumpfile -R");
    says(&file(b"QFI\xfb\0\0"), 4, "qemu-img convert -O raw");
    says(&file(b"\x28\xb5\x2f\xfd"), 4, "zstd -d");
    says(&file(b"\x1f\x8b\x08"), 4, "gunzip");
    says("/no/such/file", 3, "there is no such file");
    says("/dev/null", 1, "it is no regular file");
    let mut core = core(&[(0, vec![0; PAGE])]);
    says(&file(&core), 3, "no ring begins");
    let sort = "it is a core file of 32 bits or of another byte order: perfring reads those of 64 bits, little-endian";
    core[4] = 1; // 32 bits
    says(&file(&core), 4, sort);
    core[4] = 2;
    core[5] = 2; // big-endian, and so is its kind
    core[16..18].reverse();
    says(&file(&core), 4, sort);
    run(&["dump", &file(&core)], b"").refuses(4, sort);
    core[5] = 1;
    core[16..18].reverse();
    core[54] = 32; // bytes of a segment's entry
    says(&file(&core), 4, "a list of segments that no kernel writes");
}

/// Commands that read one ring name the command that finds it.
#[test]
fn a_core_file_is_no_ring_and_the_command_that_finds_its_rings_is_named() {
    let place = Place::new();
    let (_, ring) = golden().into_iter().find(|(name, _)| name.starts_with("drop_few")).unwrap();
    let core = write(&place, "vmcore", &core(&[(0x1000, ring)]));
    let kdump = write(&place, "kdump", &[&b"KDUMP   "[..], &[0; 9000]].concat());
    let out = place.path("out").to_str().unwrap().to_owned();
    let finds = format!("`perfring dump {core}` finds the rings in it");
    let converts = "makedumpfile -E -d 16`, or under qemu with `dump-guest-memory` without -z, -l and -s; then \
                    `perfring dump --image NEW`";
    for (file, says) in [(&core, &*finds), (&kdump, converts)] {
        run(&["tail", file], b"").refuses(4, says);
        run(&["types", file], b"").refuses(4, says);
        run(&["record", file, "-o", &out], b"").refuses(4, says);
        run(&["export", file, "--to", "json"], b"").refuses(4, says);
    }
    let at = format!("{core}@0x1000");
    for command in ["dump", "stat"] {
        run(&[command, "--image", &at], b"").refuses(2, &format!("or name {core} to find all"));
    }
    for command in ["tail", "types", "record", "export", "dump", "stat"] {
        let help = run(&[command, "--help"], b"").out();
        assert!(help.contains("FILE@0xOFFSET"), "{command}");
    }
}

/// Returns a ring's file with one record, and removes it.
fn recorded(place: &Place, options: &[&str], text: &str) -> Vec<u8> {
    let ring = place.ring(options);
    publish(&ring, text.as_bytes());
    let bytes = fs::read(&ring).unwrap();
    fs::remove_file(ring).unwrap();
    bytes
}

#[test]
fn a_ring_that_is_cut_off_is_read_after_the_advice_if_there_is_any() {
    let place = Place::new();
    let ring = recorded(&place, &[], "to be read\n");
    let short = ring.len() - 3 * PAGE;
    // How long a copy is to be, by the note.
    let wanted = |said: &str| -> Option<u64> {
        said.split_once("`truncate -s ")?.1.split_once(" COPY`")?.0.parse().ok()
    };
    let segment = |len: usize| (0x10_0000, ring[..len].to_vec());
    let last = core(&[(0, vec![0; PAGE]), segment(ring.len())]);
    for (image, is_core) in [
        ([vec![0; PAGE], ring[..short].to_vec()].concat(), false),
        (last[..last.len() - 3 * PAGE].to_vec(), true),
    ] {
        let path = write(&place, "image", &image);
        let done = run(&["dump", "--image", &path], b"");
        assert_eq!(done.code(), 4, "{}", done.err());
        let cut =
            format!("{path}: the core file is cut off: {} bytes of memory are missing", 3 * PAGE);
        assert_eq!(done.err().contains(&cut), is_core, "{}", done.err());
        let len = wanted(&done.err()).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(len).unwrap();
        let done = run(&["dump", "--image", &path], b"");
        assert_eq!((done.code(), done.out().as_str()), (0, "to be read\n"), "{}", done.err());
    }
    // A longer file would have no more of the ring.
    for image in [core(&[segment(short), (0x90_0000, vec![0; PAGE])]), core(&[segment(short)])] {
        let path = write(&place, "image", &image);
        let done = run(&["dump", "--image", &path], b"");
        assert_eq!(done.code(), 4, "{}", done.err());
        assert_eq!(wanted(&done.err()), None, "{}", done.err());
        assert!(done.err().contains("the memory after it was not dumped"), "{}", done.err());
    }
}

#[test]
fn a_ring_that_is_cut_off_beside_a_whole_one_ends_with_a_code_and_is_in_json() {
    let place = Place::new();
    let ring = recorded(&place, &[], "to be read\n");
    let cut = &ring[..ring.len() - PAGE];
    let one = write(&place, "one", &[&ring, cut].concat());
    for (command, shown) in [("dump", "to be read\n"), ("stat", "written")] {
        let done = run(&[command, "--image", &one], b"");
        assert_eq!(done.code(), 4, "{}", done.err());
        assert!(done.out().contains(shown), "{}", done.out());
        assert!(done.err().contains("1 further ring of it cannot be read"), "{}", done.err());
    }
    let two = write(&place, "two", &[&ring, &ring, cut].concat());
    let none = write(&place, "none", cut);
    for (image, whole) in [(two, 2), (none, 0)] {
        let done = run(&["dump", "--json", "--image", &image], b"");
        assert_eq!(done.code(), 4, "{}", done.err());
        let objects = json_lines(&done.out());
        let damaged: Vec<bool> = objects.iter().map(|object| object["damaged"] == true).collect();
        assert_eq!(damaged, [vec![false; whole], vec![true]].concat(), "{}", done.out());
        let image = &objects[whole]["image"];
        assert_eq!(
            (&image["offset"], &image["readable"]),
            (&(whole * ring.len()).into(), &0.into())
        );
        assert!(image["damage"].as_str().unwrap().contains("bytes"), "{image}");
    }
}

/// A process has the ring's file in several mappings, one after the other, and no physical addresses.
#[test]
fn the_ring_of_a_process_is_found_in_its_core_file() {
    let place = Place::new();
    let ring = recorded(&place, &["--size", "64K"], "to be read\n");
    let at = |nth: usize| [0x7f00_0000_1000 + nth as u64, 0];
    let pieces = [0..PAGE, PAGE..3 * PAGE, 3 * PAGE..ring.len()];
    let mut segments = vec![([0x1000, 0], &[1; PAGE][..])];
    segments.extend(pieces.map(|piece| (at(piece.start), &ring[piece])));
    let core = write(&place, "core", &core_at(segments));
    let done = run(&["dump", &core], b"");
    assert_eq!((done.code(), &*done.out()), (0, "to be read\n"), "{}", done.err());
    assert!(!done.err().contains("physical"), "{}", done.err());
}

#[test]
fn a_raw_image_is_said_to_need_the_option_and_a_file_is_no_directory() {
    let place = Place::new();
    let image = write(&place, "image", &[7; 1 << 20]);
    let short = write(&place, "short", &[7; 1 << 16]);
    let says = format!("`perfring dump --image {image}` finds the rings in it");
    for command in ["dump", "tail", "stat"] {
        run(&[command, &image], b"").refuses(4, &says);
        assert!(!run(&[command, &short], b"").err().contains("--image"));
    }
    run(&["ls", &image], b"").refuses(1, &format!("{image} is no directory: `perfring stat"));
}

#[test]
fn a_ring_inside_a_ring_is_noted_and_not_shown() {
    let place = Place::new();
    let mut outer = recorded(&place, &["--size", "1M"], "outer\n");
    let inner = recorded(&place, &["--size", "4K", "--types-size", "0"], "inner\n");
    let at = outer.len() - inner.len();
    outer[at..].copy_from_slice(&inner);
    let image = write(&place, "image", &outer);
    let inside = format!("{image}: a ring at {at:#x} inside the ring at 0x0, whose");
    for (command, shown) in [("dump", "outer\n"), ("stat", "written")] {
        let done = run(&[command, "--image", &image], b"");
        assert_eq!(done.code(), 0, "{}", done.err());
        assert!(done.out().contains(shown), "{}", done.out());
        assert!(done.err().contains(&inside), "{}", done.err());
    }
    // With a third one, all are listed.
    let three = write(&place, "three", &[outer, recorded(&place, &[], "other\n")].concat());
    let listed = run(&["dump", "--image", &three], b"").out();
    assert_eq!(listed.lines().count(), 3, "{listed}");
    let inside = format!("{three}@{at:#x}: a ring at {at:#x} inside the ring at 0x0, whose");
    assert!(listed.lines().any(|line| line.starts_with(&inside)), "{listed}");
    let inner = run(&["dump", &format!("{image}@{at:#x}")], b"");
    assert_eq!(inner.out(), "inner\n", "{}", inner.err());
}

#[test]
fn a_thousand_bad_first_pages_hide_no_ring_and_more_rings_than_are_listed_are_counted() {
    let place = Place::new();
    let ring = recorded(&place, &[], "to be read\n");
    let bad = {
        let mut page = ring[..PAGE].to_vec();
        let field = perfring_abi::FIELDS.iter().find(|field| field.name == "page_size").unwrap();
        page[field.offset] = 3;
        page
    };
    let image = write(&place, "image", &[bad.repeat(1500), ring.clone()].concat());
    let done = run(&["dump", "--image", &image], b"");
    assert_eq!((done.code(), done.out().as_str()), (0, "to be read\n"), "{}", done.err());
    let left = "1490 further pages begin like a ring's, and are left out";
    assert!(done.err().contains(left), "{}", done.err());

    // One ring, and more inside it than are listed.
    let image = write(&place, "image", &[ring.clone(), ring[..PAGE].repeat(1500), ring].concat());
    let done = run(&["dump", "--image", &image], b"");
    assert_eq!((done.code(), done.out().lines().count()), (0, 1000), "{}", done.err());
    assert!(done.err().contains("further rings are left out"), "{}", done.err());
}

#[test]
fn a_core_file_with_many_segments_has_their_number_elsewhere() {
    let place = Place::new();
    let ring = recorded(&place, &[], "to be read\n");
    let mut bytes = core(&[(0, vec![0; PAGE]), (0x10_0000, ring)]);
    let section = bytes.len();
    bytes.resize(section + 64, 0);
    bytes[40..48].copy_from_slice(&(section as u64).to_le_bytes());
    bytes[56..58].copy_from_slice(&u16::MAX.to_le_bytes());
    let of = |segments: u32| {
        let mut bytes = bytes.clone();
        bytes[section + 44..][..4].copy_from_slice(&segments.to_le_bytes());
        run(&["dump", &write(&place, "image", &bytes)], b"")
    };
    let done = of(2);
    assert_eq!((done.code(), done.out().as_str()), (0, "to be read\n"), "{}", done.err());
    of(1).refuses(3, "no ring begins at a page of it");
    of((1 << 20) + 1)
        .refuses(4, "it is a core file of 1048577 segments, more than any machine's memory has");
}

#[test]
fn a_directory_is_no_image() {
    let place = Place::new();
    let dir = place.0.path().to_str().unwrap();
    for command in ["dump", "stat"] {
        run(&[command, "--image", dir], b"").refuses(1, "it is a directory: name a file in it");
    }
}

/// Damage of every kind ends in a sentence and a code, soon, and never in a signal.
#[test]
fn no_image_makes_it_panic_or_hang() {
    let place = Place::new();
    let (_, ring) = golden().into_iter().find(|(name, _)| name.starts_with("drop_few")).unwrap();
    let content = [vec![0; PAGE], ring.clone(), vec![0; PAGE], ring].concat();
    let whole = core(&[(0x1000, content.clone()), (0x10_0000, content)]);
    let path = place.path("image");
    let mut rng = Rng::from_env();
    let mut codes = [0; 6];
    let mut look = |bytes: &[u8], what: &dyn std::fmt::Debug| {
        fs::write(&path, bytes).unwrap();
        let mut command = perfring(&["dump", "-q", "--image", path.to_str().unwrap()]);
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        until(format!("{what:?} ends"), || child.try_wait().unwrap().is_some());
        let done = Done(child.wait_with_output().unwrap());
        let code = usize::try_from(done.code()).unwrap();
        assert!([0, 1, 3, 4].contains(&code), "{what:?}: {code}: {}", done.err());
        assert!(!done.err().contains("panicked"), "{what:?}: {}", done.err());
        codes[code] += 1;
    };
    // Cut off anywhere.
    for _ in 0..40 {
        let len = rng.index(whole.len());
        look(&whole[..len], &len);
    }
    // Any byte of the lists and of the first pages, and any word of these.
    for _ in 0..120 {
        let mut bytes = whole.clone();
        let start = [0, 64 + 112 + 24 + PAGE][rng.index(2)];
        let at = start + rng.index(1400);
        let what = match rng.below(3) {
            0 => vec![rng.any() as u8],
            1 => u64::MAX.to_le_bytes().to_vec(),
            _ => rng.wide().to_le_bytes()[..8].to_vec(),
        };
        bytes[at..at + what.len()].copy_from_slice(&what);
        look(&bytes, &(at, what));
    }
    // Each segment is all of the file, and more.
    let mut bytes = whole.clone();
    let many = 60_000u16;
    bytes[56..58].copy_from_slice(&many.to_le_bytes());
    bytes[32..40].copy_from_slice(&(whole.len() as u64).to_le_bytes());
    for nth in 0..u64::from(many) {
        bytes.extend([1u32, 7].map(u32::to_le_bytes).concat());
        bytes.extend([nth % 3, 0, nth, u64::MAX, u64::MAX, 0].map(u64::to_le_bytes).concat());
    }
    look(&bytes, &"overlaps");
    // Every page begins like a ring's.
    let (_, ring) = golden().into_iter().find(|(name, _)| name.starts_with("empty")).unwrap();
    look(&ring[..PAGE].repeat(2000), &"first pages alone");
    println!("{codes:?} by exit code");
    assert!(codes[0] > 10 && codes[3] + codes[4] > 5);
    assert!(Path::new(&path).exists());
}
