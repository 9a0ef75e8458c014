//! All the stores and servers that one command names, each opened once.

use koine::Store;

use crate::failure::{Failure, Outcome};
use crate::holder::{Holder, Reach};
use crate::location::{Door, Location};

/// What is open.
pub struct Doors(Vec<(Door, Holder)>);

impl Doors {
    /// Opens what the names lead to.
    pub fn open<'a>(reach: &Reach, names: impl IntoIterator<Item = &'a Location>) -> Outcome<Self> {
        Self::each(names, |door| reach.open(door))
    }

    /// The same to look only.
    pub fn look<'a>(reach: &Reach, names: impl IntoIterator<Item = &'a Location>) -> Outcome<Self> {
        Self::each(names, |door| reach.look(door))
    }

    fn each<'a>(
        names: impl IntoIterator<Item = &'a Location>,
        open: impl Fn(&Door) -> Outcome<Holder>,
    ) -> Outcome<Self> {
        let mut doors = Doors(Vec::new());
        for name in names {
            let Location::Object { door, .. } = name else { continue };
            if doors.0.iter().any(|(there, _)| there == door) {
                continue;
            }
            match open(door) {
                Ok(holder) => doors.0.push((door.clone(), holder)),
                Err(failure) => {
                    // The first failure is the one to tell.
                    let _ = doors.close();
                    return Err(failure);
                }
            }
        }
        Ok(doors)
    }

    /// What is behind a door that was opened.
    pub fn of(&self, door: &Door) -> Outcome<&Holder> {
        let found = self.0.iter().find(|(there, _)| there == door);
        found.map(|(_, holder)| holder).ok_or_else(|| Failure::failed(format!("{} was not opened", door.scheme())))
    }

    /// All that is open.
    pub fn all(&self) -> impl Iterator<Item = &(Door, Holder)> {
        self.0.iter()
    }

    /// The store, where one is named.
    pub fn store(&self) -> Option<&Store> {
        self.0.iter().find_map(|(_, holder)| match holder {
            Holder::Store(store) => Some(store),
            Holder::S3 { .. } => None,
        })
    }

    /// Finishes what is under way and gives the store back.
    pub fn close(self) -> Outcome {
        self.0.into_iter().map(|(_, holder)| holder.close()).fold(Ok(()), Outcome::and)
    }
}
