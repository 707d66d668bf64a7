//! Enums in plain records.

use bytemuck::{Pod, Zeroable};
use perfring_types::{Enum, Kind, Label, Labelled, Record, Shaped};

#[repr(u8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Record)]
enum State {
    Idle,
    Busy = 5,
    #[default]
    #[record(name = "over")]
    Done,
}

#[repr(i16)]
#[derive(Clone, Copy, Debug, PartialEq, Record)]
enum Way {
    Back = -1,
    r#Stay = 0,
    Far = 300,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable, Record)]
struct Worker {
    states: [Enum<State>; 4],
}

#[test]
fn values_survive_a_round_trip() {
    for state in [State::Idle, State::Busy, State::Done] {
        let field = Enum::from(state);
        assert_eq!((field.get(), field.raw()), (Ok(state), state as u8));
    }
    for way in [Way::Back, Way::Stay, Way::Far] {
        assert_eq!(Enum::from(way).get(), Ok(way));
    }
    assert_eq!(size_of::<Enum<State>>(), 1);
    assert_eq!(size_of::<Enum<Way>>(), 2);
}

#[test]
fn a_number_without_a_name_is_returned_as_it_is() {
    let worker: Worker = bytemuck::cast([0u8, 5, 6, 7]);
    assert_eq!(worker.states[3].get(), Err(7));
    assert_eq!(worker.states[3].name(), None);
    assert_eq!(worker.states[2].name(), Some("over"));
    assert_eq!(format!("{:?}", worker.states), "[Idle, Busy, over, 7]");
    let far = bytemuck::cast::<i16, Enum<Way>>(-300);
    assert_eq!(far.get(), Err(-300));
}

#[test]
fn the_shape_contains_numbers_and_names() {
    let shape = <Enum<Way>>::SHAPE;
    assert_eq!((shape.kind, shape.size), (Kind::Enum, 2));
    assert_eq!(shape.of.map(|of| of.kind), Some(Kind::I16));
    let labels = [(-1, "Back"), (0, "Stay"), (300, "Far")];
    assert_eq!(shape.labels, labels.map(|(value, name)| Label { value, name }));
    assert_eq!(State::LABELS[2], Label { value: 6, name: "over" });
}

#[test]
fn the_default_is_the_enums_own_and_not_zero() {
    assert_eq!(Worker::default().states[0].get(), Ok(State::Done));
    assert_eq!(Worker::zeroed().states[0].get(), Ok(State::Idle));
}
