//! Encodings other than UTF-8: given by the user, or detected.

use crate::error::{Error, OptionError, Result};
use crate::name::DataName;
use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{
    BIG5, DecoderResult, EUC_JP, EUC_KR, Encoding, GB18030, GBK, SHIFT_JIS, UTF_8, UTF_16BE, UTF_16LE,
};
use minigpt_files::Action;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::io::{self, Read, Write};
use std::str::FromStr;

/// Bytes used for detection.
pub(crate) const SAMPLE: usize = 1 << 20;

/// A way to write text in bytes: `utf-8`, `gbk`, `gb18030`, `big5`, `utf-16le`, and all others that browsers know.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TextEncoding(&'static Encoding);

impl TextEncoding {
    /// Its name in the WHATWG Encoding Standard.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// Whether it is UTF-8.
    pub fn is_utf8(self) -> bool {
        self.0 == UTF_8
    }

    /// The encoding of a text that begins with these bytes. Damaged UTF-8 counts as UTF-8, so that its error names the
    /// byte; so do bytes that may be anything. Other encodings may be damaged a little: one character in a hundred.
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
        // Encodings of one byte a character fit everything, and say nothing.
        let whole = guess(sample);
        if !whole.is_single_byte() && undamaged(whole, sample).is_some() {
            return Self(whole);
        }
        // The detector gives an encoding up at its first wrong byte, so it is asked about the others.
        let found = MULTIBYTE
            .into_iter()
            .find(|&encoding| undamaged(encoding, sample).is_some_and(|sample| guess(&sample) == encoding));
        Self(found.unwrap_or(UTF_8))
    }

    /// Writes a text as UTF-8. Bytes that are no character become U+FFFD, and are counted.
    ///
    /// # Errors
    /// More than a few such bytes: the text is in another encoding.
    pub(crate) fn decode(self, mut from: impl Read, to: &mut impl Write, name: &DataName) -> Result<Decoded> {
        let (mut replaced, mut first_wrong) = (0u64, 0u64);
        let mut decoder = self.0.new_decoder();
        let (mut bytes, mut text) = (vec![0; 1 << 16], vec![0; 1 << 18]);
        let (mut offset, mut written) = (0u64, 0u64);
        loop {
            let read = match from.read(&mut bytes) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                read => read.map_err(|e| Error::io_named(Action::Read, name, e))?,
            };
            let mut rest = &bytes[..read];
            loop {
                let (result, used, made) =
                    decoder.decode_to_utf8_without_replacement(rest, &mut text, read == 0);
                to.write_all(&text[..made]).map_err(|e| Error::io_named(Action::Copy, name, e))?;
                (rest, offset, written) = (&rest[used..], offset + used as u64, written + made as u64);
                match result {
                    DecoderResult::InputEmpty => break,
                    DecoderResult::OutputFull => {}
                    DecoderResult::Malformed(..) => {
                        const REPLACEMENT: &[u8] = "\u{FFFD}".as_bytes();
                        to.write_all(REPLACEMENT).map_err(|e| Error::io_named(Action::Copy, name, e))?;
                        written += REPLACEMENT.len() as u64;
                        if replaced == 0 {
                            first_wrong = offset;
                        }
                        replaced += 1;
                    }
                }
            }
            if read == 0 {
                // A character of these encodings has two bytes and three of UTF-8.
                if too_many(replaced, written / 3) {
                    return Err(Error::NotInEncoding {
                        name: name.clone(),
                        encoding: self.name(),
                        position: first_wrong,
                    });
                }
                return Ok(Decoded { bytes: written, replaced });
            }
        }
    }
}

/// A text that was written as UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decoded {
    /// Bytes of UTF-8.
    pub bytes: u64,
    /// Characters that were no characters, and are U+FFFD now.
    pub replaced: u64,
}

/// The encodings that damaged text is looked for in.
const MULTIBYTE: [&Encoding; 5] = [GB18030, BIG5, SHIFT_JIS, EUC_KR, EUC_JP];

/// Whether there are more wrong characters than in a text that is merely damaged.
fn too_many(wrong: u64, characters: u64) -> bool {
    wrong > 1 && wrong * 100 > characters
}

fn guess(sample: &[u8]) -> &'static Encoding {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(sample, false);
    match detector.guess(None, Utf8Detection::Deny) {
        guess if guess == GBK => GB18030,
        guess => guess,
    }
}

