//! How tokens are chosen: the options that `generate`, `chat` and `run` share, under our names and llama.cpp's.

use clap::{Args, ValueEnum};
use minigpt_generate::{GenerationConfig, Style};
use serde_json::{Map, Value, json};

/// What is not said is as the command has it.
#[derive(Args)]
pub struct SamplingArgs {
    /// How many tokens to write at most [default: 200; in a chat 256]
    #[arg(short = 'n', long, visible_alias = "n-predict", value_name = "N")]
    max_new_tokens: Option<usize>,
    /// What the text is for: sets temperature and top-k.
    #[arg(long, value_enum)]
    style: Option<StyleName>,
    /// Below 1 likely tokens become likelier, above 1 all become more alike; 0 always takes the likeliest [default: 0.8;
    /// for a model that answers questions, 0 in a chat]
    #[arg(long, visible_alias = "temp", value_name = "T", allow_negative_numbers = true)]
    temperature: Option<f64>,
    /// Draw from the k likeliest tokens only; 0 for all [default: 200; in a chat 40]
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,
    /// Draw from the smallest set of tokens that has this probability [default: 1]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    top_p: Option<f64>,
    /// Draw from tokens with at least this part of the likeliest one's probability [default: 0]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    min_p: Option<f64>,
    /// Above 1, tokens that the text has already become less likely [default: 1]
    #[arg(long, visible_alias = "repeat-penalty", value_name = "X", allow_negative_numbers = true)]
    repetition_penalty: Option<f64>,
    /// A string that ends the text and is not part of it; may be given several times.
    #[arg(long, visible_alias = "reverse-prompt", value_name = "TEXT")]
    stop: Vec<String>,
    /// The same seed, the same text; `random` for another one each time [default: 1337; in a chat 0]
    #[arg(short = 's', long, value_name = "N|random")]
    seed: Option<u64>,
}

#[derive(Clone, Copy, ValueEnum)]
enum StyleName {
    /// Surprising: temperature 0.9, the 40 likeliest tokens.
    Story,
    /// Careful: temperature 0.6, the 20 likeliest.
    Code,
    /// Sober: temperature 0.4, the 10 likeliest.
    Summary,
    /// The likeliest token, always.
    Exact,
}

impl SamplingArgs {
    /// What was asked for, under the names of OpenAI's interface; the rest is left to the server.
    pub fn as_openai(&self) -> Map<String, Value> {
        let mut config = GenerationConfig::default();
        self.apply(&mut config);
        let temperature = (self.style.is_some() || self.temperature.is_some())
            .then_some(if config.do_sample { config.temperature } else { 0.0 });
        let top_k = (self.style.is_some() || self.top_k.is_some()).then_some(config.top_k);
        let all = json!({
            "max_tokens": self.max_new_tokens, "temperature": temperature, "top_k": top_k, "top_p": self.top_p,
            "min_p": self.min_p, "repetition_penalty": self.repetition_penalty, "seed": self.seed,
            "stop": (!self.stop.is_empty()).then_some(&self.stop),
        });
        let given = all.as_object().cloned().unwrap_or_default();
        given.into_iter().filter(|(_, value)| !value.is_null()).collect()
    }

    /// Changes what was asked for, and leaves the rest.
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
        config.stop_strings.extend(self.stop.iter().cloned());
        config.seed = self.seed.unwrap_or(config.seed);
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
        assert_eq!(told("--style exact"), json!({ "temperature": 0.0, "top_k": 0 }));
    }

    #[test]
    fn a_temperature_overrides_that_of_a_style_and_nonsense_is_told_by_its_name() {
        let warm = config("--style story --temp 0.3");
        assert_eq!((warm.temperature, warm.top_k), (0.3, 40));
        let cold = config("--temperature -1");
        assert!(cold.validate().unwrap_err().to_string().contains("temperature"));
    }
}
