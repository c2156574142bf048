"""What looking inside must show, for models of every configuration: lens, ablation, patching, attribution.

Everything is computed in float64 with PyTorch's own hooks on reference.py, and knows nothing of the Rust code.
"""

from contextlib import contextmanager

import torch

import folder
import tensors

CLEAN = [3, 1, 4, 1, 5, 9, 2, 6]
CORRUPT = [3, 1, 4, 7, 5, 9, 2, 6]
ANSWER, OTHER = 8, 11
TOKEN = 10


def write_all(target, models, cases):
    """target/<case>.safetensors for each model folder in `models`."""
    target.mkdir(parents=True, exist_ok=True)
    for case in cases:
        model = folder.open_reference(models / case.name).eval()
        with torch.no_grad():
            found = {name: tensors.exact(value) for name, value in look(model, case.config).items()}
        tensors.save(found, target / f"{case.name}.safetensors", tensors.VERSIONS | {"case": case.name})


def look(model, config):
    clean = torch.tensor([CLEAN])
    found = {"lens": lens(model, clean), "logits": model(clean)[0]}
    found |= ablations(model, clean, config["n_head"])
    found |= patching(model, config["n_head"])
    if config.get("norm_position", "pre") == "pre":
        found |= attribution(model, clean, config)
    return found


def unembed(model, x):
    return model.lm_head(model.ln_f(x), model.wte.weight)


def residuals(model, ids):
    """The residual stream as it enters each block, and as it leaves the last one."""
    seen = [model.embed(ids)]
    handles = [block.register_forward_hook(lambda _m, _i, out: seen.append(out)) for block in model.h]
    model(ids)
    for handle in handles:
        handle.remove()
    return seen


def lens(model, ids):
    return torch.stack([unembed(model, x)[0] for x in residuals(model, ids)])


@contextmanager
def hooked(*handles):
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def change_z(block, change):
    """`change` sees what the heads mixed, (B, T, H, D), before the output projection."""
    heads = block.attn.n_head

    def hook(_module, inputs):
        z = inputs[0]
        return (change(z.view(*z.shape[:2], heads, -1).clone()).reshape(z.shape),)

    return block.attn.c_proj.register_forward_pre_hook(hook)


def ablations(model, ids, n_head):
    zero, mean, mlp = [], [], []
    for block in model.h:
        for head in range(n_head):

            def off(z, head=head):
                z[:, :, head] = 0
                return z

            def average(z, head=head):
                z[:, :, head] = z[:, :, head].mean(dim=(0, 1))
                return z

            with hooked(change_z(block, off)):
                zero.append(model(ids)[0])
            with hooked(change_z(block, average)):
                mean.append(model(ids)[0])
        with hooked(block.mlp.register_forward_hook(lambda _m, _i, out: torch.zeros_like(out))):
            mlp.append(model(ids)[0])
    return {"zero": torch.stack(zero), "mean": torch.stack(mean), "mlp": torch.stack(mlp)}


def kept_z(model, ids):
    kept = []

    def keep(z):
        kept.append(z)
        return z

    with hooked(*[change_z(block, keep) for block in model.h]):
        model(ids)
    return kept


def patching(model, n_head):
    clean, corrupt = torch.tensor([CLEAN]), torch.tensor([CORRUPT])
    metric = lambda logits: (logits[0, -1, ANSWER] - logits[0, -1, OTHER]).item()
    high, low = metric(model(clean)), metric(model(corrupt))
    share = lambda logits: (metric(logits) - low) / (high - low)
    streams, zs = residuals(model, clean), kept_z(model, clean)
    positions, heads = [], []
    for block, stream, z_clean in zip(model.h, streams, zs):
        for position in range(clean.shape[1]):

            def put(_module, inputs, position=position, stream=stream):
                x = inputs[0].clone()
                x[:, position] = stream[:, position]
                return (x, *inputs[1:])

            with hooked(block.register_forward_pre_hook(put)):
                positions.append(share(model(corrupt)))
        for head in range(n_head):

            def put_head(z, head=head, z_clean=z_clean):
                z[:, :, head] = z_clean[:, :, head]
                return z

            with hooked(change_z(block, put_head)):
                heads.append(share(model(corrupt)))
    layers = len(model.h)
    return {
        "layers_positions": torch.tensor(positions, dtype=torch.float64).view(layers, -1),
        "layers_heads": torch.tensor(heads, dtype=torch.float64).view(layers, -1),
    }


def attribution(model, ids, config):
    """Shares of TOKEN's logit behind the last token: heads by layer, and MLPs by layer."""
    end = residuals(model, ids)[-1][0, -1]
    sigma = (end.var(unbiased=False) + config.get("layer_norm_epsilon", 1e-5)).sqrt()
    head_weight = model.wte.weight if model.lm_head.weight is None else model.lm_head.weight
    share = lambda c: ((c - c.mean()) / sigma * model.ln_f.weight) @ head_weight[TOKEN]
    outs = []
    with hooked(*[block.mlp.register_forward_hook(lambda _m, _i, out: outs.append(out)) for block in model.h]):
        model(ids)
    heads = []
    for block, z in zip(model.h, kept_z(model, ids)):
        width = z.shape[-1]
        for head in range(z.shape[2]):
            rows = block.attn.c_proj.weight[head * width : (head + 1) * width]
            heads.append(share(z[0, -1, head] @ rows))
    return {
        "head_shares": torch.stack(heads).view(len(model.h), -1),
        "mlp_shares": torch.stack([share(out[0, -1]) for out in outs]),
        "embed_share": share(model.embed(ids)[0, -1]).reshape(1),
    }
