//! One batch on several threads: each takes rows of its own through the whole model. Small products suffer from being
//! split over threads; rows don't.

use minigpt_model::Gpt;
use minigpt_model::plan::Plan;
use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

/// Elements that the gradients of all workers may have together.
const GRADIENTS: usize = 128_000_000;

/// Threads that each have a pool of their own, usually of one: what runs there is not split any further.
#[derive(Debug)]
pub struct Workers(Vec<ThreadPool>);

impl Workers {
    /// So many workers, among which so many threads are shared out.
    pub fn new(workers: usize, threads: usize) -> Result<Self, ThreadPoolBuildError> {
        let workers = workers.max(1);
        let pool = |i| {
            let pool = ThreadPoolBuilder::new().num_threads((threads / workers).max(1));
            pool.thread_name(move |_| format!("worker-{i}")).build()
        };
        Ok(Self((0..workers).map(pool).collect::<Result<_, _>>()?))
    }

    /// As many as suit a model: on the CPU one for each thread, but fewer for a large model. Each has gradients of its
    /// own, which must not cost more memory than the time is worth, and a large model's products are large enough to
    /// be split instead.
    pub fn for_model(gpt: &Gpt) -> Result<Self, ThreadPoolBuildError> {
        Self::new(Self::suited(gpt), rayon::current_num_threads())
    }

    /// How many suit a model.
    pub fn suited(gpt: &Gpt) -> usize {
        let parameters = Plan::new(gpt.config(), 1, 1).parameters.total as usize;
        let most = if gpt.device().is_cpu() { GRADIENTS / parameters.max(1) } else { 1 };
        most.clamp(1, rayon::current_num_threads())
    }

    /// How many workers there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Each item with a worker of its own, as many at once as there are workers; the results in the order of the items.
    pub fn map<T: Send, R: Send>(&self, items: Vec<T>, f: impl Fn(T) -> R + Sync) -> Vec<R> {
        let (mut items, mut results) = (items.into_iter(), Vec::new());
        while items.len() > 0 {
            results.extend(self.map_at_once(items.by_ref().take(self.count()).collect(), &f));
        }
        results
    }

    /// No more items than workers; a single one runs here, on all threads of the current pool.
    fn map_at_once<T: Send, R: Send>(&self, items: Vec<T>, f: &(impl Fn(T) -> R + Sync)) -> Vec<R> {
        if items.len() == 1 {
            return items.into_iter().map(f).collect();
        }
        let mut results: Vec<Option<R>> = items.iter().map(|_| None).collect();
        let work = items.into_iter().zip(&mut results);
        each(self.0.iter().zip(work), &|(item, result): (T, &mut Option<R>)| *result = Some(f(item)));
        results.into_iter().flatten().collect()
    }
}

/// Every piece of work in the pool that it is paired with, all at once; no thread is made for it.
fn each<'a, W: Send>(mut work: impl Iterator<Item = (&'a ThreadPool, W)>, f: &(impl Fn(W) + Sync)) {
    let Some((pool, one)) = work.next() else { return };
    pool.in_place_scope(|scope| {
        scope.spawn(|_| f(one));
        each(work, f);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items_from_pools_that_share_the_threads() {
        let workers = Workers::new(3, 3).unwrap();
        let seen = workers.map(vec![1, 2, 3], |i| (i, rayon::current_num_threads()));
        assert_eq!(seen, [(1, 1), (2, 1), (3, 1)]);
        let shared = Workers::new(2, 5).unwrap();
        assert_eq!(shared.map(vec![(), ()], |()| rayon::current_num_threads()), [2, 2]);
        let here = rayon::current_num_threads();
        assert_eq!(workers.map(vec![1], |_| rayon::current_num_threads()), [here]);
        assert_eq!(workers.map((0..7).collect(), |i| i), [0, 1, 2, 3, 4, 5, 6]);
    }
}
