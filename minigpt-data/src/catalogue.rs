//! Public data sets by name: where they are, how large, and the SHA-256 that says it is the right file.
//!
//! A hash is listed only where the file is fixed (a pinned revision, or one that never changes). The others may
//! be revised by their publishers; their hash is recorded beside the file on the first download.

use serde::{Serialize, Serializer};
use std::fmt;

/// One file that can be downloaded by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PublicSet {
    /// What to type.
    pub name: &'static str,
    /// What it is.
    pub about: SetContents,
    /// `en` or `zh`.
    pub language: &'static str,
    /// Its length: exact where `sha256` is known, about right otherwise.
    pub bytes: u64,
    /// Of the whole file.
    pub sha256: Option<&'static str>,
    /// Under which terms it may be used.
    pub licence: Licence,
    /// Where it is.
    pub url: &'static str,
    /// What it is called here.
    pub file: &'static str,
}

/// What a public set contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "their texts say what they are")]
pub enum SetContents {
    Names,
    Shakespeare,
    TinyStoriesValidation,
    TinyStories,
    JourneyToTheWest,
    RedChamber,
}

impl fmt::Display for SetContents {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Names => "32,000 first names, one per line",
            Self::Shakespeare => "tiny Shakespeare, as in nanoGPT",
            Self::TinyStoriesValidation => "the validation part of tinystories",
            Self::TinyStories => "2.7 million stories in simple words",
            Self::JourneyToTheWest => "西遊記, Journey to the West",
            Self::RedChamber => "紅樓夢, Dream of the Red Chamber",
        })
    }
}

/// Under which terms a public set may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of licences")]
pub enum Licence {
    Mit,
    CdlaSharing,
    PublicDomain,
}

impl fmt::Display for Licence {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Mit => "MIT",
            Self::CdlaSharing => "CDLA-Sharing-1.0",
            Self::PublicDomain => "public domain",
        })
    }
}

impl Serialize for SetContents {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl Serialize for Licence {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// All of them, smallest first within a language.
pub const PUBLIC_SETS: &[PublicSet] = &[
    PublicSet {
        name: "names",
        about: SetContents::Names,
        language: "en",
        bytes: 228_145,
        sha256: None,
        licence: Licence::Mit,
        url: "https://raw.githubusercontent.com/karpathy/makemore/988aa59/names.txt",
        file: "names.txt",
    },
    PublicSet {
        name: "shakespeare",
        about: SetContents::Shakespeare,
        language: "en",
        bytes: 1_115_394,
        sha256: Some("86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"),
        licence: Licence::PublicDomain,
        url: "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
        file: "shakespeare.txt",
    },
    PublicSet {
        name: "tinystories-valid",
        about: SetContents::TinyStoriesValidation,
        language: "en",
        bytes: 22_502_601,
        sha256: Some("6874bae9a4c1a4e7edcf0e53b86c17817e9cf881fc75ff2368da457b80c0585d"),
        licence: Licence::CdlaSharing,
        url: "https://huggingface.co/datasets/roneneldan/TinyStories/resolve/f54c09fd23315a6f9c86f9dc80f725de7d8f9c64/TinyStoriesV2-GPT4-valid.txt",
        file: "tinystories-valid.txt",
    },
    PublicSet {
        name: "tinystories",
        about: SetContents::TinyStories,
        language: "en",
        bytes: 2_227_753_162,
        sha256: Some("6418d412de72888f52b5142c761ac21a582f7d1166f0bfbdb5f03ccfdec90443"),
        licence: Licence::CdlaSharing,
        url: "https://huggingface.co/datasets/roneneldan/TinyStories/resolve/f54c09fd23315a6f9c86f9dc80f725de7d8f9c64/TinyStoriesV2-GPT4-train.txt",
        file: "tinystories.txt",
    },
    PublicSet {
        name: "xiyouji",
        about: SetContents::JourneyToTheWest,
        language: "zh",
        bytes: 2_264_069,
        sha256: None,
        licence: Licence::PublicDomain,
        url: "https://www.gutenberg.org/cache/epub/23962/pg23962.txt",
        file: "xiyouji.txt",
    },
    PublicSet {
        name: "hongloumeng",
        about: SetContents::RedChamber,
        language: "zh",
        bytes: 2_663_455,
        sha256: None,
        licence: Licence::PublicDomain,
        url: "https://www.gutenberg.org/cache/epub/24264/pg24264.txt",
        file: "hongloumeng.txt",
    },
];

impl PublicSet {
    /// The set of a name.
    pub fn find(name: &str) -> Option<&'static PublicSet> {
        PUBLIC_SETS.iter().find(|set| set.name == name)
    }

    /// Where to fetch it: `endpoint`, where given, stands in for `https://host` of the address.
    pub fn address(&self, endpoint: Option<&str>) -> String {
        let Some(endpoint) = endpoint else { return self.url.to_owned() };
        let path = self.url.splitn(4, '/').nth(3).unwrap_or_default();
        format!("{}/{path}", endpoint.trim_end_matches('/'))
    }

    /// Whether it is kept by Hugging Face, for which people set up mirrors.
    pub fn is_on_hugging_face(&self) -> bool {
        self.url.starts_with("https://huggingface.co/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_files_are_unique_and_hashes_well_formed() {
        for (i, set) in PUBLIC_SETS.iter().enumerate() {
            assert_eq!(PublicSet::find(set.name), Some(set));
            assert!(PUBLIC_SETS[..i].iter().all(|other| other.file != set.file));
            assert!(set.url.starts_with("https://"));
            let well_formed =
                |hash: &str| hash.len() == 64 && hash.bytes().all(|b| b"0123456789abcdef".contains(&b));
            assert!(set.sha256.is_none_or(well_formed), "{}", set.name);
        }
        assert_eq!(PublicSet::find("nothing"), None);
    }

    #[test]
    fn an_endpoint_stands_in_for_the_host() {
        let set = PublicSet::find("names").unwrap();
        assert_eq!(set.address(None), set.url);
        assert_eq!(
            set.address(Some("http://127.0.0.1:8080/")),
            "http://127.0.0.1:8080/karpathy/makemore/988aa59/names.txt"
        );
    }
}
