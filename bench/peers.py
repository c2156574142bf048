"""What others need for the same work: one measurement a process, told as one line of JSON.

    peers.py train         PyTorch: a GPT written plainly, as one would for a CPU
    peers.py transformers  Hugging Face: `generate` of a model folder
    peers.py llama         llama.cpp: a GGUF file

Setting up is not measured, and everything is warmed up. Times are those of the fastest repeat, as in `minigpt bench`.
"""

import argparse
import json
import math
import random
import statistics
import time
from pathlib import Path

SEED = 1337


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train")
    train.add_argument("--config", type=json.loads, required=True, help="what `minigpt plan --json` calls config")
    train.add_argument("--batch-size", type=int, required=True)
    train.add_argument("--context", type=int, required=True)
    for name in ("transformers", "llama"):
        run = commands.add_parser(name)
        run.add_argument("task", choices=["decode", "prefill", "start"])
        run.add_argument("--model", type=Path, required=True)
        run.add_argument("--prompt-length", type=int, default=16)
        run.add_argument("--max-new-tokens", type=int, default=1)
        run.add_argument("--batch-size", type=int, default=1)
    for command in commands.choices.values():
        command.add_argument("--threads", type=int, required=True)
        command.add_argument("--repeat", type=int, default=3)
        command.add_argument("--warm-up", type=int, default=1)
    options = parser.parse_args()
    answer = {"train": train_pytorch, "transformers": run_transformers, "llama": run_llama}[options.command](options)
    print(json.dumps(answer | {"peak_rss_bytes": peak_memory()}))


def measured(work, tokens, options):
    """The figures of `work`, which does `tokens` tokens and returns the seconds that count."""
    for _ in range(options.warm_up):
        work()
    times = [work() for _ in range(options.repeat)]
    best, median = min(times), statistics.median(times)
    return {
        "tokens_per_second": tokens / best,
        "median_tokens_per_second": tokens / median,
        "ms_per_step": 1e3 * best,
        "median_ms_per_step": 1e3 * median,
    }


