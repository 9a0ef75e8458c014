//! The calls, one function each.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;

use super::xml::Element;
use super::{Answer, Call, Carried, Client};
use crate::failure::{Failure, Outcome};

const CHECKSUM: &str = "x-amz-checksum-crc64nvme";

/// One entry of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listed {
    /// A bucket.
    Bucket {
        /// Its name.
        name: String,
        /// When it was made.
        created: String,
    },
    /// Keys that share a prefix up to the delimiter.
    Prefix {
        /// The prefix.
        prefix: String,
    },
    /// An object.
    Object {
        /// Its key.
        key: String,
        /// Its length in bytes.
        size: u64,
        /// When it was last written.
        modified: String,
        /// Its ETag, without quotes.
        etag: String,
    },
}

impl Listed {
    /// The bucket's name, the prefix or the key.
    pub fn name(&self) -> &str {
        match self {
            Listed::Bucket { name, .. } => name,
            Listed::Prefix { prefix } => prefix,
            Listed::Object { key, .. } => key,
        }
    }
}

/// One page of a listing.
#[derive(Debug)]
pub struct Listing {
    /// In order.
    pub entries: Vec<Listed>,
    /// Continues behind this page.
    pub next: Option<String>,
}

/// What is known of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// Its length in bytes.
    pub size: u64,
    /// Its ETag, without quotes.
    pub etag: String,
    /// CRC-64/NVME of all of it, where the server has it.
    pub checksum: Option<u64>,
    /// What goes with its bytes to another name.
    pub carried: Carried,
    /// How many tags it has, where the server tells.
    pub tag_count: usize,
}

/// A part that was taken.
#[derive(Clone, Debug)]
pub struct Part {
    /// From one.
    pub number: u32,
    /// As the server gave it.
    pub etag: String,
}

impl Client {
    /// All buckets.
    pub async fn buckets(&self) -> Outcome<Vec<Listed>> {
        let root = self.send(Call::new("GET", "", "")).await?.xml("list buckets")?;
        let buckets = root.child("Buckets").map(|list| list.all("Bucket").map(bucket).collect());
        Ok(buckets.unwrap_or_default())
    }

    /// One page of a bucket's keys.
    pub async fn list(&self, bucket: &str, prefix: &str, delimiter: &str, from: Option<&str>) -> Outcome<Listing> {
        // Encoded names survive XML, which cannot hold every byte that a key can.
        let mut call = Call::new("GET", bucket, "").query("list-type", "2").query("encoding-type", "url");
        call = call.query("prefix", prefix);
        if !delimiter.is_empty() {
            call = call.query("delimiter", delimiter);
        }
        if let Some(from) = from {
            call = call.query("continuation-token", from);
        }
        let root = self.send(call).await?.xml("list objects")?;
        let encoded = root.text_of("EncodingType") == "url";
        let mut entries = Vec::new();
        for object in root.all("Contents") {
            entries.push(Listed::Object {
                key: name(object.text_of("Key"), encoded)?,
                size: number(object.text_of("Size"))?,
                modified: object.text_of("LastModified").to_owned(),
                etag: unquote(object.text_of("ETag")),
            });
        }
        for group in root.all("CommonPrefixes") {
            entries.push(Listed::Prefix { prefix: name(group.text_of("Prefix"), encoded)? });
        }
        let next = Some(root.text_of("NextContinuationToken")).filter(|token| !token.is_empty()).map(str::to_owned);
        Ok(Listing { entries, next: next.filter(|_| root.text_of("IsTruncated") == "true") })
    }

    /// What is known of an object.
    pub async fn head(&self, bucket: &str, key: &str) -> Outcome<Properties> {
        let answer = self.send(Call::new("HEAD", bucket, key).header("x-amz-checksum-mode", "ENABLED")).await?;
        properties(&answer)
    }

    /// A range of an object, refused when it is not the one of this ETag any more.
    pub async fn get(&self, bucket: &str, key: &str, etag: &str, offset: u64, length: u64) -> Outcome<Bytes> {
        let mut call = Call::new("GET", bucket, key).header("if-match", format!("\"{etag}\""));
        if length > 0 {
            call = call.header("range", format!("bytes={offset}-{}", offset + length - 1));
        }
        let name = call.name();
        let body = self.send(call).await?.body;
        if body.len() as u64 != length {
            return Err(Failure::failed(format!("{name}: {} bytes came, {length} were asked for", body.len())));
        }
        Ok(body)
    }

    /// A whole object.
    pub async fn put(&self, bucket: &str, key: &str, body: Bytes, checksum: u64, with: &Carried) -> Outcome<()> {
        let call = with.on(Call::new("PUT", bucket, key).header(CHECKSUM, checksum_text(checksum)).body(body));
        self.send(with.tags_on(call)).await.map(drop)
    }

    /// Begins an upload in parts.
    pub async fn create_upload(&self, bucket: &str, key: &str, with: &Carried) -> Outcome<String> {
        let call = Call::new("POST", bucket, key)
            .query("uploads", "")
            .header("x-amz-checksum-algorithm", "CRC64NVME")
            .header("x-amz-checksum-type", "FULL_OBJECT");
        let root = self.send(with.on(call)).await?.xml("create multipart upload")?;
        Ok(root.text_of("UploadId").to_owned())
    }

    /// One part of an upload.
    pub async fn put_part(
        &self,
        (bucket, key, upload): (&str, &str, &str),
        number: u32,
        body: Bytes,
        checksum: u64,
    ) -> Outcome<Part> {
        let call = Call::new("PUT", bucket, key)
            .query("partNumber", number.to_string())
            .query("uploadId", upload)
            .header(CHECKSUM, checksum_text(checksum))
            .body(body);
        let answer = self.send(call).await?;
        Ok(Part { number, etag: answer.header("etag").unwrap_or_default() })
    }

