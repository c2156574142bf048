//! Numbers as they travel to the page.

pub(crate) mod base64 {
    /// f32, little-endian, in base64.
    pub fn floats(numbers: &[f32]) -> String {
        bytes(&numbers.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>())
    }

    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    fn bytes(bytes: &[u8]) -> String {
        let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
        for three in bytes.chunks(3) {
            let bits =
                three.iter().fold(0u32, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - three.len()));
            for place in 0..4 {
                let digit = DIGITS[(bits >> (18 - 6 * place)) as usize & 63];
                text.push(if place > three.len() { '=' } else { char::from(digit) });
            }
        }
        text
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_examples_of_rfc_4648() {
            let cases = [
                ("", ""),
                ("f", "Zg=="),
                ("fo", "Zm8="),
                ("foo", "Zm9v"),
                ("foob", "Zm9vYg=="),
                ("fooba", "Zm9vYmE="),
                ("foobar", "Zm9vYmFy"),
            ];
            for (plain, encoded) in cases {
                assert_eq!(bytes(plain.as_bytes()), encoded);
            }
        }
    }
}
