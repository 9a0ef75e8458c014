//! A set of ids of bounded size: the smallest that are at or after a first one.
//!
//! Invariant: of all ids that were added, exactly those from `first` on and before the end are held.

pub(super) struct Ids {
    first: u128,
    most: usize,
    ids: Vec<u128>,
    /// Where the next slice begins; `None` while all ids fit into this.
    end: Option<u128>,
}

impl Ids {
    /// The slice that begins at `first`, of at most `most` ids.
    pub fn new(first: u128, most: usize) -> Self {
        Ids { first, most: most.max(1), ids: Vec::new(), end: None }
    }

    pub fn add(&mut self, id: u128) {
        if id < self.first || self.end.is_some_and(|end| id >= end) {
            return;
        }
        self.ids.push(id);
        if self.ids.len() >= self.most.saturating_mul(2) {
            self.cut();
        }
    }

    fn cut(&mut self) {
        self.ids.sort_unstable();
        self.ids.dedup();
        if let Some(id) = self.ids.get(self.most) {
            self.end = Some(*id);
            self.ids.truncate(self.most);
        }
    }

    /// No more ids: where the next slice begins.
    pub fn finish(&mut self) -> Option<u128> {
        self.cut();
        self.end
    }

    /// Whether the id is one of the slice. Asked once it is finished.
    pub fn has(&self, id: u128) -> bool {
        self.ids.binary_search(&id).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn slices_hold_every_id_once(ids in proptest::collection::vec(0u128..200, 0..300), most in 1usize..40) {
            let (mut first, mut held) = (Some(0), Vec::new());
            while let Some(begin) = first {
                let mut slice = Ids::new(begin, most);
                ids.iter().for_each(|id| slice.add(*id));
                first = slice.finish();
                prop_assert!(slice.ids.len() <= most && slice.ids.capacity() <= 4 * most + 4);
                held.extend((begin..first.unwrap_or(200)).filter(|id| slice.has(*id)));
            }
            let mut all = ids;
            all.sort_unstable();
            all.dedup();
            prop_assert_eq!(held, all);
        }
    }
}
