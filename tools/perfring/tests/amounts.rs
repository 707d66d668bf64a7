//! Sizes and durations are read alike in a configuration and on the command line; the Python package's `test_amounts.py`
//! tries the same table there.

use crate::command::{Done, Place, run};
use std::fs;
use std::time::Duration;

#[test]
fn a_configuration_and_the_command_read_sizes_and_durations_alike() {
    let place = Place::new();
    let (rings, root) = (place.path("rings"), place.0.path().to_str().unwrap());
    fs::create_dir(&rings).unwrap();
    let rings = rings.to_str().unwrap();
    let file = place.path("sidecar.toml");
    let configured = |keys: &str| {
        fs::write(&file, keys).unwrap();
        run(&["sidecar", "--config", file.to_str().unwrap(), "--check"], b"")
    };
    let table = include_str!("../../../tests/amounts.tsv");
    let rows = table.lines().filter(|line| !line.starts_with('#'));
    let mut tried = 0;
    for row in rows {
        let [kind, text, says] = row.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let input = format!("[[input]]\ndir = {rings:?}\n");
        let output = "[[output]]\ntype = \"null\"\n";
        let buffer = |text: &str| {
            // A buffer of no bytes is refused as such.
            if says == "0" {
                let keys = format!("path = \"/dev/null\"\nmax_bytes = {text}");
                return configured(&format!("{input}[[output]]\ntype = \"json\"\n{keys}\n"));
            }
            let buffer = format!("buffer = {{ path = \"{root}/buffer\", max_bytes = {text} }}");
            configured(&format!("{input}{output}{buffer}\n"))
        };
        let (doors, good): (Vec<Done>, String) = match kind {
            "size" => {
                let mut doors =
                    vec![buffer(&format!("{text:?}")), prune(rings, "--max-bytes", text)];
                // TOML's own numbers.
                doors.extend(text.parse::<u32>().is_ok().then(|| buffer(text)));
                (doors, format!("{says} bytes wait in"))
            }
            "duration" => {
                let within = format!("prune_after = {text:?}\n");
                let doors = vec![
                    configured(&format!("{input}{within}{output}")),
                    prune(rings, "--dead-for", text),
                ];
                let time = says.parse().map(Duration::from_secs_f64).unwrap_or_default();
                (doors, format!("removed {} after", humantime::format_duration(time)))
            }
            _ => panic!("{row}"),
        };
        for (nth, done) in doors.iter().enumerate() {
            match says.parse::<f64>() {
                Ok(_) => {
                    assert_eq!(done.code(), 0, "{row}: {}", done.err());
                    assert!(
                        nth == 1 || says == "0" || done.err().contains(&good),
                        "{row}: {}",
                        done.err()
                    );
                }
                Err(_) => done.refuses(2, says),
            }
        }
        tried += doors.len();
    }
    println!("{tried} values");
}

fn prune(rings: &str, flag: &str, text: &str) -> Done {
    run(&["prune", rings, &format!("{flag}={text}"), "--dry-run"], b"")
}
