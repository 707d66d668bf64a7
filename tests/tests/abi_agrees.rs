//! The layout is written in three places: `crates/abi`, `proto/perfring.h` and `proto/ABI.md`. They
//! agree, and the perf part agrees with the kernel's header.

use perfring_abi::{
    Cause, Evict, FIELDS, Hole, Policy, Producers, RecordType, RecordWord, Report, Slot, anchor,
    aux_record, consumer_totals as consumer, producer_totals as producer, running,
    slot_losses as losses,
};
use perfring_ring::{Buckets, MetricKind};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::Command;

/// perfring's own fields begin here; the kernel's struct is before it.
const OWN: usize = 1152;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn text(path: &str) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the C compiler, or panics with a message about the missing program.
fn gcc() -> &'static str {
    ["gcc", "cc"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success()))
        .expect("there is no C compiler: install gcc (Debian: apt-get install gcc libc6-dev)")
}

/// Runs a compiler in a separate directory and prints its errors.
fn compile(
    compiler: &str,
    args: &[&str],
    name: &str,
    source: &str,
) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(name), source).unwrap();
    let program = dir.path().join("program");
    let output = Command::new(compiler)
        .args(args)
        .arg("-o")
        .arg(&program)
        .arg(name)
        .current_dir(dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler} refuses:\n{said}");
    (dir, program)
}

/// Compiles a C program and returns its output: `name number number...` a line.
fn printed(include: &Path, source: &str) -> Vec<(String, Vec<u64>)> {
    let include = format!("-I{}", include.display());
    let args = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", &include];
    let (_dir, program) = compile(gcc(), &args, "program.c", source);
    let output = Command::new(&program).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| {
            let mut words = line.split(' ');
            let name = words.next().unwrap().to_owned();
            (name, words.map(|word| word.parse().unwrap()).collect())
        })
        .collect()
}

/// Returns a C program that prints the offset and size of these members of a struct, as `shown`.
fn offsets_of(header: &str, of: &str, members: &[(&str, String)]) -> String {
    let mut source =
        format!("#include <stdio.h>\n#include <stddef.h>\n#include {header}\nint main(void) {{\n");
    for (shown, member) in members {
        source += &format!(
            "printf(\"{shown} %zu %zu\\n\", offsetof(struct {of}, {member}), \
             sizeof(((struct {of} *)0)->{member}));\n"
        );
    }
    source + "return 0; }\n"
}

fn field_rows() -> Vec<(String, Vec<u64>)> {
    FIELDS.iter().map(|f| (f.name.to_owned(), vec![f.offset as u64, f.size as u64])).collect()
}

/// Returns the members of a struct in a C header, in order, without comments.
fn members(header: &str, of: &str) -> Vec<String> {
    let body = header.split(&format!("struct {of} {{")).nth(1).unwrap();
    let body = body.split("\n};").next().unwrap();
    body.lines()
        .filter_map(|line| line.trim().split(';').next().filter(|_| line.contains(';')))
        .map(|declared| declared.rsplit(' ').next().unwrap().rsplit('\t').next().unwrap())
        .map(|name| name.split('[').next().unwrap().to_owned())
        .collect()
}

#[test]
fn every_field_has_the_offset_that_c_has() {
    let wanted: Vec<_> = FIELDS.iter().map(|f| (f.name, f.name.to_owned())).collect();
    let source = offsets_of("\"perfring.h\"", "perfring_header", &wanted);
    assert_eq!(printed(&root().join("proto"), &source), field_rows());

    // None exists only in C.
    let in_c: Vec<_> = members(&text("proto/perfring.h"), "perfring_header")
        .into_iter()
        .filter(|name| !name.starts_with("gap_"))
        .collect();
    let in_rust: Vec<_> = FIELDS.iter().map(|f| f.name.to_owned()).collect();
    assert_eq!(in_c, in_rust);
    println!("{} fields agree between Rust and C", FIELDS.len());
}

