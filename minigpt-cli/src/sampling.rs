//! Sampling options, shared by `generate`, `chat` and `run`, under our names and llama.cpp's.

use crate::arguments::numbers;
use crate::language::messages::main as message;
use crate::output;
use clap::{Args, ValueEnum};
use minigpt_generate::{GenerationConfig, Style};
use serde_json::{Map, Value, json};

/// Options that are not given keep the command's defaults.
#[derive(Args)]
pub struct SamplingArgs {
    /// Maximum number of tokens to generate [default: 200; in a chat 256]
    #[arg(short = 'n', long, visible_alias = "n-predict", value_name = "N", value_parser = numbers::whole::<usize>)]
    max_new_tokens: Option<usize>,
    /// Preset for the kind of text: sets temperature and top-k.
    #[arg(long, value_enum)]
    style: Option<StyleName>,
    /// Sampling temperature: below 1 is more predictable, above 1 more random, 0 always takes the most likely token
    /// [default: 0.8; 0 in a chat with a model that answers questions]
    #[arg(long, visible_alias = "temp", value_name = "T", value_parser = numbers::number)]
    temperature: Option<f64>,
    /// Sample from the K most likely tokens; 0 for all [default: 200; in a chat 40]
    #[arg(long, value_name = "K", value_parser = numbers::whole::<usize>)]
    top_k: Option<usize>,
    /// Sample from the smallest set of tokens with this total probability [default: 1]
    #[arg(long, value_name = "P", value_parser = numbers::number)]
    top_p: Option<f64>,
    /// Sample from tokens with at least this fraction of the highest probability [default: 0]
    #[arg(long, value_name = "P", value_parser = numbers::number)]
    min_p: Option<f64>,
    /// Penalty for tokens that the text already contains; above 1 makes them less likely [default: 1]
    #[arg(long, visible_alias = "repeat-penalty", value_name = "X", value_parser = numbers::number)]
    repetition_penalty: Option<f64>,
    /// Subtracted from a token's logit for each time it was generated; -2 to 2 [default: 0]
    #[arg(long, value_name = "X", value_parser = numbers::number)]
    frequency_penalty: Option<f64>,
    /// Subtracted once from the logit of each token that was generated; -2 to 2 [default: 0]
    #[arg(long, value_name = "X", value_parser = numbers::number)]
    presence_penalty: Option<f64>,
    /// Apply penalties to the last N tokens, including the prompt, as in llama.cpp [default: the whole text for
    /// --repetition-penalty, generated tokens for the others]
    #[arg(long, value_name = "N", value_parser = numbers::whole::<usize>)]
    repeat_last_n: Option<usize>,
    /// Stop before this string; can be repeated.
    #[arg(long, visible_alias = "reverse-prompt", alias = "stop-strings", value_name = "TEXT")]
    stop: Vec<String>,
    /// Random seed; `random` for a different one each time [default: 1337; in a chat 0]
    #[arg(short = 's', long, value_name = "N|random", value_parser = numbers::seed)]
    seed: Option<u64>,
}

#[derive(Clone, Copy, ValueEnum)]
enum StyleName {
    /// Creative: temperature 0.9, top-k 40.
    Story,
    /// Careful: temperature 0.6, top-k 20.
    Code,
    /// Factual: temperature 0.4, top-k 10.
    Summary,
    /// Always the most likely token.
    Exact,
}

impl SamplingArgs {
    /// Always takes the most likely token, as `do_sample=False` does in transformers.
    pub fn always_likeliest(&mut self) {
        self.temperature = Some(0.0);
    }

    /// The given options as fields of OpenAI's API; the server decides the rest.
    pub fn as_openai(&self) -> Map<String, Value> {
        let mut config = GenerationConfig::default();
        self.apply(&mut config);
        let temperature = (self.style.is_some() || self.temperature.is_some())
            .then_some(if config.do_sample { config.temperature } else { 0.0 });
        let top_k = (self.style.is_some() || self.top_k.is_some()).then_some(config.top_k);
        let all = json!({
            "max_tokens": self.max_new_tokens, "temperature": temperature, "top_k": top_k, "top_p": self.top_p,
            "min_p": self.min_p, "repetition_penalty": self.repetition_penalty,
            "frequency_penalty": self.frequency_penalty, "presence_penalty": self.presence_penalty,
            "repeat_last_n": self.repeat_last_n, "seed": self.seed,
            "stop": (!self.stop.is_empty()).then_some(&self.stop),
        });
        let given = all.as_object().cloned().unwrap_or_default();
        given.into_iter().filter(|(_, value)| !value.is_null()).collect()
    }

