"""What decoding must answer, from transformers: every logits processor on random logits, and whole texts.

Each case is a generation config in Hugging Face's names, which the Rust tests read as it is. Texts are made twice, in
float64 and in float32, and must come out the same: no case hangs on a rounding error.
"""

import json

import torch
from transformers import GenerationConfig
from transformers.generation import GenerationMixin

import folder
import tensors

ROWS, VOCABULARY, HISTORY, PROMPT_LENGTH = 5, 101, 12, 9

PROCESSORS = {
    "repetition-penalty": {"repetition_penalty": 1.3},
    "repetition-bonus": {"repetition_penalty": 0.6},
    "bad-words": {"bad_words_ids": [[7], [60, 61], [40, 50, 3], [2]], "eos_token_id": [2, 5]},
    "min-length": {"min_new_tokens": 4, "eos_token_id": [2, 5]},
    "min-length-reached": {"min_new_tokens": 3, "eos_token_id": [2, 5]},
    "suppress": {"suppress_tokens": [0, 50, 100]},
    "greedy-ignores-filters": {"do_sample": False, "temperature": 0.5, "top_k": 3, "top_p": 0.5, "min_p": 0.5},
    "temperature-low": {"temperature": 0.3},
    "temperature-high": {"temperature": 2.5},
    "top-k-1": {"top_k": 1},
    "top-k": {"top_k": 17},
    "top-k-above-vocabulary": {"top_k": 500},
    "top-p-small": {"top_p": 0.05},
    "top-p": {"top_p": 0.9},
    "top-p-large": {"top_p": 0.9999},
    "min-p": {"min_p": 0.05},
    "min-p-1": {"min_p": 1.0},
    "top-k-top-p": {"top_k": 20, "top_p": 0.8},
    "top-p-min-p": {"top_p": 0.95, "min_p": 0.1, "temperature": 1.7},
    "everything": {
        "repetition_penalty": 1.2,
        "bad_words_ids": [[7], [60, 61]],
        "min_new_tokens": 4,
        "eos_token_id": [2, 5],
        "suppress_tokens": [11, 12],
        "temperature": 0.8,
        "top_k": 40,
        "top_p": 0.95,
        "min_p": 0.02,
    },
}

MODEL = "gpt2-transformers"
PROMPTS = [[5, 30, 12], [1], [9, 9, 20, 36, 2], [33, 4]]
NEW_TOKENS = 11


def write_all(root, models):
    """Writes root/: processors and texts, the latter by a model of the folder of models."""
    root.mkdir(parents=True, exist_ok=True)
    model = folder.open_transformers(models / MODEL)
    model.generation_config = GenerationConfig()
    write_processors(root, model)
    write_texts(root, model)


def write_json(path, value):
    lines = ",\n".join("  " + json.dumps(case) for case in value["cases"])
    head = "".join(f"  {json.dumps(key)}: {json.dumps(value[key])},\n" for key in value if key != "cases")
    path.write_text(f'{{\n{head}  "cases": [\n{lines}\n  ]\n}}\n')


# Logits processors


def write_processors(root, model):
    draw = tensors.Draw(301)
    logits = draw.normal((ROWS, VOCABULARY), std=3.0)
    history = draw.below(VOCABULARY, (ROWS, HISTORY))
    history[1, -1], history[2, -2:] = 60, torch.tensor([40, 50])  # bad words that have begun
    ranked = logits[3].argsort(descending=True)
    logits[3, ranked[17]] = logits[3, ranked[16]]  # equals, where a top-k of 17 would part them
    logits[4] *= 8.0
    cases, answers = [], {"logits": logits, "history": history}
    for name, settings in PROCESSORS.items():
        config = {"do_sample": True, "top_k": 0} | settings
        cases.append({"name": name, "config": config})
        answers[name] = process(model, config, history, logits.double()).float()
    write_json(root / "processors.json", tensors.VERSIONS | {"prompt_length": PROMPT_LENGTH, "cases": cases})
    tensors.save(answers, root / "processors.safetensors", tensors.VERSIONS)


def process(model, config, history, logits):
    """The logits after the processors that `generate` would put together, in its order."""
    config = GenerationConfig(**config)
    model._prepare_special_tokens(config, kwargs_has_attention_mask=True, device="cpu")
    processors = GenerationMixin._get_logits_processor(model, config, input_ids_seq_length=PROMPT_LENGTH, device="cpu")
    return processors(history, logits)


# Texts