#[test]
fn every_field_has_the_offset_in_the_document() {
    let document = text("proto/ABI.md");
    let table = document.split("| field | offset | size | sole writer |").nth(1).unwrap();
    let rows: Vec<_> = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            assert_eq!(cells.len(), 9, "a row of seven cells: {line}");
            assert!(!cells[4].is_empty() && !cells[5].is_empty(), "who writes and reads: {line}");
            (
                cells[1].trim_matches('`').to_owned(),
                vec![cells[2].parse().unwrap(), cells[3].parse().unwrap()],
            )
        })
        .collect();
    assert_eq!(rows, field_rows());

    // The holder's table, against the consumer's seat.
    let holder = document.split("| field | offset in the holder |").nth(1).unwrap();
    let offset = |name: &str| FIELDS.iter().find(|f| f.name == name).unwrap();
    let place = offset("consumer_epoch").offset;
    let mut count = 0;
    for line in holder.lines().skip(2).take_while(|line| line.starts_with("| `")) {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let field = offset(&format!("consumer_{}", cells[1].trim_matches('`')));
        assert_eq!(cells[2].parse::<usize>().unwrap(), field.offset - place, "{line}");
        assert_eq!(cells[3].parse::<usize>().unwrap(), field.size, "{line}");
        count += 1;
    }
    assert_eq!(count, 5);
    println!("{} fields agree between Rust and ABI.md", rows.len());
}

/// Latches and tables of words: the C name, the heading in ABI.md, and the number of words.
const TOTALS: [(&str, &str, usize); 8] = [
    ("TAIL_MARK", "`tail_mark`", perfring_abi::TAIL_MARK),
    ("PRODUCER_TOTALS", "`producer_totals`", perfring_abi::PRODUCER_TOTALS),
    ("CONSUMER_TOTALS", "`consumer_totals`", perfring_abi::CONSUMER_TOTALS),
    ("SLOT_WRITTEN", "`written` of a slot", perfring_abi::SLOT_WRITTEN),
    ("SLOT_LOSSES", "`losses` of a slot", perfring_abi::SLOT_LOSSES),
    ("SLOT_BASE", "`base` of a slot", perfring_abi::SLOT_BASE),
    ("RUNNING", "`running`", perfring_abi::RUNNING),
    ("ANCHOR", "`anchor`", perfring_abi::ANCHOR),
];

