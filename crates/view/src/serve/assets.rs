//! The files of the page. Nothing else is loaded by it.

use hyper::header::HeaderValue;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";

macro_rules! files {
    ($($name:literal $kind:ident,)*) => {
        const FILES: &[(&str, &str, &str)] =
            &[$(($name, $kind, include_str!(concat!("../../page/", $name)))),*];
    };
}

files! {
    "index.html" HTML,
    "view.css" CSS,
    "main.js" JS,
    "format.js" JS,
    "metrics.js" JS,
    "store.js" JS,
    "rings.js" JS,
    "ring.js" JS,
    "records.js" JS,
    "recordings.js" JS,
    "say.js" JS,
    "timeline.js" JS,
    "traces.js" JS,
    "vendor/uPlot.iife.min.js" JS,
    "vendor/uPlot.min.css" CSS,
}

/// Returns a file of the page, and its type.
pub(super) fn file(name: &str) -> Option<(HeaderValue, &'static str)> {
    let name = if name.is_empty() { "index.html" } else { name };
    let (_, kind, text) = FILES.iter().find(|(its, ..)| *its == name)?;
    Some((HeaderValue::from_static(kind), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_below_200_kb_and_loads_nothing_from_elsewhere() {
        let bytes: usize = FILES.iter().map(|(.., text)| text.len()).sum();
        println!("{bytes} bytes in {} files", FILES.len());
        assert!(bytes < 200_000, "{bytes}");
        for (name, _, text) in FILES.iter().filter(|(name, ..)| !name.starts_with("vendor/")) {
            for far in [
                "http://",
                "https://",
                "//cdn",
                "@import",
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
            ] {
                assert!(!text.contains(far), "{name} has {far}");
            }
        }
    }
}
