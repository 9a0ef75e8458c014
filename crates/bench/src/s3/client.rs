//! A plain blocking client for what surrounds a measurement: buckets, uploads, and looking at what was stored.

use super::response::{Body, parse_head};
use super::sign::{Credentials, Signer, UNSIGNED_PAYLOAD, Unsigned};
use crate::Error;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use time::OffsetDateTime;

/// A request that takes longer than this has failed.
const PATIENCE: Duration = Duration::from_secs(300);

/// An answer, whole.
#[derive(Debug)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Content.
    pub body: Vec<u8>,
}

/// One server, asked one thing at a time; each request has its own connection.
#[derive(Debug, Clone)]
pub struct Client {
    /// Where it listens.
    pub address: SocketAddr,
    /// What it is called in the `Host` header.
    pub host: String,
    /// Who asks.
    pub credentials: Credentials,
}

impl Client {
    /// Sends a request and reads the answer, whatever its status.
    pub fn send(&self, method: &str, path: &str, query: &str, body: &[u8]) -> Result<Reply, Error> {
        let signer = Signer::new(&self.credentials, &self.host, OffsetDateTime::now_utc());
        let (mut request, _) = signer.sign(&Unsigned {
            method,
            path,
            query,
            payload: UNSIGNED_PAYLOAD,
            content_length: body.len() as u64,
            headers: &[],
        });
        request.extend_from_slice(body);
        self.exchange(&request).map_err(Error::io(format!("{method} {path} at {}", self.host)))
    }

    /// Sends a request and wants a status of 2xx.
    pub fn call(&self, method: &str, path: &str, query: &str, body: &[u8]) -> Result<Reply, Error> {
        let reply = self.send(method, path, query, body)?;
        if (200..300).contains(&reply.status) {
            return Ok(reply);
        }
        let shown = reply.body.get(..400).unwrap_or(&reply.body);
        Err(Error::Refused {
            request: format!("{method} {path}?{query} at {}", self.host),
            status: reply.status,
            body: String::from_utf8_lossy(shown).into_owned(),
        })
    }

    fn exchange(&self, request: &[u8]) -> io::Result<Reply> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(request)?;
        let mut buffer = vec![0; 64 * 1024];
        let mut received = Vec::new();
        let head = loop {
            if let Some(head) = parse_head(&received).map_err(io::Error::other)? {
                break head;
            }
            received.extend_from_slice(read_some(&mut stream, &mut buffer)?);
        };
        let mut reply = Reply { status: head.status, body: Vec::new() };
        let mut body = Body::new(head.framing);
        let mut take = |bytes: &[u8], body: &mut Body| {
            body.feed(bytes, |content| reply.body.extend_from_slice(content)).map_err(io::Error::other)
        };
        take(received.get(head.bytes..).unwrap_or_default(), &mut body)?;
        while !body.done() {
            take(read_some(&mut stream, &mut buffer)?, &mut body)?;
        }
        Ok(reply)
    }
}

fn read_some<'a>(stream: &mut TcpStream, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
    let count = stream.read(buffer)?;
    if count == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(buffer.get(..count).unwrap_or_default())
}

/// The content of the first element of that name in an XML document.
pub fn element<'a>(document: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = document.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(content, _)| content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_found() {
        let document = "<?xml?><R xmlns=\"x\"><UploadId>a-b</UploadId><Key>1</Key><Key>2</Key></R>";
        assert_eq!(element(document, "UploadId"), Some("a-b"));
        assert_eq!(element(document, "Key"), Some("1"));
        assert_eq!(element(document, "Missing"), None);
    }
}
