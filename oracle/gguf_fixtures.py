"""Quantised models as llama.cpp makes them, and the logits that follow from their numbers."""

import tempfile
from pathlib import Path

import torch

import gguf_files
import tensors
from cases import GPT2
from model_fixtures import draw_weights
from reference import Decoder

SMALL = GPT2 | {"vocab_size": len(gguf_files.TOKENS), "n_embd": 32, "n_head": 2}
# Blocks of 256 need rows of 256.
WIDE = SMALL | {"n_embd": 256, "n_layer": 1, "n_inner": 256}
FILES = {"q8_0.gguf": ("Q8_0", SMALL), "q4_k_m.gguf": ("Q4_K_M", WIDE), "f16.gguf": ("F16", SMALL)}


def write_all(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, (file_type, config)) in enumerate(FILES.items()):
        make(folder / name, file_type, config, seed)
        draw = tensors.Draw(seed)
        ids = draw.below(config["vocab_size"], (2, 9))
        model, types = gguf_files.read(folder / name, config)
        with torch.no_grad():
            expected = {"ids": ids, "logits": model(ids).float()}
        metadata = tensors.VERSIONS | {"file_type": file_type, "types": " ".join(sorted(types))}
        tensors.save(expected, folder / f"{name}.safetensors", metadata)


def make(path, file_type, config, seed):
    model = Decoder(config)
    draw_weights(model, tensors.Draw(seed))
    with tempfile.TemporaryDirectory() as scratch:
        whole = Path(scratch) / "f32.gguf"
        gguf_files.write(whole, model, config)
        gguf_files.quantise(whole, path, file_type)
