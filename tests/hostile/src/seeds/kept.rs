//! Seeds kept from fuzzing. `tests/fuzz/corpus/TARGET.hex` has a line for each, in
//! hexadecimal, the smallest first: `tools/fuzz keep` writes these files.

use super::seed::Seed;
use perfring_testkit::size::workspace;
use std::fs;

/// Reads the kept seeds of a target. Their names are their lines.
pub(super) fn of(target: &str) -> Vec<Seed> {
    let file = format!("tests/fuzz/corpus/{target}.hex");
    let text = fs::read_to_string(workspace().join(&file));
    let text = text.unwrap_or_else(|error| panic!("{file}: {error}"));
    parse(&text).unwrap_or_else(|(line, what)| panic!("{file}, line {line}: {what}"))
}

/// Returns the seeds of a file, or its first damaged line and the damage.
fn parse(text: &str) -> Result<Vec<Seed>, (usize, &'static str)> {
    let mut seeds: Vec<Seed> = Vec::new();
    for (line, digits) in (1..).zip(text.lines()) {
        let bytes = decode(digits).map_err(|what| (line, what))?;
        // The order makes a diff show which inputs came and went, and a repeated line an error.
        if seeds.last().is_some_and(|(_, last)| (last.len(), last) >= (bytes.len(), &bytes)) {
            return Err((line, "not larger than the line before it"));
        }
        seeds.push((line.to_string(), bytes));
    }
    Ok(seeds)
}

fn decode(digits: &str) -> Result<Vec<u8>, &'static str> {
    let digits: Option<Vec<u32>> = digits.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.ok_or("not hexadecimal")?;
    match digits.as_chunks() {
        (pairs, []) => Ok(pairs.iter().map(|[high, low]| (high << 4 | low) as u8).collect()),
        _ => Err("an odd number of digits"),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn lines_in_hexadecimal_are_seeds_and_a_damaged_line_is_named() {
        let seeds = parse("00\nfF\n0a0b\n").expect("valid lines");
        let bytes: Vec<&[u8]> = seeds.iter().map(|(_, bytes)| &**bytes).collect();
        assert_eq!(bytes, [&[0][..], &[0xff], &[10, 11]]);
        let damaged = [
            ("00\n123\n", (2, "an odd number of digits")),
            ("+f\n", (1, "not hexadecimal")),
            ("00\n01 02\n", (2, "not hexadecimal")),
            ("00\nab\nab\n", (3, "not larger than the line before it")),
            ("0000\nff\n", (2, "not larger than the line before it")),
            ("00\n\n", (2, "not larger than the line before it")),
        ];
        for (text, damage) in damaged {
            assert_eq!(parse(text), Err(damage), "{text:?}");
        }
        println!("{} seeds, {} damaged files", seeds.len(), damaged.len());
    }
}
