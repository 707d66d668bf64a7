//! A file that is not a ring, or whose header is wrong, is refused with the reason; and a wrong
//! size costs no more than the ring's size.

use perfring_abi::{BadRing, MAGIC, RecordWord};
use perfring_consumer::{
    AttachError, Consumer, ConsumerOptions, Observer, Snapshot, Start, stat::Stat,
};
use perfring_producer::Producer;
use perfring_testkit::image::{Image, at};
use perfring_tests::doors::{Trial, sentence};
use perfring_tests::workspace;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the reason for which the header is refused, if it is.
fn refusal(trial: &mut Trial, file: &[u8]) -> Option<BadRing> {
    trial.every_door(file);
    fs::write(&trial.path, file).unwrap();
    let bad = |error| match error {
        AttachError::Bad { location, source } => {
            let text = AttachError::Bad { location, source }.to_string();
            assert!(text.starts_with(&trial.path.display().to_string()), "names the file: {text}");
            source
        }
        other => panic!("not an error of the header: {other}"),
    };
    let refused = Stat::read(&trial.path).err().map(bad);
    // All entry points return the same.
    assert_eq!(Observer::attach(&trial.path, Start::Oldest).err().map(bad), refused);
    assert_eq!(Snapshot::take(&trial.path).err().map(bad), refused);
    assert_eq!(
        Consumer::attach_with(&trial.path, &ConsumerOptions::named("hostile")).err().map(bad),
        refused
    );
    assert_eq!(Producer::attach_as(&trial.path, "hostile").err().map(bad), refused);
    refused
}

#[test]
fn a_truncated_file_is_refused_with_its_length() {
    let mut trial = Trial::new();
    let file = Image::golden("drop_few").bytes;
    let whole = file.len();
    let lengths =
        [0, 1, 7, 8, 1023, 1088, 1152, 1160, 4095, 4096, 4097, 8191, 8192, 8193, whole - 1];
    for len in lengths.into_iter().chain((0..whole).step_by(509)) {
        trial.case(format!("{len} bytes"), |trial| {
            let expected = if len < 4096 {
                BadRing::Short { len: len as u64 }
            } else {
                BadRing::Truncated { len: len as u64, needed: whole as u64 }
            };
            assert_eq!(refusal(trial, &file[..len]), Some(expected));
        });
    }
    for more in [0, 1, 4096, 100_000] {
        trial.case(format!("{more} bytes more"), |trial| {
            let mut file = file.clone();
            file.resize(whole + more, 0xff);
            assert_eq!(refusal(trial, &file), None, "what follows the ring is ignored");
        });
    }
    trial.end();
}