def write_texts(root, model):
    cases, scores = [], {}
    for name, prompt, config in text_cases(model):
        texts, text_scores = generate(model.double(), prompt, config)
        again, _ = generate(model.float(), prompt, config)
        assert texts == again, f"{name} is a matter of rounding"
        cases.append({"name": name, "prompt": prompt, "config": config, "texts": texts})
        if text_scores is not None:
            scores[name] = text_scores
    model.double()
    check_variety(cases)
    write_json(root / "texts.json", tensors.VERSIONS | {"model": MODEL, "cases": cases})
    tensors.save(scores, root / "scores.safetensors", tensors.VERSIONS)


def text_cases(model):
    """Names, prompts and settings. Stop tokens are those that the model likes, so that texts end here and there."""
    one, two = favourites(model)
    for name, settings in greedy_cases(one):
        for i, prompt in enumerate(PROMPTS):
            yield f"greedy-{name}-{i}", prompt, {"do_sample": False, "max_new_tokens": NEW_TOKENS} | settings
    for name, settings in stopping_cases([one], [one, two]):
        yield f"beams-2-{name}", PROMPTS[2], beams(2, **settings)
        yield f"beams-5-{name}", PROMPTS[3], beams(5, **settings)
    yield "beams-plain", PROMPTS[2], beams(5)
    yield "beams-repetition-penalty", PROMPTS[0], beams(4, repetition_penalty=1.4, eos_token_id=[one])
    yield "beams-min-length", PROMPTS[1], beams(3, min_new_tokens=6, eos_token_id=[one, two])
    yield "beams-bad-words", PROMPTS[2], beams(3, bad_words_ids=[[two], [one, 4]], suppress_tokens=[0, 1])
    yield "beams-one-returned", PROMPTS[3], beams(6, num_return_sequences=1, eos_token_id=[one])
    # Twice as many are asked for as one token can give: 37 are all there are.
    yield "beams-as-many-as-tokens", PROMPTS[1], beams(37, num_return_sequences=9, eos_token_id=[one])


def greedy_cases(eos):
    return {
        "plain": {},
        "eos": {"eos_token_id": [eos]},
        "repetition-penalty": {"repetition_penalty": 1.3},
        "repetition-penalty-eos": {"repetition_penalty": 1.8, "eos_token_id": [eos]},
        "repetition-bonus": {"repetition_penalty": 0.7},
        "min-length": {"min_new_tokens": 7, "eos_token_id": [eos]},
        "suppress": {"suppress_tokens": [eos, 3]},
    }.items()


def stopping_cases(*stop_tokens):
    """All that says when a beam search ends, in every combination."""
    for eos in stop_tokens:
        for penalty in (-1.0, 0.0, 0.7, 1.0, 2.0):
            for early in (False, True, "never"):
                name = f"penalty-{penalty}-early-{early}-eos-{len(eos)}".lower()
                yield name, {"length_penalty": penalty, "early_stopping": early, "eos_token_id": eos}


def beams(num_beams, **settings):
    config = {"do_sample": False, "max_new_tokens": NEW_TOKENS, "num_beams": num_beams}
    return config | {"num_return_sequences": num_beams} | settings


def favourites(model):
    """The two tokens that beams without a stop token write most."""
    texts = [text for prompt in PROMPTS for text in generate(model, prompt, beams(5))[0]]
    tokens = torch.tensor([token for text in texts for token in text])
    return tokens.bincount().argsort(descending=True, stable=True)[:2].tolist()


@torch.no_grad()
def generate(model, prompt, config):
    """What `generate` writes behind the prompt, without what it fills up with, and the scores of its beams."""
    pad = {"pad_token_id": 0} if config.get("eos_token_id") else {}
    output = model.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
        generation_config=GenerationConfig(
            **config, **pad, return_dict_in_generate=True, output_scores=True, use_cache=True
        ),
    )
    texts = [cut(text, config.get("eos_token_id", [])) for text in output.sequences[:, len(prompt) :].tolist()]
    return texts, getattr(output, "sequences_scores", None)


def cut(text, eos):
    ends = [i for i, token in enumerate(text) if token in eos]
    return text[: ends[0] + 1] if ends else text


def check_variety(cases):
    """The settings matter: each leads to other texts somewhere."""
    lengths = {len(text) for case in cases for text in case["texts"]}
    assert len(lengths) > 5, f"texts have lengths {lengths} only"
    for beams in ("beams-2-", "beams-5-"):
        for setting in ("length_penalty", "early_stopping", "eos_token_id"):
            by_value = {}
            for case in cases:
                if case["name"].startswith(beams):
                    by_value.setdefault(json.dumps(case["config"][setting]), []).append(case["texts"])
            different = {json.dumps(texts) for texts in by_value.values()}
            assert len(different) >= min(len(by_value), 3), f"{setting} changes too little of {beams}"


if __name__ == "__main__":
    raise SystemExit("run oracle/fixtures.py")