/// Returns the figures in them: table, name and word, as in Rust.
fn totals_words() -> BTreeMap<(&'static str, String), usize> {
    let mut words = BTreeMap::new();
    let mut add = |totals, name: &str, word: usize| {
        assert!(
            words.insert((totals, name.to_uppercase()), word).is_none(),
            "{totals} {name} twice"
        );
    };
    // Word 0 of the mark is its position and its number; the golden files cover it.
    for (name, word) in [("pos", 0), ("overwritten_records", 1), ("overwritten_bytes", 2)] {
        add("TAIL_MARK", name, word);
    }
    for (totals, name, word) in [
        ("PRODUCER_TOTALS", "pos", producer::POS),
        ("PRODUCER_TOTALS", "written_records", producer::WRITTEN_RECORDS),
        ("PRODUCER_TOTALS", "written_bytes", producer::WRITTEN_BYTES),
        ("PRODUCER_TOTALS", "discarded_records", producer::DISCARDED_RECORDS),
        ("PRODUCER_TOTALS", "discarded_bytes", producer::DISCARDED_BYTES),
        ("PRODUCER_TOTALS", "reclaimed_records", producer::RECLAIMED_RECORDS),
        ("PRODUCER_TOTALS", "reclaimed_bytes", producer::RECLAIMED_BYTES),
        ("PRODUCER_TOTALS", "lost_markers", producer::LOST_MARKERS),
        ("CONSUMER_TOTALS", "pos", consumer::POS),
        ("CONSUMER_TOTALS", "read_records", consumer::READ_RECORDS),
        ("CONSUMER_TOTALS", "read_bytes", consumer::READ_BYTES),
        ("CONSUMER_TOTALS", "lapped_records", consumer::LAPPED_RECORDS),
        ("CONSUMER_TOTALS", "lapped_bytes", consumer::LAPPED_BYTES),
        ("SLOT_WRITTEN", "pos", losses::POS),
        ("SLOT_WRITTEN", "written_records", 2),
        ("SLOT_WRITTEN", "written_bytes", 3),
        ("SLOT_LOSSES", "pos", losses::POS),
        ("SLOT_LOSSES", "discarded_records", losses::DISCARDED_RECORDS),
        ("SLOT_LOSSES", "discarded_bytes", losses::DISCARDED_RECORDS + 1),
        ("SLOT_LOSSES", "reclaimed_records", losses::RECLAIMED_RECORDS),
        ("SLOT_LOSSES", "reclaimed_bytes", losses::RECLAIMED_RECORDS + 1),
        // The base has the two figures of `written`, then the losses without their position.
        ("SLOT_BASE", "written_records", 0),
        ("SLOT_BASE", "written_bytes", 1),
        ("SLOT_BASE", "discarded_records", losses::DISCARDED_RECORDS),
        ("SLOT_BASE", "discarded_bytes", losses::DISCARDED_RECORDS + 1),
        ("SLOT_BASE", "reclaimed_records", losses::RECLAIMED_RECORDS),
        ("SLOT_BASE", "reclaimed_bytes", losses::RECLAIMED_RECORDS + 1),
        ("RUNNING", "discarded_records", running::DISCARDED_RECORDS),
        ("RUNNING", "discarded_bytes", running::DISCARDED_RECORDS + 1),
        ("RUNNING", "reclaimed_records", running::RECLAIMED_RECORDS),
        ("RUNNING", "reclaimed_bytes", running::RECLAIMED_RECORDS + 1),
        ("RUNNING", "lost_markers", running::LOST_MARKERS),
        ("ANCHOR", "pos", anchor::POS),
        ("ANCHOR", "clock_ns", anchor::CLOCK_NS),
        ("ANCHOR", "realtime_ns", anchor::REALTIME_NS),
        ("ANCHOR", "error_ns", anchor::ERROR_NS),
    ] {
        add(totals, name, word);
    }
    for (totals, prefix, first) in [
        ("PRODUCER_TOTALS", "", producer::REFUSED),
        ("PRODUCER_TOTALS", "reported_", producer::REPORTED),
        ("SLOT_LOSSES", "", losses::REFUSED),
        ("SLOT_LOSSES", "reported_", losses::REPORTED),
        ("SLOT_BASE", "", losses::REFUSED),
        ("RUNNING", "reported_", running::REPORTED),
    ] {
        for (index, cause) in Cause::REFUSED.into_iter().enumerate() {
            let name = cause.name();
            add(totals, &format!("{prefix}{name}_records"), first + 2 * index);
            add(totals, &format!("{prefix}{name}_bytes"), first + 2 * index + 1);
        }
    }
    words
}

/// The fields of a slot.
const SLOT: [(&str, usize, usize); 4] = [
    ("holder", offset_of!(Slot, holder), 128),
    ("written", offset_of!(Slot, written), 2 * 8 * perfring_abi::SLOT_WRITTEN),
    ("losses", offset_of!(Slot, losses), 2 * 8 * perfring_abi::SLOT_LOSSES),
    ("base", offset_of!(Slot, base), 8 * perfring_abi::SLOT_BASE),
];

fn slot_rows() -> Vec<(String, Vec<u64>)> {
    SLOT.iter().map(|&(name, at, size)| (name.to_owned(), vec![at as u64, size as u64])).collect()
}

