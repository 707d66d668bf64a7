//! What the page shows can be read: nothing is cut off, said twice, or written in two ways.

use super::browser::Browser;
use super::telemetry::{log, sink, trace};
use super::{Page, row};
use crate::command::{Place, perfring};
use perfring_telemetry::{Severity, Sum};
use serde_json::json;
use std::io::Write;
use std::process::Stdio;
use std::sync::mpsc;

const ESCAPE: &str = "\u{e00c}";

#[test]
fn a_narrow_page_shows_whole_times_and_the_end_of_the_axis() {
    let Some(browser) = Browser::start() else { return };
    let place = Place::new();
    let (shop, bank) = (sink(&place, "shop"), sink(&place, "bank"));
    trace(&shop, &bank);
    let page = Page::of(&[place.0.path()]);
    browser.open(&page.url);
    browser.size(420, 800, 1);
    browser.keys("5");
    browser.until("document.querySelectorAll('#traces .trace').length === 1");
    // No duration is longer than this one.
    browser.js("((takes) => (takes.textContent = '≥\u{a0}1.25\u{a0}min'))(document.querySelector('#traces .trace').children[2])");
    browser.picture("traces-narrow");
    let whole = "[...document.querySelectorAll('#traces .trace > :not(.name)')].every((of) => of.scrollWidth <= of.clientWidth)";
    assert_eq!(browser.js(whole), true, "a time is cut off");
    let marks = "(() => { const axis = document.querySelector('.axis').getBoundingClientRect(); return [...document.querySelectorAll('.axis span:not([hidden])')].map((of) => [of.getBoundingClientRect(), of.textContent]).filter(([{ left, right }]) => left >= axis.left - 1 && right <= axis.right + 1).map(([{ left, right }, text]) => [left, right, text]).sort(([a], [b]) => a - b); })()";
    for (width, least) in [(420, 2), (1280, 4)] {
        browser.size(width, 800, 1);
        browser.js("document.activeElement.blur()");
        browser.keys(ESCAPE);
        browser.until("document.querySelectorAll('#traces .trace').length === 1");
        browser.js("document.querySelector('#traces .trace').click()");
        browser.until("document.querySelectorAll('#traces .span').length === 8");
        browser.picture(&format!("axis-{width}"));
        let marks = browser.js(marks);
        let marks = marks.as_array().unwrap();
        assert!(marks.len() >= least && marks[0][2] == "0", "{width}: {marks:?}");
        for pair in marks.windows(2) {
            assert!(pair[0][1].as_f64() <= pair[1][0].as_f64(), "{width}: {marks:?} overlap");
        }
        let counts = browser.js("document.getElementById('traced').innerText");
        let end = marks.last().unwrap()[2].as_str().unwrap();
        assert!(counts.as_str().unwrap().contains(&format!("{end} from")), "{counts} {end}");
    }
    page.end();
}

#[test]
fn a_newline_in_a_message_is_written_as_in_the_details() {
    let Some(browser) = Browser::start() else { return };
    let place = Place::new();
    let shop = sink(&place, "shop");
    log(&shop, Severity::Error, "first\nsecond\r\u{1b}[31m");
    let page = Page::of(&[place.0.path()]);
    browser.open(&page.url);
    browser.keys("3");
    browser.until("document.querySelectorAll('#records .rec').length === 2");
    let line = "document.querySelectorAll('#records .rec')[1]";
    let message = browser.js(&format!("{line}.children[3].children[1].textContent"));
    browser.js(&format!("{line}.click()"));
    browser.until("document.querySelector('.whole td')");
    let body = browser.js(
        "[...document.querySelectorAll('.whole tr')].find((row) => row.cells[0].textContent === 'body').cells[1].textContent",
    );
    browser.picture("newline");
    assert_eq!(message, r"first\nsecond\r\u{1b}[31m");
    assert_eq!(body, format!("\"{}\"", message.as_str().unwrap()));
    page.end();
}

