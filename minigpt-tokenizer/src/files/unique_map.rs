//! JSON objects whose keys must differ. JSON readers keep the last of two equal keys in silence; in a vocabulary
//! that hides a mistake.

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use std::fmt;
use std::hash::BuildHasher;
use std::marker::PhantomData;

/// The entries of an object in their order.
#[derive(Debug)]
pub(super) struct UniqueMap<V>(pub(super) Vec<(String, V)>);

impl<'de, V: Deserialize<'de>> UniqueMap<V> {
    /// Reads the entries. A key that appears twice is an error.
    pub(super) fn collect<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let hasher = RandomState::default();
        let mut entries: Vec<(String, V)> = Vec::new();
        let mut seen = HashTable::<usize>::new();
        while let Some(key) = map.next_key::<String>()? {
            let hash = hasher.hash_one(&key);
            if seen.find(hash, |&at| entries[at].0 == key).is_some() {
                return Err(A::Error::custom(format_args!("the key {key:?} appears twice")));
            }
            seen.insert_unique(hash, entries.len(), |&at| hasher.hash_one(&entries[at].0));
            entries.push((key, map.next_value()?));
        }
        Ok(Self(entries))
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for UniqueMap<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

struct Entries<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for Entries<V> {
    type Value = UniqueMap<V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        UniqueMap::collect(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_keep_their_order() {
        let map: UniqueMap<u32> = serde_json::from_str(r#"{"b": 1, "a": 0}"#).unwrap();
        assert_eq!(map.0, [("b".to_owned(), 1), ("a".to_owned(), 0)]);
    }

    #[test]
    fn a_key_that_comes_twice_is_named_with_its_line() {
        let error = serde_json::from_str::<UniqueMap<u32>>("{\"a\": 1,\n\"\\u0061\": 1}").unwrap_err();
        assert!(error.to_string().contains(r#"the key "a" appears twice at line 2"#), "{error}");
    }
}
