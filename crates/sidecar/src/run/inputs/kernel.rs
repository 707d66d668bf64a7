//! The kernel's events, as an input.

use crate::config::Input;
use crate::engine::Engine;
use crate::log::Say;
use perfring_kernel::{EventKind, Options, Target};

pub(super) struct Kernel {
    pub(super) input: Input,
    options: Options,
    opened: bool,
    /// The reason why they are not read that was reported.
    reported: String,
}

impl Kernel {
    pub(super) fn new(input: &Input, events: &[EventKind], pid: Option<u32>) -> Self {
        let target = pid.map_or(Target::System, Target::Process);
        let options = Options { events: events.to_vec(), ..Options::of(target) };
        Kernel { input: input.clone(), options, opened: false, reported: String::new() }
    }

    /// Opens the events, unless they are open. It may be allowed later, or the process may start.
    pub(super) fn open(&mut self, engine: &mut Engine, say: &mut Say<'_>) {
        if self.opened {
            return;
        }
        let error = match perfring_kernel::open(&self.options) {
            Ok(rings) => {
                self.opened = true;
                for ring in rings {
                    let name = match self.options.target {
                        Target::Process(pid) => format!("kernel-{pid}-{}", ring.cpu()),
                        _ => format!("kernel-{}", ring.cpu()),
                    };
                    engine.add_kernel(&name, ring, &self.input);
                }
                return;
            }
            Err(error) => error,
        };
        let why = format!("the kernel's events are not read: {error}");
        if why != self.reported {
            say.warn(&why);
            self.reported = why;
        }
    }

    /// Returns why they are not read.
    pub(super) fn trouble(&self) -> Option<&str> {
        (!self.opened && !self.reported.is_empty()).then_some(&self.reported)
    }
}
