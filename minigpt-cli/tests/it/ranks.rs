//! Training on several ranks as a person types it, without MPI: threads play the processes. `scripts/test-ranks` does the
//! same under mpirun.

use crate::support::{Done, Place, Program, assert_contains, minigpt};

/// A place with a text and a configuration.
struct Ranks(Place);

impl Ranks {
    fn new() -> Self {
        let place = Place::new();
        let text: String = (0..500).map(|i| format!("{i} times {} is {}. ", i % 7, i * (i % 7))).collect();
        let text = place.write("text.txt", text);
        let config = format!(
            "[model]\nn_layer = 2\nn_head = 2\nn_embd = 32\nblock_size = 16\ndropout = 0.1\n\
             [data]\npath = {text:?}\ntokenizer = \"bpe:300\"\n\
             [train]\nparts = 4\nbatch_size = 6\nmax_iters = 12\nwarmup_iters = 2\neval_interval = 6\neval_iters = 3\n\
             log_interval = 1\noptimizer = \"muon\"\n",
        );
        place.write("config.toml", config);
        Self(place)
    }

    fn train(&self, out: &str, more: &[&str]) -> Program {
        let (config, out) = (self.0.text("config.toml"), self.0.text(out));
        minigpt(&[&["train", "--quiet", "--config", &config, "--out", &out], more].concat())
    }

    fn trained(&self, out: &str, more: &[&str]) -> Done {
        self.train(out, more).run().success()
    }

    fn left(&self, out: &str) -> [Vec<u8>; 3] {
        ["last/model.safetensors", "last/optimizer.safetensors", "best/model.safetensors"]
            .map(|file| self.0.read(&format!("{out}/{file}")))
    }
}

#[test]
fn any_number_of_ranks_trains_the_same_model_and_goes_on_with_any_other() {
    let ranks = Ranks::new();
    ranks.trained("one", &[]);
    for (out, number) in [("two", "2"), ("four", "4")] {
        ranks.trained(out, &["--ranks", number]);
        assert!(ranks.left(out) == ranks.left("one"), "{number} ranks trained another model");
    }
    // Stopped and resumed on other numbers of ranks; the learning rate is that of the whole run.
    let until = |step: &str| [format!("train.max_iters={step}"), "train.lr_decay_iters=12".to_owned()];
    for (step, number, resume) in
        [("5", "3", None), ("8", "2", Some("--resume")), ("12", "4", Some("--resume"))]
    {
        let [iters, decay] = until(step);
        let more = ["--ranks", number, "--set", &iters, "--set", &decay];
        ranks.trained("stopped", &more.into_iter().chain(resume).collect::<Vec<_>>());
    }
    assert!(ranks.left("stopped")[..2] == ranks.left("one")[..2], "it went on with other weights");
    // From another model's weights and tokenizer, which only the first rank opens.
    let from = ranks.0.text("one/best");
    for (out, number) in [("further", "1"), ("further-two", "2")] {
        ranks.trained(out, &["--from", &from, "--ranks", number, "--set", "train.max_iters=3"]);
    }
    assert!(ranks.left("further") == ranks.left("further-two"));
}

#[test]
fn an_error_on_ranks_is_said_once() {
    let ranks = Ranks::new();
    let done = ranks
        .train("run", &["--ranks", "3", "--set", "train.learning_rate=1e30", "--set", "train.grad_clip=0"]);
    let said = done.run().code(1).stderr().to_owned();
    assert_contains(&said, &["training has diverged"]);
    assert_eq!(said.matches("error:").count(), 1, "{said}");
    let said = ranks
        .train("run", &["--ranks", "2", "--set", "data.path=/no/such/text"])
        .run()
        .code(1)
        .stderr()
        .to_owned();
    assert_contains(&said, &["/no/such/text"]);
}

#[test]
fn a_launcher_without_its_library_is_named_and_one_of_a_single_process_is_none() {
    let ranks = Ranks::new();
    let launched = |size: &str| {
        let program = ranks.train(size, &["--set", "train.max_iters=1"]).env("OMPI_COMM_WORLD_SIZE", size);
        program.env("MINIGPT_MPI_LIBRARY", "/no/such/libmpi.so.40")
    };
    launched("1").run().success();
    let said = launched("2").run().code(1).stderr().to_owned();
    assert_contains(&said, &["started by Open MPI", "/no/such/libmpi.so.40", "MINIGPT_MPI_LIBRARY"]);
}

#[test]
fn machines_are_planned_for() {
    let plan =
        |more: &[&str]| minigpt(&[&["plan", "gpt2", "--flops-per-second", "1e12"], more].concat()).run();
    let json =
        plan(&["--machines", "8", "--network", "10GbE", "--batch-size", "64", "--json"]).success().json();
    let cluster = &json["cluster"];
    assert!(
        cluster["exchange_seconds"].as_f64().unwrap() > 0.0 && cluster["pays_from"].as_u64().unwrap() > 0
    );
    let speeds = cluster["by_machines"].as_array().unwrap();
    assert_eq!(speeds.iter().map(|speed| speed["machines"].as_u64().unwrap()).collect::<Vec<_>>(), [2, 4, 8]);
    assert!(json["cluster"]["bytes_a_rank"].as_u64() < json["train_bytes"].as_u64());
    let shown = plan(&["--machines", "8", "--network", "25Gbit,10us"]).success().stdout().to_owned();
    assert_contains(
        &shown,
        &["On 8 machines", "speed-up", "faster than one machine from", "memory per machine"],
    );
    assert_contains(
        plan(&["--machines", "8", "--network", "wifi"]).code(2).stderr(),
        &["wifi is no network", "10GbE"],
    );
}
