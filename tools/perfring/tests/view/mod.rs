//! The page of `perfring view`, in a browser.

mod access;
mod browser;
mod errors;
mod legible;
mod reach;
mod sets;
mod telemetry;

use crate::command::{Live, Place, perfring, run};
use browser::Browser;
use nix::sys::signal::Signal;
use perfring_producer::{Options, Policy, Producer};
use perfring_testkit::wait::WATCHDOG;
use perfring_types::{Encoding, Schema};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Changes of an element that becomes another ring's row, at most.
const CELLS: u64 = 40;
/// The memory of the page's process, at most, in MB.
const PAGE_MEMORY: f64 = 200.0;

/// The page's server.
struct Page {
    server: Live,
    url: String,
}

impl Page {
    fn of(paths: &[&Path]) -> Self {
        let paths: Vec<&str> = paths.iter().map(|path| path.to_str().unwrap()).collect();
        Self::by(perfring(&[&["view"], &paths[..]].concat()))
    }

    fn by(command: Command) -> Self {
        let mut server = Live::of(command);
        let url = server.line();
        assert!(url.starts_with("http://127.0.0.1:"), "{url}");
        Page { server, url }
    }

    /// Returns how much of a processor it has had.
    fn cpu(&self) -> Duration {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.server.child.id())).unwrap();
        let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        Duration::from_millis(ticks * 10) // 100 a second, on all of Linux
    }

    fn end(self) {
        self.server.signal(Signal::SIGTERM);
        let (out, err, code) = self.server.end();
        assert_eq!((out.as_str(), err.as_str(), code), ("", "", 0));
    }
}

/// The stream of a page: an update for each poll of its server.
pub(crate) struct Updates(BufReader<TcpStream>);

impl Updates {
    pub(crate) fn open(url: &str) -> Self {
        let (address, path) =
            url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(WATCHDOG)).unwrap();
        write!(stream, "GET /{path}api/events HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
        Updates(BufReader::new(stream))
    }

    /// Returns the rows of the next update: those that have changed.
    pub(crate) fn rows(&mut self) -> Vec<Value> {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "the stream has ended");
            let update =
                line.strip_prefix("data: ").map(|data| serde_json::from_str(data).unwrap());
            // What the stream begins with has no rows.
            if let Some(rows) = update.and_then(|update: Value| update["rows"].as_array().cloned())
            {
                return rows;
            }
        }
    }

    /// Reads what a poll finds that begins after this call. Returns the rows that have changed until then.
    fn next_poll(&mut self, place: &Place) -> Vec<Value> {
        // A poll lists the directory before it looks at a ring.
        let marker = Producer::create(place.path("marker"), &Options::default()).unwrap();
        let mut all = Vec::new();
        while all.iter().all(|row: &Value| row["name"] != "marker") {
            all.extend(self.rows());
        }
        drop(marker);
        all
    }
}

/// The row of a ring.
fn row(name: &str) -> String {
    format!(
        "[...document.querySelectorAll('.row')].find((row) => !row.hidden && row.querySelector('.name span').textContent === {name:?})"
    )
}

