//! What is installed works together: the service's unit, its directories and its configuration.

use super::container::GROUP;
use super::{is_right, tools};
use crate::command::{Live, json_lines, perfring, run, skipped};
use perfring_producer::{Options, Producer};
use perfring_testkit::wait::until;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The directories of the installed configuration, and what makes each.
const MADE: [(&str, &str); 3] = [
    ("/var/lib/perfring", "StateDirectory=perfring"),
    ("/var/log/perfring", "LogsDirectory=perfring"),
    ("/run/perfring", "ReadWritePaths=/run/perfring"),
];

fn unit() -> String {
    fs::read_to_string(tools("systemd/perfring-sidecar.service")).unwrap()
}

/// Writes the installed configuration with its directories in a place of the test. Returns the place and the file.
fn installed() -> (TempDir, String) {
    let place = tempfile::tempdir().unwrap();
    let mut text = fs::read_to_string(tools("systemd/sidecar.toml")).unwrap();
    for (dir, _) in MADE {
        assert!(text.contains(&format!("\"{dir}")), "{dir} is not used");
        let here = place.path().join(dir.trim_start_matches('/'));
        fs::create_dir_all(&here).unwrap();
        text = text.replace(&format!("\"{dir}"), &format!("\"{}", here.display()));
    }
    assert!(
        !text.contains("\"/run") && !text.contains("\"/var") && !text.contains("\"/dev"),
        "{text}"
    );
    // Other sidecars run on this machine.
    text = text.replace("127.0.0.1:9464", "127.0.0.1:0").replace("127.0.0.1:9465", "127.0.0.1:0");
    let config = place.path().join("sidecar.toml").display().to_string();
    fs::write(&config, text).unwrap();
    (place, config)
}

#[test]
fn the_unit_starts_the_command_with_the_installed_configuration() {
    let unit = unit();
    for (_, by) in MADE {
        assert!(unit.lines().any(|line| line == by), "{by}");
    }
    let tmpfiles = fs::read_to_string(tools("systemd/perfring.tmpfiles.conf")).unwrap();
    assert!(tmpfiles.contains("d /run/perfring 2770 root perfring"), "{tmpfiles}");
    let (_place, config) = installed();
    let (mut checked, mut commands, mut asked) = (0, 0, 0);
    for line in unit.lines().filter(|line| line.starts_with("Exec")) {
        let Some((_, args)) = line.split_once("=/usr/bin/perfring ") else { continue };
        commands += 1;
        let args = args.replace("/etc/perfring/sidecar.toml", &config);
        let args: Vec<&str> = args.split(' ').collect();
        let says = ["reads all rings in"];
        if args.starts_with(&["sidecar", "reload"]) {
            // Of the sidecar that ExecStart started, by the unit's RUNTIME_DIRECTORY.
            let done = run(&args, b"");
            assert!(done.code() == 3 && done.err().contains("/control.sock: "), "{}", done.err());
            asked += 1;
        } else if args.contains(&"--check") {
            is_right(&args, &says);
            checked += 1;
        } else {
            is_right(&[&args[..], &["--check"]].concat(), &says);
        }
    }
    assert_eq!((checked, commands, asked), (2, 4, 1), "before the start, and before a reload");
    assert!(unit.lines().any(|line| line == "RuntimeDirectory=perfring-sidecar"));
}

/// The package installs the files that the unit and its documentation name.
#[test]
fn the_package_has_what_the_unit_needs() {
    let package = fs::read_to_string(tools("package")).unwrap();
    for (file, to) in [
        ("systemd/sidecar.toml", "/etc/perfring/sidecar.toml"),
        ("systemd/perfring-sidecar.service", "/usr/lib/systemd/system/perfring-sidecar.service"),
        ("systemd/perfring.tmpfiles.conf", "/usr/lib/tmpfiles.d/perfring.conf"),
        ("systemd/perfring.sysusers.conf", "/usr/lib/sysusers.d/perfring.conf"),
        ("sidecar.toml", "/usr/share/doc/perfring/examples/sidecar.toml"),
    ] {
        let line = format!("tools/{file} \"$root{to}\"");
        assert!(package.contains(&line), "{line}");
    }
    assert!(package.contains("/etc/perfring/sidecar.toml\\n' >\"$root/DEBIAN/conffiles\""));
}

