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
    let pass = dropout.map_or_else(Pass::new, |key| Pass::new().with_dropout(key));
    gpt.loss(&ids, &targets, &pass).unwrap().mean().unwrap().to_scalar().unwrap()
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

#[test]
fn a_row_drops_the_same_elements_alone_in_a_part_and_in_the_whole_batch() {
    let gpt = Gpt::new(small().with_dropout(0.3), 1, &Device::Cpu).unwrap();
    let rows: Vec<Vec<u32>> =
        (0..6).map(|row| (0..9).map(|t| (row * 7 + t * t + 1) % 31).collect()).collect();
    let floats = |x: candle_core::Tensor| x.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    let whole = gpt.forward(&gpt.ids(&rows).unwrap(), &Pass::new().with_dropout(5)).unwrap();
    for part in [vec![0usize], vec![4, 1], vec![5, 2, 3]] {
        let ids: Vec<&Vec<u32>> = part.iter().map(|&row| &rows[row]).collect();
        let pass = Pass::new().with_dropout(5).with_rows(&part);
        let got = gpt.forward(&gpt.ids(&ids).unwrap(), &pass).unwrap();
        for (i, &row) in part.iter().enumerate() {
            let (got, want) = (floats(got.get(i).unwrap()), floats(whole.get(row).unwrap()));
            let largest = got
                .iter()
                .zip(&want)
                .map(|(a, b)| (a - b).abs())
                .fold(0f32, |most, x| if x.is_nan() { f32::INFINITY } else { most.max(x) });
            assert!(largest < 1e-4, "row {row} of {part:?} differs by {largest}");
        }
    }
}
