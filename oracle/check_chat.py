"""Models that answer, in other hands. transformers' apply_chat_template makes the ids that MiniGPT makes, and generation ends
where an answer ends; llama.cpp chats with the GGUF file and says, greedily, what `minigpt chat` says."""

import json
import subprocess
import tempfile
from pathlib import Path

from llama_cpp import Llama
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from program import binary, run
from report import Report

CONFIG = """
[model]
n_layer = 2
n_head = 2
n_embd = 64
block_size = 128
dropout = 0.0
[data]
path = "{data}"
tokenizer = "{tokenizer}"
val_fraction = 0.0
[train]
max_iters = 250
batch_size = 16
optimizer = "muon"
learning_rate = 3e-3
eval_interval = 0
"""
ANIMALS = [("cat", "meow"), ("dog", "bark"), ("cow", "moo"), ("鸭子", "嘎嘎"), ("羊", "咩")]
QUESTION = "What does the {} say?"


def single(animal, sound):
    return [QUESTION.format(animal), f"The {animal} says {sound}."]


def conversation(animal, sound):
    return single(animal, sound) + ["How loud?", f"The {animal} is loud."]


def main():
    minigpt, report = binary(), Report()
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        for kind, turns in (("single questions", single), ("conversations", conversation)):
            for tokenizer in ("bpe:320", "char"):
                place = scratch / f"{turns.__name__}-{tokenizer.split(':')[0]}"
                with report.check(f"a model of {kind} is trained, {tokenizer}"):
                    train(minigpt, place, turns, tokenizer)
                with report.check(f"transformers chats, {kind}, {tokenizer}"):
                    check_transformers(minigpt, place, turns)
                # llama.cpp has no vocabulary of characters.
                if tokenizer != "char":
                    with report.check(f"llama.cpp chats, {kind}"):
                        check_llama(minigpt, place, turns)
    report.close()


def train(minigpt, place, turns, tokenizer):
    place.mkdir()
    data = place / "talk.jsonl"
    with data.open("w") as lines:
        for _ in range(40):
            for animal, sound in ANIMALS:
                lines.write(json.dumps({"messages": messages(turns(animal, sound))}) + "\n")
    (place / "run.toml").write_text(CONFIG.format(data=data, tokenizer=tokenizer))
    run(minigpt, "train", "--config", place / "run.toml", "--out", place / "run", "--quiet")


def messages(turns):
    roles = ("user", "assistant")
    return [{"role": roles[i % 2], "content": text} for i, text in enumerate(turns)]


def talks(turns):
    """All that can have been said when an answer is due."""
    for animal, sound in ANIMALS:
        said = turns(animal, sound)
        for end in range(1, len(said), 2):
            yield messages(said[:end])


def check_transformers(minigpt, place, turns):
    folder = place / "hf"
    run(minigpt, "export", "--model", place / "run", "--to", "hf", "--out", folder, "--json")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    end = tokenizer.convert_tokens_to_ids("<sep>")
    assert tokenizer.eos_token == "<sep>", f"the end token is {tokenizer.eos_token!r}"
    assert model.config.eos_token_id == end, f"config.json has {model.config.eos_token_id}, not {end}"
    generation = GenerationConfig.from_pretrained(folder)
    assert generation.eos_token_id == end, f"generation_config.json has {generation.eos_token_id}, not {end}"
    for talk in talks(turns):
        ids = tokenizer.apply_chat_template(talk, add_generation_prompt=True, return_dict=False)
        ours = prompt_ids(minigpt, place, talk)
        assert ids == ours, f"{talk}: transformers has the ids {ids}, we {ours}"
        prompt = tokenizer.apply_chat_template(talk, add_generation_prompt=True, return_tensors="pt", return_dict=True)
        written = model.generate(**prompt, max_new_tokens=40, do_sample=False)[0][len(ids):].tolist()
        assert written[-1] == end, f"{talk}: no end in {tokenizer.decode(written)!r}"
        text, want = tokenizer.decode(written[:-1]), chat(minigpt, place, talk)
        assert text == want, f"{talk}: transformers says {text!r}, we {want!r}"


def check_llama(minigpt, place, turns):
    path = place / "model.gguf"
    run(minigpt, "export", "--model", place / "run", "--to", "gguf", "--out", path, "--json")
    llama = Llama(str(path), n_ctx=128, verbose=False)
    for talk in talks(turns):
        done = llama.create_chat_completion(talk, temperature=0.0, top_k=1, repeat_penalty=1.0, max_tokens=40)
        choice = done["choices"][0]
        assert choice["finish_reason"] == "stop", f"{talk}: it goes on: {choice['message']['content']!r}"
        text, want = choice["message"]["content"], chat(minigpt, place, talk)
        assert text == want, f"{talk}: llama.cpp says {text!r}, we {want!r}"


def prompt_ids(minigpt, place, talk):
    """The ids that MiniGPT makes of what was said: only models of conversations are told what was said before."""
    if "conversation" in place.name:
        text = "".join(f"{message['content']}<sep>" for message in talk)
    else:
        text = talk[-1]["content"]
    answer = run(minigpt, "generate", "--model", place / "run", "--prompt", text, "--json", "--max-new-tokens", "1")
    return json.loads(answer)["prompt_ids"]


def chat(minigpt, place, talk):
    """What MiniGPT says last if it said before what it was to say."""
    kept = place / "kept.jsonl"
    kept.write_text(json.dumps({"messages": talk[:-1]}) + "\n")
    lines = ([f"/load {kept}"] if talk[:-1] else []) + [talk[-1]["content"]]
    command = [str(minigpt), "chat", "--model", str(place / "run"), "--temperature", "0"]
    done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    return done.stdout.removesuffix("\n")


if __name__ == "__main__":
    main()
