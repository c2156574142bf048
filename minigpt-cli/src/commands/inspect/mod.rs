//! `minigpt inspect`: what a model makes of a text: its tokens, how likely each was, what may come next, which token looked at
//! which, every number of the pass, and what each part of the model does. The numbers are made by `minigpt-insight`; here they
//! become tables, bars and JSON.

mod ablation;
mod answer;
mod args;
mod attention;
mod attribution;
mod boundaries;
mod heads;
mod html;
mod lens;
mod over_training;
mod patching;
mod relations;
mod roles_chart;
mod streamed;
mod tokens;
mod walk;

pub use args::InspectArgs;

use crate::language::messages::inspect as message;
use crate::tensors::TensorTree;
use crate::{language, models, output, sampling};
use answer::Answer;
use anyhow::{Context, Result, ensure};
use minigpt::ModelFolder;
use minigpt_data::Unknown;
use minigpt_formats::OnDisk;
use minigpt_insight::{Subject, WalkExample};
use serde::Serialize;

/// Runs the command.
pub fn run(args: &InspectArgs) -> Result<()> {
    if let Some(example) = args.example {
        return show_example(example.into(), args);
    }
    let name = args.model.as_deref().context(message::NameAModel)?;
    if args.snapshots {
        return over_training::run(args, name);
    }
    let place = models::find(name)?;
    if args.tensors {
        let files = OnDisk::open(&place)?;
        let tree = TensorTree::of(files.model()?.config());
        return if args.json { output::json(&tree) } else { output::text(tree.draw()) };
    }
    let model = args.products.open(&place, &args.device.open()?, None)?;
    say_what_is_left_out(args, &model);
    let answer = Answer::new(args, &model)?;
    if let Some(file) = &args.html {
        html::write(file, &model, &answer)?;
    }
    if args.json {
        return output::json(&streamed::WithAttention {
            answer: &answer,
            model: &model,
            wanted: args.attention,
        });
    }
    show(args, &model, &answer)?;
    match &args.html {
        Some(file) => output::text(message::ViewsWritten { file: &file.display() }),
        None => Ok(()),
    }
}

/// Says which characters of the given texts the vocabulary lacks, and which options of the walk's choice do nothing.
fn say_what_is_left_out(args: &InspectArgs, model: &ModelFolder) {
    if let Some(tokenizer) = &model.tokenizer {
        for (option, text) in args.texts() {
            output::unknown(option, tokenizer, &Unknown::beside_special(tokenizer, text));
        }
    }
    sampling::say_unused(&args.choice(), &[("--top-k", args.top_k > 0), ("--top-p", args.top_p < 1.0)]);
}

/// All that was asked for, as people read it.
fn show(args: &InspectArgs, model: &ModelFolder, answer: &Answer) -> Result<()> {
    output::text(tokens::summary(model))?;
    if let Some(text) = &answer.text {
        output::text(tokens::positions(text))?;
        output::text(tokens::next(text))?;
        if args.attention {
            let (layer, labels) =
                (args.layer.unwrap_or(model.gpt.config().n_layer - 1), tokens::labels(text));
            let weights =
                minigpt_insight::layer_attention(&Subject::new(&model.gpt), &text.ids, layer)?.weights;
            output::text(attention::draw(&weights, layer, args.head, &labels))?;
        }
        let views = [
            answer
                .attention_summary
                .as_ref()
                .map(|summary| attention::summary(summary, &tokens::labels(text))),
            answer.lens.as_ref().map(|lens| lens::draw(lens, &tokens::labels(text), args.position)),
            answer.attribution.as_ref().map(attribution::draw),
            answer.ablation.as_ref().map(|report| ablation::draw(report, &tokens::labels(text))),
            answer.patching.as_ref().map(|patching| patching::draw(patching, &tokens::labels(text))),
            answer.boundaries.as_ref().map(boundaries::draw),
            answer
                .walk
                .as_ref()
                .map(|walk| walk::draw(&walk.walk, language::current(), &|id| tokens::name(model, id))),
        ];
        views.into_iter().flatten().try_for_each(|view| output::text(&view))?;
    }
    if let Some(roles) = &answer.heads {
        output::text(heads::draw(roles))?;
    }
    answer.syntax.as_ref().map_or(Ok(()), |relations| output::text(relations::draw(relations)))
}

fn show_example(example: WalkExample, args: &InspectArgs) -> Result<()> {
    #[derive(Serialize)]
    struct Example {
        walk: Vec<minigpt_insight::WalkStep>,
    }
    let walk = example.walk()?;
    if args.json {
        output::json(&Example { walk })
    } else {
        output::text(walk::draw(&walk, language::current(), &|_| None))
    }
}

/// Refuses a layer, head or position that is not there, in the words of the command line.
fn check_place(args: &InspectArgs, model: &ModelFolder, tokens: usize) -> Result<()> {
    let config = model.gpt.config();
    if let Some(layer) = args.layer {
        let last = config.n_layer - 1;
        ensure!(layer <= last, "{}", message::NoSuchLayer { layer: &layer, last: &last });
    }
    if let Some(head) = args.head {
        let last = config.n_head - 1;
        ensure!(head <= last, "{}", message::NoSuchHead { head: &head, last: &last });
    }
    if let Some(position) = args.position {
        let last = tokens - 1;
        ensure!(position <= last, "{}", message::NoSuchPosition { position: &position, last: &last });
    }
    Ok(())
}