#[test]
fn a_header_that_is_wrong_is_refused_for_what_is_wrong() {
    let mut trial = Trial::new();
    let file = Image::golden("drop_few");
    let mut case = |name: &str, changes: &[(&str, u64)], expected: Option<BadRing>| {
        let mut broken = file.clone();
        for &(field, value) in changes {
            broken.set_field(field, value);
        }
        trial.case(name.to_owned(), |trial| assert_eq!(refusal(trial, &broken.bytes), expected));
    };
    let field = |name, value| Some(BadRing::Field { name, value });

    case("as it was", &[], None);
    case("no magic yet", &[("magic", 0)], Some(BadRing::Foreign { magic: 0 }));
    case("another magic", &[("magic", MAGIC ^ 1)], Some(BadRing::Foreign { magic: MAGIC ^ 1 }));
    case("the other byte order", &[("magic", MAGIC.swap_bytes())], Some(BadRing::Endian));
    case("the other byte order by its mark", &[("endian", 0x0403_0201)], Some(BadRing::Endian));

    let newer = |version, compat| Some(BadRing::Newer { version, compat });
    case("newer", &[("abi_version", 2), ("abi_compat", 2)], newer(2, 2));
    case("much newer", &[("abi_version", 9000), ("abi_compat", 70)], newer(9000, 70));
    case("newer, and old readers are welcome", &[("abi_version", 2)], None);
    case("no version", &[("abi_version", 0), ("abi_compat", 0)], field("abi_version", 0));

    for bit in [0, 1, 31, 32, 63] {
        let unknown = 1 << bit;
        let name = format!("required feature {bit}");
        let refused = match bit {
            0 => field("time_clock", 0), // time, and no clock
            1 => field("aux_size", 0),   // an AUX area, and none
            _ => Some(BadRing::Features { unknown }),
        };
        case(&name, &[("features_required", unknown)], refused);
        case(&format!("optional feature {bit}"), &[("features_optional", unknown)], None);
    }
    // Time, which changes the content of the records: the shortest has no space for a timestamp.
    case("time", &[("features_required", 1), ("time_clock", 7)], None);
    case(
        "time by another clock",
        &[("features_required", 1), ("time_clock", 1)],
        field("time_clock", 1),
    );
    case("every optional feature", &[("features_optional", u64::MAX)], None);

    for (name, value) in [
        ("page_size", 0),
        ("page_size", 2048),
        ("page_size", 4097),
        ("page_size", 1 << 21),
        ("data_size", 0),
        ("data_size", 2048),
        ("data_size", 4095),
        ("data_size", 6000),
        ("data_size", 1 << 41),
        ("data_size", 1 << 63),
        ("data_size", u64::MAX),
        ("policy", 2),
        ("policy", u64::from(u32::MAX)),
        ("evict", 2),
        ("report", 2),
        ("producers", 0),
        ("producers", 3),
        ("slot_count", 0),
        ("slot_count", 4097),
        ("slot_size", 0),
        ("slot_size", 128),
        ("data_offset", 0),
        ("data_offset", 8192),
        ("control_offset", 0),
        ("control_offset", 4096),
        ("control_offset", u64::MAX),
        ("control_size", 0),
        ("control_size", 512),
        ("file_size", 0),
        ("file_size", 12_287),
        ("file_size", u64::MAX),
        ("time_clock", 7),
        ("time_clock", 1),
    ] {
        case(&format!("{name} is {value}"), &[(name, value)], field(name, value));
    }

    // Consistent sizes that do not match the file.
    let huge = 1u64 << 40;
    case(
        "a data area of 1 TiB",
        &[("data_size", huge), ("control_offset", huge + 4096), ("file_size", huge + 8192)],
        Some(BadRing::Truncated { len: 12_288, needed: huge + 8192 }),
    );
    trial.end();
}

#[test]
fn files_that_are_no_rings_are_refused() {
    let mut trial = Trial::new();
    let dir = tempfile::tempdir().unwrap();
    let elf = fs::read(std::env::current_exe().unwrap()).unwrap();
    let text = fs::read(workspace().join("proto/ABI.md")).unwrap();
    let elf_magic = u64::from_ne_bytes(elf[1152..1160].try_into().unwrap());
    trial.case("an ELF file".into(), |trial| {
        assert_eq!(refusal(trial, &elf), Some(BadRing::Foreign { magic: elf_magic }));
    });
    trial.case("a text".into(), |trial| {
        assert!(matches!(refusal(trial, &text), Some(BadRing::Foreign { .. })));
    });
    trial.case("a short text".into(), |trial| {
        assert_eq!(refusal(trial, b"perfring\n"), Some(BadRing::Short { len: 9 }));
    });
    trial.case("zeros".into(), |trial| {
        assert_eq!(refusal(trial, &[0; 12_288]), Some(BadRing::Foreign { magic: 0 }));
    });

    let folder = dir.path().join("folder");
    fs::create_dir(&folder).unwrap();
    let fifo = dir.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let socket = dir.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let dangling = dir.path().join("dangling");
    std::os::unix::fs::symlink(dir.path().join("nothing"), &dangling).unwrap();
    let within = fifo.join("within");
    for (path, missing) in [
        (folder, false),
        (fifo, false),
        (socket, false),
        (PathBuf::from("/dev/null"), false),
        (PathBuf::from("/dev/zero"), false),
        (PathBuf::from("/proc/self/mem"), false),
        (within, false),
        (dangling, true),
        (dir.path().join("missing"), true),
    ] {
        trial.case(path.display().to_string(), |trial| {
            for refused in [
                Observer::attach(&path, Start::Oldest).err(),
                Snapshot::take(&path).err(),
                Stat::read(&path).err(),
                Consumer::attach_with(&path, &ConsumerOptions::named("hostile")).err(),
                Producer::attach_as(&path, "hostile").err(),
            ] {
                let error = refused.expect("refused");
                sentence(&error);
                trial.refused += 1;
                let as_missing = matches!(error, AttachError::NotFound { .. });
                assert_eq!(as_missing, missing, "{error}");
                let as_io = matches!(
                    error,
                    AttachError::Io { .. }
                        | AttachError::Permission { .. }
                        | AttachError::Bad { .. }
                );
                assert_eq!(as_io, !missing, "{error}");
            }
        });
    }
    trial.end();
}

