//! The walk: the pass of one text, step by step, with true shapes and numbers. One layer, one head and one position are
//! followed; the other layers appear as what they leave in the residual stream.

mod examples;
mod sentences;

pub use examples::WalkExample;

use crate::error::Result;
use crate::rows_at::RowsAt;
use crate::subject::{Subject, check_position, floats, row, table_row};
use candle_core::Tensor;
use minigpt_model::{Activation, BlockSite, Config, Hook, NormPosition, PositionEmbedding, Site, sinusoid};
use sentences::Sentence;
use serde::Serialize;

/// A pass as a list of steps.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Walk {
    /// The steps in the order of the pass.
    pub walk: Vec<WalkStep>,
    /// What is followed.
    pub walk_of: WalkFocus,
}

/// Which layer is opened, which of its heads, and which position is followed; all count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct WalkFocus {
    /// The layer.
    pub layer: usize,
    /// The head.
    pub head: usize,
    /// The position.
    pub position: usize,
}

/// A step: the numbers at one place, and what happens there.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WalkStep {
    /// The place: the name of a hook's site, with a further word where a step stands between two sites.
    pub site: String,
    /// The layer, of a step inside of one.
    pub layer: Option<usize>,
    /// The head, of a step inside of one.
    pub head: Option<usize>,
    /// The shape of `values`.
    pub shape: Vec<usize>,
    /// The shape of the whole tensor of the pass, of which `values` are the followed position.
    pub tensor_shape: Vec<usize>,
    /// The numbers, row by row; −∞ is `null` in JSON.
    pub values: Vec<f32>,
    /// What stood there before: the input of a norm or an activation, the stream before something was added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Vec<f32>>,
    /// The mean of a norm's input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// Its standard deviation (of the population, without ε).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deviation: Option<f64>,
    /// The formula, as this model has it.
    pub formula: String,
    /// What happens and why, in English.
    pub text: &'static str,
    /// The same in Chinese.
    pub text_zh: &'static str,
}

/// How the next token is chosen from the logits, stage by stage. The sampler fills it in.
#[derive(Debug, Clone, PartialEq)]
pub struct WalkChoice {
    /// The stages of a draw; nothing where the likeliest token is chosen.
    pub drawn: Option<WalkDraw>,
    /// The token that was chosen.
    pub chosen: u32,
}

/// The stages of a draw.
#[derive(Debug, Clone, PartialEq)]
pub struct WalkDraw {
    /// The logits after penalties and temperature.
    pub tempered: Vec<f32>,
    /// The same with −∞ for what the filters leave out.
    pub filtered: Vec<f32>,
}

impl Walk {
    /// Adds the steps from the logits to a token.
    pub fn choose(&mut self, choice: &WalkChoice) {
        let choice_sentence = match &choice.drawn {
            None => sentences::CHOICE_LIKELIEST,
            Some(WalkDraw { tempered, filtered }) => {
                let probabilities = softmax(filtered);
                self.add("logits.temperature", sentences::TEMPERATURE, tempered.clone());
                if filtered != tempered {
                    self.add("logits.filtered", sentences::FILTERED, filtered.clone());
                }
                self.add("probabilities", sentences::PROBABILITIES, probabilities);
                sentences::CHOICE_DRAWN
            }
        };
        self.add("choice", choice_sentence, vec![choice.chosen as f32]);
    }

    fn add(&mut self, site: &str, sentence: Sentence, values: Vec<f32>) {
        self.walk.push(WalkStep::new(site, sentence, &[values.len()], values));
    }
}

fn softmax(logits: &[f32]) -> Vec<f32> {
    let (most, log_sum) = minigpt_kernels::log_sum_exp(logits);
    logits.iter().map(|&logit| (f64::from(logit - most) - log_sum).exp() as f32).collect()
}

impl WalkStep {
    fn new(site: &str, sentence: Sentence, shape: &[usize], values: Vec<f32>) -> Self {
        let Sentence { text, text_zh, .. } = sentence;
        let formula = sentence.formula(true);
        let (site, shape) = (site.to_owned(), shape.to_vec());
        let tensor_shape = shape.clone();
        let (layer, head, before, mean, deviation) = (None, None, None, None, None);
        Self {
            site,
            layer,
            head,
            shape,
            tensor_shape,
            values,
            before,
            mean,
            deviation,
            formula,
            text,
            text_zh,
        }
    }

