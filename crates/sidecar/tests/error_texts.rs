//! The guide's page of error messages has the sidecar's.

use perfring_sidecar::control::ControlError;
use perfring_sidecar::{Config, StartError};
use perfring_testkit::headings::begins;
use std::io;

const PAGE: &str = include_str!("../../perfring/src/guide/errors.md");

#[test]
fn every_heading_of_the_sidecars_is_a_text_that_users_see_and_every_such_text_is_on_the_page() {
    let path = || "/run/perfring-sidecar/control.sock".into();
    let error = || io::Error::from(io::ErrorKind::ConnectionRefused);
    let texts = [
        StartError::Control { path: path(), source: error() }.to_string(),
        StartError::ControlPath.to_string(),
        StartError::ControlTaken { path: path() }.to_string(),
        StartError::Health("\"127.0.0.1:9090\": address in use".to_owned()).to_string(),
        ControlError::Nobody { path: path(), source: error() }.to_string(),
        ControlError::Forbidden { path: path() }.to_string(),
        ControlError::NoAnswer { path: path(), source: error() }.to_string(),
        "this build has no health: `cargo install perfring-cli --features full`".to_owned(),
    ];
    let (_, page) = PAGE.split_once("\n# The sidecar\n").unwrap();
    // A bracket is escaped there, as it would begin a link.
    let plain = |line: &str| Some(line.strip_prefix("## ")?.replace('\\', ""));
    let headings: Vec<String> = page.lines().filter_map(plain).collect();
    for heading in &headings {
        assert!(texts.iter().any(|text| begins(text, heading)), "no error says: {heading}");
    }
    for text in &texts {
        assert!(headings.iter().any(|heading| begins(text, heading)), "not on the page: {text}");
    }
    let config =
        Config::parse("[[input]]\ndir = \"x\"\n[health]\n[[output]]\ntype = \"null\"\n", "x");
    let checked = config.unwrap().check();
    #[cfg(not(feature = "health"))]
    assert!(checked.unwrap_err().to_string().ends_with(&texts[6]));
    #[cfg(feature = "health")]
    checked.unwrap();
    println!("{} headings", headings.len());
}
