//! Reading values in order: large windows, verified once, read before they are asked for.
//!
//! Who reads one value again and again has a [`ReadAhead`]. It notices up to eight places from which somebody goes on
//! from front to back (threads that share an object each have their own), and answers small reads from windows of up
//! to 1 MiB. Where the device has to be waited for, the store's I/O pool reads the next windows meanwhile.
//!
//! Invariants:
//! - A window answers only for the state of the value it was read from: it carries an epoch, and windows of another
//!   epoch are dropped. One read is answered from windows whole, or not at all.
//! - Windows lie in buffers of the store's budget, of which each reader has its share. Without a free buffer a reader has
//!   one short stretch in memory of its own. Windows that nobody has used for a while are taken back from who has them.
//! - A window that could not be read answers nothing: the read itself then meets the error and tells it.

mod readers;
mod window;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::buffers::{BUFFER_LEN, Buffers};
use crate::content::Notes;
use crate::error::Result;
use crate::io_pool::IoPool;
use crate::lock::Mutex;
pub use readers::Readers;
use window::Window;

/// The longest window in bytes.
const WINDOW_LEN: u64 = BUFFER_LEN as u64;
/// The first window of somebody who reads small pieces.
const WINDOW_LEN_FIRST: u64 = 128 << 10;
/// Windows begin at a multiple of this: the longest checksum chunk.
const WINDOW_START: u64 = 32 << 10;
/// Reads up to this length are answered from windows also where the device need not be waited for.
const SMALL_LEN: usize = 128 << 10;
/// The most windows of one value.
const WINDOWS_MAX: usize = 8;
/// The most windows before a reader.
const DEPTH_MAX: usize = 4;
/// Places from which somebody reads on.
const POSITIONS_MAX: usize = 8;
/// So many reads in order make a stream.
const STREAK_MIN: u32 = 2;
/// So many make a long one.
const LONG_STREAK: u32 = 32;
/// Windows unused for so long may be taken back.
const STALE: Duration = Duration::from_millis(250);

/// One version of one value.
pub trait Source: Clone + Send + Sync + 'static {
    /// Fills `buffer` from `offset`; a short count only at the end.
    fn read(&self, offset: u64, buffer: &mut [u8], notes: &Notes) -> Result<usize>;

    /// The length in bytes.
    fn size(&self) -> Result<u64>;

    /// Whether what was read just now is what the value is in this source's epoch.
    fn still_holds(&self) -> bool;
}

/// Where somebody reads on.
#[derive(Clone, Copy, Default)]
struct StreamPosition {
    /// Where the next read is expected.
    next: u64,
    streak: u32,
    /// Up to here there are windows.
    ahead: u64,
    /// The length of the next window.
    window_len: u64,
    /// The device had to be waited for.
    cold: bool,
    turn: u64,
}

#[derive(Default)]
struct State {
    epoch: u64,
    size: Option<u64>,
    windows: Vec<Arc<Window>>,
    /// The last chunk of which only a part was asked for.
    chunk: Option<Arc<Window>>,
    positions: Vec<StreamPosition>,
    turn: u64,
    used: Option<Instant>,
    /// How many windows were found of use lately, up to those before a reader.
    proven: usize,
}

/// What is known of the reads of one value.
#[derive(Default)]
pub struct ReadAhead {
    state: Mutex<State>,
}

/// What a store has for reading ahead.
#[derive(Clone, Copy)]
pub struct Supply<'a> {
    /// Who else reads ahead.
    pub readers: &'a Readers,
    /// Where windows lie.
    pub buffers: &'a Arc<Buffers>,
    /// Who reads windows before they are asked for.
    pub io_pool: &'a IoPool,
}

/// A read under way: the value as it is, and how it is being read.
pub struct Reader<'a, S> {
    /// What it reads ahead with.
    pub supply: Supply<'a>,
    /// Remembers.
    pub ahead: &'a Arc<ReadAhead>,
    /// Where bytes come from.
    pub source: &'a S,
    /// The state of the value: windows of another one are not used.
    pub epoch: u64,
    /// It was said beforehand that it will be read in order.
    pub eager: bool,
}

