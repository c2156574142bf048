//! The configurations of `configs/`, in the program itself, so that they are there wherever it runs.

/// A configuration by its name, and the text of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadyConfig {
    /// Name.
    pub name: &'static str,
    /// The file.
    pub text: &'static str,
}

macro_rules! ready {
    ($($name:literal),*) => {
        &[$(ReadyConfig { name: $name, text: include_str!(concat!("../../configs/", $name, ".toml")) }),*]
    };
}

/// All of them.
pub const READY_CONFIGS: &[ReadyConfig] = ready![
    "builtin",
    "shakespeare-cpu",
    "shakespeare-nanogpt",
    "shakespeare-char",
    "qa-small",
    "qa",
    "gpt2",
    "gpt2-finetune",
    "textbook"
];

impl ReadyConfig {
    /// The one of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        READY_CONFIGS.iter().find(|config| config.name == name)
    }

    /// Purpose: the beginning of its first comment.
    pub fn about(&self) -> String {
        let comment = self.text.lines().map_while(|line| line.strip_prefix("# "));
        let comment = comment.take_while(|line| !line.starts_with(' ')).collect::<Vec<_>>().join(" ");
        let end = [". ", ": ", "; ", " ("].iter().filter_map(|end| comment.find(end)).min();
        comment[..end.unwrap_or(comment.len())].trim_end_matches(['.', ':']).to_owned()
    }

    /// Training data.
    pub fn data(&self) -> String {
        let table: toml::Table = self.text.parse().unwrap_or_default();
        let path = table.get("data").and_then(|data| data.get("path")).and_then(toml::Value::as_str);
        path.unwrap_or_default().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_file_of_configs_is_in_the_program() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        let mut names: Vec<&str> = READY_CONFIGS.iter().map(|config| config.name).collect();
        files.sort();
        names.sort_unstable();
        assert_eq!(names, files);
    }

    #[test]
    fn each_says_what_it_is_for() {
        for config in READY_CONFIGS {
            let about = config.about();
            assert!(
                about.len() > 20 && about.len() < 100 && !config.data().is_empty(),
                "{config:?}: {about}"
            );
        }
        assert_eq!(ReadyConfig::find("shakespeare-cpu").unwrap().data(), "data/shakespeare.txt");
        assert_eq!(ReadyConfig::find("shakespeare"), None);
    }
}
