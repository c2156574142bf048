//! Folders copied and compared, and files mutated.

use crate::random::Random;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// All files below a path, or the file itself, with their bytes; empty where there is nothing.
pub fn contents(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut open) = (BTreeMap::new(), vec![path.to_owned()]);
    while let Some(next) = open.pop() {
        if next.is_dir() {
            open.extend(fs::read_dir(&next).unwrap().map(|entry| entry.unwrap().path()));
        } else if let Ok(bytes) = fs::read(&next) {
            found.insert(next.strip_prefix(path).unwrap().to_owned(), bytes);
        }
    }
    found
}

pub fn copy(from: &Path, to: &Path) {
    for (name, bytes) in contents(from) {
        let path = if name.as_os_str().is_empty() { to.to_owned() } else { to.join(name) };
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// Changes one file of those below a path, a little or a lot.
pub fn mutate(random: &mut Random, path: &Path) {
    let names: Vec<PathBuf> = contents(path).into_keys().collect();
    let name = random.pick(&names);
    let path = if name.as_os_str().is_empty() { path.to_owned() } else { path.join(name) };
    let mut bytes = fs::read(&path).unwrap();
    for _ in 0..=random.below(4) {
        mutate_once(random, &mut bytes);
    }
    fs::write(path, bytes).unwrap();
}

/// What numbers may become.
const NUMBERS: [&str; 12] = [
    "0",
    "-1",
    "1",
    "65536",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "1e308",
    "1e999",
    "NaN",
    "99999999999999999999999999",
];

fn mutate_once(random: &mut Random, bytes: &mut Vec<u8>) {
    let at = random.small(bytes.len());
    let length = random.small((bytes.len() - at.min(bytes.len())).min(4096) + 1);
    let part = at..(at + length).min(bytes.len());
    match random.below(8) {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
        1 if !bytes.is_empty() => bytes[at] = *random.pick(&[0, 0xff, 0x7f, 0x80, b'"', b'{', b'\n']),
        2 => bytes.truncate(at),
        3 => drop(bytes.drain(part)),
        4 => {
            let copy = bytes[part].to_vec();
            let to = random.below(bytes.len() + 1);
            bytes.splice(to..to, copy);
        }
        5 => {
            let noise: Vec<u8> = (0..=random.below(64)).map(|_| random.next() as u8).collect();
            bytes.splice(at..at, noise);
        }
        6 if bytes.len() >= 8 => {
            // A length or an offset of a binary format.
            let at = at.min(bytes.len() - 8) / 8 * 8;
            let value = *random.pick(&[0, 1, 0xffff_ffff, 1 << 32, u64::MAX, u64::MAX / 2, 1 << 40]);
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        _ => {
            let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            if let Some(from) = (at..bytes.len()).find(|from| digits(*from) > 0) {
                let to = from + digits(from);
                bytes.splice(from..to, random.pick(&NUMBERS).bytes());
            }
        }
    }
}
