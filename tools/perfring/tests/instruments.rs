//! `perfring metrics`: what the instruments of processes have measured, by process and added up.

use crate::command::{Place, json_lines, perfring, run};
use perfring_consumer::{Observer, Start, metrics::MetricKind};
use perfring_producer::metrics::{Buckets, MetricsError};
use perfring_telemetry::Resource;
use perfring_telemetry::meter::{Instrument, Meter, options};
use serde_json::{Value, json};
use std::path::Path;

/// What one process measures: `orders` of cards, `amounts`, a temperature, and an up-down counter.
fn measured(ring: &Path, service: &'static str, orders: u64, amounts: &[f64]) -> Meter {
    let resource = Resource::here().with("service.name", service);
    let meter = Meter::open_or_create(ring, &options(), resource).unwrap();
    let attributes = &[("by", "card".into())];
    let paid = Instrument { unit: "{order}", attributes, ..Instrument::new("orders") };
    meter.counter::<u64>(&paid).unwrap().add(orders);
    let buckets = Buckets::new(2, -4, 8).unwrap();
    let amount = Instrument { unit: "EUR", buckets, ..Instrument::new("amount") };
    let amount = meter.histogram(&amount).unwrap();
    amounts.iter().for_each(|value| amount.record(*value));
    meter.gauge::<f64>(&Instrument::new("temperature")).unwrap().set(orders as f64 / 2.0);
    meter.up_down_counter::<i64>(&Instrument::new("open")).unwrap().add(-3);
    meter
}

fn named<'a>(lines: &'a [Value], name: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["name"] == name).collect()
}

#[test]
fn each_process_has_a_line_with_its_resource_and_a_sum_is_over_the_dead_too() {
    let place = Place::new();
    let ring = place.path("shop");
    let path = ring.to_str().unwrap();
    // All three attachments have the same pid.
    drop(measured(&ring, "old", 5, &[1.0, 0.0, -1.0]));
    let _till = measured(&ring, "till", 7, &[2.0, 300.0]);
    let _kiosk = measured(&ring, "kiosk", 30, &[]);

    let done = run(&["metrics", path, "--json"], b"");
    assert_eq!(done.code(), 0, "{}", done.err());
    let lines = json_lines(&done.out());
    let orders = named(&lines, "orders");
    let by_service: Vec<_> = orders
        .iter()
        .map(|line| {
            (line["resource"]["service.name"].clone(), line["value"].clone(), line["alive"].clone())
        })
        .collect();
    assert_eq!(
        by_service,
        [
            (json!("old"), json!(5), json!(false)),
            (json!("till"), json!(7), json!(true)),
            (json!("kiosk"), json!(30), json!(true))
        ]
    );
    assert!(orders.iter().all(|line| line["pid"] == std::process::id()));

    let done = run(&["metrics", path, "--json", "--sum"], b"");
    assert_eq!(done.code(), 0, "{}", done.err());
    let lines = json_lines(&done.out());
    let orders = json!({
        "name": "orders", "kind": "counter", "unit": "{order}", "description": "",
        "attributes": { "by": "card" }, "processes": 3, "complete": true, "value": 42,
    });
    assert_eq!(named(&lines, "orders"), [&orders]);
    assert_eq!(named(&lines, "open")[0]["value"], json!(-9));
    assert_eq!(named(&lines, "temperature").len(), 3, "a gauge has no sum");
    let [amount] = named(&lines, "amount")[..] else { panic!("{lines:?}") };
    // The last bucket has what is above all bounds: 300.
    let shown = |name: &str| amount[name].clone();
    assert_eq!(
        (shown("count"), shown("sum"), shown("zero_count")),
        (json!(4), json!(303.0), json!(1))
    );
    assert_eq!(
        (shown("min"), shown("max"), shown("refused")),
        (json!(0.0), json!(300.0), json!(1))
    );
    let counts = amount["bucket_counts"].as_array().unwrap();
    assert_eq!(counts.iter().map(|count| count.as_u64().unwrap()).sum::<u64>(), 3);
    assert_eq!(shown("processes"), json!(3));
}