/// Ends a thread, also after a failure: it would be waited for.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn the_demo_is_shown_with_its_losses_its_death_its_records_and_a_snapshot() {
    let Some(browser) = Browser::start() else { return };
    let place = Place::new();
    // A picture shows the producer that is killed in the middle. Otherwise the demo must outlast the test.
    let time = if std::env::var_os("PERFRING_SCREENSHOTS").is_some() { "1m" } else { "1h" };
    let mut command = perfring(&["demo", "--view", "--for", time]);
    // A page would be opened in a browser, if there were one for people.
    command.env("TMPDIR", place.0.path()).env("PATH", place.0.path());
    let mut demo = Live::of(command);
    let url = loop {
        if let Some(url) = demo.line().strip_prefix("The page: ") {
            break url.to_owned();
        }
    };
    browser.size(1440, 620, 1);
    browser.open(&url);
    for name in ["metrics", "cpu", "io", "processes", "burst", "flight"] {
        browser.until(&format!("{}?.querySelector('.num').innerText.trim() > '0'", row(name)));
    }
    browser.until(&format!("{}.querySelector('.chip').textContent === 'losing'", row("burst")));
    let lost = format!("{}.querySelector('.c-lost').innerText.includes('full')", row("burst"));
    browser.until(&lost);

    // The records, by their types; a filter; an error where it is; the bytes.
    browser.keys("3");
    browser.until("document.querySelectorAll('#records .rec').length > 100");
    browser.js("document.getElementById('where').focus()");
    browser.keys("stamp.seq>=20 && cpu=0");
    browser.until(
        "document.querySelectorAll('#records .rec:not(.lost)').length > 3 &&
         [...document.querySelectorAll('#records .rec:not(.lost)')].every((rec) => rec.innerText.includes('cpu=0 '))",
    );
    browser.picture("records");
    browser.keys(" && oops");
    // While the keys come, what is there so far is wrong as well, elsewhere.
    browser.until(
        "document.getElementById('wrong').innerText.includes('is not a condition') &&
         document.querySelector('#wrong mark').textContent === 'oops'",
    );
    browser.js("document.getElementById('where').select()");
    browser.keys("nosuchfield=1");
    browser.until("document.querySelector('#wrong.soft mark')?.textContent === 'nosuchfield'");
    // Nothing is shown between the last key and the answer to what was typed: the answer would close it.
    browser.js(
        "((set) => { window.setTimeout = (of, ms) => (ms === 150 ? (window.typed = of, 0) : set(of, ms)); })(window.setTimeout)",
    );
    browser.js("document.getElementById('where').select()");
    browser.keys("\u{e017}");
    for _ in 0..3 {
        let now = browser.js("document.getElementById('sums').innerText");
        browser.until(&format!("document.getElementById('sums').innerText !== {now}"));
    }
    assert_eq!(browser.js("document.querySelectorAll('#records .rec:not(.lost)').length"), 0);
    browser.js("window.typed()");
    browser.until("document.querySelectorAll('#records .rec:not(.lost)').length > 3");

    // A ring at a closer look, and its snapshot, by keys alone.
    browser.js("document.activeElement.blur()");
    browser.keys("1/flight\u{e015}\u{e006}");
    browser.until("document.querySelector('#ring h2').innerText.startsWith('flight')");
    browser.until("document.querySelectorAll('#ring canvas').length === 2");
    browser.js("[...document.querySelectorAll('#ring .acts button')].find((of) => of.textContent === 'Snapshot').click()");
    browser.until("document.querySelector('.card h3')?.innerText.startsWith('flight')");
    for format in ["recording", "perfetto", "json"] {
        browser.js(&format!("document.querySelector('[data-format={format}]').click()"));
    }
    let at = |name: &str| browser.downloads.path().join(name);
    // The browser keeps the name by an empty file, until it renames the whole one to it.
    let is_whole = |name: &&str| at(name).metadata().is_ok_and(|file| file.len() > 0);
    perfring_testkit::wait::until("the downloads", || {
        ["flight.perfrec", "flight.pftrace", "flight.jsonl"].iter().all(is_whole)
    });
    let lines = fs::read_to_string(at("flight.jsonl")).unwrap().lines().count();
    let recording = at("flight.perfrec");
    let exported = run(&["export", recording.to_str().unwrap(), "--to", "json", "-q"], b"").out();
    assert!(lines > 1_000 && exported.lines().count() == lines, "{lines}");
    browser.picture("snapshots");
    browser.js("[...document.querySelectorAll('.card button')].find((of) => of.textContent === 'Records').click()");
    let counted = "document.getElementById('counts').innerText.replaceAll('\\u202f', '')";
    browser.until(&format!("{counted} === '{lines} of {lines} records'"));
    browser.until("document.querySelectorAll('#records .rec').length === 300");
    browser.js("document.querySelector('#records .rec:not(.lost)').click()");
    browser.until("/^0000  [0-9a-f]{2} /m.test(document.querySelector('.whole pre').textContent)");

    // The timeline: live, and a recording's, from density to single records.
    browser.keys("2");
    browser.until("document.getElementById('canvas').width > 300");
    browser.until("document.getElementById('around').innerText.includes('records lost')");
    browser.js("document.getElementById('canvas').focus()");
    browser.keys("++++");
    browser.until("/^\\d.*\\ss$/.test(document.querySelector('#view-timeline .bar p').innerText)");
    browser.picture("timeline");

    // Pictures of the first view; to be shown to people, when there is more to see.
    browser.keys("1");
    browser.js("document.getElementById('search').select()");
    browser.keys("\u{e017}");
    if std::env::var_os("PERFRING_SCREENSHOTS").is_some() {
        browser.until(&format!("{}.querySelector('.chip').textContent === 'dead'", row("flight")));
    }
    browser.until(&format!("{}.click() || true", row("burst")));
    browser.until("document.querySelector('#ring h2').innerText.startsWith('burst')");
    browser.js("document.activeElement.blur()");
    browser.picture("light");
    browser.keys("t");
    browser.picture("dark");
    browser.js("document.querySelector('#ring [aria-label=Close]')?.click()");
    browser.size(420, 800, 1);
    browser.until("document.documentElement.scrollWidth <= 420");
    browser.picture("narrow");
    browser.size(2200, 700, 1);
    browser.picture("wide");
    assert_eq!(browser.log(), "", "the console of the page");
    demo.signal(Signal::SIGINT);
    assert_eq!(demo.end().2, 130);
}