/// Returns every number that `perfring.h` defines, as in Rust.
fn constants() -> BTreeMap<String, u64> {
    let plain = [
        ("CONSUMER_TOLD_WORDS", perfring_abi::CONSUMER_TOLD as u64),
        ("CONSUMER_TOLD_REFUSED", perfring_abi::consumer_told::REFUSED as u64),
        ("CONSUMER_TOLD_NAME", perfring_abi::consumer_told::NAME as u64),
        ("ABI_VERSION", perfring_abi::ABI_VERSION.into()),
        ("ABI_COMPAT", perfring_abi::ABI_COMPAT.into()),
        ("ENDIAN_MARK", perfring_abi::ENDIAN_MARK.into()),
        ("FEATURES_REQUIRED_KNOWN", perfring_abi::FEATURES_REQUIRED_KNOWN),
        ("FEATURE_TIME", perfring_abi::FEATURE_TIME),
        ("FEATURE_AUX", perfring_abi::FEATURE_AUX),
        ("FEATURE_CPU", perfring_abi::FEATURE_CPU),
        ("FEATURE_SAMPLE_ID", perfring_abi::FEATURE_SAMPLE_ID),
        ("FEATURE_CONSUMERS", perfring_abi::FEATURE_CONSUMERS),
        ("FEATURE_METRICS", perfring_abi::FEATURE_METRICS),
        ("METRICS_SIZE_MAX", perfring_abi::METRICS_SIZE_MAX),
        ("METRICS_ALIGN", perfring_abi::METRICS_ALIGN),
        ("METRICS_FIRST", perfring_abi::METRICS_FIRST),
        ("METRIC_COUNTER_U64", MetricKind::CounterU64.code()),
        ("METRIC_COUNTER_F64", MetricKind::CounterF64.code()),
        ("METRIC_UP_DOWN_I64", MetricKind::UpDownI64.code()),
        ("METRIC_UP_DOWN_F64", MetricKind::UpDownF64.code()),
        ("METRIC_GAUGE_I64", MetricKind::GaugeI64.code()),
        ("METRIC_GAUGE_F64", MetricKind::GaugeF64.code()),
        ("METRIC_HISTOGRAM", MetricKind::Histogram(Buckets::default()).code()),
        ("METRIC_RECORD", MetricKind::Record(0).code()),
        ("AUX_SIZE_MIN", perfring_abi::AUX_SIZE_MIN),
        ("AUX_SIZE_MAX", perfring_abi::AUX_SIZE_MAX),
        ("RANGE_ALIGN", perfring_abi::RANGE_ALIGN),
        ("AUX_SIZE", perfring_abi::AUX_SIZE.into()),
        ("AUX_RECORD_OFFSET", aux_record::OFFSET as u64),
        ("AUX_RECORD_LEN", aux_record::LEN as u64),
        ("AUX_RECORD_FLAGS", aux_record::FLAGS as u64),
        ("AUX_RECORD_TIME", aux_record::TIME as u64),
        ("AUX_RECORD_ID", aux_record::ID as u64),
        ("AUX_RECORD_WORDS", aux_record::WORDS as u64),
        ("AUX_OVERWRITE", aux_record::OVERWRITE),
        ("BUSY_AUX", RecordWord::busy_aux(0).misc().into()),
        ("TYPE_AUX", RecordType::AUX.into()),
        ("TIME_CLOCK", perfring_abi::TIME_CLOCK.into()),
        ("PERF_CAPABILITIES", perfring_abi::PERF_CAPABILITIES),
        ("PERF_CAP_TIME_ZERO", perfring_abi::PERF_CAP_TIME_ZERO),
        ("PERF_HEADER_SIZE", perfring_abi::PERF_HEADER_SIZE.into()),
        ("HEADER_PAGE_LEN", perfring_abi::HeaderPage::LEN as u64),
        ("DATA_SIZE_MIN", perfring_abi::DATA_SIZE_MIN),
        ("DATA_SIZE_MAX", perfring_abi::DATA_SIZE_MAX),
        ("SLOT_SIZE", perfring_abi::SLOT_SIZE),
        ("TYPES_FIRST", perfring_abi::TYPES_FIRST),
        ("TYPES_SIZE_MAX", perfring_abi::TYPES_SIZE_MAX),
        ("NAME_LEN", perfring_abi::NAME_WORDS as u64 * 8),
        ("SLOTS_MAX", perfring_abi::SLOTS_MAX.into()),
        ("SLOTS_DEFAULT", perfring_abi::SLOTS_DEFAULT.into()),
        ("CONSUMER_LOCK_BYTE", perfring_abi::CONSUMER_LOCK_BYTE),
        ("RECOVER_LOCK_BYTE", perfring_abi::RECOVER_LOCK_BYTE),
        ("JOIN_LOCK_BYTE", perfring_abi::JOIN_LOCK_BYTE),
        ("SEAT_SIZE", perfring_abi::SEAT_SIZE),
        ("UID_DETACHED", perfring_abi::UID_DETACHED.into()),
        ("CONSUMERS_MAX", perfring_abi::CONSUMERS_MAX.into()),
        ("PRODUCERS_ONE", Producers::One.code().into()),
        ("PRODUCERS_MANY", Producers::Many.code().into()),
        ("PRODUCERS_CPU", Producers::Cpu.code().into()),
        ("CPUS_MAX", perfring_abi::CPUS_MAX.into()),
        ("POLICY_DROP", Policy::Drop.code().into()),
        ("POLICY_OVERWRITE", Policy::Overwrite.code().into()),
        ("EVICT_EXACT", Evict::Exact.code().into()),
        ("EVICT_HALF", Evict::Half.code().into()),
        ("REPORT_IN_STREAM", Report::InStream.code().into()),
        ("REPORT_COUNTERS_ONLY", Report::CountersOnly.code().into()),
        ("CAUSE_FOREIGN", Cause::Foreign.code()),
        ("CAUSE_FULL", Cause::Full.code()),
        ("CAUSE_TOO_LARGE", Cause::TooLarge.code()),
        ("CAUSE_LAPPED", Cause::Lapped.code()),
        ("CAUSE_CONTENDED", Cause::Contended.code()),
        ("CAUSE_PENDING", Cause::Pending.code()),
        ("HEADER_LEN", perfring_abi::HEADER_LEN.into()),
        ("RECORD_ALIGN", perfring_abi::RECORD_ALIGN.into()),
        ("SIZE_MAX", perfring_abi::SIZE_MAX.into()),
        ("MISC_PAD", perfring_abi::MISC_PAD.into()),
        ("LOST_SIZE", perfring_abi::LOST_SIZE.into()),
        ("TIMESTAMP_LEN", perfring_abi::TIMESTAMP_LEN.into()),
        ("WRITER_LEN", perfring_abi::WRITER_LEN.into()),
        ("ANCHORS", perfring_abi::ANCHORS as u64),
        ("TYPE_LOST", RecordType::LOST.into()),
        ("TYPE_SAMPLE", RecordType::SAMPLE.get().into()),
        ("TYPE_BYTES", RecordType::BYTES.get().into()),
        ("TYPE_NOP", RecordType::NOP.into()),
        ("TYPE_BUSY", RecordType::BUSY.into()),
        ("HOLE_RECLAIMED", RecordWord::nop(8, Hole::Reclaimed).misc().into()),
        ("HOLE_REST", RecordWord::nop(8, Hole::Rest).misc().into()),
        ("BUSY_SLOT_SHIFT", RecordWord::busy(8, 1).misc().trailing_zeros().into()),
        // These two are the algorithm's own; the golden files cover them.
        ("LOCK_SLOT_BITS", 16),
        ("NOWHERE", u64::MAX),
        ("RECORD_SIZE(0)", perfring_abi::record_size(0)),
        ("RECORD_SIZE(65520)", perfring_abi::record_size(65520)),
    ];
    let mut all: BTreeMap<_, _> =
        plain.into_iter().map(|(name, value)| (format!("PERFRING_{name}"), value)).collect();
    for (totals, _, words) in TOTALS {
        all.insert(format!("PERFRING_{totals}_WORDS"), words as u64);
    }
    for ((totals, figure), word) in totals_words() {
        // A table with one kind of figure does not repeat its name.
        let figure = match totals {
            "TAIL_MARK" => figure.trim_start_matches("OVERWRITTEN_"),
            "SLOT_WRITTEN" => figure.trim_start_matches("WRITTEN_"),
            _ => &figure,
        };
        all.insert(format!("PERFRING_{totals}_{figure}"), word as u64);
    }
    for field in FIELDS.iter().filter(|field| field.offset >= OWN) {
        all.insert(format!("PERFRING_OFF_{}", field.name.to_uppercase()), field.offset as u64);
    }
    all
}

