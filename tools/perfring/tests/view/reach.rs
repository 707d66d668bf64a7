//! What is chosen is in view, and the field of a view is one key away.

use super::Page;
use super::browser::Browser;
use super::telemetry::{ENTER, UP, log, sink};
use crate::command::Place;
use perfring_telemetry::{Severity, SpanEnd, SpanId, SpanStart, TraceId};
use serde_json::json;

const ESCAPE: &str = "\u{e00c}";

/// Whether all of the elements are within what a list shows.
fn within(list: &str, elements: &str) -> String {
    format!(
        "((of) => [...document.querySelectorAll({elements:?})].map((one) => one.getBoundingClientRect()).every((one) => one.top >= of.top - 1 && one.bottom <= of.bottom + 1))(document.getElementById({list:?}).getBoundingClientRect())"
    )
}

#[test]
fn an_opened_row_and_its_details_are_in_view() {
    let Some(browser) = Browser::start() else { return };
    let place = Place::new();
    let shop = sink(&place, "shop");
    let trace = TraceId([5; 16]);
    for nth in 1..=60u8 {
        log(&shop, Severity::Info, &format!("order {nth}"));
        shop.emit(&SpanEnd {
            duration_nano: Some(1000),
            ..SpanEnd::new(trace, SpanId([nth; 8]), "step")
        })
        .unwrap();
    }
    let page = Page::of(&[place.0.path()]);
    browser.open(&page.url);
    for (width, height) in [(1280, 800), (420, 800)] {
        browser.size(width, height, 1);
        browser.keys("3");
        browser.until("document.querySelectorAll('#records .rec').length > 120");
        let list = "document.getElementById('records').getBoundingClientRect()";
        let top = browser.js(&format!("{list}.top"));
        browser.js("document.activeElement.blur()");
        browser.keys(UP);
        browser.keys(ENTER);
        browser.until("document.querySelector('.whole pre')");
        browser.until("document.getElementById('counts').innerText.includes('held')");
        browser.picture(&format!("record-opened-{width}"));
        assert_eq!(browser.js(&format!("{list}.top")), top, "no additional line: {width}");
        let row = within("records", "#records .rec[aria-expanded=true]");
        assert_eq!(browser.js(&row), true, "{width}");
        let fields = within("records", "#records .whole table");
        assert_eq!(browser.js(&fields), true, "{width}");
        browser.keys(ENTER);
        browser.until("!document.querySelector('#records .whole')");

        // The attributes of the last span of a trace.
        browser.keys("5");
        browser.until("document.querySelectorAll('#traces .trace').length === 1");
        browser.js("document.querySelector('#traces .trace').click()");
        browser.until("document.querySelectorAll('#traces .span').length === 61");
        browser.keys("\u{e010}");
        browser.keys(ENTER);
        browser.until("document.querySelector('#traces .whole')");
        browser.picture(&format!("span-opened-{width}"));
        let both = within("traces", "#traces .span[aria-selected=true], #traces .whole");
        assert_eq!(browser.js(&both), true, "{width}");
        // Further up, the head of the list covers none of the row.
        browser.keys("\u{e011}");
        browser.js("document.activeElement.blur()");
        browser.keys(ESCAPE);
        browser.until("document.querySelectorAll('#traces .trace').length === 1");
    }
    assert_eq!(browser.log(), "", "the console of the page");
    page.end();
}

/// On a slow machine a record is opened before the view that is shown again has its first answer.
#[test]
fn a_late_answer_does_not_close_what_is_open() {
    let Some(browser) = Browser::start() else { return };
    let place = Place::new();
    log(&sink(&place, "shop"), Severity::Info, "ready");
    let page = Page::of(&[place.0.path()]);
    browser.open(&page.url);
    browser.keys("3");
    browser.until("document.querySelectorAll('#records .rec').length === 2");
    browser.keys("1");
    browser.until("document.getElementById('view-records').hidden");
    browser.js(
        "((ask, held) => {
            window.fetch = async (url, ...more) => (url.startsWith('api/records') && (await held), ask(url, ...more));
        })(window.fetch, new Promise((go) => (window.go = go)))",
    );
    browser.keys("3");
    browser.until("!document.getElementById('view-records').hidden");
    browser.keys(UP);
    browser.keys(ENTER);
    browser.until("document.querySelector('#records .whole pre')");
    browser.js("window.go()");
    browser.until("document.getElementById('counts').innerText.includes('held')");
    assert_eq!(browser.js("!document.querySelector('#records .whole pre')"), false);
    page.end();
}

#[test]
fn no_time_is_shown_before_the_page_knows_its_clock() {
    let Some(browser) = Browser::start() else { return };
    let place = Place::new();
    log(&sink(&place, "shop"), Severity::Info, "ready");
    let page = Page::of(&[place.0.path()]);
    // The stream's first event, which says when the page's time begins, comes late.
    let late = "window.asked = [];
        const ask = window.fetch;
        window.fetch = (url, ...more) => (window.asked.push(url), ask(url, ...more));
        window.EventSource = class extends EventSource {
            addEventListener(name, call) {
                super.addEventListener(name, (event) => (window.begin = () => call(event)));
            }
        };";
    browser.cdp("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": late }));
    browser.open(&page.url);
    browser.until("window.begin");
    browser.keys("3");
    browser.until("!document.getElementById('view-records').hidden");
    let asked = "window.asked.some((url) => url.startsWith('api/records'))";
    assert_eq!(browser.js(asked), false, "a time of it would be shown wrong");
    browser.js("window.begin()");
    browser.until("document.querySelectorAll('#records .rec').length === 2");
    page.end();
}

