//! Settings, declared once each: type, default, range, and help in English and Chinese.
//!
//! [`settings!`] turns a section's declarations into the struct that holds its settings and into the table
//! ([`Section::settings`]) from which configuration files, `--set`, help, documentation and range errors are made.
//!
//! ```
//! use minigpt_settings::{Section, settings};
//!
//! settings! {
//!     /// How fast to learn.
//!     pub struct Pace in "pace" {
//!         /// Learning rate.
//!         #[zh = "学习率。"]
//!         rate: f64 = 1e-3, 0.0..;
//!         /// Number of steps. Default: until stopped.
//!         #[zh = "步数。不设时一直训练到停止。"]
//!         steps: Option<u64> = None, 1..=1000;
//!         /// Whether to shuffle.
//!         #[zh = "是否打乱。"]
//!         shuffle: bool = true;
//!     }
//! }
//!
//! assert_eq!(Pace::default().rate, 1e-3);
//! assert_eq!(Pace::settings()[1].allowed.to_string(), "a whole number, 1 to 1,000");
//! let error = Pace { rate: -1.0, ..Pace::default() }.check_ranges().unwrap_err();
//! assert_eq!(error.to_string(), "rate is -1.0; it must be a number, 0 or more");
//! ```

mod allowed;
mod kind;

pub use allowed::{Allowed, Number, OutOfRange, check};
#[doc(hidden)]
pub use serde;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Everything there is to know about one setting.
#[derive(Debug, Clone, PartialEq)]
pub struct SettingInfo {
    /// Section of the configuration file, for example `train`.
    pub section: &'static str,
    /// Name within the section, for example `max_iters`.
    pub key: &'static str,
    /// Values it accepts.
    pub allowed: Allowed,
    /// Default value as JSON. `None` if the setting is not set by default.
    pub default: Option<Value>,
    /// Help in English.
    pub meaning: &'static str,
    /// Help in Chinese.
    pub meaning_zh: &'static str,
}

impl SettingInfo {
    /// Describes a setting of type `T`. [`settings!`] calls this.
    #[doc(hidden)]
    pub fn new<T: Serialize + DeserializeOwned>(
        section: &'static str,
        key: &'static str,
        default: &T,
        range: Option<Allowed>,
        [meaning, meaning_zh]: [&'static str; 2],
    ) -> Self {
        let default = serde_json::to_value(default).unwrap_or_default();
        let is_empty =
            default.is_null() || default == "" || default.as_object().is_some_and(serde_json::Map::is_empty);
        Self {
            section,
            key,
            allowed: range.unwrap_or_else(kind::allowed_by::<T>),
            default: (!is_empty).then_some(default),
            meaning: meaning.trim_start(),
            meaning_zh,
        }
    }

    /// Section and key: `train.max_iters`.
    pub fn name(&self) -> String {
        format!("{}.{}", self.section, self.key)
    }
}

/// A section of a configuration, declared with [`settings!`].
pub trait Section: Serialize + DeserializeOwned + Default {
    /// Name of the section in a file.
    const NAME: &'static str;

    /// All settings of the section, in the order of their declaration.
    fn settings() -> Vec<SettingInfo>;

    /// Checks every setting that has a range.
    ///
    /// # Errors
    /// The first setting that is out of its range.
    fn check_ranges(&self) -> Result<(), OutOfRange>;
}

/// Declares the settings of a section; see the [crate documentation](crate).
///
/// Each declaration is `key: type = default, range;`. The doc comment is the English help, `#[zh = "…"]` the Chinese one.
/// The range is for numbers; of other types, the type itself says which values it accepts.
#[macro_export]
macro_rules! settings {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident in $section:literal {
            $(
                $(#[doc = $meaning:literal])+
                #[zh = $meaning_zh:literal]
                $key:ident: $type:ty = $default:expr $(, $range:expr)?;
            )+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, PartialEq, $crate::serde::Serialize, $crate::serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        $visibility struct $name {
            $($(#[doc = $meaning])+ pub $key: $type,)+
        }

        impl ::std::default::Default for $name {
            fn default() -> Self {
                Self { $($key: $default,)+ }
            }
        }

        impl $crate::Section for $name {
            const NAME: &'static str = $section;

            fn settings() -> Vec<$crate::SettingInfo> {
                let default = Self::default();
                vec![$({
                    #[allow(unused_mut, unused_assignments, clippy::allow_attributes, reason = "not every setting has a range")]
                    let mut range: Option<$crate::Allowed> = None;
                    $(range = Some($crate::Allowed::from($range));)?
                    let meaning = [concat!($($meaning),+), $meaning_zh];
                    $crate::SettingInfo::new($section, stringify!($key), &default.$key, range, meaning)
                }),+]
            }

            fn check_ranges(&self) -> ::std::result::Result<(), $crate::OutOfRange> {
                $($($crate::check(stringify!($key), &self.$key, $crate::Allowed::from($range))?;)?)+
                Ok(())
            }
        }
    };
}
