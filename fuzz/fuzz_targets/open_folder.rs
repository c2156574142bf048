//! A whole model folder, opened, asked and run for one pass. Its files stand one after the other, with a mark between.
#![no_main]

#[expect(dead_code, reason = "only the folder is needed here")]
mod place;

use minigpt::{Conversation, ModelFolder, data::Role};
use std::fs;

const FILES: [&str; 5] =
    ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"];
const MARK: &[u8] = b"\0FILE\0";

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let folder = place::folder();
    let mut rest = bytes;
    for name in FILES {
        let end = rest.windows(MARK.len()).position(|window| window == MARK);
        let file = &rest[..end.unwrap_or(rest.len())];
        rest = end.map_or(&[], |end| &rest[end + MARK.len()..]);
        fs::write(folder.join(name), file).expect("a file to work with");
    }
    if let Ok(model) = ModelFolder::open(&folder) {
        let mut ids = vec![0];
        if let Ok(format) = model.format() {
            let mut talk = Conversation::new(format.clone());
            talk.say(Role::User, "Hi");
            ids = talk.prompt(&model, 1).unwrap_or(ids);
        }
        ids.truncate(model.gpt.config().block_size);
        let _ = model.gpt.ids(&[ids]).and_then(|ids| model.gpt.logits(&ids));
    }
});