#[test]
fn a_narrow_page_cuts_off_neither_names_nor_messages() {
    let Some(browser) = Browser::start() else { return };
    let place = Place::new();
    let shop = sink(&place, "shop");
    for value in [1200u32, 2400] {
        shop.emit(&Sum { unit: "{request}", ..Sum::cumulative("requests", value) }).unwrap();
    }
    log(&shop, Severity::Error, "cannot write: no space left on device");
    let page = Page::of(&[place.0.path()]);
    browser.open(&page.url);
    browser.size(400, 800, 1);
    browser.until(&format!("Boolean({})", row("shop")));
    let fits = |element: &str| format!("{element}.scrollWidth <= {element}.clientWidth");
    assert_eq!(browser.js(&fits("document.querySelector('nav')")), true, "the views");
    // Beside the panel, the table is narrow on a wide page, too.
    browser.js(&format!("{}.click()", row("shop")));
    let kind = format!("{}.querySelector('small')", row("shop"));
    let whole = format!("{} && {kind}.scrollHeight <= {kind}.clientHeight", fits(&kind));
    for width in [1440, 400] {
        browser.size(width, 800, 1);
        assert_eq!(browser.js(&format!("{kind}.textContent")), "flight recorder, many producers");
        assert_eq!(browser.js(&whole), true, "the kind of a ring: {width}");
    }
    browser.keys("3");
    browser.until("document.querySelectorAll('#records .rec').length === 4");
    let line = "document.querySelectorAll('#records .rec')[3]";
    let right = |element: &str| format!("{element}.getBoundingClientRect().right");
    let message = format!("{line}.children[3].children[1]");
    let whole = format!("{} <= {}", right(&message), right(&format!("{line}.children[3]")));
    assert_eq!(browser.js(&whole), true, "a message");
    browser.js(&format!("{line}.click()"));
    browser.until("document.querySelector('.whole td')");
    browser.picture("record-narrow");
    // Where the lines of a name are, one after the other.
    let names = "[...document.querySelectorAll('.whole td:first-child')].map((cell) => { const range = document.createRange(); range.selectNodeContents(cell); return [cell.textContent, range.getClientRects().length]; }).filter(([, lines]) => lines > 1)";
    assert_eq!(browser.js(names), json!([]), "names are broken");
    browser.keys("6");
    browser.until("Boolean(document.querySelector('#series td'))");
    // There is no rate of samples in one moment.
    browser.keys("r");
    browser.until("document.querySelector('#series td')?.textContent.includes('request')");
    browser.picture("series-narrow");
    assert_eq!(browser.js(&fits("document.getElementById('series')")), true, "the series");
    let metric = browser.js("document.getElementById('metric').selectedOptions[0].text");
    assert_eq!(metric, "requests, request (sum)");
    page.end();
}

#[test]
fn a_placeholder_has_room_for_an_underscore() {
    let Some(browser) = Browser::start() else { return };
    let place = Place::new();
    let page = Page::of(&[place.0.path()]);
    browser.open(&page.url);
    for (view, field) in [("1", "search"), ("3", "where"), ("5", "trace-id"), ("6", "series-where")]
    {
        browser.keys(view);
        browser.until(&format!("document.getElementById({field:?})?.offsetHeight"));
        // A placeholder's box cuts off what is below it.
        let room = browser.js(&format!(
            "(() => {{
                const style = getComputedStyle(document.getElementById({field:?}), '::placeholder');
                const context = document.createElement('canvas').getContext('2d');
                context.font = `${{style.fontSize}} ${{style.fontFamily}}`;
                const {{ fontBoundingBoxAscent, fontBoundingBoxDescent, actualBoundingBoxDescent }} = context.measureText('_');
                const [line, letters] = [parseFloat(style.height), fontBoundingBoxAscent + fontBoundingBoxDescent];
                return [line + parseFloat(style.paddingBottom), (line - letters) / 2 + fontBoundingBoxAscent + actualBoundingBoxDescent];
            }})()"
        ));
        assert!(room[0].as_f64() >= room[1].as_f64(), "{field}: {room}");
    }
    browser.keys("3");
    browser.picture("placeholder");
    page.end();
}

