//! The sidecar's own figures for Prometheus.

use super::figures::{CAUSE, Figure, OUTPUT, RING, Rings, gather};
use crate::config::OutputConfig;
use crate::config::opened::Own;
use crate::engine::Engine;
use std::time::Duration;

/// Sets all figures.
pub(crate) fn report(own: &Own, engine: &Engine, outputs: &[OutputConfig], since: Duration) {
    gather(engine, outputs, since, Rings::Each, &mut |figure| set(own, figure));
}

#[cfg(not(feature = "prometheus"))]
fn set(own: &Own, _: &Figure<'_>) {
    let (RING, OUTPUT, CAUSE) = (RING, OUTPUT, CAUSE);
    match *own {}
}

/// Sets a figure, with the labels that rings and outputs have on the page.
#[cfg(feature = "prometheus")]
fn set(own: &Own, figure: &Figure<'_>) {
    let label = |name: &'static str| match name {
        RING => "ring",
        OUTPUT => "output",
        CAUSE => "cause",
        other => other,
    };
    let labels: Vec<_> =
        figure.attributes.iter().map(|(name, value)| (label(name), *value)).collect();
    // As OpenTelemetry's names become those of Prometheus.
    let unit = match figure.unit {
        "By" if !figure.name.ends_with("bytes") => ".bytes",
        "s" => ".seconds",
        _ => "",
    };
    let name = format!("{}{unit}", figure.name);
    match figure.grows {
        true => own.counter(&name, figure.help, &labels, figure.value),
        false => own.gauge(&name, figure.help, &labels, figure.value),
    }
}

/// Removes the figures of a ring.
#[cfg(not(feature = "prometheus"))]
pub(crate) fn forget(own: &Own, _: &str) {
    match *own {}
}

/// Removes the figures of a ring.
#[cfg(feature = "prometheus")]
pub(crate) fn forget(own: &Own, ring: &str) {
    own.forget(&[("ring", ring)]);
}
