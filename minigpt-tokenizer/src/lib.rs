//! Text to token ids and back: characters, byte-level BPE, vocabulary files, streaming decode.
