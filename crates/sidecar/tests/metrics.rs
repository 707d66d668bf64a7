//! What instruments have measured is sampled, and passed on as records: to the last count of a process that was killed.

use crate::scripted::{DELAY, Reported, Scripted, until};
use perfring_consumer::{Location, Observer, Start};
use perfring_sidecar::config::{Config, Delivery, Input, InputSource};
use perfring_sidecar::{End, Engine, Note, Sidecar, Signals};
use perfring_telemetry::Resource;
use perfring_telemetry::meter::{Instrument, Meter, options};
use perfring_types::tagged::{Data, Values};
use std::path::Path;
use std::time::Duration;

const EACH: Duration = Duration::from_millis(1);

fn engine(output: &Scripted, path: &Path) -> Engine {
    let mut engine = Engine::new(DELAY).unwrap();
    engine.set_metrics_interval(EACH);
    engine.add_output("output", Delivery::Required, Default::default(), output.boxed()).unwrap();
    let location = Location::from(path.to_owned());
    let input = Input::new(InputSource::Ring(location.clone()));
    engine.attach(&location, &input, None, |_| None).unwrap();
    engine
}

/// Returns the sums that were passed on, in order, and how often a resource was.
fn sums(output: &Scripted) -> (Vec<u64>, usize) {
    let (mut sums, mut resources) = (Vec::new(), 0);
    for reported in output.reported() {
        let Reported::Record(ring, _, bytes) = reported else { continue };
        assert_eq!(ring, "ring.metrics");
        let values: Vec<_> = Values::new(&bytes).map(Result::unwrap).collect();
        match values.iter().find(|value| value.name == "value").map(|value| value.data) {
            Some(Data::U64(sum)) => sums.push(sum),
            None => resources += 1,
            other => panic!("{other:?}"),
        }
    }
    (sums, resources)
}

#[test]
fn a_sum_is_sampled_until_its_process_ends_and_once_after_that() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let meter = Meter::open_or_create(&path, &options(), Resource::here()).unwrap();
    let orders = meter.counter::<u64>(&Instrument::new("orders")).unwrap();
    orders.add(3);
    let output = Scripted::ready();
    let mut engine = engine(&output, &path);
    let has = |sum: u64| move |output: &Scripted| sums(output).0.contains(&sum);
    until(&mut engine, "the first sum", |_| has(3)(&output));
    orders.add(4);
    until(&mut engine, "the second sum", |_| has(7)(&output));
    orders.add(1);
    drop((orders, meter));
    until(&mut engine, "the last sum", |_| has(8)(&output));
    // Nothing changes any more: another process's values come, and these do not.
    let next = Meter::attach(&path, Resource::here()).unwrap();
    let next_orders = next.counter::<u64>(&Instrument::new("orders")).unwrap();
    next_orders.add(100);
    until(&mut engine, "the next process's", |_| has(100)(&output));
    let before = sums(&output).0.len();
    until(&mut engine, "some more of it", |_| sums(&output).0.len() > before + 20);
    let (all, resources) = sums(&output);
    let last = all.iter().rposition(|sum| *sum == 8).unwrap();
    assert!(
        all.iter().filter(|sum| **sum == 8).count() <= 2,
        "while it lived, and after it: {all:?}"
    );
    assert!(all[..last].is_sorted() && all[last + 1..].iter().all(|sum| *sum == 100), "{all:?}");
    assert_eq!(resources, 2, "each process's, once");

    // A ring that is removed ends with what it had.
    next_orders.add(1);
    std::fs::remove_file(&path).unwrap();
    drop((next_orders, next));
    let uuid = engine.rings().find(|ring| ring.origin.name == "ring").unwrap().origin.uuid;
    engine.file_removed(&uuid);
    let ended = |name: &str| output.reported().contains(&Reported::Ended(name.to_owned()));
    until(&mut engine, "both ended", |_| ended("ring") && ended("ring.metrics"));
    assert_eq!(sums(&output).0.last(), Some(&101));
}

#[test]
fn the_area_of_a_ring_of_an_input_with_a_name_has_that_name_before_its_own_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let _meter = Meter::open_or_create(&path, &options(), Resource::here()).unwrap();
    let mut engine = Engine::new(DELAY).unwrap();
    let location = Location::from(path);
    let mut input = Input::new(InputSource::Ring(location.clone()));
    input.name = Some("shop".to_owned());
    engine.attach(&location, &input, None, |_| None).unwrap();
    let mut names: Vec<_> = engine.rings().map(|ring| ring.origin.name.clone()).collect();
    names.sort();
    assert_eq!(names, ["shop/ring", "shop/ring.metrics"]);
}

#[test]
fn a_sidecar_that_ends_takes_the_last_sums() {
    let dir = tempfile::tempdir().unwrap();
    let (ring, lines) = (dir.path().join("ring"), dir.path().join("lines.jsonl"));
    let meter = Meter::open_or_create(&ring, &options(), Resource::here()).unwrap();
    let orders = meter.counter::<u64>(&Instrument::new("orders")).unwrap();
    orders.add(3);
    let mut config = Config::default();
    config.settings.metrics_interval = Duration::from_secs(3600);
    config.add_input(Input::new(InputSource::Ring(ring.into())));
    config.add_output(&format!("json:{}", lines.display())).unwrap();
    let signals = Signals::default();
    let has = |sum: u64| {
        let text = std::fs::read_to_string(&lines).unwrap_or_default();
        text.lines().any(|line| {
            line.contains(&format!("\"value\":{sum},"))
                || line.contains(&format!("\"value\":{sum}}}"))
        })
    };
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            perfring_testkit::wait::until("the first sum", || has(3));
            orders.add(4);
            signals.stop(15);
        });
        let mut sidecar = Sidecar::start(config).unwrap();
        sidecar.run(&signals, &mut || Ok(Config::default()), &mut |_| {})
    });
    assert!(matches!(ended, End::Signal(15)), "{ended:?}");
    assert!(has(7), "{:?}", std::fs::read_to_string(&lines));
}

