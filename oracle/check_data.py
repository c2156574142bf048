"""Whether `minigpt data` makes the files that nanoGPT's own preparation makes, and measures as numpy measures.

    python oracle/check_data.py PATH-OF-MINIGPT
"""

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np


def minigpt(*args):
    """Runs a command of `minigpt data` and gives the JSON it prints."""
    command = [BINARY, "data", *map(str, args), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def text(seed, length):
    """Characters of several scripts, with the line ends and marks that Python's text mode takes away."""
    letters = "abc, .!?'é中文字。，😀\n\n\r\n\r"
    return "\ufeff" + "".join(random.Random(seed).choices(letters, k=length))


def characters_as_nanogpt(scratch):
    """The steps of nanoGPT's data/shakespeare_char/prepare.py."""
    for seed, length in enumerate([10, 11, 1000, 300_000]):
        path = scratch / f"{seed}.txt"
        path.write_text(text(seed, length), encoding="utf-8", newline="")
        out = scratch / f"prepared-{seed}"
        minigpt("prepare", "--input", path, "--out", out)
        data = path.read_text(encoding="utf-8-sig")
        stoi = {character: i for i, character in enumerate(sorted(set(data)))}
        n = len(data)
        for name, part in [("train", data[: int(n * 0.9)]), ("val", data[int(n * 0.9) :])]:
            ours = np.memmap(out / f"{name}.bin", dtype=np.uint16, mode="r")
            theirs = np.array([stoi[character] for character in part], dtype=np.uint16)
            assert np.array_equal(ours, theirs), f"{name}.bin of {length} characters differs"


def lengths_as_numpy(scratch):
    """Percentiles are numpy's `inverted_cdf`: the smallest length that so many don't exceed."""
    draw = random.Random(5)
    for count in [1, 2, 19, 20, 21, 999]:
        lengths = [int(draw.expovariate(0.02)) + 1 for _ in range(count)]
        path = scratch / "qa.jsonl"
        pairs = ({"question": "问" * n, "answer": "答"} for n in lengths)
        path.write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
        ours = minigpt("stats", path)
        whole = np.array(lengths) + 3  # the answer and two separators
        for percent in [50, 90, 95, 99]:
            theirs = np.percentile(whole, percent, method="inverted_cdf")
            assert ours["lengths"][f"p{percent}"] == theirs, f"{percent} % of {count}"
        assert abs(ours["lengths"]["mean"] - whole.mean()) < 1e-9
        assert ours["suggested_max_length"] == np.percentile(whole, 95, method="inverted_cdf")


def lines_byte_for_byte(scratch):
    """Both parts together are the good lines of the file, shuffled, each as it was written; bad ones are left out."""
    draw = random.Random(7)
    signs = "ab 中文é😀\\\"\t"

    def line(i):
        text = "".join(draw.choice(signs) for _ in range(draw.randrange(1, 40)))
        record = {"question": f"{i} {text}", "answer": text + "."}
        space = " " * draw.randrange(3)
        written = json.dumps(record, ensure_ascii=draw.random() < 0.5, separators=("," + space, ":" + space))
        return written.encode() + b"\n"

    good = [line(i) for i in range(5000)]
    bad = [b"%d " % i + draw.randbytes(draw.randrange(1, 40)).replace(b"\n", b"") + b"\n" for i in range(50)]
    lines = good + bad
    draw.shuffle(lines)
    path = scratch / "lines.jsonl"
    path.write_bytes(b"".join(lines))
    said = minigpt("split", path, "--ratio", "0.7", "--seed", "3", "--out", scratch / "split")
    assert (said["train_lines"], said["val_lines"]) == (3500, 1500)
    parts = [lines_of((scratch / "split" / f"{name}.jsonl").read_bytes()) for name in ("train", "val")]
    place = {line: at for at, line in enumerate(lines)}
    assert all(part != sorted(part, key=place.get) for part in parts), "the order stayed"
    assert sorted(parts[0] + parts[1]) == sorted(good), "a line changed"


def lines_of(data):
    """Lines with their ends; only a newline ends one."""
    *whole, rest = data.split(b"\n")
    return [line + b"\n" for line in whole] + ([rest] if rest else [])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} PATH-OF-MINIGPT")
    BINARY = Path(sys.argv[1]).resolve()
    failed = False
    for judge in [characters_as_nanogpt, lengths_as_numpy, lines_byte_for_byte]:
        name = judge.__name__.replace("_", " ")
        with tempfile.TemporaryDirectory() as scratch:
            try:
                judge(Path(scratch))
            except Exception as error:
                failed = True
                print(f"FAILED data, {name}: {' '.join(str(error).split()) or type(error).__name__}", flush=True)
            else:
                print(f"ok data, {name}", flush=True)
    sys.exit(int(failed))
