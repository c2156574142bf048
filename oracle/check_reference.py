"""The judge judged: reference.py against what others have written of the same layers.

Model folders of type gpt2 against transformers; rotary positions against its Llama; the post-norm block against
torch.nn.TransformerEncoderLayer; sinusoids against their formula.
"""

import math

import torch
from torch import nn
from transformers.models.llama import modeling_llama

import folder
import reference
from cases import CASES
from fixtures import COMMITTED
from judges import answer, full_context, judges
from report import Report, agree

TOLERANCE = 1e-12


def main():
    torch.manual_seed(0)
    report = Report()
    for case in CASES:
        if case.config["model_type"] == "gpt2":
            with report.check(f"reference = transformers: {case.name}"):
                same_as_transformers(COMMITTED / case.name)
    with report.check("transformers means the same loss"):
        same_loss(COMMITTED / "gpt2-transformers")
    with report.check("rotary positions = Llama's"):
        same_rotation()
    with report.check("post-norm block = TransformerEncoderLayer"):
        same_post_norm(COMMITTED / "textbook-learned")
    with report.check("sinusoids = their formula"):
        same_sinusoids()
    report.close()


def same_as_transformers(path):
    ids = full_context(path)
    models = judges(path)
    ours = answer(models.pop("reference"), ids)
    for name, model in models.items():
        theirs = answer(model, ids)
        for field in ("logits", "loss", "attention"):
            agree(f"{field} of {name}", getattr(ours, field), getattr(theirs, field), TOLERANCE)


def same_loss(path):
    """Ignored targets too. Theirs is taken in float32 whatever the model's type."""
    model = folder.open_transformers(path)
    ids = torch.tensor([full_context(path)])
    labels = ids.clone()
    labels[0, [2, 5, -1]] = reference.IGNORED
    with torch.no_grad():
        theirs = model(ids, labels=labels)
    ours = reference.cross_entropy(theirs.logits[:, :-1], labels[:, 1:])
    agree("loss", ours, theirs.loss.double(), 1e-6)


def same_rotation():
    config = modeling_llama.LlamaConfig(hidden_size=30, num_attention_heads=3)
    q, k = torch.randn(2, 2, 3, 11, 10, dtype=torch.float64)
    cos, sin = modeling_llama.LlamaRotaryEmbedding(config)(q, torch.arange(11)[None])
    theirs = modeling_llama.apply_rotary_pos_emb(q, k, cos, sin)
    for ours, their in zip((reference.rotate(q), reference.rotate(k)), theirs):
        agree("rotated", ours, their, 1e-6)  # its angles are float32


def same_post_norm(path):
    config = folder.read_config(path)
    block = folder.open_reference(path).h[0]
    layer = nn.TransformerEncoderLayer(
        config["n_embd"], config["n_head"], config["n_inner"], dropout=0.0, activation="relu", batch_first=True
    ).double()
    pairs = [
        (layer.self_attn.in_proj_weight, block.attn.c_attn.weight.T),
        (layer.self_attn.in_proj_bias, block.attn.c_attn.bias),
        (layer.self_attn.out_proj.weight, block.attn.c_proj.weight.T),
        (layer.self_attn.out_proj.bias, block.attn.c_proj.bias),
        (layer.linear1.weight, block.mlp.c_fc.weight.T),
        (layer.linear1.bias, block.mlp.c_fc.bias),
        (layer.linear2.weight, block.mlp.c_proj.weight.T),
        (layer.linear2.bias, block.mlp.c_proj.bias),
        (layer.norm1.weight, block.ln_1.weight),
        (layer.norm1.bias, block.ln_1.bias),
        (layer.norm2.weight, block.ln_2.weight),
        (layer.norm2.bias, block.ln_2.bias),
    ]
    with torch.no_grad():
        for theirs, ours in pairs:
            theirs.copy_(ours)
        x = torch.randn(2, 7, config["n_embd"], dtype=torch.float64)
        future = torch.ones(7, 7, dtype=torch.bool).triu(diagonal=1)
        agree("block", block(x, None), layer(x, src_mask=future), TOLERANCE)


def same_sinusoids():
    width = 22
    ours = reference.sinusoids(16, width, torch.float64)
    for p in range(16):
        for i in range(width // 2):
            angle = p / 10_000 ** (2 * i / width)
            pair = torch.tensor([math.sin(angle), math.cos(angle)], dtype=torch.float64)
            agree(f"position {p}, pair {i}", ours[p, 2 * i : 2 * i + 2], pair, TOLERANCE)


if __name__ == "__main__":
    main()
