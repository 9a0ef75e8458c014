//! The header says what the library has: the same calls with the same arguments, in the manual too.

use std::collections::BTreeMap;
use std::path::PathBuf;

fn read(name: &str) -> String {
    std::fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// Words with single spaces between them, without comments.
fn words(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("/*") {
        plain.push_str(before);
        rest = after.split_once("*/").map_or("", |(_, after)| after);
    }
    plain.push_str(rest);
    let lines: Vec<&str> = plain.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Each call of the header: its name, and the types of its result and arguments.
fn declared() -> BTreeMap<String, Vec<String>> {
    let header = words(&read("include/koine.h"));
    let mut calls = BTreeMap::new();
    for statement in header.split(';') {
        let Some((before, arguments)) = statement.trim().strip_suffix(')').and_then(|all| all.split_once('(')) else {
            continue;
        };
        let Some(at) = before.find("koine_").into_iter().chain(before.rfind("koine_")).max() else { continue };
        let (result, name) = before.split_at(at);
        let mut types = vec![result.rsplit('{').next().unwrap().trim().replace(' ', "")];
        for argument in arguments.split(',').filter(|argument| argument.trim() != "void") {
            let end = argument.rfind(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap();
            types.push(argument[..=end].trim().replace(' ', ""));
        }
        assert!(calls.insert(name.to_owned(), types).is_none(), "{name} twice");
    }
    calls
}

/// The C type of a Rust one.
fn in_c(rust: &str) -> String {
    let known = [
        ("()", "void"),
        ("bool", "bool"),
        ("u64", "uint64_t"),
        ("i64", "int64_t"),
        ("c_int", "int"),
        ("c_char", "char"),
        ("c_void", "void"),
        ("Store", "koine_store"),
        ("Object", "koine_object"),
        ("Transaction", "koine_transaction"),
        ("Mapped", "koine_mapped"),
        ("Error", "koine_error"),
        ("HintArgument", "koine_hint"),
        ("StoreOptions", "koine_store_options"),
        ("StoreStatus", "koine_store_status"),
        ("ObjectStatus", "koine_object_status"),
        ("Session", "koine_session"),
        ("SessionOptions", "koine_open_options"),
        ("Told", "koine_result"),
        ("Name", "koine_name"),
        ("Segment", "koine_segment"),
        ("Options", "koine_options"),
        ("ListOptions", "koine_list_options"),
        ("BucketSettings", "koine_bucket_change"),
        ("Change", "koine_change"),
        ("Each", "koine_each"),
        ("Reader", "koine_reader"),
        ("Writer", "koine_writer"),
        ("ObjectAsFile", "koine_file"),
        ("Part", "koine_part"),
        ("Txn", "koine_txn"),
        ("Body", "koine_txn_body"),
        ("IdentityChange", "koine_identity_change"),
        ("KeyOptions", "koine_key_options"),
        ("Grant", "koine_grant"),
        ("Query", "koine_search_query"),
    ];
    let rust = rust.trim();
    if let Some(inner) = rust.strip_prefix("*mut ") {
        return in_c(inner) + "*";
    }
    if let Some(inner) = rust.strip_prefix("*const ") {
        return format!("const{}*", in_c(inner));
    }
    let found = known.iter().find(|(name, _)| *name == rust);
    found.unwrap_or_else(|| panic!("no C type is known for {rust}")).1.to_owned()
}

/// Each exported call of the library, with its types as C has them.
fn exported() -> BTreeMap<String, Vec<String>> {
    let mut sources = String::new();
    for folder in ["src", "src/named"] {
        let files = std::fs::read_dir(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap();
        for file in files.map(|file| file.unwrap().path()).filter(|path| path.is_file()) {
            sources.push_str(&std::fs::read_to_string(file).unwrap());
        }
    }
    let all = sources.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut calls = BTreeMap::new();
    for item in all.split("#[unsafe(no_mangle)]").skip(1) {
        let (head, _) = item.split_once(" {").unwrap();
        let (_, signature) = head.split_once("extern \"C\" fn ").unwrap();
        let (name, rest) = signature.split_once('(').unwrap();
        let (arguments, result) = rest.rsplit_once(')').unwrap();
        let mut types = vec![in_c(result.trim().strip_prefix("->").unwrap_or("()"))];
        let arguments = arguments.split(',').map(str::trim).filter(|argument| !argument.is_empty());
        types.extend(arguments.map(|argument| in_c(argument.split_once(':').unwrap().1)));
        calls.insert(name.to_owned(), types);
    }
    calls
}

#[test]
fn the_header_declares_what_the_library_exports() {
    let (declared, exported) = (declared(), exported());
    assert!(exported.len() > 130, "{exported:?}");
    assert_eq!(declared, exported);
}

/// The values of flags: enumerations whose members are told together.
fn flags() -> Vec<(String, u64)> {
    let header = words(&read("include/koine.h"));
    let mut all = Vec::new();
    for enumeration in
        ["koine_flag", "koine_bucket_change_flag", "koine_change_flag", "koine_identity_change_flag", "koine_right"]
    {
        let (_, body) = header.split_once(&format!("typedef enum {enumeration} {{")).unwrap();
        let (members, _) = body.split_once('}').unwrap();
        for member in members.split(',') {
            let (name, value) = member.split_once('=').unwrap();
            let value = value.trim();
            let number = value.strip_prefix("0x").map_or_else(|| value.parse(), |hex| u64::from_str_radix(hex, 16));
            all.push((name.trim().to_owned(), number.unwrap()));
        }
    }
    all
}

#[test]
fn no_flag_of_one_structure_is_one_of_another() {
    let flags = flags();
    assert!(flags.len() > 25, "{flags:?}");
    let mut taken = BTreeMap::new();
    for (name, value) in flags {
        assert_eq!(value.count_ones(), 1, "{name}");
        assert_eq!(taken.insert(value, name.clone()), None, "{name}");
    }
}

#[test]
fn the_manual_names_every_call_and_kind() {
    let manual = read("man/koine.3") + &read("man/koine-objects.3");
    for name in declared().keys() {
        assert!(manual.contains(name.as_str()), "koine.3 does not name {name}");
    }
    let header = words(&read("include/koine.h"));
    for kind in header.split(['{', '}', ',', ';', ' ']).filter(|word| word.starts_with("KOINE_")) {
        assert!(manual.contains(kind), "koine.3 does not name {kind}");
    }
}

/// What an error means is told, not that its name says so.
#[test]
fn the_manual_says_what_each_error_means() {
    let manual = read("man/koine.3") + &read("man/koine-objects.3");
    let header = words(&read("include/koine.h"));
    let (_, kinds) = header.split_once("typedef enum koine_kind {").unwrap();
    let (kinds, _) = kinds.split_once('}').unwrap();
    for kind in kinds.split(',').filter_map(|kind| kind.split_whitespace().next()).filter(|kind| *kind != "KOINE_OK") {
        let (_, told) = manual.split_once(&format!("\n.B {kind}\n")).unwrap_or_else(|| panic!("{kind} is not told"));
        let meaning = told.lines().next().unwrap();
        assert!(meaning.len() > 20 && meaning.contains(' '), "{kind}: {meaning:?}");
        assert!(!meaning.contains("what the name says"), "{kind}");
    }
}

#[test]
fn every_call_of_the_paper_is_in_the_table() {
    let table = read("README.md");
    let declared = declared();
    for call in [
        "lstore_create",
        "lstore_open",
        "lstore_close",
        "lobject_create",
        "lobject_resize",
        "lobject_delete",
        "lobject_open",
        "lobject_close",
        "lobject_get_stat",
        "lobject_write",
        "lobject_read",
        "ltransaction_start",
        "ltransaction_execute",
    ] {
        let row = table.lines().find(|line| line.starts_with(&format!("| `{call}` |")));
        let row = row.unwrap_or_else(|| panic!("{call} has no row"));
        assert!(declared.keys().any(|ours| row.contains(&format!("`{ours}`"))), "{row}");
    }
}
