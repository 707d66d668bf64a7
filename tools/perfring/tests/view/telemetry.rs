//! Logs, spans and metrics in the page.

use super::Page;
use super::browser::Browser;
use crate::command::Place;
use perfring_producer::{Options, Producer};
use perfring_telemetry::{
    Gauge, Histogram, Log, Resource, Severity, Sink, SpanEnd, SpanId, SpanStart, Status, Sum,
    TraceId, options,
};
use serde_json::json;

pub(super) const UP: &str = "\u{e013}";
const DOWN: &str = "\u{e015}";
pub(super) const ENTER: &str = "\u{e006}";
const RIGHT: &str = "\u{e014}";

/// A ring of telemetry of a service.
pub(super) fn sink(place: &Place, name: &'static str) -> Sink {
    let resource = Resource::here().with("service.name", name);
    Sink::create(place.path(name), &options(), resource).unwrap()
}

pub(super) fn log(sink: &Sink, severity: Severity, body: &str) {
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

/// Publishes a trace of two services: a root with two children, one of which failed, and a grandchild; a span without an
/// end, one without a start, and one whose parent is nowhere. Returns its id.
pub(super) fn trace(shop: &Sink, bank: &Sink) -> TraceId {
    let trace = TraceId([7; 16]);
    let id = |nth: u8| SpanId([nth; 8]);
    let start = |sink: &Sink, nth: u8, parent: Option<u8>, name: &str| {
        let attributes = [("http.route", "/orders".into())];
        let parent_span_id = parent.map(id);
        let attributes: &[_] = if nth == 1 { &attributes } else { &[] };
        let start =
            SpanStart { parent_span_id, attributes, ..SpanStart::new(trace, id(nth), name) };
        sink.emit(&start).unwrap();
    };
    let end = |sink: &Sink, nth: u8, parent: Option<u8>, name: &str, status| {
        let parent_span_id = parent.map(id);
        let end = SpanEnd { parent_span_id, status, ..SpanEnd::new(trace, id(nth), name) };
        sink.emit(&SpanEnd { duration_nano: (nth == 5).then_some(400_000), ..end }).unwrap();
    };
    start(shop, 1, None, "POST /orders");
    start(shop, 2, Some(1), "validate");
    end(shop, 2, Some(1), "validate", None);
    start(shop, 3, Some(1), "pay");
    start(bank, 4, Some(3), "charge");
    end(bank, 4, Some(3), "charge", Some((Status::Error, "card declined")));
    end(bank, 5, Some(4), "audit", None);
    start(bank, 6, Some(4), "notify");
    start(bank, 7, Some(99), "stray");
    end(bank, 7, Some(99), "stray", Some((Status::Ok, "")));
    end(shop, 3, Some(1), "pay", None);
    end(shop, 1, None, "POST /orders", None);
    trace
}

#[test]
fn the_spans_of_a_trace_are_a_waterfall_over_all_rings() {
    let Some(browser) = Browser::start() else { return };
    let place = Place::new();
    let (shop, bank) = (sink(&place, "shop"), sink(&place, "bank"));
    trace(&shop, &bank);
    let other = TraceId([9; 16]);
    shop.emit(&SpanStart::new(other, SpanId([1; 8]), "other")).unwrap();
    let page = Page::of(&[place.0.path()]);
    browser.open(&page.url);
    browser.size(1440, 800, 1);
    // The list of traces.
    browser.keys("5");
    browser.until("document.querySelectorAll('#traces .trace').length === 2");
    let spans = browser.js("[...document.querySelectorAll('#traces .trace')].map((row) => [...row.children].slice(1).map((of) => of.textContent.replace(/[\\d.]+\u{a0}.?s$/, 'time')).join('|')).sort()");
    assert_eq!(
        spans,
        json!([
            "POST /orders open so far|≥\u{a0}time|7 spans|1 error",
            "other open so far|–|1 span|"
        ])
    );
    browser.picture("traces-list");

    // From a record to its trace, by keys alone.
    browser.keys("3");
    browser.until("document.querySelectorAll('#records .rec').length === 15");
    browser.js("[...document.querySelectorAll('#records .rec')].find((rec) => rec.innerText.includes('charge')).focus()");
    browser.keys(ENTER);
    browser.until("document.querySelector('.whole .acts button')?.textContent === 'Trace'");
    browser.js("document.querySelector('.whole .acts button').click()");
    browser.until("document.querySelectorAll('#traces .span').length === 8");
    let rows = "[...document.querySelectorAll('#traces .span:not(.head)')].map((row) => [row.ariaLevel, ...[...row.querySelectorAll('.what > span')].map((of) => of.textContent.replace(/, pid \\d+/, ''))].join(' '))";
    let all = [
        "1 POST /orders shop",
        "2 validate shop",
        "2 pay shop",
        "3 charge error bank",
        "4 audit no start bank",
        "4 notify no end bank",
        "1 stray no parent bank",
    ];
    let seen = browser.js(rows);
    let mut seen: Vec<&str> =
        seen.as_array().unwrap().iter().map(|row| row.as_str().unwrap()).collect();
    // The span without a start began before the page's other children of its parent, or after.
    if seen[4].starts_with("4 notify") {
        seen.swap(4, 5);
    }
    seen.sort_by_key(|row| all.iter().position(|of| of == row));
    assert_eq!(seen, all);
    // Bars are where the spans were: a child is within its parent, and a span without an end goes to the end of the axis.
    let bar = |name: &str| {
        let of = format!(
            "[...document.querySelectorAll('#traces .span')].find((row) => row.querySelector('.what > span')?.textContent === {name:?}).querySelector('.track b').getBoundingClientRect()"
        );
        let of = browser.js(&format!("(({{ left, right }}) => [left, right])({of})"));
        (of[0].as_f64().unwrap(), of[1].as_f64().unwrap())
    };
    let (root, pay, charge, notify) =
        (bar("POST /orders"), bar("pay"), bar("charge"), bar("notify"));
    assert!(
        root.0 <= pay.0 && pay.0 <= charge.0 && charge.1 <= pay.1 + 2.0 && pay.1 <= root.1 + 2.0
    );
    assert!(notify.0 >= charge.0 && notify.1 >= root.1 - 2.0, "{notify:?} {root:?}");
    // Keys: a span closes and opens, and shows its attributes.
    browser.js("document.activeElement.blur()");
    browser.keys(DOWN);
    browser.keys("\u{e012}");
    browser.until("document.querySelectorAll('#traces .span:not(.head)').length === 2");
    assert_eq!(browser.js("document.activeElement.ariaExpanded"), "false", "the focus stays");
    browser.keys(RIGHT);
    browser.until("document.querySelectorAll('#traces .span:not(.head)').length === 7");
    browser.keys(ENTER);
    browser.until("document.querySelector('#traces .whole')?.innerText.includes('/orders')");
    browser.picture("trace-light");
    browser.keys("t");
    browser.picture("trace-dark");
    browser.size(420, 800, 1);
    browser.until("document.documentElement.scrollWidth <= 420");
    let lists =
        "((list) => list.scrollWidth <= list.clientWidth)(document.getElementById('traces'))";
    browser.until(&format!("{lists} && document.querySelectorAll('.axis span').length < 4"));
    browser.picture("trace-narrow");
    browser.size(1440, 800, 1);
    // What ends while it is looked at, and an id that is none.
    let end = SpanEnd {
        parent_span_id: Some(SpanId([4; 8])),
        ..SpanEnd::new(TraceId([7; 16]), SpanId([6; 8]), "notify")
    };
    bank.emit(&end).unwrap();
    browser.until("!document.getElementById('traces').innerText.includes('no end') && !document.getElementById('traced').innerText.includes('without an end')");
    browser.js("((id) => ((id.value = 'x1'), id.dispatchEvent(new Event('change'))))(document.getElementById('trace-id'))");
    browser.until("document.getElementById('traced').innerText === 'the id of a trace is 32 hexadecimal digits'");
    browser.js("document.activeElement.blur()");
    browser.keys("\u{e00c}");
    browser.until("document.querySelectorAll('#traces .trace').length === 2");
    assert_eq!(browser.log().lines().filter(|line| !line.contains("400 (Bad Request)")).count(), 0);
    page.end();
}

/// Publishes samples of a gauge, a sum and a histogram, of two routes.
pub(super) fn samples(sink: &Sink, nth: u32) {
    for (route, part) in [("/orders", 1u32), ("/items", 3)] {
        let attributes = &[("http.route", route.into())];
        let depth =
            Gauge { unit: "{job}", attributes, ..Gauge::new("queue.depth", part * 7 + nth) };
        sink.emit(&depth).unwrap();
        let requests = Sum::cumulative("requests", part * nth * 100);
        sink.emit(&Sum { unit: "{request}", attributes, ..requests }).unwrap();
        let time = f64::from(part) * 0.01 * if nth % 10 == 9 { 9.0 } else { 1.0 };
        let took =
            Histogram { unit: "s", attributes, ..Histogram::one("http.server.duration", time) };
        sink.emit(&took).unwrap();
    }
}

#[test]
fn the_series_of_a_metric_are_a_chart() {
    let Some(browser) = Browser::start() else { return };
    let place = Place::new();
    let (shop, bank) = (sink(&place, "shop"), sink(&place, "bank"));
    let page = Page::of(&[place.0.path()]);
    browser.open(&page.url);
    browser.size(1440, 900, 1);
    browser.keys("6");
    browser.until("document.getElementById('series')?.innerText.startsWith('No metric so far')");
    let choose = |metric: &str| {
        browser.until(&format!(
            "[...document.getElementById('metric').options].some((of) => of.value === {metric:?})"
        ));
        browser.js(&format!("((metric) => ((metric.value = {metric:?}), metric.dispatchEvent(new Event('change')), null))(document.getElementById('metric'))"));
    };
    // The page shows each sample before the next one comes, so that there are rates.
    for nth in 0..10 {
        samples(&shop, nth);
        if nth == 0 {
            choose(r#"["queue.depth","{job}","gauge"]"#);
        }
        let shown = format!("{}\u{a0}job", 7 + nth);
        browser.until(&format!("document.getElementById('series').innerText.includes({shown:?})"));
    }
    samples(&bank, 5);
    let rows = "[...document.querySelectorAll('#series tbody tr')].map((row) => [...row.cells].map((of) => of.textContent.replaceAll('\u{a0}', ' ')).join('|'))";
    browser.until("document.querySelectorAll('#series tbody tr').length === 4");
    let gauges = [
        "bank http.route=/items|26 job|26 job|26 job",
        "bank http.route=/orders|12 job|12 job|12 job",
        "shop http.route=/items|30 job|21 job|30 job",
        "shop http.route=/orders|16 job|7 job|16 job",
    ];
    assert_eq!(browser.js(&format!("{rows}.sort()")), json!(gauges));
    browser.picture("metric-gauge");

    // A sum: its value, and its rate; by a condition on attributes, and of a ring.
    choose(r#"["requests","{request}","sum"]"#);
    browser.until(&format!("{rows}.length === 4 && {rows}.some((row) => /request\\/s/.test(row))"));
    browser.picture("metric-rate");
    browser.keys("r");
    browser.until(&format!(
        "{rows}.includes('shop http.route=/items|2.70k request|0 request|2.70k request')"
    ));
    browser.js("((where) => ((where.value = 'http.route=/orders'), where.dispatchEvent(new Event('change')), null))(document.getElementById('series-where'))");
    browser.until(&format!("{rows}.length === 2"));
    browser.js("((ring) => ((ring.value = [...ring.options].find((of) => of.text === 'shop').value), ring.dispatchEvent(new Event('change')), null))(document.querySelector('#view-metrics select[aria-label=Ring]'))");
    browser.until(&format!("JSON.stringify({rows}) === JSON.stringify(['shop http.route=/orders|900 request|0 request|900 request'])"));
    browser.js("((where) => ((where.value = 'oops'), where.dispatchEvent(new Event('change')), null))(document.getElementById('series-where'))");
    browser.until("document.querySelector('#series-wrong:not([hidden])')?.innerText.includes('is not a condition')");
    browser.js("((where) => ((where.value = ''), where.dispatchEvent(new Event('change')), null))(document.getElementById('series-where'))");

    // Single measurements: of ten, nine took 10 ms and one 90.
    choose(r#"["http.server.duration","s","histogram"]"#);
    browser.until(&format!("{rows}.length === 4 && document.getElementById('rate').hidden"));
    let most = browser
        .js(&format!("{rows}.map((row) => [row.split('|')[0], row.split('|')[3]].join('|'))"));
    let of = |name: &str| {
        most.as_array()
            .unwrap()
            .iter()
            .filter_map(|row| row.as_str().unwrap().strip_prefix(name))
            .collect::<Vec<_>>()
            .concat()
    };
    assert_eq!(of("p99 shop http.route=/orders|"), "90 ms");
    assert_eq!(of("p99 shop http.route=/items|"), "270 ms");
    browser.picture("metric-light");
    browser.keys("t");
    browser.picture("metric-dark");
    // The span of time, and losses on its axis.
    let counts = "document.getElementById('charted').innerText";
    browser.keys("+");
    browser.until(&format!("{counts}.startsWith('2.5\u{a0}min')"));
    let mut full = Producer::create(
        place.path("full"),
        &Options { size: 4096, time: true, ..Options::default() },
    )
    .unwrap();
    while full.publish(&[0; 100]).is_ok() {}
    browser.js("((ring) => ((ring.value = 'all'), ring.dispatchEvent(new Event('change')), null))(document.querySelector('#view-metrics select[aria-label=Ring]'))");
    browser.until(&format!("{counts}.includes('1 record lost')"));
    browser.until("document.getElementById('chart').ariaLabel.includes('1 record lost')");
    browser.picture("metric-losses");
    browser.size(420, 800, 1);
    browser.until("document.documentElement.scrollWidth <= 420");
    browser.picture("metric-narrow");
    browser.size(1440, 900, 1);
    // From a record to its metric.
    browser.keys("3");
    browser.until("document.querySelectorAll('#records .rec').length > 20");
    browser.js("[...document.querySelectorAll('#records .rec')].find((rec) => rec.innerText.includes('queue.depth')).click()");
    browser.until("document.querySelector('.whole .acts button')?.textContent === 'Chart'");
    browser.js("document.querySelector('.whole .acts button').click()");
    browser.until(&format!("{rows}.length === 4 && {rows}[0].includes('job')"));
    // Far back there is nothing.
    (0..4).for_each(|_| browser.keys("\u{e012}"));
    browser.until(
        "document.getElementById('series').innerText.startsWith('No sample of queue.depth')",
    );
    browser.keys("l");
    browser.until(&format!("{rows}.length === 4"));
    assert_eq!(browser.log(), "", "the console of the page");
    page.end();
}
