//! Percentiles, medians, and the judgement of paired rounds.
//!
//! A round measures every server in turn; only figures of one round are compared with each other. The median of those
//! paired ratios decides, and a cell holds when it is at least [`HOLDS_FROM`] of its goal.

use std::collections::BTreeMap;

/// The share of its goal from which on a cell holds.
pub const HOLDS_FROM: f64 = 0.95;

/// Which way is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

/// Nearest-rank percentile of sorted values; `None` without values.
pub fn percentile<T: Copy>(sorted: &[T], percent: f64) -> Option<T> {
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// The middle value, or the mean of the two middle ones; `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 { Some(upper) } else { Some((sorted.get(middle - 1)? + upper) / 2.0) }
}

/// What several rounds of one cell come to.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// Median of ours.
    pub ours: Option<f64>,
    /// Median of each reference.
    pub references: BTreeMap<String, Option<f64>>,
    /// Median of the paired ratios against the best reference of each round; above 1 is better.
    pub ratio: Option<f64>,
    /// Lowest and highest paired ratio.
    pub spread: Option<(f64, f64)>,
}

impl Judgement {
    /// Judges figures by round; a round in which a server has no figure is `None` there.
    pub fn of(ours: &[Option<f64>], references: &BTreeMap<String, Vec<Option<f64>>>, better: Better) -> Judgement {
        let mut ratios: Vec<f64> = ours
            .iter()
            .enumerate()
            .filter_map(|(round, own)| {
                let present = references.values().filter_map(|rounds| rounds.get(round).copied().flatten());
                match better {
                    Better::Higher => Some((*own)? / present.reduce(f64::max)?),
                    Better::Lower => Some(present.reduce(f64::min)? / (*own)?),
                }
            })
            .filter(|ratio| ratio.is_finite())
            .collect();
        ratios.sort_by(f64::total_cmp);
        let middle = |rounds: &[Option<f64>]| median(&rounds.iter().copied().flatten().collect::<Vec<_>>());
        Judgement {
            ours: middle(ours),
            references: references.iter().map(|(name, rounds)| (name.clone(), middle(rounds))).collect(),
            ratio: median(&ratios),
            spread: ratios.first().copied().zip(ratios.last().copied()),
        }
    }
}

/// Whether a ratio reaches its goal; without one nothing can be said.
pub fn holds(ratio: Option<f64>, goal: f64) -> Option<bool> {
    ratio.map(|ratio| ratio >= goal * HOLDS_FROM)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(values: &[f64]) -> Vec<Option<f64>> {
        values.iter().copied().map(Some).collect()
    }

    #[test]
    fn percentiles_are_nearest_rank() {
        let values: Vec<u32> = (1..=100).collect();
        for (percent, expected) in [(0.0, 1), (1.0, 1), (50.0, 50), (99.0, 99), (99.1, 100), (100.0, 100)] {
            assert_eq!(percentile(&values, percent), Some(expected), "p{percent}");
        }
        assert_eq!(percentile(&[7], 50.0), Some(7));
        assert_eq!(percentile::<u32>(&[], 50.0), None);
    }

    #[test]
    fn medians() {
        for (values, expected) in
            [(&[3.0, 1.0, 2.0][..], Some(2.0)), (&[4.0, 1.0, 2.0, 3.0], Some(2.5)), (&[5.0], Some(5.0)), (&[], None)]
        {
            assert_eq!(median(values), expected);
        }
    }

    #[test]
    fn ratios_are_paired_by_round_and_against_the_best_of_it() {
        // Round by round 2.0, 0.5 and 3.0 against the better of the two; the medians alone would say 200 / 100.
        let references =
            BTreeMap::from([("a".into(), rounds(&[50.0, 400.0, 100.0])), ("b".into(), rounds(&[100.0, 10.0, 20.0]))]);
        let judgement = Judgement::of(&rounds(&[200.0, 200.0, 300.0]), &references, Better::Higher);
        assert_eq!(judgement.ratio, Some(2.0));
        assert_eq!(judgement.spread, Some((0.5, 3.0)));
        assert_eq!(judgement.ours, Some(200.0));
        assert_eq!(judgement.references["a"], Some(100.0));
    }

    #[test]
    fn less_is_better_turns_the_ratio_round() {
        let references = BTreeMap::from([("limit".into(), rounds(&[300.0])), ("big".into(), rounds(&[900.0]))]);
        let judgement = Judgement::of(&rounds(&[150.0]), &references, Better::Lower);
        assert_eq!(judgement.ratio, Some(2.0));
    }

    #[test]
    fn missing_figures_are_left_out_of_pairs_but_not_of_the_list() {
        let references = BTreeMap::from([("here".into(), vec![None, Some(10.0)]), ("absent".into(), vec![None, None])]);
        let judgement = Judgement::of(&rounds(&[5.0, 20.0]), &references, Better::Higher);
        assert_eq!(judgement.ratio, Some(2.0));
        assert_eq!(judgement.references["absent"], None);
        let alone = Judgement::of(&rounds(&[5.0]), &BTreeMap::new(), Better::Higher);
        assert_eq!((alone.ours, alone.ratio, alone.spread), (Some(5.0), None, None));
    }

    #[test]
    fn zero_cpu_time_gives_no_ratio() {
        let references = BTreeMap::from([("a".into(), rounds(&[0.0]))]);
        assert_eq!(Judgement::of(&rounds(&[1.0]), &references, Better::Higher).ratio, None);
    }

    #[test]
    fn a_cell_holds_from_nineteen_twentieths_of_its_goal() {
        assert_eq!(holds(Some(0.95), 1.0), Some(true));
        assert_eq!(holds(Some(0.949), 1.0), Some(false));
        assert_eq!(holds(Some(1.9), 2.0), Some(true));
        assert_eq!(holds(Some(1.89), 2.0), Some(false));
        assert_eq!(holds(None, 1.0), None);
    }
}