#[test]
fn a_producer_that_is_killed_is_dead_in_the_page_at_the_next_poll() {
    let Some(browser) = Browser::start() else { return };
    let place = Place::new();
    let ring = place.ring(&["--policy", "overwrite", "--time"]);
    let mut producer = perfring(&["publish", &ring]).stdin(Stdio::piped()).spawn().unwrap();
    let mut lines = producer.stdin.take().unwrap();
    let page = Page::of(&[place.0.path()]);
    browser.open(&page.url);
    writeln!(lines, "the last words").unwrap();
    browser.until(&format!("{}.querySelector('.who').innerText.includes('publish')", row("ring")));
    let dead = format!("{}.querySelector('.chip').textContent === 'dead'", row("ring"));
    assert_eq!(browser.js(&dead), false);
    let mut updates = Updates::open(&page.url);
    producer.kill().unwrap();
    producer.wait().unwrap();
    let rows = updates.next_poll(&place);
    let is_dead = |row: &Value| row["name"] == "ring" && row["producers"][0]["how"] == "dead";
    assert!(rows.iter().any(is_dead), "{rows:?}");
    browser.until(&dead);
    // The server goes, and comes again at another address: the page says so.
    page.end();
    browser.until("document.getElementById('link').dataset.state === 'lost'");
    browser.until("/^Not connected since \\d+:\\d+:\\d+: .* start it again/.test(document.querySelector('#cut:not([hidden])').innerText)");
    browser.picture("server-ended");
}

#[test]
fn the_users_directory_may_come_later_and_a_recording_alone_is_shown_first() {
    let Some(browser) = Browser::start() else { return };
    let place = Place::new();
    let mut command = perfring(&["view"]);
    command.env("XDG_RUNTIME_DIR", place.0.path());
    let page = Page::by(command);
    browser.open(&page.url);
    let empty = "document.querySelector('#empty:not([hidden])').innerText";
    browser.until(&format!(
        "{empty}.startsWith('There is no ring in {}/perfring yet')",
        place.0.path().display()
    ));
    fs::create_dir(place.path("perfring")).unwrap();
    let ring = place.path("perfring").join("late");
    let mut producer =
        Producer::create(&ring, &Options { time: true, ..Options::default() }).unwrap();
    producer.publish(b"the first").unwrap();
    browser.until(&row("late"));
    page.end();

    let recording = place.path("run.perfrec");
    let args = ["record", ring.to_str().unwrap(), "-o", recording.to_str().unwrap(), "-n", "1"];
    let recorded = run(&args, b"");
    assert_eq!(recorded.code(), 0, "{}", recorded.err());
    let page = Page::of(&[&recording]);
    browser.open(&page.url);
    browser.until("document.querySelector('#view-recordings:not([hidden]) .card h3')?.innerText.startsWith('run.perfrec')");
    browser.keys("1");
    browser.until(&format!("{empty}.startsWith('Only recordings were named')"));
    page.end();
}

