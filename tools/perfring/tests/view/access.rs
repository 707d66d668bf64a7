//! The page for those who do not see it, or not well, or use no mouse: what the browser tells a screen reader, contrast,
//! and where the focus is.

use super::browser::Browser;
use super::telemetry::{samples, sink, trace};
use super::{Page, row};
use crate::command::{Place, perfring};
use perfring_producer::{CpuProducer, Options, Policy, Producer};
use perfring_telemetry::Sink;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Child, Stdio};

/// The least contrast of text (WCAG 2.2, AA), and of what shows the focus.
const TEXT: f64 = 4.5;
const SIGN: f64 = 3.0;
/// Roles that are nothing without a name.
const NAMED: [&str; 12] = [
    "application",
    "button",
    "columnheader",
    "combobox",
    "complementary",
    "image",
    "link",
    "option",
    "searchbox",
    "tab",
    "textbox",
    "treegrid",
];
const TAB: &str = "\u{e004}";

/// Rings of many kinds and states, and what keeps them so.
struct Scene {
    page: Page,
    _rings: (Place, Producer, CpuProducer),
    _sink: Sink,
    producer: Child,
}

impl Scene {
    fn new() -> Self {
        let place = Place::new();
        let small = Options { size: 4096, time: true, ..Options::default() };
        let mut full = Producer::create(place.path("full"), &small).unwrap();
        while full.publish(&[0; 100]).is_ok() {}
        let set =
            CpuProducer::create(place.path("set"), &Options { time: true, ..Options::per_cpu() });
        let set = set.unwrap();
        set.publish(b"one").unwrap();
        let flight = Options { policy: Policy::Overwrite, ..small };
        drop(Producer::create(place.path("flight"), &flight).unwrap());
        let mut command = perfring(&["publish", place.path("flight").to_str().unwrap()]);
        let mut producer = command.stdin(Stdio::piped()).spawn().unwrap();
        writeln!(producer.stdin.as_mut().unwrap(), "a line").unwrap();
        std::fs::write(place.path("notes"), "no ring").unwrap();
        let sink = sink(&place, "shop");
        trace(&sink, &sink);
        samples(&sink, 1);
        let page = Page::of(&[place.0.path()]);
        Scene { page, _rings: (place, full, set), _sink: sink, producer }
    }

    fn end(mut self) {
        let _ = self.producer.kill();
        self.producer.wait().unwrap();
        self.page.end();
    }

    fn open(&self, browser: &Browser) {
        browser.size(1440, 900, 1);
        browser.open(&self.page.url);
        browser.until("document.querySelectorAll('.row:not([hidden])').length === 4");
        browser.until(&format!(
            "{}.querySelector('.who').innerText.includes('publish')",
            row("flight")
        ));
    }

    fn filter(&self, browser: &Browser, text: &str) {
        browser.js(&format!(
            "((where) => ((where.value = {text:?}), where.dispatchEvent(new Event('input'))))(document.getElementById('where'))"
        ));
    }

    /// Shows each view with what is in it, one after the other, and visits it.
    fn each_view(&self, browser: &Browser, mut visit: impl FnMut(&str)) {
        browser.js(&format!("{}.click()", row("full")));
        browser.until("document.querySelectorAll('#ring canvas').length === 2");
        browser.until("(document.getElementById('measure').ariaPressed === 'true' || document.getElementById('measure').click(), document.querySelector('#latency canvas'))");
        visit("rings");
        go(browser, "timeline", "2");
        browser.until("document.getElementById('canvas').width > 300");
        visit("timeline");
        go(browser, "records", "3");
        browser.until("document.querySelectorAll('#records .rec').length > 3");
        self.filter(browser, "x");
        browser.until("document.querySelector('#wrong mark')");
        visit("records, with an error");
        self.filter(browser, "");
        browser.until("document.getElementById('wrong').hidden");
        browser.until("((rec) => rec && (rec.click(), true))(document.querySelector('#records .rec[role=button]'))");
        browser
            .until("/^0000  [0-9a-f]{2} /m.test(document.querySelector('.whole pre').textContent)");
        visit("records, one open");
        go(browser, "recordings", "4");
        browser.until("(document.querySelector('.card') || document.getElementById('freeze').disabled || document.getElementById('freeze').click(), document.querySelector('.card'))");
        visit("snapshots");
        go(browser, "traces", "5");
        browser.keys("\u{e00c}"); // what was open is closed
        browser.until("document.querySelector('#traces .trace')");
        visit("traces");
        browser.js("document.querySelector('#traces .trace').click()");
        browser.until("document.querySelectorAll('#traces .span').length === 8");
        browser.js("document.querySelectorAll('#traces .span')[1].click()");
        browser.until("document.querySelector('#traces .whole')");
        visit("traces, one open");
        go(browser, "metrics", "6");
        browser.until("document.querySelectorAll('#series tbody tr').length === 4");
        visit("metrics");
        go(browser, "rings", "1");
    }
}

