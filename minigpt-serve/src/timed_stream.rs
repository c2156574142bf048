//! A connection whose other side must send what it began to send, and take what it is sent, within a time. A reader that takes a
//! byte now and then holds back itself and nobody else; one that takes nothing for long is left, and so is one that sends half the
//! head of a request.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// What ends the head of a request.
const END: &[u8] = b"\r\n\r\n";

pub(crate) struct TimedStream {
    stream: TcpStream,
    head: Head,
    reading: Patience,
    writing: Patience,
}

/// How far the head of the next request has come.
enum Head {
    /// Nothing has.
    Awaited,
    /// A part, and so many bytes of its end.
    Begun(usize),
    /// All of it. What follows is a body, until an answer is sent.
    Whole,
}

/// A time that runs while nothing happens.
struct Patience {
    limit: Duration,
    running: Option<Pin<Box<Sleep>>>,
}

impl Patience {
    fn new(limit: Duration) -> Self {
        Self { limit, running: None }
    }

    /// Whether it is at its end; it begins to run if it did not.
    fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        let limit = self.limit;
        let running = self.running.get_or_insert_with(|| Box::pin(sleep(limit)));
        running.as_mut().poll(context).is_ready()
    }
}

impl Head {
    /// Takes bytes that came.
    fn push(&mut self, bytes: &[u8]) {
        let mut matched = match self {
            Self::Whole => return,
            Self::Awaited => 0,
            Self::Begun(matched) => *matched,
        };
        for &byte in bytes {
            matched = match byte {
                byte if byte == END[matched] => matched + 1,
                b'\r' => 1,
                _ => 0,
            };
            if matched == END.len() {
                *self = Self::Whole;
                return;
            }
        }
        *self = Self::Begun(matched);
    }
}

impl TimedStream {
    pub fn new(stream: TcpStream, to_send: Duration, to_take: Duration) -> Self {
        let (reading, writing) = (Patience::new(to_send), Patience::new(to_take));
        Self { stream, head: Head::Awaited, reading, writing }
    }

    /// What came of writing, or an error if nothing has come of it for too long.
    fn written<T>(&mut self, written: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.writing.running = None;
            // An answer is on its way: what comes next is another request.
            (self.head, self.reading.running) = (Head::Awaited, None);
            return written;
        }
        if self.writing.is_over(context) {
            Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
        } else {
            Poll::Pending
        }
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            this.head.push(&buffer.filled()[before..]);
        }
        match this.head {
            Head::Awaited | Head::Whole => this.reading.running = None,
            // From the first byte of a head on, however often another one comes.
            Head::Begun(_) if this.reading.is_over(context) => {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            Head::Begun(_) => {}
        }
        read
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.written(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_ends_with_an_empty_line_however_it_is_cut() {
        let text = b"GET / HTTP/1.1\r\na: b\r\r\n\r\nbody";
        for cut in 1..text.len() {
            let mut head = Head::Awaited;
            head.push(&text[..cut]);
            assert_eq!(matches!(head, Head::Whole), cut >= text.len() - 4, "{cut}");
            head.push(&text[cut..]);
            assert!(matches!(head, Head::Whole));
        }
    }
}
