//! What holds for every model and text: attribution sums to the logit, the lens's last row is the logits, patching everything
//! gives the clean run, ablating nothing changes nothing.

use crate::support;
use candle_core::Tensor;
use minigpt_insight::{
    Ablation, AblationOptions, Component, Error, LensOptions, RepeatOptions, Subject, Transplant, Undefined,
    WalkFocus, ablate, attention_summary, attribution, each_layer, head_roles, layer_attention, lens, patch,
    reading, walk,
};
use minigpt_kernels::ElementType;
use minigpt_model::{Gpt, NormPosition, Recording, Site};
use proptest::prelude::*;

/// Every configuration, plain and quantised.
fn models() -> Vec<Gpt> {
    let plain = support::models(16);
    let quantized = plain.iter().cloned().map(|gpt| gpt.quantized(ElementType::Q8_0).unwrap());
    plain.iter().cloned().chain(quantized.collect::<Vec<_>>()).collect()
}

fn logits(gpt: &Gpt, ids: &[u32]) -> Vec<Vec<f32>> {
    gpt.logits(&gpt.ids(&[ids]).unwrap()).unwrap().get(0).unwrap().to_vec2().unwrap()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-4 * b.abs().max(1.0)
}

fn texts() -> impl Strategy<Value = (usize, Vec<u32>)> {
    (0..8usize, prop::collection::vec(0..29u32, 1..16))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn attribution_sums_to_the_logit((model, ids) in texts(), token in prop::option::of(0..29u32)) {
        let gpt = &models()[model];
        let subject = Subject::new(gpt);
        for position in [0, ids.len() - 1] {
            let answer = attribution(&subject, &ids, position, token);
            if gpt.config().norm_position == NormPosition::Post {
                let error = answer.unwrap_err();
                prop_assert!(matches!(&error, Error::Undefined(Undefined::PostNormAttribution)), "{error}");
                continue;
            }
            let answer = answer.unwrap();
            let want = logits(gpt, &ids)[position][answer.attribution_of.id as usize];
            prop_assert!(close(answer.total, f64::from(want)), "{} is not {want}", answer.total);
            prop_assert!(close(answer.attribution.iter().map(|share| share.logit).sum(), answer.attribution_of.logit));
            // Embedding, four heads and two MLPs are always there.
            let heads = answer.attribution.iter().filter(|share| share.head.is_some()).count();
            prop_assert_eq!(heads, 4);
        }
    }

    #[test]
    fn the_lenss_last_row_is_the_logits((model, ids) in texts()) {
        let gpt = &models()[model];
        let seen = lens(&Subject::new(gpt), &ids, LensOptions { top: 3, logits: true }).unwrap();
        let all = seen.lens_logits.unwrap();
        prop_assert_eq!((all.len(), seen.lens.len()), (3, 3));
        for (got, want) in all[2].iter().flatten().zip(logits(gpt, &ids).iter().flatten()) {
            prop_assert!(close(f64::from(*got), f64::from(*want)), "{} is not {}", got, want);
        }
        let sum: f64 = seen.lens[1][0].iter().map(|candidate| candidate.probability).sum();
        prop_assert!(seen.lens[1][0].len() == 3 && sum > 3.0 / 29.0 - 1e-6 && sum <= 1.0 + 1e-6, "{}", sum);
    }

    #[test]
    fn patching_everything_gives_the_clean_run((model, clean) in texts(), shift in 1..29u32) {
        let gpt = &models()[model];
        let subject = Subject::new(gpt);
        let corrupt: Vec<u32> = clean.iter().map(|id| (id + shift) % 29).collect();
        let mut seen = Recording::of(Site::all(2));
        let want = subject.logits(&clean, &mut seen).unwrap();
        // All sites but the answer itself.
        let mut kept = seen.into_kept();
        kept.remove(&Site::Logits);
        let got = subject.logits(&corrupt, &mut Transplant(kept)).unwrap();
        prop_assert_eq!(got.to_vec2::<f32>().unwrap(), want.to_vec2::<f32>().unwrap());
    }

    #[test]
    fn ablating_nothing_changes_nothing((model, ids) in texts()) {
        let gpt = &models()[model];
        let subject = Subject::new(gpt);
        let mut nothing = Ablation::zero(&subject, &[]).unwrap();
        let got = subject.logits(&ids, &mut nothing).unwrap().to_vec2::<f32>().unwrap();
        prop_assert_eq!(got, logits(gpt, &ids));
    }

    #[test]
    fn a_walk_ends_in_the_logits_and_its_shapes_are_true((model, ids) in texts(), at in 0..100usize) {
        let gpt = &models()[model];
        let focus = WalkFocus { layer: at % 2, head: at / 2 % 2, position: at % ids.len() };
        let steps = walk(&Subject::new(gpt), &ids, focus).unwrap().walk;
        for step in &steps {
            prop_assert_eq!(step.shape.iter().product::<usize>(), step.values.len(), "{}", step.site);
            prop_assert!(!step.values.is_empty(), "{}", step.site);
        }
        let end = steps.last().unwrap();
        prop_assert_eq!(&end.site, "logits");
        for (got, want) in end.values.iter().zip(&logits(gpt, &ids)[focus.position]) {
            prop_assert!(close(f64::from(*got), f64::from(*want)));
        }
        // The weighted values sum to the head's mix, and scaled scores to the masked ones where they may be seen.
        let find = |end: &str| &steps.iter().find(|step| step.site.ends_with(end)).unwrap().values;
        let (mix, weighted) = (find("attn.z"), find("attn.z.weighted"));
        for (d, mixed) in mix.iter().enumerate() {
            let sum: f32 = weighted.iter().skip(d).step_by(mix.len()).sum();
            prop_assert!(close(f64::from(sum), f64::from(*mixed)));
        }
        let (scaled, masked) = (find("attn.scores.scaled"), find("attn.scores"));
        prop_assert!(scaled.iter().zip(masked).all(|(a, b)| close(f64::from(*a), f64::from(*b))));
        prop_assert!(masked[scaled.len()..].iter().all(|&score| score == f32::NEG_INFINITY));
    }
}

