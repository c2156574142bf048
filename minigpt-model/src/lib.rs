//! The GPT-2-style decoder: configuration, layers, fused operations, cache and model folders.
