//! Parts of `tokenizer.json` and of vocabulary files that come in more than one shape.

use super::gpt2_pair::split_merge;
use super::unique_map::UniqueMap;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// A vocabulary: tokens with ids, or a list with scores as some models have it, which is not kept.
pub(super) enum Vocab {
    Ids(Vec<(String, u32)>),
    List,
}

impl<'de> Deserialize<'de> for Vocab {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(VocabVisitor)
    }
}

struct VocabVisitor;

impl<'de> Visitor<'de> for VocabVisitor {
    type Value = Vocab;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tokens with their ids")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Vocab, A::Error> {
        UniqueMap::collect(map).map(|entries| Vocab::Ids(entries.0))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vocab, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Vocab::List)
    }
}

/// Words by their ids: `{"0": "a", …}`, or a list of them, whose places are the ids. Either way as the former.
pub(super) struct Words(pub(super) Vec<(String, String)>);

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordsVisitor)
    }
}

struct WordsVisitor;

impl<'de> Visitor<'de> for WordsVisitor {
    type Value = Words;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("words by their ids, or a list of words")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Words, A::Error> {
        UniqueMap::collect(map).map(|entries| Words(entries.0))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Words, A::Error> {
        let mut words = Vec::new();
        while let Some(word) = list.next_element::<String>()? {
            words.push((words.len().to_string(), word));
        }
        Ok(Words(words))
    }
}

/// A merge: older files write `"Ġ t"`, newer ones `["Ġ", "t"]`.
pub(super) struct Merge(pub(super) String, pub(super) String);

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MergeVisitor)
    }
}

struct MergeVisitor;

impl<'de> Visitor<'de> for MergeVisitor {
    type Value = Merge;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a merge of two tokens")
    }

    fn visit_str<E: Error>(self, line: &str) -> Result<Merge, E> {
        let pair = split_merge(line)
            .ok_or_else(|| E::custom(format_args!("{line:?} is not a merge of two tokens")))?;
        Ok(Merge(pair.0, pair.1))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Merge, A::Error> {
        match (list.next_element()?, list.next_element()?, list.next_element::<IgnoredAny>()?) {
            (Some(left), Some(right), None) => Ok(Merge(left, right)),
            _ => Err(A::Error::custom("a merge needs two tokens")),
        }
    }
}
