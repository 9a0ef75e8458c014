//! The script that drives every binding, by a C program.

mod building;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

/// Bytes that would end a value, as digits.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./@ ".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02x}") }).collect()
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Numbers with a sign between them.
fn joined(values: &[Value]) -> String {
    values.iter().map(text_of).collect::<Vec<_>>().join("+")
}

/// One argument of a step as those of the C program.
fn argument(name: &str, value: &Value, uploads: &HashMap<String, String>) -> Vec<(String, Option<String>)> {
    match (name, value) {
        ("gives" | "fails" | "do", _) => Vec::new(),
        ("upload", Value::String(upload)) => vec![(name.to_owned(), Some(uploads[upload].clone()))],
        ("quota_bytes" | "quota_objects", Value::Null) => vec![(name.to_owned(), Some("none".to_owned()))],
        ("metadata" | "tags", Value::Object(entries)) => entries
            .iter()
            .map(|(entry, value)| (format!("{name}.{entry}"), value.as_str().map(str::to_owned)))
            .collect(),
        ("between", Value::Array(texts)) => {
            vec![("first".to_owned(), Some(text_of(&texts[0]))), ("last".to_owned(), Some(text_of(&texts[1])))]
        }
        ("keys", Value::Array(keys)) => keys.iter().map(|key| (name.to_owned(), Some(text_of(key)))).collect(),
        ("range", Value::Array(range)) => vec![(name.to_owned(), Some(joined(range)))],
        ("sources", Value::Array(sources)) => sources
            .iter()
            .map(|source| {
                let source = source.as_array().unwrap();
                (format!("sources.{}", joined(&source[1..])), Some(text_of(&source[0])))
            })
            .collect(),
        ("steps", Value::Array(steps)) => steps
            .iter()
            .map(|step| {
                let step = step.as_array().unwrap();
                (format!("steps.{}", text_of(&step[0])), (step.len() > 1).then(|| joined(&step[1..])))
            })
            .collect(),
        _ => vec![(name.to_owned(), Some(text_of(value)))],
    }
}

#[test]
fn every_step_gives_what_the_script_says() {
    let script = building::home().join("../script/objects.json");
    let steps: Vec<Value> = serde_json::from_slice(&std::fs::read(script).unwrap()).unwrap();
    let libraries = building::libraries();
    let source = building::home().join("tests/script.c");
    let program = building::compile(Path::new(&source), building::AS_C, libraries.path(), true);
    let mut running =
        Command::new(program).arg("memory:").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = running.stdin.take().unwrap();
    let mut output = BufReader::new(running.stdout.take().unwrap());
    let (mut uploads, mut different) = (HashMap::new(), Vec::new());
    for (at, step) in steps.iter().enumerate() {
        let mut line = step["do"].as_str().unwrap().to_owned();
        for (name, value) in step.as_object().unwrap() {
            for (name, value) in argument(name, value, &uploads) {
                line += &format!("\t{}", encoded(&name));
                if let Some(value) = value {
                    line += &format!("={}", encoded(&value));
                }
            }
        }
        writeln!(input, "{line}").unwrap();
        let mut told = String::new();
        output.read_line(&mut told).unwrap();
        let mut given: Value = serde_json::from_str(&told).unwrap_or_else(|_| panic!("step {at}: {step}: {told}"));
        if let ("upload", Some(id), Some(save)) =
            (step["do"].as_str().unwrap(), given["gives"].as_str(), step["save"].as_str())
        {
            uploads.insert(save.to_owned(), id.to_owned());
            given["gives"] = Value::Bool(true);
        }
        // Members of a group come in the order of ids that are drawn.
        if let ("users", Some(names)) =
            (step["do"].as_str().unwrap(), given.get_mut("gives").and_then(Value::as_array_mut))
        {
            names.sort_by_key(text_of);
        }
        if step.get("gives") != given.get("gives") || step.get("fails") != given.get("fails") {
            different.push(format!("step {at}: {step}: {given}"));
        }
    }
    drop(input);
    assert!(different.is_empty(), "{}", different.join("\n"));
    assert!(running.wait().unwrap().success());
}
