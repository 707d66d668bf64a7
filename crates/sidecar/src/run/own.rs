//! The sidecar's own figures.

use super::status::resident;
use crate::engine::Engine;
use perfring_export::Own;

/// Sets all figures.
pub(crate) fn report(own: &dyn Own, engine: &Engine) {
    for ring in engine.rings() {
        let labels = [("ring", &*ring.origin.name)];
        let count = |name, help, value: u64| own.counter(name, help, &labels, value as f64);
        count("perfring_ring_records", "Records that were read", ring.figures.records);
        count("perfring_ring_bytes", "Bytes of their payloads", ring.figures.bytes);
        count(
            "perfring_ring_late",
            "Records that arrived too late for the order of time",
            ring.figures.late,
        );
        for (cause, lost) in &ring.figures.lost {
            let labels = [("ring", &*ring.origin.name), ("cause", cause.name())];
            let help = "Records that the ring reported as lost";
            own.counter("perfring_ring_lost_records", help, &labels, lost.records as f64);
        }
        let help = "Bytes between what is delivered and what is published";
        own.gauge("perfring_ring_lag_bytes", help, &labels, ring.lag as f64);
    }
    for output in engine.outputs() {
        let labels = [("output", output.name)];
        let count = |name, help, value: u64| own.counter(name, help, &labels, value as f64);
        let figures = &output.figures;
        count("perfring_output_taken", "Records that it took", figures.taken);
        count("perfring_output_delivered", "Records that it delivered", figures.delivered);
        count("perfring_output_bytes", "Bytes that it wrote or sent", figures.bytes);
        count("perfring_output_retries", "Retries", figures.retries);
        count("perfring_output_refused", "Records that were refused for good", figures.refused);
        count("perfring_output_dropped", "Records that it had no room for", output.dropped.records);
        for rule in &output.rules {
            let labels = [("output", output.name), ("rule", rule.name)];
            let help = "Records that a rule kept";
            own.counter("perfring_rule_kept_records", help, &labels, rule.kept as f64);
            let help = "Records that a rule left out";
            own.counter("perfring_rule_left_out_records", help, &labels, rule.left_out as f64);
            let help = "Bytes that a rule left out";
            own.counter("perfring_rule_left_out_bytes", help, &labels, rule.left_out_bytes as f64);
        }
        let help = "1 while something is wrong with it";
        let trouble = figures.trouble.is_some() || output.failed.is_some();
        own.gauge("perfring_output_trouble", help, &labels, f64::from(u8::from(trouble)));
    }
    let merge = engine.merge_figures();
    let help = "The most that a record was late";
    own.gauge("perfring_merge_late_most_seconds", help, &[], merge.late_most as f64 / 1e9);
    let help = "Rings that could not be read, or read on, because they were damaged or truncated";
    own.counter("perfring_rings_damaged", help, &[], engine.damaged() as f64);
    let help = "Rings that are read";
    own.gauge("perfring_rings", help, &[], engine.rings().count() as f64);
    if let Some(bytes) = resident() {
        own.gauge("perfring_sidecar_resident_bytes", "Memory of the sidecar", &[], bytes as f64);
    }
}

/// Removes the figures of a ring.
pub(crate) fn forget(own: &dyn Own, ring: &str) {
    own.forget(&[("ring", ring)]);
}
