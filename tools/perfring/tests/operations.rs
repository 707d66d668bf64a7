//! The files under `tools/kubernetes` and `tools/systemd` are right: the configurations and the
//! units can be read, and rings between containers work as described there.
//! `installed` has what the package installs.
#![cfg(all(feature = "otlp", feature = "prometheus"))]

pub(crate) mod container;
mod installed;

use self::container::{APP, Container, GROUP, Pod, SIDECAR};
use crate::command::{json_lines, run, skipped};
use nix::sys::signal::Signal;
use perfring_consumer::{Consumer, Item, Policy};
use perfring_producer::{Options, Producer};
use perfring_set::{Access, RingSet, SetOptions};
use perfring_testkit::wait::until;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

fn tools(path: &str) -> String {
    format!("{TOOLS}/{path}")
}

/// Returns the text of `sidecar.toml` in the ConfigMap: the indented lines under its key.
fn config_map() -> String {
    let pod = fs::read_to_string(tools("kubernetes/pod.yaml")).unwrap();
    let mut lines = pod.lines().skip_while(|line| line.trim() != "sidecar.toml: |");
    let key = lines.next().expect("pod.yaml has a ConfigMap with a sidecar.toml");
    let depth = key.len() - key.trim_start().len();
    let is_in =
        |line: &&str| line.trim().is_empty() || line.len() - line.trim_start().len() > depth;
    let text: Vec<&str> = lines.take_while(is_in).map(|line| line.trim()).collect();
    assert!(text.len() > 5, "{text:?}");
    text.join("\n") + "\n"
}

#[track_caller]
fn is_right(args: &[&str], says: &[&str]) {
    let done = run(args, b"");
    assert_eq!(done.code(), 0, "{}", done.err());
    for says in says {
        assert!(done.err().contains(says), "{says:?} is not in {}", done.err());
    }
}

#[test]
fn the_config_map_is_a_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sidecar.toml");
    fs::write(&path, config_map()).unwrap();
    let says =
        ["reads all rings in /rings", "; removed ", "writes to otlp", "writes to prometheus"];
    is_right(&["sidecar", "--config", path.to_str().unwrap(), "--check"], &says);
}

/// Python reads the pod as `kubectl` does.
#[test]
fn the_pod_is_yaml_with_this_configuration_and_names_itself_to_the_application() {
    let has_yaml = Command::new("python3").args(["-c", "import yaml"]).output();
    if !has_yaml.is_ok_and(|done| done.status.success()) {
        return skipped("there is no python3 with PyYAML (tools/test-python set-up)");
    }
    let script =
        "import json, sys, yaml\njson.dump(list(yaml.safe_load_all(sys.stdin)), sys.stdout)";
    let mut command = Command::new("python3");
    command.args(["-c", script]).stdin(fs::File::open(tools("kubernetes/pod.yaml")).unwrap());
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let documents: Vec<Value> = serde_json::from_slice(&done.stdout).unwrap();
    let [map, pod] = &documents[..] else { panic!("{documents:?}") };
    let embedded: String = map["data"]["sidecar.toml"].as_str().unwrap().to_owned();
    let trimmed: Vec<&str> = embedded.lines().map(str::trim).collect();
    assert_eq!(trimmed.join("\n"), config_map().trim_end(), "the test reads the same text");
    let env = pod["spec"]["containers"][0]["env"].as_array().unwrap();
    let names: Vec<&str> = env.iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    let at = names.iter().position(|name| *name == "OTEL_RESOURCE_ATTRIBUTES").unwrap();
    let mut attributes = env[at]["value"].as_str().unwrap().to_owned();
    for (attribute, variable, field) in [
        ("k8s.pod.name", "POD_NAME", "metadata.name"),
        ("k8s.namespace.name", "POD_NAMESPACE", "metadata.namespace"),
        ("k8s.node.name", "NODE_NAME", "spec.nodeName"),
    ] {
        assert!(attributes.contains(&format!("{attribute}=$({variable})")), "{attributes}");
        // Kubernetes replaces only variables that stand before.
        let of = env[..at].iter().find(|entry| entry["name"] == variable).unwrap();
        assert_eq!(of["valueFrom"]["fieldRef"]["fieldPath"], field);
        attributes = attributes.replace(&format!("$({variable})"), field);
    }
    assert!(!attributes.contains('$'), "{attributes}");
}

