//! Pictures and numbers as people look at them: SVG and terminal charts, tables, and short numbers.
//!
//! The one owner of everything drawn: whoever needs a picture describes it as data (a [`LineChart`], a [`BarChart`], a
//! [`Table`]) and gets text back. This crate never knows what the numbers are about (no runs, no data sets, no models),
//! never writes a file and never prints.
//!
//! Begin with `line_chart.rs`, `bar_chart.rs` and `xy_chart.rs`, which say what a chart is. Each is drawn by files of its own (`*_svg.rs`,
//! `*_terminal.rs`); `svg.rs` is the writer of all SVGs, `plot_svg.rs` draws legends and axes, `axis.rs` finds round ticks, `points.rs` smooths and
//! thins, `width.rs` knows how wide a text is on a terminal, `columns.rs` puts texts side by side, `number.rs` how a number is told.
//!
//! ```
//! use minigpt_charts::{BarChart, count, width};
//!
//! let chart = BarChart { step: 10, counts: vec![3, 1200], ..BarChart::default() };
//! assert!(chart.terminal(80).starts_with("    0–9 │▏ 3\n"));
//! assert!(chart.svg().contains("<title>10–19: 1,200</title>"));
//! assert_eq!((count(1_115_394).as_str(), width("天空")), ("1,115,394", 4));
//! ```

mod axis;
mod bar_chart;
mod bar_svg;
mod bar_terminal;
mod columns;
mod line_chart;
mod line_svg;
mod line_terminal;
mod number;
mod plot_svg;
mod points;
mod printable;
mod svg;
mod table;
mod width;
mod xy_chart;
mod xy_svg;

pub use axis::Quantity;
pub use bar_chart::{BarChart, Mark};
pub use columns::side_by_side;
pub use line_chart::{Curve, LineChart};
pub use number::{TimeUnit, bytes, count, counted, decimal, duration, duration_parts, metric};
pub use points::Point;
pub use printable::printable;
pub use table::Table;
pub use width::{cut, width};
pub use xy_chart::{Callout, Series, XyChart};