/// Shows a view, from wherever the focus is.
fn go(browser: &Browser, view: &str, key: &str) {
    browser.js("(document.activeElement.blur(), null)");
    browser.keys(key);
    browser.until(&format!("!document.getElementById('view-{view}').hidden"));
}

/// A part of the page as a screen reader has it.
struct Node {
    role: String,
    name: String,
    focusable: bool,
}

/// Returns all of them, in the order in which they are read.
fn tree(browser: &Browser) -> Vec<Node> {
    let all = browser.cdp("Accessibility.getFullAXTree", &json!({}));
    let all = all["nodes"].as_array().unwrap();
    let by_id: BTreeMap<&str, &Value> =
        all.iter().map(|node| (node["nodeId"].as_str().unwrap(), node)).collect();
    let mut found = Vec::new();
    let mut waiting = vec![&all[0]];
    while let Some(node) = waiting.pop() {
        let children = node["childIds"].as_array().into_iter().flatten().rev();
        waiting.extend(children.filter_map(|id| by_id.get(id.as_str()?)));
        if node["ignored"] == true {
            continue;
        }
        let properties = node["properties"].as_array().into_iter().flatten();
        let focusable =
            properties.clone().any(|of| of["name"] == "focusable" && of["value"]["value"] == true);
        let text = |of: &Value| of["value"].as_str().unwrap_or("").to_owned();
        found.push(Node { role: text(&node["role"]), name: text(&node["name"]), focusable });
    }
    found
}

#[test]
fn a_screen_reader_gets_a_name_for_each_control_and_the_table_in_its_order() {
    let Some(browser) = Browser::start() else { return };
    let scene = Scene::new();
    scene.open(&browser);
    browser.cdp("Accessibility.enable", &json!({}));
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    scene.each_view(&browser, |view| {
        let nodes = tree(&browser);
        for node in &nodes {
            let is_control = NAMED.contains(&&*node.role) || node.focusable;
            assert!(
                !is_control || !node.name.trim().is_empty(),
                "{view}: a {} has no name",
                node.role
            );
            if is_control {
                *counts.entry(node.role.clone()).or_default() += 1;
            }
        }
    });
    println!("named: {counts:?}");
    for role in
        ["button", "columnheader", "combobox", "image", "row", "searchbox", "tab", "treegrid"]
    {
        assert!(counts.contains_key(role), "no {role} in {counts:?}");
    }

    browser.js("document.querySelector('#ring [aria-label=Close]').click()");
    // The table: its headers, how it is sorted, and its rows in the order in which they are seen.
    let rows = |browser: &Browser| -> Vec<String> {
        let rows = tree(browser).into_iter().filter(|node| node.role == "row");
        rows.skip(1)
            .map(|row| row.name.split_whitespace().next().unwrap_or("").to_owned())
            .collect()
    };
    let sorted = "[...document.querySelectorAll('#head [role=columnheader]')].map((head) => head.ariaSort ? `${head.innerText} ${head.ariaSort}` : '').join('')";
    assert_eq!(browser.js(sorted), "Ring ascending");
    let seen = rows(&browser);
    assert_eq!(seen[..2], ["flight", "full"], "{seen:?}");
    browser.js("(() => { const lost = [...document.querySelectorAll('#head button')].find((of) => of.textContent === 'Lost'); lost.focus(); lost.click(); })()");
    browser.until(&format!("{sorted} === 'Lost descending'"));
    assert_eq!(browser.js("document.activeElement.textContent"), "Lost", "the focus stays");
    assert_eq!(rows(&browser)[..2], ["full", "flight"]);
    browser.js("[...document.querySelectorAll('#head button')].find((of) => of.textContent === 'Ring').click()");
    browser.js("[...document.querySelectorAll('#head button')].find((of) => of.textContent === 'Ring').click()");
    browser.until(&format!("{sorted} === 'Ring descending'"));
    assert_eq!(rows(&browser)[2..], ["full", "flight"]);
    // A set says that it opens, and its rings that they are in it.
    browser.js("document.querySelector('.row .open:not([hidden])').click()");
    browser.until("document.querySelector('.row[aria-level=\"2\"]')");
    assert_eq!(browser.js("document.querySelectorAll('.row[aria-expanded=true]').length"), 1);
    assert_eq!(browser.log(), "", "the console of the page");
    scene.end();
}