#[test]
fn the_probes_ask_for_what_is_served() {
    let pod = fs::read_to_string(tools("kubernetes/pod.yaml")).unwrap();
    let (port, _) =
        pod.split_once("- { name: health, containerPort: ").unwrap().1.split_once(' ').unwrap();
    assert!(config_map().contains(&format!("[health]                    # /healthz, /readyz and /metrics\nlisten = \"0.0.0.0:{port}\"\n")));
    let probes: Vec<&str> = pod.lines().filter(|line| line.contains("httpGet:")).collect();
    let healthz = probes.iter().filter(|line| line.contains("{ path: /healthz, port: health }"));
    let readyz = probes.iter().filter(|line| line.contains("{ path: /readyz, port: health }"));
    assert_eq!((healthz.count(), readyz.count(), probes.len()), (2, 1, 3), "{probes:?}");
}

/// The environment variable with the directory of [`an_application_in_a_container`].
const RINGS: &str = "PERFRING_DIR";

/// Not a test of its own: the application, which creates its rings as the README says, and
/// publishes as many records as each line of its stdin says.
#[test]
fn an_application_in_a_container() {
    let Some(dir) = std::env::var_os(RINGS) else { return };
    // The volume is of another user and writable by its group: the default refuses it, and says what to set.
    let refused = RingSet::open(&dir).unwrap_err().to_string();
    assert!(refused.contains("(Access::Shared)"), "{refused}");
    let mut options = SetOptions { access: Access::Shared, ..SetOptions::default() };
    options.ring = Options { mode: 0o660, size: 64 << 10, ..options.ring };
    let set = RingSet::open_with(&dir, &options).unwrap();
    let flight = Options { policy: Policy::Overwrite, ..options.ring };
    let (mut shop, mut flight) =
        (set.producer("shop").unwrap(), set.producer_with("flight", &flight).unwrap());
    let mut number = 0_u64;
    println!("\ndone");
    for line in std::io::stdin().lines() {
        for _ in 0..line.unwrap().parse().unwrap() {
            publish(&mut shop, number);
            publish(&mut flight, number);
            number += 1;
        }
        println!("\ndone");
    }
}

fn publish(producer: &mut Producer, number: u64) {
    producer.publish(number.to_string().as_bytes()).unwrap();
}

/// Returns the numbers that arrived of each ring, each once; checks their times.
fn arrived(pod: &Pod, since: Since) -> BTreeMap<String, Vec<u64>> {
    let text = fs::read_to_string(pod.path("out/out.jsonl")).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let now = Since { wall: wall() + 1_000_000_000, timestamp: timestamp() };
    let mut rings: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for line in json_lines(whole) {
        assert_eq!(line["lost"], Value::Null, "{line}");
        for (name, since, now) in
            [("time_unix_ns", since.wall, now.wall), ("time_ns", since.timestamp, now.timestamp)]
        {
            let time = line[name].as_u64().unwrap();
            assert!(since <= time && time <= now, "{name} of {since} .. {now}: {line}");
        }
        let ring = line["ring"].as_str().unwrap().to_owned();
        rings.entry(ring).or_default().push(line["text"].as_str().unwrap().parse().unwrap());
    }
    rings
}

/// A start time, on both clocks.
#[derive(Clone, Copy)]
struct Since {
    wall: u64,
    timestamp: u64,
}

fn wall() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    since.as_nanos() as u64
}

/// Returns the timestamp of a record that is written now, by a process outside of the containers.
fn timestamp() -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let ring = dir.path().join("ring");
    let options = Options { time: true, ..Options::default() };
    publish(&mut Producer::create(&ring, &options).unwrap(), 0);
    let mut consumer = Consumer::attach(&ring).unwrap();
    let Some(Item::Record(record)) = consumer.read().unwrap() else { panic!("no record") };
    record.time.unwrap()
}

