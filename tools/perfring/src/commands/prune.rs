//! `perfring prune`: removes rings that are no longer needed.

use crate::args::{self, show_size};
use crate::commands::ls::{self, age};
use crate::failure::{Failure, note};
use crate::output::figures_format::FiguresFormat;
use crate::output::json::line;
use perfring_export::Stream;
use perfring_figures::owner::{count, printable};
use perfring_producer::files::dead_drafts;
use perfring_set::{Fate, Kept, PruneRule, Pruner, RingSet, Verdict};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

/// Remove the rings of a directory that are dead and read to their end
///
/// Without DIR, prunes the default directory of rings, see `perfring ls --help`. A ring that any
/// process produces to or consumes from is never removed, nor is one with unread records: use
/// `perfring rm` for such a ring. Each ring is checked again with the locks of its producers and
/// consumer held, so that a producer that attaches at that moment loses nothing.
///
/// The time that a ring is dead is counted from its last sign of life: its creation, the last
/// attach, its newest record.
///
/// Files named .perfring-*.tmp belong to rings that were never finished. They are removed if the
/// process that made them was killed.
///
/// Example: perfring prune --dead-for 10m --keep 20 --dry-run
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory
    dir: Option<PathBuf>,
    /// Remove nothing, only print what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Keep rings that were alive less than this ago, like 90s, 10m or 1h 30m; 0s keeps none
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = args::parse_duration)]
    dead_for: Duration,
    /// Keep the N newest of the rings that could be removed
    #[arg(long, value_name = "N", default_value_t = 0)]
    keep: usize,
    /// Limit the size of all rings together: beyond it, younger dead rings are removed as well, and
    /// those of --keep
    #[arg(long, value_name = "BYTES", value_parser = args::parse_size)]
    max_bytes: Option<u64>,
    /// Also remove overwrite rings that hold records: a dead program's last words
    #[arg(long)]
    flight_recorders: bool,
    #[command(flatten)]
    format: FiguresFormat,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let dir = args.dir.clone().unwrap_or_else(RingSet::default_dir);
    ls::list(&dir)?; // reports an unusable directory
    let rule = PruneRule {
        dead_for: args.dead_for,
        keep: args.keep,
        max_bytes: args.max_bytes,
        flight_recorders: args.flight_recorders,
    };
    let draft = |path| Draft { bytes: fs::metadata(&path).map_or(0, |meta| meta.len()), path };
    let dirs = perfring_set::dirs(&dir).unwrap_or_default();
    let drafts = dirs.iter().flat_map(|dir| dead_drafts(dir).unwrap_or_default());
    let drafts: Vec<_> = drafts.map(draft).collect();
    let mut pruner = Pruner::new(&dir, rule);
    let verdicts = if args.dry_run { pruner.plan() } else { pruner.prune() }?;
    let mut out = BufWriter::new(Stream::stdout());
    let json = args.format.is_json();
    let written = verdicts.iter().try_for_each(|verdict| match json {
        true => line(&mut out, &object(verdict, args.dry_run)),
        false => writeln!(out, "{}", sentence(verdict, args.dry_run)),
    });
    let written = written.and_then(|()| {
        drafts.iter().try_for_each(|draft| match json {
            true => line(&mut out, &draft.object(args.dry_run)),
            false => writeln!(out, "{}", draft.sentence(args.dry_run)),
        })
    });
    if let Err(error) = written.and_then(|()| out.flush()) {
        // What is gone is named in any case.
        let removed = verdicts.iter().filter(|it| matches!(it.fate, Fate::Removed { .. }));
        removed.for_each(|removed| note(&sentence(removed, args.dry_run)));
        return Err(Failure::output(error));
    }
    let failed = verdicts.iter().filter(|it| matches!(it.fate, Fate::Failed(_))).count()
        + drafts.iter().filter(|draft| !args.dry_run && draft.path.exists()).count();
    match failed {
        0 => Ok(()),
        failed => Err(Failure::General(format!(
            "{} could not be removed or judged, as reported above",
            count(failed as u64, "ring")
        ))),
    }
}

/// A ring that was never finished.
struct Draft {
    path: PathBuf,
    bytes: u64,
}

impl Draft {
    const WHY: &str = "the process that made it was killed before it was a ring";

    fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn sentence(&self, dry: bool) -> String {
        let (name, size) = (printable(&self.name()), show_size(self.bytes));
        match (dry, self.path.exists()) {
            (true, _) => format!("would remove {name}: {size}, {}", Self::WHY),
            (false, false) => format!("removed {name}: {size}, {}", Self::WHY),
            (false, true) => format!("failed {name}: no permission to remove it; {}", Self::WHY),
        }
    }

    fn object(&self, dry: bool) -> Value {
        let outcome = match (dry, self.path.exists()) {
            (true, _) => "would_remove",
            (false, false) => "removed",
            (false, true) => "failed",
        };
        json!({
            "name": self.name(),
            "ring": self.path.display().to_string(),
            "uuid": null,
            "file_size": self.bytes,
            "outcome": outcome,
            "reason": Self::WHY,
        })
    }
}

fn sentence(verdict: &Verdict, dry: bool) -> String {
    let name = printable(&verdict.ring.name);
    match &verdict.fate {
        Fate::Removed { dead_for, totals } => {
            let removed = if dry { "would remove" } else { "removed" };
            let (size, dead) = (show_size(verdict.bytes), age(*dead_for));
            let mut said = format!("{removed} {name}: {size}, last alive {dead} ago");
            if totals.present.records > 0 {
                said += &format!(", with {}", count(totals.present.records, "record"));
            }
            let unreported = totals.unreported().records;
            if unreported > 0 {
                let refused = count(unreported, "record");
                said +=
                    &format!("; {refused} had been refused since the last report in its stream");
            }
            said
        }
        Fate::Kept(why) => format!("kept {name}: {}", reason(why)),
        Fate::Failed(error) => format!("failed {name}: {error}"),
    }
}

/// Says why a ring is kept, and what removes it nevertheless.
fn reason(why: &Kept) -> String {
    let but = match why {
        Kept::Young(_) => "; --dead-for says how long is enough",
        Kept::Newest => "; --keep says how many are kept",
        Kept::LastRecords(_) | Kept::LastValues(_) => {
            "; --flight-recorders removes it nevertheless"
        }
        Kept::Unread(_) | Kept::Damaged => "; `perfring rm` removes it nevertheless",
        Kept::Stranded(_) => " with `perfring recover`, or remove it with `perfring rm`",
        _ => "",
    };
    format!("{why}{but}")
}

fn object(verdict: &Verdict, dry: bool) -> Value {
    let (outcome, reason) = match &verdict.fate {
        Fate::Removed { .. } if dry => ("would_remove", None),
        Fate::Removed { .. } => ("removed", None),
        Fate::Kept(why) => ("kept", Some(reason(why))),
        Fate::Failed(error) => ("failed", Some(error.to_string())),
    };
    let mut object = json!({
        "name": verdict.ring.name,
        "ring": verdict.ring.path.display().to_string(),
        "uuid": uuid::Uuid::from_bytes(verdict.ring.identity.uuid).to_string(),
        "file_size": verdict.bytes,
        "outcome": outcome,
        "reason": reason,
    });
    if let Fate::Removed { dead_for, totals } = &verdict.fate {
        object["dead_for_ns"] = u64::try_from(dead_for.as_nanos()).unwrap_or(u64::MAX).into();
        object["present_records"] = totals.present.records.into();
        object["unreported_records"] = totals.unreported().records.into();
    }
    object
}
