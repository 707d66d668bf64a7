//! Names of rules by which records are left out.

use std::sync::{Mutex, PoisonError};

/// The longest name, in bytes.
const LEN_MAX: usize = 64;
/// The limit of different names in a process.
const NAMES_MAX: usize = 4096;
/// What precedes a name where causes of losses stand.
const PREFIX: &str = "rule ";

/// All names so far, each with the prefix: a name is as small to copy as any other cause, and is kept until the
/// process ends.
static NAMES: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// The name of a rule by which records are left out.
///
/// ```
/// use perfring_events::{LossCause, RuleName};
/// let name = RuleName::new("debug").unwrap();
/// assert_eq!((name.as_str(), LossCause::Rule(name).name()), ("debug", "rule debug"));
/// assert_eq!(RuleName::new("two words"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleName(&'static str);

impl RuleName {
    /// A rule whose name is not known.
    pub const UNKNOWN: RuleName = RuleName("rule ?");

    /// Returns the rule of this name: 1 to 64 letters, digits, `-`, `_` and `.` of ASCII. `None` for another name, or
    /// if the process knows 4,096 names already.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        let valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > LEN_MAX || !name.bytes().all(valid) {
            return None;
        }
        // A panic cannot leave it half changed.
        let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        let known = names.iter().find(|known| known.strip_prefix(PREFIX) == Some(name));
        if let Some(known) = known {
            return Some(RuleName(known));
        }
        if names.len() >= NAMES_MAX {
            return None;
        }
        let known: &'static str = Box::leak(format!("{PREFIX}{name}").into_boxed_str());
        names.push(known);
        Some(RuleName(known))
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.0.strip_prefix(PREFIX).unwrap_or(self.0)
    }

    /// Returns the name as a cause of losses.
    pub fn cause(self) -> &'static str {
        self.0
    }
}
