//! Sends the bytes of a file to a socket.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::TcpStream;
use std::ops::Range;

/// The maximum length of a body that is read and sent together with its head, which saves a system call and a packet.
const SMALL_BYTES: u64 = 32 * 1024;

/// The maximum length that one call sends, so that the count of sent bytes is updated during a long body.
const STEP_BYTES: u64 = 4 * 1024 * 1024;

/// The size of copies if `sendfile` is not available.
const COPY_BYTES: u64 = 256 * 1024;

/// The send buffer for loopback connections (Linux doubles it). Loopback has no latency to hide: a buffer of megabytes,
/// as Linux would use, evicts the bytes from the processor's cache before they are read. With 4 connections, this size
/// halves the total time per byte of both sides. With 32 KiB, the buffer holds a single segment of the loopback device,
/// and transfers stall.
#[cfg(target_os = "linux")]
const LOOPBACK_BUFFER_BYTES: usize = 96 * 1024;

/// Sets the send buffer of a loopback connection.
#[cfg(target_os = "linux")]
pub(super) fn fit_send_buffer(stream: &TcpStream) -> io::Result<()> {
    if stream.peer_addr()?.ip().is_loopback() {
        rustix::net::sockopt::set_socket_send_buffer_size(stream, LOOPBACK_BUFFER_BYTES)?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn fit_send_buffer(_: &TcpStream) -> io::Result<()> {
    Ok(())
}

/// Sends `head` and then the bytes of `file` in `range`. If the file has been truncated, returns an error, and the
/// connection must be closed: the length has already been sent.
pub(super) fn send_file(
    mut stream: &TcpStream,
    mut head: Vec<u8>,
    file: &File,
    range: Range<u64>,
    sent: &mut dyn FnMut(u64),
) -> io::Result<()> {
    let byte_length = range.end.saturating_sub(range.start);
    if byte_length <= SMALL_BYTES {
        let read = read_at(file, range.start, byte_length, &mut head)?;
        stream.write_all(&head)?;
        sent(read);
        return if read == byte_length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
    }
    stream.write_all(&head)?;
    let mut offset = range.start;
    while offset < range.end {
        let count = send_some(stream, file, offset, range.end.saturating_sub(offset).min(STEP_BYTES))?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        sent(count);
        offset = offset.saturating_add(count);
    }
    Ok(())
}

/// Sends at most `count` bytes at `offset`; 0 at the end of the file.
#[cfg(target_os = "linux")]
fn send_some(stream: &TcpStream, file: &File, mut offset: u64, count: u64) -> io::Result<u64> {
    use rustix::io::Errno;

    let from = offset;
    match rustix::fs::sendfile(stream, file, Some(&mut offset), usize::try_from(count).unwrap_or(usize::MAX)) {
        Ok(sent) => Ok(sent as u64),
        // Not supported by some file systems.
        Err(Errno::INVAL | Errno::NOSYS) => copy_some(stream, file, from, count),
        Err(Errno::INTR) => send_some(stream, file, from, count),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn send_some(stream: &TcpStream, file: &File, offset: u64, count: u64) -> io::Result<u64> {
    copy_some(stream, file, offset, count)
}

fn copy_some(mut stream: &TcpStream, file: &File, offset: u64, count: u64) -> io::Result<u64> {
    let mut piece = Vec::new();
    let read = read_at(file, offset, count.min(COPY_BYTES), &mut piece)?;
    stream.write_all(&piece)?;
    Ok(read)
}

/// Appends at most `count` bytes at `offset` to `to`.
fn read_at(mut file: &File, offset: u64, count: u64, to: &mut Vec<u8>) -> io::Result<u64> {
    file.seek(SeekFrom::Start(offset))?;
    Ok(file.take(count).read_to_end(to)? as u64)
}
