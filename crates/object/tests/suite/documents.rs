//! docs/semantics.md names tests that exist.

use std::path::Path;

#[test]
fn every_test_that_the_document_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("../../docs/semantics.md")).unwrap();
    let named: Vec<(&str, &str)> =
        text.split('`').skip(1).step_by(2).filter_map(|code| code.split_once("::")).collect();
    let named: Vec<_> =
        named.into_iter().filter(|(file, test)| file.chars().all(char::is_lowercase) && *test != "test").collect();
    assert!(named.len() > 40, "only {} tests are named", named.len());
    for (file, test) in named {
        let places = ["tests/suite", "tests/engine", "src"].map(|folder| root.join(folder).join(format!("{file}.rs")));
        let found = places.iter().filter_map(|place| std::fs::read_to_string(place).ok());
        let function = format!("fn {test}(");
        assert!(found.into_iter().any(|text| text.contains(&function)), "{file}::{test} is not there");
    }
}
