//! The optimiser and the training loop.