#[test]
fn every_constant_of_the_c_header_is_rusts() {
    let ours = constants();
    let mut source =
        String::from("#include <stdio.h>\n#include \"perfring.h\"\nint main(void) {\n");
    for name in ours.keys() {
        source += &format!("printf(\"{name} %llu\\n\", (unsigned long long)({name}));\n");
    }
    source += "return 0; }\n";
    let in_c: BTreeMap<_, _> =
        printed(&root().join("proto"), &source).into_iter().map(|(n, v)| (n, v[0])).collect();
    assert_eq!(in_c, ours);

    // None exists only in C.
    let header = text("proto/perfring.h");
    let defined: BTreeSet<_> = header
        .lines()
        .filter_map(|line| line.strip_prefix("#define PERFRING_"))
        .filter_map(|rest| rest.split_once(' '))
        .filter(|(name, value)| !name.contains('(') && !value.starts_with('"'))
        .map(|(name, _)| format!("PERFRING_{name}"))
        .collect();
    let known: BTreeSet<_> = ours.into_keys().filter(|name| !name.contains('(')).collect();
    assert_eq!(defined, known);
    println!("{} constants agree between Rust and C", defined.len());

    let magic = header.split("#define PERFRING_MAGIC_BYTES \"").nth(1).unwrap();
    assert_eq!(magic.as_bytes()[..8], perfring_abi::MAGIC.to_ne_bytes());
}

