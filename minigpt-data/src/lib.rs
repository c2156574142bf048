//! Text and question/answer data sets, splits, statistics and the built-in set.
