//! The facade: opens a store by path or URL and composes the floors below.
