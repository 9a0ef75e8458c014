//! A device in memory, for tests, simulation and stores that need not last.
//!
//! Invariants:
//! - Everything written is there at once; `sync` has nothing to do.
//! - The length only grows, and never past the cap, unless `resize` plays the owner of the medium.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::{Device, Image, ReadMode, check_read, check_write};

/// A medium in memory.
pub struct MemoryDevice {
    image: RwLock<Image>,
    closed: AtomicBool,
    length_max: u64,
    fixed: bool,
}

impl MemoryDevice {
    /// Zeros, as long as this for ever.
    pub fn fixed(length: usize) -> Self {
        MemoryDevice::fixed_from(Image::zeros(length))
    }

    /// Zeros that can grow up to `length_max` bytes.
    pub fn growable(length: usize, length_max: u64) -> Self {
        MemoryDevice::from_image(Image::zeros(length), length_max)
    }

    /// With this content, growing up to `length_max` bytes.
    pub fn from_bytes(bytes: Vec<u8>, length_max: u64) -> Self {
        MemoryDevice::from_image(Image::from(&bytes[..]), length_max)
    }

    /// With what this image holds, growing up to `length_max` bytes. Blocks are copied when they are written.
    pub fn from_image(image: Image, length_max: u64) -> Self {
        MemoryDevice {
            length_max: length_max.max(image.len() as u64),
            image: RwLock::new(image),
            closed: AtomicBool::new(false),
            fixed: false,
        }
    }

    /// With what this image holds, as long as that for ever.
    pub fn fixed_from(image: Image) -> Self {
        let length = image.len() as u64;
        MemoryDevice { fixed: true, ..MemoryDevice::from_image(image, length) }
    }

    /// A copy of the content, also of a closed device.
    pub fn to_vec(&self) -> Vec<u8> {
        self.image.read().to_vec()
    }

    /// The content, shared until either is written; also of a closed device.
    pub fn image(&self) -> Image {
        self.image.read().clone()
    }

    /// Makes the medium longer or shorter under a store, as the owner of a partition can.
    pub fn resize(&self, length: usize) {
        let mut image = self.image.write();
        if length < image.len() {
            let short = image.to_vec();
            *image = Image::from(short.get(..length).unwrap_or_default());
        }
        image.grow(length);
    }

    /// Lets a closed device be used again, with what it held.
    pub fn reopen(&self) {
        self.closed.store(false, Ordering::SeqCst);
    }

    fn read(&self) -> io::Result<RwLockReadGuard<'_, Image>> {
        let image = self.image.read();
        self.check_open()?;
        Ok(image)
    }

    fn write(&self) -> io::Result<RwLockWriteGuard<'_, Image>> {
        let image = self.image.write();
        self.check_open()?;
        Ok(image)
    }

    fn check_open(&self) -> io::Result<()> {
        let closed = self.closed.load(Ordering::SeqCst);
        if closed { Err(io::Error::other("the memory device is closed")) } else { Ok(()) }
    }
}

impl Device for MemoryDevice {
    fn len(&self) -> io::Result<u64> {
        Ok(self.read()?.len() as u64)
    }

    fn grow(&self, length: u64) -> io::Result<()> {
        let mut image = self.write()?;
        if length <= image.len() as u64 {
            return Ok(());
        }
        if self.fixed {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "this memory device has a fixed size"));
        }
        if length > self.length_max {
            let message = format!("{length} bytes are over the {} that this device may have", self.length_max);
            return Err(io::Error::new(io::ErrorKind::StorageFull, message));
        }
        let length = usize::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        image.grow(length);
        Ok(())
    }

    fn holds(&self, _offset: u64, _length: usize) -> bool {
        true
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64, _mode: ReadMode) -> io::Result<()> {
        let image = self.read()?;
        let range = check_read(buffer.len(), offset, image.len() as u64)?;
        image.read(range.start, buffer);
        Ok(())
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let mut image = self.write()?;
        let range = check_write(data.len(), offset, image.len() as u64)?;
        image.write(range.start, data);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.check_open()
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        let mut image = self.write()?;
        let length = usize::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let range = check_write(length, offset, image.len() as u64)?;
        image.zero(range.start, length);
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        // Waits for who is at work.
        let _image = self.image.write();
        self.closed.store(true, Ordering::SeqCst);
        Ok(())
    }

    fn is_fixed(&self) -> bool {
        self.fixed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::BLOCK_LEN;

    #[test]
    fn grows_up_to_its_cap() {
        let device = MemoryDevice::growable(BLOCK_LEN, 3 * BLOCK_LEN as u64);
        device.write_at(&[1; BLOCK_LEN], 0).unwrap();
        assert!(device.write_at(&[1; BLOCK_LEN], BLOCK_LEN as u64).is_err());
        device.grow(2 * BLOCK_LEN as u64).unwrap();
        device.grow(1).unwrap();
        assert_eq!(device.len().unwrap(), 2 * BLOCK_LEN as u64);
        let mut two = [9; 2];
        device.read_at(&mut two, BLOCK_LEN as u64 - 1, ReadMode::Cached).unwrap();
        assert_eq!(two, [1, 0]);
        assert_eq!(device.grow(4 * BLOCK_LEN as u64).unwrap_err().kind(), io::ErrorKind::StorageFull);
        let fixed = MemoryDevice::fixed(BLOCK_LEN);
        assert!(fixed.is_fixed() && !device.is_fixed());
        assert_eq!(fixed.grow(2 * BLOCK_LEN as u64).unwrap_err().kind(), io::ErrorKind::Unsupported);
    }

    #[test]
    fn refuses_what_is_outside_unaligned_or_closed() {
        let device = MemoryDevice::fixed(2 * BLOCK_LEN);
        assert!(device.write_at(&[0; 512], 0).is_err());
        assert!(device.write_at(&[0; BLOCK_LEN], 512).is_err());
        assert!(device.write_at(&[0; BLOCK_LEN], u64::MAX - 4095).is_err());
        let error = device.read_at(&mut [0; 2], 2 * BLOCK_LEN as u64 - 1, ReadMode::Direct).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(device.read_at(&mut [0; 2], u64::MAX, ReadMode::Now).is_err());
        device.close().unwrap();
        assert!(device.sync().is_err() && device.len().is_err() && device.read_at(&mut [0], 0, ReadMode::Now).is_err());
        device.reopen();
        assert_eq!((device.len().unwrap(), device.to_vec().len()), (2 * BLOCK_LEN as u64, 2 * BLOCK_LEN));
    }
}