#[test]
fn every_figure_of_the_totals_is_where_the_document_has_it() {
    let document = text("proto/ABI.md");
    let mut in_document = BTreeMap::new();
    for (totals, heading, words) in TOTALS {
        let heading = format!("\n{heading}, {words} words.");
        let table = document.split(&heading).nth(1);
        let table = table.unwrap_or_else(|| panic!("ABI.md has no heading {heading:?}"));
        for line in table.lines().skip_while(|l| !l.starts_with("|---")).skip(1) {
            let Some(row) = line.strip_prefix('|') else { break };
            let cells: Vec<_> = row.split('|').map(str::trim).collect();
            let words = cells[0].split(", ");
            for (word, name) in words.zip(cells[1].split(", ")).filter(|(_, n)| !n.is_empty()) {
                let name = name.trim_matches('`').to_uppercase();
                in_document.insert((totals, name), word.parse::<usize>().unwrap());
            }
        }
    }
    let in_rust = totals_words();
    assert_eq!(in_document, in_rust);
    println!("{} figures agree between Rust and ABI.md", in_rust.len());
}

#[test]
fn every_field_of_a_slot_is_where_c_and_the_document_have_it() {
    let wanted: Vec<_> = SLOT.iter().map(|&(name, ..)| (name, name.to_owned())).collect();
    let source = offsets_of("\"perfring.h\"", "perfring_slot", &wanted);
    assert_eq!(printed(&root().join("proto"), &source), slot_rows());
    let in_c: Vec<_> = members(&text("proto/perfring.h"), "perfring_slot")
        .into_iter()
        .filter(|name| !name.starts_with("gap_"))
        .collect();
    assert_eq!(in_c, SLOT.map(|(name, ..)| name));

    let document = text("proto/ABI.md");
    let table = document.split("| field | offset in the slot |").nth(1).unwrap();
    let rows: Vec<_> = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with("| `"))
        .map(|line| {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            let numbers = [cells[2], cells[3]].map(|cell| cell.parse().unwrap());
            (cells[1].trim_matches('`').to_owned(), numbers.to_vec())
        })
        .collect();
    assert_eq!(rows, slot_rows());

    // In C, the holder has the fields of the consumer's seat; its tables agree with those.
    let place = FIELDS.iter().find(|f| f.name == "consumer_epoch").unwrap().offset;
    let holder: Vec<_> = FIELDS
        .iter()
        .filter_map(|f| Some((f.name.strip_prefix("consumer_")?, f)))
        .filter(|(_, field)| (place..place + 128).contains(&field.offset))
        .collect();
    let wanted: Vec<_> = holder.iter().map(|&(name, _)| (name, name.to_owned())).collect();
    let source = offsets_of("\"perfring.h\"", "perfring_holder", &wanted);
    for ((name, at), (_, field)) in printed(&root().join("proto"), &source).into_iter().zip(holder)
    {
        assert_eq!(at, [(field.offset - place) as u64, field.size as u64], "{name}");
    }
    println!("{} fields of a slot agree between Rust, C and ABI.md", SLOT.len());
}