    /// The options that only matter when sampling, and whether they are given.
    pub fn of_a_draw(&self) -> [(&'static str, bool); 4] {
        [
            ("--top-k", self.top_k.is_some()),
            ("--top-p", self.top_p.is_some()),
            ("--min-p", self.min_p.is_some()),
            ("--seed", self.seed.is_some()),
        ]
    }

    /// The options that turn sampling on.
    pub fn asks_for_a_draw(&self) -> Vec<&'static str> {
        let warm = self.temperature.is_some_and(|temperature| temperature != 0.0);
        let style = self.style.is_some_and(|style| !matches!(style, StyleName::Exact));
        let switches = [("--temperature", warm), ("--style", style)].into_iter();
        switches.chain(self.of_a_draw()).filter(|(_, given)| *given).map(|(option, _)| option).collect()
    }

    /// Applies the given options to a configuration.
    pub fn apply(&self, config: &mut GenerationConfig) {
        match self.style {
            None => {}
            Some(StyleName::Story) => Style::Story.apply(config),
            Some(StyleName::Code) => Style::Code.apply(config),
            Some(StyleName::Summary) => Style::Summary.apply(config),
            Some(StyleName::Exact) => Style::Exact.apply(config),
        }
        if let Some(temperature) = self.temperature {
            (config.do_sample, config.temperature) = (true, temperature);
        }
        config.max_new_tokens = self.max_new_tokens.unwrap_or(config.max_new_tokens);
        config.top_k = self.top_k.unwrap_or(config.top_k);
        config.top_p = self.top_p.unwrap_or(config.top_p);
        config.min_p = self.min_p.unwrap_or(config.min_p);
        config.repetition_penalty = self.repetition_penalty.unwrap_or(config.repetition_penalty);
        config.frequency_penalty = self.frequency_penalty.unwrap_or(config.frequency_penalty);
        config.presence_penalty = self.presence_penalty.unwrap_or(config.presence_penalty);
        config.repeat_last_n = self.repeat_last_n.or(config.repeat_last_n);
        config.stop_strings.extend(self.stop.iter().cloned());
        config.seed = self.seed.unwrap_or(config.seed);
    }
}

/// Notes which of the given options have no effect because decoding is greedy.
pub fn say_unused(config: &GenerationConfig, given: &[(&str, bool)]) {
    let unused: Vec<&str> = given.iter().filter(|(_, given)| *given).map(|(option, _)| *option).collect();
    if config.is_greedy() && !unused.is_empty() {
        output::note(message::UnusedWhenGreedy { options: unused.join(", ") });
    }
}

/// Notes a window for penalties without any penalty.
pub fn say_unused_window(config: &GenerationConfig, option: &str) {
    if config.repeat_last_n.is_some() && !config.penalizes() {
        output::note(message::UnusedWindow { option });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        sampling: SamplingArgs,
    }

    fn config(args: &str) -> GenerationConfig {
        let parsed = Only::try_parse_from(["x"].into_iter().chain(args.split_whitespace()));
        let mut config = GenerationConfig::default();
        parsed.unwrap_or_else(|e| panic!("{e}")).sampling.apply(&mut config);
        config
    }

    #[test]
    fn llama_cpps_names_mean_ours() {
        let theirs = config("-n 7 --temp 0.5 --top-k 3 --top-p 0.9 --min-p 0.1 --repeat-penalty 1.1 -s 4");
        let ours = config(
            "--max-new-tokens 7 --temperature 0.5 --top-k 3 --top-p 0.9 --min-p 0.1 --repetition-penalty 1.1 --seed 4",
        );
        assert_eq!(theirs, ours);
        assert_eq!((ours.max_new_tokens, ours.do_sample, ours.seed), (7, true, 4));
        assert_eq!(config(""), GenerationConfig::default());
    }

    #[test]
    fn a_server_is_told_only_what_was_asked_for() {
        let told = |args: &str| {
            let parsed = Only::try_parse_from(["x"].into_iter().chain(args.split_whitespace()));
            Value::Object(parsed.unwrap_or_else(|e| panic!("{e}")).sampling.as_openai())
        };
        assert_eq!(told(""), json!({}));
        assert_eq!(told("-n 5 --stop x"), json!({ "max_tokens": 5, "stop": ["x"] }));
        let penalties = "--frequency-penalty 0.5 --presence-penalty=-1 --repeat-last-n 9";
        let want = json!({ "frequency_penalty": 0.5, "presence_penalty": -1.0, "repeat_last_n": 9 });
        assert_eq!(told(penalties), want);
        let config = config(penalties);
        let got = (config.frequency_penalty, config.presence_penalty, config.repeat_last_n);
        assert_eq!(got, (0.5, -1.0, Some(9)));
        assert_eq!(told("--style exact"), json!({ "temperature": 0.0, "top_k": 0 }));
    }

    #[test]
    fn a_temperature_overrides_that_of_a_style_and_nonsense_is_told_by_its_name() {
        let warm = config("--style story --temp 0.3");
        assert_eq!((warm.temperature, warm.top_k), (0.3, 40));
        let cold = config("--temperature=-1");
        assert!(cold.validate().unwrap_err().to_string().contains("temperature"));
    }
}
