//! Samples of each instrument, by its name.

#[path = "../../examples/metrics.rs"]
mod example;

#[test]
fn each_sample_is_printed_with_its_instrument() {
    let dir = tempfile::tempdir().unwrap();
    example::write(dir.path(), &b"250\n500\n"[..]).unwrap();
    let mut out = Vec::new();
    example::read(dir.path(), &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    let samples: Vec<String> = out
        .lines()
        .filter_map(|line| {
            let value = line.split(' ').find(|word| word.starts_with("value="))?;
            Some(format!("{} {value}", line.split(' ').next()?))
        })
        .collect();
    let expected = [
        "shop.orders value=1",
        "shop.last value=250.0",
        "shop.price value=250.0",
        "shop.orders value=2",
        "shop.last value=500.0",
        "shop.price value=500.0",
    ];
    assert_eq!(samples, expected, "{out}");
}
