//! The sidecar's configuration: TOML, and outputs on the command line.

use perfring_sidecar::Config;

pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Config::parse(&text, "fuzz.toml") {
        Ok(config) => {
            let _ = config.check().map_err(|error| assert!(!error.to_string().is_empty()));
            let lines = config.describe().len();
            let rules = config.snapshots.len() + config.record_rules.len();
            let (inputs, others) = (config.inputs.len(), config.outputs.len() + rules);
            // An input, or a snapshot's directory, that does not exist yet has a second line.
            let more = inputs + config.snapshots.len();
            assert!((inputs + others..=inputs + others + more).contains(&lines), "{lines}");
            for output in &config.outputs {
                assert!(output.is_as(output) && !output.name.is_empty());
            }
            // The same text gives the same configuration: a reload changes nothing.
            let again = Config::parse(&text, "fuzz.toml").expect("the same text");
            assert_eq!(again.settings, config.settings);
            assert_eq!((&again.inputs, &again.snapshots), (&config.inputs, &config.snapshots));
            assert!(again.outputs.iter().zip(&config.outputs).all(|(one, two)| one.is_as(two)));
        }
        Err(error) => assert!(error.to_string().starts_with("fuzz.toml"), "{error}"),
    }
    let mut config = Config::default();
    for line in text.lines().take(16) {
        if let Err(error) = config.add_output(line) {
            assert!(!error.to_string().is_empty());
        }
    }
}