#[test]
fn the_text_names_processes_by_their_service() {
    let place = Place::new();
    let ring = place.path("shop");
    drop(measured(&ring, "old", 5, &[]));
    let _till = measured(&ring, "till\u{1b}", 7, &[]);
    let pid = std::process::id();
    let path = ring.to_str().unwrap();
    let done = run(&["metrics", path], b"");
    let out = done.out();
    let orders: Vec<_> = out.lines().filter(|line| line.starts_with("orders by=card  ")).collect();
    let [old, till] = orders[..] else { panic!("{out}") };
    assert!(old.ends_with(&format!("  process {pid} (old), ended")), "{out}");
    assert!(till.ends_with(&format!("  process {pid} (till?)")), "{out}");
    let done = run(&["metrics", path, "--sum"], b"");
    let line = done.out().lines().find(|line| line.starts_with("orders")).unwrap().to_owned();
    let words: Vec<_> = line.split_whitespace().collect();
    assert_eq!(words, ["orders", "by=card", "12", "{order}", "2", "processes"]);

    let _histogram = measured(&ring, "kiosk", 30, &[0.25, 1.0, 3.0]);
    let out = run(&["metrics", path], b"").out();
    let order = out.lines().find(|line| line.starts_with("orders")).unwrap();
    assert!(order.chars().count() < 60, "a histogram's width is not a counter's: {out}");
    let narrow = perfring(&["metrics", path]).env("COLUMNS", "60").output().unwrap();
    let narrow = String::from_utf8(narrow.stdout).unwrap();
    assert!(narrow.lines().all(|line| line.trim_end().chars().count() <= 60), "{narrow}");
    assert!(narrow.lines().count() > out.lines().count(), "{narrow}");
}

#[test]
fn an_area_that_no_instrument_could_use_is_not_made() {
    let place = Place::new();
    let ring = place.path("one");
    let done = run(&["create", ring.to_str().unwrap(), "--metrics-size", "4K"], b"");
    assert!(done.code() == 2 && done.err().contains("add --producers many"), "{}", done.err());
    assert!(!ring.exists());
}

#[test]
fn histograms_with_other_buckets_are_not_added() {
    let place = Place::new();
    let ring = place.path("shop");
    let of = |scale| {
        let meter = Meter::open_or_create(&ring, &options(), Resource::here()).unwrap();
        let buckets = Buckets::new(scale, -4, 4).unwrap();
        let instrument = Instrument { buckets, ..Instrument::new("amount") };
        meter.histogram(&instrument).unwrap().record(1.0);
        meter
    };
    let _both = (of(1), of(2));
    let metrics = Observer::attach(&ring, Start::Latest).unwrap().metrics().unwrap();
    let kinds =
        metrics.samples.iter().filter(|sample| matches!(sample.metric, MetricKind::Histogram(_)));
    assert_eq!(kinds.count(), 2);
    let done = run(&["metrics", ring.to_str().unwrap(), "--json", "--sum"], b"");
    let lines = json_lines(&done.out());
    let scales: Vec<_> = named(&lines, "amount").iter().map(|line| line["scale"].clone()).collect();
    assert_eq!(scales, [json!(1), json!(2)]);
}

#[test]
fn stat_and_doctor_say_how_full_the_area_is_and_what_found_no_room() {
    let place = Place::new();
    let ring = place.path("shop");
    let path = ring.to_str().unwrap();
    // One page: the resource and some thirty instruments.
    let small = perfring_producer::Options { metrics_size: 4096, ..options() };
    let meter = Meter::open_or_create(&ring, &small, Resource::here()).unwrap();
    let names: Vec<String> = (0..40).map(|number| format!("instrument {number}")).collect();
    let made = |name: &String| meter.counter::<u64>(&Instrument::new(name)).is_ok();
    let fit = names.iter().filter(|name| made(name)).count();
    let refused = names.len() - fit;
    assert!(fit > 0 && refused > 0);

    let figures = &json_lines(&run(&["stat", path, "--json"], b"").out())[0];
    let figure = |name: &str| figures[name].as_u64().unwrap();
    assert_eq!(
        (figure("instrument_count"), figure("instruments_refused")),
        (fit as u64, refused as u64)
    );
    assert_eq!((figure("metrics_size"), figure("instruments_replaced")), (4096, 0));
    assert!(figure("metrics_used") > 4096 - 128 && figures["metrics_damaged"] == false);
    let line = format!(
        "{fit} instruments, {} bytes of 4 KiB used; {refused} instruments found no room",
        figure("metrics_used")
    );
    let stat = run(&["stat", path], b"").out();
    assert!(
        stat.lines().any(|shown| shown.starts_with("  metrics") && shown.ends_with(&line)),
        "{stat}"
    );
    let doctor = run(&["doctor", path], b"").out();
    assert!(doctor.contains(&line) && doctor.contains("--metrics-size"), "{doctor}");

    // A ring without an area has no such line, and adds nothing to a directory's.
    let plain = place.path("plain");
    drop(perfring_producer::Producer::create(&plain, &Default::default()).unwrap());
    let dir = place.path("");
    let dir = dir.to_str().unwrap();
    let all = run(&["stat", dir], b"").out();
    assert!(all.lines().any(|shown| shown == format!("  metrics      {line}")), "{all}");
    let sum = json_lines(&run(&["stat", dir, "--json"], b"").out()).pop().unwrap();
    assert_eq!((&sum["rings"], &sum["instruments_refused"]), (&2.into(), &refused.into()), "{sum}");
    let plain = plain.to_str().unwrap();
    let stat = run(&["stat", plain], b"").out();
    assert!(!stat.contains("metrics"), "{stat}");
    assert_eq!(json_lines(&run(&["stat", plain, "--json"], b"").out())[0]["metrics_size"], 0);
}

