//! Runs as the law sees them, and the table that they come from.

use crate::error::{Error, LineProblem, Result};
use crate::law::flops;
use serde::Serialize;
use std::collections::BTreeMap;

/// No loss, size or count is beyond this.
const LARGEST: f64 = 1e30;

/// The result of one run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Observation {
    /// N.
    pub parameters: f64,
    /// D: tokens seen, counting repetitions.
    pub tokens: f64,
    /// Number of distinct tokens; `tokens` if none was seen twice.
    pub unique_tokens: f64,
    /// Final loss.
    pub loss: f64,
}

impl Observation {
    /// A single-epoch run.
    pub fn new(parameters: f64, tokens: f64, loss: f64) -> Self {
        Self { parameters, tokens, unique_tokens: tokens, loss }
    }

    /// Training FLOPs, 6·N·D.
    pub fn flops(&self) -> f64 {
        flops(self.parameters, self.tokens)
    }

    /// Number of epochs.
    pub fn epochs(&self) -> f64 {
        self.tokens / self.unique_tokens
    }
}

/// The names of the columns of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunColumns {
    /// N.
    pub parameters: String,
    /// D.
    pub tokens: String,
    /// The loss.
    pub loss: String,
    /// Number of distinct tokens, for the law of repeated data.
    pub unique_tokens: Option<String>,
}

impl Default for RunColumns {
    fn default() -> Self {
        Self {
            parameters: "parameters".to_owned(),
            tokens: "tokens".to_owned(),
            loss: "loss".to_owned(),
            unique_tokens: None,
        }
    }
}

/// A column, and the value it must have.
pub type Condition = (String, String);

/// The runs of a table, and the number of rows without a loss.
#[derive(Debug, Clone, PartialEq)]
pub struct RunTable {
    /// The runs.
    pub runs: Vec<Observation>,
    /// Rows that meet the conditions but have no loss.
    pub without_loss: u64,
}

impl RunTable {
    /// Reads a table with a row of names on top, separated by commas. A row counts if every condition holds; one whose loss
    /// is empty is counted and left out.
    pub fn parse(text: &str, columns: &RunColumns, conditions: &[Condition]) -> Result<Self> {
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
        let names = reader.headers().map_err(|error| line_error(1, &error))?.clone();
        let column = |name: &str| {
            names.iter().position(|known| known.trim_start_matches('\u{feff}') == name).ok_or_else(|| {
                Error::NoColumn { name: name.to_owned(), columns: names.iter().map(str::to_owned).collect() }
            })
        };
        let [parameters, tokens, loss] =
            [&columns.parameters, &columns.tokens, &columns.loss].map(|name| column(name));
        let (parameters, tokens, loss) = (parameters?, tokens?, loss?);
        let unique = columns.unique_tokens.as_deref().map(column).transpose()?;
        let conditions = conditions.iter().map(|(name, value)| Ok((column(name)?, value)));
        let conditions = conditions.collect::<Result<Vec<_>>>()?;
        let (mut table, mut rows) = (Self { runs: Vec::new(), without_loss: 0 }, 0);
        for record in reader.records() {
            let line = rows + 2;
            let record = record.map_err(|error| line_error(line, &error))?;
            rows += 1;
            if conditions.iter().any(|(at, value)| record.get(*at) != Some(value.as_str())) {
                continue;
            }
            if record.get(loss).is_none_or(str::is_empty) {
                table.without_loss += 1;
                continue;
            }
            let line = record.position().map_or(line, csv::Position::line);
            let number = |at: usize| number(&names[at], record.get(at).unwrap_or_default(), line);
            let tokens = number(tokens)?;
            table.runs.push(Observation {
                parameters: number(parameters)?,
                tokens,
                // A run can't have seen more different tokens than tokens.
                unique_tokens: unique.map_or(Ok(tokens), number)?.min(tokens),
                loss: number(loss)?,
            });
        }
        if table.runs.is_empty() { Err(Error::NoRun { rows }) } else { Ok(table) }
    }
}

fn line_error(line: u64, error: &csv::Error) -> Error {
    let line = error.position().map_or(line, csv::Position::line);
    let problem = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            LineProblem::FieldCount { fields: *len, expected: *expected_len }
        }
        csv::ErrorKind::Utf8 { .. } => LineProblem::NotUtf8,
        _ => LineProblem::Csv(error.to_string()),
    };
    Error::Line { line, problem }
}

fn number(name: &str, text: &str, line: u64) -> Result<f64> {
    let problem = match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number < LARGEST => return Ok(number),
        Ok(number) if number >= LARGEST => {
            LineProblem::TooLarge { name: name.to_owned(), text: text.to_owned(), limit: LARGEST }
        }
        _ => LineProblem::NotPositive { name: name.to_owned(), text: text.to_owned() },
    };
    Err(Error::Line { line, problem })
}

