//! Python to Rust and back: `ask.py` publishes questions in one ring, this program answers in another.
//!
//! ```sh
//! cargo run -q -p perfring --example python -- /dev/shm/questions /dev/shm/answers &
//! python tools/python/examples/ask.py /dev/shm/questions /dev/shm/answers 2 3 5
//! ```

use perfring::bytemuck::{Pod, Zeroable};
use perfring::{Consumer, ConsumerOptions, Item, Options, Producer, Record};
use std::error::Error;
use std::path::Path;
use std::time::Duration;

/// As `ask.py` has it: the same name, and the same fields. The ring's type table says so if they are not.
#[repr(C)]
#[derive(Clone, Copy, Record, Pod, Zeroable)]
#[bytemuck(crate = "perfring::bytemuck")]
#[record(name = "demo.Question")]
struct Question {
    /// How many come after it.
    left: u64,
    x: f64,
}

/// The answer to a question.
#[repr(C)]
#[derive(Clone, Copy, Record, Pod, Zeroable)]
#[bytemuck(crate = "perfring::bytemuck")]
#[record(name = "demo.Answer")]
struct Answer {
    left: u64,
    square: f64,
}

/// Answers each question with its square, until its producer has ended or none comes for ten seconds.
fn main() -> Result<(), Box<dyn Error>> {
    let mut rings = std::env::args().skip(1);
    let (Some(questions), Some(answers)) = (rings.next(), rings.next()) else {
        return Err("usage: python QUESTIONS ANSWERS".into());
    };
    let mut answers = Producer::open_or_create(answers.as_str(), &Options::default())?;
    let patience = Duration::from_secs(10);
    let mut questions =
        Consumer::attach_when_there(Path::new(&questions), &ConsumerOptions::default(), patience)?;
    while questions.wait(patience) {
        while let Some(item) = questions.read()? {
            match item {
                Item::Record(record) => {
                    let Question { left, x } = *record.as_pod::<Question>()?;
                    answers.publish_pod(&Answer { left, square: x * x })?;
                    if left == 0 {
                        return Ok(());
                    }
                }
                Item::Lost(lost) => eprintln!("{lost}"),
            }
        }
    }
    Ok(())
}
