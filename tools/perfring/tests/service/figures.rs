//! The sidecar's own figures: their names, and what they say.

use super::Run;
#[cfg(feature = "prometheus")]
use crate::command::held_port;
use perfring_producer::Policy;
#[cfg(feature = "prometheus")]
use perfring_telemetry::Resource;
#[cfg(feature = "prometheus")]
use perfring_telemetry::meter::{Instrument, Meter, options};
use perfring_testkit::wait::until;
#[cfg(feature = "prometheus")]
use serde_json::Value;
#[cfg(feature = "prometheus")]
use std::collections::BTreeSet;
use std::time::Instant;

/// A row of the guide's table.
pub(super) struct Listed {
    pub(super) name: String,
    pub(super) unit: String,
    pub(super) on_page: String,
}

/// Returns the guide's table of figures.
pub(super) fn listed() -> Vec<Listed> {
    let guide = include_str!("../../../../crates/perfring/src/guide/sidecar_reference.md");
    let (_, table) = guide.split_once("# Its own figures\n").unwrap();
    let (table, _) = table.split_once("\n# ").unwrap();
    let row = |line: &str| {
        let cells: Vec<_> = line.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let [_, name, unit, _, on_page, ..] = cells[..] else { panic!("{line}") };
        Listed { name: name.into(), unit: unit.into(), on_page: on_page.into() }
    };
    table.lines().filter(|line| line.starts_with("| `")).map(row).collect()
}

/// Returns the value of a line of a page.
fn value(page: &str, line: &str) -> Option<f64> {
    let found = page.lines().find_map(|its| its.strip_prefix(line))?;
    found.trim().parse().ok()
}

/// Returns a figure of the ring `shop` on the page of `[health]`.
fn of_shop(run: &Run, name: &str) -> Option<f64> {
    value(&run.get("/metrics", "").1, &format!("{name}{{ring=\"shop\"}}"))
}

#[test]
fn fill_and_age_of_a_ring_are_those_of_what_no_output_has_delivered() {
    let run = Run::new();
    let mut shop = run.ring("shop", Policy::Drop);
    run.configure(
        "[health]\nlisten = \"127.0.0.1:0\"\n[[output]]\ntype = \"json\"\nname = \"slow\"\n\
         path = \"/dev/full\"\n",
    );
    let mut live = run.start(&[]);
    let since = Instant::now();
    for _ in 0..100 {
        shop.publish(&[7; 312]).unwrap(); // with header and timestamp 328 bytes
    }
    let (lag, size) = (100.0 * 328.0, f64::from(64 << 10));
    let page = || {
        let page = run.get("/metrics", "").1;
        (value(&page, "perfring_ring_lag_bytes{ring=\"shop\"}") == Some(lag)).then_some(page)
    };
    until("all are read", || page().is_some());
    let page = page().unwrap();
    let of = |name: &str| value(&page, &format!("{name}{{ring=\"shop\"}}"));
    assert_eq!(of("perfring_ring_size_bytes"), Some(size));
    assert_eq!(of("perfring_ring_fill_ratio"), Some(lag / size));
    let age = of("perfring_ring_unread_age_seconds").unwrap();
    assert!(age > 0.0 && age <= since.elapsed().as_secs_f64(), "{age}");
    let later = of_shop(&run, "perfring_ring_unread_age_seconds").unwrap();
    assert!(later > age, "it is the oldest one still: {later}");
    live.child.kill().unwrap();
    live.child.wait().unwrap();
    // Another sidecar delivers them.
    run.configure("[health]\nlisten = \"127.0.0.1:0\"\n");
    let mut live = run.start(&[]);
    until("they are delivered", || of_shop(&run, "perfring_ring_fill_ratio") == Some(0.0));
    assert_eq!(of_shop(&run, "perfring_ring_unread_age_seconds"), Some(0.0));
    live.child.kill().unwrap();
    live.child.wait().unwrap();
}

