//! Where an output keeps what its receiver refuses for good. All builds know the key: a configuration is checked by all.

use crate::delivery::terms::Terms;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::path::PathBuf;

/// The key `dead_letters`: where an output keeps what its receiver refuses for good.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeadLetterFile {
    /// In `dead-letters-NAME.jsonl` in the directory of [`Terms::dead_letters`]; nowhere if there is none.
    #[default]
    Default,
    /// Nowhere: written as `false`.
    Off,
    /// In this file.
    At(PathBuf),
}

impl DeadLetterFile {
    /// Returns the path of the file of the output of this name; `None` if there is none.
    ///
    /// ```
    /// use perfring_events::{DeadLetterFile, Terms};
    /// let terms = Terms { dead_letters: Some("/var/lib/perfring".into()), ..Terms::default() };
    /// let path = DeadLetterFile::Default.path("otlp", &terms);
    /// assert_eq!(path, Some("/var/lib/perfring/dead-letters-otlp.jsonl".into()));
    /// ```
    #[must_use]
    pub fn path(&self, output: &str, terms: &Terms) -> Option<PathBuf> {
        match (self, &terms.dead_letters) {
            (DeadLetterFile::At(path), _) => Some(path.clone()),
            (DeadLetterFile::Default, Some(dir)) => {
                let plain = |c: char| if matches!(c, '/' | '\0') { '-' } else { c };
                let name: String = output.chars().map(plain).collect();
                Some(dir.join(format!("dead-letters-{name}.jsonl")))
            }
            (DeadLetterFile::Default, None) | (DeadLetterFile::Off, _) => None,
        }
    }
}

impl<'de> Deserialize<'de> for DeadLetterFile {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Path(PathBuf),
            Is(bool),
        }
        let wrong = "dead_letters is the path of a file, or false for none";
        match Written::deserialize(from).map_err(|_| D::Error::custom(wrong))? {
            Written::Path(path) if path.as_os_str().is_empty() => Err(D::Error::custom(wrong)),
            Written::Path(path) => Ok(DeadLetterFile::At(path)),
            Written::Is(false) => Ok(DeadLetterFile::Off),
            Written::Is(true) => Err(D::Error::custom(wrong)),
        }
    }
}