    fn of(self, tensor_shape: &[usize]) -> Self {
        Self { tensor_shape: tensor_shape.to_vec(), ..self }
    }

    fn inside(self, layer: usize) -> Self {
        Self { layer: Some(layer), ..self }
    }

    fn in_head(self, head: usize) -> Self {
        Self { head: Some(head), ..self }
    }

    fn after(self, before: &[f32]) -> Self {
        Self { before: Some(before.to_vec()), ..self }
    }

    /// With mean and deviation of what a norm met.
    fn normalized(self, before: &[f32]) -> Self {
        let n = before.len() as f64;
        let mean = before.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
        let variance = before.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / n;
        Self { mean: Some(mean), deviation: Some(variance.sqrt()), ..self }.after(before)
    }
}

/// The pass of a text, step by step, from the ids to the logits behind the followed position.
pub fn walk(subject: &Subject, ids: &[u32], focus: WalkFocus) -> Result<Walk> {
    subject.check_text(ids)?;
    subject.check_layer(focus.layer)?;
    subject.check_head(focus.head)?;
    check_position(focus.position, ids.len())?;
    let mut stops = Stops::new(subject, focus);
    let logits = row(&subject.logits(ids, &mut stops)?, focus.position)?;
    let mut walker = Walker { subject, focus, tokens: ids.len(), stops, steps: Vec::new() };
    walker.embedding(ids[focus.position])?;
    for layer in 0..subject.config().n_layer {
        if layer == focus.layer { walker.block() } else { walker.passed(layer) }
    }
    walker.end(logits);
    Ok(Walk { walk: walker.steps, walk_of: focus })
}

/// A hook that keeps the followed position everywhere, and all keys and values that the followed head sees from there.
struct Stops {
    rows: RowsAt,
    focus: WalkFocus,
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl Stops {
    fn new(subject: &Subject, focus: WalkFocus) -> Self {
        let layers = subject.config().n_layer;
        let inside = Site::all(layers).filter(|site| match site {
            Site::Block(layer, _) => *layer == focus.layer,
            Site::Embed | Site::LnF => true,
            Site::Logits => false,
        });
        let between = (0..=layers).map(|layer| subject.residual_before(layer));
        let rows = RowsAt::new(focus.position, inside.chain(between));
        Self { rows, focus, keys: Vec::new(), values: Vec::new() }
    }
}

impl Hook for Stops {
    fn wants(&self, site: Site) -> bool {
        self.rows.wants(site)
    }

    fn at(&mut self, site: Site, x: &Tensor) -> candle_core::Result<Option<Tensor>> {
        let WalkFocus { head, position, .. } = self.focus;
        let seen = || {
            let seen = x.get(0)?.get(head)?.narrow(0, 0, position + 1)?; // (p + 1, D)
            floats(&seen).map_err(candle_core::Error::wrap)
        };
        match site {
            Site::Block(_, BlockSite::K) => self.keys = seen()?,
            Site::Block(_, BlockSite::V) => self.values = seen()?,
            _ => return self.rows.at(site, x),
        }
        Ok(None)
    }
}

struct Walker<'a> {
    subject: &'a Subject<'a>,
    focus: WalkFocus,
    tokens: usize,
    stops: Stops,
    steps: Vec<WalkStep>,
}

