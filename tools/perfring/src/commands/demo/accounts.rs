//! The final account of a ring: its own totals, the producer's count and what the sidecar read,
//! which must agree.

use super::stations::Station;
use super::watch::Seen;
use indicatif::HumanCount;
use perfring_consumer::{Count, Policy, Stat};

/// What a producer counted itself: records that it offered, and those that were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Own {
    pub(super) offered: u64,
    pub(super) refused: u64,
}

/// The account of one ring, in records.
#[derive(Debug)]
pub(super) struct Account {
    name: &'static str,
    policy: Policy,
    written: u64,
    refused: u64,
    read: u64,
    lapped: u64,
    /// A drop ring's records that were not read.
    unread: u64,
    /// Of an overwrite ring: evicted, and still present.
    overwritten: u64,
    present: u64,
    own: Option<Own>,
    /// Figures that do not agree.
    pub(super) faults: Vec<String>,
}

impl Account {
    pub(super) fn new(station: &Station, stat: &Stat, seen: &Seen, own: Option<Own>) -> Self {
        let totals = stat.totals.unwrap_or_default();
        let producer = &totals.producer;
        let present = totals.present.records;
        let mut account = Account {
            name: station.name,
            policy: station.policy,
            written: producer.written.records,
            refused: producer.refused.total().records,
            read: seen.records,
            lapped: seen.lapped.records,
            // The observer of an overwrite ring frees nothing, and has read to the end.
            unread: if station.policy == Policy::Drop { present } else { 0 },
            overwritten: totals.overwritten.records,
            present,
            own,
            faults: Vec::new(),
        };
        if stat.totals.is_none() {
            account.faults.push("the ring's totals are damaged".to_owned());
            return account;
        }
        account.check("wrong records", 0, seen.wrong);
        account.check(
            "read + lapped + present",
            account.written,
            account.read + account.lapped + account.unread,
        );
        match station.policy {
            Policy::Drop => {
                account.check(
                    "the ring's count of read",
                    totals.consumer.read.records,
                    seen.records,
                );
            }
            Policy::Overwrite => {
                let sum = totals.overwritten.plus(totals.present);
                account.check("overwritten + present", account.written, sum.records);
            }
        }
        let reported = seen.full.plus(seen.too_large);
        account.check("reported losses", account.refused, reported.records);
        if let Some(own) = own {
            let offered = own.offered + seen.resources;
            account.check("offered", offered, account.written + account.refused);
            account.check("refused, by the producer's count", own.refused, account.refused);
            let missing = seen.missing + own.offered.saturating_sub(seen.next_seq);
            account.check("missing sequence numbers", missing, account.refused + account.lapped);
        } else {
            // Killed: what it offered last is unknown; what it wrote is in the ring. No record follows what was refused
            // last.
            let last = totals.unreported().records;
            account.check(
                "missing sequence numbers",
                seen.missing,
                reported.records.saturating_sub(last) + account.lapped,
            );
        }
        account
    }

    /// Returns whether all records and losses in the ring were read, according to its totals.
    pub(super) fn is_all_read(stat: &Stat, seen: &Seen) -> bool {
        let Some(totals) = &stat.totals else { return true };
        let (read, written) = (seen.records + seen.lapped.records, totals.producer.written.records);
        // A loss may stand after the last record.
        let reported = seen.full.plus(seen.too_large);
        read >= written && reported.records >= totals.producer.refused.total().records
    }

    fn check(&mut self, what: &str, is: u64, must: u64) {
        if is != must {
            self.faults.push(format!("{what}: {is} and {must}"));
        }
    }

    /// Formats the account as equations.
    pub(super) fn lines(&self) -> String {
        let mut lines = Vec::new();
        let (written, read) = (HumanCount(self.written), HumanCount(self.read));
        if let Some(own) = self.own
            && self.refused > 0
        {
            let (offered, refused) = (HumanCount(own.offered), HumanCount(self.refused));
            lines.push(format!("offered {offered} = written {written} + refused {refused}"));
        }
        match self.policy {
            Policy::Drop => {
                let unread = HumanCount(self.unread);
                lines.push(format!("written {written} = read {read} + present {unread}"));
            }
            Policy::Overwrite => {
                let lapped = HumanCount(self.lapped);
                lines.push(format!("written {written} = read {read} + lapped {lapped}"));
                let (overwritten, present) =
                    (HumanCount(self.overwritten), HumanCount(self.present));
                lines.push(format!(
                    "written {written} = overwritten {overwritten} + present {present}"
                ));
            }
        }
        format!("{:<9}  {}", self.name, lines.join("\n           "))
    }
}

/// Formats losses by cause, for a table.
pub(super) fn causes(seen: &Seen) -> String {
    let causes = [("full", seen.full), ("too_large", seen.too_large), ("lapped", seen.lapped)];
    let reported: Vec<String> = causes
        .iter()
        .filter(|(_, count)| *count != Count::default())
        .map(|(cause, count)| format!("{cause} {}", HumanCount(count.records)))
        .collect();
    if reported.is_empty() { "-".to_owned() } else { reported.join(", ") }
}
