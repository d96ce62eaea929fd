//! A connection to a MySQL or MariaDB server, with as much of the protocol as simple statements need.
//!
//! Source: "Client/Server Protocol" of MySQL's and MariaDB's documentation (handshake v10, COM_QUERY, text results).
//! The server is started by qd1, behind a socket that only its user can reach, and its account has no password.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

/// Longest wait for an answer: longer than any stall that is measured.
const ANSWER: Duration = Duration::from_secs(60);
/// Largest packet, sent or received.
const PACKET_MAX: usize = (1 << 24) - 1;

/// Capabilities: CLIENT_LONG_PASSWORD, PROTOCOL_41, TRANSACTIONS, SECURE_CONNECTION, PLUGIN_AUTH.
const CAPABILITIES: u32 = 0x1 | 0x200 | 0x2000 | 0x8000 | 0x8_0000;
/// utf8mb4_general_ci.
const CHARSET: u8 = 45;
const COM_QUERY: u8 = 3;
/// First bytes of an answer.
const OK: u8 = 0x00;
const AUTH_MORE: u8 = 0x01;
const AUTH_SWITCH: u8 = 0xfe;
const EOF: u8 = 0xfe;
const ERR: u8 = 0xff;
/// A packet that begins with this and is shorter ends a list.
const EOF_MAX: usize = 9;

/// A connection.
pub(super) struct Client {
    stream: UnixStream,
    packet: Vec<u8>,
}

impl Client {
    /// Connects as `user`, who has no password.
    ///
    /// # Errors
    /// If there is no server, or it refuses the connection; the message is the server's.
    pub(super) fn connect(socket: &Path, user: &str) -> Result<Self> {
        let stream = UnixStream::connect(socket).context("cannot reach the server")?;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.set_write_timeout(Some(ANSWER))?;
        let mut client = Self { stream, packet: Vec::new() };
        client.read()?;
        if client.packet.first() == Some(&ERR) {
            bail!("{}", client.error());
        }
        ensure!(client.packet.first() == Some(&10), "the server does not use protocol version 10");
        client.write(1, &handshake(user))?;
        loop {
            let number = client.read()?;
            match client.packet.first() {
                Some(&OK) => return Ok(client),
                Some(&ERR) => bail!("{}", client.error()),
                // Another way to answer that there is no password.
                Some(&AUTH_SWITCH) => client.write(number.wrapping_add(1), &[])?,
                Some(&AUTH_MORE) => {}
                _ => bail!("the server's answer to the login is not supported"),
            }
        }
    }

    /// Runs a statement; its rows are read and discarded.
    ///
    /// # Errors
    /// When it fails; the message is the server's.
    pub(super) fn run(&mut self, statement: &str) -> Result<()> {
        self.rows(statement, |_| ())
    }

    /// Runs a query and passes each row to `row` as the texts of its fields.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub(super) fn rows(&mut self, statement: &str, mut row: impl FnMut(Vec<String>)) -> Result<()> {
        let mut request = Vec::with_capacity(statement.len() + 1);
        request.push(COM_QUERY);
        request.extend_from_slice(statement.as_bytes());
        self.write(0, &request)?;
        self.read()?;
        match self.packet.first() {
            Some(&OK) => return Ok(()),
            Some(&ERR) => bail!("{}", self.error()),
            _ => {}
        }
        // The number of columns, their definitions, an end marker; rows, an end marker.
        for is_row in [false, true] {
            loop {
                self.read()?;
                match self.packet.first() {
                    Some(&ERR) => bail!("{}", self.error()),
                    Some(&EOF) if self.packet.len() < EOF_MAX => break,
                    _ if is_row => row(fields(&self.packet)),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Reads a packet; returns its number.
    fn read(&mut self) -> Result<u8> {
        let mut head = [0; 4];
        self.stream.read_exact(&mut head).context("the server closed the connection")?;
        let length = usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16;
        ensure!(length < PACKET_MAX, "the server's answer is too long");
        self.packet.resize(length, 0);
        self.stream.read_exact(&mut self.packet).context("the server closed the connection")?;
        Ok(head[3])
    }

    fn write(&mut self, number: u8, payload: &[u8]) -> Result<()> {
        ensure!(payload.len() < PACKET_MAX, "a statement is too long");
        let length = (payload.len() as u32).to_le_bytes();
        let mut packet = Vec::with_capacity(payload.len() + 4);
        packet.extend_from_slice(&[length[0], length[1], length[2], number]);
        packet.extend_from_slice(payload);
        self.stream.write_all(&packet).context("the server closed the connection")
    }

    /// Returns the message of an error packet, which follows its code and state.
    fn error(&self) -> String {
        let code = self.packet.get(1..3).map_or(0, |code| u16::from_le_bytes([code[0], code[1]]));
        let text = String::from_utf8_lossy(self.packet.get(3..).unwrap_or_default());
        let text = if text.starts_with('#') { text.get(6..).unwrap_or_default() } else { &text };
        format!("error {code}: {text}")
    }
}

/// The answer to the server's greeting: capabilities, largest packet, charset, user, no password, authentication
/// plugin.
fn handshake(user: &str) -> Vec<u8> {
    let mut answer = CAPABILITIES.to_le_bytes().to_vec();
    answer.extend_from_slice(&(PACKET_MAX as u32).to_le_bytes());
    answer.push(CHARSET);
    answer.extend_from_slice(&[0; 23]);
    answer.extend_from_slice(user.as_bytes());
    answer.extend_from_slice(&[0, 0]);
    answer.extend_from_slice(b"mysql_native_password\0");
    answer
}

/// The fields of a row in text form: each with its length before it.
fn fields(mut row: &[u8]) -> Vec<String> {
    let mut fields = Vec::new();
    while let [first, rest @ ..] = row {
        let (length, after) = match *first {
            0xfb => (0, rest),
            0xfc if rest.len() >= 2 => (usize::from(u16::from_le_bytes([rest[0], rest[1]])), &rest[2..]),
            0xfd if rest.len() >= 3 => (u32::from_le_bytes([rest[0], rest[1], rest[2], 0]) as usize, &rest[3..]),
            length @ 0..=0xfa => (usize::from(length), rest),
            _ => return fields,
        };
        let end = length.min(after.len());
        fields.push(String::from_utf8_lossy(&after[..end]).into_owned());
        row = &after[end..];
    }
    fields
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn the_fields_of_a_row_have_their_lengths() {
        let long = "x".repeat(300);
        let mut row = b"\x01a\xfb\x00\xfc".to_vec();
        row.extend_from_slice(&300u16.to_le_bytes());
        row.extend_from_slice(long.as_bytes());
        assert_eq!(fields(&row), ["a".to_owned(), String::new(), String::new(), long]);
        assert!(fields(b"\x09cut").iter().all(|field| field == "cut"), "no more than there is");
    }

    #[test]
    fn the_servers_refusal_is_its_own_message() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        let listener = UnixListener::bind(&socket).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let text = b"\xff\x10\x04Too many connections";
            stream.write_all(&[text.len() as u8, 0, 0, 0]).unwrap();
            stream.write_all(text).unwrap();
        });
        let error = Client::connect(&socket, "root").err().unwrap().to_string();
        server.join().unwrap();
        assert_eq!(error, "error 1040: Too many connections");
    }
}
