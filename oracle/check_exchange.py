"""Other tools open what MiniGPT exports: transformers in every type, and PyTorch with nanoGPT's names."""

import tempfile
from pathlib import Path

import torch
import transformers

import folder
from judges import answer, full_context
from program import binary, run
from report import Report, agree

FIXTURES = Path(__file__).resolve().parent.parent / "minigpt-model/tests/fixtures"
# How far a logit may be off, as a part of the largest: rounding to 16 bits shows.
TYPES = {"f32": 1e-5, "f16": 1e-2, "bf16": 1e-1}


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
    report.close()


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
