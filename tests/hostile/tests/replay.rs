//! Replays past findings: every input in `crashes/`, every initial one, and those that are kept of what fuzzing
//! found worth going on from, without libFuzzer.

use perfring_testkit::rng::Rng;
use std::path::Path;

#[test]
fn what_was_found_is_survived() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dirs = [here.join("crashes"), here.join("../fuzz/corpus")];
    let (mut found, mut seeds) = (0, 0);
    for (target, run) in perfring_hostile::TARGETS {
        for (name, bytes) in perfring_hostile::seeds::of(target) {
            println!("{target}: seed {name}");
            run(&bytes);
            seeds += 1;
        }
        for file in dirs.iter().filter_map(|dir| dir.join(target).read_dir().ok()).flatten() {
            let path = file.expect("a file").path();
            println!("{target}: {}", path.display());
            run(&std::fs::read(path).expect("it can be read"));
            found += 1;
        }
    }
    println!("{found} past findings and kept inputs, {seeds} seeds");
    assert!(seeds > 300);
}

/// Random inputs, the same every time.
#[test]
fn bytes_at_random_are_survived() {
    let mut rng = Rng::new(1);
    for (target, run) in perfring_hostile::TARGETS {
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
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = std::fs::read_to_string(here.join("../../tools/fuzz")).expect("the script");
    let manifest = std::fs::read_to_string(here.join("../fuzz/Cargo.toml")).expect("the manifest");
    let names: Vec<&str> = perfring_hostile::TARGETS.iter().map(|(name, _)| *name).collect();
    assert!(script.contains(&format!("targets=({})", names.join(" "))));
    for name in names {
        assert!(manifest.contains(&format!("fuzz_targets/{name}.rs")), "{name}");
        let program = std::fs::read_to_string(here.join(format!("../fuzz/fuzz_targets/{name}.rs")));
        assert!(program.expect("the program").contains(&format!("\"{name}\"")), "{name}");
    }
}
