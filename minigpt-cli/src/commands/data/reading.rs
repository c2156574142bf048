//! How data is read, as options of several commands.

use crate::language::messages::data as message;
use clap::Args;
use minigpt_data::{Columns, ReadOptions, TextEncoding};

#[derive(Args)]
pub struct ReadingArgs {
    /// What the text is written in, for example gbk; found out when absent.
    #[arg(long, value_name = "NAME")]
    encoding: Option<TextEncoding>,
    /// Which columns or fields to read, for example question=Q,answer=A or text=body; those with the usual names when absent.
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
