"""Models that people wrote in PyTorch and saved in every usual way: MiniGPT imports them and computes their logits."""

import json
import tempfile
from pathlib import Path

import torch

import tensors
from own_models import Qa, Textbook, draw_weights
from program import binary, inspect, run
from report import Report, agree

TOLERANCE = 1e-4
SMALL = {"vocab": 211, "layers": 3}
MODELS = {
    "question answering": (lambda: Qa(width=96, heads=8, context=32, **SMALL), 32),
    "question answering, 4 heads": (lambda: Qa(width=96, heads=4, context=32, **SMALL), 32),
    "textbook, learned": (lambda: Textbook(width=96, inner=200, **SMALL), 100),
    "textbook, sinusoidal": (lambda: Textbook(width=96, inner=384, sinusoidal=True, **SMALL), 100),
}
# How a script may have saved it.
SAVED = {
    "plain": lambda state: state,
    "model_state_dict": lambda state: {"epoch": 1, "model_state_dict": state, "loss": torch.tensor(1.0)},
    "state_dict": lambda state: {"state_dict": state},
    "model": lambda state: {"model": {f"module.{name}": tensor for name, tensor in state.items()}},
}


def main():
    minigpt, report = binary(), Report()
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        for name, (build, context) in MODELS.items():
            for how, wrap in SAVED.items():
                with report.check(f"import {name}, saved as {how}"):
                    check(minigpt, scratch / f"{name}-{how}", build(), context, wrap, "4 heads" in name)
    report.close()


def check(minigpt, path, model, context, wrap, four):
    path.mkdir()
    draw_weights(model, tensors.Draw(5))
    torch.save(wrap(model.state_dict()), path / "model.pth")
    heads = ["--set", "n_head=4"] if four else []
    answer = json.loads(run(minigpt, "import", "--from", path / "model.pth", "--out", path / "out", "--json", *heads))
    assert any("n_head" in note for note in answer["notes"]), answer
    ids = [(7 * position + 3) % 211 for position in range(context)]
    with torch.no_grad():
        theirs = model.double()(torch.tensor([ids]))[0]
    ours = torch.tensor(inspect(minigpt, path / "out", ids, "--full")["logits"], dtype=torch.float64)
    agree("logits", ours, theirs, TOLERANCE)


if __name__ == "__main__":
    main()
