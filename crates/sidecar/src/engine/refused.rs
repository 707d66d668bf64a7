//! Losses that a reader comes to although they were passed on before.

use perfring_consumer::{
    Cause,
    stat::{Count, Refused},
};

/// Returns a producer's losses by one cause; none for any other cause.
pub(super) fn refused(cause: Cause, count: Count) -> Refused {
    let mut refused = Refused::default();
    match cause {
        Cause::Full => refused.full = count,
        Cause::TooLarge => refused.too_large = count,
        Cause::Contended => refused.contended = count,
        Cause::Pending => refused.pending = count,
        _ => {}
    }
    refused
}

/// Returns what of a loss is not among those that are `ahead`, if not all of it is, and what of these is left then.
pub(super) fn pass(ahead: Refused, cause: Cause, count: Count) -> (Option<Count>, Refused) {
    let one = refused(cause, count);
    let passed = one.since(one.since(ahead)).total();
    let rest = count.since(passed);
    let is_new = rest.records > 0 || passed.records == 0;
    (is_new.then_some(rest), ahead.since(one))
}
