//! How many tokens each running text feeds to the model in a step.

/// Prompt tokens are shared out in portions of this size.
const PORTION: usize = 16;

/// What one text feeds to the model in a step.
#[derive(Debug)]
pub(super) struct Share {
    /// The index of its request among those that run.
    pub running: usize,
    /// The index of the text among those of its request.
    pub sequence: usize,
    pub tokens: usize,
    /// The most tokens that it may feed in one step.
    pub most: usize,
    /// Its tokens that are not in the cache yet.
    pub pending: usize,
}

impl Share {
    /// Whether the text decodes: it feeds its latest token, and nothing else is pending.
    pub fn decodes(&self) -> bool {
        self.pending == 1
    }
}

/// Gives every text that decodes its token, and deals `budget` tokens round-robin to the texts in prefill, beginning with
/// another one at each `turn`. Texts without tokens are dropped.
pub(super) fn deal(shares: &mut Vec<Share>, mut budget: usize, turn: usize) {
    let mut order = Vec::new();
    for (i, share) in shares.iter_mut().enumerate() {
        share.tokens = usize::from(share.decodes());
        if !share.decodes() {
            order.push(i);
        }
    }
    if !order.is_empty() {
        let first = turn % order.len();
        order.rotate_left(first);
    }
    let mut progressed = true;
    while budget > 0 && progressed {
        progressed = false;
        for &i in &order {
            let share = &mut shares[i];
            let more = PORTION.min(budget).min(share.most - share.tokens);
            share.tokens += more;
            budget -= more;
            progressed |= more > 0;
        }
    }
    shares.retain(|share| share.tokens > 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_texts_get_their_token_and_prompts_take_turns() {
        let tokens = |budget, turn| {
            let share =
                |(sequence, pending)| Share { running: 0, sequence, tokens: 0, most: pending, pending };
            let mut shares: Vec<Share> = [1, 40, 5, 40].into_iter().enumerate().map(share).collect();
            deal(&mut shares, budget, turn);
            shares.iter().map(|share| (share.sequence, share.tokens)).collect::<Vec<_>>()
        };
        assert_eq!(tokens(1000, 0), [(0, 1), (1, 40), (2, 5), (3, 40)]);
        assert_eq!(tokens(20, 0), [(0, 1), (1, 16), (2, 4)]);
        assert_eq!(tokens(20, 1), [(0, 1), (2, 5), (3, 15)]);
        assert_eq!(tokens(60, 2), [(0, 1), (1, 23), (2, 5), (3, 32)]);
    }
}
