//! Writes the two tables that the crate embeds, so that nothing is downloaded and nothing is parsed at start-up:
//! GPT-2's vocabulary as a list of merges, and the classes of Unicode that GPT-2's pattern distinguishes.
//!
//! Both come from the crates that `tiktoken` itself is built on, so that "the same ids" also means the same
//! version of Unicode.

use std::collections::HashMap;
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let out = std::env::var("OUT_DIR")?;
    std::fs::write(Path::new(&out).join("gpt2.bin"), gpt2_merges()?)?;
    std::fs::write(Path::new(&out).join("unicode_class.bin"), unicode_classes()?)?;
    Ok(())
}

/// The bytes that ids 0 to 255 stand for, then for each further id the two ids that it joins, as little-endian
/// `u16`. 200 KB for what is 2 MB of JSON elsewhere.
fn gpt2_merges() -> Result<Vec<u8>, Box<dyn Error>> {
    let bpe = tiktoken_rs::r50k_base()?;
    let tokens: Vec<Vec<u8>> = (0..50_256).map(|id| bpe.decode_bytes(&[id])).collect::<Result<_, _>>()?;
    let ids: HashMap<&[u8], u16> = tokens.iter().map(Vec::as_slice).zip(0..).collect();
    let mut table = tokens[..256].concat();
    for token in &tokens[256..] {
        for part in last_merge(token, &ids)? {
            table.extend(part.to_le_bytes());
        }
    }
    Ok(table)
}

/// The two tokens that the last merge of `token` joins: byte-pair encode it with only the merges before its own.
fn last_merge(token: &[u8], ids: &HashMap<&[u8], u16>) -> Result<[u16; 2], Box<dyn Error>> {
    let mut ends: Vec<usize> = (0..=token.len()).collect();
    while ends.len() > 3 {
        let rank = |i: usize| ids.get(&token[ends[i]..ends[i + 2]]).copied();
        let best =
            (0..ends.len() - 2).filter_map(|i| Some((rank(i)?, i))).min().ok_or("unreachable token")?;
        ends.remove(best.1 + 1);
    }
    Ok([ids[&token[..ends[1]]], ids[&token[ends[1]..]]])
}

/// A two-level table from code point to class (0 other, 1 letter, 2 number, 3 space): for each block of 256 code
/// points one byte saying which of the following distinct blocks describes it, then those blocks.
fn unicode_classes() -> Result<Vec<u8>, Box<dyn Error>> {
    let mut classes = vec![0_u8; 0x11_0000];
    for (class, pattern) in [(1, r"\p{L}"), (2, r"\p{N}"), (3, r"\s")] {
        for (start, end) in ranges(pattern)? {
            classes[start as usize..=end as usize].fill(class);
        }
    }
    let mut blocks: Vec<&[u8]> = Vec::new();
    let mut table = Vec::new();
    for block in classes.chunks(256) {
        let index = blocks.iter().position(|known| *known == block).unwrap_or_else(|| {
            blocks.push(block);
            blocks.len() - 1
        });
        table.push(u8::try_from(index)?);
    }
    table.extend(blocks.concat());
    Ok(table)
}

/// The ranges of code points that a character class of the regex crate matches.
fn ranges(pattern: &str) -> Result<Vec<(u32, u32)>, Box<dyn Error>> {
    match regex_syntax::parse(pattern)?.into_kind() {
        regex_syntax::hir::HirKind::Class(regex_syntax::hir::Class::Unicode(class)) => {
            Ok(class.iter().map(|range| (range.start().into(), range.end().into())).collect())
        }
        _ => Err("not a character class".into()),
    }
}
