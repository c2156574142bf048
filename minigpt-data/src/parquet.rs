//! Parquet, a row at a time. The crate that reads it takes long to build, so it is a feature of its own.

use crate::error::Result;
use crate::input_file::InputFile;
use crate::row_file::Each;

/// Gives all rows of a file to `each`.
#[cfg(feature = "parquet")]
pub(crate) fn read(input: &InputFile, each: Each) -> Result<()> {
    use crate::bad_row::BadRow;
    use crate::error::Error;
    use crate::row::Row;
    use crate::row_file::Found;
    use minigpt_files::Action;
    use parquet::file::reader::{FileReader, SerializedFileReader};

    let bad = |e: parquet::errors::ParquetError| Error::BadParquet {
        name: input.name().clone(),
        problem: e.to_string(),
    };
    let file = input.rewind()?.try_clone().map_err(|e| Error::io_named(Action::Read, input.name(), e))?;
    let reader = SerializedFileReader::new(file).map_err(bad)?;
    for (number, row) in (1..).zip(reader.get_row_iter(None).map_err(bad)?) {
        let found = match row {
            Ok(row) => Found::Row(Row(row
                .get_column_iter()
                .map(|(name, field)| (name.clone(), value(field)))
                .collect())),
            Err(error) => Found::Bad(BadRow::Unreadable(error.to_string())),
        };
        if !each(number, found)? {
            break;
        }
    }
    Ok(())
}

/// A value as JSON; types that JSON lacks, such as dates, as text.
#[cfg(feature = "parquet")]
fn value(field: &parquet::record::Field) -> serde_json::Value {
    use parquet::record::Field;
    match field {
        Field::Null => serde_json::Value::Null,
        Field::Bool(it) => (*it).into(),
        Field::Byte(it) => (*it).into(),
        Field::Short(it) => (*it).into(),
        Field::Int(it) => (*it).into(),
        Field::Long(it) => (*it).into(),
        Field::UByte(it) => (*it).into(),
        Field::UShort(it) => (*it).into(),
        Field::UInt(it) => (*it).into(),
        Field::ULong(it) => (*it).into(),
        Field::Float(it) => (*it).into(),
        Field::Double(it) => (*it).into(),
        Field::Str(text) => text.as_str().into(),
        Field::Bytes(bytes) => bytes.as_utf8().map_or(serde_json::Value::Null, Into::into),
        Field::ListInternal(items) => items.elements().iter().map(value).collect(),
        Field::Group(row) => {
            row.get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect()
        }
        other => other.to_string().into(),
    }
}

/// This build can't.
#[cfg(not(feature = "parquet"))]
pub(crate) fn read(input: &InputFile, _each: Each) -> Result<()> {
    Err(crate::error::Error::NoParquet { name: input.name().clone() })
}

#[cfg(test)]
#[cfg(feature = "parquet")]
mod tests {
    use crate::record_file::{ReadOptions, RecordFile};
    use crate::source::Source;
    use parquet::basic::Compression;
    use parquet::data_type::{ByteArray, ByteArrayType};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use std::fs::File;
    use std::path::Path;
    use std::sync::Arc;

    /// Writes columns of text in row groups of two.
    fn write(path: &Path, names: [&str; 2], rows: &[[&str; 2]], compression: Compression) {
        let [first, second] = names.map(|name| format!("required binary {name} (UTF8);"));
        let schema = parse_message_type(&format!("message rows {{ {first} {second} }}")).unwrap();
        let properties = WriterProperties::builder().set_compression(compression).build();
        let file = File::create(path).unwrap();
        let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties)).unwrap();
        for group in rows.chunks(2) {
            let mut group_writer = writer.next_row_group().unwrap();
            for column in 0..2 {
                let values: Vec<ByteArray> = group.iter().map(|row| ByteArray::from(row[column])).collect();
                let mut column = group_writer.next_column().unwrap().unwrap();
                column.typed::<ByteArrayType>().write_batch(&values, None, None).unwrap();
                column.close().unwrap();
            }
            group_writer.close().unwrap();
        }
        writer.close().unwrap();
    }

    #[test]
    fn rows_are_read_in_every_usual_compression() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("train-00000-of-00001.parquet");
        let rows = [["一加一？", "二"], ["二加二？", "四"], ["三加三？", "六"]];
        let compressions = [
            Compression::UNCOMPRESSED,
            Compression::SNAPPY,
            Compression::ZSTD(Default::default()),
            Compression::GZIP(Default::default()),
        ];
        for compression in compressions {
            write(&path, ["question", "answer"], &rows, compression);
            let file = RecordFile::open(&path, &ReadOptions::default()).unwrap();
            let mut read = Vec::new();
            file.read(None, &mut |_, record| {
                read.push(record.turns.into_iter().map(|turn| turn.text).collect::<Vec<_>>());
                Ok(())
            })
            .unwrap();
            assert_eq!(read, rows.map(|row| row.map(str::to_owned).to_vec()), "{compression:?}");
        }
        let described =
            Source::open(dir.path(), None, &ReadOptions::default()).unwrap().describe().unwrap().to_string();
        assert_eq!(described, "Parquet of questions and answers");
        write(&path, ["title", "text"], &rows, Compression::SNAPPY);
        let described =
            Source::open(&path, None, &ReadOptions::default()).unwrap().describe().unwrap().to_string();
        assert_eq!(described, "Parquet of texts");
    }

    #[test]
    fn a_broken_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.parquet");
        std::fs::write(&path, b"PAR1 and then nothing of the kind PAR1").unwrap();
        let error = RecordFile::open(&path, &ReadOptions::default()).unwrap().form().unwrap_err();
        assert!(error.to_string().contains("not a readable Parquet file"), "{error}");
    }
}
