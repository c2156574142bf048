"""Makes the fixtures that the Rust tests compare with, or checks that they would come out the same today.

    python oracle/fixtures.py                 write them
    python oracle/fixtures.py --check [DIR]   make them again elsewhere and compare with the repository in DIR
"""

import argparse
import json
import pickle
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file

import attention_fixtures
import file_fixtures
import generate_fixtures
import gguf_fixtures
import insight_fixtures
import model_fixtures
import muon_fixtures
import own_fixtures
from cases import CASES

REPOSITORY = Path(__file__).resolve().parent.parent
MODEL = "minigpt-model/tests/fixtures"
GENERATE = "minigpt-generate/tests/fixtures"
TRAIN = "minigpt-train/tests/fixtures"
INSIGHT = "minigpt-insight/tests/fixtures"
FILES = "minigpt-formats/tests/files"
COMMITTED = REPOSITORY / MODEL
TOLERANCE = 1e-6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=REPOSITORY, help="where to write (default: %(default)s)")
    parser.add_argument("--check", type=Path, nargs="?", const=REPOSITORY, metavar="DIR", help="compare only")
    options = parser.parse_args()

    torch.set_num_threads(1)  # sums in one order, so the same bytes each time
    if options.check is None:
        write_all(options.out)
        return 0
    with tempfile.TemporaryDirectory() as remade:
        write_all(Path(remade))
        return report(options.check, Path(remade))


def write_all(root):
    for case in CASES:
        model_fixtures.write_case(case, root / MODEL)
    attention_fixtures.write_all(root / MODEL / "attention")
    generate_fixtures.write_all(root / GENERATE, root / MODEL)
    muon_fixtures.write_all(root / TRAIN)
    insight_fixtures.write_all(root / INSIGHT, root / MODEL, CASES)
    file_fixtures.write_all(root / FILES, root / MODEL)
    gguf_fixtures.write_all(root / FILES / "gguf")
    own_fixtures.write_all(root / FILES / "own")


def report(committed, remade):
    failed = False
    for name in sorted(files(committed) | files(remade)):
        troubles = compare(committed / name, remade / name)
        print(f"FAILED fixture {name}: {'; '.join(troubles)}" if troubles else f"ok fixture {name}")
        failed |= bool(troubles)
    return int(failed)


def files(root):
    paths = [path for part in (MODEL, GENERATE, TRAIN, INSIGHT, FILES) for path in (root / part).rglob("*")]
    return {str(path.relative_to(root)) for path in paths if path.is_file()}


def compare(committed, remade):
    """How two files differ, as a list of complaints."""
    if not remade.exists():
        return ["is no longer made"]
    if not committed.exists():
        return ["is not committed"]
    if committed.suffix == ".json":
        same = json.loads(committed.read_text()) == json.loads(remade.read_text())
        return [] if same else ["says something else"]
    if committed.suffix == ".pkl":
        same = pickle.loads(committed.read_bytes()) == pickle.loads(remade.read_bytes())
        return [] if same else ["says something else"]
    if committed.suffix == ".gguf":
        return [] if committed.read_bytes() == remade.read_bytes() else ["has other bytes"]
    if committed.suffix in (".pt", ".bin", ".pth"):
        saved = [torch.load(path, weights_only=True) for path in (committed, remade)]
        return compare_tensors(*[one.get("model", one.get("model_state_dict", one)) for one in saved])
    return compare_tensors(load_file(committed), load_file(remade))


def compare_tensors(old, new):
    troubles = [f"{name} is in one only" for name in sorted(old.keys() ^ new.keys())]
    for name in sorted(old.keys() & new.keys()):
        a, b = old[name], new[name]
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            troubles.append(f"{name} was {list(a.shape)} {a.dtype}, is {list(b.shape)} {b.dtype}")
        elif not close(a, b):
            troubles.append(f"{name} differs by {(a - b).abs().max():.2e}")
    return troubles


def close(a, b):
    """Integers must be equal; floats may differ by a little of the tensor's largest value."""
    if not a.is_floating_point():
        return torch.equal(a, b)
    largest = a[a.isfinite()].abs().max()
    return bool(((a == b) | ((a - b).abs() <= TOLERANCE * largest)).all())


if __name__ == "__main__":
    sys.exit(main())
