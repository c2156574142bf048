"""The models that fixtures are made of: one for each system the decoder must be, tiny and of awkward sizes."""

from dataclasses import dataclass, field

# GPT-2 itself, made small. Dropout is off: its draws are nobody's to predict.
GPT2 = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "vocab_size": 37,
    "n_positions": 16,
    "n_embd": 24,
    "n_layer": 2,
    "n_head": 3,
    "n_inner": None,
    "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5,
    "tie_word_embeddings": True,
    "embd_pdrop": 0.0,
    "attn_pdrop": 0.0,
    "resid_pdrop": 0.0,
    "bos_token_id": 0,
    "eos_token_id": 0,
}

# What GPT-2 has no word for.
MINIGPT = GPT2 | {"model_type": "minigpt", "architectures": ["MiniGPT"]}

NO_BIAS = {"qkv_bias": False, "attn_out_bias": False, "mlp_bias": False, "norm_bias": False}

TEXTBOOK = MINIGPT | {
    "norm_position": "post",
    "activation_function": "relu",
    "scale_embeddings": True,
    "tie_word_embeddings": False,
    "lm_head_bias": True,
}


@dataclass(frozen=True)
class Case:
    name: str
    seed: int
    config: dict = field(hash=False)
    # Built, saved and answered by transformers alone, rather than by reference.py.
    stock: bool = False


CASES = [
    Case("gpt2", 1, GPT2),
    Case("gpt2-post", 2, MINIGPT | {"norm_position": "post"}),
    Case("nanogpt-bias", 3, GPT2 | {"activation_function": "gelu"}),
    Case("nanogpt-no-bias", 4, GPT2 | {"activation_function": "gelu", "n_embd": 18} | NO_BIAS),
    Case("textbook-learned", 5, TEXTBOOK | {"n_embd": 20, "n_head": 4, "n_inner": 33}),
    Case(
        "textbook-sinusoidal",
        6,
        TEXTBOOK | {"n_embd": 22, "n_head": 2, "n_inner": 50, "position_embedding": "sinusoidal"},
    ),
    Case("qa", 7, GPT2 | {"activation_function": "gelu", "attn_out_bias": False, "mlp_bias": False}),
    Case(
        "rope",
        8,
        MINIGPT
        | {"n_embd": 20, "n_head": 2, "layer_norm_epsilon": 1e-3}
        | {"position_embedding": "rope", "tie_word_embeddings": False}
        | NO_BIAS,
    ),
    Case("no-positions", 10, MINIGPT | {"n_embd": 12, "n_head": 2, "n_layer": 1, "position_embedding": "none"}),
    Case("gpt2-transformers", 9, GPT2, stock=True),
]
