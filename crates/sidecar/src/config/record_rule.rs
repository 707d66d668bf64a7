//! Rules by which outputs are not given records: dropped, sampled, or limited in their rate.

use super::filter::{Filter, Where};
use super::kinds::OutputConfig;
use super::table::{ConfigError, Table};
use perfring_export::RuleName;
use perfring_types::read::parse_duration;
use serde::Deserialize;

/// The limit of rules.
const RULES_MAX: usize = 64;
/// The number of random values: 56 bits, as OpenTelemetry has them.
pub(crate) const RANDOM: u64 = 1 << 56;

/// A rule of `[[rule]]`: which of the records that an output selects it is not given.
///
/// Of the rules for an output the first that a record meets decides; a record that meets none is kept.
#[derive(Clone, Debug)]
pub struct RecordRule {
    /// Its name: it stands in the losses that it causes, as `rule NAME`.
    pub name: RuleName,
    /// The outputs that it is for; without one it is for all.
    pub outputs: Vec<String>,
    /// The records that it is for.
    pub filter: Filter,
    /// What becomes of them.
    pub action: RecordAction,
    /// Where it stands, for errors.
    place: String,
}

/// What becomes of the records that meet a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordAction {
    /// All are kept.
    Keep,
    /// None is.
    Drop,
    /// Some are, by a number of 56 bits that the record, or one of its fields, determines.
    Sample {
        /// Those with at least this number are kept.
        threshold: u64,
        /// The field: records in which it is equal are kept together. Without one, or in a record that lacks it, each
        /// record for itself, by the id of its ring and its position.
        by: Option<String>,
    },
    /// As many as come within a rate, by their timestamps.
    Rate {
        /// So many records ...
        records: u32,
        /// ... in so many ns,
        period: u64,
        /// and at most so many at once.
        burst: u32,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    name: String,
    #[serde(default)]
    outputs: Vec<String>,
    #[serde(default)]
    types: Vec<String>,
    #[serde(default)]
    r#where: Vec<Where>,
    keep: Option<bool>,
    drop: Option<bool>,
    sample: Option<f64>,
    by: Option<String>,
    rate: Option<String>,
    burst: Option<u32>,
}

