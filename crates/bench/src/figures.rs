//! Figures of one case: by contestant, then by round.

use crate::report::{OURS, Row};
use crate::statistics::{Better, Judgement, median};
use std::collections::BTreeMap;

/// One figure a round for each contestant; a round without one is `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures(BTreeMap<String, Vec<Option<f64>>>);

impl Figures {
    /// Adds a contestant's figure of the next round.
    pub fn push(&mut self, name: &str, figure: Option<f64>) {
        self.0.entry(name.to_owned()).or_default().push(figure);
    }

    /// Forgets a contestant.
    pub fn clear(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// The rounds of one contestant.
    pub fn of(&self, name: &str) -> &[Option<f64>] {
        self.0.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// The median of one contestant.
    pub fn median(&self, name: &str) -> Option<f64> {
        median(&self.of(name).iter().copied().flatten().collect::<Vec<_>>())
    }

    /// Judges ours against `references`; one that has no figures stands in the row as null.
    pub fn row(&self, case: &str, unit: &str, better: Better, goal: f64, references: &[String]) -> Row {
        let references = references.iter().map(|name| (name.clone(), self.of(name).to_vec())).collect();
        Row::new(case.to_owned(), unit, better, goal, Judgement::of(self.of(OURS), &references, better))
    }

    /// Judges ours against a limit that the issue sets; other contestants stand beside it and are not judged.
    pub fn row_with_limit(&self, case: &str, unit: &str, better: Better, limit: f64, beside: &[String]) -> Row {
        let limits = BTreeMap::from([("limit".to_owned(), vec![Some(limit); self.of(OURS).len()])]);
        let mut judgement = Judgement::of(self.of(OURS), &limits, better);
        judgement.references.extend(beside.iter().map(|name| (name.clone(), self.median(name))));
        Row::new(case.to_owned(), unit, better, 1.0, judgement)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Figures {
        let mut figures = Figures::default();
        for round in 1..=3 {
            figures.push(OURS, Some(f64::from(round) * 100.0));
            figures.push("a", Some(100.0));
            figures.push("b", None);
        }
        figures
    }

    #[test]
    fn rows_hold_all_references_that_were_asked_for() {
        let row = figures().row("c", "ops/s", Better::Higher, 1.5, &["a".into(), "b".into(), "absent".into()]);
        assert_eq!((row.ours, row.ratio, row.goal), (Some(200.0), Some(2.0), 1.5));
        assert_eq!(row.references.len(), 3);
        assert_eq!((row.references["a"], row.references["b"], row.references["absent"]), (Some(100.0), None, None));
    }

    #[test]
    fn a_limit_judges_and_contestants_only_stand_beside_it() {
        let row = figures().row_with_limit("c", "ms", Better::Lower, 100.0, &["a".into()]);
        assert_eq!((row.ours, row.ratio), (Some(200.0), Some(0.5)));
        assert_eq!((row.references["limit"], row.references["a"]), (Some(100.0), Some(100.0)));
    }
}
