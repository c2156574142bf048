"""Model folders: config.json and model.safetensors, as reference.py and transformers read and write them."""

import json

import torch
import transformers
from safetensors.torch import load_file

import tensors
from reference import Decoder

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


def read_config(folder):
    return json.loads((folder / "config.json").read_text())


def stock_model(config):
    """An untrained GPT2LMHeadModel."""
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**config))


def write(folder, model, config):
    """Saves a Decoder. A folder of type gpt2 has every bias that GPT-2 has; those the model lacks are zeros."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    state = model.state_dict()
    if config["model_type"] == "gpt2":
        state = zeros_like_gpt2(config) | state
    tensors.save(state, folder / "model.safetensors", {"format": "pt"})


def zeros_like_gpt2(config):
    named = own_parameters(stock_model(config))
    return {name: torch.zeros_like(parameter) for name, parameter in named.items()}


def own_parameters(model):
    """A model's parameters by our names: without the prefix that GPT2LMHeadModel adds."""
    return {name.removeprefix("transformer."): p for name, p in model.named_parameters()}


def open_reference(folder):
    """The folder as a Decoder in float64."""
    model = Decoder(read_config(folder))
    state = {
        name.removeprefix("transformer."): tensor
        for name, tensor in load_file(folder / "model.safetensors").items()
    }
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not missing, f"{folder} lacks {missing}"
    for name in unexpected:
        assert not state[name].any(), f"{folder} has {name}, which its config.json switches off"
    return model.double()


def open_transformers(folder, auto=transformers.GPT2LMHeadModel):
    """The folder as transformers opens it, in float64; any tensor it misses or does not expect is an error."""
    model, info = auto.from_pretrained(
        folder,
        dtype=torch.float32,
        attn_implementation="eager",
        local_files_only=True,
        output_loading_info=True,
    )
    troubles = {kind: names for kind, names in info.items() if names}
    assert not troubles, f"{auto.__name__} opens {folder} with {troubles}"
    return model.double().eval()
