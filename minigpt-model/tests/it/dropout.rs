//! Dropout in the model: only in training, in each of its places, and repeatable.

use candle_core::Device;
use minigpt_model::{Config, Gpt, Pass};

fn small() -> Config {
    let config =
        Config { vocab_size: 31, block_size: 16, n_layer: 2, n_head: 2, n_embd: 16, ..Config::default() };
    Config { initializer_range: 0.2, ..config }.with_dropout(0.0)
}

fn loss(gpt: &Gpt, dropout: Option<u64>) -> f32 {
    let (ids, targets) = (gpt.ids(&[[1, 2, 3, 4, 5]]).unwrap(), gpt.ids(&[[2, 3, 4, 5, 6]]).unwrap());
    gpt.loss(&ids, &targets, Pass { dropout, ..Pass::default() })
        .unwrap()
        .mean()
        .unwrap()
        .to_scalar()
        .unwrap()
}

#[test]
fn each_place_drops_in_training_and_only_there() {
    let evaluated = loss(&Gpt::new(small(), 1, &Device::Cpu).unwrap(), None);
    let places: [fn(&mut Config) -> &mut f64; 3] =
        [|c| &mut c.embd_pdrop, |c| &mut c.attn_pdrop, |c| &mut c.resid_pdrop];
    for place in places {
        let mut config = small();
        *place(&mut config) = 0.5;
        let gpt = Gpt::new(config, 1, &Device::Cpu).unwrap();
        assert_eq!(loss(&gpt, None), evaluated, "nothing is dropped outside of training");
        assert_ne!(loss(&gpt, Some(7)), evaluated);
        assert_eq!(loss(&gpt, Some(7)), loss(&gpt, Some(7)), "the same key drops the same");
        assert_ne!(loss(&gpt, Some(7)), loss(&gpt, Some(8)), "another key drops something else");
    }
}

#[test]
fn a_key_without_dropout_changes_nothing() {
    let gpt = Gpt::new(small(), 1, &Device::Cpu).unwrap();
    assert_eq!(loss(&gpt, Some(7)), loss(&gpt, None));
}