#[test]
fn a_slash_goes_to_the_field_of_the_view_and_escape_leaves_it() {
    let Some(browser) = Browser::start() else { return };
    let place = Place::new();
    let shop = sink(&place, "shop");
    log(&shop, Severity::Info, "ready");
    let page = Page::of(&[place.0.path()]);
    browser.open(&page.url);
    browser.until("document.querySelectorAll('.row:not([hidden])').length === 1");
    let fields = [
        ("1", "rings", "search"),
        ("3", "records", "where"),
        ("5", "traces", "trace-id"),
        ("6", "metrics", "series-where"),
    ];
    for (key, view, field) in fields {
        browser.keys(key);
        browser.until(&format!("!document.getElementById('view-{view}').hidden"));
        browser.keys("/");
        let focus = "document.activeElement.id";
        assert_eq!(browser.js(focus), field, "{view}");
        assert_eq!(browser.js(&format!("document.getElementById('view-{view}').hidden")), false);
        browser.keys("12");
        assert_eq!(browser.js("document.activeElement.value"), "12", "{view}");
        browser.keys(ESCAPE);
        assert_eq!(browser.js("document.activeElement === document.body"), true, "{view}");
        // Of the digits of an id nothing is opened.
        if view == "traces" {
            assert_eq!(browser.js(&format!("document.getElementById({field:?}).value")), "");
        }
    }
    // A view without a field: the rings are searched.
    browser.keys("2/");
    assert_eq!(browser.js("document.activeElement.id"), "search");
    browser.keys(ESCAPE);
    browser.keys("3");
    browser.until("!document.getElementById('view-records').hidden");
    page.end();
}

#[test]
fn a_trace_in_flight_is_open_so_far() {
    let Some(browser) = Browser::start() else { return };
    let place = Place::new();
    let shop = sink(&place, "shop");
    let (done, flight) = (TraceId([1; 16]), TraceId([2; 16]));
    let span = |trace, nth: u8, parent: Option<u8>, name| {
        let parent_span_id = parent.map(|of| SpanId([of; 8]));
        let start = SpanStart { parent_span_id, ..SpanStart::new(trace, SpanId([nth; 8]), name) };
        shop.emit(&start).unwrap();
    };
    let end = |trace, nth: u8, name| {
        let end = SpanEnd::new(trace, SpanId([nth; 8]), name);
        shop.emit(&SpanEnd { duration_nano: Some(40_000), ..end }).unwrap();
    };
    span(done, 1, None, "done");
    end(done, 1, "done");
    span(flight, 1, None, "flight");
    span(flight, 2, Some(1), "child");
    end(flight, 2, "child");
    let page = Page::of(&[place.0.path()]);
    browser.open(&page.url);
    browser.size(420, 800, 1);
    browser.keys("5");
    browser.until("document.querySelectorAll('#traces .trace').length === 2");
    let row = |name: &str| {
        format!(
            "[...document.querySelectorAll('#traces .trace')].find((row) => row.children[1].textContent.startsWith({name:?}))"
        )
    };
    browser.picture("traces-open-narrow");
    let open = |name: &str| format!("{}.innerText.includes('open so far')", row(name));
    assert_eq!(browser.js(&open("flight")), true);
    assert_eq!(browser.js(&open("done")), false);
    // How long it has taken so far is a least time. That of an ended trace is exact.
    let took = |name: &str| browser.js(&format!("{}.children[2].textContent[0]", row(name)));
    assert_eq!((took("flight"), took("done") == "≥"), (json!("≥"), false));
    // When it has ended, it is listed as such.
    end(flight, 1, "flight");
    browser.until(&format!("{} && !{}", row("flight"), open("flight")));
    assert_eq!(browser.log(), "", "the console of the page");
    page.end();
}

/// A page whose clock stands still but for `took`, ms, at each question about traces or metrics; `delays` has what
/// timers are set to.
const CLOCK: &str = "{
    let at = 0;
    performance.now = () => at;
    window.took = 0;
    window.delays = [];
    const [timer, ask] = [setTimeout, fetch];
    window.setTimeout = (call, delay, ...rest) => (delays.push(delay), timer(call, delay, ...rest));
    window.fetch = async (path, ...rest) => {
        const answer = await ask(path, ...rest);
        if (/^api.(traces|metrics)/.test(path)) at += took;
        return answer;
    };
}";

#[test]
fn after_a_question_that_took_long_the_next_one_waits() {
    let Some(browser) = Browser::start() else { return };
    let place = Place::new();
    log(&sink(&place, "shop"), Severity::Info, "ready");
    let page = Page::of(&[place.0.path()]);
    browser.cdp("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": CLOCK }));
    browser.open(&page.url);
    for (view, least) in [("5", 2_000), ("6", 1_000)] {
        for (took, between) in [(0, least), (3_000, 20 * 3_000)] {
            browser.js(&format!("[took = {took}, delays.length = 0]"));
            browser.keys(view);
            let polls = "delays.filter((delay) => delay >= 1000)";
            browser.until(&format!("{polls}.length"));
            assert_eq!(browser.js(&format!("{polls}.at(-1)")), between, "view {view}");
        }
        browser.keys("1");
    }
    assert_eq!(browser.log(), "", "the console of the page");
    page.end();
}
