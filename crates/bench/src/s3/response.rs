//! A reader of HTTP/1.1 answers that does no more than a benchmark needs: status, length, and where the body ends.

/// Answers with longer heads are refused.
pub const HEAD_LIMIT: usize = 16 * 1024;

/// What is wrong with an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAnswer {
    /// The status line is none.
    #[error("no HTTP status line")]
    Status,
    /// The head does not end.
    #[error("the head is longer than {HEAD_LIMIT} bytes")]
    HeadTooLong,
    /// A length is not a number.
    #[error("a length is not a number")]
    Length,
    /// Nothing says where the body ends.
    #[error("neither a length nor chunks")]
    Unbounded,
    /// A chunk does not begin or end as it should.
    #[error("a chunk is malformed")]
    Chunk,
}

/// How the end of a body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// So many bytes.
    Length(u64),
    /// Chunks up to an empty one.
    Chunked,
}

/// The head of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// HTTP status.
    pub status: u16,
    /// How the body ends.
    pub framing: Framing,
    /// The server will close the connection.
    pub close: bool,
    /// Bytes the head takes.
    pub bytes: usize,
}

/// Reads a head from the start of `bytes`; `None` while it is not whole.
pub fn parse_head(bytes: &[u8]) -> Result<Option<Head>, BadAnswer> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return if bytes.len() >= HEAD_LIMIT { Err(BadAnswer::HeadTooLong) } else { Ok(None) };
    };
    let mut lines = bytes.get(..end).unwrap_or_default().split(|byte| *byte == b'\n');
    let status = parse_status(lines.next().unwrap_or_default())?;
    let mut head = Head { status, framing: Framing::Length(0), close: false, bytes: end + 4 };
    let mut bounded = matches!(status, 204 | 304);
    for line in lines {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = line.split_at(colon);
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
            head.framing = Framing::Length(length.ok_or(BadAnswer::Length)?);
            bounded = true;
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") && value.eq_ignore_ascii_case(b"chunked") {
            head.framing = Framing::Chunked;
            bounded = true;
        } else if name.eq_ignore_ascii_case(b"connection") {
            head.close = value.eq_ignore_ascii_case(b"close");
        }
    }
    if bounded { Ok(Some(head)) } else { Err(BadAnswer::Unbounded) }
}

fn parse_status(line: &[u8]) -> Result<u16, BadAnswer> {
    let rest = line.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(1..)).ok_or(BadAnswer::Status)?;
    let digits = rest.strip_prefix(b" ").and_then(|rest| rest.get(..3)).ok_or(BadAnswer::Status)?;
    std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok()).ok_or(BadAnswer::Status)
}

/// Follows a body to its end, however it arrives in pieces.
#[derive(Debug, Clone)]
pub struct Body {
    state: State,
    /// Bytes of content seen so far, without framing.
    pub content_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Content of known length; `chunked` says whether more chunks follow.
    Content {
        left: u64,
        chunked: bool,
    },
    /// In the line with a chunk's size; extensions after `;` are skipped.
    Size {
        value: u64,
        digits: u8,
        extension: bool,
    },
    /// Before the line end that follows a chunk's content.
    ChunkEnd,
    /// In the lines after the last chunk; `empty` while the line has no bytes.
    Trailer {
        empty: bool,
    },
    Done,
}

const NEW_CHUNK: State = State::Size { value: 0, digits: 0, extension: false };

impl Body {
    /// A body that ends as `framing` says.
    pub fn new(framing: Framing) -> Body {
        let state = match framing {
            Framing::Length(0) => State::Done,
            Framing::Length(left) => State::Content { left, chunked: false },
            Framing::Chunked => NEW_CHUNK,
        };
        Body { state, content_bytes: 0 }
    }

    /// The body has ended.
    pub fn done(&self) -> bool {
        self.state == State::Done
    }

    /// Content that is still to come before any framing; it may be passed over with [`Body::skip`].
    pub fn skippable_bytes(&self) -> u64 {
        if let State::Content { left, .. } = self.state { left } else { 0 }
    }

    /// Passes over content that the caller has dropped unread: at most [`Body::skippable_bytes`].
    pub fn skip(&mut self, bytes: u64) {
        if let State::Content { left, chunked } = self.state {
            let taken = bytes.min(left);
            self.content_bytes += taken;
            self.state = match (left - taken, chunked) {
                (0, false) => State::Done,
                (0, true) => State::ChunkEnd,
                (left, chunked) => State::Content { left, chunked },
            };
        }
    }

    /// Takes bytes as they came and hands content on; gives how many of them belong to this body.
    pub fn feed(&mut self, bytes: &[u8], mut content: impl FnMut(&[u8])) -> Result<usize, BadAnswer> {
        let mut used = 0;
        while let Some(rest) = bytes.get(used..).filter(|rest| !rest.is_empty() && !self.done()) {
            if let State::Content { left, .. } = self.state {
                let piece = rest.get(..usize::try_from(left).unwrap_or(usize::MAX)).unwrap_or(rest);
                content(piece);
                self.skip(piece.len() as u64);
                used += piece.len();
            } else {
                self.state = rest.first().map_or(Ok(self.state), |byte| self.state.step(*byte))?;
                used += 1;
            }
        }
        Ok(used)
    }
}

