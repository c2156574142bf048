//! What the settings promise as a whole.

use super::*;
use crate::RunConfig;
use minigpt_model::{Activation, NormPosition};
use minigpt_settings::Allowed::{Names, Number, Switch, Text, Whole, Word};
use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Included};

#[test]
fn whole_numbers_have_many_spellings() {
    let digits = ["7", "1e3", "1E3", "1_000", "2.5e2", "3.0", "007"].map(whole_number);
    let want = ["7", "1000", "1000", "1000", "250", "3", "007"];
    assert_eq!(digits, want.map(|digits| Some(digits.to_owned())));
    let none = ["1.5", "-1", "1e400", "inf", "nan", "", "ten", "1e-3"];
    assert!(none.iter().all(|text| whole_number(text).is_none()));
}

fn changed(changes: &[&str]) -> Result<Config> {
    let changes: Vec<String> = changes.iter().map(|&change| change.to_owned()).collect();
    change(Config::default(), &changes)
}

#[test]
fn numbers_switches_and_words_are_set() {
    let changes = ["n_layer=2", "model.n_inner = 100", "activation_function=relu", "norm_position=\"post\""];
    let config = changed(&changes).unwrap();
    assert_eq!((config.n_layer, config.n_inner), (2, Some(100)));
    assert_eq!((config.activation_function, config.norm_position), (Activation::Relu, NormPosition::Post));
}

#[test]
fn one_word_switches_all_biases_or_all_dropout() {
    let config = changed(&["bias=false", "dropout=0"]).unwrap();
    assert_eq!(config, Config::default().with_bias(false).with_dropout(0.0));
}

#[test]
fn only_what_is_near_is_guessed() {
    let guess = |name| near(Some("train"), name);
    for name in ["wandb_log", "compile", "backend", "foo", "x", "top_k"] {
        assert_eq!(guess(name), None, "{name}");
    }
    for (name, meant) in [
        ("max_iter", "train.max_iters"),
        ("learning_rat", "train.learning_rate"),
        ("lr", "train.learning_rate"),
        ("layers", "model.n_layer"),
        ("n_embed", "model.n_embd"),
        ("drop_out", "model.dropout"),
        ("batchsize", "train.batch_size"),
    ] {
        assert_eq!(guess(name).as_deref(), Some(meant), "{name}");
    }
}

#[test]
fn mistakes_name_the_key_and_the_nearest_known_one() {
    let refused = |change| format!("{:#}", changed(&[change]).unwrap_err());
    assert_eq!(refused("n_layers=2"), "unknown setting model.n_layers; did you mean model.n_layer?");
    assert_eq!(refused("wandb_log=2"), "unknown setting model.wandb_log");
    assert_eq!(refused("max_iter=2"), "unknown setting model.max_iter");
    assert!(refused("n_layer=two").contains("n_layer is \"two\""), "{}", refused("n_layer=two"));
    assert_eq!(refused("bias=7"), "model.bias is 7; it must be true or false");
    assert!(refused("n_layer").contains("expected key=value"));
    assert!(refused("position_embedding=alibi").contains("rope"));
}

/// They were told of "usize", "f64", "a boolean" and "unit variant".
#[test]
fn a_value_of_another_kind_is_told_what_may_be() {
    let refused = |change| changed(&[change]).unwrap_err().to_string();
    assert_eq!(refused("n_embd=abc"), "model.n_embd is \"abc\"; it must be a whole number, 1 to 262,144");
    assert_eq!(refused("n_embd=-3"), "model.n_embd is -3; it must be a whole number, 1 to 262,144");
    assert_eq!(refused("dropout=x"), "model.dropout is \"x\"; it must be a number, 0 to below 1");
    assert_eq!(refused("qkv_bias=maybe"), "model.qkv_bias is \"maybe\"; it must be true or false");
    assert_eq!(refused("n_embd=1e308"), "model.n_embd is 1e308; it must be a whole number, 1 to 262,144");
    assert_eq!(refused("dropout=1e308"), "model.dropout is 1e308; it must be a number, 0 to below 1");
    assert_eq!(refused("norm_position=3"), "model.norm_position is 3; it must be one of these: pre, post");
}