/// A record arrives, health and metrics are served, and the sidecar makes no system call that the unit forbids.
#[test]
fn the_installed_configuration_works_within_the_system_calls_of_the_unit() {
    let allowed = allowed_calls();
    let has_strace = Command::new("strace").args(["-f", "-o", "/dev/null", "true"]).output();
    let traces = allowed.is_some() && has_strace.is_ok_and(|done| done.status.success());
    if !traces {
        skipped("there is no systemd-analyze, or no strace that may trace here");
    }
    let (place, config) = installed();
    let path = |name: &str| place.path().join(name).display().to_string();
    fs::create_dir(path("runtime")).unwrap();
    let args = ["sidecar", "--config", &config, "--control"];
    let mut command = perfring(&args);
    if traces {
        command = Command::new("strace");
        command
            .args(["-f", "-qq", "-o", &path("calls"), env!("CARGO_BIN_EXE_perfring")])
            .args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
    }
    command.env("RUNTIME_DIRECTORY", path("runtime"));
    command.stderr(File::create(path("said")).unwrap());
    let mut live = Live::of(command);
    let socket = path("runtime/control.sock");
    let ask = |what: &str, more: &[&str]| {
        run(&[&["sidecar", what, "--control", &socket], more].concat(), b"")
    };
    until("it answers", || ask("status", &[]).code() == 0);
    let options = Options { mode: 0o660, size: 64 << 10, ..Options::default() };
    let mut producer = Producer::create(place.path().join("run/perfring/shop"), &options).unwrap();
    producer.publish(b"a record").unwrap();
    let records = path("var/log/perfring/records.jsonl");
    until("the record arrives", || {
        fs::read_to_string(&records).is_ok_and(|text| text.contains("a record"))
    });
    let status = json_lines(&ask("status", &["--json"]).out()).remove(0);
    assert_eq!(status["ready"], true, "{status}");
    let health = status["health"].as_str().unwrap();
    for page in ["healthz", "readyz", "metrics"] {
        let page = format!("http://{health}/{page}");
        let done = Command::new("curl").args(["-fsS", &page]).output();
        match done {
            Ok(done) => assert!(done.status.success(), "{page}: {done:?}"),
            Err(error) => skipped(&format!("there is no curl: {error}")),
        }
    }
    assert_eq!(ask("reload", &[]).code(), 0);
    assert_eq!(ask("drain", &[]).code(), 0);
    assert_eq!(
        live.child.wait().unwrap().code(),
        Some(0),
        "{}",
        fs::read_to_string(path("said")).unwrap()
    );
    let Some(allowed) = allowed.filter(|_| traces) else { return };
    let calls = fs::read_to_string(path("calls")).unwrap();
    let name = |line: &str| {
        let call = line.split_whitespace().nth(1)?.split_once('(')?.0.to_owned();
        call.chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            .then_some(call)
    };
    let made: BTreeSet<String> = calls.lines().filter_map(name).collect();
    assert!(made.contains("futex") && made.contains("mmap") && made.contains("execve"), "{made:?}");
    let forbidden: Vec<&String> = made.difference(&allowed).collect();
    assert!(forbidden.is_empty(), "the unit forbids {forbidden:?}");
}

/// Returns the system calls that the unit allows. `None` without systemd-analyze.
fn allowed_calls() -> Option<BTreeSet<String>> {
    let mut allowed = BTreeSet::new();
    for line in
        unit().lines().filter_map(|line| line.strip_prefix("SystemCallFilter=").map(str::to_owned))
    {
        let (names, removes) = match line.strip_prefix('~') {
            Some(names) => (names.to_owned(), true),
            None => (line, false),
        };
        for name in names.split(' ') {
            for call in calls_of(name)? {
                match removes {
                    true => allowed.remove(&call),
                    false => allowed.insert(call),
                };
            }
        }
    }
    // Every filter of systemd has these.
    allowed.extend(calls_of("@default")?);
    Some(allowed)
}

