//! Valid and invalid configurations.

use perfring_sidecar::config::{Config, Delivery, From, InputSource, Mode};
use perfring_sidecar::{On, Sidecar};
use std::time::Duration;

#[test]
fn all_keys_are_parsed() {
    let config = Config::parse(
        r#"
        delay = "7ms"
        shutdown = "3s"

        [[input]]
        dir = "/run/rings"
        mode = "observe"
        from = "latest"
        prune_after = "5s"
        priority = false

        [[input]]
        perf = ["context-switches", "faults"]
        pid = 17

        [[input]]
        bpf = "/sys/fs/bpf/events,observe"

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
    assert_eq!(
        (config.settings.delay, config.settings.shutdown),
        (Duration::from_millis(7), Duration::from_secs(3))
    );
    let input = &config.inputs[0];
    assert_eq!(input.source, InputSource::Dir("/run/rings".into()));
    assert_eq!((input.mode, input.from), (Mode::Observe, From::Latest));
    assert_eq!((input.prune_after, input.priority), (Some(Duration::from_secs(5)), Some(false)));
    assert_eq!(config.inputs[1].priority, None);
    assert!(
        matches!(&config.inputs[1].source, InputSource::Kernel { events, pid: Some(17) } if events.len() == 2)
    );
    assert!(matches!(&config.inputs[2].source, InputSource::Bpf(map) if map.observe));
    let names: Vec<&str> = config.outputs.iter().map(|output| &*output.name).collect();
    assert_eq!(names, ["null", "null-2"]);
    assert_eq!(config.outputs[1].delivery, Delivery::BestEffort);
    assert!(config.outputs[1].filter.is_any() && !config.outputs[0].filter.is_any());
    assert_eq!(config.snapshots[0].on, On::Type("demo.Panic".to_owned()));
    assert_eq!(
        (config.snapshots[0].min_interval, config.snapshots[0].keep),
        (Duration::from_secs(60), 10)
    );
    config.check().unwrap();
}

#[test]
fn invalid_configurations_are_refused_with_their_line() {
    for (text, line, says) in [
        ("delay = \"1ms\"\ndelays = 2", 2, "unknown field `delays`"),
        ("delay_ms = 2", 1, "delay_ms is called delay, and has its unit"),
        ("delay = 2", 1, "write it with its unit"),
        ("delay = \"-1s\"", 1, "write it with its unit"),
        ("shutdown = \"584554049253 years\"", 1, "is too long: the longest is 36500 days"),
        ("log_interval = \"101 years\"", 1, "is too long"),
        ("[[input]]\ndir = \"a\"\nring = \"b\"", 1, "one of dir, ring, perf and bpf"),
        ("[[input]]\nbpf = \"a\"\nring = \"b\"", 1, "one of dir, ring, perf and bpf"),
        ("[[input]]\nbpf = \"id:x\"", 2, "has an id that is no number"),
        ("\n[[input]]\nmode = \"auto\"", 2, "one of dir, ring, perf and bpf"),
        ("[[input]]\nring = \"a\"\nprune_after = \"1s\"", 3, "is for directories"),
        ("[[input]]\nperf = [\"everything\"]", 2, "everything"),
        ("[[input]]\ndir = \"a\"\npid = 1", 3, "pid is for perf"),
        ("[[input]]\ndir = \"a\"\nmode = \"steal\"", 3, "unknown variant `steal`"),
        ("[[output]]\npath = \"x\"", 1, "needs a type"),
        ("[[output]]\ntype = \"fax\"", 2, "known are json"),
        ("[[output]]\ntype = \"json\"\npaht = \"x\"", 3, "unknown field `paht`"),
        ("[[output]]\ntype = \"json\"\nkeep = \"x\"", 3, "invalid type"),
        (
            "[[output]]\ntype = \"json\"\nmax_age_seconds = 7",
            3,
            "max_age_seconds is called max_age, and has its unit: write max_age = \"60s\"",
        ),
        ("[[output]]\ntype = \"recording\"\npath = \"x\"\nmax_age = 7", 4, "with its unit"),
        ("[[output]]\ntype = \"null\"\npath = \"x\"", 3, "unknown field `path`"),
        #[cfg(feature = "otlp")]
        ("[[output]]\ntype = \"otlp\"\nbatch_items = 1\npath = \"x\"", 4, "unknown field `path`"),
        #[cfg(feature = "otlp")]
        ("[[output]]\ntype = \"otlp\"\nkey = true\nbatch_items = \"many\"", 4, "invalid type"),
        #[cfg(feature = "otlp")]
        (
            "[[output]]\ntype = \"otlp\"\ntimeout = \"1s\"\nspan_wait = 7\nkey = true",
            4,
            "with its unit",
        ),
        ("[[output]]\ntype = \"null\"\nwhere = [\"x\"]", 3, "is not a condition"),
        ("[[output]]\ntype = \"null\"\nmin_severity = \"bad\"", 3, "a severity is"),
        ("[[output]]\ntype = \"null\"\ndelivery = \"maybe\"", 3, "unknown variant `maybe`"),
        ("[output]\ntype = \"null\"", 1, "write [[output]]"),
        ("[[snapshot]]\non = \"rain\"\ndir = \"x\"", 2, "\"producer death\""),
        ("[[snapshot]]\non = \"signal\"", 1, "missing field `dir`"),
        ("[[snapshot]]\non = \"signal\"\ndir = \"\"", 3, "it is empty: name a directory"),
        ("[[snapshot]]\ndir = \"x\"\nkeep = 0", 3, "no snapshot would be kept: write 1 or more"),
        ("[[snapshot]]\ndir = \"x\"\nslower_than = \"1ms\"", 3, "is for snapshots with why = true"),
        ("[[snapshot]]\ndir = \"x\"\nwhy = true\nslower_than = 1", 4, "with its unit"),
        ("[[rule]]\nname = \"a b\"\ndrop = true", 2, "1 to 64 letters"),
        ("\n[[rule]]\nname = \"a\"", 2, "one of keep = true"),
        ("[[rule]]\nname = \"a\"\nkeep = false", 1, "one of keep = true"),
        ("[[rule]]\nname = \"a\"\ndrop = true\nsample = 0.5", 1, "one of keep = true"),
        ("[[rule]]\nname = \"a\"\nsample = 1.5", 3, "a share between 0 and 1, and not 1.5"),
        ("[[rule]]\nname = \"a\"\nsample = nan", 3, "a share between 0 and 1"),
        ("[[rule]]\nname = \"a\"\nrate = \"fast\"", 3, "like 1000/s, 10/m or 5/30s"),
        ("[[rule]]\nname = \"a\"\nrate = \"0/s\"", 3, "is no rate"),
        ("[[rule]]\nname = \"a\"\nrate = \"9/2h\"", 3, "up to 1h"),
        ("[[rule]]\nname = \"a\"\nrate = \"9/s\"\nburst = 0", 4, "lets no record pass"),
        ("[[rule]]\nname = \"a\"\ndrop = true\nby = \"x\"", 4, "by is for sample"),
        ("[[rule]]\nname = \"a\"\ndrop = true\nburst = 2", 4, "burst is for rate"),
        ("[[rule]]\nname = \"a\"\ndrop = true\nwhere = [\"x\"]", 4, "is not a condition"),
        ("[[rule]]\nname = \"a\"\nskip = true", 3, "unknown field `skip`"),
        (
            "[[rule]]\nname = \"a\"\ndrop = true\nwhere = [\"severity_number >> 3\"]",
            4,
            ">> is no operator",
        ),
        (
            "[[rule]]\nname = \"a\"\ndrop = true\nwhere = [\"severity_number>=foo\"]",
            4,
            "\"foo\" is no number",
        ),
        ("[[output]]\ntype = \"null\"\nwhere = [\"severity_number>=25\"]", 3, "it is 1 to 24"),
        (
            "[[output]]\ntype = \"null\"\nwhere = [\"duration_nano<0\"]",
            3,
            "no record has \"duration_nano\" < 0",
        ),
        ("[[snapshot]]\non = \"severity>=foo\"\ndir = \"x\"", 2, "a severity is trace, debug"),
        ("[[snapshot]]\non = \"severity>=25\"\ndir = \"x\"", 2, "a severity is trace, debug"),
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
    let both = "[[input]]\ndir=\"x\"\n[[output]]\ntype=\"null\"\n[[rule]]\nname=\"a\"\ndrop=true\n";
    let error = check(&format!("{both}[[rule]]\nname=\"a\"\nkeep=true"));
    assert_eq!(error, "x, line 8: two rules are called \"a\": give one another name");
    let error = check(&format!("{both}[[rule]]\nname=\"b\"\nkeep=true\noutputs=[\"fax\"]"));
    assert_eq!(error, "x, line 8: the rule \"b\" is for \"fax\", which is no output");
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

#[test]
fn rules_are_described_as_they_are_applied() {
    let config = Config::parse(
        r#"
        [[output]]
        type = "null"
        name = "o"

        [[rule]]
        name = "errors"
        where = ["severity_number>=17"]
        keep = true

        [[rule]]
        name = "traces"
        outputs = ["o"]
        types = ["perfring.Log"]
        sample = 0.1
        by = "trace_id"

        [[rule]]
        name = "rest"
        rate = "1_000/s"
        burst = 50

        [[rule]]
        name = "slow"
        rate = "5/30s"
        "#,
        "test",
    )
    .unwrap();
    let rules: Vec<_> =
        config.describe().into_iter().filter(|line| line.starts_with("rule ")).collect();
    assert_eq!(
        rules,
        [
            "rule errors, for all outputs: records that meet it are kept",
            "rule traces, for o: a share of 0.1 of records that meet it is kept, by trace_id",
            "rule rest, for all outputs: of all other records, 1000 in 1s are kept, at most 50 at once",
            "rule slow, for all outputs: of all other records, 5 in 30s are kept, at most 5 at once",
        ]
    );
}

#[test]
fn the_check_looks_at_the_directories_of_snapshots_and_at_pipes() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::create_dir(path("rings")).unwrap();
    let pipe = path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let config = |snapshots: &str| {
        let (rings, out) =
            (path("rings"), format!("[[output]]\ntype = \"json\"\npath = {pipe:?}\n"));
        let text = format!("[[input]]\ndir = {rings:?}\n{out}[[snapshot]]\ndir = {snapshots:?}\n");
        Config::parse(&text, "test").unwrap()
    };
    let good = config(&path("snapshots"));
    good.check().unwrap();
    let said = good.describe();
    println!("{said:#?}");
    let says = |sentence: String| assert!(said.contains(&sentence), "{sentence}: {said:#?}");
    says(format!("{pipe} is a named pipe: the sidecar starts once a process reads it"));
    says(format!("{} does not exist yet: the first snapshot makes it", path("snapshots")));
    for inside in [path("rings"), path("rings/snapshots")] {
        let why = config(&inside).check().unwrap_err().to_string();
        assert!(why.contains("is in the directory of an input, where all files are read"), "{why}");
    }
}
