//! For tests: the calls of a device that go to another one as they are.

/// `pass_on!(field: call, …)` within an `impl Device`: these calls go to that field.
macro_rules! pass_on {
    ($to:ident: $($call:ident),+) => { $(crate::device::pass_on!(@ $to $call);)+ };
    (@ $to:ident len) => {
        fn len(&self) -> std::io::Result<u64> {
            self.$to.len()
        }
    };
    (@ $to:ident grow) => {
        fn grow(&self, length: u64) -> std::io::Result<()> {
            self.$to.grow(length)
        }
    };
    (@ $to:ident holds) => {
        fn holds(&self, offset: u64, length: usize) -> bool {
            self.$to.holds(offset, length)
        }
    };
    (@ $to:ident read_at) => {
        fn read_at(&self, buffer: &mut [u8], offset: u64, mode: crate::device::ReadMode) -> std::io::Result<()> {
            self.$to.read_at(buffer, offset, mode)
        }
    };
    (@ $to:ident write_at) => {
        fn write_at(&self, data: &[u8], offset: u64) -> std::io::Result<()> {
            self.$to.write_at(data, offset)
        }
    };
    (@ $to:ident sync) => {
        fn sync(&self) -> std::io::Result<()> {
            self.$to.sync()
        }
    };
    (@ $to:ident discard) => {
        fn discard(&self, offset: u64, length: u64) -> std::io::Result<()> {
            self.$to.discard(offset, length)
        }
    };
    (@ $to:ident close) => {
        fn close(&self) -> std::io::Result<()> {
            self.$to.close()
        }
    };
    (@ $to:ident is_fixed) => {
        fn is_fixed(&self) -> bool {
            self.$to.is_fixed()
        }
    };
}

pub(crate) use pass_on;
