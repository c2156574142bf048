//! From logits to tokens: probabilities, candidates, sampling.
