//! All the stores and servers that one command names, each opened once.

use koine::Store;

use crate::failure::{Failure, Outcome};
use crate::location::{Location, Scheme};
use crate::target::{Target, TargetArgs};

/// What is open.
pub struct Targets(Vec<(Scheme, Target)>);

impl Targets {
    /// Opens what the names lead to.
    pub fn open<'a>(reach: &TargetArgs, names: impl IntoIterator<Item = &'a Location>) -> Outcome<Self> {
        Self::each(names, |scheme| reach.open(scheme))
    }

    /// The same to look only.
    pub fn look<'a>(reach: &TargetArgs, names: impl IntoIterator<Item = &'a Location>) -> Outcome<Self> {
        Self::each(names, |scheme| reach.look(scheme))
    }

    fn each<'a>(
        names: impl IntoIterator<Item = &'a Location>,
        open: impl Fn(&Scheme) -> Outcome<Target>,
    ) -> Outcome<Self> {
        let mut targets = Targets(Vec::new());
        for name in names {
            let Location::Object { scheme, .. } = name else { continue };
            if targets.0.iter().any(|(there, _)| there == scheme) {
                continue;
            }
            match open(scheme) {
                Ok(target) => targets.0.push((scheme.clone(), target)),
                Err(failure) => {
                    // The first failure is the one to tell.
                    let _ = targets.close();
                    return Err(failure);
                }
            }
        }
        Ok(targets)
    }

    /// What is behind a scheme that was opened.
    pub fn of(&self, scheme: &Scheme) -> Outcome<&Target> {
        let found = self.0.iter().find(|(there, _)| there == scheme);
        found.map(|(_, target)| target).ok_or_else(|| Failure::failed(format!("{} was not opened", scheme.prefix())))
    }

    /// All that is open.
    pub fn all(&self) -> impl Iterator<Item = &(Scheme, Target)> {
        self.0.iter()
    }

    /// The store, where one is named.
    pub fn store(&self) -> Option<&Store> {
        self.0.iter().find_map(|(_, target)| match target {
            Target::Store(store) => Some(store),
            Target::S3 { .. } => None,
        })
    }

    /// Finishes what is under way and gives the store back.
    pub fn close(self) -> Outcome {
        self.0.into_iter().map(|(_, target)| target.close()).fold(Ok(()), Outcome::and)
    }
}