/// Makes a ring file of this size, with that size in its header: a sparse one, so that it costs
/// nothing.
fn sparse(path: &Path, data_size: u64, fields: &[(usize, u64)]) -> File {
    let file = File::create(path).unwrap();
    let file_size = 4096 + data_size + 4096;
    file.set_len(file_size).unwrap();
    let mut page = Image::golden("drop_few");
    page.bytes.truncate(4096);
    page.bytes[at("data_head").start..at("data_offset").start].fill(0);
    page.bytes[at("tail_mark").start..].fill(0);
    for (field, value) in
        [("data_size", data_size), ("control_offset", 4096 + data_size), ("file_size", file_size)]
    {
        page.set_field(field, value);
    }
    for &(offset, value) in fields {
        page.set(offset, 8, value);
    }
    file.write_all_at(&page.bytes, 0).unwrap();
    file
}

#[test]
fn invalid_fields_do_not_cost_more_in_a_large_ring() {
    let mut trial = Trial::new();
    let size = 8u64 << 20;
    let head = (at("data_head").start, size - 8);
    let tail = (at("data_tail").start, 16);
    let totals = |pos| (at("producer_totals").start + 8, pos);
    let consumer = (at("consumer_totals").start + 8, 8);
    for (name, fields) in [
        ("no totals", vec![head]),
        ("totals at the head", vec![head, totals(size - 8)]),
        ("totals half way", vec![head, totals(size / 2)]),
        ("a consumer's totals elsewhere", vec![head, totals(size - 8), consumer]),
        ("an unknown tail", vec![head, totals(size - 8), consumer, tail]),
    ] {
        for policy in [0u32, 1] {
            trial.case(format!("{name}, policy {policy}"), |trial| {
                let file = sparse(&trial.path, size, &fields);
                file.write_all_at(&policy.to_ne_bytes(), at("policy").start as u64).unwrap();
                // The smallest records everywhere, and near the end a position at which none is
                // valid.
                let smallest = RecordWord::pack(4096, 0, 8).raw().to_ne_bytes();
                file.write_all_at(&smallest.repeat(size as usize / 8), 4096).unwrap();
                file.write_all_at(&[0; 8], 4096 + size - 64).unwrap();
                trial.read_only_doors();
                trial.consumer();
                trial.producer();
            });
        }
    }
    trial.end();
}

#[test]
fn a_terabyte_that_is_not_there() {
    let mut trial = Trial::new();
    let size = 1u64 << 40;
    let head = (at("data_head").start, size - 8);
    let totals = (at("producer_totals").start + 8, size - 8);
    let consumer = (at("consumer_totals").start + 8, 8);
    for (name, fields) in [
        ("empty", vec![]),
        ("a head", vec![head]),
        ("a head and totals", vec![head, totals]),
        ("a head, totals and a consumer's totals", vec![head, totals, consumer]),
    ] {
        for policy in [0u32, 1] {
            trial.case(format!("{name}, policy {policy}"), |trial| {
                let file = sparse(&trial.path, size, &fields);
                file.write_all_at(&policy.to_ne_bytes(), at("policy").start as u64).unwrap();
                trial.observers();
                trial.stat();
                trial.consumer();
                trial.producer();
            });
        }
    }
    trial.end();
}

/// In a separate process, with less address space than the claimed size.
#[test]
fn a_snapshot_of_a_terabyte_that_is_not_there() {
    const CHILD: &str = "PERFRING_TERABYTE";
    if let Some(path) = std::env::var_os(CHILD) {
        let error = Snapshot::take(Path::new(&path)).expect_err("no memory for it");
        sentence(&error);
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let size = 1u64 << 40;
    let totals = (at("producer_totals").start + 8, size - 8);
    sparse(&path, size, &[(at("data_head").start, size - 8), totals]);
    // In KiB: the mapping fits, a copy beside it does not.
    let output = Command::new("sh")
        .args(["-c", "ulimit -v 1600000000 && exec \"$0\" --exact \"$1\""])
        .arg(std::env::current_exe().unwrap())
        .arg("refused_files::a_snapshot_of_a_terabyte_that_is_not_there")
        .env(CHILD, &path)
        .output()
        .unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success() && said.contains(" 1 passed"), "{}: {said}", output.status);
    println!("a snapshot of 1 TiB that is not there is an error");
}
