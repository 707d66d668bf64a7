//! Logs, spans and metrics in the page.

use super::Page;
use super::browser::Browser;
use crate::command::Place;
use perfring_telemetry::{Log, Resource, Severity, Sink, options};
use serde_json::json;

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
