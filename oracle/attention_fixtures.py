"""What the attention module must answer, from PyTorch's two: scaled_dot_product_attention and MultiheadAttention.

Masks are stored as bytes that say who may be attended to: 1 yes, 0 no. As everywhere, float64 in between.

    B batch   H heads   D head width   C = H·D   Tq queries   Tk keys
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

import tensors

B, H = 2, 3
TQ = 7


@dataclass(frozen=True)
class Case:
    name: str
    seed: int
    keys: int = TQ
    causal: bool = False
    # None, "shared" (Tq, Tk), "batch" (B, 1, Tq, Tk), or "dead-row": shared, and one query sees nothing at all.
    mask: str | None = None
    # None, "tail": one row ends early, or "empty": one row has no key at all.
    padding: str | None = None
    bias: bool = True


SDPA = [
    Case("sdpa-plain", 101),
    Case("sdpa-cross", 102, keys=9),
    Case("sdpa-causal", 103, causal=True),
    Case("sdpa-mask", 104, keys=9, mask="shared"),
    Case("sdpa-mask-batch", 105, keys=9, mask="batch"),
    Case("sdpa-padding", 106, keys=9, padding="tail"),
    Case("sdpa-causal-padding", 107, causal=True, padding="tail"),
    Case("sdpa-mask-dead-row", 108, keys=9, mask="dead-row"),
    Case("sdpa-padding-empty", 109, keys=9, padding="empty"),
]

MHA = [
    Case("mha-self-causal", 201, causal=True),
    Case("mha-cross-padding", 202, keys=9, padding="tail"),
    Case("mha-no-bias-mask", 203, keys=9, mask="shared", bias=False),
]


def write_all(root):
    root.mkdir(parents=True, exist_ok=True)
    for cases, answers in ((SDPA, sdpa), (MHA, mha)):
        for case in cases:
            stored = answers(case, tensors.Draw(case.seed))
            tensors.save(stored, root / f"{case.name}.safetensors", metadata(case))


def metadata(case):
    return tensors.VERSIONS | {
        "case": case.name,
        "seed": case.seed,
        "heads": H,
        "causal": str(case.causal).lower(),
        "bias": str(case.bias).lower(),
    }


# Masks


def draw_masks(case, draw):
    """The masks as a caller gives them: `mask` and `key_padding`, where the case has them."""
    masks = {}
    if case.mask == "batch":
        masks["mask"] = draw_mask(draw, (B, 1, TQ, case.keys))
    elif case.mask:
        masks["mask"] = draw_mask(draw, (TQ, case.keys))
    if case.mask == "dead-row":
        masks["mask"][4] = False
    if case.padding:
        masks["key_padding"] = torch.ones(B, case.keys, dtype=torch.bool)
        masks["key_padding"][1, 0 if case.padding == "empty" else -3 :] = False
    return masks


def draw_mask(draw, shape):
    """A random mask in which each query sees some key."""
    mask = draw.true(0.6, shape)
    mask[..., 0] |= ~mask.any(dim=-1)
    return mask


def allowed(case, masks):
    """All that the case forbids, put together: (B, 1, Tq, Tk)."""
    everything = torch.ones(B, 1, TQ, case.keys, dtype=torch.bool)
    if case.causal:
        everything = everything.tril()
    if "mask" in masks:
        everything = everything & masks["mask"]
    if "key_padding" in masks:
        everything = everything & masks["key_padding"][:, None, None, :]
    return everything


def as_bytes(masks):
    return {name: mask.to(torch.uint8) for name, mask in masks.items()}


# scaled_dot_product_attention


def sdpa(case, draw):
    D = 5
    shapes = {"q": (B, H, TQ, D), "k": (B, H, case.keys, D), "v": (B, H, case.keys, D)}
    inputs = {name: draw.normal(shape) for name, shape in shapes.items()}
    dout = draw.normal((B, H, TQ, D))
    masks = draw_masks(case, draw)

    leaves = [x.double().requires_grad_() for x in inputs.values()]
    permitted = allowed(case, masks)
    out = attention_by_hand(*leaves, permitted)
    dq, dk, dv = torch.autograd.grad(out, leaves, dout.double())
    agree_with_torch(out, leaves, permitted)

    answers = {"out": out, "dq": dq, "dk": dk, "dv": dv}
    answers = {name: tensors.exact(x) for name, x in answers.items()}
    return inputs | as_bytes(masks) | {"dout": dout} | answers


def attention_by_hand(q, k, v, permitted):
    """Attention in which a query that may see nothing gets zeros, and passes no gradient on."""
    alive = permitted.any(dim=-1, keepdim=True)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    # Rows without a key keep their scores, so that no -inf - -inf arises, and lose their weights.
    scores = scores.masked_fill(~permitted & alive, -math.inf)
    return (scores.softmax(dim=-1) * alive) @ v


def agree_with_torch(out, leaves, permitted):
    """Where a query sees anything, ours must be PyTorch's answer; where it sees nothing, PyTorch's may be NaN."""
    alive = permitted.any(dim=-1, keepdim=True)
    theirs = F.scaled_dot_product_attention(*leaves, attn_mask=permitted.expand(B, H, -1, -1))
    torch.testing.assert_close(out, torch.where(alive, theirs, 0.0), rtol=1e-12, atol=1e-12)


# MultiheadAttention


def mha(case, draw):
    C = 4 * H
    shapes = {"query": (B, TQ, C), "key": (B, case.keys, C), "value": (B, case.keys, C)}
    inputs = {name: draw.normal(shape) for name, shape in shapes.items()}
    if case.name.startswith("mha-self"):
        inputs = {name: inputs["query"].clone() for name in inputs}
    dout = draw.normal((B, TQ, C))
    masks = draw_masks(case, draw)
    module = draw_module(C, case.bias, draw)
    parameters = split(dict(module.named_parameters()))

    module.double()
    leaves = {name: x.double().requires_grad_() for name, x in inputs.items()}
    out, weights = module(**leaves, **torch_masks(case, masks), average_attn_weights=False)
    out.backward(dout.double())

    gradients = split({name: p.grad for name, p in module.named_parameters()})
    gradients |= {name: x.grad for name, x in leaves.items()}
    answers = {"out": out, "weights": weights} | {f"grad.{name}": g for name, g in gradients.items()}
    answers = {name: tensors.exact(x) for name, x in answers.items()}
    return inputs | parameters | as_bytes(masks) | {"dout": dout} | answers


@torch.no_grad()
def draw_module(width, bias, draw):
    module = nn.MultiheadAttention(width, H, bias=bias, batch_first=True)
    for parameter in module.parameters():
        parameter.copy_(draw.normal(parameter.shape, std=0.4 if parameter.ndim == 2 else 0.1))
    return module


def split(named):
    """PyTorch's one input projection as three, and all weights as [in, out]."""
    parts = {}
    for name, tensor in named.items():
        tensor = tensor.detach().clone()
        if name.startswith("in_proj_"):
            kind = name.removeprefix("in_proj_")
            chunks = zip(("q_proj", "k_proj", "v_proj"), tensor.chunk(3))
            parts |= {f"{projection}.{kind}": part for projection, part in chunks}
        else:
            parts[name] = tensor
    return {name: tensor.T.contiguous() if tensor.ndim == 2 else tensor for name, tensor in parts.items()}


def torch_masks(case, masks):
    """The same masks in MultiheadAttention's words, where True means forbidden."""
    forbidden = {}
    if case.causal:
        forbidden["attn_mask"] = torch.ones(TQ, case.keys, dtype=torch.bool).triu(diagonal=1)
    if "mask" in masks:
        forbidden["attn_mask"] = ~masks["mask"]
    if "key_padding" in masks:
        forbidden["key_padding_mask"] = ~masks["key_padding"]
    return forbidden
