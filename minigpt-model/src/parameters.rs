//! The list of a model's tensors, with GPT-2's names and layouts. Initialization, loading, saving,
//! quantization, counting and the optimizers all use it, so that they agree.

use crate::config::{Config, PositionEmbedding};
use minigpt_kernels::WeightLayout;
use serde::Serialize;

/// The part of the model a tensor belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The token table, which a tied head shares.
    TokenEmbedding,
    /// The table of learned positions.
    PositionEmbedding,
    /// Projections to and from the attention heads.
    Attention,
    /// The two layers of the MLPs.
    Mlp,
    /// Layer norms.
    Norm,
    /// The output head, unless it is tied.
    Head,
}

/// The role of a tensor, which decides how it is stored, whether it decays, and which optimizer updates it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterRole {
    /// One row per token: (V, C).
    TokenEmbedding,
    /// One row per position: (T, C).
    PositionEmbedding,
    /// A matrix inside a block: (in, out).
    Matrix,
    /// The projections to queries, keys and values, side by side: (C, 3·C).
    JointQkv,
    /// The output head, unless it is tied: (V, C).
    Head,
    /// The scale of a norm.
    NormScale,
    /// The bias of a layer, a norm or the head.
    Bias,
}

impl ParameterRole {
    /// The layout of a weight that activations are multiplied with; `None` for other tensors.
    pub fn layout(self) -> Option<WeightLayout> {
        match self {
            Self::Matrix | Self::JointQkv => Some(WeightLayout::InOut),
            Self::TokenEmbedding | Self::Head => Some(WeightLayout::OutIn),
            Self::PositionEmbedding | Self::NormScale | Self::Bias => None,
        }
    }

    /// Whether weight decay applies: to matrices and tables, not to norms and biases.
    pub fn decays(self) -> bool {
        !matches!(self, Self::NormScale | Self::Bias)
    }

    /// For tensors that Muon updates (the matrices inside the blocks), the number of matrices side by side.
    /// AdamW updates the rest.
    pub fn muon_matrices(self) -> Option<usize> {
        match self {
            Self::Matrix => Some(1),
            Self::JointQkv => Some(3),
            _ => None,
        }
    }
}

/// The initialization of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Init {
    /// Normally distributed.
    Normal,
    /// Normally distributed, scaled down because the output is added to the residual stream.
    Residual,
    /// Ones.
    One,
    /// Zeros.
    Zero,
}

/// A tensor of the model: its name, its shape, and whether this configuration has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// GPT-2's name, without the prefix `transformer.`.
    pub name: String,
    /// Linear layers are stored `[in, out]`, embeddings and the head `[vocab_size, n_embd]`.
    pub shape: Vec<usize>,
    /// The part it belongs to.
    pub part: Part,
    /// Its role.
    pub role: ParameterRole,
    /// Its initialization.
    pub init: Init,
    /// The switch of the configuration that turns off this tensor, which GPT-2 has.
    pub absent: Option<&'static str>,
}

impl Spec {
    /// The number of elements.
    pub fn count(&self) -> u64 {
        self.shape.iter().map(|&n| n as u64).product()
    }

    /// Whether it is the weight of a linear layer: (in, out) in GPT-2's files, (out, in) in those of most
    /// other tools.
    pub fn is_linear_weight(&self) -> bool {
        self.role.layout() == Some(WeightLayout::InOut)
    }

    /// Whether it can be quantized: activations are multiplied with it.
    pub fn is_quantizable(&self) -> bool {
        self.role.layout().is_some()
    }
}

/// The layer that a tensor belongs to: `h.3` for `h.3.attn.c_attn.weight`, `wte` for `wte.weight`.
pub fn layer_of(name: &str) -> &str {
    let parts = if name.starts_with("h.") { 2 } else { 1 };
    name.match_indices('.').nth(parts - 1).map_or(name, |(at, _)| &name[..at])
}

/// The tensors of a model with this configuration, in the order of the forward pass.
pub fn specs(config: &Config) -> Vec<Spec> {
    let mut specs = specs_with_absent(config);
    specs.retain(|spec| spec.absent.is_none());
    specs
}

