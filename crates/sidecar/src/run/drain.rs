//! The end that a signal asks for: reads what the rings hold by then.

use super::{POLL, SLEEP_HELD, STALLED, Sidecar};
use crate::engine::turn::Turn;
use crate::log::{Level, Say};
use crate::signals::Signals;
use serde_json::json;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

impl Sidecar {
    /// Reads on until all outputs have everything up to the present heads of all rings, or for as
    /// long as the configuration allows.
    pub(super) fn drain(&mut self, signals: &Signals, say: &mut Say<'_>) {
        let since = Instant::now();
        let left = |within: Duration| within.saturating_sub(since.elapsed());
        let within = self.config.settings.drain;
        if !self.config.settings.log_interval.is_zero() {
            let most = humantime::format_duration(within);
            say.info(&format!(
                "ending: what the rings hold is delivered first, for at most {most}; a second signal \
                 ends at once"
            ));
        }
        // Also rings that are new.
        while !self.inputs.poll(&mut self.engine, &self.positions, say) && !left(within).is_zero() {
        }
        let heads = self.engine.heads();
        self.engine.sample_metrics();
        let mut polled = Instant::now();
        loop {
            let turn = self.engine.turn();
            if (self.engine.is_past(&heads) && self.engine.is_level()) || left(within).is_zero() {
                break;
            }
            if polled.elapsed() >= POLL {
                polled = Instant::now();
                self.engine.flush();
                self.engine.release_delivered();
                self.engine.end_removed();
                self.report_notes(say);
                self.outputs.report_troubles(&self.engine, say);
                self.recorder.report(say);
                self.answer_requests(signals, None, say);
                self.service.look(polled, &mut self.engine, &self.inputs, &self.config);
                if self.engine.has_failed() {
                    break;
                }
            }
            match turn {
                Turn::More => {}
                Turn::Empty => self.engine.wait(SLEEP_HELD.min(left(within))),
                Turn::Stalled => std::thread::sleep(STALLED.1.min(left(within))),
            }
        }
    }

    /// Reports what was done, and what is left in each ring. Says it if it was asked to end or has read all, unless
    /// the configuration wants no such lines; those who asked over the socket get it in any case.
    pub(super) fn report_end(&mut self, was_asked: bool, say: &mut Say<'_>) {
        let mut line = self.line();
        let mut left: Vec<_> = self.engine.rings().filter(|ring| ring.lag > 0).collect();
        left.sort_by(|a, b| a.origin.name.cmp(&b.origin.name));
        let mut not_read = Vec::new();
        self.inputs.not_followed(|_| true, &mut not_read);
        let buffers = self.engine.outputs().filter_map(|output| {
            let bytes =
                output.figures.buffer.map(|buffer| buffer.bytes).filter(|bytes| *bytes > 0)?;
            Some((output.name, bytes))
        });
        let buffers: Vec<(&str, u64)> = buffers.collect();
        let is_all = left.is_empty() && buffers.is_empty() && not_read.is_empty();
        let places = left.iter().map(|ring| format!("{} bytes in {}", ring.lag, ring.origin.name));
        let places = places.chain(
            buffers
                .iter()
                .map(|(output, bytes)| format!("{bytes} bytes in the buffer of {output}")),
        );
        match places.collect::<Vec<_>>() {
            places if !places.is_empty() => {
                let _ = write!(line, "; left: {}", places.join(", "));
            }
            _ if is_all => line.push_str("; nothing is left"),
            _ => line.push_str("; nothing is left of what was read"),
        }
        if !not_read.is_empty() {
            let _ = write!(line, "; not read: {}", not_read.join(", "));
        }
        let copies = self.inputs.unreadable.copies(&self.engine);
        let copies = copies.map(|copy| format!("{} of {}", copy.path.display(), copy.of));
        match copies.collect::<Vec<_>>() {
            copies if copies.is_empty() => {}
            copies => {
                let _ = write!(line, "; copies, which are not read: {}", copies.join(", "));
            }
        }
        let refused: u64 = self.engine.outputs().map(|output| output.figures.refused).sum();
        if refused > 0 {
            let s = if refused == 1 { " was" } else { "s were" };
            let _ = write!(line, "; {refused} record{s} refused for good");
        }
        if was_asked && !self.config.settings.log_interval.is_zero() {
            // What is left or was refused must not pass unnoticed.
            let is_all = is_all && refused == 0;
            let level = if is_all { Level::Info } else { Level::Warn };
            say.figures(level, &line);
        }
        let left: Vec<_> = left
            .iter()
            .map(|ring| json!({ "ring": ring.origin.name, "lag_bytes": ring.lag }))
            .chain(
                buffers
                    .iter()
                    .map(|(output, bytes)| json!({ "output": output, "buffer_bytes": bytes })),
            )
            .collect();
        for asked in self.service.draining.drain(..) {
            let answer = json!({ "said": line, "left": left, "not_read": not_read });
            self.drained.extend(asked.done_last(answer));
        }
    }
}
