//! The order in which the parts of a sum are added: a fixed binary tree, whoever holds the parts.
//!
//! In every round neighbours are added, and an odd one out goes on as it is. A rank adds what it can of its own parts;
//! the owner of the sum goes on with what it gets. Both follow the same tree, so the bits depend on the number of
//! parts alone.

use std::convert::Infallible;
use std::ops::Range;

/// A node of the tree: the sum of the parts from `index · 2^level` to before `(index + 1) · 2^level`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeNode {
    level: u32,
    index: usize,
}

/// A sum under way. Parts or nodes are pushed from the first to the last; neighbours are added as soon as both are there.
#[derive(Debug)]
pub struct TreeSum<T> {
    parts: usize,
    nodes: Vec<(TreeNode, T)>,
}

impl<T> TreeSum<T> {
    /// A sum of so many parts.
    pub fn new(parts: usize) -> Self {
        Self { parts, nodes: Vec::new() }
    }

    /// Pushes a part.
    pub fn push<E>(&mut self, part: usize, value: T, add: impl Fn(T, T) -> Result<T, E>) -> Result<(), E> {
        self.push_node(TreeNode { level: 0, index: part }, value, add)
    }

    /// Pushes a node that somebody else has added up.
    pub fn push_node<E>(
        &mut self,
        mut node: TreeNode,
        mut value: T,
        add: impl Fn(T, T) -> Result<T, E>,
    ) -> Result<(), E> {
        while !self.is_root(node) {
            if node.index % 2 == 1 {
                let left = TreeNode { index: node.index - 1, ..node };
                match self.nodes.pop_if(|(last, _)| *last == left) {
                    Some((_, before)) => value = add(before, value)?,
                    None => break,
                }
            } else if !self.is_last(node) {
                break;
            }
            node = TreeNode { level: node.level + 1, index: node.index / 2 };
        }
        self.nodes.push((node, value));
        Ok(())
    }

    /// What could be added up so far, from the first part to the last.
    pub fn into_nodes(self) -> Vec<(TreeNode, T)> {
        self.nodes
    }

    /// The whole sum; none where parts are missing.
    pub fn into_root(mut self) -> Option<T> {
        let (node, value) = self.nodes.pop()?;
        (self.is_root(node) && self.nodes.is_empty()).then_some(value)
    }

    fn is_root(&self, node: TreeNode) -> bool {
        node.index == 0 && self.is_last(node)
    }

    /// Whether no part comes after those of a node.
    fn is_last(&self, node: TreeNode) -> bool {
        (node.index + 1) << node.level >= self.parts
    }
}

/// The nodes that the holder of some of so many parts can add up alone.
pub fn nodes_of(parts: usize, own: Range<usize>) -> Vec<TreeNode> {
    let mut sum = TreeSum::new(parts);
    for part in own {
        let Ok(()) = sum.push(part, (), |(), ()| Ok::<_, Infallible>(()));
    }
    sum.into_nodes().into_iter().map(|(node, ())| node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "as a sum calls it")]
    fn add(a: String, b: String) -> Result<String, ()> {
        Ok(format!("({a}{b})"))
    }

    /// How so many parts are added when they lie with so many ranks.
    fn order(parts: usize, ranks: usize) -> String {
        let mut whole = TreeSum::new(parts);
        for rank in 0..ranks {
            let own = rank * parts / ranks..(rank + 1) * parts / ranks;
            let mut sum = TreeSum::new(parts);
            own.clone().for_each(|part| sum.push(part, part.to_string(), add).unwrap());
            let nodes = sum.into_nodes();
            assert_eq!(nodes.iter().map(|(node, _)| *node).collect::<Vec<_>>(), nodes_of(parts, own));
            nodes.into_iter().for_each(|(node, value)| whole.push_node(node, value, add).unwrap());
        }
        whole.into_root().unwrap()
    }

    #[test]
    fn neighbours_are_added_and_an_odd_one_goes_on() {
        let orders = [1, 2, 3, 4, 5, 6, 7].map(|parts| order(parts, 1));
        let want = [
            "0",
            "(01)",
            "((01)2)",
            "((01)(23))",
            "(((01)(23))4)",
            "(((01)(23))(45))",
            "(((01)(23))((45)6))",
        ];
        assert_eq!(orders, want);
    }

    #[test]
    fn the_order_does_not_depend_on_who_holds_the_parts() {
        for parts in 1..=17 {
            for ranks in 1..=20 {
                assert_eq!(order(parts, ranks), order(parts, 1), "{parts} parts on {ranks} ranks");
            }
        }
    }

    #[test]
    fn powers_of_two_travel_as_one_node_a_rank() {
        for (parts, ranks) in [(2, 2), (4, 2), (8, 2), (8, 4), (64, 8)] {
            let each = parts / ranks;
            assert!((0..ranks).all(|rank| nodes_of(parts, rank * each..(rank + 1) * each).len() == 1));
        }
    }

    #[test]
    fn a_sum_with_a_part_missing_is_none() {
        let mut sum = TreeSum::new(3);
        sum.push(0, "0".to_owned(), add).unwrap();
        sum.push(2, "2".to_owned(), add).unwrap();
        assert_eq!(sum.into_root(), None);
    }
}
