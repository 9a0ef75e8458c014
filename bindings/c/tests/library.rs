//! The library as C programs see it: compiled against the header, linked both ways, run.

mod building;

use std::path::{Path, PathBuf};
use std::process::Command;

use building::{AS_C, AS_CPP, compile, home, libraries, run};

fn run_both_ways(source: &str, arguments: &dyn Fn(&Path) -> PathBuf) -> Vec<String> {
    let libraries = libraries();
    [true, false]
        .map(|shared| {
            let program = compile(&home().join(source), AS_C, libraries.path(), shared);
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
    cc.args(AS_CPP).args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I"]);
    run(cc.arg(home().join("include")).arg(&source));
}

#[test]
fn every_call_on_named_objects_does_what_the_header_says() {
    for told in run_both_ways("tests/named.c", &|folder| folder.to_owned()) {
        let checks: u64 = told.split_whitespace().next().unwrap().parse().unwrap();
        assert!(checks > 400, "{told}");
    }
}

#[test]
fn the_same_program_is_c_plus_plus_too_and_leaks_nothing() {
    let (libraries, stores) = (libraries(), tempfile::tempdir().unwrap());
    let program = compile(&home().join("tests/named.c"), AS_CPP, libraries.path(), true);
    if Command::new("valgrind").arg("--version").output().is_err() {
        run(Command::new(program).arg(stores.path()));
        return;
    }
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--error-exitcode=9", "--quiet", "--leak-check=full"]);
    valgrind.args(["--show-leak-kinds=definite,possible", "--errors-for-leak-kinds=definite,possible"]);
    run(valgrind.arg(&program).arg(stores.path()));
}

#[test]
fn the_example_of_named_objects_runs() {
    for told in run_both_ways("examples/objects.c", &|folder| folder.join("objects.koine")) {
        assert!(told.contains("greetings/hello has 13 bytes: Hello, world!"), "{told}");
    }
}

#[test]
fn the_shared_library_exports_its_own_calls_and_nothing_else() {
    let libraries = libraries();
    let told = run(Command::new("nm").args(["-D", "--defined-only"]).arg(libraries.path().join("libkoine.so.0")));
    let names: Vec<&str> = told.lines().filter_map(|line| line.split_whitespace().last()).collect();
    assert!(names.len() > 130, "{told}");
    let foreign: Vec<_> = names.iter().filter(|name| !name.starts_with("koine_")).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
}