#[test]
fn losses_and_deaths_are_said_once_and_nothing_chatters() {
    let Some(browser) = Browser::start() else { return };
    let mut scene = Scene::new();
    scene.open(&browser);
    // Whatever changes in a live region, also in one that is made later, is said.
    browser.js("new MutationObserver((all) => {
        const regions = all.map(({ target }) => (target.closest ? target : target.parentElement)?.closest('[role=status], [role=alert], [aria-live]'));
        for (const region of new Set(regions.filter(Boolean))) (window.said ??= []).push(`${region.id}: ${region.textContent}`);
    }).observe(document.body, { childList: true, characterData: true, subtree: true })");
    // It loses in each of the next polls.
    let (_, full, _) = &mut scene._rings;
    for nth in 0..12 {
        assert!(full.publish(&[0; 100]).is_err());
        let lost =
            format!("{}.querySelector('.c-lost').innerText.startsWith('{}')", row("full"), nth + 2);
        browser.until(&lost);
    }
    browser.until("(window.said ?? []).includes('say: full loses records: full')");
    browser.keys("3");
    browser.until("document.querySelectorAll('#records .rec').length > 3");
    let counts = "document.getElementById('counts').innerText";
    let before = browser.js(&format!("parseInt({counts})")).as_u64().unwrap();
    for nth in 1..4 {
        writeln!(scene.producer.stdin.as_mut().unwrap(), "another line").unwrap();
        browser.until(&format!("parseInt({counts}) >= {}", before + nth));
    }
    browser.keys("2");
    browser.until("document.getElementById('canvas').width > 300");
    let said = browser.js("window.said.filter((text) => !text.startsWith('span: '))");
    assert_eq!(said, json!(["say: full loses records: full"]));
    scene.producer.kill().unwrap();
    scene.producer.wait().unwrap();
    browser.until("window.said.some((text) => /^say: flight: producer .* is dead$/.test(text))");
    println!("said: {}", browser.js("window.said"));
    assert_eq!(browser.js("window.said.filter((text) => !text.startsWith('span: ')).length"), 2);
    scene.end();
}

/// Defines `contrast(element, color)`: of a color on what is behind the element; and `shown()`: elements with a text of
/// their own that can be seen.
const COLORS: &str = "
    const parse = (text) => {
        const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
        return text.startsWith('color(srgb') ? [r * 255, g * 255, b * 255, a] : [r, g, b, a];
    };
    const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
    const behind = (node) => {
        const layers = [];
        for (let at = node; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor));
        return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
    };
    const light = ([r, g, b]) => {
        const [x, y, z] = [r, g, b].map((of) => of / 255).map((of) => (of <= 0.04045 ? of / 12.92 : ((of + 0.055) / 1.055) ** 2.4));
        return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    };
    window.contrast = (node, color) => {
        const back = behind(node);
        const [one, other] = [light(over(parse(color), back)), light(back)];
        return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    };
    window.shown = () => [...document.querySelectorAll('body *')].filter((node) =>
        node.checkVisibility({ visibilityProperty: true }) && !node.closest('.unseen') &&
        [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim()));
