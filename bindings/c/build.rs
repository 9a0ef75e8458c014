//! Gives the shared library its name for the dynamic linker.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libkoine.so.0");
    // What crates below export for C programs of their own is not exported here.
    println!("cargo:rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
}
