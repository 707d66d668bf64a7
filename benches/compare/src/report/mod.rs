//! The report: a self-contained page, and its plots as files.

mod curves;
mod dots;
mod page;
mod panel;
mod style;

use crate::CompareError;
use crate::rows::{Kind, Row};
use crate::workload::Workload;
use panel::panels;
use std::path::Path;

/// Writes the page and the plots into this directory.
///
/// # Errors
/// If that fails.
pub fn write(rows: &[Row], out: &Path) -> Result<(), CompareError> {
    std::fs::create_dir_all(out)?;
    let panels = panels(rows);
    let mut plots = Vec::new();
    for panel in &panels {
        plots.push((panel.kind.workload, name(&panel.kind), dots::draw(panel)));
        if matches!(panel.kind.workload, Workload::Latency | Workload::Wakeup) {
            let name = format!("{}-curves", name(&panel.kind));
            plots.push((panel.kind.workload, name, curves::draw(panel, rows)));
        }
    }
    for (_, name, svg) in &plots {
        std::fs::write(out.join(format!("{name}.svg")), svg)?;
    }
    std::fs::write(out.join("report.html"), page::write(rows, &panels, &plots))?;
    Ok(())
}

/// Returns the name of the plot's file.
fn name(kind: &Kind) -> String {
    let workload = kind.workload.name();
    match kind.workload {
        Workload::Throughput => format!("{workload}-{}", kind.payload),
        Workload::Producers if kind.lossy => format!("{workload}-{}-unread", kind.senders),
        Workload::Producers => format!("{workload}-{}", kind.senders),
        Workload::Overwrite => format!("{workload}-{}", kind.audience.name()),
        Workload::Fanout if kind.lossy => format!("{workload}-{}-lossy", kind.receivers),
        Workload::Fanout => format!("{workload}-{}", kind.receivers),
        _ => workload.to_owned(),
    }
}