/// The tensors of [`specs`], and the biases that GPT-2 has and this configuration turns off.
pub fn specs_with_absent(config: &Config) -> Vec<Spec> {
    let (v, c, inner) = (config.vocab_size, config.n_embd, config.inner());
    let mut list = List::default();
    list.add("wte.weight", &[v, c], Part::TokenEmbedding, ParameterRole::TokenEmbedding, Init::Normal);
    if config.position_embedding == PositionEmbedding::Learned {
        let shape = [config.block_size, c];
        list.add(
            "wpe.weight",
            &shape,
            Part::PositionEmbedding,
            ParameterRole::PositionEmbedding,
            Init::Normal,
        );
    }
    let qkv = (config.qkv_bias, "qkv_bias");
    let attn_out = (config.attn_out_bias, "attn_out_bias");
    let mlp = (config.mlp_bias, "mlp_bias");
    for i in 0..config.n_layer {
        list.norm(&format!("h.{i}.ln_1"), config);
        list.linear(
            &format!("h.{i}.attn.c_attn"),
            [c, 3 * c],
            Part::Attention,
            ParameterRole::JointQkv,
            Init::Normal,
            qkv,
        );
        list.linear(
            &format!("h.{i}.attn.c_proj"),
            [c, c],
            Part::Attention,
            ParameterRole::Matrix,
            Init::Residual,
            attn_out,
        );
        list.norm(&format!("h.{i}.ln_2"), config);
        list.linear(
            &format!("h.{i}.mlp.c_fc"),
            [c, inner],
            Part::Mlp,
            ParameterRole::Matrix,
            Init::Normal,
            mlp,
        );
        list.linear(
            &format!("h.{i}.mlp.c_proj"),
            [inner, c],
            Part::Mlp,
            ParameterRole::Matrix,
            Init::Residual,
            mlp,
        );
    }
    if config.final_norm() {
        list.norm("ln_f", config);
    }
    if !config.tie_word_embeddings {
        list.add("lm_head.weight", &[v, c], Part::Head, ParameterRole::Head, Init::Normal);
    }
    if config.lm_head_bias {
        list.add("lm_head.bias", &[v], Part::Head, ParameterRole::Bias, Init::Zero);
    }
    list.0
}

#[derive(Default)]
struct List(Vec<Spec>);

impl List {
    fn add(&mut self, name: &str, shape: &[usize], part: Part, role: ParameterRole, init: Init) {
        self.0.push(Spec { name: name.to_owned(), shape: shape.to_vec(), part, role, init, absent: None });
    }

