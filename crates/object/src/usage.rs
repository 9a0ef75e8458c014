//! What a bucket holds.

use crate::action::Action;
use crate::count::usage;
use crate::error::Result;
use crate::info::BucketUsage;
use crate::local::Local;
use crate::lookup::find_space;

impl Local {
    pub fn bucket_usage(&self, bucket: &str) -> Result<BucketUsage> {
        self.read(
            |rights| rights.bucket(Action::BucketUsage, bucket),
            |view| {
                let space = find_space(view, bucket)?;
                usage(view.as_ref(), space)
            },
        )
    }
}
