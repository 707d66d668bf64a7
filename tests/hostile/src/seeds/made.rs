//! Seeds made from the golden files, and from the meaning of each target's bytes.

use super::seed::Seed;
use crate::events::golden_types;
use crate::file::GOLDEN;
use perfring_types::Entries;

/// Makes the seeds of a target.
pub(super) fn of(target: &str) -> Vec<Seed> {
    let mut seeds = Vec::new();
    let mut add = |name: &str, parts: &[&[u8]]| seeds.push((name.to_owned(), parts.concat()));
    let text = |text: &str| [&(text.len() as u16).to_le_bytes(), text.as_bytes()].concat();
    match target {
        // Each file unchanged, with every entry point; and as bytes, where it is short.
        "attach" => {
            for (at, (name, _)) in GOLDEN.iter().enumerate() {
                for (entries, shape) in [(0b1110_0011, 0), (0b1000_1100, 0), (0b0111_1111, 1)] {
                    let at = [shape, at as u8];
                    let stretch: &[u8] = if shape == 1 { &[1, 1, 0, 2, 0, 1] } else { &[] };
                    let turns: Vec<u8> =
                        (0..48_u8).flat_map(|turn| [1, turn.wrapping_mul(37), 40]).collect();
                    add(
                        &format!("{name}-{entries:02x}"),
                        &[&at, stretch, &[entries, 0, 0], &turns],
                    );
                }
            }
            add("bytes", &[GOLDEN[4].1]);
        }
        "read" | "recover" | "kernel" => {
            for shape in 0..=255_u8 {
                if shape % 5 == 0 {
                    let turns: Vec<u8> = (0..160_u8)
                        .flat_map(|turn| [5 + turn % 11, turn.wrapping_mul(29) ^ shape, 24, 3])
                        .collect();
                    add(&format!("{shape:02x}"), &[&[shape % 7, shape, 40], &turns]);
                }
            }
        }
        "types" => {
            let words = golden_types();
            add("table", &[&[0], bytemuck::cast_slice(&words)]);
            for entry in Entries::new(&words).map_while(Result::ok) {
                let id = entry.id.get();
                add(&format!("{id:x}"), &[&[2], &text(entry.text), &[0; 64]]);
                add(&format!("{id:x}-entry"), &[&[1, 0xff, 0xff, 0], &text(entry.text)]);
            }
            add("archive", &[&[4], &[1; 8], &[0xff; 80]]);
            add("tagged", &[&[5, 200, 0, 9], &[0x80, 1, 4, 0], b"name", &[7; 64]]);
        }
        "where" => {
            for condition in ["level>=High", "at.x<7", "list.1=two", "maybe!=no", "a~b", "x==0x1f"]
            {
                let json = br#"{"level":3,"at":{"x":9},"list":[1,2.5e3,"two"],"a":"abc","x":null}"#;
                add(
                    condition.split('.').next().unwrap_or_default(),
                    &[&text(condition), &31_u64.to_le_bytes(), json],
                );
            }
        }
        "config" => {
            add("all", &[CONFIG.as_bytes()]);
            for (at, table) in CONFIG.split("\n\n").enumerate() {
                add(&format!("part-{at}"), &[table.as_bytes()]);
            }
            add(
                "flags",
                &[b"json:-\nnull\notlp:http://localhost:4318\nnats:a:1\nperfetto:x\nfax:1"],
            );
        }
        "recording" => {
            for what in 0..12_u8 {
                let frame = |what: u8, flags: u8, body: &[u8]| {
                    let len = (body.len() as u16).to_le_bytes();
                    [&[what, flags], &len[..], body, &[1]].concat()
                };
                let (ring, body) = (frame(2, 8, &[0; 64]), [[0; 4], [7; 4]].concat().repeat(6));
                add(
                    &format!("frame-{what}"),
                    &[&[129, 2], &ring, &frame(7, 0, &[0; 4]), &frame(what, 8, &body)],
                );
            }
            // A ring, a record and how their block is compressed: truly, or with each lie and claim.
            for how in 0..64_u8 {
                let frame = |what: u8, body: &[u8]| {
                    let len = (body.len() as u16).to_le_bytes();
                    [&[what, 8], &len[..], body, &[1]].concat()
                };
                let frames = [frame(2, &[0; 64]), frame(7, &[0; 4]), frame(5, &[0; 64])].concat();
                let lie: &[u8] = if (3..8).contains(&(how % 8)) { &[0xff; 8] } else { &[] };
                add(&format!("packed-{how:02x}"), &[&[65 | how << 7, 2], &frames, &[how], lie]);
            }
            add("zstd", &[&[0], &crate::recording::recorded()]);
        }
        "export" | "engines" => {
            for which in 0..48_u8 {
                let bits = if target == "export" { 1 << (which % 6) } else { which << 4 };
                let turns: Vec<u8> = (0..24_u8)
                    .flat_map(|turn| {
                        let kind = turn.wrapping_mul(7).wrapping_add(which);
                        let tagged = [6, turn, 3, 1, 0x80, 5, 0, 9, 0xc4, 3, 0, b'a', b'b', b'c'];
                        [&[0, turn.wrapping_mul(3), kind][..], &tagged, &[9, 8, 7, 6, 5, 4, 3]]
                            .concat()
                    })
                    .collect();
                add(&format!("{which:02x}"), &[&[bits, which % 3], &[which & 0xe0, 1], &turns]);
            }
        }
        _ => {}
    }
    seeds
}

const CONFIG: &str = include_str!("../../../../tools/sidecar.toml");

#[cfg(test)]
mod tests {
    use crate::recording::{built, read, recorded};
    use perfring_testkit::choices::Input;

    #[test]
    fn compressed_blocks_that_are_what_they_claim_are_read() {
        assert_eq!(read(&*recorded()), 40);
        let seeds = super::of("recording");
        let packed = seeds.iter().filter(|(name, _)| name.starts_with("packed-"));
        let (mut whole, mut spoiled) = (0, 0);
        for (name, seed) in packed {
            let built = built(&mut Input::new(&seed[1..]), true);
            let packed = built.packed.expect("it is asked for");
            match built.spoiled {
                false => {
                    assert_eq!((read(&*built.plain), read(&*packed)), (1, 1), "{name}");
                    whole += 1;
                }
                true => spoiled += 1,
            }
        }
        println!("{whole} are whole, {spoiled} are spoiled");
        assert!(whole > 8 && spoiled > 8, "{whole} {spoiled}");
    }
}
