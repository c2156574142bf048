"""`minigpt serve` under load. Clients are threads that stream texts over HTTP with Python's standard library; GPT-2's shape with random
weights, prompts of random ids, which no two clients share. The peer's figures, where a build of its server is at hand, come with
--peer URL: any server with OpenAI's /v1/completions, asked in the same way.
"""

import argparse
import datetime
import http.client
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

HERE = Path(__file__).resolve().parent
VOCABULARY = 50257


def main():
    options = arguments()
    place = options.target.resolve()
    model = options.model or gpt2(place)
    result = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load_average": os.getloadavg()[0],
        "rows": [],
    }
    for dtype in options.dtype:
        if options.peer:
            result["rows"] += rates(options.peer, "peer", options)
            result.setdefault("intrusion", []).append(intrusion(options.peer, "peer", options))
            break
        for clients in options.clients:
            with Server(place, model, dtype, max(clients, 2)) as server:
                result["rows"] += rates(server.address, dtype, options, [clients], server)
        with Server(place, model, dtype, 4) as server:
            result.setdefault("intrusion", []).append(intrusion(server.address, dtype, options))
            result.setdefault("cancelled", []).append(cancelled(server, dtype))
            if options.requests:
                result.setdefault("memory", []).append(memory(server, dtype, options.requests))
    result["rows"] += llama(place, options)
    show(result)
    keep(result)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=Path, default=Path("target"), help="where cargo builds")
    parser.add_argument("--model", type=Path, help="a model folder instead of GPT-2 with random weights")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 8, 16, 64])
    parser.add_argument("--prompts", type=int, nargs="+", default=[32, 512], help="tokens of prompts")
    parser.add_argument("--dtype", nargs="+", default=["f32", "q8_0"])
    parser.add_argument("--new-tokens", type=int, default=48)
    parser.add_argument("--requests", type=int, default=0, help="short requests after which memory is looked at; 10000 takes long")
    parser.add_argument("--peer", help="the address of another server, measured instead of ours")
    return parser.parse_args()


def gpt2(place):
    """GPT-2 with random weights, made once; bench/compare uses the same."""
    folder, minigpt = place / "bench" / "gpt2", place / "release" / "minigpt"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        text = folder.parent / "text.txt"
        text.write_text("The tokenizer comes with prepared data.\n")
        run(minigpt, "data", "prepare", text, "--out", folder, "--force", "--tokenizer", "gpt2", "--json")
        run(place / "release" / "examples" / "new_model", "--preset", "gpt2", "--out", folder)
    for dtype in ("f32", "q8_0"):
        file = folder.with_name(f"gpt2-{dtype}.gguf")
        if not file.exists():
            run(minigpt, "export", "--model", folder, "--to", "gguf", "--out", file, "--dtype", dtype, "--json")
    return folder


def run(*command):
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)


class Server:
    """Our server with one model, on a free port."""

    def __init__(self, place, model, dtype, slots):
        command = [place / "release" / "minigpt", "serve", "--model", f"gpt2={model}", "--port", 0, "--json"]
        command += ["--dtype", dtype, "--parallel", slots, "--max-queue", 256]
        self.command = [str(part) for part in command]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"`{' '.join(self.command)}` did not start")
        self.address = json.loads(line)["address"]
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def metrics(self):
        connection = connect(self.address)
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
        return {line.split("{")[0].split(" ")[0]: float(line.split(" ")[-1]) for line in lines if not line.startswith("#")}

    def resident(self):
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) * 1024
        return 0


def connect(address):
    return http.client.HTTPConnection(urlsplit(address).netloc, timeout=600)


def stream(address, ids, new_tokens, on_token=lambda index: None):
    """When the request went out, and when each token came."""
    body = {"model": "gpt2", "prompt": ids, "max_tokens": new_tokens, "temperature": 0, "stream": True, "ignore_eos": True, "logprobs": 0}
    connection = connect(address)
    start = time.perf_counter()
    connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
    answer = connection.getresponse()
    if answer.status != 200:
        raise RuntimeError(f"{answer.status}: {answer.read()[:500]}")
    times = []
    for line in answer:
        if line.startswith(b"data: {"):
            now = time.perf_counter()
            choices = json.loads(line[6:])["choices"]
            lists = (choices[0].get("logprobs") or {}) if choices else {}
            # A part of a character comes with the next token: each counts.
            for _ in lists.get("tokens") or [1] * bool(choices and choices[0].get("text")):
                times.append(now)
                on_token(len(times))
    connection.close()
    return start, times


def prompt(length, seed):
    return [random.Random(seed).randrange(VOCABULARY) for _ in range(length)]


def rates(address, dtype, options, clients=None, server=None):
    """All clients at once, each with one text; the best of two rounds after one to warm up."""
    rows = []
    for length in options.prompts:
        for count in clients or options.clients:
            best = None
            for round_ in range(3):
                before = server.metrics() if server else None
                figures = one_round(address, length, count, options.new_tokens, round_)
                if server:
                    after = server.metrics()
                    busy = after["minigpt_busy_seconds_total"] - before["minigpt_busy_seconds_total"]
                    figures["http_cost"] = max(0.0, 1 - busy / figures["seconds"])
                if round_ and (best is None or figures["tokens_per_second"] > best["tokens_per_second"]):
                    best = figures
            rows.append({"dtype": dtype, "prompt": length, "clients": count} | best)
            say(rows[-1])
    return rows


