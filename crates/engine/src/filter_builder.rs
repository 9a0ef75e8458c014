//! Reading a space through, so that it has a filter.
//!
//! Invariant: only what one view shows is read; commits go on meanwhile.

use std::sync::Arc;

use crate::batch::{KeyRange, Version};
use crate::content::record_range;
use crate::core::Core;
use crate::error::{Error, ErrorKind, Result};
use crate::filter::Build;
use crate::view::View;

/// Keys read between two checks whether the store is being closed.
const LOOK_AFTER: usize = 512;

impl Core {
    /// Builds the filter of a space that wants one; false when none does, or when it has to be tried again later.
    pub(crate) fn build_filter(self: &Arc<Core>) -> Result<bool> {
        let Some(mut build) = self.begin_filter() else { return Ok(false) };
        match self.read_keys(&mut build) {
            Ok(Some(version)) => self.filters.finish(build, version),
            Ok(None) => self.filters.refuse(&build),
            Err(error) if error.kind() == ErrorKind::Busy => {
                self.filters.give_up(&build, true);
                return Ok(false);
            }
            Err(error) => {
                // Tried again when it is wanted again.
                self.filters.give_up(&build, false);
                if error.kind() == ErrorKind::Stopped {
                    return Err(error);
                }
            }
        }
        Ok(true)
    }

    fn begin_filter(&self) -> Option<Build> {
        // From here on no commit goes unnoticed; those before are in every view taken later.
        let head = self.head.lock();
        if head.closing { None } else { self.filters.begin(head.state.version) }
    }

    /// Adds the keys of a space in some version, which is given; `None` when they are too many.
    fn read_keys(self: &Arc<Core>, build: &mut Build) -> Result<Option<Version>> {
        let view = View::new(self);
        if view.version() < build.begun {
            return Err(Error::new(ErrorKind::Busy, "a commit that nobody remembers is not visible yet"));
        }
        let Some(root) = view.state().space(&self.nodes, build.space)? else { return Ok(Some(view.version())) };
        let mut cursor = root.tree.cursor(record_range(&KeyRange::all()));
        let mut count = 0;
        while let Some((key, _)) = cursor.next(&self.nodes)? {
            if let Some(hash) = self.filters.hash(build.space, &key)
                && !build.add(hash)
            {
                return Ok(None);
            }
            count += 1;
            if count % LOOK_AFTER == 0 {
                self.check_running()?;
                if self.head.lock().closing {
                    return Err(Error::new(ErrorKind::Stopped, "the store is being closed"));
                }
                view.checked(Ok(()))?;
            }
        }
        view.checked(Ok(Some(view.version())))
    }
}
