"""Looking inside, judged by transformer_lens: a GPT-2 folder that `minigpt` wrote is opened by its TransformerBridge, offline;
lens, attribution, ablation, patching and detect_head must say what `minigpt inspect` says, to 1e-4.
"""

import json
import tempfile
from pathlib import Path

import torch
import transformers
from transformer_lens import patching
from transformer_lens.head_detector import (
    compute_head_attention_similarity_score,
    get_duplicate_token_head_detection_pattern,
    get_induction_head_detection_pattern,
    get_previous_token_head_detection_pattern,
)
from transformer_lens.model_bridge import TransformerBridge

from program import binary, inspect, run
from report import Report, agree

COMMITTED = Path(__file__).resolve().parent.parent / "minigpt-model/tests/fixtures"
TOLERANCE = 1e-4
CLEAN = [3, 1, 4, 1, 5, 9, 2, 6]
CORRUPT = [3, 1, 4, 7, 5, 9, 2, 6]
ANSWER, OTHER, TOKEN = 8, 11, 10

PATTERNS = {
    "previous": get_previous_token_head_detection_pattern,
    "duplicate": get_duplicate_token_head_detection_pattern,
    "induction": get_induction_head_detection_pattern,
}


def main():
    minigpt = binary()
    report = Report()
    for name in ("gpt2", "nanogpt-bias", "qa"):
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "model"
            with report.check(f"transformer_lens opens {name} as minigpt writes it"):
                run(minigpt, "export", COMMITTED / name, "--to", "hf", "--out", path)
                judge(report, minigpt, name, path)
    report.close()


def judge(report, minigpt, name, path):
    stock = transformers.GPT2LMHeadModel.from_pretrained(
        path, dtype=torch.float32, attn_implementation="eager", local_files_only=True
    ).eval()
    bridge = TransformerBridge.boot_transformers(str(path), hf_model=stock, tokenizer=None)
    checks = {"lens": lens, "attribution": attribution, "ablation": ablation, "patching": patches, "detect_head": roles}
    for what, check in checks.items():
        with report.check(f"{what} of {name}, says transformer_lens"), torch.no_grad():
            check(minigpt, path, bridge)


def floats(values):
    return torch.tensor(values, dtype=torch.float32)


def lens(minigpt, path, bridge):
    ours = inspect(minigpt, path, CLEAN, "--lens", "--full")
    logits, cache = bridge.run_with_cache(torch.tensor([CLEAN]))
    streams = [cache["blocks.0.hook_resid_pre"]]
    streams += [cache[f"blocks.{layer}.hook_resid_post"] for layer in range(bridge.cfg.n_layers)]
    theirs = torch.stack([bridge.unembed(bridge.ln_final(x))[0] for x in streams])
    agree("lens", floats(ours["lens_logits"]), theirs, TOLERANCE)
    agree("the last row", floats(ours["lens_logits"][-1]), logits[0], TOLERANCE)


def attribution(minigpt, path, bridge):
    ours = inspect(minigpt, path, CLEAN, "--attribution", "--token", TOKEN)
    logits, cache = bridge.run_with_cache(torch.tensor([CLEAN]))
    end = cache[f"blocks.{bridge.cfg.n_layers - 1}.hook_resid_post"][0, -1]
    sigma = (end.var(unbiased=False) + bridge.cfg.eps).sqrt()
    (scale,) = [p for name, p in bridge.ln_final.named_parameters() if name.endswith("weight")]
    scaled = scale * bridge.W_U[:, TOKEN]
    share = lambda c: ((c - c.mean()) / sigma) @ scaled
    theirs = []
    for layer in range(bridge.cfg.n_layers):
        z = cache[f"blocks.{layer}.attn.hook_z"][0, -1]
        w_o = bridge.W_O[layer]
        theirs += [share(z[head] @ w_o[head]) for head in range(bridge.cfg.n_heads)]
        theirs.append(share(cache[f"blocks.{layer}.hook_mlp_out"][0, -1]))
    named = [a["logit"] for a in ours["attribution"] if a["head"] is not None or a["component"].startswith("mlp.")]
    # Together, as a total may be next to nothing.
    theirs.append(logits[0, -1, TOKEN])
    agree("shares and total", floats([*named, ours["total"]]), torch.stack(theirs), TOLERANCE)