def one_round(address, length, count, new_tokens, round_):
    results, threads = [None] * count, []

    def one(client):
        results[client] = stream(address, prompt(length, 1000 * round_ + client), new_tokens)

    begun = time.perf_counter()
    for client in range(count):
        threads.append(threading.Thread(target=one, args=(client,)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begun
    tokens = sum(len(times) for _, times in results)
    first = [times[0] - start for start, times in results]
    gaps = [b - a for _, times in results for a, b in zip(times, times[1:])]
    return {"tokens_per_second": tokens / seconds, "seconds": seconds} | spread("first", first) | spread("gap", gaps)


def spread(name, seconds):
    seconds = sorted(seconds) or [0.0]
    at = lambda part: seconds[min(len(seconds) - 1, int(part * len(seconds)))]
    return {f"{name}_50": at(0.5), f"{name}_99": at(0.99), f"{name}_longest": seconds[-1]}


def intrusion(address, dtype, options):
    """One text is written; in its middle a prompt of 512 tokens comes in."""
    started, answer = threading.Event(), {}

    def intrude():
        started.wait()
        start, times = stream(address, prompt(512, 7), 2)
        answer["first"] = times[0] - start

    thread = threading.Thread(target=intrude)
    thread.start()
    _, times = stream(address, prompt(32, 8), 160, lambda index: index == 40 and started.set())
    thread.join()
    gaps = [b - a for a, b in zip(times, times[1:])]
    return {
        "dtype": dtype, "usual_gap": statistics.median(gaps[5:38]), "longest_gap": max(gaps[39:]), "first_token": answer["first"],
    }


def cancelled(server, dtype):
    """How many tokens are written for a client that has gone."""
    connection = connect(server.address)
    body = {"prompt": prompt(8, 9), "max_tokens": 900, "stream": True, "ignore_eos": True}
    connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
    answer = connection.getresponse()
    for _ in range(8):
        answer.readline()
    before = server.metrics()["minigpt_generated_tokens_total"]
    answer.close()
    connection.close()
    time.sleep(2)
    after = server.metrics()
    return {"dtype": dtype, "tokens_after": after["minigpt_generated_tokens_total"] - before, "busy": after["minigpt_slots_busy"]}


def memory(server, dtype, requests):
    """Resident memory after a tenth of the requests, and after all."""
    sizes = []
    for part in (requests // 10, requests - requests // 10):
        threads = [
            threading.Thread(target=lambda: [stream(server.address, prompt(8, random.random()), 2) for _ in range(part // 8)])
            for _ in range(8)
        ]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        sizes.append(server.resident())
    return {"dtype": dtype, "requests": requests, "after_a_tenth": sizes[0], "after_all": sizes[1]}


def llama(place, options):
    """llama.cpp at one client, through llama-cpp-python, where that is installed."""
    try:
        import llama_cpp  # noqa: F401
    except ImportError:
        return []
    rows = []
    for dtype in options.dtype:
        file = place / "bench" / f"gpt2-{dtype}.gguf"
        if not file.exists():
            continue
        command = [sys.executable, HERE / "peers.py", "llama", "decode", "--model", file, "--prompt-length", 32]
        command += ["--max-new-tokens", options.new_tokens, "--threads", os.cpu_count(), "--repeat", 3]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if done.returncode == 0:
            figures = json.loads(done.stdout)
            rows.append({"dtype": f"{dtype}, llama.cpp", "prompt": 32, "clients": 1, "tokens_per_second": figures["tokens_per_second"]})
    return rows


def say(row):
    print(f"  {row['dtype']}, prompt {row['prompt']}, {row['clients']} clients: {row['tokens_per_second']:.1f} tokens/s", file=sys.stderr)


def show(result):
    print("| dtype | prompt | clients | tokens/s | first 50 % | 99 % | gap 50 % | 99 % | longest | HTTP |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for row in result["rows"]:
        seconds = [f"{row[name]:.3f} s" if name in row else "" for name in ("first_50", "first_99", "gap_50", "gap_99", "gap_longest")]
        cost = f"{100 * row['http_cost']:.1f} %" if "http_cost" in row else ""
        cells = [row["dtype"], row["prompt"], row["clients"], f"{row['tokens_per_second']:.1f}", *seconds, cost]
        print(f"| {' | '.join(map(str, cells))} |")
    for row in result.get("intrusion", []):
        ratio = row["longest_gap"] / row["usual_gap"]
        print(
            f"{row['dtype']}: while a prompt of 512 tokens comes in, the writer's gap of {1e3 * row['usual_gap']:.0f} ms becomes at most "
            f"{1e3 * row['longest_gap']:.0f} ms ({ratio:.1f} x); that prompt's first token after {row['first_token']:.2f} s"
        )
    for row in result.get("cancelled", []):
        print(f"{row['dtype']}: {row['tokens_after']:.0f} tokens were written for a client that had gone")
    for row in result.get("memory", []):
        grown = (row["after_all"] - row["after_a_tenth"]) / 2**20
        print(f"{row['dtype']}: {grown:+.1f} MiB resident between a tenth and all of {row['requests']} requests")


def keep(result):
    place = HERE / "runs"
    place.mkdir(exist_ok=True)
    (place / f"serve-{result['date'].replace(':', '')}.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