#[test]
fn a_part_that_is_off_is_off() {
    for gpt in models() {
        let subject = Subject::new(&gpt);
        let ids = [3, 14, 15, 9, 26, 5];
        let options = AblationOptions { top: 5, continuation: 3 };
        for name in ["0.1", "1.0", "mlp.0", "attn.1", "layer.1"] {
            let part: Component = name.parse().unwrap();
            for reference in [None, Some(&ids[..])] {
                let report = ablate(&subject, &ids, &[part], reference, options).unwrap();
                assert_ne!(report.before.reading.loss, report.after.reading.loss, "{name}");
                assert_eq!(report.after.continuation.len(), 3);
            }
        }
        // A text of one token: the mean over it is what stood there.
        let one = ablate(&subject, &[7], &["layer.0".parse().unwrap()], Some(&[7]), options).unwrap();
        assert_eq!(one.before.reading, one.after.reading);
        let wrong = ablate(&subject, &ids, &["2.0".parse().unwrap()], None, options).unwrap_err();
        assert_eq!(wrong.to_string(), "there is no layer 2: there are 0 to 1");
        // Both parts of a layer together are the layer.
        let off = |names: &[&str]| {
            let parts: Vec<Component> = names.iter().map(|name| name.parse().unwrap()).collect();
            ablate(&subject, &ids, &parts, None, options).unwrap().after
        };
        assert_eq!(off(&["attn.0", "mlp.0"]), off(&["layer.0"]));
    }
}

#[test]
fn patching_the_first_layer_at_all_places_that_differ_brings_all_back() {
    for gpt in models() {
        let subject = Subject::new(&gpt);
        // Only one token differs: where it enters, it is all that there is to bring back.
        let (clean, corrupt) = ([3, 14, 15, 9, 26], [3, 14, 8, 9, 26]);
        let patching = patch(&subject, &clean, &corrupt, Some(1), Some(2)).unwrap();
        assert_eq!((patching.layers_positions.len(), patching.layers_heads.len()), (2, 2));
        let first = &patching.layers_positions[0];
        assert!(close(first[2], 1.0), "{first:?}");
        assert_eq!(first[..2], [0.0, 0.0]);
        assert!(first[3].abs() < 1e-4 && first[4].abs() < 1e-4, "{first:?}");
        assert!(patching.layers_heads.iter().flatten().all(|share| share.is_finite()));
        let wrong = patch(&subject, &clean, &corrupt[..4], None, None).unwrap_err().to_string();
        assert!(wrong.contains("5 and 4"), "{wrong}");
        assert!(patch(&subject, &clean, &clean, None, None).is_err());
    }
}

