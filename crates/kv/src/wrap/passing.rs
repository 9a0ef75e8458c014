//! Passing calls of the seam on.
//!
//! Invariant: there is an arm for every required method of every trait of the seam; the tests' plain wrapper names all of them.

/// `pass_on!(Trait, field: method, …)` within an `impl` of a trait of the seam: these methods are the field's.
///
/// ```
/// use std::sync::Arc;
/// use koine_kv::{Kv, Result, View, pass_on};
///
/// /// Counts the views that are taken.
/// struct Counted {
///     inner: Arc<dyn Kv>,
///     views: std::sync::atomic::AtomicU64,
/// }
///
/// impl Kv for Counted {
///     fn view(&self) -> Result<Arc<dyn View>> {
///         self.views.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
///         self.inner.view()
///     }
///     pass_on!(Kv, inner: profile, lookup, stage, submit, watch, usage, sync, close);
/// }
/// ```
///
/// A method that is neither written nor named is missing:
///
/// ```compile_fail,E0046
/// # struct Counted { inner: std::sync::Arc<dyn koine_kv::Kv> }
/// impl koine_kv::Kv for Counted {
///     koine_kv::pass_on!(Kv, inner: profile, view, lookup, stage, watch, usage, sync, close);
/// }
/// ```
#[macro_export]
macro_rules! pass_on {
    ($of:ident, $to:ident: $($call:ident),+ $(,)?) => { $($crate::pass_on!(@ $of $to $call);)+ };
    (@ Kv $to:ident profile) => {
        fn profile(&self) -> &$crate::Profile {
            self.$to.profile()
        }
    };
    (@ Kv $to:ident view) => {
        fn view(&self) -> $crate::Result<std::sync::Arc<dyn $crate::View>> {
            self.$to.view()
        }
    };
    (@ Kv $to:ident lookup) => { $crate::pass_on!(@ View $to lookup); };
    (@ Kv $to:ident stage) => {
        fn stage(&self, hint: $crate::StageHint) -> $crate::Result<Box<dyn $crate::Stage>> {
            self.$to.stage(hint)
        }
    };
    (@ Kv $to:ident submit) => {
        fn submit(
            &self,
            batch: $crate::Batch,
            durability: $crate::Durability,
            wait: $crate::Wait,
        ) -> $crate::Ticket {
            self.$to.submit(batch, durability, wait)
        }
    };
    (@ Kv $to:ident watch) => {
        fn watch(
            &self,
            space: $crate::SpaceId,
            range: $crate::KeyRange,
            from: $crate::Version,
        ) -> $crate::Result<Box<dyn $crate::Watch>> {
            self.$to.watch(space, range, from)
        }
    };
    (@ Kv $to:ident usage) => {
        fn usage(&self) -> $crate::Result<$crate::Usage> {
            self.$to.usage()
        }
    };
    (@ Kv $to:ident sync) => {
        fn sync(&self) -> $crate::Result<()> {
            self.$to.sync()
        }
    };
    (@ Kv $to:ident close) => {
        fn close(&self) -> $crate::Result<()> {
            self.$to.close()
        }
    };
    (@ View $to:ident keep) => {
        fn keep(&self) -> $crate::Result<()> {
            self.$to.keep()
        }
    };
    (@ View $to:ident version) => {
        fn version(&self) -> $crate::Version {
            self.$to.version()
        }
    };
    (@ View $to:ident spaces) => {
        fn spaces(&self, from: $crate::SpaceId, most: usize) -> $crate::Result<Vec<$crate::SpaceEntry>> {
            self.$to.spaces(from, most)
        }
    };
    (@ View $to:ident lookup) => {
        fn lookup(
            &self,
            space: $crate::SpaceId,
            key: &[u8],
            offset: u64,
            length: usize,
            wait: $crate::Wait,
        ) -> $crate::Result<$crate::Lookup> {
            self.$to.lookup(space, key, offset, length, wait)
        }
    };
    (@ View $to:ident read_into) => {
        fn read_into(
            &self,
            space: $crate::SpaceId,
            key: &[u8],
            offset: u64,
            buffer: &mut [u8],
            wait: $crate::Wait,
        ) -> $crate::Result<Option<usize>> {
            self.$to.read_into(space, key, offset, buffer, wait)
        }
    };
    (@ View $to:ident cursor) => {
        fn cursor(
            &self,
            space: $crate::SpaceId,
            range: $crate::KeyRange,
            direction: $crate::Direction,
        ) -> $crate::Result<Box<dyn $crate::Cursor>> {
            self.$to.cursor(space, range, direction)
        }
    };
    (@ Cursor $to:ident next) => {
        fn next(&mut self) -> $crate::Result<Option<$crate::Entry>> {
            self.$to.next()
        }
    };
    (@ Cursor $to:ident seek) => {
        fn seek(&mut self, key: &[u8]) -> $crate::Result<()> {
            self.$to.seek(key)
        }
    };
    (@ Stage $to:ident write) => {
        fn write(&mut self, piece: &[u8]) -> $crate::Result<()> {
            self.$to.write(piece)
        }
    };
    (@ Stage $to:ident length) => {
        fn length(&self) -> u64 {
            self.$to.length()
        }
    };
    (@ Stage $to:ident finish) => {
        fn finish(self: Box<Self>) -> $crate::Result<$crate::StageToken> {
            self.$to.finish()
        }
    };
    (@ Watch $to:ident next) => {
        fn next(&mut self, timeout: std::time::Duration) -> $crate::Result<Option<$crate::WatchEvent>> {
            self.$to.next(timeout)
        }
    };
}