#[test]
fn a_thousand_rings_are_some_dozen_elements() {
    let Some(browser) = Browser::start() else { return };
    let place = Place::new();
    let small = Options { size: 4096, ..Options::default() };
    let mut producers: Vec<Producer> = (0..1_000)
        .map(|nth| Producer::create(place.path(&format!("ring-{nth}")), &small).unwrap())
        .collect();
    let page = Page::of(&[place.0.path()]);
    browser.open(&page.url);
    browser.until("document.getElementById('shown').innerText.startsWith('1000 rings')");
    let mut updates = Updates::open(&page.url);
    producers.iter_mut().for_each(|producer| producer.publish(b"x").unwrap());
    let rows = updates.next_poll(&place);
    let changed = rows.iter().filter(|row| row["state"] == "no consumer");
    let changed: BTreeSet<_> = changed.map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(changed.len(), 1_000);
    browser.until("document.getElementById('shown').innerText.startsWith('1001 rings')");
    fs::remove_file(place.path("marker")).unwrap();
    browser
        .until(&format!("{}.querySelector('.chip').textContent === 'no consumer'", row("ring-7")));
    browser.until("document.getElementById('shown').innerText.startsWith('1000 rings')");
    let elements = browser.js("document.querySelectorAll('.row').length").as_u64().unwrap();
    assert!(elements < 60, "{elements} rows are elements");
    assert_eq!(browser.js("document.getElementById('table').ariaRowCount"), "1001");
    // Through all of them, frame by frame: the changes of a frame are counted, whatever a frame takes here.
    let scroll = "new Promise((done) => {
        const box = document.getElementById('scroll');
        let [last, longest, changes, most] = [performance.now(), 0, 0, 0];
        const observer = new MutationObserver((records) => changes += records.length);
        observer.observe(box, { subtree: true, childList: true, characterData: true });
        const step = () => {
            const now = performance.now();
            [longest, last] = [Math.max(longest, now - last), now];
            [most, changes] = [Math.max(most, changes), 0];
            box.scrollTop += 1500;
            if (box.scrollTop + box.clientHeight < box.scrollHeight - 2) return requestAnimationFrame(step);
            done([most, Math.round(longest)]);
        };
        requestAnimationFrame(step);
    })";
    let worst = browser.js(scroll);
    println!(
        "1000 rings: {elements} rows are elements; most changes of a frame, and its ms: {worst}"
    );
    let most = worst[0].as_u64().unwrap();
    assert!((1..60 * CELLS).contains(&most), "{worst}");
    browser.until(&row("ring-999"));
    browser.keys("/ring-99\u{e015}");
    browser.until("document.getElementById('shown').innerText.startsWith('11 of 1000')");
    let cpu = page.cpu();
    println!("1000 rings: the server has had {} ms of a processor", cpu.as_millis());
    page.end();
}