fn start_sidecar(pod: &Pod, offset: &str) -> Container {
    let config = pod.path("sidecar.toml");
    let args = ["sidecar", "--config", config.to_str().unwrap()];
    pod.start(&pod.perfring, &args, SIDECAR, offset)
}

#[test]
fn an_application_and_a_sidecar_in_containers_of_their_own() {
    let Some(pod) = Pod::new() else { return };
    // As in the pod, except the path of the volume, the outputs, and the delay.
    let config = config_map().replace("/rings", pod.rings().to_str().unwrap());
    let config = config.replace("\"0.0.0.0:9090\"", "\"127.0.0.1:0\"");
    let (config, _) = config.split_once("[[output]]").unwrap();
    let (before, after) = config.split_once("prune_after = ").unwrap();
    let (_, after) = after.split_once('\n').unwrap();
    let out = pod.path("out/out.jsonl");
    let config = format!(
        "{before}prune_after = \"0\"\n{after}\n[[output]]\ntype = \"json\"\npath = {out:?}\n"
    );
    fs::write(pod.path("sidecar.toml"), config).unwrap();
    // A second less, as clocks may be set.
    let since = Since { wall: wall() - 1_000_000_000, timestamp: timestamp() };

    // Native sidecars start before the application.
    let sidecar = start_sidecar(&pod, "5000");
    let name = ["--exact", "operations::an_application_in_a_container", "--nocapture"];
    let mut app = pod.start(&pod.app, &name, APP, "70000");
    app.wait_for("done");
    app.report("300");
    let all = |count: u64| {
        let ring = |name: &str| (name.to_owned(), (0..count).collect::<Vec<u64>>());
        BTreeMap::from([ring("flight"), ring("shop")])
    };
    until("all have come", || {
        assert!(sidecar.is_there(), "{}", pod.said());
        arrived(&pod, since) == all(300)
    });
    let ring = pod.rings().join("shop");
    let meta = fs::metadata(&ring).unwrap();
    assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o7777), (APP, GROUP, 0o660));

    // `kubectl exec`, and the probes.
    let socket = pod.rings().join(".sidecar/control.sock");
    let status = ["sidecar", "status", "--json", "--control", socket.to_str().unwrap()];
    let answered = pod.run(&status, SIDECAR, true);
    assert_eq!(answered.code(), 0, "{}", answered.err());
    let status = json_lines(&answered.out()).remove(0);
    assert_eq!((&status["ready"], &status["rings"][1]["ring"]), (&true.into(), &"shop".into()));

    // System works across pid namespaces.
    let dir = pod.rings();
    let dir = dir.to_str().unwrap();
    let seen = pod.run(&["ls", "--format", "json", dir], SIDECAR, true);
    assert_eq!(seen.code(), 0, "{}", seen.err());
    let rows = json_lines(&seen.out());
    assert_eq!(rows.len(), 2, "{rows:?}");
    for row in &rows {
        assert_eq!(row["producer"]["alive"], true, "{row}");
    }
    let other = pod.run(&["ls", dir], 10_003, false);
    let err = other.err();
    assert!(other.code() != 0 && err.lines().count() == 1, "{err}");
    assert!(err.starts_with("perfring: ") && err.contains("ermission"), "{err}");

    // The sidecar ends, the application continues and is killed: the next sidecar finds a ring
    // whose producer is dead.
    sidecar.signal(Signal::SIGTERM);
    assert_eq!(sidecar.end(), Some(0), "{}", pod.said());
    app.report("200");
    app.signal(Signal::SIGKILL);
    app.end();
    let sidecar = start_sidecar(&pod, "90000");
    until("the ring is read and removed", || {
        assert!(sidecar.is_there(), "{}", pod.said());
        !Path::exists(&ring)
    });
    until("all have come", || arrived(&pod, since) == all(500));
    // A program's last words stay.
    assert!(pod.rings().join("flight").exists());
    sidecar.signal(Signal::SIGTERM);
    assert_eq!(sidecar.end(), Some(0), "{}", pod.said());
    assert_eq!(arrived(&pod, since), all(500), "each once");
}
