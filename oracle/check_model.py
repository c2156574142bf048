"""Model folders that others wrote, opened by `minigpt inspect`: logits, loss and attention must be the judges'."""

import tempfile
from pathlib import Path

import torch

import folder
from cases import CASES
from fixtures import COMMITTED
from judges import full_context, judges
from program import binary, compare_inspect
from report import Report


def main():
    minigpt = binary()
    report = Report()
    for case in CASES:
        check_folder(report, minigpt, case.name, COMMITTED / case.name)
    for dtype in (torch.float16, torch.bfloat16):
        with tempfile.TemporaryDirectory() as path:
            save_half(COMMITTED / "gpt2", Path(path), dtype)
            check_folder(report, minigpt, f"gpt2 in {dtype}", Path(path))
    report.close()


def check_folder(report, minigpt, name, path):
    models = judges(path)
    for ids in ([1, 2, 3], full_context(path)):
        with report.check(f"inspect {name}, {len(ids)} tokens"):
            compare_inspect(minigpt, path, ids, models)


def save_half(source, path, dtype):
    """The same model as transformers writes it in half the bytes. The judges too begin from the rounded weights."""
    folder.open_transformers(source).to(dtype).save_pretrained(path)


if __name__ == "__main__":
    main()
