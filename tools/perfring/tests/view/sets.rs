//! Rings per CPU in the page.

use super::browser::Browser;
use super::{Page, row};
use crate::command::Place;
use perfring_producer::{CpuProducer, Options};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io::Write;

/// Two CPUs that this process may run on.
fn two_cpus() -> Option<[usize; 2]> {
    let allowed = sched_getaffinity(None).unwrap();
    let mut cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    let two = cpus.next().zip(cpus.next()).map(|(one, other)| [one, other]);
    if two.is_none() {
        let why = "one CPU makes no set of rings";
        assert!(std::env::var_os("PERFRING_NO_SKIP").is_none_or(|no| no.is_empty()), "{why}");
        let _ = writeln!(std::io::stderr().lock(), "SKIPPED: {why}");
    }
    two
}

/// Publishes so many records on a CPU, from a thread that may run on no other.
fn publish_on(producer: &CpuProducer, cpu: usize, records: usize) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut only = CpuSet::new();
            only.set(cpu);
            sched_setaffinity(None, &only).unwrap();
            (0..records).for_each(|nth| {
                producer.publish(format!("request {nth} on CPU {cpu}").as_bytes()).unwrap();
            });
        });
    });
}

/// The rows that are seen, each with its level, its name, its lag and whether it is open.
const ROWS: &str = "[...document.querySelectorAll('.row')].filter((row) => !row.hidden)
    .sort((a, b) => a.ariaRowIndex - b.ariaRowIndex)
    .map((row) => [row.ariaLevel, row.querySelector('.name span').textContent, row.querySelector('.c-lag').innerText, row.ariaExpanded ?? 'no set'].join(' '))
    .join(', ')";

#[test]
fn a_set_of_rings_per_cpu_is_one_row_that_opens_and_has_their_sum() {
    let Some(cpus) = two_cpus() else { return };
    let Some(browser) = Browser::start() else { return };
    let place = Place::new();
    let options = Options { size: 1 << 16, time: true, ..Options::per_cpu() };
    let [requests, others] = ["requests", "others"].map(|name| {
        let producer = CpuProducer::create(place.path(name), &options).unwrap();
        cpus.iter().for_each(|cpu| publish_on(&producer, *cpu, 1));
        producer
    });
    publish_on(&requests, cpus[0], 49);
    publish_on(&requests, cpus[1], 99);
    let page = Page::of(&[place.0.path()]);
    browser.size(1440, 620, 1);
    browser.open(&page.url);
    browser.until(&format!("{ROWS} === '1 others 2 false, 1 requests 150 false'"));
    let of =
        |part: &str| browser.js(&format!("{}.querySelector({part:?}).innerText", row("requests")));
    assert_eq!(of(".tag"), "2 CPUs");
    assert_eq!(of(".chip"), "no consumer");
    assert!(of(".c-who").as_str().unwrap().contains("→ nobody"), "one process, named once");
    assert!(!of(".c-who").as_str().unwrap().contains(','), "one process, named once");
    assert!(of(".fill + small").as_str().unwrap().ends_with("of 128 KiB"));

    // By keys: it opens, the rings are below it, and it closes from one of them.
    let open = format!(
        "1 others 2 false, 1 requests 150 true, 2 cpu{} 50 no set, 2 cpu{} 100 no set",
        cpus[0], cpus[1]
    );
    browser.keys("/\u{e015}\u{e015}\u{e014}");
    browser.until(&format!("{ROWS} === {open:?}"));
    browser.picture("set");
    browser.keys("\u{e015}\u{e015}\u{e012}\u{e012}");
    browser.until(&format!("{ROWS} === '1 others 2 false, 1 requests 150 false'"));
    // By the button.
    browser.js(&format!("{}.querySelector('.open').click()", row("requests")));
    browser.until(&format!("{ROWS} === {open:?}"));
    browser.js(&format!("{}.querySelector('.open').click()", row("requests")));

    // One of its rings is searched for: the set's row keeps the sum of all.
    browser.keys(&format!("/requests/cpu{}", cpus[1]));
    browser.until(&format!("{ROWS} === '1 requests 150 true, 2 cpu{} 100 no set'", cpus[1]));
    browser.until("document.getElementById('shown').innerText.startsWith('1 of 4 rings')");
    browser.js("document.getElementById('search').select()");
    browser.keys("\u{e017}");

    // What is known of the set, its records with the names of their rings, and its snapshot.
    browser.until(&format!("{}.click() || true", row("requests")));
    browser.until("document.getElementById('ring').innerText.includes('150 records')");
    browser.picture("set-selected");
    let act = |text: &str| {
        browser.js(&format!("[...document.querySelectorAll('#ring .acts button')].find((of) => of.textContent === {text:?}).click()"));
    };
    act("Records");
    browser.until("document.getElementById('counts').innerText.startsWith('150 of 150')");
    let named = format!(
        "[...new Set([...document.querySelectorAll('.rec')].map((rec) => rec.children[1].textContent))].sort().join() === 'requests/cpu{},requests/cpu{}'",
        cpus[0], cpus[1]
    );
    browser.until(&named);
    browser.keys("2");
    browser.until("document.getElementById('canvas').width > 300");
    browser.picture("set-timeline");
    browser.keys("1");
    act("Snapshot");
    browser.until("document.querySelector('.card p')?.innerText.startsWith('150 records')");

    // One ring of the set loses: the set does.
    browser.keys("1");
    publish_full(&requests, cpus[0]);
    browser
        .until(&format!("{}.querySelector('.c-lost').innerText.includes('full')", row("requests")));
    assert_eq!(browser.log(), "", "the console of the page");
    drop((requests, others));
    page.end();
}

/// Publishes on a CPU until its ring refuses.
fn publish_full(producer: &CpuProducer, cpu: usize) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut only = CpuSet::new();
            only.set(cpu);
            sched_setaffinity(None, &only).unwrap();
            while producer.publish(&[0; 1000]).is_ok() {}
        });
    });
}
