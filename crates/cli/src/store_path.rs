//! What commands take that work on the engine's own format: the path of a file or a device.

use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser};
use koine::Place;

/// Reads a path, `engine:PATH` or `file:PATH`.
pub fn parser() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(read)
}

/// The same, and leaves `rocksdb:FOLDER` as it is.
pub fn or_rocks() -> impl TypedValueParser<Value = PathBuf> {
    let is_rocks = |path: &PathBuf| path.to_str().is_some_and(|text| text.starts_with("rocksdb:"));
    PathBufValueParser::new().try_map(move |path| if is_rocks(&path) { Ok(path) } else { read(path) })
}

fn read(path: PathBuf) -> Result<PathBuf, String> {
    let Some(text) = path.to_str() else { return Ok(path) };
    match Place::parse(text) {
        Ok(Place::Path(path)) => Ok(path),
        Ok(other) => Err(format!(
            "{other} is not a file or device in the format that this command reads; `koine kv` and `koine copy` work with every store"
        )),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_store_is_no_part_of_its_name() {
        for (text, path) in
            [("a.koine", "a.koine"), ("engine:a", "a"), ("file:///a", "/a"), ("./engine:a", "./engine:a")]
        {
            assert_eq!(read(text.into()).unwrap(), PathBuf::from(path));
        }
        for text in ["memory:", "rocksdb:a", "koine+unix:a.sock", "koine+tcp:host:1"] {
            let error = read(text.into()).unwrap_err();
            assert!(error.contains(text) && error.contains("koine copy"), "{error}");
        }
        assert!(read("".into()).is_err());
    }
}
