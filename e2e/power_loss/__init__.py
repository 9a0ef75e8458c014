"""Power cuts for the real program: a device that records every write and flush, and the images it could have left."""
