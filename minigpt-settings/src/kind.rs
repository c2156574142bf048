//! The values that a type accepts, asked of its `Deserialize`: of an enum, its variants.

use crate::Allowed;
use serde::de::value::Error;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};
use serde::forward_to_deserialize_any;
use std::ops::Bound::Unbounded;

/// The values that a type accepts.
pub(crate) fn allowed_by<T: DeserializeOwned>() -> Allowed {
    let mut allowed = Allowed::Text;
    // Always an error: the deserializer has no value to give.
    let _ = T::deserialize(Probe { allowed: &mut allowed });
    allowed
}

/// A deserializer that records what it is asked for.
struct Probe<'a> {
    allowed: &'a mut Allowed,
}

impl Probe<'_> {
    fn record<T>(self, allowed: Allowed) -> Result<T, Error> {
        *self.allowed = allowed;
        Err(Error::custom(""))
    }
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        self.record(Allowed::Text)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        self.record(Allowed::Switch)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        self.record(Allowed::Whole(0, Allowed::LARGEST))
    }

    fn deserialize_f64<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        self.record(Allowed::Number(Unbounded, Unbounded))
    }

    fn deserialize_map<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        self.record(Allowed::Names)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        self.record(Allowed::Word(variants))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u128 f32 char str string bytes byte_buf unit unit_struct newtype_struct seq tuple
        tuple_struct struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::collections::BTreeMap;

    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Shape {
        Round,
        NotRound,
    }

    #[test]
    fn a_type_says_what_it_accepts() {
        assert_eq!(allowed_by::<Option<Shape>>(), Allowed::Word(&["round", "not_round"]));
        assert_eq!(allowed_by::<bool>(), Allowed::Switch);
        assert_eq!(allowed_by::<Option<String>>(), Allowed::Text);
        assert_eq!(allowed_by::<usize>(), Allowed::Whole(0, Allowed::LARGEST));
        assert_eq!(allowed_by::<BTreeMap<String, String>>(), Allowed::Names);
    }
}
