//! The same ids as two independent implementations, on text made to find differences: the `tokenizers` crate of
//! Hugging Face and a port of `tiktoken`.

use minigpt_tokenizer::{BpeTrainer, CharTokenizer, Tokenizer};
use proptest::prelude::*;
use std::sync::LazyLock;
use tokenizers::models::bpe::BpeTrainerBuilder;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, Tokenizer as HuggingFace};

/// A tokenizer of ours, opened by Hugging Face's crate from the file that we write.
fn hugging_face(tokenizer: &Tokenizer) -> HuggingFace {
    let folder = tempfile::tempdir().unwrap();
    tokenizer.save(folder.path()).unwrap();
    HuggingFace::from_file(folder.path().join("tokenizer.json")).unwrap()
}

pub(crate) fn their_ids(theirs: &HuggingFace, text: &str) -> Vec<u32> {
    theirs.encode(text, false).unwrap().get_ids().to_vec()
}

pub(crate) const SAMPLE: &str = "To be, or not to be, that is the question:\nWhether 'tis nobler in the mind to suffer\n\
    你好，世界！今天天气很好，我们去公园玩吧。 naïve café — l'été, it's I'll we've they're 1234 3.14 🙂🙃👩‍👩‍👧‍👦\r\n\t\t  x";

/// Any characters at all; words, contractions and white space of every width; awkward neighbours; repetitions.
pub(crate) fn text() -> impl Strategy<Value = String> {
    let word = "[a-zA-Z]{1,8}|'s|'t|'re|'ve|'m|'ll|'d|'S|'| |  |\n|\r\n|\t|\u{3000}|\u{a0}|\u{85}|[0-9]{1,4}|[!-/]{1,3}";
    let mixed = "[你好世界，。ａé\u{301}\u{300}ßŁ٣४Ⅷ½²ǅʰªʻⅠ\u{200d}\u{fe0f}👩👧🙂\u{1d7d8}\u{e000}\u{10ffff}\u{0}]{1,4}";
    prop_oneof![
        any::<String>(),
        prop::collection::vec(word, 0..30).prop_map(|parts| parts.concat()),
        prop::collection::vec(prop_oneof![word, mixed], 0..30).prop_map(|parts| parts.concat()),
        prop::collection::vec(mixed, 0..60).prop_map(|parts| parts.concat()),
        "[a-c ]{0,300}",
        ("[aeA0! \n你]{1,3}", 0_usize..200).prop_map(|(unit, times)| unit.repeat(times)),
    ]
}

static GPT2: LazyLock<HuggingFace> = LazyLock::new(|| hugging_face(&Tokenizer::gpt2()));

static TRAINED: LazyLock<(Tokenizer, HuggingFace)> = LazyLock::new(|| {
    let mut trainer = BpeTrainer::new(500, &["<pad>", "<unk>", "<sep>"]).unwrap();
    trainer.push(SAMPLE);
    let ours = Tokenizer::Bpe(trainer.train(|_| {}).unwrap());
    let theirs = hugging_face(&ours);
    (ours, theirs)
});

