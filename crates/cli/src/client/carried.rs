//! What goes with the bytes of an object to another server: headers of its content, the user's metadata, and tags.

use koine::object::ContentHeaders;

use super::sign::encode;
use super::{Answer, Call, Client};
use crate::failure::Outcome;

const METADATA: &str = "x-amz-meta-";

/// Headers, metadata and tags of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Content-Type and its like.
    pub headers: ContentHeaders,
    /// Names without `x-amz-meta-`.
    pub metadata: Vec<(String, String)>,
    /// Names and values.
    pub tags: Vec<(String, String)>,
}

impl Carried {
    /// What an answer tells; its tags have to be asked for.
    pub(super) fn of(answer: &Answer) -> Self {
        let mut headers = ContentHeaders::default();
        for (name, value) in fields_mut(&mut headers) {
            *value = answer.header(name);
        }
        let metadata = answer.headers.iter().filter_map(|(name, value)| {
            let name = name.as_str().strip_prefix(METADATA)?;
            Some((name.to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        });
        Carried { headers, metadata: metadata.collect(), tags: Vec::new() }
    }

    /// A call with the headers and metadata; upload in parts takes no more.
    pub(super) fn on(&self, mut call: Call) -> Call {
        for (name, value) in fields_mut(&mut self.headers.clone()) {
            if let Some(value) = value.take() {
                call = call.header(name, value);
            }
        }
        self.metadata.iter().fold(call, |call, (name, value)| call.header(&format!("{METADATA}{name}"), value))
    }

    /// A call with the tags.
    pub(super) fn tags_on(&self, call: Call) -> Call {
        if self.tags.is_empty() {
            return call;
        }
        let pair =
            |(name, value): &(String, String)| format!("{}={}", encode(name.as_bytes()), encode(value.as_bytes()));
        call.header("x-amz-tagging", self.tags.iter().map(pair).collect::<Vec<_>>().join("&"))
    }
}

fn fields_mut(headers: &mut ContentHeaders) -> [(&'static str, &mut Option<String>); 6] {
    [
        ("content-type", &mut headers.content_type),
        ("cache-control", &mut headers.cache_control),
        ("content-disposition", &mut headers.content_disposition),
        ("content-encoding", &mut headers.content_encoding),
        ("content-language", &mut headers.content_language),
        ("expires", &mut headers.expires),
    ]
}

impl Client {
    /// The tags of an object.
    pub async fn tags(&self, bucket: &str, key: &str) -> Outcome<Vec<(String, String)>> {
        let root = self.send(Call::new("GET", bucket, key).query("tagging", "")).await?.xml("get tags")?;
        let tags = root.child("TagSet").map(|set| {
            let tags = set.all("Tag").map(|tag| (tag.text_of("Key").to_owned(), tag.text_of("Value").to_owned()));
            tags.collect()
        });
        Ok(tags.unwrap_or_default())
    }

    /// Gives an object tags.
    pub async fn put_tags(&self, bucket: &str, key: &str, tags: &[(String, String)]) -> Outcome {
        let tag = |(name, value): &(String, String)| {
            let (name, value) = (quick_xml::escape::escape(name), quick_xml::escape::escape(value));
            format!("<Tag><Key>{name}</Key><Value>{value}</Value></Tag>")
        };
        let set: String = tags.iter().map(tag).collect();
        let body = format!("<Tagging><TagSet>{set}</TagSet></Tagging>");
        self.send(Call::new("PUT", bucket, key).query("tagging", "").body(body)).await.map(drop)
    }
}