impl<S: Source> Reader<'_, S> {
    /// Fills `buffer` from `offset`; a short count only at the value's end.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        if buffer.is_empty() || offset.checked_add(buffer.len() as u64).is_none() {
            return self.source.read(offset, buffer, &Notes::default());
        }
        if let Some(count) = self.answer(offset, buffer, false) {
            return Ok(count);
        }
        let position = self.note(offset, buffer.len());
        let in_order = position.streak >= if self.eager { 0 } else { STREAK_MIN };
        if buffer.len() <= SMALL_LEN && in_order {
            if self.open_window(offset, WINDOW_LEN_FIRST)?.is_none() {
                self.open_chunk(offset)?;
            }
            if let Some(count) = self.answer(offset, buffer, false) {
                return Ok(count);
            }
        }
        let notes = Notes::default();
        let count = self.source.read(offset, buffer, &notes)?;
        self.keep(offset, count, buffer.len(), notes);
        Ok(count)
    }

    /// Reads windows from `offset` on, as far as there is memory for them; where that ends.
    pub fn prepare(&self, offset: u64, end: u64) -> Result<u64> {
        let end = end.min(self.size()?);
        let mut at = offset;
        for _ in 0..DEPTH_MAX {
            if at >= end {
                break;
            }
            let there = {
                let mut state = self.ahead.state.lock();
                state.enter(self.epoch);
                state.windows.iter().find(|window| window.holds(at)).map(|window| window.end())
            };
            let next = there.map_or_else(|| self.open_window(at, WINDOW_LEN), |end| Ok(Some(end)))?;
            let Some(next) = next else { break };
            at = next;
        }
        Ok(at)
    }

    /// As `read`, but only what needs no wait, and only from windows.
    pub fn read_now(&self, offset: u64, buffer: &mut [u8]) -> Option<usize> {
        offset.checked_add(buffer.len() as u64)?;
        self.answer(offset, buffer, true)
    }

    /// Answers from windows, if they hold all of it.
    fn answer(&self, offset: u64, buffer: &mut [u8], now: bool) -> Option<usize> {
        let (windows, end, plan) = {
            let mut state = self.ahead.state.lock();
            state.enter(self.epoch);
            let (windows, end) = state.cover(offset, buffer.len(), now)?;
            let position = state.note(offset, end - offset);
            state.prove(&windows);
            // One that is still on its way is being waited for.
            let cold = windows.iter().any(|window| window.is_cold() || !window.is_ready());
            let plan = state.plan(self.supply, position, cold);
            (windows, end, plan)
        };
        self.begin(plan);
        let (mut at, mut rest) = (offset, &mut *buffer);
        for window in &windows {
            let Some(bytes) = window.wait() else {
                self.ahead.state.lock().forget(&windows);
                return None;
            };
            let from = (at - window.start) as usize;
            let part = rest.len().min(bytes.len() - from);
            let (head, tail) = rest.split_at_mut(part);
            head.copy_from_slice(&bytes[from..from + part]);
            window.served(part);
            (at, rest) = (at + part as u64, tail);
        }
        if windows.iter().any(|window| window.is_used_up()) {
            self.ahead.state.lock().windows.retain(|window| !window.is_used_up());
        }
        Some((end - offset) as usize)
    }

    /// Notes a read that no window answers.
    fn note(&self, offset: u64, length: usize) -> StreamPosition {
        let mut state = self.ahead.state.lock();
        state.enter(self.epoch);
        let position = state.note(offset, length as u64);
        state.positions[position]
    }

    /// Reads the window that holds `offset` now, and has the next ones read meanwhile where that helps. Gives where
    /// it ends; `None` where there is no memory or nothing to read.
    fn open_window(&self, offset: u64, length_min: u64) -> Result<Option<u64>> {
        let size = self.size()?;
        let (window, plan) = {
            let mut state = self.ahead.state.lock();
            state.enter(self.epoch);
            state.size = Some(size);
            if let Some(window) = state.windows.iter().find(|window| window.holds(offset)) {
                // Another thread was faster.
                return Ok(Some(window.end()));
            }
            let at = state.position_of(offset);
            let position = at.map(|at| state.positions[at]).unwrap_or_default();
            let goes_on = position.ahead > 0 && position.ahead.abs_diff(offset) < WINDOW_START;
            let length = match position.streak {
                LONG_STREAK.. => WINDOW_LEN,
                _ if goes_on => position.window_len.clamp(length_min, WINDOW_LEN),
                _ => length_min,
            };
            self.register(&mut state);
            let Some(window) = state.add(self.supply, offset - offset % WINDOW_START, length) else {
                drop(state);
                self.supply.readers.reclaim();
                return Ok(None);
            };
            // Nobody is about to read what lies before.
            window.served((offset % WINDOW_START) as usize);
            if self.eager && position.streak == 0 {
                // Who said so beforehand is believed until windows lie unused.
                state.proven = DEPTH_MAX - 1;
            }
            let plan = at.map(|at| {
                state.positions[at].ahead = window.end().max(position.ahead);
                state.positions[at].window_len = if self.eager { WINDOW_LEN } else { 2 * length };
                state.plan(self.supply, at, position.cold || self.eager)
            });
            (window, plan.unwrap_or_default())
        };
        self.begin(plan);
        window.fill(self.source);
        if window.is_cold() {
            let mut state = self.ahead.state.lock();
            let plan = state.position_of(offset).map(|at| state.plan(self.supply, at, true));
            drop(state);
            self.begin(plan.unwrap_or_default());
        }
        Ok(Some(window.end()))
    }

    /// Without a buffer of the budget: reads a short stretch on into memory of its own, which takes the place of the kept
    /// chunk. Only for the one who reads in order here: two would take it from each other.
    fn open_chunk(&self, offset: u64) -> Result<()> {
        let start = offset - offset % WINDOW_START;
        let length = WINDOW_LEN_FIRST.min(self.size()?.saturating_sub(start));
        let is_alone =
            |state: &State| state.positions.iter().filter(|position| position.streak >= STREAK_MIN).count() <= 1;
        if length == 0 || !is_alone(&self.ahead.state.lock()) {
            return Ok(());
        }
        let mut bytes = vec![0; length as usize];
        let count = self.source.read(start, &mut bytes, &Notes::default())?;
        if count == bytes.len() && self.source.still_holds() {
            let mut state = self.ahead.state.lock();
            state.enter(self.epoch);
            state.chunk = Some(Arc::new(Window::of(start, bytes)));
        }
        Ok(())
    }

    fn size(&self) -> Result<u64> {
        let known = {
            let mut state = self.ahead.state.lock();
            state.enter(self.epoch);
            state.size
        };
        known.map_or_else(|| self.source.size(), Ok)
    }

    /// After a read without windows: keeps the chunk it met, and begins to read on where that pays.
    fn keep(&self, offset: u64, count: usize, wanted: usize, notes: Notes) {
        let cold = notes.is_cold();
        let chunk = notes.into_chunk().filter(|_| self.source.still_holds());
        let large = wanted > SMALL_LEN && cold && count == wanted && self.supply.io_pool.is_at_work();
        let size = if large { self.size().ok() } else { None };
        let plan = {
            let mut state = self.ahead.state.lock();
            state.enter(self.epoch);
            if let Some((start, bytes)) = chunk {
                state.chunk = Some(Arc::new(Window::of(start, bytes)));
            }
            let Some(position) = state.position_of(offset + count as u64) else { return };
            state.positions[position].cold = cold;
            let in_order = self.eager || state.positions[position].streak > 0 || offset == 0;
            match size {
                Some(size) if in_order => {
                    state.size = Some(size);
                    state.positions[position].window_len = WINDOW_LEN;
                    self.register(&mut state);
                    state.plan(self.supply, position, true)
                }
                _ => return,
            }
        };
        if plan.is_empty() && self.supply.buffers.spare() == 0 {
            self.supply.readers.reclaim();
        }
        self.begin(plan);
    }

    /// So that its windows can be taken back.
    fn register(&self, state: &mut State) {
        if state.used.replace(Instant::now()).is_none() {
            self.supply.readers.add(self.ahead);
        }
    }

    /// Has windows read by the I/O pool.
    fn begin(&self, plan: Vec<Arc<Window>>) {
        for window in plan {
            let source = self.source.clone();
            self.supply.io_pool.run(Box::new(move || {
                // Unless everybody who could have used it is gone.
                if Arc::strong_count(&window) > 1 {
                    window.fill(&source);
                }
            }));
        }
    }
}

