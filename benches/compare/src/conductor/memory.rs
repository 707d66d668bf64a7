//! What the processes of a sample hold.

use super::actor::Actor;
use crate::CompareError;
use std::fs;

/// The sum of the proportional set sizes (Pss) of these processes and of all that they have
/// started, in bytes: a page that two of them share counts half for each. A process that ends
/// meanwhile counts nothing.
pub(super) fn of(cast: &[Actor]) -> Result<u64, CompareError> {
    let mut sum = 0;
    for entry in fs::read_dir("/proc")? {
        let dir = entry?.path();
        let Ok(stat) = fs::read_to_string(dir.join("stat")) else { continue };
        // pid (name) state parent group ...; a name may hold anything, also parentheses.
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let group = fields.split_whitespace().nth(2).and_then(|field| field.parse::<u32>().ok());
        if cast.iter().any(|actor| Some(actor.group()) == group) {
            let rollup = fs::read_to_string(dir.join("smaps_rollup")).unwrap_or_default();
            let pss = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
            let kib =
                pss.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
            sum += kib.unwrap_or_default() * 1024;
        }
    }
    Ok(sum)
}