/// The undamaged lines of a sample in an encoding, or the sample without its wrong bytes if every line has some. The last character
/// may be cut. `None` if too many bytes are wrong.
fn undamaged(encoding: &'static Encoding, sample: &[u8]) -> Option<Vec<u8>> {
    let (mut decoder, mut text) = (encoding.new_decoder(), vec![0; 3 * sample.len() + 16]);
    let (mut kept, mut from, mut at, mut written, mut wrong) = (Vec::new(), 0, 0, 0, 0);
    loop {
        let (result, used, made) =
            decoder.decode_to_utf8_without_replacement(&sample[at..], &mut text, false);
        (at, written) = (at + used, written + made);
        let DecoderResult::Malformed(length, after) = result else { break };
        let end = at.saturating_sub(after.into());
        kept.extend_from_slice(sample.get(from..end.saturating_sub(length.into())).unwrap_or_default());
        from = end;
        wrong += 1;
    }
    kept.extend_from_slice(sample.get(from..).unwrap_or_default());
    if too_many(wrong, written as u64 / 3) {
        return None;
    }
    // Behind a wrong byte, the rest of a line may be paired into other characters, which mislead the detector.
    let is_undamaged =
        |line: &&[u8]| encoding.decode_without_bom_handling_and_without_replacement(line).is_some();
    let lines =
        sample.split_inclusive(|&byte| byte == b'\n').filter(is_undamaged).collect::<Vec<_>>().concat();
    Some(if lines.is_ascii() { kept } else { lines })
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
        let encoding = Encoding::for_label(name.as_bytes());
        Ok(Self(encoding.ok_or_else(|| OptionError::Encoding(name.to_owned()))?))
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

    const CHINESE: &str = "天空为什么是蓝色的？因为空气散射阳光中的蓝光。你好，世界！\n";

    const TRADITIONAL: &str = "天空為什麼是藍色的？因為空氣散射陽光中的藍光。你好，世界！\n";

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
        let cases = [
            (encoded(CHINESE, GBK), "gb18030"),
            (encoded(TRADITIONAL, BIG5), "Big5"),
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
    fn a_damaged_text_is_known_all_the_same() {
        for (text, encoding, name) in [(CHINESE, GBK, "gb18030"), (TRADITIONAL, BIG5, "Big5")] {
            let bytes = encoded(text, encoding);
            let half = bytes.len() / 2;
            for bad in [&b"\xff"[..], b"\x80", b"\xff\xff"] {
                let damaged = [&bytes[..half], bad, &bytes[half..]].concat();
                assert_eq!(TextEncoding::of(&damaged).name(), name, "{bad:?}");
            }
        }
        // Regression: behind a byte that is replaced, the rest of its line is paired wrongly; in a short file that is a large part.
        let questions =
            "{\"question\": \"你喜欢听音乐吗？\", \"answer\": \"喜欢，每天晚上都听。\"}\n".repeat(5);
        let mut short = GBK.encode(&questions).0.into_owned();
        short[15] = 0xff;
        assert_eq!(TextEncoding::of(&short).name(), "gb18030");
        let bytes = encoded(CHINESE, GBK);
        // Cut in the middle of a character, with a line end behind it or none.
        for cut in
            [bytes[..301].to_vec(), [&bytes[..301], b"\n"].concat(), [&bytes[..301], &bytes[304..]].concat()]
        {
            assert_eq!(TextEncoding::of(&cut).name(), "gb18030");
        }
    }

    #[test]
    fn a_text_is_decoded_in_pieces_and_wrong_bytes_are_replaced_and_counted() {
        let mut text = Vec::new();
        let long = CHINESE.repeat(5000);
        let bytes = GBK.encode(&long).0.into_owned();
        let gbk: TextEncoding = "gbk".parse().unwrap();
        let decoded = gbk.decode(&bytes[..], &mut text, &"a".into()).unwrap();
        assert_eq!(decoded, Decoded { bytes: long.len() as u64, replaced: 0 });
        assert!(text == long.as_bytes());
        let line = GBK.encode(CHINESE).0;
        let broken = [&bytes[..100 * line.len()], b"\xff", &bytes[100 * line.len()..], &line[..1]].concat();
        let mut text = Vec::new();
        let decoded = gbk.decode(&broken[..], &mut text, &"a.txt".into()).unwrap();
        assert_eq!((decoded.replaced, decoded.bytes), (2, text.len() as u64));
        let (before, after) = (CHINESE.repeat(100), CHINESE.repeat(4900));
        assert_eq!(String::from_utf8(text).unwrap(), format!("{before}\u{FFFD}{after}\u{FFFD}"));
        let wrong = [&b"\xff\xff\xff"[..], &line].concat();
        let error = gbk.decode(&wrong[..], &mut Vec::new(), &"a.txt".into()).unwrap_err().to_string();
        assert!(error.starts_with("a.txt: not GBK text: byte 1"), "{error}");
        assert!("klingon".parse::<TextEncoding>().unwrap_err().to_string().contains("gb18030"));
    }
}
