//! Parquet, a row at a time. The crate that reads it takes long to build, so it is a feature of its own.

use crate::error::Result;
use crate::input_file::InputFile;
use crate::row_file::Each;

/// Gives all rows of a file to `each`.
#[cfg(feature = "parquet")]
pub(crate) fn read(input: &InputFile, each: Each) -> Result<()> {
    use crate::error::Error;
    use crate::row::Row;
    use crate::row_file::Found;
    use parquet::file::reader::{FileReader, SerializedFileReader};

    let bad = |e: parquet::errors::ParquetError| Error::BadParquet {
        name: input.name().to_owned(),
        problem: e.to_string(),
    };
    let file = input.rewind()?.try_clone().map_err(|e| Error::io_named("read", input.name(), e))?;
    let reader = SerializedFileReader::new(file).map_err(bad)?;
    for (number, row) in (1..).zip(reader.get_row_iter(None).map_err(bad)?) {
        let found = match row {
            Ok(row) => match row.to_json_value() {
                serde_json::Value::Object(fields) => Found::Row(Row(fields.into_iter().collect())),
                _ => Found::Bad("not a row".to_owned()),
            },
            Err(error) => Found::Bad(error.to_string()),
        };
        if !each(number, found)? {
            break;
        }
    }
    Ok(())
}

/// This build can't.
#[cfg(not(feature = "parquet"))]
pub(crate) fn read(input: &InputFile, _each: Each) -> Result<()> {
    Err(crate::error::Error::NoParquet { name: input.name().to_owned() })
}