def ablation(minigpt, path, bridge):
    ids = torch.tensor([CLEAN])
    for layer in range(bridge.cfg.n_layers):
        for head in range(bridge.cfg.n_heads):

            def off(z, hook, head=head):
                z = z.clone()
                z.view(*z.shape[:2], bridge.cfg.n_heads, -1)[:, :, head] = 0
                return z

            logits = bridge.run_with_hooks(ids, fwd_hooks=[(f"blocks.{layer}.attn.hook_z", off)])
            loss = torch.nn.functional.cross_entropy(logits[0, :-1], ids[0, 1:])
            ours = inspect(minigpt, path, CLEAN, "--ablate", f"{layer}.{head}")
            agree(f"loss without {layer}.{head}", floats([ours["after"]["loss"]]), loss.reshape(1), TOLERANCE)
            best = torch.softmax(logits[0, -1], -1).sort(descending=True)
            top = floats([candidate["probability"] for candidate in ours["after"]["top"]])
            agree(f"probabilities without {layer}.{head}", top, best.values[: len(top)], TOLERANCE)
        off_mlp = lambda out, hook: torch.zeros_like(out)
        logits = bridge.run_with_hooks(ids, fwd_hooks=[(f"blocks.{layer}.hook_mlp_out", off_mlp)])
        loss = torch.nn.functional.cross_entropy(logits[0, :-1], ids[0, 1:])
        ours = inspect(minigpt, path, CLEAN, "--ablate", f"mlp.{layer}")
        agree(f"loss without mlp.{layer}", floats([ours["after"]["loss"]]), loss.reshape(1), TOLERANCE)


def patches(minigpt, path, bridge):
    clean, corrupt = torch.tensor([CLEAN]), torch.tensor([CORRUPT])
    metric = lambda logits: logits[0, -1, ANSWER] - logits[0, -1, OTHER]
    logits, cache = bridge.run_with_cache(clean)
    high, low = metric(logits), metric(bridge(corrupt))
    share = lambda logits: (metric(logits) - low) / (high - low)
    options = ("--patch-ids", ",".join(map(str, CORRUPT)), "--token", ANSWER, "--other-token", OTHER)
    ours = inspect(minigpt, path, CLEAN, *options)["patching"]
    by_position = patching.get_act_patch_resid_pre(bridge, corrupt, cache, share)
    agree("layers_positions", floats(ours["layers_positions"]), by_position, TOLERANCE)
    by_head = patching.get_act_patch_attn_head_out_all_pos(bridge, corrupt, cache, share)
    agree("layers_heads", floats(ours["layers_heads"]), by_head, TOLERANCE)


def roles(minigpt, path, bridge):
    ours = json.loads(run(minigpt, "inspect", path, "--heads", "--json"))
    scores = {}
    for sequence in ours["repeated"]["sequences"]:
        ids = torch.tensor([sequence])
        _, cache = bridge.run_with_cache(ids)
        for kind, pattern in PATTERNS.items():
            expected = pattern(ids)
            for layer in range(bridge.cfg.n_layers):
                for head in range(bridge.cfg.n_heads):
                    weights = cache[f"blocks.{layer}.attn.hook_pattern"][0, head]
                    for measure in ("mul", "abs"):
                        score = compute_head_attention_similarity_score(
                            weights.clone(), expected, exclude_bos=False, exclude_current_token=False, error_measure=measure
                        )
                        scores.setdefault((layer, head, kind, measure), []).append(score)
    for (layer, head, kind, measure), values in scores.items():
        entry = next(h for h in ours["heads"] if (h["layer"], h["head"]) == (layer, head))
        mean, score = sum(values) / len(values), entry["detect_head"][kind][measure]
        # `abs` comes from them rounded to three digits.
        allowed = TOLERANCE if measure == "mul" else 5e-4 + TOLERANCE
        assert abs(score - mean) <= allowed, f"{kind} of {layer}.{head} by {measure} is {score}, not {mean}"


if __name__ == "__main__":
    main()