impl State {
    /// Nothing of another state of the value is left.
    fn enter(&mut self, epoch: u64) {
        if self.epoch != epoch {
            let turn = self.turn;
            *self = State { epoch, turn, used: self.used, proven: self.proven, ..State::default() };
        }
    }

    /// The windows that hold all of a range, which may end at the value's end; and where it ends.
    fn cover(&mut self, offset: u64, length: usize, now: bool) -> Option<(Vec<Arc<Window>>, u64)> {
        if let Some(chunk) = self.chunk.as_ref().filter(|chunk| chunk.holds(offset))
            && offset + length as u64 <= chunk.end()
        {
            return Some((vec![Arc::clone(chunk)], offset + length as u64));
        }
        let wanted = offset + length as u64;
        let (mut at, mut found) = (offset, Vec::with_capacity(1));
        while at < wanted {
            let window = self.windows.iter().find(|window| window.holds(at))?;
            if now && !window.is_ready() {
                return None;
            }
            found.push(Arc::clone(window));
            at = window.end();
            if self.size.is_some_and(|size| at >= size) {
                break;
            }
        }
        self.turn += 1;
        found.iter().for_each(|window| window.touch(self.turn));
        self.used = self.used.map(|_| Instant::now());
        Some((found, wanted.min(at)))
    }

