//! C programs of the tests: compiled against the header, linked with the library as it is installed.

// Not every test needs all of it.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the package.
pub fn home() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The newest built file of this name, which may carry a hash.
fn built(name: &str, end: &str) -> PathBuf {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let mut found: Vec<(std::time::SystemTime, PathBuf)> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let file = path.file_name().unwrap().to_string_lossy();
            file.strip_suffix(end).is_some_and(|stem| stem == name || stem.starts_with(&format!("{name}-")))
        })
        .map(|path| (path.metadata().unwrap().modified().unwrap(), path))
        .collect();
    found.sort();
    found.pop().unwrap_or_else(|| panic!("no {name}*{end} in {}", folder.display())).1
}

/// A folder with the libraries under the names that they are installed under.
pub fn libraries() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(built("libkoine_c", ".so"), folder.path().join("libkoine.so.0")).unwrap();
    std::os::unix::fs::symlink("libkoine.so.0", folder.path().join("libkoine.so")).unwrap();
    std::fs::copy(built("libkoine_c", ".a"), folder.path().join("libkoine.a")).unwrap();
    folder
}

/// What a command tells; it must succeed.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{text}", output.status);
    text
}

/// What a static library needs beside itself, from the pkg-config file, as `./x install` completes it.
fn private_libraries() -> Vec<String> {
    let template = std::fs::read_to_string(home().join("koine.pc.in")).unwrap();
    let line = template.lines().find_map(|line| line.strip_prefix("Libs.private:")).unwrap();
    let rocksdb: &[&str] = if cfg!(feature = "rocksdb") { &["-lrocksdb", "-lstdc++"] } else { &[] };
    line.split_whitespace().chain(rocksdb.iter().copied()).map(str::to_owned).collect()
}

/// As C99.
pub const AS_C: &[&str] = &["-x", "c", "-std=c99"];
/// As C++.
pub const AS_CPP: &[&str] = &["-x", "c++", "-std=c++17"];

/// Compiles a program, strictly, against the shared or the static library.
pub fn compile(source: &Path, language: &[&str], libraries: &Path, shared: bool) -> PathBuf {
    let program = libraries.join(if shared { "with-shared" } else { "with-static" });
    let mut cc = Command::new("cc");
    cc.args(language).args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-g"]);
    cc.arg("-I").arg(home().join("include"));
    cc.arg(source).args(["-x", "none", "-o"]).arg(&program);
    if shared {
        cc.arg("-L").arg(libraries).args(["-lkoine", "-lpthread"]);
        cc.arg(format!("-Wl,-rpath,{}", libraries.display()));
    } else {
        cc.arg(libraries.join("libkoine.a")).args(private_libraries());
    }
    run(&mut cc);
    program
}
