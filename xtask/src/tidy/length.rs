//! Lengths: of files without their tests, of test files, of functions.
//!
//! Invariants:
//! - Lines are those of the file, comments and blank ones included: what a reader scrolls through.
//! - A trailing `#[cfg(test)] mod` does not count towards its file.

use super::Finding;
use crate::code;

/// Lines of a file before its tests.
pub const FILE_LINES_MAX: usize = 500;
/// Lines of a file of tests.
pub const TEST_FILE_LINES_MAX: usize = 1000;
/// Lines of a function, from `fn` to its closing brace.
pub const FUNCTION_LINES_MAX: usize = 70;

/// Checks the lengths of one Rust file, given its code without comments and literals.
pub fn check(path: &str, code: &str, findings: &mut Vec<Finding>) {
    let (lines, limit) = if is_test_file(path) {
        (code.lines().count(), TEST_FILE_LINES_MAX)
    } else {
        (lines_before_tests(code), FILE_LINES_MAX)
    };
    if lines > limit {
        let message = format!("{lines} lines, {limit} is the most; give a part of it a file of its own");
        findings.push(Finding::new(path, 1, message));
    }
    for function in functions(code) {
        if function.lines > FUNCTION_LINES_MAX {
            let message = format!(
                "fn {} has {} lines, {FUNCTION_LINES_MAX} is the most; split it where its steps have names",
                function.name, function.lines
            );
            findings.push(Finding::new(path, function.line, message));
        }
    }
}

/// Whether a whole file is tests.
fn is_test_file(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

/// The lines before a trailing `#[cfg(test)] mod …`.
fn lines_before_tests(code: &str) -> usize {
    let mut total = 0;
    let mut pending = None;
    for (index, line) in code.lines().enumerate() {
        total = index + 1;
        let bare: String = line.split_whitespace().collect();
        if bare == "#[cfg(test)]" {
            pending = Some(index);
        } else if let Some(start) = pending {
            if bare.starts_with("mod") && line.trim_start().starts_with("mod ") {
                return start;
            }
            if !bare.is_empty() && !bare.starts_with("#[") {
                pending = None;
            }
        }
    }
    total
}

/// A function and how long it is.
#[derive(Debug, PartialEq, Eq)]
struct Function<'a> {
    name: &'a str,
    line: usize,
    lines: usize,
}

/// Every function with a body, inner ones too.
fn functions(code: &str) -> Vec<Function<'_>> {
    let mut found = Vec::new();
    let mut start_of_line = 0;
    for (index, line) in code.lines().enumerate() {
        let mut words = code::words(line).peekable();
        while let Some((column, word)) = words.next() {
            // `fn` followed by a name; a function pointer type (`fn(`) has none.
            if word != "fn" {
                continue;
            }
            let Some((next, name)) = words.peek().copied() else { continue };
            if !line[column + 2..next].trim().is_empty() {
                continue;
            }
            if let Some(lines) = body_lines(&code[start_of_line + next..]) {
                found.push(Function { name, line: index + 1, lines });
            }
        }
        start_of_line += line.len() + 1;
    }
    found
}

/// The lines from a function's name to the end of its body; `None` when it has no body.
fn body_lines(rest: &str) -> Option<usize> {
    let mut braces = 0_usize;
    let mut brackets = 0_usize;
    let mut lines = 1;
    for byte in rest.bytes() {
        match byte {
            b'\n' => lines += 1,
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets = brackets.saturating_sub(1),
            b';' if braces == 0 && brackets == 0 => return None,
            b'{' => braces += 1,
            b'}' => {
                braces = braces.saturating_sub(1);
                if braces == 0 && brackets == 0 {
                    return Some(lines);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_measured_from_name_to_brace() {
        let code = "trait T { fn a(&self); }\nfn b(x: [u8; 4]) -> fn(u8) {\n  if x {}\n}\nfn c() { fn d() {\n}\n}\n";
        let found: Vec<(&str, usize, usize)> = functions(code).iter().map(|f| (f.name, f.line, f.lines)).collect();
        assert_eq!(found, [("b", 2, 3), ("c", 5, 3), ("d", 5, 2)]);
    }

    #[test]
    fn tests_at_the_end_do_not_count() {
        let check = |code: &str, lines: usize| assert_eq!(lines_before_tests(code), lines, "{code}");
        check("a\nb\n", 2);
        check("a\nb\n#[cfg(test)]\nmod tests {\n}\n", 2);
        check("a\n#[cfg(test)]\nfn helper() {}\nb\n", 4);
        check("a\n#[cfg(test)]\n#[path = \"x\"]\nmod tests;\n", 1);
    }

    #[test]
    fn limits_are_exact() {
        let check = |path: &str, lines: usize, findings: usize| {
            let mut found = Vec::new();
            super::check(path, &"x\n".repeat(lines), &mut found);
            assert_eq!(found.len(), findings, "{path} {lines}");
        };
        check("crates/a/src/b.rs", 500, 0);
        check("crates/a/src/b.rs", 501, 1);
        check("crates/a/src/b/tests.rs", 501, 0);
        check("crates/a/tests/b.rs", 1001, 1);

        let mut found = Vec::new();
        let function = |body: usize| format!("fn long() {{\n{}}}\n", "x;\n".repeat(body));
        super::check("a.rs", &function(68), &mut found);
        assert_eq!(found, []);
        super::check("a.rs", &function(69), &mut found);
        assert_eq!(found.len(), 1);
    }
}
