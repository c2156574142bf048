"""Event files that MiniGPT writes: TensorBoard's own reader finds every number, every text, and no step twice."""

import json
import math
import struct
import tempfile
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import STORE_EVERYTHING_SIZE_GUIDANCE, EventAccumulator

from program import binary, run
from report import Report

TAGS = {
    "loss": "loss/train",
    "val_loss": "loss/val",
    "lr": "lr",
    "grad_norm": "grad_norm",
    "tokens_per_second": "tokens_per_second",
    "grad_norms/h.0": "grad_norm/h.0",
}
BEGAN = 1e9
SAMPLE = "# ROMEO:\n  *Ay*, `me`!\n\n你好,世界 😀\n"


def main():
    event_file = binary().parent / "examples" / "event_file"
    report = Report()
    with tempfile.TemporaryDirectory() as scratch:
        check_run(report, event_file, Path(scratch))
    with tempfile.TemporaryDirectory() as scratch:
        check_resumed(report, event_file, Path(scratch))
    report.close()


def check_run(report, event_file, scratch):
    records = [record(step) for step in range(1, 1200, 7)]
    records[20]["grad_norm"] = None
    events = None
    with report.check("tensorboard opens the event file"):
        events = write(event_file, scratch, records)
        assert set(events.Tags()["scalars"]) == set(TAGS.values()), f"it finds {events.Tags()['scalars']}"
    for field, tag in TAGS.items():
        with report.check(f"tensorboard reads {tag}"):
            compare(events, tag, field, records)
    with report.check("tensorboard reads the sample"):
        compare_sample(events, records[-1]["step"])


def check_resumed(report, event_file, scratch):
    """A run that logged 300 steps, was killed, and went on from its checkpoint of step 200."""
    with report.check("tensorboard forgets what a resumed run does again"):
        first = [record(step) for step in range(1, 301)]
        second = [record(step, seconds=50.0) for step in range(201, 401)]
        write(event_file, scratch, first)
        events = write(event_file, scratch, second, 200)
        assert len(list((scratch / "run").iterdir())) == 2, "the second file replaced the first"
        for field, tag in TAGS.items():
            compare(events, tag, field, first[:200] + second)


def record(step, seconds=0.0):
    numbers = {
        "step": step,
        "loss": 1.5 + 3 / math.sqrt(step) + seconds,
        "lr": 1e-3 / step,
        "grad_norm": math.sin(step) + 2,
        "tokens_per_second": 12345.678 + step,
        "grad_norms": {"h.0": math.cos(step) + 2},
        "tokens": 768 * step,
        "seconds": step / 16 + seconds,
    }
    if step % 5 == 0:
        numbers["val_loss"] = numbers["loss"] + 0.1
    return numbers


def write(event_file, scratch, records, *resumed):
    """Has the records written as an event file, and opens its folder with TensorBoard's reader."""
    metrics, sample, folder = scratch / "metrics.jsonl", scratch / "sample.txt", scratch / "run"
    metrics.write_text("".join(json.dumps(record) + "\n" for record in records))
    sample.write_text(SAMPLE)
    folder.mkdir(exist_ok=True)
    run(event_file, metrics, sample, folder, *resumed)
    events = EventAccumulator(str(folder), size_guidance=STORE_EVERYTHING_SIZE_GUIDANCE)
    events.Reload()
    return events


def compare(events, tag, field, records):
    """Steps, times and values, which TensorBoard keeps in single precision."""
    records = [r | {f"grad_norms/{layer}": norm for layer, norm in r["grad_norms"].items()} for r in records]
    expected = [(r["step"], BEGAN + r["seconds"], single(r[field])) for r in records if field in r]
    found = [(event.step, event.wall_time, event.value) for event in events.Scalars(tag)]
    assert len(found) == len(expected), f"{len(found)} values, not {len(expected)}"
    for ours, theirs in zip(expected, found):
        same = ours[:2] == theirs[:2] and (ours[2] == theirs[2] or (math.isnan(ours[2]) and math.isnan(theirs[2])))
        assert same, f"it reads {theirs}, not {ours}"


def single(number):
    return math.nan if number is None else struct.unpack("f", struct.pack("f", number))[0]


def compare_sample(events, step):
    [event] = events.Tensors("sample/text_summary")
    plugin = events.SummaryMetadata("sample/text_summary").plugin_data.plugin_name
    assert plugin == "text", f"it belongs to {plugin}, not to text"
    assert event.step == step, f"it is of step {event.step}, not {step}"
    block = "\n".join("    " + line for line in SAMPLE.splitlines())
    [text] = event.tensor_proto.string_val
    assert text.decode() == block, f"it reads {text.decode()!r}"


if __name__ == "__main__":
    main()
