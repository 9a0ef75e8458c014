//! From a log and a cut to the bytes that the medium would hold.
//!
//! Invariants:
//! - Cuts only go forward: the durable part is built up once and shared by all images of an epoch.
//! - The same recording, cut and seed give the same image.

use koine_env::{Random, SeededRandom};

use super::super::Image;
use super::{Event, Recording};

const UNIT_LEN: usize = 512;

/// Walks over the cuts of a recording and builds images at them.
pub struct ImageWalker<'a> {
    recording: &'a Recording,
    random: SeededRandom,
    cut: usize,
    /// What is durable at the cut.
    durable: Image,
    /// Changes before the cut that are not durable, by position.
    pending: Vec<Pending>,
}

#[derive(Clone, Copy)]
struct Pending {
    position: usize,
    /// Where its end stands in the log, if it ended before the cut.
    ended: Option<usize>,
}

/// How the changes in doubt fare in one image.
#[derive(Clone, Copy)]
enum Style {
    /// Each for itself: kept, dropped or torn.
    Mixed,
    /// All but one are kept.
    OneDropped,
    /// Only one is kept.
    OneKept,
    /// A prefix is kept, and the one after it is torn.
    Prefix,
    /// Everything is there.
    AllKept,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Survival {
    Kept,
    Dropped,
    Torn,
}

impl<'a> ImageWalker<'a> {
    pub(super) fn new(recording: &'a Recording, seed: u64) -> Self {
        ImageWalker {
            recording,
            random: SeededRandom::new(seed),
            cut: 0,
            durable: recording.initial.clone(),
            pending: Vec::new(),
        }
    }

    /// Moves on to a cut, which must not lie before the last.
    ///
    /// # Panics
    /// When it does.
    pub fn advance(&mut self, cut: usize) {
        assert!(cut >= self.cut, "cuts go forward only");
        let recording = self.recording;
        for (position, event) in recording.events.iter().enumerate().take(cut).skip(self.cut) {
            match event {
                Event::Write { .. } | Event::Grow { .. } | Event::Discard { .. } => {
                    self.pending.push(Pending { position, ended: None });
                }
                Event::Done(begun) => {
                    if let Some(pending) = self.pending.iter_mut().find(|pending| pending.position == *begun) {
                        pending.ended = Some(position);
                    }
                }
                Event::SyncDone(begun) => self.make_durable(*begun),
                Event::SyncBegin | Event::Mark(_) => {}
            }
        }
        self.cut = cut;
    }

    /// How many changes are in doubt at the cut.
    pub fn in_doubt(&self) -> usize {
        self.pending.len()
    }

    /// The image in which nothing that is in doubt happened.
    pub fn durable(&self) -> Image {
        self.durable.clone()
    }

    /// An image in which a part, chosen by the seed, of what is in doubt happened.
    pub fn partial(&self, seed: u64) -> Image {
        let random = SeededRandom::new(seed ^ (self.cut as u64).wrapping_mul(0xA24B_AED4_963E_E407));
        let mut image = self.durable.clone();
        // The length first: a file system writes it apart from the data.
        for pending in &self.pending {
            if let Some(Event::Grow { length }) = self.recording.events.get(pending.position)
                && random.next_u64().is_multiple_of(2)
            {
                resize(&mut image, *length);
            }
        }
        let style = match random.next_u64() % 8 {
            0 => Style::OneDropped,
            1 => Style::OneKept,
            2 => Style::Prefix,
            3 => Style::AllKept,
            _ => Style::Mixed,
        };
        let chosen = random.next_u64() % (self.pending.len().max(1) as u64);
        let mut order: Vec<(usize, Survival)> = self
            .pending
            .iter()
            .zip(0u64..)
            .map(|(pending, index)| (pending.position, fate(style, index, chosen, &random)))
            .collect();
        shuffle(&mut order, &random);
        for (position, fate) in order {
            self.apply_in_part(&mut image, position, fate, &random);
        }
        image
    }

    fn make_durable(&mut self, sync_begun: usize) {
        let pending = std::mem::take(&mut self.pending);
        let mut ended = Vec::new();
        for change in pending {
            match change.ended {
                Some(end) if end < sync_begun => ended.push((end, change.position)),
                _ => self.pending.push(change),
            }
        }
        // Changes that overlapped in time took effect in the order in which they ended, as good as any.
        ended.sort_unstable();
        for (_, position) in ended {
            match self.recording.events.get(position) {
                Some(Event::Write { offset, data }) => write(&mut self.durable, *offset, data),
                Some(Event::Grow { length }) => resize(&mut self.durable, *length),
                Some(Event::Discard { offset, length }) if self.random.next_u64().is_multiple_of(2) => {
                    zero(&mut self.durable, *offset, *length);
                }
                _ => {}
            }
        }
    }

    fn apply_in_part(&self, image: &mut Image, position: usize, fate: Survival, random: &SeededRandom) {
        match (self.recording.events.get(position), fate) {
            (_, Survival::Dropped) => {}
            (Some(Event::Write { offset, data }), Survival::Kept) => write(image, *offset, data),
            (Some(Event::Write { offset, data }), Survival::Torn) => {
                // Torn by runs as much as by single units, since both happen.
                let run = 1 << (random.next_u64() % 6);
                for (units, index) in data.chunks(UNIT_LEN * run).zip(0u64..) {
                    if random.next_u64().is_multiple_of(2) {
                        write(image, *offset + index * (UNIT_LEN * run) as u64, units);
                    }
                }
            }
            (Some(Event::Discard { offset, length }), _) => zero(image, *offset, *length),
            _ => {}
        }
    }
}

fn fate(style: Style, index: u64, chosen: u64, random: &SeededRandom) -> Survival {
    match style {
        Style::Mixed => match random.next_u64() % 3 {
            0 => Survival::Kept,
            1 => Survival::Dropped,
            _ => Survival::Torn,
        },
        Style::OneDropped if index == chosen => Survival::Dropped,
        Style::OneDropped | Style::AllKept => Survival::Kept,
        Style::OneKept if index == chosen => Survival::Kept,
        Style::OneKept => Survival::Dropped,
        Style::Prefix if index < chosen => Survival::Kept,
        Style::Prefix if index == chosen => Survival::Torn,
        Style::Prefix => Survival::Dropped,
    }
}

fn shuffle<T>(items: &mut [T], random: &SeededRandom) {
    for last in (1..items.len()).rev() {
        items.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
    }
}

/// Writes what lies inside: a write past the end was to space whose growth is in doubt and did not happen.
fn write(image: &mut Image, offset: u64, data: &[u8]) {
    image.write(usize::try_from(offset).unwrap_or(usize::MAX), data);
}

fn zero(image: &mut Image, offset: u64, length: u64) {
    image.zero(usize::try_from(offset).unwrap_or(usize::MAX), usize::try_from(length).unwrap_or(usize::MAX));
}

fn resize(image: &mut Image, length: u64) {
    image.grow(usize::try_from(length).unwrap_or(usize::MAX));
}
