//! The sidecar's own figures, for outputs and endpoints that show them.

use super::figures::{CAUSE, Figure, OUTPUT, Present, RING, RULE, Rings, gather};
use perfring_export::Own;

/// Sets all figures.
pub(crate) fn report(own: &dyn Own, present: Present<'_>) {
    gather(present, Rings::Each, &mut |figure| set(own, figure));
}

/// Sets a figure, with the labels that rings and outputs have on the page.
fn set(own: &dyn Own, figure: &Figure<'_>) {
    let label = |name: &'static str| match name {
        RING => "ring",
        OUTPUT => "output",
        CAUSE => "cause",
        RULE => "rule",
        other => other,
    };
    let labels: Vec<_> =
        figure.attributes.iter().map(|(name, value)| (label(name), *value)).collect();
    // As OpenTelemetry's names become those of Prometheus.
    let unit = match figure.unit {
        "By" if !figure.name.ends_with("bytes") => ".bytes",
        "s" => ".seconds",
        "1" => ".ratio",
        _ => "",
    };
    let name = format!("{}{unit}", figure.name);
    match figure.grows {
        true => own.counter(&name, figure.help, &labels, figure.value),
        false => own.gauge(&name, figure.help, &labels, figure.value),
    }
}

/// Removes the figures of a ring.
pub(crate) fn forget(own: &dyn Own, ring: &str) {
    own.forget(&[("ring", ring)]);
}