/// Returns the calls of a group, with those of the groups in it.
fn calls_of(group: &str) -> Option<Vec<String>> {
    let done = Command::new("systemd-analyze").args(["syscall-filter", group]).output().ok()?;
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success(), "{group}");
    let mut calls = Vec::new();
    for name in text
        .lines()
        .skip(1)
        .map(str::trim)
        .filter(|name| !name.starts_with('#') && !name.is_empty())
    {
        match name.starts_with('@') {
            true => calls.extend(calls_of(name)?),
            false => calls.push(name.to_owned()),
        }
    }
    Some(calls)
}

/// systemd's own measure of what a service is exposed to, from 0 to 10.
#[test]
fn the_unit_is_hardened() {
    let mut command = Command::new("systemd-analyze");
    command.args(["security", "--offline=yes", "--no-pager", "--threshold=15"]);
    match command.arg(tools("systemd/perfring-sidecar.service")).output() {
        Ok(done) => assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout)),
        Err(error) => return skipped(&format!("there is no systemd-analyze: {error}")),
    }
    // What would break it; README.md says why.
    let unit = unit();
    for breaks in ["RemoveIPC=yes", "ProtectProc=", "ProcSubset=", "PrivateUsers=yes"] {
        assert!(!unit.contains(breaks), "{breaks}");
    }
}

#[test]
fn systemd_reads_the_units() {
    let units = ["systemd/perfring-sidecar.service", "systemd/shop.service"].map(tools);
    let done = match Command::new("systemd-analyze").arg("verify").args(units).output() {
        Ok(done) => done,
        Err(error) => return skipped(&format!("there is no systemd-analyze: {error}")),
    };
    let err = String::from_utf8(done.stderr).unwrap();
    // The programs and the manual need not be installed here.
    let missing = |line: &&str| !line.ends_with("is not executable: No such file or directory");
    let wrong: Vec<&str> = err.lines().filter(missing).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(err.contains("/usr/bin/perfring is not executable") || done.status.success(), "{err}");
}

#[test]
fn systemd_creates_the_directory_as_its_readme_says() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("etc")).unwrap();
    fs::write(root.path().join("etc/passwd"), "root:x:0:0::/:/bin/sh\n").unwrap();
    fs::write(root.path().join("etc/group"), format!("perfring:x:{GROUP}:\n")).unwrap();
    if !nix::unistd::Uid::effective().is_root() {
        return skipped("only root may give a directory to a group");
    }
    let mut command = Command::new("systemd-tmpfiles");
    command.arg("--root").arg(root.path()).arg("--create");
    match command.arg(tools("systemd/perfring.tmpfiles.conf")).output() {
        Ok(done) => assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr)),
        Err(error) => return skipped(&format!("there is no systemd-tmpfiles: {error}")),
    }
    let made = fs::metadata(root.path().join("run/perfring")).unwrap();
    assert_eq!((made.mode() & 0o7777, made.gid()), (0o2770, GROUP));
}

/// An output `prometheus` serves the same figures as `[health]`: another job scrapes that page.
#[test]
fn every_query_of_alerts_and_dashboard_asks_for_one_job() {
    let mut asked = 0;
    for file in ["prometheus/perfring.rules.yml", "grafana/perfring.json"] {
        let text = fs::read_to_string(tools(file)).unwrap().replace('\\', "");
        for query in text.lines().filter(|line| line.trim_start().starts_with(['e', '"'])) {
            let Some((_, query)) = query.split_once("expr") else { continue };
            let figures = ["perfring_", "process_", "up{"].iter();
            let parts = figures.flat_map(|figure| query.match_indices(figure).map(|(at, _)| at));
            for at in parts {
                let figure = &query[at..];
                assert!(figure.contains("{job=\"perfring\"}"), "{file}: {figure}");
                let name = figure.split('{').next().unwrap();
                let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
                assert!(name.chars().all(is_name), "{file}: {name} asks for no job: {query}");
                asked += 1;
            }
        }
    }
    assert!(asked > 40, "{asked}");
}