impl RecordRule {
    pub(super) fn read(table: Table<'_>) -> Result<Self, ConfigError> {
        let place = table.error("").0;
        let at = table.at();
        let keys: Keys = table.read()?;
        let name = RuleName::new(&keys.name).ok_or_else(|| {
            let what = "the name of a rule is 1 to 64 letters, digits, '-', '_' and '.' of ASCII";
            at.error_in("name", what)
        })?;
        let filter = Filter::new(&keys.types, &keys.r#where, None);
        let action = action(&keys).map_err(|(key, message)| at.error_in(key, &message))?;
        Ok(RecordRule { name, outputs: keys.outputs, filter, action, place })
    }

    /// Checks all rules, which are for these outputs.
    pub(super) fn check(rules: &[RecordRule], outputs: &[OutputConfig]) -> Result<(), ConfigError> {
        for (nth, rule) in rules.iter().enumerate() {
            let wrong = |message: String| Err(ConfigError(format!("{}{message}", rule.place)));
            let name = rule.name.as_str();
            if nth >= RULES_MAX {
                return wrong(format!("there are at most {RULES_MAX} rules"));
            }
            if rules.iter().take(nth).any(|other| other.name == rule.name) {
                return wrong(format!("two rules are called {name:?}: give one another name"));
            }
            let known = |name: &String| outputs.iter().any(|output| output.name == *name);
            if let Some(unknown) = rule.outputs.iter().find(|name| !known(name)) {
                return wrong(format!("the rule {name:?} is for {unknown:?}, which is no output"));
            }
        }
        Ok(())
    }

    /// Returns whether it is for this output.
    #[must_use]
    pub fn is_for(&self, output: &str) -> bool {
        self.outputs.is_empty() || self.outputs.iter().any(|name| name == output)
    }

    /// Returns whether it does the same as the other, wherever the two stand.
    pub(crate) fn is_as(&self, other: &RecordRule) -> bool {
        self.name == other.name && self.filter == other.filter && self.action == other.action
    }

    pub(super) fn describe(&self) -> String {
        let outputs = match self.outputs.is_empty() {
            true => "all outputs".to_owned(),
            false => self.outputs.join(", "),
        };
        let which = if self.filter.is_any() { "records that meet it" } else { "all other records" };
        let action = match &self.action {
            RecordAction::Keep => format!("{which} are kept"),
            RecordAction::Drop => format!("{which} are dropped"),
            RecordAction::Sample { threshold, by } => {
                let kept = (RANDOM - threshold) as f64 / RANDOM as f64;
                let by = by.as_ref().map_or_else(String::new, |by| format!(", by {by}"));
                format!("a share of {kept} of {which} is kept{by}")
            }
            RecordAction::Rate { records, period, burst } => {
                let period = std::time::Duration::from_nanos(*period);
                let period = humantime::format_duration(period);
                format!("of {which}, {records} in {period} are kept, at most {burst} at once")
            }
        };
        format!("rule {}, for {outputs}: {action}", self.name.as_str())
    }
}

/// A key and what is wrong with its value.
type Wrong = (&'static str, String);

fn action(keys: &Keys) -> Result<RecordAction, Wrong> {
    let given =
        [keys.keep.is_some(), keys.drop.is_some(), keys.sample.is_some(), keys.rate.is_some()];
    if given.iter().filter(|given| **given).count() != 1
        || keys.keep == Some(false)
        || keys.drop == Some(false)
    {
        let what =
            "a rule has one of keep = true, drop = true, sample = 0.01 and rate = \"1000/s\"";
        return Err(("", what.to_owned()));
    }
    if keys.by.is_some() && keys.sample.is_none() {
        return Err(("by", "by is for sample".to_owned()));
    }
    if keys.burst.is_some() && keys.rate.is_none() {
        return Err(("burst", "burst is for rate".to_owned()));
    }
    if let Some(share) = keys.sample {
        // One that is not a number is in no range.
        if !(share > 0.0 && share < 1.0) {
            let what = format!(
                "sample is a share between 0 and 1, and not {share}: to keep all or none, write \
                 keep = true or drop = true"
            );
            return Err(("sample", what));
        }
        // At least the least share that 56 bits can say.
        let kept = ((share * RANDOM as f64).round() as u64).max(1);
        let threshold = RANDOM.saturating_sub(kept);
        return Ok(RecordAction::Sample { threshold, by: keys.by.clone() });
    }
    match &keys.rate {
        Some(rate) => limit(rate, keys.burst),
        None if keys.keep.is_some() => Ok(RecordAction::Keep),
        None => Ok(RecordAction::Drop),
    }
}

fn limit(rate: &str, burst: Option<u32>) -> Result<RecordAction, Wrong> {
    let parsed = rate.split_once('/').and_then(|(records, period)| {
        let records: u32 = records.trim().replace('_', "").parse().ok()?;
        let period = period.trim();
        let period = match period.starts_with(|first: char| first.is_ascii_digit()) {
            true => parse_duration(period).ok()?,
            false => parse_duration(&format!("1{period}")).ok()?,
        };
        let period = u64::try_from(period.as_nanos()).ok()?;
        (records > 0 && (1..=PERIOD_MAX).contains(&period)).then_some((records, period))
    });
    let (records, period) = parsed.ok_or_else(|| {
        let like = "write records in a time of up to 1h, like 1000/s, 10/m or 5/30s";
        ("rate", format!("{rate:?} is no rate: {like}"))
    })?;
    let burst = burst.unwrap_or(records);
    if burst == 0 {
        let what = "a burst of 0 lets no record pass: write drop = true";
        return Err(("burst", what.to_owned()));
    }
    Ok(RecordAction::Rate { records, period, burst })
}

/// The longest period: an hour.
const PERIOD_MAX: u64 = 3_600_000_000_000;
