"""Model folders that MiniGPT writes: transformers opens them and finds our logits; weights start as they should."""

import math
import tempfile
from pathlib import Path

from safetensors.torch import load_file

import folder
from judges import full_context, judges
from program import binary, compare_inspect, run
from report import Report

# The presets, made small, and the model_type that each must be written with.
PRESETS = {"gpt2": "gpt2", "shakespeare-char": "gpt2", "qa": "gpt2", "textbook": "minigpt"}
SMALL = {"n_layer": 3, "n_head": 4, "n_embd": 96, "block_size": 32, "vocab_size": 211}
INITIAL_STD = 0.02


def main():
    minigpt = binary()
    new_model = minigpt.parent / "examples" / "new_model"
    report = Report()
    for preset, model_type in PRESETS.items():
        with tempfile.TemporaryDirectory() as scratch:
            check_preset(report, minigpt, new_model, preset, model_type, Path(scratch))
    report.close()


def check_preset(report, minigpt, new_model, preset, model_type, scratch):
    path = scratch / "model"
    with report.check(f"new {preset} is written as {model_type}"):
        write(new_model, preset, 1, path)
        written = folder.read_config(path)["model_type"]
        assert written == model_type, f"config.json says {written}"
    with report.check(f"new {preset} opens, with the judges' numbers"):
        compare_inspect(minigpt, path, full_context(path), judges(path))
    with report.check(f"new {preset} starts from GPT-2's distribution"):
        check_weights(load_file(path / "model.safetensors"), SMALL["n_layer"])
    with report.check(f"new {preset} is its seed's"):
        check_seed(new_model, preset, path, scratch)


def write(new_model, preset, seed, path):
    settings = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
    run(new_model, "--preset", preset, "--out", path, "--seed", seed, *settings)


def check_weights(weights, n_layer):
    for name, tensor in weights.items():
        if name.endswith(".bias"):
            assert not tensor.any(), f"{name} is not zero"
        elif tensor.ndim == 1:
            assert (tensor == 1).all(), f"{name} is not one"
        else:
            residual = name.endswith("c_proj.weight")
            check_normal(name, tensor.double(), INITIAL_STD / math.sqrt(2 * n_layer) if residual else INITIAL_STD)
    starts = [tuple((t / t.std()).flatten()[:4].tolist()) for t in weights.values() if t.ndim == 2]
    assert len(set(starts)) == len(starts), "two matrices begin with the same draws"


def check_normal(name, x, std):
    """Mean, deviation and kurtosis, each within five of its own standard errors."""
    n = x.numel()
    mean, deviation = x.mean().item(), x.std().item()
    kurtosis = ((x - mean) / deviation).pow(4).mean().item()
    assert abs(mean) < 5 * std / math.sqrt(n), f"{name} has mean {mean:.2e}"
    assert abs(deviation / std - 1) < 5 / math.sqrt(2 * n), f"{name} has deviation {deviation:.5f}, not {std:.5f}"
    assert abs(kurtosis - 3) < 5 * math.sqrt(24 / n), f"{name} has kurtosis {kurtosis:.2f}: not a normal's 3"


def check_seed(new_model, preset, path, scratch):
    again, other = scratch / "again", scratch / "other"
    write(new_model, preset, 1, again)
    write(new_model, preset, 2, other)
    first, second, third = ((p / "model.safetensors").read_bytes() for p in (path, again, other))
    assert first == second, "the same seed gave another model"
    assert first != third, "another seed gave the same model"


if __name__ == "__main__":
    main()