#[test]
fn what_a_killed_process_has_measured_is_in_the_lines_of_the_next_sidecar() {
    let dir = tempfile::tempdir().unwrap();
    let (rings, lines) = (dir.path().join("rings"), dir.path().join("lines.jsonl"));
    std::fs::create_dir(&rings).unwrap();
    let resource = Resource::here().with("service.name", "shop");
    let meter = Meter::open_or_create(rings.join("shop"), &options(), resource).unwrap();
    let attributes = &[("by", "card".into())];
    let orders = Instrument { unit: "{order}", attributes, ..Instrument::new("orders") };
    meter.counter::<u64>(&orders).unwrap().add(17);
    meter.up_down_counter::<i64>(&Instrument::new("open")).unwrap().add(-2);
    meter.gauge::<f64>(&Instrument::new("load")).unwrap().set(0.5);
    meter.gauge::<f64>(&Instrument::new("never set")).unwrap();
    let latency = meter.histogram(&Instrument { unit: "s", ..Instrument::new("latency") }).unwrap();
    [0.25, 0.25, 3.0, 0.0, -1.0].into_iter().for_each(|value| latency.record(value));
    std::mem::forget((meter, latency)); // as if it had been killed
    let mut config = Config::default();
    config.add_input(Input::new(InputSource::Dir(rings)));
    config.add_output(&format!("json:{}", lines.display())).unwrap();
    let mut sidecar = Sidecar::start(config).unwrap().once();
    let ended = sidecar.run(&Signals::default(), &mut || Ok(Config::default()), &mut |_| {});
    assert!(matches!(ended, End::Drained), "{ended:?}");
    let text = std::fs::read_to_string(&lines).unwrap();
    let all: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let fields = |name: &str| {
        let found = all.iter().map(|line| &line["fields"]).find(|fields| fields["name"] == *name);
        found.unwrap_or_else(|| panic!("{name}: {text}"))
    };
    let orders = fields("orders");
    assert_eq!((&orders["value"], &orders["by"]), (&17.into(), &"card".into()), "{orders}");
    assert_eq!((&orders["is_monotonic"], &orders["unit"]), (&true.into(), &"{order}".into()));
    assert_eq!(orders["process.pid"], std::process::id());
    assert_eq!((&fields("open")["value"], &fields("load")["value"]), (&(-2).into(), &0.5.into()));
    assert!(!text.contains("never set"), "{text}");
    let latency = fields("latency");
    assert_eq!((&latency["count"], &latency["sum"]), (&4.into(), &3.5.into()), "{latency}");
    assert_eq!((&latency["min"], &latency["max"]), (&0.0.into(), &3.0.into()), "{latency}");
    assert_eq!((&latency["scale"], &latency["zero_count"]), (&3.into(), &1.into()), "{latency}");
    assert_eq!(latency["positive.offset"], -17, "{latency}");
    assert_eq!(latency["positive.bucket_counts"].as_array().unwrap().len(), 30, "{latency}");
    assert!(text.contains("shop") && text.lines().any(|line| line.contains("service.name")));
}

#[test]
fn an_area_that_is_damaged_or_has_no_room_is_said_once_each_and_not_for_each_instrument() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let small = perfring_producer::Options { metrics_size: 4096, ..options() };
    let meter = Meter::open_or_create(&path, &small, Resource::here()).unwrap();
    let add = |range: std::ops::Range<u32>| {
        let names = range.map(|number| format!("counter {number}"));
        names.map(|name| meter.counter::<u64>(&Instrument::new(&name)).map(|one| one.add(1)))
    };
    let has_room = add(0..10).all(|one| one.is_ok());
    assert!(has_room);
    let output = Scripted::ready();
    let mut engine = engine(&output, &path);
    let mut notes = Vec::new();
    let mut more = |engine: &mut Engine, what: &str| {
        let before = sums(&output).0.len();
        until(engine, what, |engine| {
            notes.extend(engine.notes());
            sums(&output).0.len() > before + 40
        });
        std::mem::take(&mut notes)
    };
    assert_eq!(more(&mut engine, "samples of a whole area"), []);
    // Others are refused while the area is looked at: one note.
    assert!(add(10..200).any(|one| one.is_err()));
    let said = more(&mut engine, "samples of a full one");
    let [Note::Trouble { ring, trouble }] = said.as_slice() else { panic!("{said:?}") };
    assert_eq!(ring, "ring.metrics");
    assert!(trouble.contains("found no room"), "{trouble}");
    assert!(add(200..300).all(|one| one.is_err()));
    assert_eq!(more(&mut engine, "samples after more refusals"), []);
    // The size of a block behind others.
    let observer = Observer::attach(&path, Start::Latest).unwrap();
    let at = observer.layout().areas().metrics.start + observer.metrics().unwrap().samples[5].at;
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[3], at + 8).unwrap();
    let said = more(&mut engine, "samples of a damaged one");
    let [Note::Trouble { trouble, .. }] = said.as_slice() else { panic!("{said:?}") };
    assert!(trouble.contains("damaged"), "{trouble}");
    assert_eq!(more(&mut engine, "samples after the damage"), []);
}