#[test]
fn text_of_a_hostile_ring_is_text() {
    let Some(browser) = Browser::start() else { return };
    let place = Place::new();
    let evil = "<script>window.hacked=1<\u{2044}script><img src=x onerror=hacked=1>";
    let file = evil.replace('/', "");
    let options = Options { time: true, policy: Policy::Overwrite, ..Options::default() };
    let mut producer = Producer::create(place.path(&file), &options).unwrap();
    let schema = Schema::new("<script>hacked=1</script>", Encoding::Json).with_hashed_id();
    producer.register(&schema).unwrap();
    for _ in 0..50 {
        let text =
            json!({ "<img src=x onerror=hacked=1>": "</td><script>hacked=1</script>\u{202e}" });
        producer.publish_as(schema.id, text.to_string().as_bytes()).unwrap();
    }
    drop(producer);
    let named = Producer::attach_as(place.path(&file), "<b onclick=hacked=1>").unwrap();
    let page = Page::of(&[place.0.path()]);
    browser.open(&page.url);
    browser.until(&format!("{}.click() || true", row(&file)));
    browser.until("document.querySelector('#ring h2').innerText.includes('<script>')");
    browser.until("document.querySelector('#ring').innerText.includes('<b onclick=hacked=1>')");
    browser.js("[...document.querySelectorAll('#ring .acts button')].find((of) => of.textContent === 'Snapshot').click()");
    browser.until("document.querySelector('.card h3')?.innerText.includes('<script>')");
    browser.keys("2");
    browser.until("document.getElementById('canvas').width > 300");
    browser.keys("3");
    browser.until(
        "document.querySelector('#records .rec')?.innerText.includes('<script>hacked=1</script>')",
    );
    browser.js("document.querySelector('#records .rec').click()");
    browser.until("document.querySelector('.whole')?.innerText.includes('onerror')");
    assert_eq!(browser.js("document.querySelectorAll('script').length"), 2, "the page's own");
    assert_eq!(
        browser.js("document.querySelectorAll('img, b[onclick], iframe, object').length"),
        0
    );
    assert_eq!(browser.js("typeof window.hacked"), "undefined");
    assert_eq!(browser.log(), "", "the console of the page");
    drop(named);
    page.end();
}

#[test]
fn a_flood_is_sampled_and_costs_the_server_and_the_page_little() {
    let Some(browser) = Browser::start() else { return };
    let place = Place::new();
    let options =
        Options { size: 8 << 20, time: true, policy: Policy::Overwrite, ..Options::default() };
    let mut producer = Producer::create(place.path("flood"), &options).unwrap();
    let time =
        Duration::from_secs(if std::env::var_os("PERFRING_LONG").is_some() { 30 } else { 4 });
    let page = Page::of(&[place.0.path()]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let end = End(&stop);
        let flood = scope.spawn(|| {
            // A million a second: a thousand each ms.
            let began = Instant::now();
            let mut written = 0u64;
            // Relaxed: nothing else is published with it.
            while !stop.load(Ordering::Relaxed) {
                let due = began.elapsed().as_micros() as u64;
                while written < due {
                    producer.publish(&[0; 48]).unwrap();
                    written += 1;
                }
                std::thread::park_timeout(Duration::from_millis(1));
            }
            (written, began.elapsed())
        });
        browser.open(&page.url);
        browser.until(&format!("{}.querySelector('.num').innerText.trim() > '0'", row("flood")));
        browser.keys("3");
        browser.until("document.getElementById('sampled').innerText.includes('A sample')");
        let (cpu, since) = (page.cpu(), Instant::now());
        browser.js(&format!("new Promise((done) => setTimeout(done, {}))", time.as_millis()));
        let core = (page.cpu() - cpu).as_secs_f64() / since.elapsed().as_secs_f64();
        let (own, part) = browser.memory();
        drop(end);
        let (written, took) = flood.join().unwrap();
        let rate = written as f64 / took.as_secs_f64() / 1e6;
        println!(
            "{rate:.2} million records/s for {:.1} s: the server has {:.1} % of a core, the page {own:.0} MB of its own, \
             {part:.0} MB with its part of what processes share",
            took.as_secs_f64(),
            core * 100.0
        );
        assert!(own < PAGE_MEMORY, "{own} MB");
        assert!(core < 0.1, "{core}");
    });
    page.end();
}
