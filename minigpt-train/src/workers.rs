//! One batch on several threads: each takes rows of its own through the whole model. Small products suffer from being
//! split over threads; rows don't.

use minigpt_model::Gpt;
use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use std::panic::resume_unwind;
use std::thread;

/// Threads that each have a pool of one: what runs there is not split any further.
#[derive(Debug)]
pub struct Workers(Vec<ThreadPool>);

impl Workers {
    /// So many threads.
    pub fn new(threads: usize) -> Result<Self, ThreadPoolBuildError> {
        let pool =
            |i| ThreadPoolBuilder::new().num_threads(1).thread_name(move |_| format!("worker-{i}")).build();
        Ok(Self((0..threads.max(1)).map(pool).collect::<Result<_, _>>()?))
    }

    /// As many as a model is trained with: all, or one for a large model on the CPU and for any on a GPU. Each has
    /// gradients of its own, which must not cost more memory than the time is worth, and a large model's products are
    /// large enough to be split instead.
    pub fn for_model(gpt: &Gpt) -> Result<Self, ThreadPoolBuildError> {
        const LARGE: usize = 32_000_000;
        let parameters: usize = gpt.parameters().iter().map(|p| p.tensor.elem_count()).sum();
        let many = gpt.device().is_cpu() && parameters < LARGE;
        Self::new(if many { rayon::current_num_threads() } else { 1 })
    }

    /// How many threads there are.
    pub fn threads(&self) -> usize {
        self.0.len()
    }

    /// Each item on a thread of its own, the results in the order of the items. There may be no more items than
    /// threads; a single one runs here, on all threads of the current pool.
    pub fn map<T: Send, R: Send>(&self, items: Vec<T>, f: impl Fn(T) -> R + Sync) -> Vec<R> {
        assert!(items.len() <= self.threads(), "more items than threads");
        if items.len() == 1 {
            return items.into_iter().map(f).collect();
        }
        let f = &f;
        thread::scope(|scope| {
            let running: Vec<_> = items
                .into_iter()
                .zip(&self.0)
                .map(|(item, pool)| scope.spawn(move || pool.install(|| f(item))))
                .collect();
            running.into_iter().map(|one| one.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items_from_pools_of_one_thread() {
        let workers = Workers::new(3).unwrap();
        let seen = workers.map(vec![1, 2, 3], |i| (i, rayon::current_num_threads()));
        assert_eq!(seen, [(1, 1), (2, 1), (3, 1)]);
        let here = rayon::current_num_threads();
        assert_eq!(workers.map(vec![1], |_| rayon::current_num_threads()), [here]);
    }
}
