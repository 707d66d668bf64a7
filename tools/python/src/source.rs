//! What Python reads from.

use perfring_consumer::{
    Anchors, Consumer, Corrupt, Count, Fill, Home, Item, Layout, Mark, Observer, Types,
};

/// What is read from.
pub(crate) enum Source {
    Consumer(Consumer),
    Observer(Observer),
}

impl Source {
    pub(crate) fn home(&self) -> &Home {
        match self {
            Source::Consumer(consumer) => consumer.home(),
            Source::Observer(observer) => observer.home(),
        }
    }

    pub(crate) fn layout(&self) -> &Layout {
        match self {
            Source::Consumer(consumer) => consumer.layout(),
            Source::Observer(observer) => observer.layout(),
        }
    }

    pub(crate) fn lapped(&mut self) -> Count {
        match self {
            Source::Consumer(consumer) => consumer.lapped(),
            Source::Observer(observer) => observer.lapped(),
        }
    }

    #[inline(always)]
    pub(crate) fn read(&mut self) -> Result<Option<Item<'_>>, Corrupt> {
        match self {
            Source::Consumer(consumer) => consumer.read(),
            Source::Observer(observer) => observer.read(),
        }
    }

    pub(crate) fn fill(&self) -> Fill {
        match self {
            Source::Consumer(consumer) => consumer.fill(),
            Source::Observer(observer) => observer.fill(),
        }
    }

    pub(crate) fn position(&self) -> u64 {
        match self {
            Source::Consumer(consumer) => consumer.position(),
            Source::Observer(observer) => observer.mark().pos,
        }
    }

    pub(crate) fn mark(&self) -> Mark {
        match self {
            Source::Consumer(consumer) => consumer.mark(),
            Source::Observer(observer) => observer.mark(),
        }
    }

    pub(crate) fn types(&self) -> Types {
        match self {
            Source::Consumer(consumer) => consumer.types(),
            Source::Observer(observer) => observer.types(),
        }
    }

    pub(crate) fn has_more_types(&self, than: &Types) -> bool {
        match self {
            Source::Consumer(consumer) => consumer.has_more_types(than),
            Source::Observer(observer) => observer.has_more_types(than),
        }
    }

    pub(crate) fn anchors(&self) -> Anchors {
        match self {
            Source::Consumer(consumer) => consumer.anchors(),
            Source::Observer(observer) => observer.anchors(),
        }
    }
}
