//! The kernel's events, and the records of BPF programs, as inputs.

use crate::config::Input;
use crate::engine::Engine;
use crate::log::Say;
use perfring_kernel::{BpfOptions, BpfRing, EventKind, Options, Target};

pub(super) struct Kernel {
    pub(super) input: Input,
    what: What,
    opened: bool,
    /// The reason why they are not read that was reported.
    reported: String,
}

enum What {
    Events(Options),
    Map(BpfOptions),
}

impl Kernel {
    pub(super) fn events(input: &Input, events: &[EventKind], pid: Option<u32>) -> Self {
        let target = pid.map_or(Target::System, Target::Process);
        Self::new(input, What::Events(Options { events: events.to_vec(), ..Options::of(target) }))
    }

    pub(super) fn map(input: &Input, options: &BpfOptions) -> Self {
        Self::new(input, What::Map(options.clone()))
    }

    fn new(input: &Input, what: What) -> Self {
        Kernel { input: input.clone(), what, opened: false, reported: String::new() }
    }

    /// Opens the events or the map, unless they are open. It may be allowed later, or the process may start, or the map be
    /// pinned.
    pub(super) fn open(&mut self, engine: &mut Engine, say: &mut Say<'_>) {
        if self.opened {
            return;
        }
        let opened = match &self.what {
            What::Events(options) => Self::open_events(options, engine, &self.input),
            What::Map(options) => Self::open_map(options, engine, &self.input),
        };
        match opened {
            Ok(()) => self.opened = true,
            Err(why) if why != self.reported => {
                say.warn(&why);
                self.reported = why;
            }
            Err(_) => {}
        }
    }

    fn open_events(options: &Options, engine: &mut Engine, input: &Input) -> Result<(), String> {
        let rings = perfring_kernel::open(options)
            .map_err(|error| format!("the kernel's events are not read: {error}"))?;
        for ring in rings {
            let name = match options.target {
                Target::Process(pid) => format!("kernel-{pid}-{}", ring.cpu()),
                _ => format!("kernel-{}", ring.cpu()),
            };
            engine.add_kernel(&name, Box::new(ring), input);
        }
        Ok(())
    }

    fn open_map(options: &BpfOptions, engine: &mut Engine, input: &Input) -> Result<(), String> {
        let ring = BpfRing::open(options)
            .map_err(|error| format!("the BPF map {options} is not read: {error}"))?;
        engine.add_kernel(&ring.name(), Box::new(ring), input);
        Ok(())
    }

    /// Returns why they are not read.
    pub(super) fn trouble(&self) -> Option<&str> {
        (!self.opened && !self.reported.is_empty()).then_some(&self.reported)
    }
}
