//! What the searches reached, counted by name.

use std::collections::BTreeMap;
use std::fmt;

#[derive(Clone, Default)]
pub struct Coverage(BTreeMap<&'static str, u64>);

impl Coverage {
    pub fn count(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    pub fn add(&mut self, what: &'static str, count: u64) {
        if count > 0 {
            *self.0.entry(what).or_default() += count;
        }
    }

    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or_default()
    }

    pub fn merge(&mut self, other: &Coverage) {
        for (what, count) in &other.0 {
            self.add(what, *count);
        }
    }

    /// Fails with the names of what was never reached.
    pub fn must_have(&self, wanted: &[&str]) {
        let missing: Vec<&&str> = wanted.iter().filter(|what| self.of(what) == 0).collect();
        assert!(missing.is_empty(), "the workloads never reached {missing:?}; they reached\n{self}");
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, count) in &self.0 {
            writeln!(f, "{count:>10} {what}")?;
        }
        Ok(())
    }
}
