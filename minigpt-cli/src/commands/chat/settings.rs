//! The settings of a chat as `/show` lists them.

use crate::language::messages::chat as message;
use crate::screen;
use minigpt::ChatSettings;
use minigpt_charts::Table;

/// All settings as a table.
pub fn show(settings: &ChatSettings) -> String {
    let generation = &settings.generation;
    let temperature = if generation.do_sample { generation.temperature } else { 0.0 };
    let switch = |on: bool| if on { "on" } else { "off" };
    let mut table = Table::default();
    table.row(["temperature", &temperature.to_string(), message::AboutTemperature.text()]);
    table.row(["top_k", &generation.top_k.to_string(), message::AboutTopK.text()]);
    table.row(["top_p", &generation.top_p.to_string(), message::AboutTopP.text()]);
    table.row(["min_p", &generation.min_p.to_string(), message::AboutMinP.text()]);
    let penalty = generation.repetition_penalty.to_string();
    table.row(["repetition_penalty", &penalty, message::AboutRepetitionPenalty.text()]);
    let [frequency, presence] =
        [generation.frequency_penalty, generation.presence_penalty].map(|penalty| penalty.to_string());
    table.row(["frequency_penalty", &frequency, message::AboutFrequencyPenalty.text()]);
    table.row(["presence_penalty", &presence, message::AboutPresencePenalty.text()]);
    let window =
        generation.repeat_last_n.map_or_else(|| message::WholeText.text().to_owned(), |n| n.to_string());
    table.row(["repeat_last_n", &window, message::AboutRepeatLastN.text()]);
    table.row(["max_new_tokens", &generation.max_new_tokens.to_string(), message::AboutMaxNewTokens.text()]);
    table.row(["seed", &generation.seed.to_string(), message::AboutSeed.text()]);
    let stop = format!("{:?}", generation.stop_strings.first().map_or("", String::as_str));
    table.row(["stop", &stop, message::AboutStop.text()]);
    table.row(["guard", switch(settings.guard), message::AboutGuard.text()]);
    table.row(["history", switch(settings.history), message::AboutHistory.text()]);
    table.draw_within(screen::table_columns())
}

#[cfg(test)]
mod tests {
    use super::*;
    use minigpt_generate::GenerationConfig;

    #[test]
    fn every_name_but_the_styles_is_shown_and_greedy_as_temperature_0() {
        let generation = GenerationConfig { do_sample: false, ..GenerationConfig::default() };
        let shown = show(&ChatSettings { generation, guard: true, history: false });
        for name in ChatSettings::NAMES.into_iter().filter(|name| *name != "style") {
            assert!(shown.contains(name), "{name}");
        }
        assert!(shown.contains("temperature         0 "), "{shown}");
    }
}
