"""llama.cpp opens the GGUF files that MiniGPT writes: equal ids, close logits, and for f32 the same greedy text."""

import json
import subprocess
import tempfile
from pathlib import Path

import torch
from llama_cpp import Llama

from program import binary, inspect, run
from report import Report, agree

TEXT = "the cat sat on the mat. a dog ran by the sea. 猫坐在垫子上，狗在海边跑。\n"
PROMPT = "the cat sat 猫坐"
# How far a logit may be off, as a part of the largest. llama.cpp's GELU is a table of 16-bit numbers.
TYPES = {"f32": 5e-3, "f16": 5e-3, "q8_0": 5e-2, "q4_k": 2e-1}
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
    report.close()


def check(minigpt, model, path, dtype, tolerance):
    run(minigpt, "export", "--model", model, "--to", "gguf", "--out", path, "--dtype", dtype, "--json")
    llama = Llama(str(path), n_ctx=64, logits_all=True, verbose=False)
    ids = llama.tokenize(PROMPT.encode(), add_bos=False, special=False)
    ours = encode(minigpt, model, PROMPT)
    assert ids == ours, f"llama.cpp has the ids {ids}, we {ours}"
    llama.eval(ids)
    theirs = torch.tensor(llama.scores[: len(ids)]).double()
    agree("logits", theirs, torch.tensor(inspect(minigpt, model, ids, "--full")["logits"]).double(), tolerance)
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
