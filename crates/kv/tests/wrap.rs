//! The conformance suite through each wrapper, and through all of them.

use std::sync::Arc;

use koine_kv::conformance::{Opened, Suite};
use koine_kv::{
    Cursor, Direction, KeyRange, Kv, MemoryKv, Result, SpaceId, Stage, StageHint, Version, View, Watch, pass_on,
};

/// Passes on every call: what `pass_on!` does is what the seam asks for, and it has an arm for every method.
mod plain {
    use super::*;

    struct Plain {
        inner: Arc<dyn Kv>,
    }

    struct PlainView {
        inner: Arc<dyn View>,
    }

    struct PlainOwned<T: ?Sized> {
        inner: Box<T>,
    }

    impl Kv for Plain {
        pass_on!(Kv, inner: profile, get, submit, commit, usage, sync, close);

        fn view(&self) -> Result<Arc<dyn View>> {
            Ok(Arc::new(PlainView { inner: self.inner.view()? }))
        }

        fn stage(&self, hint: StageHint) -> Result<Box<dyn Stage>> {
            Ok(Box::new(PlainOwned { inner: self.inner.stage(hint)? }))
        }

        fn watch(&self, space: SpaceId, range: KeyRange, from: Version) -> Result<Box<dyn Watch>> {
            Ok(Box::new(PlainOwned { inner: self.inner.watch(space, range, from)? }))
        }
    }

    impl View for PlainView {
        pass_on!(View, inner: version, has_space, spaces, stat, read, read_now, bytes);

        fn cursor(&self, space: SpaceId, range: KeyRange, direction: Direction) -> Result<Box<dyn Cursor>> {
            Ok(Box::new(PlainOwned { inner: self.inner.cursor(space, range, direction)? }))
        }
    }

    impl Cursor for PlainOwned<dyn Cursor> {
        pass_on!(Cursor, inner: next, seek);
    }

    impl Stage for PlainOwned<dyn Stage> {
        pass_on!(Stage, inner: write, length, finish);
    }

    impl Watch for PlainOwned<dyn Watch> {
        pass_on!(Watch, inner: next);
    }

    fn open() -> Opened {
        Opened { kv: Arc::new(Plain { inner: Arc::new(MemoryKv::default()) }), reopen: None }
    }

    koine_kv::conformance_tests!(Suite { open });
}
