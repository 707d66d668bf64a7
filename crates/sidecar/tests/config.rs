//! Valid and invalid configurations.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use perfring_sidecar::config::{Config, Delivery, From, InputSource, Mode};
use perfring_sidecar::{On, Sidecar};

#[test]
fn all_keys_are_parsed() {
    let config = Config::parse(
        r#"
        delay_ms = 7
        shutdown_seconds = 3

        [[input]]
        dir = "/run/rings"
        mode = "observe"
        from = "latest"
        prune_after_seconds = 5

        [[input]]
        perf = ["context-switches", "faults"]
        pid = 17

        [[output]]
        type = "null"

        [[output]]
        type = "null"
        delivery = "best-effort"
        min_severity = "WARN"

        [[snapshot]]
        on = "type demo.Panic"
        dir = "/var/lib/x"
        "#,
        "test",
    )
    .unwrap();
    assert_eq!((config.settings.delay_ms, config.settings.shutdown_seconds), (7, 3));
    let input = &config.inputs[0];
    assert_eq!(input.source, InputSource::Dir("/run/rings".into()));
    assert_eq!((input.mode, input.from), (Mode::Observe, From::Latest));
    assert_eq!(input.prune_after_seconds, Some(5));
    assert!(
        matches!(&config.inputs[1].source, InputSource::Kernel { events, pid: Some(17) } if events.len() == 2)
    );
    let names: Vec<&str> = config.outputs.iter().map(|output| &*output.name).collect();
    assert_eq!(names, ["null", "null-2"]);
    assert_eq!(config.outputs[1].delivery, Delivery::BestEffort);
    assert!(config.outputs[1].filter.is_any() && !config.outputs[0].filter.is_any());
    assert_eq!(config.rules[0].on, On::Type("demo.Panic".to_owned()));
    assert_eq!((config.rules[0].min_interval_seconds, config.rules[0].keep), (60, 10));
    config.check().unwrap();
}

#[test]
fn invalid_configurations_are_refused_with_their_line() {
    for (text, line, says) in [
        ("delay_ms = 1\ndelay = 2", 2, "unknown field `delay`"),
        ("delay_ms = -1", 1, "invalid value"),
        ("[[input]]\ndir = \"a\"\nring = \"b\"", 1, "one of dir, ring and perf"),
        ("\n[[input]]\nmode = \"auto\"", 2, "one of dir, ring and perf"),
        ("[[input]]\nring = \"a\"\nprune_after_seconds = 1", 1, "is for directories"),
        ("[[input]]\nperf = [\"everything\"]", 1, "everything"),
        ("[[input]]\ndir = \"a\"\npid = 1", 1, "pid is for perf"),
        ("[[input]]\ndir = \"a\"\nmode = \"steal\"", 3, "unknown variant `steal`"),
        ("[[output]]\npath = \"x\"", 1, "needs a type"),
        ("[[output]]\ntype = \"fax\"", 1, "known are json"),
        ("[[output]]\ntype = \"json\"\npaht = \"x\"", 3, "unknown field `paht`"),
        ("[[output]]\ntype = \"json\"\nkeep = \"x\"", 3, "invalid type"),
        ("[[output]]\ntype = \"null\"\npath = \"x\"", 3, "unknown field `path`"),
        #[cfg(feature = "otlp")]
        ("[[output]]\ntype = \"otlp\"\nbatch_items = 1\npath = \"x\"", 4, "unknown field `path`"),
        ("[[output]]\ntype = \"null\"\nwhere = [\"x\"]", 1, "is not a condition"),
        ("[[output]]\ntype = \"null\"\nmin_severity = \"bad\"", 3, "a severity is"),
        ("[[output]]\ntype = \"null\"\ndelivery = \"maybe\"", 3, "unknown variant `maybe`"),
        ("[output]\ntype = \"null\"", 1, "write [[output]]"),
        ("[[snapshot]]\non = \"rain\"\ndir = \"x\"", 1, "\"producer death\""),
        ("[[snapshot]]\non = \"signal\"", 1, "missing field `dir`"),
        ("a = ", 1, ""),
    ] {
        let error = Config::parse(text, "x.toml").unwrap_err().to_string();
        assert!(error.starts_with(&format!("x.toml, line {line}: ")), "{text:?}: {error}");
        assert!(error.contains(says) && !error.contains('\n'), "{text:?}: {error}");
    }
}

#[test]
fn as_a_whole_it_needs_an_input_an_output_and_names_that_differ() {
    let check = |text: &str| Config::parse(text, "x").unwrap().check().unwrap_err().to_string();
    assert!(check("[[output]]\ntype=\"null\"").contains("no input"));
    assert!(check("[[input]]\ndir=\"x\"").contains("no output"));
    let twice = "[[input]]\ndir=\"x\"\n[[output]]\ntype=\"null\"\nname=\"a\"\n\
                 [[output]]\ntype=\"null\"\nname=\"a\"";
    assert!(check(twice).contains("two outputs are called \"a\""));
    let error = Sidecar::start(Config::default()).err().unwrap().to_string();
    assert!(error.contains("no input"), "{error}");
}

#[test]
fn outputs_of_a_changed_file_are_the_same_if_only_their_lines_differ() {
    let read = |text: &str| Config::parse(text, "x").unwrap().outputs.remove(0);
    let one = read("[[output]]\ntype = \"json\"\npath = \"x\"\nkeep = 3");
    let same = read("# a comment\n[[output]]\nkeep=3\n\ntype='json'\npath = \"x\" # here");
    let other = read("[[output]]\ntype = \"json\"\npath = \"x\"\nkeep = 4");
    assert!(one.is_as(&same) && !one.is_as(&other));
}