def peak_memory():
    """The most memory that this process has had."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return 1024 * int(line.split()[1])
    return None


def prompts(options, vocab_size):
    """Random tokens: what they are does not change how long they take."""
    draw = random.Random(SEED)
    return [[draw.randrange(vocab_size) for _ in range(options.prompt_length)] for _ in range(options.batch_size)]


# PyTorch ----------------------------------------------------------------------------------------------------------


def train_pytorch(options):
    import torch

    torch.set_num_threads(options.threads)
    torch.manual_seed(SEED)
    config, B, T = options.config, options.batch_size, options.context
    model = decoder(config)
    decays = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decays, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.99), fused=True)
    text = torch.randint(config["vocab_size"], (2 * B * T + 1,))

    def step():
        start = time.perf_counter()
        at = torch.randint(len(text) - T, (B,)).tolist()
        ids = torch.stack([text[i : i + T] for i in at])
        targets = torch.stack([text[i + 1 : i + 1 + T] for i in at])
        loss = torch.nn.functional.cross_entropy(model(ids).flatten(0, 1), targets.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()
        return time.perf_counter() - start

    parameters = sum(p.numel() for p in model.parameters())
    return measured(step, B * T, options) | {"parameters": parameters}


def decoder(config):
    """GPT-2 and its relatives as nanoGPT writes them: pre-norm, learned positions, a tied head."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    assert config["norm_position"] == "pre" and config["position_embedding"] == "learned"
    assert config["tie_word_embeddings"] and not config["lm_head_bias"] and not config["scale_embeddings"]
    C, H = config["n_embd"], config["n_head"]
    inner = config["n_inner"] or 4 * C
    approximate = {"gelu": "none", "gelu_new": "tanh"}[config["activation_function"]]

    def norm():
        return nn.LayerNorm(C, eps=config["layer_norm_epsilon"], bias=config["norm_bias"])

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.c_attn = nn.Linear(C, 3 * C, bias=config["qkv_bias"])
            self.c_proj = nn.Linear(C, C, bias=config["attn_out_bias"])
            self.dropout = nn.Dropout(config["resid_pdrop"])

        def forward(self, x):
            B, T, _ = x.shape
            q, k, v = (y.view(B, T, H, C // H).transpose(1, 2) for y in self.c_attn(x).split(C, dim=2))
            p = config["attn_pdrop"] if self.training else 0.0
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
            return self.dropout(self.c_proj(y.transpose(1, 2).reshape(B, T, C)))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.attn, self.ln_2 = norm(), Attention(), norm()
            self.mlp = nn.Sequential(
                nn.Linear(C, inner, bias=config["mlp_bias"]),
                nn.GELU(approximate),
                nn.Linear(inner, C, bias=config["mlp_bias"]),
                nn.Dropout(config["resid_pdrop"]),
            )

        def forward(self, x):
            x = x + self.attn(self.ln_1(x))
            return x + self.mlp(self.ln_2(x))

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte = nn.Embedding(config["vocab_size"], C)
            self.wpe = nn.Embedding(config["block_size"], C)
            self.dropout = nn.Dropout(config["embd_pdrop"])
            self.blocks = nn.Sequential(*(Block() for _ in range(config["n_layer"])))
            self.ln_f = norm()
            self.apply(start)

        def forward(self, ids):
            x = self.dropout(self.wte(ids) + self.wpe(torch.arange(ids.shape[1])))
            return F.linear(self.ln_f(self.blocks(x)), self.wte.weight)

    def start(module):
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)

    return Decoder()


# transformers -----------------------------------------------------------------------------------------------------


class Clock:
    """Sees each token when it comes; the prompt comes first."""

    def __init__(self):
        self.times = []

    def put(self, _ids):
        self.times.append(time.perf_counter())

    def end(self):
        pass


def run_transformers(options):
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(options.threads)
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32).eval()
    model.generation_config.eos_token_id = None  # every text has its full length
    ids = torch.tensor(prompts(options, model.config.vocab_size))
    arguments = {"do_sample": False, "pad_token_id": 0, "attention_mask": torch.ones_like(ids)}

    @torch.no_grad()
    def write():
        clock, start = Clock(), time.perf_counter()
        model.generate(ids, max_new_tokens=options.max_new_tokens, streamer=clock, **arguments)
        return run_times(options.task, start, clock.times[1:], options)

    return answer_of(write, options)


# llama.cpp --------------------------------------------------------------------------------------------------------


def run_llama(options):
    from llama_cpp import Llama

    assert options.batch_size == 1, "llama-cpp-python writes one text at a time"
    threads = {"n_threads": options.threads, "n_threads_batch": options.threads}
    llama = Llama(str(options.model), n_ctx=1024, n_batch=512, verbose=False, **threads)
    ids = prompts(options, llama.n_vocab())[0]

    def write():
        llama.reset()
        times, start = [], time.perf_counter()
        for _ in llama.generate(ids, temp=0.0, top_k=1, repeat_penalty=1.0):
            times.append(time.perf_counter())
            if len(times) == options.max_new_tokens:
                return run_times(options.task, start, times, options)
        raise AssertionError(f"llama.cpp stopped after {len(times)} tokens")

    return answer_of(write, options)


# Both -------------------------------------------------------------------------------------------------------------


def run_times(task, start, times, options):
    """Seconds of a step: from prompt to first token, or from token to token."""
    assert len(times) == options.max_new_tokens, f"{len(times)} tokens came, not {options.max_new_tokens}"
    if task == "decode":
        return (times[-1] - times[0]) / (len(times) - 1)
    return times[0] - start


def answer_of(write, options):
    if options.task == "start":  # whoever started this process holds the watch
        assert math.isfinite(write())
        return {}
    tokens = options.batch_size * (1 if options.task == "decode" else options.prompt_length)
    return measured(write, tokens, options)


if __name__ == "__main__":
    main()
