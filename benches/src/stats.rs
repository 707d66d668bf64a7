//! Medians and ranges.

/// Returns the middle value, or the mean of the two in the middle. `None` for no values.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => values.get(middle).copied(),
        _ => Some((values.get(middle - 1)? + values.get(middle)?) / 2.0),
    }
}

/// Returns the smallest and the largest value.
pub fn range(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    values.into_iter().fold(None, |range, value| {
        Some(
            range.map_or((value, value), |(low, high): (f64, f64)| {
                (low.min(value), high.max(value))
            }),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0]), Some(3.0));
        assert_eq!(median([9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median([9.0, 1.0, 5.0, 7.0]), Some(6.0));
        assert_eq!(range([2.0, 9.0, 4.0]), Some((2.0, 9.0)));
        assert_eq!(range([]), None);
    }
}
