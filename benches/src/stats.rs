//! Medians, and ratios among samples of one distance.

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

/// Returns the ratio of two medians, each of the values of this one distance, by its name. `None`
/// for samples whose distance has changed.
pub fn ratio(distance: &str, values: &[(&str, f64)], base: &[(&str, f64)]) -> Option<f64> {
    let of = |values: &[(&str, f64)]| {
        median(values.iter().filter(|(at, _)| *at == distance).map(|(_, value)| *value))
    };
    if distance == "mixed" { None } else { Some(of(values)? / of(base)?) }
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

    #[test]
    fn only_samples_of_one_distance_are_compared() {
        let [near, far, mixed] = ["near", "far", "mixed"];
        let floor = [(near, 100.0), (near, 120.0), (near, 110.0), (far, 20.0), (mixed, 60.0)];
        let ring = [(near, 55.0), (far, 16.0), (mixed, 1000.0)];
        assert_eq!(ratio(near, &ring, &floor), Some(0.5));
        assert_eq!(ratio(far, &ring, &floor), Some(0.8));
        assert_eq!(ratio(mixed, &ring, &floor), None);
        assert_eq!(ratio(far, &[(near, 55.0)], &floor), None);
    }
}