    /// Notes a read; gives the index of its place.
    fn note(&mut self, offset: u64, length: u64) -> usize {
        self.turn += 1;
        let next = offset + length;
        // Threads that share the bytes of a stream among them leave gaps.
        let gap_max = (16 * length).clamp(64 << 10, 16 << 20);
        // Of threads that share a long stream some are behind the first.
        let back_max = |position: &StreamPosition| {
            if position.streak >= LONG_STREAK { WINDOWS_MAX as u64 * WINDOW_LEN } else { 0 }
        };
        let follows = |position: &StreamPosition| {
            offset <= position.next.saturating_add(gap_max)
                && offset.saturating_add(back_max(position)) >= position.next
        };
        let nearest = (0..self.positions.len())
            .filter(|at| follows(&self.positions[*at]))
            .max_by_key(|at| self.positions[*at].next);
        let at = match nearest {
            Some(at) => {
                self.positions[at].streak += 1;
                at
            }
            None if self.positions.len() < POSITIONS_MAX => {
                self.positions.push(StreamPosition::default());
                self.positions.len() - 1
            }
            None => {
                let oldest = (0..self.positions.len()).min_by_key(|at| self.positions[*at].turn).unwrap_or(0);
                self.positions[oldest] = StreamPosition::default();
                oldest
            }
        };
        self.positions[at].next = next.max(self.positions[at].next);
        self.positions[at].turn = self.turn;
        at
    }

    /// The place that somebody has just read from or to.
    fn position_of(&self, offset: u64) -> Option<usize> {
        let at = (0..self.positions.len()).max_by_key(|at| self.positions[*at].turn)?;
        (self.positions[at].next >= offset).then_some(at)
    }

    /// Adds a window that begins at `start` and ends where the next one of such length begins.
    fn add(&mut self, supply: Supply<'_>, start: u64, length: u64) -> Option<Arc<Window>> {
        let size = self.size.filter(|size| start < *size)?;
        while self.windows.len() >= WINDOWS_MAX.min(supply.readers.share(supply.buffers)) {
            // What nobody has read from yet is what somebody is about to read.
            let age = |at: &usize| (!self.windows[*at].was_served(), self.windows[*at].turn());
            let oldest = (0..self.windows.len()).min_by_key(age)?;
            self.windows.swap_remove(oldest);
        }
        let end = ((start / length + 1) * length).min(size);
        let window = Arc::new(Window::empty(start, (end - start) as usize, supply.buffers.lend_spare()?));
        self.turn += 1;
        window.touch(self.turn);
        self.windows.push(Arc::clone(&window));
        Some(window)
    }

    /// Windows were found that nobody had read from.
    fn prove(&mut self, windows: &[Arc<Window>]) {
        let found = windows.iter().filter(|window| !window.was_served()).count();
        self.proven = (self.proven + found).min(DEPTH_MAX - 1);
    }

    /// How many windows may be read before a reader. Reads that only look as if they were in order leave windows
    /// behind that nobody reads from; while there are as many, none.
    fn trust(&mut self) -> usize {
        let unused = self.windows.iter().filter(|window| !window.was_served()).count();
        if unused < 2 * (1 + self.proven) {
            return 1 + self.proven;
        }
        self.proven = self.proven.saturating_sub(1);
        0
    }

    /// Windows to be read for a place, as many as there is room for.
    fn plan(&mut self, supply: Supply<'_>, at: usize, cold: bool) -> Vec<Arc<Window>> {
        let depth = self.trust() as u64;
        let mut position = self.positions[at];
        position.cold = cold;
        position.ahead = position.ahead.max(position.next);
        let mut plan = Vec::new();
        let pays = cold && supply.io_pool.is_at_work();
        if let Some(size) = self.size.filter(|_| pays) {
            let target = position.next.saturating_add(depth * WINDOW_LEN).min(size);
            position.window_len = position.window_len.clamp(WINDOW_LEN_FIRST, WINDOW_LEN);
            let share = supply.readers.share(supply.buffers);
            while position.ahead + position.window_len <= target || (position.ahead < target && target == size) {
                if self.windows.len() >= share {
                    break;
                }
                let there = self.windows.iter().find(|window| window.holds(position.ahead)).map(|window| window.end());
                if let Some(end) = there {
                    position.ahead = end;
                    continue;
                }
                let Some(window) = self.add(supply, position.ahead, position.window_len) else { break };
                position.ahead = window.end();
                position.window_len = (2 * position.window_len).min(WINDOW_LEN);
                plan.push(window);
            }
        }
        self.positions[at] = position;
        plan
    }

    fn forget(&mut self, failed: &[Arc<Window>]) {
        self.windows.retain(|window| !failed.iter().any(|other| Arc::ptr_eq(window, other)));
    }
}

#[cfg(test)]
mod tests;