";

#[test]
fn every_text_has_enough_contrast_in_light_and_in_dark() {
    let Some(browser) = Browser::start() else { return };
    let scene = Scene::new();
    scene.open(&browser);
    browser.js(&format!("(() => {{ {COLORS} }})()"));
    let mut counts = BTreeMap::new();
    for theme in ["light", "dark"] {
        if browser.js("document.documentElement.dataset.theme") != theme {
            browser.js("document.getElementById('theme').click()");
        }
        scene.each_view(&browser, |view| {
            let low = format!(
                "[...shown().map((node) => [contrast(node, getComputedStyle(node).color), node.textContent.slice(0, 30), node.className]),
                  ...[...document.querySelectorAll('input')].filter((node) => node.checkVisibility()).map((node) => [contrast(node, getComputedStyle(node, '::placeholder').color), 'placeholder', node.id])]
                 .filter(([of]) => of < {TEXT})"
            );
            assert_eq!(browser.js(&low), json!([]), "{view}, {theme}");
            let texts = browser.js("shown().length").as_u64().unwrap();
            assert!(texts > 10, "{view}: {texts}");
            *counts.entry(theme).or_insert(0) += texts;
        });
        browser.js("document.querySelector('#ring [aria-label=Close]').click()");
    }
    println!("texts with a contrast of {TEXT} or more: {counts:?}");
    scene.end();
}

#[test]
fn tab_goes_through_a_few_controls_and_each_shows_that_it_has_the_focus() {
    let Some(browser) = Browser::start() else { return };
    let scene = Scene::new();
    scene.open(&browser);
    browser.js(&format!("(() => {{ {COLORS} }})()"));
    for theme in ["light", "dark"] {
        if browser.js("document.documentElement.dataset.theme") != theme {
            browser.js("document.getElementById('theme').click()");
        }
        scene.each_view(&browser, |view| {
            browser.js("(document.activeElement.blur(), null)");
            let (mut stops, mut ends) = (Vec::new(), 0);
            loop {
                browser.keys(TAB);
                let at = browser.js("((at) => at === document.body ? null : ({
                    what: at.ariaLabel ?? (at.innerText || at.id).split('\\n')[0],
                    shown: at.matches(':focus-visible') && getComputedStyle(at).outlineStyle === 'solid' && parseFloat(getComputedStyle(at).outlineWidth) >= 2,
                    contrast: contrast(at.parentElement, getComputedStyle(at).outlineColor),
                    seen: ((box) => box.width > 0 && box.top < innerHeight && box.bottom > 0 && box.left < innerWidth && box.right > 0)(at.getBoundingClientRect()),
                    first: (window.first ??= at) === at,
                }))(document.activeElement)");
                // It begins where the focus was, and after the last one is the browser's turn.
                ends += usize::from(at.is_null());
                if ends == 2 || (at["first"] == true && !stops.is_empty()) {
                    break;
                } else if at.is_null() {
                    continue;
                }
                assert_eq!((&at["shown"], &at["seen"]), (&json!(true), &json!(true)), "{view}: {at}");
                assert!(at["contrast"].as_f64().unwrap() >= SIGN, "{view}, {theme}: {at}");
                stops.push(at["what"].as_str().unwrap().to_owned());
                assert!(stops.len() < 40, "{view}: {stops:?}");
            }
            browser.js("delete window.first");
            println!("{view}, {theme}: {} stops: {}", stops.len(), stops.join(" | "));
            assert!(stops.len() > 5, "{stops:?}");
        });
        browser.js("document.querySelector('#ring [aria-label=Close]').click()");
    }
    scene.end();
}