impl Walker<'_> {
    fn at(&self, site: BlockSite) -> Vec<f32> {
        self.stops.rows.get(Site::Block(self.focus.layer, site)).to_vec()
    }

    /// The followed head's part of a site that has all heads side by side.
    fn of_head(&self, site: BlockSite) -> Vec<f32> {
        let (all, heads) = (self.at(site), self.subject.config().n_head);
        let width = all.len() / heads;
        all[self.focus.head * width..][..width].to_vec()
    }

    /// A step whose values are the followed row of a matrix with a row a token.
    fn row(&mut self, site: &str, sentence: Sentence, values: Vec<f32>) -> &mut WalkStep {
        let width = values.len();
        let step = WalkStep::new(site, sentence, &[width], values).of(&[self.tokens, width]);
        self.steps.push(step);
        let last = self.steps.len() - 1;
        &mut self.steps[last]
    }

    fn embedding(&mut self, id: u32) -> Result<()> {
        let config = self.subject.config();
        let (position, width) = (self.focus.position, config.n_embd);
        let token = table_row(self.subject, "wte.weight", id)?;
        self.row("embed.token", sentences::TOKEN, token.clone());
        if config.scale_embeddings {
            let scale = (width as f64).sqrt() as f32;
            self.row("embed.scaled", sentences::SCALED, token.iter().map(|x| x * scale).collect());
        }
        let added = match config.position_embedding {
            PositionEmbedding::Learned => Some(table_row(self.subject, "wpe.weight", position as u32)?),
            PositionEmbedding::Sinusoidal => Some((0..width).map(|j| sinusoid(position, j, width)).collect()),
            PositionEmbedding::Rope | PositionEmbedding::None => None,
        };
        let (position_sentence, sentence) = match config.position_embedding {
            PositionEmbedding::Learned => (sentences::POSITION, sentences::EMBED),
            PositionEmbedding::Sinusoidal => (sentences::POSITION_FIXED, sentences::EMBED),
            PositionEmbedding::Rope => (sentences::POSITION, sentences::EMBED_ROTARY),
            PositionEmbedding::None => (sentences::POSITION, sentences::EMBED_ALONE),
        };
        if let Some(added) = added {
            self.row("embed.position", position_sentence, added);
        }
        let embedded = self.stops.rows.get(Site::Embed).to_vec();
        self.row("embed", sentence, embedded);
        Ok(())
    }

    /// A block that is not opened.
    fn passed(&mut self, layer: usize) {
        let site = self.subject.residual_before(layer + 1);
        let values = self.stops.rows.get(site).to_vec();
        self.row(&site.to_string(), sentences::LAYER, values).layer = Some(layer);
    }

    /// The opened block, in the order of its configuration.
    fn block(&mut self) {
        let entering = self.stops.rows.get(self.subject.residual_before(self.focus.layer)).to_vec();
        let middle = self.at(BlockSite::ResidMid);
        match self.subject.config().norm_position {
            NormPosition::Pre => {
                self.norm(BlockSite::Ln1, &entering);
                self.attention(&entering);
                self.norm(BlockSite::Ln2, &middle);
                self.mlp(&middle);
            }
            NormPosition::Post => {
                self.attention(&entering);
                self.norm(BlockSite::Ln1, &middle);
                self.mlp(&self.at(BlockSite::Ln1));
                self.norm(BlockSite::Ln2, &self.at(BlockSite::ResidPost));
            }
        }
    }

    /// A step inside the opened layer, at a site of a hook.
    fn inside(&mut self, site: BlockSite, sentence: Sentence, values: Vec<f32>) -> &mut WalkStep {
        let layer = self.focus.layer;
        let step = self.row(&Site::Block(layer, site).to_string(), sentence, values);
        step.layer = Some(layer);
        step
    }

    fn norm(&mut self, site: BlockSite, before: &[f32]) {
        let (values, sentence) = (self.at(site), self.norm_sentence());
        let step = self.inside(site, sentence, values);
        *step = step.clone().normalized(before);
    }

    fn norm_sentence(&self) -> Sentence {
        if self.subject.config().norm_bias { sentences::NORM } else { sentences::NORM_UNSHIFTED }
    }

    fn mlp(&mut self, before: &[f32]) {
        use BlockSite::{MlpOut, MlpPost, MlpPre, ResidPost};
        let (pre, post, out, after) =
            (self.at(MlpPre), self.at(MlpPost), self.at(MlpOut), self.at(ResidPost));
        let Config { mlp_bias, activation_function, .. } = *self.subject.config();
        self.inside(MlpPre, sentences::WIDENED, pre.clone()).formula = sentences::WIDENED.formula(mlp_bias);
        let activated = self.inside(MlpPost, sentences::ACTIVATED, post);
        activated.before = Some(pre);
        activated.formula = match activation_function {
            Activation::GeluNew => "gelu_new(h)",
            Activation::Gelu => "gelu(h)",
            Activation::Relu => "max(h, 0)",
        }
        .to_owned();
        self.inside(MlpOut, sentences::NARROWED, out).formula = sentences::NARROWED.formula(mlp_bias);
        self.inside(ResidPost, sentences::ADDED_MLP, after).before = Some(before.to_vec());
    }

    fn attention(&mut self, before: &[f32]) {
        use BlockSite::{AttnOut, K, Pattern, Q, ResidMid, Scores, V, Z};
        let config = self.subject.config();
        let (width, keys, t) = (config.head_width(), self.focus.position + 1, self.tokens);
        let root = (width as f64).sqrt();
        let (q, pattern) = (self.of_head(Q), self.of_head(Pattern));
        let (k, v) = (self.stops.keys.clone(), self.stops.values.clone());
        let dot = |key: &[f32]| q.iter().zip(key).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum::<f64>();
        let raw: Vec<f64> = k.chunks(width).map(dot).collect();
        let floats = |numbers: &[f64], by: f64| numbers.iter().map(|x| (x / by) as f32).collect::<Vec<f32>>();
        let weighted: Vec<f32> =
            v.chunks(width).zip(&pattern).flat_map(|(v, a)| v.iter().map(move |v| v * a)).collect();

        let (query, key) = match config.position_embedding {
            PositionEmbedding::Rope => (sentences::QUERY_ROTATED, sentences::KEY_ROTATED),
            _ => (sentences::QUERY, sentences::KEY),
        };
        let first = self.steps.len();
        self.head_step(Q, "", query, &[width], q.clone(), &[t, width]);
        self.head_step(K, "", key, &[keys, width], k, &[t, width]);
        self.head_step(V, "", sentences::VALUE, &[keys, width], v, &[t, width]);
        for (step, sentence) in self.steps[first..].iter_mut().zip([query, key, sentences::VALUE]) {
            step.formula = sentence.formula(config.qkv_bias);
        }
        self.head_step(Scores, ".raw", sentences::RAW, &[keys], floats(&raw, 1.0), &[t, t]);
        self.head_step(Scores, ".scaled", sentences::SCALED_SCORES, &[keys], floats(&raw, root), &[t, t]);
        let masked = self.of_head(Scores);
        self.head_step(Scores, "", sentences::MASKED, &[t], masked, &[t, t]);
        self.head_step(Pattern, "", sentences::PATTERN, &[t], pattern, &[t, t]);
        self.head_step(Z, ".weighted", sentences::WEIGHTED, &[keys, width], weighted, &[t, t, width]);
        let mix = self.of_head(Z);
        self.head_step(Z, "", sentences::MIX, &[width], mix, &[t, width]);

        let (joined, out, after) = (self.at(Z), self.at(AttnOut), self.at(ResidMid));
        self.inside(Z, sentences::JOINED, joined).site += ".joined";
        let projected = sentences::PROJECTED.formula(config.attn_out_bias);
        self.inside(AttnOut, sentences::PROJECTED, out).formula = projected;
        self.inside(ResidMid, sentences::ADDED, after).before = Some(before.to_vec());
    }

    /// A step inside the followed head.
    fn head_step(
        &mut self,
        site: BlockSite,
        further: &str,
        sentence: Sentence,
        shape: &[usize],
        values: Vec<f32>,
        tensor_shape: &[usize],
    ) {
        let WalkFocus { layer, head, .. } = self.focus;
        let site = format!("{}{further}", Site::Block(layer, site));
        let step = WalkStep::new(&site, sentence, shape, values).of(tensor_shape);
        self.steps.push(step.inside(layer).in_head(head));
    }

    fn end(&mut self, logits: Vec<f32>) {
        let config = self.subject.config();
        if config.final_norm() {
            let before = self.stops.rows.get(self.subject.residual_before(config.n_layer)).to_vec();
            let values = self.stops.rows.get(Site::LnF).to_vec();
            let sentence = self.norm_sentence();
            let step = self.row("ln_f", sentence, values);
            *step = step.clone().normalized(&before);
        }
        let sentence = if config.tie_word_embeddings { sentences::LOGITS_TIED } else { sentences::LOGITS };
        self.row("logits", sentence, logits).formula = sentence.formula(config.lm_head_bias);
    }
}
