"""GGUF files both ways. llama.cpp opens those that MiniGPT writes: equal ids, close logits, and for f32 the same greedy
text. MiniGPT runs those that llama.cpp quantised: with --exact the logits that follow from their numbers, without it those of
llama.cpp, which rounds what goes into a product as well."""

import json
import subprocess
import tempfile
from pathlib import Path

import torch
from llama_cpp import Llama

import gguf_files
import tensors
from gguf_fixtures import WIDE
from model_fixtures import draw_weights
from reference import Decoder
from program import binary, inspect, run
from report import Report, agree

TEXT = "the cat sat on the mat. a dog ran by the sea. 猫坐在垫子上，狗在海边跑。\n"
PROMPT = "the cat sat 猫坐"
# How far a logit may be off, as a part of the largest. llama.cpp's GELU is a table of 16-bit numbers.
TYPES = {
    "f32": 5e-3, "f16": 5e-3, "q8_0": 5e-2, "q6_k": 5e-2, "q5_k_m": 5e-2, "q5_k_s": 5e-2, "q4_k_m": 5e-2, "q4_k_s": 5e-2,
    "q3_k_m": 5e-2,
}
# What fewer bits may cost in this small and very certain model, whoever runs it.
COSTS = {
    "f32": 0.0, "f16": 1e-2, "q8_0": 2e-1, "q6_k": 2e-1, "q5_k_m": 2e-1, "q5_k_s": 2e-1, "q4_k_m": 2e-1, "q4_k_s": 2e-1,
    "q3_k_m": 4e-1,
}
# The types that llama.cpp's own tool makes of the same model. Until 2026 it had another rule for joint attention weights.
MIXTURES = ["Q8_0", "Q6_K", "Q5_K_M", "Q5_K_S", "Q4_K_M", "Q4_K_S", "Q3_K_M"]
OLDER_QKV = {"Q5_K_M": "Q6_K", "Q4_K_M": "Q5_K", "Q4_K_S": "Q4_K", "Q3_K_M": "Q4_K"}
# The same for its own files. Both round activations to 8 bits, but we don't for Q8_0; llama.cpp's 16-bit keys, values and GELU
# put some of them on the other side of a step.
QUANTISED = {
    "F16": 1e-2,
    "Q8_0": 5e-2,
    "Q6_K": 3e-2,
    "Q5_K_M": 3e-2,
    "Q5_0": 3e-2,
    "Q5_1": 3e-2,
    "Q4_K_M": 3e-2,
    "Q4_0": 3e-2,
    "Q4_1": 3e-2,
    "Q3_K_M": 3e-2,
    "Q2_K": 3e-2,
}
CONFIG = """
[model]
n_layer = 2
n_head = 2
n_embd = 64
block_size = 64
dropout = 0.0
[data]
path = "{text}"
tokenizer = "bpe:320"
[train]
max_iters = 200
batch_size = 8
optimizer = "muon"
learning_rate = 3e-3
eval_interval = 0
"""


def main():
    minigpt, report = binary(), Report()
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        (scratch / "text.txt").write_text(TEXT * 200)
        (scratch / "config.toml").write_text(CONFIG.format(text=scratch / "text.txt"))
        run(minigpt, "train", "--config", scratch / "config.toml", "--out", scratch / "run", "--quiet")
        for dtype, tolerance in TYPES.items():
            with report.check(f"llama.cpp opens GGUF, {dtype}"):
                check(minigpt, scratch / "run" / "last", scratch / f"{dtype}.gguf", dtype, tolerance)
        model = Decoder(WIDE)
        draw_weights(model, tensors.Draw(5))
        gguf_files.write(scratch / "whole.gguf", model, WIDE)
        for file_type in MIXTURES:
            with report.check(f"tensors of {file_type} as llama.cpp chooses them"):
                check_mixture(minigpt, scratch, file_type)
        for file_type, tolerance in QUANTISED.items():
            with report.check(f"MiniGPT runs llama.cpp's {file_type}"):
                check_quantised(minigpt, scratch, file_type, tolerance)
    report.close()


def check_mixture(minigpt, scratch, file_type):
    ours, theirs = scratch / f"ours-{file_type}.gguf", scratch / f"theirs-{file_type}.gguf"
    run(minigpt, "export", scratch / "whole.gguf", "--to", "gguf", "--out", ours, "--dtype", file_type, "--json")
    gguf_files.quantise(scratch / "whole.gguf", theirs, file_type)
    (our_types, our_number), (their_types, their_number) = map(gguf_files.types, (ours, theirs))
    assert our_number == their_number, f"general.file_type is {our_number}, not {their_number}"
    for name, theirs in their_types.items():
        if "attn_qkv.weight" in name and theirs == OLDER_QKV.get(file_type):
            continue
        assert our_types[name] == theirs, f"{name}: {our_types[name]}, not {theirs}"


def check_quantised(minigpt, scratch, file_type, tolerance):
    path, folder = scratch / f"{file_type}.gguf", scratch / f"imported-{file_type}"
    gguf_files.quantise(scratch / "whole.gguf", path, file_type)
    run(minigpt, "import", path, "--out", folder, "--json")
    llama = Llama(str(path), n_ctx=WIDE["n_positions"], logits_all=True, verbose=False)
    ids = llama.tokenize(b"the then he t", add_bos=False, special=False)
    assert ids == encode(minigpt, folder, "the then he t"), "other ids"
    llama.eval(ids)
    theirs = torch.tensor(llama.scores[: len(ids)]).double()
    model, _ = gguf_files.read(path, WIDE)
    with torch.no_grad():
        exact = model(torch.tensor([ids]))[0]
    for place in (path, folder):
        ours = torch.tensor(inspect(minigpt, place, ids, "--full", "--exact")["logits"]).double()
        agree("logits from the file's numbers", ours, exact, 1e-5)
        ours = torch.tensor(inspect(minigpt, place, ids, "--full")["logits"]).double()
        agree("llama.cpp's logits", ours, theirs, tolerance)


def check(minigpt, model, path, dtype, tolerance):
    run(minigpt, "export", "--model", model, "--to", "gguf", "--out", path, "--dtype", dtype, "--json")
    llama = Llama(str(path), n_ctx=64, logits_all=True, verbose=False)
    ids = llama.tokenize(PROMPT.encode(), add_bos=False, special=False)
    ours = encode(minigpt, model, PROMPT)
    assert ids == ours, f"llama.cpp has the ids {ids}, we {ours}"
    llama.eval(ids)
    theirs = torch.tensor(llama.scores[: len(ids)]).double()
    ours = torch.tensor(inspect(minigpt, path, ids, "--full")["logits"]).double()
    agree("logits of the file", theirs, ours, tolerance)
    before = torch.tensor(inspect(minigpt, model, ids, "--full")["logits"]).double()
    agree("logits of the model that it was made from", theirs, before, max(tolerance, COSTS[dtype]))
    if dtype == "f32":
        answer = json.loads(run(minigpt, "generate", "--model", model, "--prompt", PROMPT, "--temperature", "0",
                                "--max-new-tokens", "40", "--json"))
        written = llama.create_completion(PROMPT, max_tokens=40, temperature=0.0, top_k=1, repeat_penalty=1.0)
        text, want = written["choices"][0]["text"], answer["completions"][0]["text"]
        assert text == want, f"llama.cpp wrote {text!r}, we {want!r}"


def encode(minigpt, model, text):
    command = [str(minigpt), "tokenizer", "encode", "--model", str(model), "--json"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["ids"]


if __name__ == "__main__":
    main()