static CHARACTERS: LazyLock<(Tokenizer, HuggingFace)> = LazyLock::new(|| {
    let tokenizer = CharTokenizer::from_text(&["<pad>", "<unk>", "<sep>"], SAMPLE.chars()).unwrap();
    let ours = Tokenizer::Char(tokenizer);
    let theirs = hugging_face(&ours);
    (ours, theirs)
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn gpt2_agrees_with_both(text in text()) {
        let ids = Tokenizer::gpt2().encode(&text).unwrap();
        prop_assert_eq!(&ids, &tiktoken_rs::r50k_base_singleton().encode_ordinary(&text));
        prop_assert_eq!(&ids, &their_ids(&GPT2, &text));
        prop_assert_eq!(Tokenizer::gpt2().decode(&ids).unwrap(), text);
    }

    #[test]
    fn gpt2s_special_token_agrees_with_both(parts in prop::collection::vec(text(), 1..4)) {
        let text = parts.join("<|endoftext|>");
        let ids = Tokenizer::gpt2().encode_with_special(&text).unwrap();
        prop_assert_eq!(&ids, &tiktoken_rs::r50k_base_singleton().encode_with_special_tokens(&text));
        prop_assert_eq!(&ids, &their_ids(&GPT2, &text));
    }

    #[test]
    fn a_trained_bpe_agrees(parts in prop::collection::vec(text(), 1..3)) {
        let (ours, theirs) = &*TRAINED;
        let text = parts.join("<sep>");
        let ids = ours.encode_with_special(&text).unwrap();
        prop_assert_eq!(&ids, &their_ids(theirs, &text));
        prop_assert_eq!(ours.decode(&ids).unwrap(), text);
    }

    #[test]
    fn characters_agree(parts in prop::collection::vec(text(), 1..3)) {
        let (ours, theirs) = &*CHARACTERS;
        let text = parts.join("<sep>");
        let ids = ours.encode_with_special(&text).unwrap();
        prop_assert_eq!(&ids, &their_ids(theirs, &text));
        prop_assert_eq!(ours.decode(&ids).unwrap(), theirs.decode(&ids, false).unwrap());
    }

    #[test]
    fn characters_give_back_any_text_that_they_cover(text in any::<String>()) {
        let tokenizer = Tokenizer::Char(CharTokenizer::from_text(&[], text.chars()).unwrap());
        let ids = tokenizer.encode(&text).unwrap();
        prop_assert_eq!(ids.len(), text.chars().count());
        prop_assert_eq!(tokenizer.decode(&ids).unwrap(), text);
    }

    #[test]
    fn a_stream_gives_the_ids_of_the_whole(parts in prop::collection::vec(text(), 0..6)) {
        for tokenizer in [&Tokenizer::gpt2(), &TRAINED.0, &CHARACTERS.0] {
            let mut encoder = tokenizer.encoder();
            let mut ids = Vec::new();
            parts.iter().try_for_each(|part| encoder.push(part, &mut ids)).unwrap();
            encoder.finish(&mut ids).unwrap();
            prop_assert_eq!(ids, tokenizer.encode(&parts.concat()).unwrap());
        }
    }
}

#[test]
fn every_code_point_is_cut_as_tiktoken_cuts_it() {
    let gpt2 = Tokenizer::gpt2();
    let tiktoken = tiktoken_rs::r50k_base_singleton();
    // The last letters that Unicode has; a unit test of the pattern looks at the code points beyond.
    for character in '\0'..='\u{33fff}' {
        // Beside a letter, a digit, a sign and a space each class shows.
        let text = format!("a{character}1{character}!{character} {character}{character}");
        assert_eq!(gpt2.encode(&text).unwrap(), tiktoken.encode_ordinary(&text), "{character:?}");
    }
}

#[test]
fn a_long_text_without_a_space_agrees() {
    let text = SAMPLE.replace(char::is_whitespace, "").repeat(40) + &"a".repeat(5000) + &"你好".repeat(2000);
    let ids = Tokenizer::gpt2().encode(&text).unwrap();
    assert_eq!(ids, tiktoken_rs::r50k_base_singleton().encode_ordinary(&text));
}

#[test]
fn training_learns_what_hugging_face_learns() {
    let text = SAMPLE.repeat(3) + "aaaa aaa aaaaaaa abababab bababa";
    let mut trainer = BpeTrainer::new(600, &["<pad>", "<sep>"]).unwrap();
    trainer.push(&text);
    let ours = Tokenizer::Bpe(trainer.train(|_| {}).unwrap());

    let mut theirs = HuggingFace::new(tokenizers::models::bpe::BPE::default());
    theirs.with_pre_tokenizer(Some(ByteLevel::default().add_prefix_space(false)));
    let special = ["<pad>", "<sep>"].map(|name| AddedToken::from(name, true));
    let trainer = BpeTrainerBuilder::new()
        .vocab_size(600)
        .special_tokens(special.to_vec())
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .show_progress(false)
        .build();
    let mut trainer = tokenizers::models::TrainerWrapper::from(trainer);
    theirs.train(&mut trainer, std::iter::once(text.as_str())).unwrap();

    let vocab = |tokenizer: &HuggingFace| {
        let mut vocab: Vec<_> =
            tokenizer.get_vocab(true).into_iter().map(|(token, id)| (id, token)).collect();
        vocab.sort();
        vocab
    };
    assert_eq!(vocab(&hugging_face(&ours)), vocab(&theirs));
}
