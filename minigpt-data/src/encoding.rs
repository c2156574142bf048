//! Which bytes a text is written in, where it is not UTF-8: told, or found out from its bytes.

use crate::error::{Error, Result};
use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{DecoderResult, Encoding, GB18030, GBK, UTF_8, UTF_16BE, UTF_16LE};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::io::{self, Read, Write};
use std::str::FromStr;

/// Bytes that are looked at to find out.
pub(crate) const SAMPLE: usize = 1 << 20;

/// A way to write text in bytes: `utf-8`, `gbk`, `gb18030`, `big5`, `utf-16le`, and all others that browsers know.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TextEncoding(&'static Encoding);

impl TextEncoding {
    /// What browsers call it.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// Whether it is what all else here expects.
    pub fn is_utf8(self) -> bool {
        self.0 == UTF_8
    }

    /// The encoding of a text that begins with these bytes. Damaged UTF-8 counts as UTF-8, so that its error names the
    /// byte; so do bytes that may be anything.
    pub fn of(sample: &[u8]) -> Self {
        // Parquet is no text at all.
        if sample.starts_with(b"PAR1") {
            return Self(UTF_8);
        }
        if let Some((encoding, _)) = Encoding::for_bom(sample) {
            return Self(encoding);
        }
        if let Some(encoding) = utf16_without_mark(sample) {
            return Self(encoding);
        }
        let (mut right, mut wrong) = (0, 0);
        for chunk in sample.utf8_chunks() {
            right += chunk.valid().bytes().filter(|byte| !byte.is_ascii()).count();
            wrong += chunk.invalid().len();
        }
        // A character may be cut at the end of the sample.
        if wrong <= 3 || right >= wrong || sample.contains(&0) {
            return Self(UTF_8);
        }
        let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
        detector.feed(sample, false);
        let guess = detector.guess(None, Utf8Detection::Deny);
        let guess = if guess == GBK { GB18030 } else { guess };
        // Encodings of one byte a character fit everything, and say nothing.
        if !guess.is_single_byte() && fits(guess, sample) { Self(guess) } else { Self(UTF_8) }
    }

    /// Writes a text as UTF-8.
    pub(crate) fn decode(self, mut from: impl Read, to: &mut impl Write, name: &str) -> Result<u64> {
        let mut decoder = self.0.new_decoder();
        let (mut bytes, mut text) = (vec![0; 1 << 16], vec![0; 1 << 18]);
        let (mut offset, mut written) = (0u64, 0u64);
        loop {
            let read = match from.read(&mut bytes) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                read => read.map_err(|e| Error::io_named("read", name, e))?,
            };
            let mut rest = &bytes[..read];
            loop {
                let (result, used, made) =
                    decoder.decode_to_utf8_without_replacement(rest, &mut text, read == 0);
                to.write_all(&text[..made]).map_err(|e| Error::io_named("copy", name, e))?;
                (rest, offset, written) = (&rest[used..], offset + used as u64, written + made as u64);
                match result {
                    DecoderResult::InputEmpty => break,
                    DecoderResult::OutputFull => {}
                    DecoderResult::Malformed(..) => {
                        return Err(Error::NotInEncoding {
                            name: name.to_owned(),
                            encoding: self.name(),
                            position: offset,
                        });
                    }
                }
            }
            if read == 0 {
                return Ok(written);
            }
        }
    }
}

/// Whether these bytes, of which the last may be cut, are a text of this encoding.
fn fits(encoding: &'static Encoding, sample: &[u8]) -> bool {
    let mut text = vec![0; 3 * sample.len() + 16];
    let (result, ..) = encoding.new_decoder().decode_to_utf8_without_replacement(sample, &mut text, false);
    result == DecoderResult::InputEmpty
}

/// UTF-16 of mostly European text has a zero in every other byte.
fn utf16_without_mark(sample: &[u8]) -> Option<&'static Encoding> {
    let pairs = sample.len() / 2;
    if pairs < 2 {
        return None;
    }
    let zeros = |from: usize| sample.iter().skip(from).step_by(2).filter(|&&byte| byte == 0).count();
    let (even, odd) = (zeros(0), zeros(1));
    match (even * 10 > pairs * 7, odd * 10 > pairs * 7) {
        (false, true) if even == 0 => Some(UTF_16LE),
        (true, false) if odd == 0 => Some(UTF_16BE),
        _ => None,
    }
}

impl FromStr for TextEncoding {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Encoding::for_label(name.as_bytes()).map(Self).ok_or_else(|| {
            Error::BadOption(format!(
                "there is no encoding {name:?}; examples are utf-8, gbk, gb18030, big5, utf-16le, shift_jis"
            ))
        })
    }
}

impl fmt::Debug for TextEncoding {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for TextEncoding {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.name().to_lowercase())
    }
}

impl<'de> Deserialize<'de> for TextEncoding {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use encoding_rs::BIG5;

    const CHINESE: &str = "天空为什么是蓝色的？因为空气散射阳光中的蓝光。你好，世界！\n";

    fn encoded(text: &str, encoding: &'static Encoding) -> Vec<u8> {
        let (bytes, _, failed) = encoding.encode(text);
        assert!(!failed);
        bytes.repeat(20)
    }

    fn utf16(text: &str, mark: bool) -> Vec<u8> {
        let mark = mark.then_some(0xFEFF);
        mark.into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn what_a_text_is_written_in_is_found_out() {
        let traditional = "天空為什麼是藍色的？因為空氣散射陽光中的藍光。你好，世界！\n";
        let cases = [
            (encoded(CHINESE, GBK), "gb18030"),
            (encoded(traditional, BIG5), "Big5"),
            (utf16(CHINESE, true), "UTF-16LE"),
            (utf16("plain English text\n", false), "UTF-16LE"),
            (CHINESE.as_bytes().repeat(20), "UTF-8"),
            (b"plain".to_vec(), "UTF-8"),
            (Vec::new(), "UTF-8"),
            // A few broken bytes make it broken, not Chinese.
            ([CHINESE.as_bytes().repeat(20), b"\xff\xfe\xfd\xfc\xfb".to_vec()].concat(), "UTF-8"),
            (CHINESE.as_bytes()[..10].to_vec(), "UTF-8"),
            // Latin-1 and binary files may be anything.
            ("d\u{e9}j\u{e0} vu, \u{e9}t\u{e9} ".repeat(50).chars().map(|c| c as u8).collect(), "UTF-8"),
            (vec![0x80, 0, 0x93, 0xff, 0xfe, 0x81, 0], "UTF-8"),
        ];
        for (bytes, name) in cases {
            assert_eq!(TextEncoding::of(&bytes).name(), name, "{:?}", &bytes[..bytes.len().min(8)]);
        }
    }

    #[test]
    fn a_text_is_decoded_in_pieces_or_refused_with_its_byte() {
        let mut text = Vec::new();
        let long = CHINESE.repeat(5000);
        let bytes = GBK.encode(&long).0.into_owned();
        let gbk: TextEncoding = "gbk".parse().unwrap();
        assert_eq!(gbk.decode(&bytes[..], &mut text, "a").unwrap() as usize, long.len());
        assert!(text == long.as_bytes());
        let broken = [&bytes[..1000], b"\xff", &bytes[1000..]].concat();
        let error = gbk.decode(&broken[..], &mut Vec::new(), "a.txt").unwrap_err().to_string();
        assert!(error.starts_with("a.txt: not GBK text: byte 100"), "{error}");
        assert!("klingon".parse::<TextEncoding>().unwrap_err().to_string().contains("gb18030"));
    }
}
