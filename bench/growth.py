"""Training speed and peak memory against batch, context and model size, measured by `minigpt bench train` and drawn."""

import datetime
import json
import subprocess
import sys
from dataclasses import dataclass
from math import log2
from pathlib import Path

HERE = Path(__file__).resolve().parent
MINIGPT = HERE.parent / "target" / "release" / "minigpt"

# Six layers of six heads and width 384: nanoGPT's model for Shakespeare.
MIDDLE = {"n_layer": 6, "n_head": 6, "n_embd": 384, "vocab_size": 65, "block_size": 4096}
# (layers, heads, width, vocabulary)
SIZES = [
    (4, 4, 128, 1024),
    (6, 6, 192, 2048),
    (6, 6, 384, 4096),
    (8, 8, 512, 8192),
    (12, 12, 768, 50257),
    (24, 16, 1024, 50257),
]


@dataclass
class Panel:
    name: str
    title: str
    unit: str
    # (what is on the horizontal axis, or None for the number of parameters; the shape; batch; context)
    runs: list


PANELS = [
    Panel("batch", "6 layers, width 384, 256 tokens a row", "rows", [(b, MIDDLE, b, 256) for b in (1, 2, 4, 8, 16, 32, 64)]),
    Panel("context", "6 layers, width 384, one row", "tokens a row", [(t, MIDDLE, 1, t) for t in (64, 128, 256, 512, 1024, 2048, 4096)]),
    Panel(
        "size",
        "4 rows of 256 tokens",
        "parameters",
        [
            (None, {"n_layer": l, "n_head": h, "n_embd": c, "vocab_size": v, "block_size": 256}, 4, 256)
            for l, h, c, v in SIZES
        ],
    ),
]


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"`{' '.join(map(str, command))}`: {done.stderr.strip()}")
    return json.loads(done.stdout)


def measure(shape, batch, context):
    settings = [part for key, value in shape.items() for part in ("--set", f"{key}={value}")]
    tokens = batch * context
    steps = 20 if tokens * shape["n_layer"] * shape["n_embd"] ** 2 < 1 << 30 else 3
    plan = run(MINIGPT, "plan", "--preset", "gpt2", *settings, "--set", "dropout=0", "--flops-per-second", 1, "--json")
    sizes = ["--batch-size", batch, "--context", context, "--steps", steps]
    result = run(MINIGPT, "bench", "train", "--preset", "gpt2", *settings, "--set", "dropout=0", *sizes, "--json")
    return {
        "parameters": plan["parameters"]["total"],
        "batch_size": batch,
        "context": context,
        "tokens_per_second": result["tokens_per_second"],
        "model_flops_per_second": result["model_flops_per_second"],
        "product_flops_per_second": result["limit"]["product_flops_per_second"],
        "peak_rss_bytes": result["peak_rss_bytes"],
    }


def short(x):
    for size, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if x >= max(size, 1e4):
            return f"{x / size:.3g} {name}"
    return f"{x:,.0f}"


WIDTH, HEIGHT, INSET, LEFT, TOP, GAP = 330, 190, 28, 20, 60, 30


def plot(x, y, points, colour, title, unit, mark):
    """One picture, both of whose axes go by powers."""
    xs, ys = [log2(p[0]) for p in points], [log2(p[1]) for p in points]
    low, high = min(ys) - 0.5, max(ys) + 0.5
    span = 1.1 * max(high - low, 3.0)
    inner = WIDTH - 2 * INSET

    def place(a, b):
        along, up = (a - xs[0]) / (xs[-1] - xs[0]), (b - low) / span
        return x + INSET + along * inner, y + HEIGHT - up * HEIGHT

    parts = [f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>']
    parts.append(f'<text x="{x}" y="{y - 8}" font-weight="bold">{title}</text>')
    for (a, b), p in zip(zip(xs, ys), points):
        px, py = place(a, b)
        parts.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" fill="{colour}"/>')
        parts.append(f'<text x="{px:.1f}" y="{py - 7:.1f}" text-anchor="middle">{mark(p[1])}</text>')
        parts.append(f'<text x="{px:.1f}" y="{y + HEIGHT + 14}" text-anchor="middle">{short(p[0])}</text>')
    line = " ".join("{:.1f},{:.1f}".format(*place(a, b)) for a, b in zip(xs, ys))
    parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
    parts.append(f'<text x="{x + WIDTH / 2}" y="{y + HEIGHT + 30}" text-anchor="middle" fill="#666">{unit}</text>')
    return "\n".join(parts)


def draw(results):
    width = LEFT + 3 * WIDTH + 2 * GAP + LEFT
    height = TOP + 2 * HEIGHT + 110 + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for column, panel in enumerate(PANELS):
        runs = results[panel.name]
        axis = [("parameters" if at is None else panel.name, at) for at, *_ in panel.runs]
        at = [run["parameters"] if name == "parameters" else value for (name, value), run in zip(axis, runs)]
        x = LEFT + column * (WIDTH + GAP)
        parts.append(f'<text x="{x}" y="22" font-size="14">{panel.title}</text>')
        speed = [(a, run["tokens_per_second"]) for a, run in zip(at, runs)]
        memory = [(a, run["peak_rss_bytes"]) for a, run in zip(at, runs)]
        parts.append(plot(x, TOP, speed, "#1f77b4", "tokens a second", panel.unit, short))
        parts.append(plot(x, TOP + HEIGHT + 80, memory, "#d62728", "memory at most, bytes", panel.unit, short))
    return "\n".join([*parts, "</svg>", ""])


def measure_all():
    results = {"date": datetime.date.today().isoformat()}
    for panel in PANELS:
        results[panel.name] = []
        for at, shape, batch, context in panel.runs:
            result = measure(shape, batch, context)
            results[panel.name].append(result)
            speed, memory = short(result["tokens_per_second"]), short(result["peak_rss_bytes"])
            share = result["model_flops_per_second"] / result["product_flops_per_second"]
            print(f"{panel.name} {at or short(result['parameters'])}: {speed} tokens/s, {memory}B, {share:.0%}", flush=True)
    return results


def main():
    """Measures and draws; with `--draw`, draws what was measured before."""
    figures = HERE / "growth.json"
    if sys.argv[1:] == ["--draw"]:
        results = json.loads(figures.read_text())
    else:
        results = measure_all()
        figures.write_text(json.dumps(results, indent=1) + "\n")
    (HERE / "growth.svg").write_text(draw(results))


main()
