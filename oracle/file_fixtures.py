"""Models in the files that other tools write: nanoGPT's checkpoint and vocabulary, torch.save's state dict, shards.

They are the models of two parity cases, whose logits are known already.
"""

import json
import pickle
import shutil

import torch
from safetensors.torch import load_file
from transformers import GPT2LMHeadModel

NANOGPT = "nanogpt-no-bias"
TRANSFORMERS = "gpt2-transformers"
# nanoGPT keeps these (out, in); GPT-2's files have them (in, out).
TURNED = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")


def write_all(folder, models):
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint(folder, models / NANOGPT)
    model = GPT2LMHeadModel.from_pretrained(models / TRANSFORMERS)
    (folder / "bin").mkdir(exist_ok=True)
    shutil.copy(models / TRANSFORMERS / "config.json", folder / "bin")
    torch.save(old_state(model), folder / "bin" / "pytorch_model.bin")
    model.save_pretrained(folder / "shards", max_shard_size="20KB")


def checkpoint(folder, model):
    """As nanoGPT's train.py saves it from a compiled model."""
    config = json.loads((model / "config.json").read_text())
    state = {}
    for name, tensor in load_file(model / "model.safetensors").items():
        if name.endswith(".bias") or name == "lm_head.weight":
            continue
        tensor = tensor.t().contiguous() if name.endswith(TURNED) else tensor
        state[f"_orig_mod.transformer.{name}"] = tensor
    state["_orig_mod.lm_head.weight"] = state["_orig_mod.transformer.wte.weight"]
    names = {"n_layer": "n_layer", "n_head": "n_head", "n_embd": "n_embd", "block_size": "n_positions", "vocab_size": "vocab_size"}
    arguments = {ours: config[theirs] for ours, theirs in names.items()} | {"bias": False, "dropout": 0.0}
    moments = {"step": torch.tensor(7.0), "exp_avg": torch.zeros(3)}
    saved = {
        "model": state,
        "optimizer": {"state": {0: moments}, "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.99), "params": [0]}]},
        "model_args": arguments,
        "iter_num": 250,
        "best_val_loss": torch.tensor(1.5),
        "config": {"out_dir": "out", "dataset": "shakespeare_char", "compile": True, "always": None},
    }
    torch.save(saved, folder / "ckpt.pt")
    characters = sorted("\n !abcdefghijklmnopqrstuvwxyz你好世界ABCD")[: config["vocab_size"]]
    meta = {
        "vocab_size": len(characters),
        "itos": dict(enumerate(characters)),
        "stoi": {character: i for i, character in enumerate(characters)},
    }
    (folder / "meta.pkl").write_bytes(pickle.dumps(meta))


def old_state(model):
    """With the buffers that old releases saved, and the tied head twice."""
    state = dict(model.state_dict())
    for layer in range(model.config.n_layer):
        mask = torch.ones(model.config.n_positions, model.config.n_positions, dtype=torch.uint8)
        state[f"transformer.h.{layer}.attn.bias"] = torch.tril(mask)[None, None]
        state[f"transformer.h.{layer}.attn.masked_bias"] = torch.tensor(-10000.0)
    return state
