//! Colours, axes and markup.

use crate::contestant::Role;

/// The style of every plot, so that each works alone as a file, too. It is the same in all of them:
/// on the page they share it.
pub(super) const STYLE: &str = "<style>\
.plot{--ink:#1c2127;--dim:#5b6570;--grid:#e3e6ea;--ours:#0b62c4;--rival:#b4501a;--limit:#7b838c;\
--reference:#7a52b3;--paper:#fff}\
@media(prefers-color-scheme:dark){.plot{--ink:#e7eaee;--dim:#9aa4af;--grid:#333a42;--ours:#62b0ff;\
--rival:#f0985c;--limit:#98a1ab;--reference:#bb9cf2;--paper:#14181c}}\
.plot text{font:12px system-ui,sans-serif;fill:var(--ink)}\
.plot .title{font-weight:600;font-size:14px}.plot .dim{fill:var(--dim);font-size:11px}\
.plot .value{font-variant-numeric:tabular-nums}.plot .strong{font-weight:600}\
.plot .grid{stroke:var(--grid)}.plot .paper{fill:var(--paper)}\
.plot .ours{--c:var(--ours)}.plot .rival{--c:var(--rival)}.plot .limit{--c:var(--limit)}\
.plot .reference{--c:var(--reference)}\
.plot .span{stroke:var(--c);stroke-width:2;opacity:.55}.plot .mark{fill:var(--c);stroke:var(--c)}\
.plot .hollow{fill:var(--paper);stroke:var(--c);stroke-width:2}\
.plot .curve{fill:none;stroke:var(--c);stroke-width:1.8}.plot .faint{opacity:.28;stroke-width:1}\
.plot text.tag{fill:var(--c)}</style>";

/// A logarithmic axis.
pub(super) struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// Creates an axis over these values, from one coordinate to the other.
    pub(super) fn over(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (low, high) = values
            .filter(|value| value.is_finite() && *value > 0.0)
            .fold((f64::MAX, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = if low > high { (1.0, 10.0) } else { (low / 1.15, high * 1.15) };
        // At least a factor of ten, so that small differences look small.
        let high = high.max(low * 10.0);
        Axis { low, high, from, to }
    }

    /// Returns the coordinate of a value.
    pub(super) fn at(&self, value: f64) -> f64 {
        let part = (value.max(self.low) / self.low).ln() / (self.high / self.low).ln();
        self.from + part.min(1.0) * (self.to - self.from)
    }

    /// Returns round values along it.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        let steps: &[f64] = if decades > 2.2 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        let all = (first..=last).flat_map(|power| steps.iter().map(move |s| s * 10f64.powi(power)));
        all.filter(|value| (self.low..=self.high).contains(value)).collect()
    }
}

/// Formats a tick's label with no more digits than needed.
pub(super) fn label(value: f64) -> String {
    match value {
        large if large >= 1e6 => format!("{}M", (value / 1e6).round()),
        large if large >= 1e4 => format!("{}k", (value / 1e3).round()),
        one if one >= 1.0 => format!("{}", value.round()),
        _ => format!("{value:.3}").trim_end_matches('0').to_owned(),
    }
}

/// Escapes text for markup.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns the class of a role's marks.
pub(crate) fn class(role: Role) -> &'static str {
    match role {
        Role::Limit => "limit",
        Role::Ours => "ours",
        Role::Rival => "rival",
        Role::Reference => "reference",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_round_ticks_within_its_ends() {
        let axis = Axis::over([3.0, 300.0].into_iter(), 0.0, 100.0);
        assert_eq!(axis.ticks(), [5.0, 10.0, 20.0, 50.0, 100.0, 200.0]);
        assert!(axis.at(3.0) > 0.0 && axis.at(300.0) < 100.0);
        assert!(axis.at(10.0) < axis.at(20.0));
        assert_eq!(label(0.05), "0.05");
        assert_eq!(label(20_000.0), "20k");
    }

    #[test]
    fn markup_in_what_libraries_say_is_text() {
        assert_eq!(escape("<a b=\"c\"> & d"), "&lt;a b=&quot;c&quot;&gt; &amp; d");
    }
}
