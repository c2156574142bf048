"""The program under test, as a person or a script would run it."""

import json
import subprocess
import sys
from pathlib import Path

import torch

from judges import answer
from report import agree

TOLERANCE = 1e-5


def binary():
    """The release binary: the one argument of every check."""
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} PATH-OF-MINIGPT")
    return Path(sys.argv[1]).resolve()


def run(*command):
    command = [str(part) for part in command]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"`{' '.join(command)}` ended with {done.returncode}: {done.stderr}"
    return done.stdout


def inspect(minigpt, folder, ids, *options):
    ids = ",".join(map(str, ids))
    return json.loads(run(minigpt, "inspect", "--model", folder, "--ids", ids, "--json", *options))


def compare_inspect(minigpt, folder, ids, models):
    """Whether `inspect` says of these ids what every judge says."""
    ours = inspect(minigpt, folder, ids, "--full", "--attention")
    assert ours["ids"] == ids, f"inspect was asked about {ids}, speaks of {ours['ids']}"
    for judge, model in models.items():
        theirs = answer(model, ids)
        for field in ("logits", "loss", "attention"):
            numbers = torch.tensor(ours[field], dtype=torch.float64)
            agree(f"{field}, says {judge},", numbers, getattr(theirs, field), TOLERANCE)