/// Returns our name of a field of the kernel.
fn kernel_name(ours: &str) -> String {
    match ours {
        "reserved" | "reserved_1" => format!("__{ours}"),
        _ => ours.to_owned(),
    }
}

#[test]
fn the_first_1088_bytes_are_the_kernels() {
    let ours: Vec<_> = FIELDS.iter().filter(|f| f.offset < OWN).collect();
    let wanted: Vec<_> = ours.iter().map(|f| (f.name, kernel_name(f.name))).collect();
    // The kernel's header does not support -pedantic.
    let mut source = String::from("#pragma GCC diagnostic ignored \"-Wpedantic\"\n");
    source += &offsets_of("\"perf_event.h\"", "perf_event_mmap_page", &wanted);
    let page = printed(&root().join("proto/upstream"), &source);
    assert_eq!(page, field_rows()[..ours.len()]);

    // None of the kernel's is missed: each begins where the one before it ends.
    let mut end = 0;
    for field in &ours {
        assert_eq!(field.offset, end, "{}", field.name);
        end = field.offset + field.size;
    }
    let mut source = String::from(
        "#pragma GCC diagnostic ignored \"-Wpedantic\"\n#include <stdio.h>\n#include <stddef.h>\n\
         #include \"perf_event.h\"\nint main(void) {\n\
         struct perf_event_mmap_page page = { .cap_bit0_is_deprecated = 1 };\n\
         printf(\"page %zu\\n\", sizeof page);\n\
         printf(\"capabilities %llu\\n\", (unsigned long long)page.capabilities);\n\
         page.cap_bit0_is_deprecated = 0, page.cap_user_time_zero = 1;\n\
         printf(\"time_zero %llu\\n\", (unsigned long long)page.capabilities);\n\
         printf(\"lost %d\\nsample %d\\n\", PERF_RECORD_LOST, PERF_RECORD_SAMPLE);\n\
         printf(\"aux %d\\noverwrite %d\\n\", PERF_RECORD_AUX, PERF_AUX_FLAG_OVERWRITE);\n",
    );
    for member in ["type", "misc", "size"] {
        source += &format!(
            "printf(\"{member} %zu %zu\\n\", offsetof(struct perf_event_header, {member}), \
             sizeof(((struct perf_event_header *)0)->{member}));\n"
        );
    }
    source += "return 0; }\n";
    let said: BTreeMap<_, _> =
        printed(&root().join("proto/upstream"), &source).into_iter().collect();
    assert_eq!(said["page"], [end as u64]);
    assert_eq!(said["capabilities"], [perfring_abi::PERF_CAPABILITIES]);
    assert_eq!(said["time_zero"], [perfring_abi::PERF_CAP_TIME_ZERO]);
    assert_eq!(said["lost"], [u64::from(RecordType::LOST)]);
    assert_eq!(said["aux"], [u64::from(RecordType::AUX)]);
    assert_eq!(said["overwrite"], [aux_record::OVERWRITE]);
    assert_eq!(said["sample"], [u64::from(RecordType::SAMPLE.get())]);
    let wanted = [("type", "type"), ("misc", "misc"), ("size", "size")].map(|(a, b)| (a, b.into()));
    let record = offsets_of("\"perfring.h\"", "perfring_record", &wanted);
    for (member, at) in printed(&root().join("proto"), &record) {
        assert_eq!(said[&member], at, "{member} of the record header");
    }
    println!("{} fields and the record header agree with the kernel's", ours.len());
}

