//! The metrics area against a plain model: any order of registrations, updates and deaths; and areas of any words.
#![cfg(not(loom))]

use perfring_abi::RecordType;
use perfring_abi::atomic::{AtomicU64, Ordering};
use perfring_ring::{
    BadArea, BadPart, BlockOwner, Buckets, MetricKind, MetricValue, MetricsArea, MetricsWriter,
    NewBlock, NoBlock, add, add_f64, measure, set,
};
use proptest::prelude::*;

const PROCESSES: u32 = 4;

fn narrow() -> Buckets {
    Buckets::new(1, -4, 4).unwrap()
}

fn kinds() -> [MetricKind; 8] {
    [
        MetricKind::CounterU64,
        MetricKind::CounterF64,
        MetricKind::UpDownI64,
        MetricKind::UpDownF64,
        MetricKind::GaugeI64,
        MetricKind::GaugeF64,
        MetricKind::Histogram(narrow()),
        MetricKind::Record(20),
    ]
}

fn id(number: usize) -> RecordType {
    RecordType::new(5000 + number as u32).unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    Take { process: u32, number: usize, stripes: u32 },
    Update { block: usize, by: i8, stripe: u32 },
    Die { process: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    let process = || 0..PROCESSES;
    prop_oneof![
        3 => (process(), 0usize..8, 1u32..4)
            .prop_map(|(process, number, stripes)| Step::Take { process, number, stripes }),
        6 => (any::<prop::sample::Index>(), any::<i8>(), 0u32..4)
            .prop_map(|(at, by, stripe)| Step::Update { block: at.index(64), by, stripe }),
        1 => process().prop_map(|process| Step::Die { process }),
    ]
}

/// A block as it should be.
#[derive(Clone, Debug)]
struct Model {
    kind: MetricKind,
    number: usize,
    stripes: u32,
    owner: BlockOwner,
    whole: i64,
    double: f64,
    is_set: bool,
    measured: Vec<f64>,
    refused: u64,
    payload: Vec<u8>,
}

impl Model {
    fn value(&self) -> Option<MetricValue> {
        Some(match self.kind {
            MetricKind::CounterU64 => MetricValue::U64(self.whole.cast_unsigned()),
            MetricKind::UpDownI64 => MetricValue::I64(self.whole),
            MetricKind::CounterF64 | MetricKind::UpDownF64 => MetricValue::F64(self.double),
            MetricKind::GaugeI64 if self.is_set => MetricValue::I64(self.whole),
            MetricKind::GaugeF64 if self.is_set => MetricValue::F64(self.double),
            MetricKind::GaugeI64 | MetricKind::GaugeF64 => return None,
            MetricKind::Record(_) => MetricValue::Record(self.payload.clone()),
            MetricKind::Histogram(buckets) => {
                let mut counts = vec![0; buckets.count()];
                let (mut zeros, mut sum) = (0, 0.0);
                for value in &self.measured {
                    sum += value; // halves: exact in any order
                    if *value == 0.0 {
                        zeros += 1;
                        continue;
                    }
                    let at = (value.log2() * 2.0).ceil() as i32 - 1 - buckets.first();
                    match usize::try_from(at) {
                        Ok(at) => counts[at.min(buckets.count() - 1)] += 1,
                        Err(_) => zeros += 1,
                    }
                }
                let least = self.measured.iter().copied().reduce(f64::min);
                let range = least.zip(self.measured.iter().copied().reduce(f64::max));
                MetricValue::Histogram { buckets, counts, zeros, sum, range, refused: self.refused }
            }
        })
    }
}

fn run(steps: &[Step]) {
    let words: Vec<AtomicU64> = (0..8 * 40).map(|_| AtomicU64::new(0)).collect();
    let (writer, area) = (MetricsWriter::new(&words), MetricsArea::new(&words));
    let mut blocks: Vec<(usize, usize, Model)> = Vec::new(); // where, how many words, what
    let mut epochs = [1u64; PROCESSES as usize];
    let (mut dead, mut refused, mut replaced) = (Vec::<BlockOwner>::new(), 0, 0);
    for step in steps {
        match *step {
            Step::Take { process, number, stripes } => {
                let kind = kinds()[number];
                let epoch = epochs[process as usize];
                let owner = BlockOwner { slot: process, epoch, pid: 100 * process + epoch as u32 };
                let payload: Vec<u8> = (0..20).map(|byte| byte + owner.pid as u8).collect();
                let new =
                    NewBlock { id: id(number), kind, stripes, owner, start: 7, payload: &payload };
                let taken = writer.take(new, |owner| dead.contains(&owner));
                let Ok(place) = taken else {
                    refused += 1;
                    let is_same = |model: &Model| {
                        (model.number, model.stripes) == (number, stripes.next_power_of_two())
                            && dead.contains(&model.owner)
                    };
                    assert!(!blocks.iter().any(|(.., model)| is_same(model)), "{new:?}");
                    continue;
                };
                let fresh = Model {
                    kind,
                    number,
                    stripes: place.stripes,
                    owner,
                    whole: 0,
                    double: 0.0,
                    is_set: false,
                    measured: Vec::new(),
                    refused: 0,
                    payload,
                };
                match blocks.iter_mut().find(|(at, ..)| *at == place.word) {
                    None => blocks.push((place.word, place.words, fresh)),
                    Some((.., before)) => {
                        assert!(dead.contains(&before.owner) && before.number == number);
                        replaced += 1;
                        *before = fresh;
                    }
                }
            }
            Step::Update { block, by, stripe } => {
                let count = blocks.len().max(1);
                let Some((at, len, model)) = blocks.get_mut(block % count) else { continue };
                let (words, stripe) = (&words[*at..*at + *len], stripe % model.stripes);
                let half = f64::from(by) / 2.0;
                match model.kind {
                    MetricKind::CounterU64 | MetricKind::UpDownI64 => {
                        let by = i64::from(by);
                        add(words, stripe, by.cast_unsigned());
                        model.whole += by;
                    }
                    MetricKind::CounterF64 | MetricKind::UpDownF64 => {
                        add_f64(words, stripe, half);
                        model.double += half;
                    }
                    MetricKind::GaugeI64 => {
                        set(words, i64::from(by).cast_unsigned());
                        (model.whole, model.is_set) = (by.into(), true);
                    }
                    MetricKind::GaugeF64 => {
                        set(words, half.to_bits());
                        (model.double, model.is_set) = (half, true);
                    }
                    MetricKind::Histogram(buckets) => {
                        measure(words, buckets, stripe, half);
                        match half < 0.0 {
                            true => model.refused += 1,
                            false => model.measured.push(half),
                        }
                    }
                    MetricKind::Record(_) => {}
                }
            }
            Step::Die { process } => {
                let epoch = epochs[process as usize];
                dead.push(BlockOwner { slot: process, epoch, pid: 100 * process + epoch as u32 });
                epochs[process as usize] += 1;
            }
        }
        let found: Vec<_> = area.blocks().map(Result::unwrap).collect();
        let fill = area.fill();
        assert_eq!((found.len(), fill.refused, fill.replaced), (blocks.len(), refused, replaced));
        for (block, (at, _, model)) in found.iter().zip(&blocks) {
            assert_eq!(
                (block.at, block.id, block.kind),
                (8 * *at as u64, id(model.number), model.kind)
            );
            let expected = model.value().map(|value| (model.owner, 7, value));
            assert_eq!((block.owner(), block.sample()), (Some(model.owner), expected));
        }
    }
}

proptest! {
    #[test]
    fn every_value_is_what_its_process_has_measured(steps in proptest::collection::vec(step(), 0..60)) {
        run(&steps);
    }

    #[test]
    fn an_area_of_any_words_is_read_within_its_bounds(
        mut image in proptest::collection::vec(
            prop_oneof![Just(0u64), 0u64..9, 64u64..2048, any::<u64>(),
                (5000u64..5010, 0u64..10, 0u64..130).prop_map(|(id, kind, stripes)| id | kind << 32 | stripes << 40)],
            0..160),
        used in prop_oneof![0u64..1400, any::<u64>()],
    ) {
        if let Some(word) = image.first_mut() {
            *word = used;
        }
        let words: Vec<_> = image.into_iter().map(AtomicU64::new).collect();
        let area = MetricsArea::new(&words);
        let mut end = 64;
        for block in area.blocks().map_while(Result::ok) {
            prop_assert!(block.at >= end && block.at < 8 * words.len() as u64);
            end = block.at + 64;
            let _ = (block.owner(), block.sample());
        }
        let owner = BlockOwner { slot: 1, epoch: 1, pid: 1 };
        let (id, start) = (RecordType::new(5000).unwrap(), 0);
        let new = NewBlock { id, kind: MetricKind::CounterU64, stripes: 1, owner, start, payload: &[] };
        if let Ok(place) = MetricsWriter::new(&words).take(new, |_| true) {
            prop_assert!(place.word + place.words <= words.len());
        }
    }
}

#[test]
fn a_block_of_a_kind_that_is_not_known_is_passed_over_and_damage_ends_the_area() {
    let words: Vec<AtomicU64> = (0..8 * 12).map(|_| AtomicU64::new(0)).collect();
    let (writer, area) = (MetricsWriter::new(&words), MetricsArea::new(&words));
    let owner = BlockOwner { slot: 1, epoch: 1, pid: 1 };
    let new = |number| NewBlock {
        id: id(number),
        kind: MetricKind::CounterU64,
        stripes: 1,
        owner,
        start: 0,
        payload: &[],
    };
    let places: Vec<_> = (0..3).map(|at| writer.take(new(at), |_| false).unwrap()).collect();
    let later = &words[places[1].word];
    later.store(later.load(Ordering::Relaxed) ^ 0xf0 << 32, Ordering::Relaxed);
    let ids = || area.blocks().map(|block| block.map(|block| block.id)).collect::<Vec<_>>();
    assert_eq!(ids(), [Ok(id(0)), Ok(id(2))], "a later version's");
    let is_damage = |word: usize, put: u64, what: BadPart, value: u64| {
        let good = words[word].swap(put, Ordering::Relaxed);
        let bad = BadArea { at: 192, what, value };
        assert_eq!(ids(), [Ok(id(0)), Err(bad)], "what precedes it is good");
        assert_eq!(
            writer.take(new(3), |_| true),
            Err(NoBlock::Damaged(bad)),
            "nobody would see it"
        );
        assert_eq!(area.fill().refused, 0, "it is not for want of room");
        words[word].store(good, Ordering::Relaxed);
        bad.to_string()
    };
    let (second, end) = (places[1].word, 64 + 3 * 128);
    later.store(u64::from(id(1).get()) | 1 << 32 | 1 << 40, Ordering::Relaxed);
    let after = "the metrics area is damaged 192 bytes after its beginning: ";
    let said = is_damage(second + 1, 72, BadPart::Size, 72);
    assert_eq!(said, format!("{after}no block can have a size of 72 bytes there"));
    let said = is_damage(second + 1, 64, BadPart::Fit, 64);
    assert_eq!(
        said,
        format!("{after}a size of 64 bytes does not fit the block's kind and stripes")
    );
    let said = is_damage(second, 1 << 32 | 1 << 40, BadPart::Type, 0);
    assert_eq!(said, format!("{after}no instrument has the record type 0"));
    let said = is_damage(second, 5001 | 1 << 32 | 3 << 40, BadPart::Stripes, 3);
    assert_eq!(said, format!("{after}no block has 3 stripes"));
    let said = is_damage(second, 5001 | 7 << 32 | 1 << 40, BadPart::Shape, 0);
    assert_eq!(said, format!("{after}no instrument of the block's kind has the shape 0x0"));
    for bad in [end + 8, 8 * 8 * 12 + 64, 8, u64::MAX] {
        let shown = if bad == 8 { 0 } else { 3 };
        words[0].store(bad, Ordering::Relaxed);
        let damage = BadArea { at: 0, what: BadPart::End, value: bad };
        let found = ids();
        assert_eq!((found.len(), found.last()), (shown + 1, Some(&Err(damage))), "{bad}");
        assert_eq!(writer.take(new(3), |_| true), Err(NoBlock::Damaged(damage)));
    }
}