    fn bias(&mut self, layer: &str, width: usize, part: Part, (on, switch): (bool, &'static str)) {
        self.add(&format!("{layer}.bias"), &[width], part, ParameterRole::Bias, Init::Zero);
        if let (false, Some(spec)) = (on, self.0.last_mut()) {
            spec.absent = Some(switch);
        }
    }

    fn linear(
        &mut self,
        layer: &str,
        shape: [usize; 2],
        part: Part,
        role: ParameterRole,
        init: Init,
        bias: (bool, &'static str),
    ) {
        self.add(&format!("{layer}.weight"), &shape, part, role, init);
        self.bias(layer, shape[1], part, bias);
    }

    fn norm(&mut self, layer: &str, config: &Config) {
        self.add(
            &format!("{layer}.weight"),
            &[config.n_embd],
            Part::Norm,
            ParameterRole::NormScale,
            Init::One,
        );
        self.bias(layer, config.n_embd, Part::Norm, (config.norm_bias, "norm_bias"));
    }
}

/// The number of parameters of a model, in all and by part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// All of them.
    pub total: u64,
    /// The token table, which a tied head shares.
    pub token_embedding: u64,
    /// The table of learned positions.
    pub position_embedding: u64,
    /// Projections to and from the attention heads.
    pub attention: u64,
    /// The two layers of the MLPs.
    pub mlp: u64,
    /// Layer norms.
    pub norm: u64,
    /// The output head; 0 if it is tied.
    pub head: u64,
}

impl Count {
    /// Counts the parameters of a valid configuration.
    pub fn of(config: &Config) -> Self {
        let mut count = Self::default();
        for spec in specs(config) {
            let part = match spec.part {
                Part::TokenEmbedding => &mut count.token_embedding,
                Part::PositionEmbedding => &mut count.position_embedding,
                Part::Attention => &mut count.attention,
                Part::Mlp => &mut count.mlp,
                Part::Norm => &mut count.norm,
                Part::Head => &mut count.head,
            };
            *part += spec.count();
            count.total += spec.count();
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(preset: &str) -> u64 {
        Count::of(&Config::preset(preset).unwrap()).total
    }

    #[test]
    fn presets_have_the_published_numbers_of_parameters() {
        assert_eq!(total("gpt2"), 124_439_808);
        assert_eq!(total("shakespeare-char"), 10_745_088);
        assert_eq!(total("qa"), 46_403_328);
        assert_eq!(total("textbook"), 666_344);
        assert_eq!(total("gpt3"), 174_604_259_328);
        assert_eq!(total("gpt2-medium"), 354_823_168);
        assert_eq!(total("gpt2-large"), 774_030_080);
        assert_eq!(total("gpt2-xl"), 1_557_611_200);
    }

    #[test]
    fn gpt2_spends_a_third_on_embeddings_and_half_on_its_mlps() {
        let count = Count::of(&Config::default());
        let share = |n: u64| (100.0 * n as f64 / count.total as f64) as u64;
        assert_eq!(share(count.token_embedding + count.position_embedding), 31);
        assert_eq!(share(count.attention), 22); // 22.8
        assert_eq!(share(count.mlp), 45); // 45.5
    }

    #[test]
    fn roles_say_what_is_transposed_decayed_and_moved_by_muon() {
        // An MLP three times as wide as the model has the shape of a joint projection, but is not one.
        let config = Config { n_layer: 1, n_embd: 12, n_head: 3, n_inner: Some(36), ..Config::default() };
        let config = Config { tie_word_embeddings: false, ..config };
        let role = |name: &str| specs(&config).into_iter().find(|spec| spec.name == name).unwrap().role;
        assert_eq!(role("h.0.attn.c_attn.weight").muon_matrices(), Some(3));
        assert_eq!(role("h.0.mlp.c_fc.weight").muon_matrices(), Some(1));
        assert_eq!(role("wte.weight").muon_matrices(), None);
        assert_eq!(role("h.0.mlp.c_fc.weight").layout(), Some(WeightLayout::InOut));
        assert_eq!(role("lm_head.weight").layout(), Some(WeightLayout::OutIn));
        assert_eq!(role("wpe.weight").layout(), None);
        let decayed: Vec<String> =
            specs(&config).into_iter().filter(|spec| spec.role.decays()).map(|spec| spec.name).collect();
        assert_eq!(
            decayed,
            [
                "wte.weight",
                "wpe.weight",
                "h.0.attn.c_attn.weight",
                "h.0.attn.c_proj.weight",
                "h.0.mlp.c_fc.weight",
                "h.0.mlp.c_proj.weight",
                "lm_head.weight"
            ]
        );
    }

    #[test]
    fn every_tensor_belongs_to_a_layer() {
        let config = Config { n_layer: 2, tie_word_embeddings: false, ..Config::default() };
        let mut layers: Vec<String> =
            specs(&config).iter().map(|spec| layer_of(&spec.name).to_owned()).collect();
        layers.dedup();
        assert_eq!(layers, ["wte", "wpe", "h.0", "h.1", "ln_f", "lm_head"]);
    }

    #[test]
    fn a_missing_bias_names_its_switch() {
        let config = Config::default().with_bias(false);
        let absent: Vec<_> = specs_with_absent(&config).into_iter().filter_map(|s| s.absent).collect();
        assert_eq!(absent.len(), 12 * 6 + 1);
        assert!(specs(&config).iter().all(|s| !s.name.ends_with("bias")));
    }
}
