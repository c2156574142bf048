"""MiniGPT beside PyTorch, transformers and llama.cpp: all run by turns, several rounds, the best of each.

Each measurement is a process of its own. Between them the machine's own limit is measured, because its speed drifts.
A ratio above 1 means that MiniGPT is faster, or takes less memory.
"""

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

from rows import MINIGPT, TRAINING, rows

HERE = Path(__file__).resolve().parent
NAMES = [training.name for training in TRAINING] + ["decode", "decode-q8", "decode-batch", "prefill", "first-token"]
REFUSED = 2  # minigpt's exit code for options that it does not know


class NotAvailable(Exception):
    """The program does not offer what was asked of it."""


class Bench:
    def __init__(self, options):
        self.options = options
        self.minigpt = options.target.resolve() / "release" / "minigpt"
        threads = str(options.threads)
        self.environment = os.environ | {"RAYON_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}

    def run(self, *command):
        """What a process says, as JSON, and how long it took."""
        command = [json.dumps(part) if isinstance(part, dict) else str(part) for part in command]
        start = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment)
        seconds = time.perf_counter() - start
        if done.returncode == REFUSED and command[0] == str(self.minigpt):
            raise NotAvailable(done.stderr.strip().splitlines()[0])
        if done.returncode != 0:
            raise RuntimeError(f"`{' '.join(command)}` ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
        return json.loads(done.stdout) | {"seconds": seconds}

    def limit(self):
        return self.run(self.minigpt, "bench", "limit", "--json")

    def plan(self, shape):
        """A model in full: its configuration, and its parameters."""
        return self.run(self.minigpt, "plan", *shape, "--flops-per-second", 1, "--json")

    def measure(self, row, side):
        times = ["--warm-up", row.warm_up]
        if side != MINIGPT:
            peers = [sys.executable, HERE / "peers.py", *row.peers[side], *times, "--repeat", self.repeats(row)]
            return self.run(*peers, "--threads", self.options.threads)
        if row.ours[0] == "bench":
            repeat = "--steps" if row.ours[1] == "train" else "--repeat"
            return self.run(self.minigpt, *row.ours, *times, repeat, self.repeats(row), "--json")
        return self.run(self.minigpt, *row.ours, "--json")

    def repeats(self, row):
        return min(row.repeat, 2) if self.options.quick else row.repeat

    def models(self):
        """GPT-2 with random weights: a folder with GPT-2's tokenizer, and llama.cpp's files. Made once."""
        place = self.options.target.resolve() / "bench"
        models = {"folder": place / "gpt2", "f32": place / "gpt2-f32.gguf", "q8_0": place / "gpt2-q8_0.gguf"}
        if not all(path.exists() for path in models.values()):
            say("making GPT-2 with random weights")
            self.make(models)
        return models

    def make(self, models):
        place = models["folder"].parent
        place.mkdir(parents=True, exist_ok=True)
        (place / "text.txt").write_text("The tokenizer comes with prepared data.\n")
        prepare = ["data", "prepare", "--input", place / "text.txt", "--out", models["folder"], "--force"]
        self.run(self.minigpt, *prepare, "--tokenizer", "gpt2", "--json")
        new_model = self.minigpt.parent / "examples" / "new_model"
        subprocess.run([new_model, "--preset", "gpt2", "--out", models["folder"]], check=True)
        for dtype in ("f32", "q8_0"):
            export = ["export", "--model", models["folder"], "--to", "gguf", "--out", models[dtype], "--force"]
            self.run(self.minigpt, *export, "--dtype", dtype, "--json")


class Results:
    """All that was measured of one row."""

    def __init__(self, row):
        self.row = row
        self.runs = {side: [] for side in [MINIGPT, *row.peers]}
        self.limits = []
        self.problems = {}

    def round(self, bench, backwards):
        """Every side once, with the machine's limit between them."""
        sides = [side for side in self.runs if side not in self.problems]
        for side in reversed(sides) if backwards else sides:
            say(f"{self.row.name}: {side}")
            try:
                self.runs[side].append(bench.measure(self.row, side))
            except NotAvailable as reason:
                self.problems[side] = f"not available ({reason})"
            except RuntimeError as error:
                self.problems[side] = f"failed: {error}"
                say(str(error))
            self.limits.append(bench.limit())

    def check(self):
        """PyTorch trains as many parameters as MiniGPT."""
        for run in self.runs.get("PyTorch", []):
            has, should = run["parameters"], self.row.parameters
            assert has == should, f"{self.row.name}: PyTorch trains {has} parameters, MiniGPT {should}"

    def best(self, side):
        """The best rate; of a whole process, one over its shortest time."""
        runs = self.runs[side]
        if not runs:
            return None
        if self.row.unit == "s":
            return 1 / min(run["seconds"] for run in runs)
        return max(run["tokens_per_second"] for run in runs)

    def memory(self, side):
        """The largest memory of any run; only training's is compared."""
        if not self.row.name.startswith("train"):
            return None
        return max((run["peak_rss_bytes"] for run in self.runs[side]), default=None)

    def flops_per_token(self):
        run = self.runs[MINIGPT][0] if self.runs[MINIGPT] else {}
        return run["model_flops_per_second"] / run["tokens_per_second"] if "model_flops_per_second" in run else None

    def limit(self, name):
        """The best that the machine did during this row."""
        limits = self.limits + [run["limit"] for run in self.runs[MINIGPT] if "limit" in run]
        return max(limit[name] for limit in limits)

    def kept(self):
        return {
            "name": self.row.name,
            "title": self.row.title,
            "runs": self.runs,
            "limits": self.limits,
            "problems": self.problems,
        }


# The table --------------------------------------------------------------------------------------------------------

HEADINGS = ["", "beside", "minigpt", "other", "ratio", "memory", "other's", "ratio", "product rate", "our share", "other's"]


def table(results):
    """One line for each pair; other sides of a row stand below the first."""
    lines = [HEADINGS]
    by_name = {result.row.name: result for result in results}
    for result in results:
        for side in result.row.peers:
            lines.append(line(result, side, result.best(side), result.problems.get(side)))
        if result.row.beside in by_name:
            lines.append(line(result, f"minigpt, {result.row.beside}", by_name[result.row.beside].best(MINIGPT), None))
    return markdown(lines)


def line(result, side, theirs, problem):
    ours, unit = result.best(MINIGPT), result.row.unit
    flops, product = result.flops_per_token(), result.limit("product_flops_per_second")
    peer = side in result.runs
    our_memory, their_memory = (result.memory(MINIGPT), result.memory(side)) if peer else (None, None)

    def share(rate):
        return f"{100 * rate * flops / product:.0f} %" if rate and flops and peer else ""

    return [
        result.row.title,
        side,
        figure(ours, unit) or short(result.problems.get(MINIGPT)),
        figure(theirs, unit) or short(problem),
        ratio(ours, theirs),
        gigabytes(our_memory),
        gigabytes(their_memory),
        ratio(their_memory, our_memory),
        f"{product / 1e9:.0f} GFLOP/s",
        share(ours),
        share(theirs),
    ]


def figure(rate, unit):
    if rate is None:
        return ""
    if unit == "s":
        return f"{1 / rate:.2f} s"
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"


def short(problem):
    return (problem or "").split(" (")[0].split(":")[0]


def ratio(ours, theirs):
    return f"{ours / theirs:.2f}" if ours and theirs else ""


def gigabytes(number):
    return f"{number / 1e9:.2f} GB" if number else ""


def markdown(lines):
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    aligned = [[cell.ljust(w) if i < 2 else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths))] for line in lines]
    rule = ["-" * w if i < 2 else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    return "\n".join(f"| {' | '.join(line)} |" for line in [aligned[0], rule, *aligned[1:]])


# The rest ---------------------------------------------------------------------------------------------------------


def say(text):
    print(text, file=sys.stderr, flush=True)


def arguments():
    parser = argparse.ArgumentParser(prog="bench/compare", description=__doc__)
    parser.add_argument("--target", type=Path, default=Path("target"), help="cargo's target folder")
    parser.add_argument("--rows", default=",".join(NAMES), metavar="NAME,NAME", help=f"which of {', '.join(NAMES)}")
    parser.add_argument("--rounds", type=int, metavar="N", help="how often everything is measured [default: 3]")
    parser.add_argument("--threads", type=int, metavar="N", default=os.cpu_count(), help="[default: all cores]")
    parser.add_argument("--quick", action="store_true", help="one round with few repeats: to see that it works")
    options = parser.parse_args()
    options.rows = options.rows.split(",")
    unknown = [name for name in options.rows if name not in NAMES]
    if unknown:
        parser.error(f"there is no row {', '.join(unknown)}; there are {', '.join(NAMES)}")
    options.rounds = options.rounds or (1 if options.quick else 3)
    if options.rounds < 1 or options.threads < 1:
        parser.error("--rounds and --threads must be at least 1")
    return options


def about(options):
    """What the figures belong to."""
    packages = {name: importlib.metadata.version(name) for name in ("torch", "transformers", "llama-cpp-python")}
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    return {
        "date": datetime.datetime.now().isoformat(timespec="seconds"),
        "commit": commit,
        "cpu": cpu,
        "system": platform.platform(),
        "packages": packages,
        "threads": options.threads,
        "rounds": options.rounds,
        "quick": options.quick,
    }


def keep(path, known, results):
    """Writes all figures so far: what is measured once is not lost with what fails later."""
    path.write_text(json.dumps(known | {"rows": [result.kept() for result in results]}, indent=1) + "\n")


def main():
    options = arguments()
    bench = Bench(options)
    known = about(options)
    chosen = [row for row in rows(bench.models(), bench.plan) if row.name in options.rows]
    results = [Results(row) for row in chosen]
    kept = HERE / "runs" / f"{known['date'].replace(':', '')}.json"
    kept.parent.mkdir(exist_ok=True)
    for number in range(options.rounds):
        say(f"round {number + 1} of {options.rounds}")
        for result in results:
            result.round(bench, backwards=number % 2 == 1)
            keep(kept, known, results)
    for result in results:
        result.check()
    print(table(results))
    for result in results:
        for side, problem in result.problems.items():
            print(f"\n{result.row.name}, {side}: {problem}")
    say(f"all figures: {kept}")
    sys.exit(any(problem.startswith("failed") for result in results for problem in result.problems.values()))


if __name__ == "__main__":
    main()
