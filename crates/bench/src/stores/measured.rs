//! The figures of one stretch of work.

use serde::{Deserialize, Serialize};

/// What a stretch of work came to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Operations done.
    pub operations: u64,
    /// In this time.
    pub seconds: f64,
    /// Median time of a commit in milliseconds, where commits are synced.
    pub p50_ms: Option<f64>,
    /// 99th percentile of it.
    pub p99_ms: Option<f64>,
    /// Flushes, by the store's own count.
    pub flushes: Option<u64>,
    /// CPU time of the store and of who called it, where it was looked at.
    #[serde(default)]
    pub cpu_seconds: Option<f64>,
    /// Values put, where they were counted.
    #[serde(default)]
    pub puts: u64,
    /// Operations in each whole second.
    pub each_second: Vec<u64>,
}
