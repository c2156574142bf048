//! The settings of a chat as `/show` lists them.

use crate::language::tr;
use crate::screen;
use minigpt::ChatSettings;
use minigpt_charts::Table;

/// All settings as a table.
pub fn show(settings: &ChatSettings) -> String {
    let generation = &settings.generation;
    let temperature = if generation.do_sample { generation.temperature } else { 0.0 };
    let switch = |on: bool| if on { "on" } else { "off" };
    let mut table = Table::default();
    table.row(["temperature", &temperature.to_string(), tr("0 always takes the likeliest token")]);
    table.row(["top_k", &generation.top_k.to_string(), tr("draw from the k likeliest; 0 for all")]);
    table.row(["top_p", &generation.top_p.to_string(), tr("draw from those that make up this probability")]);
    table.row(["min_p", &generation.min_p.to_string(), tr("at least this part of the likeliest one's")]);
    let penalty = generation.repetition_penalty.to_string();
    table.row(["repetition_penalty", &penalty, tr("above 1: less of what was said already")]);
    let [frequency, presence] =
        [generation.frequency_penalty, generation.presence_penalty].map(|penalty| penalty.to_string());
    table.row(["frequency_penalty", &frequency, tr("subtracted for each time that a token was written")]);
    table.row(["presence_penalty", &presence, tr("subtracted once from a token that was written")]);
    let window = generation.repeat_last_n.map_or_else(|| tr("whole text").to_owned(), |n| n.to_string());
    table.row(["repeat_last_n", &window, tr("tokens that the penalties look at")]);
    table.row(["max_new_tokens", &generation.max_new_tokens.to_string(), tr("the longest answer")]);
    table.row(["seed", &generation.seed.to_string(), tr("the same seed, the same answers")]);
    let stop = format!("{:?}", generation.stop_strings.first().map_or("", String::as_str));
    table.row(["stop", &stop, tr("what ends an answer")]);
    table.row(["guard", switch(settings.guard), tr("cut an answer that goes round in circles")]);
    table.row(["history", switch(settings.history), tr("tell the model what was said before")]);
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