#[test]
fn attention_is_seen_layer_by_layer_and_in_summary() {
    for gpt in models() {
        let subject = Subject::new(&gpt);
        let ids = [3, 14, 15, 9, 26, 5];
        let mut layers = Vec::new();
        each_layer(&subject, &ids, |layer, pattern: &Tensor| {
            assert_eq!((layer, pattern.dims()), (layers.len(), &[2, 6, 6][..]));
            layers.push(pattern.to_vec3::<f32>()?);
            Ok(())
        })
        .unwrap();
        // Layers that nobody looks at are fused, and round otherwise.
        let alone = layer_attention(&subject, &ids, 1).unwrap().weights;
        for (a, b) in alone.iter().flatten().flatten().zip(layers[1].iter().flatten().flatten()) {
            assert!((a - b).abs() < 1e-6);
        }
        let summary = attention_summary(&subject, &ids).unwrap();
        assert_eq!(summary.heads.len(), 4);
        for row in &summary.rollout {
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5, "{row:?}");
        }
        for head in &summary.heads {
            assert!(
                (0.0..=6f64.log2()).contains(&head.entropy) && (0.0..=1.0).contains(&head.first),
                "{head:?}"
            );
        }
    }
}

#[test]
fn fresh_models_have_heads_without_roles() {
    for gpt in models() {
        let roles = head_roles(
            &Subject::new(&gpt),
            RepeatOptions { never: &[0], seed: 7, ..RepeatOptions::default() },
        )
        .unwrap();
        assert_eq!(roles.heads.len(), 4);
        assert!(roles.repeated.sequences.iter().flatten().all(|&id| id != 0 && id < 29));
        assert!(roles.copying.second_half_loss.is_finite());
        let post = gpt.config().norm_position == NormPosition::Post;
        for head in &roles.heads {
            assert_eq!(head.copied.is_none(), post);
            assert!((0.0..=1.0).contains(&head.scores.induction) && head.detect_head.induction.mul <= 1.0);
        }
    }
}

#[test]
fn what_is_not_there_is_refused_in_words() {
    let gpt = &models()[0];
    let subject = Subject::new(gpt);
    let said = |error: Error| error.to_string();
    assert!(said(reading(&subject, &[], 3).unwrap_err()).contains("no token"));
    assert!(said(reading(&subject, &[1; 17], 3).unwrap_err()).contains("context of 16"));
    assert!(said(reading(&subject, &[29], 3).unwrap_err()).contains("0 to 28"));
    assert!(said(attribution(&subject, &[1, 2], 2, None).unwrap_err()).contains("no position 2"));
    assert!(said(attribution(&subject, &[1, 2], 1, Some(29)).unwrap_err()).contains("no token 29"));
    assert!(said(layer_attention(&subject, &[1], 2).unwrap_err()).contains("no layer 2"));
    let far = RepeatOptions { distance: Some(9), ..RepeatOptions::default() };
    assert!(said(head_roles(&subject, far).unwrap_err()).contains("from 2 to 8"));
    let focus = WalkFocus { layer: 0, head: 2, position: 0 };
    assert!(said(walk(&subject, &[1], focus).unwrap_err()).contains("no head 2"));
}

#[test]
fn results_are_json_with_the_fields_that_programs_rely_on() {
    let gpt = &models()[0];
    let names = |ids: &[u32]| Some(format!("<{}>", ids[0]));
    let subject = Subject::new(gpt).with_words(&names);
    let ids = [3, 14, 15];
    let json = |value: &dyn Fn() -> serde_json::Value| value();
    let walk = json(&|| {
        serde_json::to_value(walk(&subject, &ids, WalkFocus { layer: 1, head: 0, position: 1 }).unwrap())
            .unwrap()
    });
    for step in walk["walk"].as_array().unwrap() {
        for field in ["site", "layer", "head", "shape", "values", "text", "text_zh", "formula"] {
            assert!(step.get(field).is_some(), "{field} of {step}");
        }
    }
    let roles = serde_json::to_value(
        head_roles(&subject, RepeatOptions { distance: Some(5), ..RepeatOptions::default() }).unwrap(),
    )
    .unwrap();
    for field in ["layer", "head", "previous", "duplicate", "induction", "baseline", "role", "detect_head"] {
        assert!(roles["heads"][0].get(field).is_some(), "{field}");
    }
    let read = serde_json::to_value(reading(&subject, &ids, 2).unwrap()).unwrap();
    assert_eq!(read["tokens"][1]["token"], "<14>");
    assert_eq!(read["top"].as_array().unwrap().len(), 2);
}
