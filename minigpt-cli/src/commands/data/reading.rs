//! How data is read, as options of several commands.

use crate::language::messages::data as message;
use clap::Args;
use minigpt_data::{Columns, ReadOptions, TextEncoding};

#[derive(Args)]
pub struct ReadingArgs {
    /// Text encoding, such as gbk. Default: detected.
    #[arg(long, value_name = "NAME")]
    encoding: Option<TextEncoding>,
    /// Columns or fields to read, such as question=Q,answer=A or text=body. Default: the usual names.
    #[arg(long, value_name = "MEANING=NAME,…", value_parser = columns, default_value = "")]
    columns: Columns,
}

impl ReadingArgs {
    /// For the library.
    pub fn options(&self) -> ReadOptions {
        ReadOptions { encoding: self.encoding, columns: self.columns.clone() }
    }
}

fn columns(text: &str) -> Result<Columns, String> {
    let pair = |pair: &str| match pair.split_once('=') {
        Some((meaning, name)) => Ok((meaning.trim().to_owned(), name.trim().to_owned())),
        None => Err(message::NotAColumn { pair: &pair }.to_string()),
    };
    let pairs = text.split(',').filter(|pair| !pair.is_empty()).map(pair).collect::<Result<Vec<_>, _>>()?;
    Columns::new(pairs).map_err(|error| error.to_string())
}