fn parse(section: &str, key: &str, value: impl std::fmt::Display) -> Result<RunConfig> {
    let path = if (section, key) == ("data", "path") { "" } else { "data.path = \"a\"\n" };
    RunConfig::parse(&format!("{path}{section}.{key} = {value}"), &[])
}

#[test]
fn a_token_has_one_name_in_chinese() {
    let english = SETTINGS.iter().filter(|setting| setting.meaning_zh.contains("token"));
    assert_eq!(english.map(SettingInfo::name).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn the_table_has_every_setting_and_nothing_else() {
    let config = RunConfig::parse("[data]\npath = \"a\"", &[]).unwrap();
    let config = serde_json::to_value(&config).unwrap();
    let keys = |section: &str| config[section].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let mut known: BTreeSet<String> =
        ["model.preset", "model.bias", "model.dropout"].map(String::from).into();
    for (section, ..) in SECTIONS {
        known.extend(keys(section).iter().map(|key| format!("{section}.{key}")));
    }
    let table: BTreeSet<String> = SETTINGS.iter().map(SettingInfo::name).collect();
    assert_eq!(table, known);
    assert_eq!(table.len(), SETTINGS.len(), "a setting is declared twice");
    let short: BTreeSet<&str> = SETTINGS.iter().map(|setting| setting.key).collect();
    assert_eq!(short.len(), SETTINGS.len(), "a key without its section must be clear");
}

#[test]
fn a_range_that_is_stated_is_the_one_that_holds() {
    let refused = |setting: &SettingInfo, value: &str| match parse(setting.section, setting.key, value) {
        Ok(_) => panic!("{} may be {value}", setting.name()),
        Err(error) => assert!(error.to_string().contains(setting.key), "{value}: {error}"),
    };
    // Another rule may refuse it (n_embd must be divisible by n_head), but not that of its range.
    let allowed = |setting: &SettingInfo, value: &str| match parse(setting.section, setting.key, value) {
        Err(error) if error.to_string().contains("must be ") => panic!("{value}: {error}"),
        _ => {}
    };
    for setting in SETTINGS.iter() {
        match setting.allowed {
            Whole(from, to) => {
                [from, to].iter().for_each(|n| allowed(setting, &n.to_string()));
                refused(setting, &(from as i64 - 1).to_string());
                if to < minigpt_settings::Allowed::LARGEST {
                    refused(setting, &(to + 1).to_string());
                }
                refused(setting, "1.5");
                refused(setting, "\"x\"");
            }
            Number(from, to) => {
                let (Included(low) | Excluded(low)) = from else { continue };
                refused(setting, &format!("{:?}", low - 1e-9));
                refused(setting, "nan");
                refused(setting, "inf");
                match from {
                    Excluded(_) => refused(setting, &format!("{low:?}")),
                    _ => allowed(setting, &format!("{low:?}")),
                }
                match to {
                    Excluded(high) => refused(setting, &format!("{high:?}")),
                    _ => allowed(setting, "1e9"),
                }
            }
            Switch => ["7", "\"yes\""].iter().for_each(|value| refused(setting, value)),
            Word(words) => {
                words.iter().for_each(|word| {
                    assert!(parse(setting.section, setting.key, format!("{word:?}")).is_ok());
                });
                refused(setting, "\"no such word\"");
            }
            Text | Names => {}
        }
    }
}

#[test]
fn every_meaning_is_a_sentence_in_both_languages() {
    for setting in SETTINGS.iter() {
        let ends = |text: &str| text.ends_with('.') || text.ends_with(").");
        assert!(ends(setting.meaning) && setting.meaning.is_ascii() | setting.meaning.contains('…'));
        assert!(setting.meaning_zh.ends_with('。'), "{}", setting.name());
    }
}
