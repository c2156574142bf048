//! Looking inside a model: every number that the formulas of a GPT name, read off the running program.
//!
//! All of it goes through the hooks of the one forward pass; there is no second copy of the model's code. Whoever asks makes
//! a [`Subject`] (a model, and what its tokens are called) and calls a function with the ids of a text. What comes back
//! serialises as JSON, the same on the command line, over HTTP and on the page; `null` stands for what there is none of, and in
//! scores for −∞.
//!
//! | question | function | what comes back |
//! |---|---|---|
//! | how much did each token surprise? | [`reading`] | [`Reading`]: `tokens[] {id, token, surprisal, probability, rank}`, `loss`, `top[] {id, token, probability}` |
//! | what comes next? | [`next_logits`] | one logit a token of the vocabulary |
//! | who looks at whom? | [`layer_attention`], [`each_layer`] | [`LayerAttention`]: `layer`, `weights[head][query][key]`; or one layer at a time |
//! | what is a head like? | [`attention_summary`] | [`AttentionSummary`]: `heads[] {layer, head, entropy, distance, first}`, `rollout[query][key]` |
//! | what would it say after each layer? | [`lens`] | [`Lens`]: `lens[layer][position][] {id, token, probability}`, `lens_logits[layer][position][]` |
//! | who wrote this logit? | [`attribution`] | [`Attribution`]: `attribution[] {component, layer, head, logit}`, `total`, `attribution_of {position, id, token, logit}` |
//! | what becomes of it without a part? | [`ablate`] | [`AblationReport`]: `off[]`, `replaced_by`, `before` and `after` `{loss, top, tokens, continuation, continuation_text}` |
//! | where does the difference sit? | [`patch`] | [`Patching`]: `layers_positions[layer][position]`, `layers_heads[layer][head]`, `answer`, `other`, `clean`, `corrupt` |
//! | what do heads do? | [`head_roles`] | [`HeadRoles`]: `heads[] {layer, head, previous, duplicate, induction, baseline {…}, role, detect_head {…}, copied}`, `margin`, `copying {first_half_loss, second_half_loss}`, `repeated` |
//! | do they look at ends? | [`boundaries`] | [`Boundaries`]: `counts[]`, `heads[] {layer, head, boundary, share, frequency, shuffled, looks_there, loss_without}` |
//! | do they follow syntax? | [`relations`] | [`Relations`]: `relations[] {relation, pairs, layer, head, hits, share, offset, offset_hits, follows}` |
//! | when did it appear? | [`DevelopmentProbe`] | [`Development`]: `snapshots[] {step, best_induction, best_previous, heads[], copying}`, `induction {steps, induction, loss, together}` |
//! | every number of the pass | [`walk`](walk()) | [`Walk`]: `walk[] {site, layer, head, shape, tensor_shape, values, before, mean, deviation, formula, text, text_zh}`, `walk_of {layer, head, position}` |
//!
//! Layers, heads and positions count from 0. Parts are named `3.1` (head 1 of layer 3), `mlp.4`, `attn.4`, `layer.4`
//! ([`Component`]). What is not defined for a model of some configuration says so ([`Error::Undefined`]): attribution, for
//! example, for post-norm models.
//!
//! ```
//! use minigpt_insight::{LensOptions, Subject, attribution, lens, reading};
//! use minigpt_model::{Config, Device, Gpt};
//!
//! let shape = Config { n_layer: 2, n_head: 2, n_embd: 8, block_size: 16, vocab_size: 10, ..Config::default() };
//! let gpt = Gpt::new(shape, 1, &Device::Cpu).unwrap();
//! let model = Subject::new(&gpt);
//! let ids = [3, 1, 4, 1];
//!
//! let read = reading(&model, &ids, 3)?;
//! assert!(read.tokens[2].surprisal.unwrap() > 0.0);
//! let layers = lens(&model, &ids, LensOptions { top: 3, logits: false })?;
//! assert_eq!(layers.lens.len(), 3); // the embedding, and what each of two blocks left
//! let who = attribution(&model, &ids, 3, None)?;
//! assert!((who.total - who.attribution_of.logit).abs() < 1e-4);
//! # Ok::<(), minigpt_insight::Error>(())
//! ```

pub mod ablation;
pub mod attention;
pub mod attribution;
pub mod boundaries;
mod component;
pub mod conllu;
pub mod copying;
pub mod detection;
pub mod development;
mod error;
pub mod lens;
pub mod patching;
pub mod relations;
mod repeated;
pub mod roles;
mod rows_at;
mod subject;
pub mod surprisal;
pub mod walk;

pub use ablation::{Ablation, AblationOptions, AblationOutcome, AblationReport, ablate};
pub use attention::{
    AttentionSummary, HeadSummary, LayerAttention, attention_summary, each_layer, layer_attention,
};
pub use attribution::{AttributedToken, Attribution, LogitShare, attribution};
pub use boundaries::{BOUNDARY_MARGIN, Boundaries, Boundary, BoundaryHead, boundaries, boundaries_of};
pub use component::Component;
pub use conllu::{ParsedSentence, ParsedWord};
pub use copying::Copying;
pub use detection::{Detection, Detections};
pub use development::{Appearance, Development, DevelopmentProbe, SnapshotRoles};
pub use error::{Error, InvalidRequest, InvalidTreebank, Result, Undefined};
pub use lens::{Lens, LensOptions, lens};
pub use patching::{Patching, Transplant, patch};
pub use relations::{RELATION_MARGIN, RelationScore, Relations, TokenizedSentence, relations};
pub use repeated::{RepeatOptions, RepeatedTokens};
pub use roles::{HeadRole, HeadRoles, HeadScores, ROLE_MARGIN, RoleScores, head_roles};
pub use subject::{LikelyToken, Subject, Words};
pub use surprisal::{ReadToken, Reading, next_logits, read_logits, reading, reading_with};
pub use walk::{Walk, WalkChoice, WalkDraw, WalkExample, WalkFocus, WalkStep, walk};
