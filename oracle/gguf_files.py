"""GGUF files as others make them: written by llama.cpp's own Python package, quantised by llama.cpp, and read again
by that package into the reference decoder."""

import ctypes

import gguf
import llama_cpp
import numpy as np
import torch
from tokenizers.pre_tokenizers import ByteLevel

from reference import Decoder

ONCE = {
    "wte.weight": "token_embd.weight",
    "wpe.weight": "position_embd.weight",
    "ln_f.weight": "output_norm.weight",
    "ln_f.bias": "output_norm.bias",
}
PARTS = {
    "ln_1": "attn_norm",
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "ln_2": "ffn_norm",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
}
# A byte-level BPE with three merges: 256 bytes, three joined, and the end of a text.
BYTES = sorted(ByteLevel.alphabet())
MERGES = ["h e", "Ġ t", "Ġt he"]
TOKENS = [*BYTES, *(merge.replace(" ", "") for merge in MERGES), "<|endoftext|>"]


def their_name(ours):
    if ours in ONCE:
        return ONCE[ours]
    _, layer, rest = ours.split(".", 2)
    part, kind = rest.rsplit(".", 1)
    return f"blk.{layer}.{PARTS[part]}.{kind}"


def write(path, model, config):
    """A tied model as f32."""
    writer = gguf.GGUFWriter(str(path), "gpt2")
    writer.add_name("fixture")
    writer.add_file_type(0)
    writer.add_context_length(config["n_positions"])
    writer.add_embedding_length(config["n_embd"])
    writer.add_feed_forward_length(config["n_inner"] or 4 * config["n_embd"])
    writer.add_block_count(config["n_layer"])
    writer.add_head_count(config["n_head"])
    writer.add_layer_norm_eps(config["layer_norm_epsilon"])
    end = len(TOKENS) - 1
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([1] * end + [3])
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(end)
    writer.add_eos_token_id(end)
    for name, tensor in model.state_dict().items():
        tensor = tensor.t() if name.startswith("h.") and tensor.ndim == 2 else tensor
        writer.add_tensor(their_name(name), np.ascontiguousarray(tensor.float().numpy()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def quantise(source, target, file_type):
    """As llama.cpp's own tool does; `file_type` is its name there, such as Q4_K_M."""
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.nthread = 1
    parameters.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{file_type}")
    quiet()
    failed = llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(parameters))
    assert failed == 0, f"llama.cpp could not quantise to {file_type}"


@llama_cpp.llama_log_callback
def silence(level, text, data):
    pass


def quiet():
    llama_cpp.llama_log_set(silence, ctypes.c_void_p(0))


def types(path):
    """The type of each tensor, and that of the file."""
    reader = gguf.GGUFReader(str(path))
    number = int(reader.fields["general.file_type"].parts[-1][0])
    return {tensor.name: tensor.tensor_type.name for tensor in reader.tensors}, number


def read(path, config):
    """The numbers of a file, expanded, as the reference decoder in float64; and the types that they had."""
    model, types = Decoder(config), set()
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(str(path)).tensors}
    state = {}
    for name, parameter in model.state_dict().items():
        tensor = tensors[their_name(name)]
        types.add(tensor.tensor_type.name)
        numbers = torch.tensor(gguf.quants.dequantize(tensor.data, tensor.tensor_type))
        numbers = numbers.reshape(parameter.shape[::-1]).t() if name.startswith("h.") and parameter.ndim == 2 else numbers
        state[name] = numbers.reshape(parameter.shape)
    model.load_state_dict(state)
    return model.double().eval(), types