impl State {
    /// One byte of framing.
    fn step(self, byte: u8) -> Result<State, BadAnswer> {
        Ok(match (self, byte) {
            (State::Size { digits: 0, .. }, b'\r' | b'\n' | b';') => return Err(BadAnswer::Chunk),
            (State::Size { value: 0, .. }, b'\n') => State::Trailer { empty: true },
            (State::Size { value, .. }, b'\n') => State::Content { left: value, chunked: true },
            (State::Size { value, digits, .. }, b';' | b'\r') => State::Size { value, digits, extension: true },
            (State::Size { extension: true, .. }, _) => self,
            (State::Size { value, digits, .. }, digit) => {
                let digit = char::from(digit).to_digit(16).filter(|_| digits < 15).ok_or(BadAnswer::Chunk)?;
                State::Size { value: value * 16 + u64::from(digit), digits: digits + 1, extension: false }
            }
            (State::ChunkEnd, b'\r') => State::ChunkEnd,
            (State::ChunkEnd, b'\n') => NEW_CHUNK,
            (State::ChunkEnd, _) => return Err(BadAnswer::Chunk),
            (State::Trailer { empty: true }, b'\n') => State::Done,
            (State::Trailer { .. }, b'\n') => State::Trailer { empty: true },
            (State::Trailer { empty }, b'\r') => State::Trailer { empty },
            (State::Trailer { .. }, _) => State::Trailer { empty: false },
            (State::Content { .. } | State::Done, _) => self,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Result<Option<Head>, BadAnswer> {
        parse_head(text.as_bytes())
    }

    #[test]
    fn heads_are_read_when_they_are_whole() {
        let text = "HTTP/1.1 200 OK\r\nETag: \"abc\"\r\nContent-Length: 4096\r\nX: y\r\n\r\n";
        for cut in 0..text.len() {
            assert_eq!(head(&text[..cut]), Ok(None), "cut at {cut}");
        }
        let parsed = head(&format!("{text}body")).unwrap().unwrap();
        assert_eq!((parsed.status, parsed.framing, parsed.bytes), (200, Framing::Length(4096), text.len()));
        assert!(!parsed.close);
    }

    #[test]
    fn odd_heads() {
        let framing = |text: &str| head(text).unwrap().unwrap().framing;
        assert_eq!(framing("HTTP/1.1 204 No Content\r\n\r\n"), Framing::Length(0));
        assert_eq!(framing("HTTP/1.0 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n"), Framing::Chunked);
        assert!(head("HTTP/1.1 403 F\r\nConnection: close\r\ncontent-length: 0\r\n\r\n").unwrap().unwrap().close);
        for (text, expected) in [
            ("HTTP/1.1 200 OK\r\n\r\n", BadAnswer::Unbounded),
            ("HTTP/1.1 2\r\n\r\n", BadAnswer::Status),
            ("SSH-2.0\r\n\r\n", BadAnswer::Status),
            ("HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", BadAnswer::Length),
        ] {
            assert_eq!(head(text), Err(expected), "{text:?}");
        }
        assert_eq!(parse_head(&vec![b'a'; HEAD_LIMIT]), Err(BadAnswer::HeadTooLong));
    }

    /// Feeds `wire` in pieces of `step` bytes; gives content and bytes used.
    fn collect(framing: Framing, wire: &[u8], step: usize) -> Result<(Vec<u8>, usize, bool), BadAnswer> {
        let (mut body, mut content, mut used) = (Body::new(framing), Vec::new(), 0);
        for piece in wire.chunks(step) {
            used += body.feed(piece, |bytes| content.extend_from_slice(bytes))?;
        }
        assert_eq!(body.content_bytes, content.len() as u64);
        Ok((content, used, body.done()))
    }

    #[test]
    fn bodies_end_where_they_should_however_they_are_cut() {
        let wire = b"4;ext=1\r\nwiki\r\nA\r\npedia is i\r\n0\r\nx-trailer: 1\r\n\r\nHTTP/1.1";
        for step in 1..wire.len() {
            let (content, used, done) = collect(Framing::Chunked, wire, step).unwrap();
            assert_eq!((content.as_slice(), used, done), (&b"wikipedia is i"[..], wire.len() - 8, true), "step {step}");
            let (content, used, done) = collect(Framing::Length(3), b"abcdef", step).unwrap();
            assert_eq!((content.as_slice(), used, done), (&b"abc"[..], 3, true), "step {step}");
        }
        assert_eq!(collect(Framing::Length(3), b"ab", 1).unwrap(), (b"ab".to_vec(), 2, false));
        assert!(Body::new(Framing::Length(0)).done());
    }

    #[test]
    fn malformed_chunks_are_refused() {
        for wire in ["\r\n", "g\r\n", "1\r\nab\r\n", "ffffffffffffffffff\r\n", ";x\r\n"] {
            assert_eq!(collect(Framing::Chunked, wire.as_bytes(), 1), Err(BadAnswer::Chunk), "{wire:?}");
        }
    }

    #[test]
    fn skipping_content_is_like_reading_it() {
        let mut body = Body::new(Framing::Length(100));
        assert_eq!(body.skippable_bytes(), 100);
        body.skip(60);
        assert_eq!((body.skippable_bytes(), body.done()), (40, false));
        body.skip(1000);
        assert_eq!((body.content_bytes, body.done()), (100, true));
    }
}