#[test]
fn a_process_is_named_once_however_many_threads_publish() {
    let Some(browser) = Browser::start() else { return };
    let place = Place::new();
    let shop = sink(&place, "shop");
    let ring = place.ring(&["--producers", "many"]);
    let publish = || {
        let mut child = perfring(&["publish", &ring]).stdin(Stdio::piped()).spawn().unwrap();
        writeln!(child.stdin.as_mut().unwrap(), "a line").unwrap();
        child
    };
    let mut children = [publish(), publish()];
    let page = Page::of(&[place.0.path()]);
    browser.open(&page.url);
    std::thread::scope(|scope| {
        log(&shop, Severity::Info, "ready");
        let (ready, other) = mpsc::channel();
        // The thread ends when this sender is dropped, also after a failure.
        let (_end, waits) = mpsc::channel::<()>();
        let shop = &shop;
        scope.spawn(move || {
            log(shop, Severity::Info, "ready, too");
            ready.send(()).unwrap();
            assert!(waits.recv().is_err());
        });
        other.recv().unwrap();
        browser.until(&format!("Boolean({})", row("shop")));
        browser.js(&format!("{}.click()", row("shop")));
        let written = "[...document.querySelectorAll('#ring tr')].some((row) => row.innerText.includes('3 records'))";
        browser.until(written);
        let attached = "document.querySelectorAll('#ring table')[0].rows.length";
        assert_eq!(browser.js(attached), 1, "threads of one process");
        let who = |name| format!("{}.querySelector('.who > div').textContent", row(name));
        let name = browser.js("document.querySelector('#ring td').firstChild.textContent");
        assert_eq!(browser.js(&who("shop")), name);
        browser.until(&format!("{} === '2 × perfring publish'", who("ring")));
        browser.picture("named-once");
    });
    for child in &mut children {
        drop(child.stdin.take());
        child.wait().unwrap();
    }
    page.end();
}

/// Each part of a timeline has one record, and each that has not ended has four; `drawn` has the heights of what is drawn.
const PARTS: &str = "{
    window.drawn = [];
    const fill = CanvasRenderingContext2D.prototype.fillRect;
    CanvasRenderingContext2D.prototype.fillRect = function (x, y, width, height) {
        if (this.canvas.id === 'canvas') drawn.push(height);
        fill.call(this, x, y, width, height);
    };
    const ask = fetch;
    window.fetch = async (path, ...rest) => {
        if (!path.startsWith('api/timeline?')) return ask(path, ...rest);
        const { now } = await import('./format.js');
        const query = new URLSearchParams(path.split('?')[1]);
        const [from, to, parts, id] = ['from', 'to', 'bins', 'rings'].map((name) => Number(query.get(name)));
        const ends = Array.from({ length: parts }, (_, nth) => from + (nth + 1) * (to - from) / parts);
        const bins = ends.map((end) => (end > now() ? 4 : 1));
        return Response.json([{ id, bins, records: null, lost: [], missed: 0, more: false }]);
    };
}";

#[test]
fn a_rate_does_not_fall_where_its_time_has_not_ended() {
    let Some(browser) = Browser::start() else { return };
    let place = Place::new();
    place.ring(&["--time"]);
    let page = Page::of(&[place.0.path()]);
    browser.cdp("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": PARTS }));
    browser.open(&page.url);
    browser.until(&format!("Boolean({})", row("ring")));
    browser.keys("2");
    browser.keys("+++");
    browser.until("drawn.filter((height) => height === 13).length > 1000");
    browser.picture("timeline-parts");
    assert_eq!(browser.js("drawn.includes(26)"), false);
    assert_eq!(browser.log(), "", "the console of the page");
    page.end();
}

#[test]
fn one_record_was_and_two_records_were() {
    let Some(browser) = Browser::start() else { return };
    let place = Place::new();
    let page = Page::of(&[place.0.path()]);
    browser.open(&page.url);
    browser.js("(import(`${location.href}format.js`).then(({ were }) => (window.said = [1, 2, 1234].map((count) => were(count, 'record')))), null)");
    let (said, _) = browser.until("window.said");
    assert_eq!(said, json!(["1 record was", "2 records were", "1.23k records were"]));
    page.end();
}
