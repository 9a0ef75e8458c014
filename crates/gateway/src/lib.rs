//! The S3 door.