#[test]
fn a_damaged_area_is_named_by_every_command_and_what_precedes_the_damage_is_shown() {
    let place = Place::new();
    let ring = place.path("shop");
    let path = ring.to_str().unwrap();
    let meter = Meter::open_or_create(&ring, &options(), Resource::here()).unwrap();
    let made = |name| meter.counter::<u64>(&Instrument::new(name)).unwrap().add(7);
    made("first");
    let used = Observer::attach(&ring, Start::Latest).unwrap().metrics().unwrap().fill.used;
    made("second");
    let mut image = std::fs::read(&ring).unwrap();
    let area = u64::from_le_bytes(image[1328..1336].try_into().unwrap()) + used;
    // The second word of the second counter's block, its size.
    image[area as usize + 8..][..8].fill(0xFF);
    let copy = place.path("copy");
    std::fs::write(&copy, image).unwrap();
    let copy = copy.to_str().unwrap();

    assert_eq!(run(&["metrics", path], b"").code(), 0);
    let done = run(&["metrics", copy, "--json"], b"");
    assert_eq!(done.code(), 4, "{}", done.err());
    assert!(done.err().contains("what follows is not shown"), "{}", done.err());
    let summed = json_lines(&run(&["metrics", copy, "--json", "--sum"], b"").out());
    assert_eq!(summed[0]["complete"], false);
    let lines = json_lines(&done.out());
    assert_eq!((named(&lines, "first").len(), named(&lines, "second").len()), (1, 0));
    let figures = json_lines(&run(&["stat", copy, "--json"], b"").out());
    assert_eq!(
        (&figures[0]["metrics_damaged"], &figures[0]["instrument_count"]),
        (&json!(true), &json!(1))
    );
    let stat = run(&["stat", copy], b"").out();
    assert!(stat.contains("  metrics      1 instrument before the damage, "), "{stat}");
    let doctor = run(&["doctor", copy], b"");
    assert!(doctor.code() == 4 && doctor.out().contains("metrics"), "{}", doctor.out());
    let dumped = run(&["dump", path], b"").err();
    assert!(
        dumped.contains(&format!("`perfring metrics {path}` shows what 2 instruments measured")),
        "{dumped}"
    );
    assert!(doctor.out().contains("remove it and make it again"), "{}", doctor.out());
    let of_copy = run(&["dump", copy], b"").err();
    for said in [done.err(), doctor.out(), stat, of_copy] {
        assert!(said.contains("no block can have a size of 18446744073709551615 bytes"), "{said}");
    }
    // What a process would register behind the damage, no reader would see.
    let error = Meter::attach(Path::new(copy), Resource::here()).unwrap_err();
    assert!(matches!(error, MetricsError::Damaged { .. }), "{error}");
    assert!(
        error.to_string().starts_with(&format!("{copy}: the metrics area is damaged ")),
        "{error}"
    );
}

#[test]
fn a_sum_that_lacks_replaced_values_is_marked_in_every_output() {
    let place = Place::new();
    let ring = place.path("shop");
    let path = ring.to_str().unwrap();
    let small = perfring_producer::Options { metrics_size: 4096, ..options() };
    let one = || {
        let meter = Meter::open_or_create(&ring, &small, Resource::here()).unwrap();
        meter.counter::<u64>(&Instrument::new("orders")).unwrap().add(1);
    };
    one();
    let done = run(&["metrics", path, "--sum"], b"");
    assert!(done.out().ends_with("  1 process\n") && done.err().is_empty(), "{}", done.out());
    // More processes than the area has room for.
    (0..99).for_each(|_| one());
    let metrics = Observer::attach(&ring, Start::Latest).unwrap().metrics().unwrap();
    assert!(metrics.fill.replaced > 0 && metrics.fill.refused == 0);
    let done = run(&["metrics", path, "--sum"], b"");
    assert!(done.out().ends_with(" processes, perhaps not all\n"), "{}", done.out());
    assert!(done.err().contains("so sums do not include them"), "{}", done.err());
    let line = &json_lines(&run(&["metrics", path, "--sum", "--json"], b"").out())[0];
    assert!(line["complete"] == false && line["value"].as_u64().unwrap() < 100, "{line}");
    let doctor = run(&["doctor", path], b"").out();
    let warned = doctor.lines().any(|line| line.starts_with("  warn  metrics"));
    assert!(warned && doctor.contains("of ended processes replaced"), "{doctor}");
}
