//! The items of a dictionary whose order is known, without a look-up of each.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::ptr::null_mut;

/// A name that a dictionary has at this place, and where its value goes, if it is wanted.
pub(crate) type Expected = (Py<PyString>, Option<usize>);

/// Names and values.
pub(crate) type Pairs<'py> = Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>;

/// Returns the wanted values of a dictionary that begins with these very names in this order, and the items behind them. `None`
/// if it begins otherwise. Compares no text: a name is the same object.
pub(crate) fn items_of<'py, const N: usize>(
    dict: &Bound<'py, PyDict>,
    expected: &[Expected],
) -> Option<([Option<Bound<'py, PyAny>>; N], Pairs<'py>)> {
    let py = dict.py();
    let (mut wanted, mut more) = ([const { None }; N], Pairs::new());
    let (mut expected, mut at) = (expected.iter(), 0);
    let (mut name, mut value) = (null_mut(), null_mut());
    // SAFETY: `dict` is a dictionary, and its `py` says that this thread has the interpreter. The loop never gives that
    // away: it runs no Python code, as what it counts up and down is alive in the dictionary. So nothing changes the dictionary meanwhile.
    while unsafe { ffi::PyDict_Next(dict.as_ptr(), &mut at, &mut name, &mut value) } != 0 {
        // SAFETY: the call has set both to objects that the dictionary holds.
        let take = |object| unsafe { Bound::from_borrowed_ptr(py, object) };
        match expected.next() {
            Some((its, _)) if its.as_ptr() != name => return None,
            Some((_, Some(to))) => *wanted.get_mut(*to)? = Some(take(value)),
            Some((_, None)) => {}
            None => more.push((take(name), take(value))),
        }
    }
    expected.next().is_none().then_some((wanted, more))
}