#[cfg(feature = "prometheus")]
#[test]
fn a_figure_has_one_name_on_all_pages_and_it_is_in_the_guide() {
    let run = Run::new();
    let mut shop = run.ring("shop", Policy::Drop);
    shop.publish(&[0; 100_000]).unwrap_err(); // lost: it is too large
    shop.publish(b"a record").unwrap();
    let small = perfring_producer::Options { metrics_size: 4096, ..options() };
    let meter = Meter::open_or_create(run.path("rings/meter"), &small, Resource::here()).unwrap();
    let names: Vec<String> = (0..40).map(|nth| format!("instrument{nth}")).collect();
    let counter = |name: &String| meter.counter::<u64>(&Instrument::new(name)).ok();
    let refused = names.len() - names.iter().filter_map(counter).count();
    let own = run.path("rings/own");
    let buffer = run.path("buffer");
    let (_port, address) = held_port();
    run.configure(&format!(
        "[own]\nring = {own:?}\ninterval = \"50ms\"\n[health]\nlisten = \"127.0.0.1:0\"\n\
         [[output]]\ntype = \"prometheus\"\nname = \"scraped\"\nlisten = {address:?}\n\
         [[output]]\ntype = \"null\"\nname = \"buffered\"\nbuffer = {{ path = {buffer:?} }}\n\
         [[rule]]\nname = \"all\"\nkeep = true\n"
    ));
    let live = run.start(&[]);
    let scraped = || super::get(std::net::TcpStream::connect(&address).unwrap(), "/metrics", "").1;
    let lost = "perfring_ring_lost_records_total{cause=\"too_large\",ring=\"shop\"}";
    until("its own ring was read", || {
        let reads = "perfring_ring_records_total{ring=\"own\"}";
        value(&scraped(), reads).is_some_and(|count| count > 100.0)
            && value(&scraped(), lost) == Some(1.0)
    });
    let listed = listed();
    for page in [scraped(), run.get("/metrics", "").1] {
        let names = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
        let mut names: BTreeSet<&str> = names.collect();
        names.retain(|name| name.starts_with("perfring_") || name.starts_with("process_"));
        names.retain(|name| !name.starts_with("perfring_prometheus_"));
        let expected: BTreeSet<&str> = listed.iter().map(|row| &*row.on_page).collect();
        assert_eq!(names, expected, "{page}");
        assert_eq!(value(&page, lost), Some(1.0), "{page}");
        let no_room = value(&page, "perfring_ring_instruments_refused{ring=\"meter.metrics\"}");
        assert_eq!(no_room, Some(refused as f64), "{page}");
    }
    let status = run.status();
    let mut rings = status["rings"].as_array().unwrap().iter();
    let area = rings.find(|ring| ring["ring"] == "meter.metrics").unwrap();
    assert_eq!(area["instruments_refused"], refused);
    assert_eq!(
        (&area["instruments_replaced"], &area["metrics_damaged"]),
        (&0.into(), &Value::Null)
    );
    for Listed { name, unit, on_page } in listed {
        let word = match &*unit {
            "By" => "bytes",
            "s" => "seconds",
            "1" => "ratio",
            _ => "",
        };
        let on_page = on_page.strip_suffix("_total").unwrap_or(&on_page).to_owned();
        let mangled = name.replace('.', "_");
        assert!(on_page.ends_with(word) && on_page.starts_with(&mangled), "{name}: {on_page}");
    }
    drop(live);
}

#[test]
fn the_status_has_the_figures_under_the_names_of_the_guide() {
    let run = Run::new();
    run.ring("shop", Policy::Drop).publish(b"a record").unwrap();
    run.configure("[[rule]]\nname = \"all\"\nkeep = true\n");
    let mut live = run.start(&[]);
    until("it is read", || run.status()["rings"][0]["records"] == 1);
    let status = run.status();
    for Listed { name, on_page, .. } in listed() {
        let key = on_page.strip_suffix("_total").unwrap_or(&on_page);
        let (object, prefix) = match &*name {
            "perfring.rings" => continue, // the list of them
            name if name.starts_with("perfring.ring.") => (&status["rings"][0], "perfring_ring_"),
            name if name.starts_with("perfring.output.") => {
                (&status["outputs"][0], "perfring_output_")
            }
            name if name.starts_with("perfring.rule.") => {
                (&status["outputs"][0]["rules"][0], "perfring_rule_")
            }
            name if name.starts_with("perfring.merge.") => (&status["merge"], "perfring_merge_"),
            _ => (&status, "perfring_"),
        };
        let key = key.strip_prefix(prefix).unwrap_or(key);
        assert!(object.get(key).is_some(), "{name}: no {key} in {object}");
    }
    let shop = &status["rings"][0];
    assert_eq!((&shop["size_bytes"], &shop["fill_ratio"]), (&(64 << 10).into(), &0.0.into()));
    assert_eq!(shop["unread_age_seconds"], 0.0);
    live.child.kill().unwrap();
    live.child.wait().unwrap();
}

#[cfg(feature = "prometheus")]
#[test]
fn a_gauge_of_a_dead_process_is_served_no_longer_than_the_configuration_says() {
    use perfring_telemetry::{Gauge, Resource, Sink, Sum, options};
    let run = Run::new();
    let (_port, address) = held_port();
    run.configure(&format!(
        "[[output]]\ntype = \"prometheus\"\nname = \"scraped\"\nlisten = {address:?}\nexpire = \"0\"\n"
    ));
    let mut live = run.start(&[]);
    let scraped = || super::get(std::net::TcpStream::connect(&address).unwrap(), "/metrics", "").1;
    let [dead, alive] = ["dead", "alive"].map(|name| {
        let path = run.place.path("rings").join(name);
        let sink = Sink::create(&path, &options(), Resource::here()).unwrap();
        sink.emit(&Gauge::new("depth", 5u64)).unwrap();
        sink.emit(&Sum::delta("requests", 7u64)).unwrap();
        sink
    });
    let of = |name: &str, ring: &str| value(&scraped(), &format!("{name}{{ring=\"{ring}\"}}"));
    until("both are read", || {
        [of("depth", "dead"), of("depth", "alive")] == [Some(5.0), Some(5.0)]
    });
    // One process has one id in both rings.
    let page = scraped();
    let targets: Vec<&str> = page.lines().filter(|it| it.starts_with("target_info{")).collect();
    let id = |line: &str| {
        let (_, rest) = line.split_once("service_instance_id=\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    };
    assert_eq!(targets.len(), 2, "{page}");
    assert_eq!(id(targets[0]), id(targets[1]));
    drop(dead);
    until("its gauge is gone", || of("depth", "dead").is_none());
    assert_eq!(of("requests_total", "dead"), Some(7.0));
    assert_eq!(of("depth", "alive"), Some(5.0));
    assert_eq!(scraped().matches("\ntarget_info{").count(), 1);
    drop(alive);
    live.child.kill().unwrap();
    live.child.wait().unwrap();
}
