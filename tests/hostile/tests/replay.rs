//! Plays all seeds without libFuzzer: the initial inputs, inputs kept from fuzzing, and past
//! findings.

use perfring_hostile::{TARGETS, seeds};
use perfring_testkit::rng::Rng;
use perfring_testkit::size::workspace;
use std::collections::BTreeMap;
use std::fs;

#[test]
fn what_was_found_is_survived() {
    let mut played: BTreeMap<&str, usize> = BTreeMap::new();
    for (target, run) in TARGETS {
        for (kind, seeds) in seeds::of(target) {
            for (name, bytes) in &seeds {
                println!("{target}: {kind}-{name}");
                run(bytes);
            }
            assert!(kind == "crash" || !seeds.is_empty(), "{target} has no {kind} seeds");
            *played.entry(kind).or_default() += seeds.len();
        }
    }
    println!("played: {played:?}");
    assert!(played["made"] > 300, "{played:?}");
}

/// A file under another name would be played by no test.
#[test]
fn every_kept_input_and_past_finding_has_a_target() {
    let of_targets = |folder: &str, suffix: &str| {
        let entries = workspace().join(folder).read_dir().expect("a folder");
        let names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
        for name in &names {
            let target = name.to_str().and_then(|name| name.strip_suffix(suffix));
            let is_one = TARGETS.iter().any(|(its, _)| Some(*its) == target);
            assert!(is_one, "{folder}/{} belongs to no target", name.display());
        }
        names.len()
    };
    let (kept, crashes) =
        (of_targets("tests/fuzz/corpus", ".hex"), of_targets("tests/hostile/crashes", ""));
    println!("{kept} targets have kept inputs, {crashes} have past findings");
    assert!(kept > 0 && crashes > 0);
}

/// Random inputs, the same every time.
#[test]
fn bytes_at_random_are_survived() {
    let mut rng = Rng::new(1);
    for (target, run) in TARGETS {
        for _ in 0..200 {
            let len = rng.index(600);
            run(&rng.bytes(len));
        }
        println!("{target}: 200 inputs");
    }
}

/// Each target has its program, and is in the script's list.
#[test]
fn the_list_of_targets_is_one() {
    let text = |file: &str| fs::read_to_string(workspace().join(file)).expect("a file");
    let (script, manifest) = (text("tools/fuzz"), text("tests/fuzz/Cargo.toml"));
    let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    assert!(script.contains(&format!("targets=({})", names.join(" "))));
    println!("{} targets", names.len());
    for name in names {
        assert!(manifest.contains(&format!("fuzz_targets/{name}.rs")), "{name}");
        let program = text(&format!("tests/fuzz/fuzz_targets/{name}.rs"));
        assert!(program.contains(&format!("\"{name}\"")), "{name}");
    }
}
