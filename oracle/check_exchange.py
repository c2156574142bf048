"""Other tools open what MiniGPT exports (transformers in every type, PyTorch with nanoGPT's names), and MiniGPT imports
what transformers saves, in every way that it saves it: equal ids, equal logits, equal greedy text."""

import json
import tempfile
from pathlib import Path

import torch
import transformers

import folder
import gguf_files
from cases import GPT2
from judges import answer, full_context
from program import binary, inspect, run
from report import Report, agree

FIXTURES = Path(__file__).resolve().parent.parent / "minigpt-model/tests/fixtures"
# How far a logit may be off, as a part of the largest: rounding to 16 bits shows.
TYPES = {"f32": 1e-5, "f16": 1e-2, "bf16": 1e-1}
# How transformers may have saved a model: the type of its numbers, the most bytes in a file, and whether the head is tied.
SAVED = {
    "whole": (torch.float32, "1GB", True),
    "untied shards": (torch.float32, "30KB", False),
    "f16": (torch.float16, "1GB", True),
    "bf16 shards": (torch.bfloat16, "20KB", True),
}
PROMPT = "the then he t"


def main():
    minigpt, report = binary(), Report()
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        for dtype, tolerance in TYPES.items():
            with report.check(f"export to transformers, {dtype}"):
                check_folder(minigpt, scratch / dtype, dtype, tolerance)
        for case in ("nanogpt-bias", "nanogpt-no-bias"):
            with report.check(f"export to nanoGPT, {case}"):
                check_checkpoint(minigpt, FIXTURES / case, scratch / f"{case}.pt")
        for name, how in SAVED.items():
            with report.check(f"import from transformers, {name}"):
                check_import(minigpt, scratch / name, *how)
    report.close()


def check_import(minigpt, path, dtype, most, tied):
    """There and back: transformers saves, MiniGPT imports and exports, transformers opens that."""
    theirs, ours, back = path / "theirs", path / "ours", path / "back"
    torch.manual_seed(1)
    end = len(gguf_files.TOKENS) - 1
    config = GPT2 | {"vocab_size": end + 1, "tie_word_embeddings": tied, "n_positions": 32}
    config |= {"bos_token_id": end, "eos_token_id": end, "initializer_range": 0.2, "task_specific_params": {"kept": 1}}
    model = folder.stock_model(config).to(dtype).eval()
    model.save_pretrained(theirs, max_shard_size=most)
    vocabulary = {token: i for i, token in enumerate(gguf_files.TOKENS)}
    (theirs / "vocab.json").write_text(json.dumps(vocabulary))
    (theirs / "merges.txt").write_text("\n".join(["#version: 0.2", *gguf_files.MERGES]) + "\n")
    run(minigpt, "import", theirs, "--out", ours, "--json")
    run(minigpt, "export", "--model", ours, "--to", "hf", "--out", back, "--max-shard-size", "1", "--json")
    assert json.loads((back / "config.json").read_text())["task_specific_params"] == {"kept": 1}
    tokenizer = transformers.AutoTokenizer.from_pretrained(back)
    again = transformers.AutoModelForCausalLM.from_pretrained(back).eval()
    ids = tokenizer(PROMPT)["input_ids"]
    with torch.no_grad():
        exact = model.double()(torch.tensor([ids])).logits[0]
        agree("logits back in transformers", again.double()(torch.tensor([ids])).logits[0], exact, 1e-5)
    agree("logits", torch.tensor(inspect(minigpt, ours, ids, "--full")["logits"]).double(), exact, 1e-5)
    options = ["--prompt", PROMPT, "--temperature", "0", "--max-new-tokens", "12", "--json"]
    written = json.loads(run(minigpt, "generate", "--model", ours, *options))
    assert written["prompt_ids"] == ids, f"{written['prompt_ids']} are not {ids}"
    greedy = again.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=12, pad_token_id=end)[0, len(ids):]
    text = tokenizer.decode(greedy, skip_special_tokens=True)
    assert written["completions"][0]["text"] == text, f"{written['completions'][0]['text']!r} is not {text!r}"


def check_folder(minigpt, path, dtype, tolerance):
    source = FIXTURES / "gpt2-transformers"
    run(minigpt, "export", "--model", source, "--to", "hf", "--out", path, "--dtype", dtype, "--json")
    model = transformers.AutoModelForCausalLM.from_pretrained(path)
    assert str(model.dtype).endswith({"f32": "float32", "f16": "float16", "bf16": "bfloat16"}[dtype]), model.dtype
    ids = full_context(source)
    theirs = answer(folder.open_reference(source), ids)
    with torch.no_grad():
        ours = model.float()(torch.tensor([ids])).logits[0]
    agree("logits", ours.double(), theirs.logits, tolerance)


def check_checkpoint(minigpt, source, path):
    """As nanoGPT's sample.py opens it: the safe reader, every name, every shape."""
    run(minigpt, "export", "--model", source, "--to", "nanogpt", "--out", path, "--json")
    saved = torch.load(path, weights_only=True)
    config = folder.read_config(source)
    arguments = saved["model_args"]
    assert arguments["block_size"] == config["n_positions"] and arguments["n_embd"] == config["n_embd"], arguments
    assert arguments["bias"] is (source.name == "nanogpt-bias"), arguments
    model = Nano(arguments)
    model.load_state_dict(saved["model"])
    ids = full_context(source)
    with torch.no_grad():
        ours = model(torch.tensor([ids]))[0]
    agree("logits", ours.double(), answer(folder.open_reference(source), ids).logits, 1e-5)


class Nano(torch.nn.Module):
    """The shapes and names of nanoGPT's model.py, so that a state dict of it fits or does not."""

    def __init__(self, arguments):
        super().__init__()
        nn, width, bias = torch.nn, arguments["n_embd"], arguments["bias"]
        self.heads = arguments["n_head"]

        def block():
            return nn.ModuleDict({
                "ln_1": nn.LayerNorm(width, bias=bias),
                "attn": nn.ModuleDict({"c_attn": nn.Linear(width, 3 * width, bias), "c_proj": nn.Linear(width, width, bias)}),
                "ln_2": nn.LayerNorm(width, bias=bias),
                "mlp": nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width, bias), "c_proj": nn.Linear(4 * width, width, bias)}),
            })

        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(arguments["vocab_size"], width),
            "wpe": nn.Embedding(arguments["block_size"], width),
            "h": nn.ModuleList(block() for _ in range(arguments["n_layer"])),
            "ln_f": nn.LayerNorm(width, bias=bias),
        })
        self.lm_head = nn.Linear(width, arguments["vocab_size"], bias=False)
        self.transformer["wte"].weight = self.lm_head.weight

    def forward(self, ids):
        parts = self.transformer
        x = parts["wte"](ids) + parts["wpe"](torch.arange(ids.shape[1]))
        for block in parts["h"]:
            b, t, c = x.shape
            qkv = block["attn"]["c_attn"](block["ln_1"](x)).split(c, dim=2)
            q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2) for part in qkv)
            y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + block["attn"]["c_proj"](y.transpose(1, 2).reshape(b, t, c))
            x = x + block["mlp"]["c_proj"](torch.nn.functional.gelu(block["mlp"]["c_fc"](block["ln_2"](x))))
        return self.lm_head(parts["ln_f"](x))


if __name__ == "__main__":
    main()