#[test]
fn the_c_header_compiles_alone_and_without_a_warning() {
    let include = format!("-I{}", root().join("proto").display());
    let source = "#include \"perfring.h\"\nint main(void) { return 0; }\n";
    let warnings = ["-Wall", "-Wextra", "-Werror", "-pedantic", &include];
    let args: Vec<_> = ["-std=c11"].into_iter().chain(warnings).collect();
    drop(compile(gcc(), &args, "alone.c", source));
    let plus = Command::new("g++").arg("--version").output().is_ok_and(|o| o.status.success());
    if plus {
        let args: Vec<_> = ["-std=c++17"].into_iter().chain(warnings).collect();
        drop(compile("g++", &args, "alone.cc", source));
        println!("perfring.h compiles as C11 and as C++17");
    } else {
        println!("perfring.h compiles as C11; there is no g++ here, so C++17 was not tried");
    }
}

/// Returns each letter and the letters that it pairs with, from a table of `|` cells with `prefix`
/// before each row.
fn letters_of_table(text: &str, prefix: &str) -> BTreeMap<String, String> {
    let start = format!("{prefix}| letter | site | pairs with | so that |");
    let table = text.split(&start).nth(1).unwrap_or_else(|| panic!("no row {start:?}"));
    let mut letters = BTreeMap::new();
    for line in table.lines().skip(2) {
        let Some(row) = line.strip_prefix(&format!("{prefix}| ")) else { break };
        let cells: Vec<_> = row.split(" | ").map(str::trim).collect();
        assert!(letters.insert(cells[0].into(), sorted(cells[2])).is_none(), "{} twice", cells[0]);
    }
    letters
}

fn sorted(pairs: &str) -> String {
    let mut pairs: Vec<_> =
        pairs.split(", ").map(|pair| pair.trim_end_matches(" |").trim()).collect();
    pairs.sort_unstable();
    pairs.join(" ")
}

/// Returns the same from the comment of the C header: ` *  A       B, C    ...`.
fn letters_of_comment(text: &str) -> BTreeMap<String, String> {
    let mut letters = BTreeMap::new();
    let table = text.split(" *  letter  pairs with  site").nth(1).unwrap();
    for line in table.lines().skip(2).take_while(|line| line.len() > 2) {
        let Some(row) = line.strip_prefix(" *  ").filter(|row| !row.starts_with(' ')) else {
            continue; // a row continues
        };
        let (letter, rest) = row.split_at(8);
        letters.insert(letter.trim().to_owned(), sorted(rest[..8].trim()));
    }
    letters
}

#[test]
fn the_letters_of_the_orderings_are_the_same_in_all_three() {
    let ring = letters_of_table(&text("crates/ring/src/lib.rs"), "//! ");
    let document = letters_of_table(&text("proto/ABI.md"), "");
    let header = letters_of_comment(&text("proto/perfring.h"));
    assert!(ring.len() >= 15, "{ring:?}");
    assert_eq!(document, ring, "ABI.md has other letters than crates/ring");
    assert_eq!(header, ring, "perfring.h has other letters than crates/ring");
    // Pairs are symmetric.
    for (letter, pairs) in &ring {
        for other in pairs.split(' ') {
            let back = ring.get(other).unwrap_or_else(|| panic!("{letter} pairs with no {other}"));
            assert!(back.contains(letter.as_str()), "{letter} {other}");
        }
    }
    // The table of fields uses no other letters.
    let document = text("proto/ABI.md");
    let table = document.split("| field | offset | size | sole writer |").nth(1).unwrap();
    for line in table.lines().skip(2).take_while(|line| line.starts_with('|')) {
        let letters = line.split('|').nth(6).unwrap().trim();
        for letter in letters.split(' ').filter(|letter| !letter.is_empty()) {
            assert!(ring.contains_key(letter), "{letter:?} in {line}");
        }
    }
    println!("{} letters agree", ring.len());
}

#[test]
fn a_system_header_that_differs_gives_a_warning() {
    let system = Path::new("/usr/include/linux/perf_event.h");
    let copy = fs::read(root().join("proto/upstream/perf_event.h")).unwrap();
    assert!(copy.starts_with(b"/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */"));
    match fs::read(system) {
        Ok(bytes) if bytes == copy => println!("the system's perf_event.h is our copy"),
        Ok(_) => eprintln!(
            "warning: {} differs from proto/upstream/perf_event.h: see proto/upstream/README.md",
            system.display()
        ),
        Err(error) => eprintln!("warning: {}: {error}: nothing to compare", system.display()),
    }
}
