//! A window of an object's bytes, read at once for a reader that goes from front to back.
//!
//! Invariants:
//! - A window is used only while nothing has changed the object since before it was read: it carries the
//!   object's epoch, which every change raises before it is submitted.
//! - A handle has at most one window, of at most [`READ_AHEAD_LEN`] bytes.

/// How much a sequential reader reads at once, in bytes.
pub const READ_AHEAD_LEN: usize = 256 << 10;

/// Bytes of an object.
#[derive(Default)]
pub struct Window {
    bytes: Vec<u8>,
    start: u64,
    /// Whether the object ends where the window does.
    ends: bool,
    epoch: u64,
}

impl Window {
    /// Copies from the window what a read wants, when all of it is there; the count that the read gives.
    pub fn read(&self, epoch: u64, offset: u64, buffer: &mut [u8]) -> Option<usize> {
        if epoch != self.epoch || offset < self.start {
            return None;
        }
        let from = usize::try_from(offset - self.start).ok().filter(|from| *from < self.bytes.len())?;
        let there = &self.bytes[from..];
        if there.len() < buffer.len() && !self.ends {
            return None;
        }
        let count = there.len().min(buffer.len());
        buffer[..count].copy_from_slice(&there[..count]);
        Some(count)
    }

    /// Fills the window from `start` on with what `read` gives.
    pub fn fill<E>(
        &mut self,
        epoch: u64,
        start: u64,
        length: usize,
        read: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        let length = length.min(READ_AHEAD_LEN);
        self.bytes.resize(length, 0);
        // Nothing is there until the read has succeeded.
        self.epoch = u64::MAX;
        let count = read(&mut self.bytes)?;
        self.bytes.truncate(count);
        self.ends = count < length;
        self.start = start;
        self.epoch = epoch;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_answers_what_it_holds_and_nothing_else() {
        let mut window = Window::default();
        let source: Vec<u8> = (0..100).collect();
        window
            .fill(7, 10, 50, |buffer| {
                buffer.copy_from_slice(&source[10..60]);
                Ok::<usize, ()>(50)
            })
            .unwrap();
        let check = |epoch: u64, offset: u64, length: usize, expected: Option<&[u8]>| {
            let mut buffer = vec![0xEE; length];
            let count = window.read(epoch, offset, &mut buffer);
            assert_eq!(count.map(|count| &buffer[..count]), expected, "{epoch} {offset} {length}");
        };
        check(7, 10, 4, Some(&source[10..14]));
        check(7, 59, 1, Some(&source[59..60]));
        check(7, 59, 2, None);
        check(7, 9, 2, None);
        check(7, 60, 1, None);
        check(8, 10, 4, None);
    }

    #[test]
    fn a_window_at_the_end_gives_short_counts() {
        let mut window = Window::default();
        window
            .fill(1, 0, 50, |buffer| {
                buffer[..20].fill(3);
                Ok::<usize, ()>(20)
            })
            .unwrap();
        let mut buffer = [0; 30];
        assert_eq!(window.read(1, 10, &mut buffer), Some(10));
        assert_eq!(window.read(1, 20, &mut buffer), None);
        assert!(window.fill(1, 0, 50, |_| Err(())).is_err());
        assert_eq!(window.read(1, 10, &mut buffer), None);
    }
}
