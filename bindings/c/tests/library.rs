//! The library as C programs see it: compiled against the header, linked both ways, run.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the package.
fn home() -> PathBuf {
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
fn libraries() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(built("libkoine_c", ".so"), folder.path().join("libkoine.so.0")).unwrap();
    std::os::unix::fs::symlink("libkoine.so.0", folder.path().join("libkoine.so")).unwrap();
    std::fs::copy(built("libkoine_c", ".a"), folder.path().join("libkoine.a")).unwrap();
    folder
}

fn run(command: &mut Command) -> String {
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

/// Compiles a program, strictly, against the shared or the static library.
fn compile(source: &Path, libraries: &Path, shared: bool) -> PathBuf {
    let program = libraries.join(if shared { "with-shared" } else { "with-static" });
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-g"]).arg("-I").arg(home().join("include"));
    cc.arg(source).arg("-o").arg(&program);
    if shared {
        cc.arg("-L").arg(libraries).args(["-lkoine", "-lpthread"]);
        cc.arg(format!("-Wl,-rpath,{}", libraries.display()));
    } else {
        cc.arg(libraries.join("libkoine.a")).args(private_libraries());
    }
    run(&mut cc);
    program
}

fn run_both_ways(source: &str, arguments: &dyn Fn(&Path) -> PathBuf) -> Vec<String> {
    let libraries = libraries();
    [true, false]
        .map(|shared| {
            let program = compile(&home().join(source), libraries.path(), shared);
            let stores = tempfile::tempdir().unwrap();
            run(Command::new(program).arg(arguments(stores.path())))
        })
        .into()
}

#[test]
fn the_example_of_the_paper_runs() {
    for told in run_both_ways("examples/example.c", &|folder| folder.join("test.koine")) {
        assert!(told.contains("wrote 1048576 bytes to object 1 of"), "{told}");
        assert!(told.contains("read 1048576 bytes, all as written"), "{told}");
    }
}

#[test]
fn every_call_does_what_the_header_says() {
    for told in run_both_ways("tests/calls.c", &|folder| folder.to_owned()) {
        let checks: u64 = told.split_whitespace().next().unwrap().parse().unwrap();
        assert!(checks > 200_000, "{told}");
    }
}

#[test]
fn the_header_is_c_plus_plus_too() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("includes.cpp");
    std::fs::write(&source, "#include <koine.h>\nint main() { return koine_version() == nullptr; }\n").unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-x", "c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"]);
    run(cc.arg(home().join("include")).arg(&source));
}