/// Groups runs by size, from the smallest size and the fewest tokens up.
pub fn by_size(runs: &[Observation]) -> Vec<Vec<Observation>> {
    let mut sizes: BTreeMap<u64, Vec<Observation>> = BTreeMap::new();
    for run in runs {
        // Positive numbers have the order of their bits.
        sizes.entry(run.parameters.to_bits()).or_default().push(*run);
    }
    let mut sizes: Vec<_> = sizes.into_values().collect();
    sizes.iter_mut().for_each(|runs| runs.sort_by(|a, b| a.tokens.total_cmp(&b.tokens)));
    sizes
}

/// How much runs that differ in nothing but the seed scatter: the standard deviation of ln L, pooled. None where no run was
/// repeated.
pub fn seed_noise(runs: &[Observation]) -> Option<f64> {
    let mut groups: BTreeMap<[u64; 3], Vec<f64>> = BTreeMap::new();
    for run in runs {
        let key = [run.parameters, run.tokens, run.unique_tokens].map(f64::to_bits);
        groups.entry(key).or_default().push(run.loss.ln());
    }
    let (mut squares, mut freedom) = (0.0, 0);
    for losses in groups.values().filter(|losses| losses.len() > 1) {
        let mean = losses.iter().sum::<f64>() / losses.len() as f64;
        squares += losses.iter().map(|loss| (loss - mean).powi(2)).sum::<f64>();
        freedom += losses.len() - 1;
    }
    (freedom > 0).then(|| (squares / freedom as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str =
        "name,set,N,D,loss\na,x,10,100,2.5\nb,y,20,100,2.4\nc,x,1e3,200,\n\"d, e\",x,30,300,2.2\n";

    fn columns() -> RunColumns {
        RunColumns { parameters: "N".to_owned(), tokens: "D".to_owned(), ..RunColumns::default() }
    }

    #[test]
    fn a_table_is_read_by_its_names_and_conditions() {
        let condition = [("set".to_owned(), "x".to_owned())];
        let table = RunTable::parse(TABLE, &columns(), &condition).unwrap();
        assert_eq!(table.runs, [Observation::new(10.0, 100.0, 2.5), Observation::new(30.0, 300.0, 2.2)]);
        assert_eq!(table.without_loss, 1);
        assert_eq!(RunTable::parse(TABLE, &columns(), &[]).unwrap().runs.len(), 3);
    }

    #[test]
    fn what_is_wrong_with_a_table_is_said_with_its_line() {
        let said = |text: &str, conditions: &[Condition]| {
            RunTable::parse(text, &columns(), conditions).unwrap_err().to_string()
        };
        assert_eq!(said("a,b\n1,2\n", &[]), "there is no column N; there are a, b");
        assert_eq!(said("N,D,loss\n1,2,3\n1,2,-3\n", &[]), "line 3: loss is \"-3\", not a number above 0");
        assert_eq!(said("N,D,loss\n1e+308,2,3\n", &[]), "line 2: N is \"1e+308\", which is not below 1e30");
        assert_eq!(said("N,D,loss\n1,nan,3\n", &[]), "line 2: D is \"nan\", not a number above 0");
        assert!(said("N,D,loss\n1,2\n", &[]).starts_with("line 2: it has 2 fields"));
        assert!(said("", &[]).starts_with("there is no column N"));
        let other = ("set".to_owned(), "z".to_owned());
        assert!(said(TABLE, &[other]).starts_with("no usable run in 4 rows"));
    }

    #[test]
    fn noise_comes_from_runs_that_differ_in_nothing_else() {
        let run = |parameters, loss: f64| Observation::new(parameters, 100.0, loss);
        assert_eq!(seed_noise(&[run(1.0, 2.0), run(2.0, 3.0)]), None);
        let noise = seed_noise(&[run(1.0, 2.0), run(2.0, 3.0), run(1.0, 2.02)]).unwrap();
        assert!((noise - (1.01_f64).ln() / 2.0_f64.sqrt()).abs() < 1e-12, "{noise}");
    }

    #[test]
    fn sizes_are_in_order() {
        let runs = [(20.0, 2.0), (10.0, 2.0), (20.0, 1.0)].map(|(n, d)| Observation::new(n, d, 1.0));
        let sizes: Vec<Vec<f64>> =
            by_size(&runs).iter().map(|runs| runs.iter().map(|run| run.tokens).collect()).collect();
        assert_eq!(sizes, [vec![2.0], vec![1.0, 2.0]]);
    }
}
