//! Logs, spans and metrics in the page.

use super::Page;
use super::browser::Browser;
use crate::command::Place;
use perfring_telemetry::{Log, Resource, Severity, Sink, options};
use serde_json::json;

const UP: &str = "\u{e013}";
const DOWN: &str = "\u{e015}";
const ENTER: &str = "\u{e006}";
const RIGHT: &str = "\u{e014}";

/// A ring of telemetry of a service.
fn sink(place: &Place, name: &'static str) -> Sink {
    let resource = Resource::here().with("service.name", name);
    Sink::create(place.path(name), &options(), resource).unwrap()
}

fn log(sink: &Sink, severity: Severity, body: &str) {
    let attributes = [("mount", "/var".into()), ("left", 12u64.into()), ("body", "own".into())];
    let body = body.into();
    sink.emit(&Log { severity: Some(severity), body, attributes: &attributes, ..Log::default() })
        .unwrap();
}

#[test]
fn severity_message_and_attributes_of_a_log_come_first() {
    let Some(browser) = Browser::start() else { return };
    let place = Place::new();
    let shop = sink(&place, "shop");
    log(&shop, Severity::Info, "ready");
    log(&shop, Severity::Warn, "disk is nearly full");
    log(&shop, Severity::Error, "cannot write: no space left on device");
    let page = Page::of(&[place.0.path()]);
    browser.open(&page.url);
    browser.keys("3");
    browser.until("document.querySelectorAll('#records .rec').length === 4");
    let line = browser.js(
        "[...document.querySelectorAll('#records .rec')].slice(1).map((rec) => rec.children[3].textContent.split(' process.pid')[0])",
    );
    let attributes = "mount=/var left=12 attributes.body=own";
    let expected = [
        format!("INFO ready {attributes}"),
        format!("WARN disk is nearly full {attributes}"),
        format!("ERROR cannot write: no space left on device {attributes}"),
    ];
    assert_eq!(line, json!(expected));
    let tones = "[...document.querySelectorAll('#records .level')].map((of) => of.className)";
    assert_eq!(browser.js(tones), json!(["level dim", "level warn", "level bad"]));
    browser.js("document.querySelectorAll('#records .rec')[2].click()");
    browser.until("document.querySelector('.whole td')");
    let names =
        "[...document.querySelectorAll('.whole tr')].map((row) => row.cells[0].textContent)";
    let first = browser.js(&format!("{names}.slice(0, 6)"));
    let fields = ["severity_text", "severity_number", "body", "mount", "left", "attributes.body"];
    assert_eq!(first, json!(fields));
    browser.picture("logs-light");
    browser.keys("t");
    browser.picture("logs-dark");
    browser.size(420, 800, 1);
    browser.until("document.documentElement.scrollWidth <= 420");
    browser.picture("logs-narrow");
    assert_eq!(browser.log(), "", "the console of the page");
    page.end();
}

#[test]
fn keys_work_wherever_the_focus_is() {
    let Some(browser) = Browser::start() else { return };
    let place = Place::new();
    let (shop, bank) = (sink(&place, "shop"), sink(&place, "bank"));
    (0..9).for_each(|nth| log(&shop, Severity::Info, &format!("order {nth}")));
    log(&bank, Severity::Info, "ready");
    let page = Page::of(&[place.0.path()]);
    browser.open(&page.url);
    browser.until("document.querySelectorAll('.row:not([hidden])').length === 2");
    let nothing = "document.activeElement === document.body";
    assert_eq!(browser.js(nothing), true);

    // The table: the first key goes to a row.
    browser.keys(DOWN);
    browser.until("document.activeElement.matches('.row') && document.activeElement.innerText.startsWith('bank')");
    browser.keys(DOWN);
    browser.keys(ENTER);
    browser.until("document.querySelector('#ring h2')?.innerText.startsWith('shop')");
    // In the panel beside it, too; and Escape closes it.
    browser.js("document.querySelector('#ring [aria-label=Close]').focus()");
    browser.keys("\u{e00c}");
    browser.until("document.getElementById('ring').hidden");

    // The timeline.
    browser.js("document.activeElement.blur()");
    browser.keys("2");
    browser.until("document.getElementById('canvas').width > 300");
    let span = "document.getElementById('span').innerText";
    let follows = "document.getElementById('follow').ariaPressed";
    assert_eq!(browser.js(nothing), true);
    let before = browser.js(span);
    browser.keys("+");
    browser.until(&format!("{span} !== {before}"));
    browser.keys("-");
    browser.until(&format!("{span} === {before}"));
    assert_eq!(browser.js(follows), "true");
    browser.keys(RIGHT);
    browser.until(&format!("{follows} === 'false'"));
    browser.keys("l");
    browser.until(&format!("{follows} === 'true'"));
    // With the focus on a button; one press of a key is one step.
    browser.js("document.querySelector('#view-timeline .bar button').focus()");
    browser.keys("f");
    browser.until(&format!("{span}.startsWith('5')"));
    browser.js("document.getElementById('canvas').focus()");
    browser.keys("+");
    browser.until(&format!("{span}.startsWith('3.13')"));
    // Keys of a field are the field's; and arrows between views are those of the views.
    browser.js("document.getElementById('source').focus()");
    browser.keys("+");
    browser.js("document.getElementById('tab-timeline').focus()");
    browser.keys(RIGHT);
    browser.until("!document.getElementById('view-records').hidden");
    browser.keys("2");
    assert_eq!(browser.js(&format!("[{span}.slice(0, 4), {follows}]")), json!(["3.13", "true"]));

    // The records.
    browser.js("document.activeElement.blur()");
    browser.keys("3");
    browser.until("document.querySelectorAll('#records .rec').length === 12");
    browser.keys(UP);
    let at = "[...document.querySelectorAll('#records .rec')].indexOf(document.activeElement)";
    browser.until(&format!("{at} === 11"));
    browser.keys(UP);
    browser.until(&format!("{at} === 10"));
    browser.keys(ENTER);
    browser.until("document.querySelector('.whole td')");
    browser.js("document.getElementById('where').focus()");
    browser.keys(UP);
    assert_eq!(browser.js("document.activeElement.id"), "where");
    assert_eq!(browser.log(), "", "the console of the page");
    page.end();
}