    /// One part of an upload, taken from another object.
    pub async fn copy_part(
        &self,
        (bucket, key, upload): (&str, &str, &str),
        number: u32,
        source: &str,
        (offset, length): (u64, u64),
    ) -> Outcome<Part> {
        let call = Call::new("PUT", bucket, key)
            .query("partNumber", number.to_string())
            .query("uploadId", upload)
            .header("x-amz-copy-source", source)
            .header("x-amz-copy-source-range", format!("bytes={offset}-{}", offset + length - 1));
        let root = self.send(call).await?.xml("upload part copy")?;
        Ok(Part { number, etag: root.text_of("ETag").to_owned() })
    }

    /// Joins the parts of an upload; the checksum of the whole is verified by the server where it is given.
    pub async fn complete_upload(
        &self,
        (bucket, key, upload): (&str, &str, &str),
        parts: &[Part],
        checksum: Option<u64>,
    ) -> Outcome<()> {
        let list: String = parts
            .iter()
            .map(|part| {
                let etag = quick_xml::escape::escape(part.etag.as_str());
                format!("<Part><PartNumber>{}</PartNumber><ETag>{etag}</ETag></Part>", part.number)
            })
            .collect();
        let mut call = Call::new("POST", bucket, key)
            .query("uploadId", upload)
            .body(format!("<CompleteMultipartUpload>{list}</CompleteMultipartUpload>"));
        if let Some(checksum) = checksum {
            call = call.header(CHECKSUM, checksum_text(checksum)).header("x-amz-checksum-type", "FULL_OBJECT");
        }
        let name = call.name();
        // The status line may have been sent before the outcome was known: the body tells.
        let root = self.send(call).await?.xml("complete multipart upload")?;
        if root.name == "Error" {
            return Err(Failure::failed(format!("{name}: {}: {}", root.text_of("Code"), root.text_of("Message"))));
        }
        Ok(())
    }

    /// Gives an upload up.
    pub async fn abort_upload(&self, (bucket, key, upload): (&str, &str, &str)) -> Outcome<()> {
        self.send(Call::new("DELETE", bucket, key).query("uploadId", upload)).await.map(drop)
    }

    /// Makes a bucket.
    pub async fn create_bucket(&self, bucket: &str) -> Outcome<()> {
        self.send(Call::new("PUT", bucket, "")).await.map(drop)
    }

    /// Removes an empty bucket.
    pub async fn delete_bucket(&self, bucket: &str) -> Outcome<()> {
        self.send(Call::new("DELETE", bucket, "")).await.map(drop)
    }

    /// Deletes an object.
    pub async fn delete(&self, bucket: &str, key: &str) -> Outcome<()> {
        self.send(Call::new("DELETE", bucket, key)).await.map(drop)
    }

    /// Copies a whole object on the server.
    pub async fn copy(&self, bucket: &str, key: &str, source: &str) -> Outcome<()> {
        let root = self.send(Call::new("PUT", bucket, key).header("x-amz-copy-source", source)).await?.xml("copy")?;
        if root.name == "Error" {
            return Err(Failure::failed(format!(
                "copy {source}: {}: {}",
                root.text_of("Code"),
                root.text_of("Message")
            )));
        }
        Ok(())
    }
}

fn bucket(element: &Element) -> Listed {
    Listed::Bucket { name: element.text_of("Name").to_owned(), created: element.text_of("CreationDate").to_owned() }
}

fn properties(answer: &Answer) -> Outcome<Properties> {
    let checksum = answer.header(CHECKSUM).and_then(|text| BASE64.decode(text).ok());
    // A composite checksum ("…-3") does not decode, and would say nothing about the whole.
    let checksum = checksum.and_then(|bytes| <[u8; 8]>::try_from(bytes).ok()).map(u64::from_be_bytes);
    Ok(Properties {
        size: number(&answer.header("content-length").unwrap_or_default())?,
        etag: unquote(&answer.header("etag").unwrap_or_default()),
        checksum,
        carried: Carried::of(answer),
        tag_count: answer.header("x-amz-tagging-count").and_then(|count| count.parse().ok()).unwrap_or(0),
    })
}

/// A checksum as headers have it.
fn checksum_text(checksum: u64) -> String {
    BASE64.encode(checksum.to_be_bytes())
}

fn number(text: &str) -> Outcome<u64> {
    text.parse().map_err(|_| Failure::failed(format!("the server's answer has {text:?} where a number belongs")))
}

fn unquote(text: &str) -> String {
    text.trim_matches('"').to_owned()
}

/// A key out of a listing.
fn name(text: &str, encoded: bool) -> Outcome<String> {
    if !encoded {
        return Ok(text.to_owned());
    }
    // `+` stands for a space in this encoding; a plus sign arrives as %2B.
    let text = text.replace('+', " ");
    percent_encoding::percent_decode_str(&text)
        .decode_utf8()
        .map(std::borrow::Cow::into_owned)
        .map_err(|_| Failure::failed(format!("the server lists a key that is not UTF-8: {text}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_names_are_decoded() {
        let check = |text: &str, encoded: bool, key: &str| assert_eq!(name(text, encoded).ok().as_deref(), Some(key));
        check("a+b%2Bc%252F", true, "a b+c%2F");
        check("a+b%2B", false, "a+b%2B");
        assert!(name("%FF", true).is_err());
    }

    #[test]
    fn checksums_are_eight_bytes_big_endian() {
        assert_eq!(checksum_text(1), "AAAAAAAAAAE=");
    }
}
