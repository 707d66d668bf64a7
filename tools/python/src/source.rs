//! The source of a reader: a consumer or an observer.

use perfring_consumer::advanced::{Front, ResumePoint};
use perfring_consumer::{
    Anchors, Consumer, Item, Layout, Location, Observer, ReadError, Types,
    stat::{Count, Fill},
};

/// The source of a reader.
pub(crate) enum Source {
    Consumer(Consumer),
    Observer(Observer),
}

/// Evaluates the same expression for either.
macro_rules! of {
    ($source:expr, $it:ident => $said:expr) => {
        match $source {
            Source::Consumer($it) => $said,
            Source::Observer($it) => $said,
        }
    };
}

impl Source {
    pub(crate) fn location(&self) -> &Location {
        of!(self, it => it.location())
    }

    pub(crate) fn layout(&self) -> &Layout {
        of!(self, it => it.layout())
    }

    pub(crate) fn lapped(&mut self) -> Count {
        of!(self, it => it.lapped())
    }

    #[inline(always)]
    pub(crate) fn read(&mut self) -> Result<Option<Item<'_>>, ReadError> {
        of!(self, it => it.read())
    }

    pub(crate) fn peek(&mut self) -> Result<Front, ReadError> {
        of!(self, it => it.advanced().peek())
    }

    pub(crate) fn fill(&self) -> Fill {
        of!(self, it => it.fill())
    }

    pub(crate) fn position(&self) -> u64 {
        match self {
            Source::Consumer(consumer) => consumer.position(),
            Source::Observer(observer) => observer.resume_point().pos(),
        }
    }

    pub(crate) fn resume_point(&self) -> ResumePoint {
        of!(self, it => it.resume_point())
    }

    pub(crate) fn types(&self) -> Types {
        of!(self, it => it.types())
    }

    pub(crate) fn has_more_types(&self, than: &Types) -> bool {
        of!(self, it => it.has_more_types(than))
    }

    pub(crate) fn anchors(&self) -> Anchors {
        of!(self, it => it.anchors())
    }
}
