//! Answers of S3 as a tree of elements.
//!
//! Invariants:
//! - Names are compared without their name space.
//! - Text is the concatenation of text, entities resolved; whitespace inside it is kept.
//! - Depth is bounded, so that a hostile answer cannot exhaust the stack.

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::Event;

const DEPTH_MAX: usize = 32;

/// An element.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// Its name without prefix.
    pub name: String,
    /// Its text.
    pub text: String,
    /// The elements in it.
    pub children: Vec<Element>,
}

impl Element {
    /// Parses a document into its root element.
    pub fn parse(document: &[u8]) -> Result<Element, String> {
        let mut reader = Reader::from_reader(document);
        let mut open = vec![Element::default()];
        let mut buffer = Vec::new();
        loop {
            match reader.read_event_into(&mut buffer).map_err(|error| error.to_string())? {
                Event::Start(start) => {
                    if open.len() > DEPTH_MAX {
                        return Err("elements nested too deeply".to_owned());
                    }
                    open.push(Element::named(start.local_name().as_ref()));
                }
                Event::Empty(start) => close(&mut open, Element::named(start.local_name().as_ref()))?,
                Event::End(_) => {
                    let done = open.pop().ok_or("an end without a start")?;
                    close(&mut open, done)?;
                }
                Event::Text(text) => append(&mut open, &text.decode().map_err(|error| error.to_string())?),
                Event::CData(text) => append(&mut open, &text.decode().map_err(|error| error.to_string())?),
                Event::GeneralRef(entity) => match entity.resolve_char_ref().map_err(|error| error.to_string())? {
                    Some(character) => append(&mut open, character.encode_utf8(&mut [0; 4])),
                    None => {
                        let name = entity.decode().map_err(|error| error.to_string())?;
                        append(&mut open, resolve_predefined_entity(&name).ok_or("an unknown entity")?);
                    }
                },
                Event::Eof => break,
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
            }
            buffer.clear();
        }
        match (open.len(), open.pop().and_then(|mut top| top.children.pop())) {
            (1, Some(root)) => Ok(root),
            _ => Err("the document ends too early".to_owned()),
        }
    }

    fn named(name: &[u8]) -> Element {
        Element { name: String::from_utf8_lossy(name).into_owned(), ..Element::default() }
    }

    /// The first child of this name.
    pub fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The text of the first child of this name; empty when there is none.
    pub fn text_of(&self, name: &str) -> &str {
        self.child(name).map_or("", |child| child.text.as_str())
    }

    /// All children of this name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |child| child.name == name)
    }
}

fn close(open: &mut [Element], done: Element) -> Result<(), String> {
    open.last_mut().ok_or("an end without a start")?.children.push(done);
    Ok(())
}

fn append(open: &mut [Element], text: &str) {
    if let Some(last) = open.last_mut() {
        last.text.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_become_trees() {
        let document = br#"<?xml version="1.0"?>
            <s:Result xmlns:s="x"><Key>a &amp; b&#233; </Key><Key>c</Key><Empty/><Owner><ID>1</ID></Owner></s:Result>"#;
        let root = Element::parse(document).expect("a document");
        assert_eq!(root.name, "Result");
        assert_eq!(root.all("Key").map(|key| key.text.as_str()).collect::<Vec<_>>(), ["a & b\u{e9} ", "c"]);
        assert_eq!(root.text_of("Empty"), "");
        assert_eq!(root.child("Owner").map(|owner| owner.text_of("ID")), Some("1"));
    }

    #[test]
    fn what_is_not_xml_is_an_error() {
        let check = |document: &[u8]| assert!(Element::parse(document).is_err(), "{document:?}");
        check(b"");
        check(b"<a><b></a>");
        check(b"<a>");
        check(b"<a>&nope;</a>");
        check("<a>".repeat(100).as_bytes());
    }
}
