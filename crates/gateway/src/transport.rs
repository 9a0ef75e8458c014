//! A client's connection: plain bytes, with an end to waiting.
//!
//! Invariants:
//! - A client that does not take what is written is given up; the response's body, and with it the version of the store
//!   that it pins, is dropped then.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::limits::Limits;
use crate::slow_client::{SlowClientTimer, TooSlow};

/// What a connection too many is told.
pub const BUSY_ANSWER: &[u8] = b"HTTP/1.1 503 Slow Down\r\ncontent-type: application/xml\r\nconnection: close\r\n\
retry-after: 1\r\ncontent-length: 125\r\n\r\n<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>SlowDown</Code><Message>\
Please reduce your request rate.</Message></Error>";

/// A connection that ends when its client stops taking bytes.
#[derive(Debug)]
pub struct Transport {
    tcp: TcpStream,
    pace: SlowClientTimer,
}

impl Transport {
    /// Wraps a connection.
    pub fn new(tcp: TcpStream, limits: &Limits) -> Self {
        Transport { tcp, pace: SlowClientTimer::new(limits) }
    }

    fn watch(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let slow = || io::Error::new(io::ErrorKind::TimedOut, "the client did not take what was sent");
        match outcome {
            Poll::Pending => self.pace.poll_idle(cx).map(|TooSlow| Err(slow())),
            Poll::Ready(Ok(written)) => {
                Poll::Ready(self.pace.moved(written).map(|()| written).map_err(|TooSlow| slow()))
            }
            failed => failed,
        }
    }
}

impl AsyncRead for Transport {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Transport {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.tcp).poll_write(cx, buffer);
        self.watch(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.tcp).poll_write_vectored(cx, buffers);
        self.watch(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fixed_answer_says_its_true_length() {
        let text = std::str::from_utf8(BUSY_ANSWER).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
    }
}
