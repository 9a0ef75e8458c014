//! What the fuzz targets of the door call: parsers of what a stranger sends before anything is verified.
//! Invariant: any bytes are read or refused.

use bytes::Bytes;

use crate::auth::canonical::{PathForm, Signed, canonical_request, forms_differ};
use crate::auth::chunks::ChunkDecoder;
use crate::auth::claim::{Claim, parse_amz_date};
use crate::query::Query;
use crate::s3::acl::grantees;

/// A body in chunks: the first byte says how long the parts are in which it comes, and whether trailers may follow.
pub fn chunks(bytes: &[u8]) {
    let Some((first, body)) = bytes.split_first() else { return };
    let mut lengths = Vec::new();
    for part in [usize::from(first >> 1) + 1, body.len().max(1)] {
        let announced = (first & 1 == 1).then(|| vec!["x-amz-checksum-crc32".to_owned()]);
        let mut decoder = ChunkDecoder::new(None, announced, body.len() as u64);
        let (mut data, mut failed) = (Vec::new(), false);
        'parts: for part in body.chunks(part) {
            let mut frame = Bytes::copy_from_slice(part);
            loop {
                match decoder.next_data(&mut frame) {
                    Ok(Some(more)) => data.extend_from_slice(&more),
                    Ok(None) => break,
                    Err(_) => {
                        failed = true;
                        break 'parts;
                    }
                }
            }
        }
        assert!(data.len() <= body.len());
        if !failed {
            let _ = decoder.finish();
            lengths.push(data);
        }
    }
    // How the body is cut into parts changes nothing.
    if let [one, other] = lengths.as_slice() {
        assert_eq!(one, other);
    }
}

/// A signature: a line of the head, a query, a date.
pub fn signature(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = (Claim::from_header(text).is_ok(), parse_amz_date(text), forms_differ(text));
    let Ok(query) = Query::parse(Some(text)) else { return };
    let _ = Claim::from_query(&query).is_ok();
    let canonical = query.canonical(|_| true);
    let again = Query::parse(Some(&canonical)).expect("what is canonical can be read");
    assert_eq!(again.canonical(|_| true), canonical);
    head(text);
}

/// A head: its first line is the target, the others are headers.
fn head(text: &str) {
    let mut lines = text.lines();
    let mut request = http::Request::builder().uri(lines.next().unwrap_or_default());
    let headers: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(':')).collect();
    for (name, value) in &headers {
        request = request.header(*name, *value);
    }
    let Ok(request) = request.body(()) else { return };
    let (parts, ()) = request.into_parts();
    let Ok(query) = Query::parse(parts.uri.query()) else { return };
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    for form in [PathForm::Encoded, PathForm::AsSent] {
        let signed = Signed { headers: &names, payload: "UNSIGNED-PAYLOAD", skip_signature: true };
        let _ = canonical_request(&parts, &query, form, &signed);
    }
}

/// A header that grants: who is named can be written again, and is the same.
pub fn access_list(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(found) = grantees(text) else { return };
    assert!(!found.is_empty() && found.len() <= text.len());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), text in "[ -~\r\n]{0,200}") {
            chunks(&bytes);
            signature(&bytes);
            chunks(text.as_bytes());
            signature(text.as_bytes());
            access_list(text.as_bytes());
            access_list(format!("id=\"{text}\",uri={text}").as_bytes());
        }

        #[test]
        fn chunks_of_any_length(lengths in prop::collection::vec(0usize..40, 0..6), first in any::<u8>()) {
            let mut body = vec![first];
            for length in lengths {
                body.extend_from_slice(format!("{length:x}\r\n{}\r\n", "x".repeat(length)).as_bytes());
            }
            chunks(&body);
        }
    }
}
