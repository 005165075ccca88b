//! `OP_COMPRESSED`: frames compressed with zstd or zlib, and none that grows beyond what it says.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

use super::{CodecError, HEAD, LARGEST_MESSAGE, number, opcode};

/// The level that zstd has by default.
const ZSTD_LEVEL: i32 = 3;

/// A way of compressing that both sides support.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compressor {
    /// zlib, number 2.
    Zlib,
    /// Zstandard, number 3.
    Zstd,
}

impl Compressor {
    /// The one with this name in a handshake.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "zlib" => Some(Self::Zlib),
            "zstd" => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Its name in a handshake.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
        }
    }

    /// The same frame, compressed. One that would not get smaller stays as it is.
    pub fn pack(self, frame: Vec<u8>) -> Vec<u8> {
        let Some((head, body)) = frame.split_at_checked(HEAD) else { return frame };
        let mut packed = Vec::with_capacity(frame.len() / 2);
        packed.extend_from_slice(&head[..12]);
        packed.extend_from_slice(&opcode::COMPRESSED.to_le_bytes());
        packed.extend_from_slice(&head[12..]);
        let plain = i32::try_from(body.len()).expect("no message is so long");
        packed.extend_from_slice(&plain.to_le_bytes());
        packed.push(match self {
            Self::Zlib => 2,
            Self::Zstd => 3,
        });
        let done = match self {
            Self::Zlib => {
                let mut encoder = ZlibEncoder::new(&mut packed, Compression::default());
                encoder.write_all(body).and_then(|()| encoder.finish().map(drop))
            }
            Self::Zstd => zstd::bulk::compress(body, ZSTD_LEVEL).map(|bytes| packed.extend_from_slice(&bytes)),
        };
        if done.is_err() || packed.len() >= frame.len() {
            return frame;
        }
        let length = i32::try_from(packed.len()).expect("it is shorter than the frame");
        packed[..4].copy_from_slice(&length.to_le_bytes());
        packed
    }
}

/// A compressed frame that was not unpacked yet.
#[derive(Debug, PartialEq, Eq)]
pub struct Packed<'a> {
    /// The kind of frame inside.
    pub opcode: i32,
    /// Bytes of its body.
    pub length: usize,
    /// How it is compressed; `None`: it is not.
    pub compressor: Option<Compressor>,
    bytes: &'a [u8],
}

impl<'a> Packed<'a> {
    /// Reads the body of a frame.
    ///
    /// # Errors
    /// An unknown compressor, a length that no message has, a compressed frame inside.
    pub fn read(body: &'a [u8]) -> Result<Self, CodecError> {
        let mut rest = body;
        let (inner, length) = (number(&mut rest)?, number(&mut rest)?);
        let (compressor, bytes) = rest.split_first().ok_or(CodecError("a compressed message is too short"))?;
        let compressor = match compressor {
            0 => None,
            2 => Some(Compressor::Zlib),
            3 => Some(Compressor::Zstd),
            _ => return Err(CodecError("a message is compressed in a way that was not agreed on")),
        };
        let length = usize::try_from(length).ok().filter(|length| *length <= LARGEST_MESSAGE - HEAD);
        let length = length.ok_or(CodecError("a message has at most 48000000 bytes"))?;
        if inner == opcode::COMPRESSED {
            return Err(CodecError("a compressed message is compressed once more"));
        }
        Ok(Self { opcode: inner, length, compressor, bytes })
    }

    /// The body of the frame inside. It takes as much memory as [`Packed::length`] says.
    ///
    /// # Errors
    /// When it does not have that length.
    pub fn unpack(&self) -> Result<Vec<u8>, CodecError> {
        let wrong = CodecError("a compressed message has another length than it says");
        let plain = match self.compressor {
            None => self.bytes.to_vec(),
            // At once and into the memory of the answer: without the window that a frame of zstd may ask for.
            Some(Compressor::Zstd) => zstd::bulk::decompress(self.bytes, self.length).map_err(|_| wrong)?,
            Some(Compressor::Zlib) => {
                let mut plain = Vec::new();
                let most = self.length as u64 + 1;
                ZlibDecoder::new(self.bytes).take(most).read_to_end(&mut plain).map_err(|_| wrong)?;
                plain
            }
        };
        if plain.len() == self.length { Ok(plain) } else { Err(wrong) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Head, framed_message};
    use super::*;

    fn frame() -> Vec<u8> {
        let mut document = vec![0; 4000];
        document[..4].copy_from_slice(&4000_i32.to_le_bytes());
        framed_message(1, 2, &document, false)
    }

    #[test]
    fn a_packed_frame_unpacks_to_itself() {
        for compressor in [Compressor::Zlib, Compressor::Zstd] {
            let packed = compressor.pack(frame());
            let head = Head::read(*packed.first_chunk().expect("a head")).expect("a head");
            assert_eq!((head.length, head.opcode), (packed.len(), opcode::COMPRESSED));
            let read = Packed::read(&packed[HEAD..]).expect("a packed frame");
            assert_eq!((read.opcode, read.compressor), (opcode::MSG, Some(compressor)));
            assert_eq!(read.unpack().as_deref(), Ok(&frame()[HEAD..]));
        }
    }

    #[test]
    fn a_frame_that_grows_beyond_its_length_is_refused() {
        for compressor in [Compressor::Zlib, Compressor::Zstd] {
            for length in [0_i32, 10, 4004, 4006] {
                let mut packed = compressor.pack(frame());
                packed[HEAD + 4..HEAD + 8].copy_from_slice(&length.to_le_bytes());
                let read = Packed::read(&packed[HEAD..]).expect("a packed frame");
                assert!(read.unpack().is_err(), "{compressor:?} {length}");
            }
        }
    }

    #[test]
    fn what_cannot_be_unpacked_is_refused() {
        let body = |inner: i32, length: i32, compressor: u8| {
            [&inner.to_le_bytes()[..], &length.to_le_bytes(), &[compressor], b"bytes"].concat()
        };
        assert!(Packed::read(&body(opcode::MSG, 5, 1)).is_err());
        assert!(Packed::read(&body(opcode::MSG, -1, 2)).is_err());
        assert!(Packed::read(&body(opcode::MSG, i32::MAX, 2)).is_err());
        assert!(Packed::read(&body(opcode::COMPRESSED, 5, 2)).is_err());
        let none = body(opcode::MSG, 5, 0);
        assert_eq!(Packed::read(&none).and_then(|packed| packed.unpack()), Ok(b"bytes".to_vec()));
        for compressor in [2, 3] {
            let broken = body(opcode::MSG, 5, compressor);
            assert!(Packed::read(&broken).expect("a packed frame").unpack().is_err());
        }
    }
}
