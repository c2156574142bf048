//! Hooks: every site is passed, what is seen is what was computed, and what is replaced takes effect.

use crate::support;
use candle_core::Tensor;
use minigpt_model::{BlockSite, Gpt, Hook, NormPosition, Pass, Recording, Site};

fn models() -> Vec<Gpt> {
    support::models(16)
}

fn ids(gpt: &Gpt) -> Tensor {
    gpt.ids(&[[1u32, 5, 9, 2, 7, 3, 11], [4, 4, 8, 20, 1, 6, 28]]).unwrap()
}

fn floats(x: &Tensor) -> Vec<f32> {
    x.flatten_all().unwrap().to_vec1().unwrap()
}

fn assert_close(got: &Tensor, want: &Tensor) {
    assert_eq!(got.dims(), want.dims());
    let want = floats(want);
    let scale = want.iter().fold(1e-3f32, |most, x| most.max(x.abs()));
    for (got, want) in floats(got).iter().zip(&want) {
        let difference = (got - want).abs() / scale;
        assert!(difference <= 2e-5, "{got} is not {want}");
    }
}

/// A hook made of a site and a function of what stands there.
struct Replace<F>(Site, F);

impl<F: FnMut(&Tensor) -> candle_core::Result<Tensor>> Hook for Replace<F> {
    fn wants(&self, site: Site) -> bool {
        site == self.0
    }

    fn at(&mut self, _site: Site, x: &Tensor) -> candle_core::Result<Option<Tensor>> {
        (self.1)(x).map(Some)
    }
}

fn replaced(gpt: &Gpt, site: Site, f: impl FnMut(&Tensor) -> candle_core::Result<Tensor>) -> Tensor {
    let mut hook = Replace(site, f);
    gpt.forward(&ids(gpt), &Pass::new().with_hook(&mut hook)).unwrap()
}

#[test]
fn every_site_is_seen_with_its_shape_and_looking_changes_nothing() {
    use BlockSite::*;
    for gpt in models() {
        let mut seen = Recording::of(Site::all(2));
        let logits = gpt.forward(&ids(&gpt), &Pass::new().with_hook(&mut seen)).unwrap();
        assert_close(&logits, &gpt.logits(&ids(&gpt)).unwrap());
        let (b, t, c, h, d, v) = (2, 7, 12, 2, 6, 29);
        for site in Site::all(2) {
            let Some(x) = seen.get(site) else {
                assert!(site == Site::LnF && gpt.config().norm_position == NormPosition::Post, "{site}");
                continue;
            };
            let want = match site {
                Site::Block(_, Q | K | V) => vec![b, h, t, d],
                Site::Block(_, Scores | Pattern) => vec![b, h, t, t],
                Site::Block(_, Z) => vec![b, t, h, d],
                Site::Block(_, MlpPre | MlpPost) => vec![b, t, 4 * c],
                Site::Logits => vec![b, t, v],
                _ => vec![b, t, c],
            };
            assert_eq!(x.dims(), want, "{site}");
        }
        assert_eq!(floats(seen.get(Site::Logits).unwrap()), floats(&logits));
    }
}

#[test]
fn what_is_seen_obeys_the_formulas() {
    for gpt in models() {
        let mut seen = Recording::of(Site::all(2));
        gpt.forward(&ids(&gpt), &Pass::new().with_hook(&mut seen)).unwrap();
        let at = |site| seen.get(Site::Block(1, site)).unwrap();
        // A residual is the sum of what it was and what was added.
        let before = match gpt.config().norm_position {
            NormPosition::Pre => seen.get(Site::Block(0, BlockSite::ResidPost)).unwrap(),
            NormPosition::Post => seen.get(Site::Block(0, BlockSite::Ln2)).unwrap(),
        };
        assert_close(at(BlockSite::ResidMid), &(before + at(BlockSite::AttnOut)).unwrap());
        // Scores are q · k over the root of the width; patterns are shares of 1 among the tokens so far; z mixes values.
        let (q, k, v) = (at(BlockSite::Q), at(BlockSite::K), at(BlockSite::V));
        let scores = (q.contiguous().unwrap().matmul(&k.contiguous().unwrap().t().unwrap()).unwrap()
            / 6f64.sqrt())
        .unwrap();
        let patterns = at(BlockSite::Pattern);
        let (masked, free) = (at(BlockSite::Scores), floats(&scores));
        let positions = (0..4 * 7 * 7).map(|i| (i / 7 % 7, i % 7));
        for (((query, key), masked), free) in positions.zip(floats(masked)).zip(free) {
            let same = (masked - free).abs() < 1e-5;
            assert!(if key <= query { same } else { masked == f32::NEG_INFINITY });
        }
        for row in floats(patterns).chunks(7) {
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5);
        }
        let mixed = patterns.matmul(&v.contiguous().unwrap()).unwrap().transpose(1, 2).unwrap();
        assert_close(at(BlockSite::Z), &mixed.contiguous().unwrap());
    }
}

#[test]
fn what_a_hook_puts_in_place_is_what_the_pass_goes_on_with() {
    for gpt in models() {
        let plain = gpt.logits(&ids(&gpt)).unwrap();
        for site in Site::all(2) {
            if site == Site::LnF && gpt.config().norm_position == NormPosition::Post {
                continue;
            }
            // The same values change nothing, others change the logits.
            assert_close(&replaced(&gpt, site, |x| Ok(x.clone())), &plain);
            // Not a mere scaling, which a norm would undo.
            let other = replaced(&gpt, site, |x| (x.clamp(-10f32, 10f32)?.sqr()? * 0.5)? + 0.01);
            let moved = floats(&other).iter().zip(floats(&plain)).any(|(a, b)| (a - b).abs() > 1e-4);
            assert!(moved, "{site} has no effect");
        }
    }
}

#[test]
fn a_head_whose_mix_is_zero_adds_only_the_bias() {
    let gpt = &models()[1];
    let mut seen = Recording::of([Site::Block(0, BlockSite::AttnOut)]);
    struct Off<'a>(&'a mut Recording);
    impl Hook for Off<'_> {
        fn wants(&self, site: Site) -> bool {
            site == Site::Block(0, BlockSite::Z) || self.0.wants(site)
        }
        fn at(&mut self, site: Site, x: &Tensor) -> candle_core::Result<Option<Tensor>> {
            if self.0.wants(site) { self.0.at(site, x) } else { x.zeros_like().map(Some) }
        }
    }
    gpt.forward(&ids(gpt), &Pass::new().with_hook(&mut Off(&mut seen))).unwrap();
    let added = seen.get(Site::Block(0, BlockSite::AttnOut)).unwrap();
    assert!(floats(added).iter().all(|&x| x == 0.0), "this model has no biases");
}

#[test]
fn another_shape_is_refused() {
    let gpt = &models()[0];
    let mut hook = Replace(Site::Embed, |x: &Tensor| x.narrow(1, 0, 2));
    let error = gpt.forward(&ids(gpt), &Pass::new().with_hook(&mut hook)).unwrap_err().to_string();
    assert!(error.contains("at embed"), "{error}");
}
