//! What happens at each step of a walk and why: a formula, and one sentence in English and Chinese.

/// A step in words.
///
/// A formula whose bias stands in `‹ ›` is completed by [`Sentence::formula`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sentence {
    pub formula: &'static str,
    pub text: &'static str,
    pub text_zh: &'static str,
}

impl Sentence {
    /// The formula, with or without its bias.
    pub fn formula(self, bias: bool) -> String {
        match (self.formula.split_once('‹'), self.formula.split_once('›')) {
            (Some((before, _)), Some((_, behind))) if !bias => format!("{before}{behind}"),
            _ => self.formula.replace(['‹', '›'], ""),
        }
    }
}

macro_rules! sentences {
    ($($name:ident: $formula:literal, $text:literal, $text_zh:literal;)*) => {
        $(pub(crate) const $name: Sentence = Sentence { formula: $formula, text: $text, text_zh: $text_zh };)*

        #[cfg(test)]
        pub(crate) const ALL: &[(&str, Sentence)] = &[$((stringify!($name), $name)),*];
    };
}

sentences! {
    TOKEN: "wte[id]",
        "The token's id picks its row of the embedding table: the vector that stands for this token wherever it appears.",
        "用词元的编号在嵌入表中取出一行：无论它出现在哪里，这个向量都代表它。";
    SCALED: "√C · wte[id]",
        "The token's vector is multiplied by √C, so that the position added next does not drown it.",
        "词元向量乘以 √C，这样接下来加上的位置不会把它淹没。";
    POSITION: "wpe[p]",
        "The position has a learned vector of its own, so that attention can tell where a token stands, not only what it is.",
        "每个位置也有一个学到的向量，注意力由此知道词元在哪里，而不只是它是什么。";
    POSITION_FIXED: "sin and cos of p",
        "The position has a fixed vector of sines and cosines, so that attention can tell where a token stands, not only what it is.",
        "每个位置有一个由正弦和余弦组成的固定向量，注意力由此知道词元在哪里，而不只是它是什么。";
    EMBED: "x = token + position",
        "Both are added: this is the residual stream, which every block reads from and adds to.",
        "两者相加：这就是残差流，每一层都从中读取，并把结果加回去。";
    EMBED_ROTARY: "x = token",
        "Nothing is added for the position, which comes in when queries and keys are rotated: this is the residual stream, which every block reads from and adds to.",
        "这里不加位置向量，位置在旋转查询和键时才加入：这就是残差流，每一层都从中读取，并把结果加回去。";
    EMBED_ALONE: "x = token",
        "Nothing is added for the position, of which the model learns only through the causal mask: this is the residual stream, which every block reads from and adds to.",
        "这里不加位置向量，模型只能通过因果掩码得知先后：这就是残差流，每一层都从中读取，并把结果加回去。";
    LAYER: "x",
        "The residual stream as this block leaves it; its inside can be opened by asking for this layer.",
        "这一层处理之后的残差流；指定这一层就能看到它内部的每一步。";
    NORM: "(x − mean) / √(variance + ε) · g + b",
        "Layer norm brings the vector to mean 0 and deviation 1, then scales and shifts it as learned, so that what follows always meets numbers of the same size.",
        "层归一化把向量变成均值 0、标准差 1，再按学到的参数缩放和平移，使后面的计算总是面对大小相近的数。";
    NORM_UNSHIFTED: "(x − mean) / √(variance + ε) · g",
        "Layer norm brings the vector to mean 0 and deviation 1, then scales it as learned, so that what follows always meets numbers of the same size.",
        "层归一化把向量变成均值 0、标准差 1，再按学到的参数缩放，使后面的计算总是面对大小相近的数。";
    QUERY: "q = x W_q‹ + b_q›",
        "The query says what this position is looking for.",
        "查询向量表示这个位置在找什么。";
    QUERY_ROTATED: "q = R_p · (x W_q‹ + b_q›)",
        "The query says what this position is looking for; it is rotated by its position, so that a score depends on the distance.",
        "查询向量表示这个位置在找什么；它按位置旋转，使得分取决于距离。";
    KEY: "k = x W_k‹ + b_k›",
        "Each position up to this one offers a key: what it can be found by.",
        "到当前为止的每个位置都给出一个键：别人凭它找到自己。";
    KEY_ROTATED: "k = R_p · (x W_k‹ + b_k›)",
        "Each position up to this one offers a key, rotated by that position: what it can be found by.",
        "到当前为止的每个位置都给出一个按该位置旋转的键：别人凭它找到自己。";
    VALUE: "v = x W_v‹ + b_v›",
        "Each of them also holds a value: what it hands on to whoever looks at it.",
        "每个位置还有一个值：谁看它，它就把这个值交给谁。";
    RAW: "q · k",
        "The score of a position is the dot product of the query with its key: the better they match, the larger it is.",
        "查询与每个键做点积得到得分：越匹配，得分越大。";
    SCALED_SCORES: "q · k / √D",
        "The scores are divided by the root of the head's width, so that the softmax does not become all or nothing in wide heads.",
        "得分除以头宽度的平方根，避免头较宽时 softmax 变得非此即彼。";
    MASKED: "score, −∞ for later positions",
        "Later positions are hidden with −∞: a token may not look at what is to be predicted.",
        "后面的位置被置为 −∞ 遮住：词元不能偷看将要预测的内容。";
    PATTERN: "a = softmax(scores)",
        "The softmax turns scores into shares that sum to 1: this is the attention of this position.",
        "softmax 把得分变成总和为 1 的份额：这就是这个位置的注意力。";
    WEIGHTED: "a · v",
        "Each value is multiplied by its share.",
        "每个值乘以它得到的份额。";
    MIX: "z = Σ a · v",
        "The weighted values are summed: what this head brings to this position.",
        "加权后的值相加：这个头为当前位置带来的内容。";
    JOINED: "z = [z₀, z₁, …]",
        "What all heads of the layer brought is put side by side.",
        "这一层所有头带来的内容并排放在一起。";
    PROJECTED: "z W_o‹ + b_o›",
        "The output projection mixes the heads and turns them into what is added to the residual stream.",
        "输出投影把各个头混合起来，变成要加到残差流上的向量。";
    ADDED: "x = x + attention",
        "It is added to the residual stream: nothing that was there is lost, and the gradient has a straight way back.",
        "加到残差流上：原有的内容不会丢失，梯度也有直路可回。";
    WIDENED: "h = x W_fc‹ + b_fc›",
        "The MLP widens the vector, each token by itself: every element asks one question of the vector.",
        "MLP 把每个词元的向量各自变宽：每个元素都在向量中询问一件事。";
    ACTIVATED: "gelu(h)",
        "The activation lets positive answers pass and holds negative ones back; without it the two layers of the MLP would be one.",
        "激活函数让正的回答通过、压住负的；没有它，MLP 的两层就等于一层。";
    NARROWED: "h W_proj‹ + b_proj›",
        "The second layer narrows the answers to the width of the residual stream.",
        "第二层把这些回答收窄到残差流的宽度。";
    ADDED_MLP: "x = x + mlp",
        "This too is added to the residual stream.",
        "它同样加到残差流上。";
    LOGITS: "x W_Uᵀ‹ + b_U›",
        "The vector is compared with every token of the vocabulary: each gets a logit, the larger the likelier.",
        "把向量与词表中的每个词元比较：每个词元得到一个 logit，越大越可能。";
    LOGITS_TIED: "x wteᵀ‹ + b_U›",
        "The vector is compared with the embedding of every token of the vocabulary: each gets a logit, the larger the likelier.",
        "把向量与词表中每个词元的嵌入比较：每个词元得到一个 logit，越大越可能。";
    TEMPERATURE: "logit / temperature",
        "The logits are divided by the temperature: below 1 sharpens the choice, above 1 flattens it.",
        "logit 除以温度：小于 1 使选择更集中，大于 1 使选择更分散。";
    FILTERED: "−∞ for what top-k, top-p and min-p leave out",
        "The filters take the unlikely tokens out of the choice altogether.",
        "过滤器把不太可能的词元完全排除在外。";
    PROBABILITIES: "softmax(logits)",
        "The softmax turns the logits that are left into probabilities, which sum to 1.",
        "softmax 把剩下的 logit 变成总和为 1 的概率。";
    CHOICE_LIKELIEST: "argmax(logits)",
        "The token with the largest logit is chosen.",
        "选出 logit 最大的词元。";
    CHOICE_DRAWN: "drawn from the probabilities",
        "One token is drawn with these probabilities.",
        "按这些概率抽取一个词元。";
    EXAMPLE_INPUT: "x",
        "The numbers to begin with.",
        "开始时的数。";
    EXAMPLE_QUERIES: "Q",
        "A query for each of three tokens, four numbers each.",
        "三个词元各有一个查询，每个四个数。";
    EXAMPLE_KEYS: "K",
        "A key for each token.",
        "每个词元一个键。";
    EXAMPLE_VALUES: "V",
        "A value for each token.",
        "每个词元一个值。";
    EXAMPLE_OUTPUT: "softmax(Q Kᵀ / √D + mask) V",
        "Each token's mix of the values that it may see.",
        "每个词元对它能看到的值的混合。";
    EXAMPLE_NORM: "(x − mean) / √(variance + ε)",
        "Layer norm brings the vector to mean 0 and deviation 1.",
        "层归一化把向量变成均值 0、标准差 1。";
    GUEST: "q",
        "A guest's wishes: how much the query wants each of two things.",
        "一位客人的愿望：查询对两样东西各看重多少。";
    MENU: "K",
        "What each of three dishes on the menu offers of them.",
        "菜单上三道菜各提供多少。";
    DISHES: "V",
        "What the guest gets of each dish.",
        "每道菜能给客人的内容。";
    UNSCALED: "softmax(q · k)",
        "Without scaling, the softmax already prefers the dish that matches best.",
        "不做缩放，softmax 已经偏向最合适的那道菜。";
    SERVED: "Σ a · v",
        "What is served: the values mixed by their shares.",
        "上桌的结果：按份额混合的值。";
    SOLD_OUT: "−∞ for the third key",
        "The third dish is masked, as if sold out: the others share its part.",
        "第三道菜被遮住，就像卖完了：它的份额分给其他的菜。";
    GELU_ERF: "x · Φ(x)",
        "GELU by the error function: each number times the chance that a normal draw is below it.",
        "用误差函数的 GELU：每个数乘以正态随机数小于它的概率。";
    GELU_TANH: "x/2 · (1 + tanh(√(2/π)(x + 0.044715 x³)))",
        "GPT-2's form with tanh: almost the same, and cheaper when it was written.",
        "GPT-2 用 tanh 的形式：几乎相同，当年算起来更省。";
    SOFTMAX_AT_1: "softmax(x)",
        "At temperature 1 the largest number gets most, and the others keep a share.",
        "温度为 1 时，最大的数得到最多，其余的也有份额。";
    SOFTMAX_AT_2: "softmax(x / 2)",
        "At temperature 2 the shares are more even.",
        "温度为 2 时，份额更平均。";
    SOFTMAX_AT_TENTH: "softmax(x / 0.1)",
        "At temperature 0.1 the largest takes almost everything.",
        "温度为 0.1 时，最大的数几乎拿走全部。";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_one_sentence_in_both_languages() {
        for (name, Sentence { formula, text, text_zh }) in ALL {
            assert!(!formula.is_empty() && text.ends_with('.') && text_zh.ends_with('。'), "{name}");
            assert!(
                text.is_char_boundary(1) && text.chars().next().is_some_and(char::is_uppercase),
                "{name}"
            );
            assert!(text_zh.chars().filter(|c| ('\u{4e00}'..'\u{9fff}').contains(c)).count() >= 4, "{name}");
            assert!(!text.trim_end_matches('.').contains(". "), "{name} has more than one sentence");
            assert_eq!(formula.matches('‹').count(), formula.matches('›').count(), "{name}");
        }
    }

    #[test]
    fn a_formula_has_its_bias_or_not() {
        assert_eq!(QUERY_ROTATED.formula(true), "q = R_p · (x W_q + b_q)");
        assert_eq!(QUERY_ROTATED.formula(false), "q = R_p · (x W_q)");
        assert_eq!(JOINED.formula(false), "z = [z₀, z₁, …]");
    }
}
