//! One Parquet file: collects rows by column, and writes one row group at a time.

use super::columns::{Column, Of};
use ::parquet::basic::{Compression, Repetition};
use ::parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FloatType, Int32Type, Int64Type,
};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use ::parquet::schema::types::Type as Schema;
use perfring_events::delivery::draft::Draft;
use perfring_types::read::Value;
use std::sync::Arc;

/// A file that is not on the disk yet.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) draft: Draft,
    pub(super) records: u64,
    pub(super) oldest: Option<u64>,
}

/// A file and the rows that are not written to it yet.
pub(super) struct Table {
    writer: SerializedFileWriter<Draft>,
    pub(super) columns: Vec<Column>,
    cells: Vec<Cells>,
    /// Rows that wait.
    pub(super) waiting: usize,
    /// Their approximate bytes.
    pub(super) bytes: usize,
    /// Rows that are written.
    pub(super) written: u64,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("columns", &self.columns).finish_non_exhaustive()
    }
}

/// The cells of a column: values, and for each row how much of its path is defined (the definition
/// level) and whether it continues a list (the repetition level).
#[derive(Debug)]
struct Cells {
    data: Data,
    defined: Vec<i16>,
    repeated: Vec<i16>,
    is_list: bool,
}

#[derive(Debug)]
enum Data {
    Bool(Vec<bool>),
    Int(Vec<i32>),
    Long(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Bytes(Vec<ByteArray>),
}

impl Table {
    pub(super) fn new(draft: Draft, columns: Vec<Column>) -> Result<Self, ParquetError> {
        let fields = columns.iter().map(Column::schema).collect::<Result<Vec<_>, _>>()?;
        let schema = Schema::group_type_builder("record")
            .with_repetition(Repetition::REQUIRED)
            .with_fields(fields)
            .build()?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(format!("perfring {}", env!("CARGO_PKG_VERSION")))
            .build();
        let writer = SerializedFileWriter::new(draft, Arc::new(schema), Arc::new(properties))?;
        let cells = columns.iter().map(Cells::new).collect();
        Ok(Table { writer, columns, cells, waiting: 0, bytes: 0, written: 0 })
    }

    /// Adds a row. Values that a column cannot hold, and missing values, are null.
    pub(super) fn add<'v>(&mut self, values: impl Iterator<Item = Option<&'v Value>>) {
        let mut values = values;
        for cells in &mut self.cells {
            self.bytes += cells.add(values.next().flatten());
        }
        self.waiting += 1;
    }

    /// Writes the rows that wait.
    pub(super) fn write(&mut self) -> Result<(), ParquetError> {
        if self.waiting == 0 {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        for cells in &mut self.cells {
            let Some(mut column) = group.next_column()? else { break };
            cells.write(&mut column)?;
            column.close()?;
        }
        group.close()?;
        self.written += self.waiting as u64;
        (self.waiting, self.bytes) = (0, 0);
        Ok(())
    }

    /// Returns the file.
    pub(super) fn written_to(&self) -> &Draft {
        self.writer.inner()
    }

    pub(super) fn draft(&mut self) -> &mut Draft {
        self.writer.inner_mut()
    }

    /// Writes the rows that wait, and the end of the file.
    pub(super) fn close(mut self) -> Result<Draft, ParquetError> {
        self.write()?;
        self.writer.into_inner()
    }
}

impl Cells {
    fn new(column: &Column) -> Self {
        let data = match column.of {
            Of::Bool => Data::Bool(Vec::new()),
            Of::Int(..) => Data::Int(Vec::new()),
            Of::Long | Of::Unsigned | Of::Time(_) => Data::Long(Vec::new()),
            Of::Float => Data::Float(Vec::new()),
            Of::Double => Data::Double(Vec::new()),
            Of::Bytes | Of::Text | Of::Json => Data::Bytes(Vec::new()),
        };
        let is_list = column.is_list;
        Cells { data, defined: Vec::new(), repeated: Vec::new(), is_list }
    }

    /// Adds a value. Returns its approximate bytes.
    fn add(&mut self, value: Option<&Value>) -> usize {
        let value = value.filter(|value| **value != Value::Null);
        if !self.is_list {
            let taken = value.and_then(|value| self.data.add(value));
            self.defined.push(taken.is_some().into());
            return 2 + taken.unwrap_or(0);
        }
        let Some(Value::List(values)) = value else {
            self.push_levels(0, 0);
            return 4;
        };
        if values.is_empty() {
            self.push_levels(1, 0);
        }
        let mut bytes = 4;
        for (at, value) in values.iter().enumerate() {
            let taken = self.data.add(value);
            self.push_levels(2 + i16::from(taken.is_some()), (at > 0).into());
            bytes += 4 + taken.unwrap_or(0);
        }
        bytes
    }

    fn push_levels(&mut self, defined: i16, repeated: i16) {
        self.defined.push(defined);
        self.repeated.push(repeated);
    }

    fn write(&mut self, column: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let (defined, repeated) = (Some(&*self.defined), self.is_list.then_some(&*self.repeated));
        match &mut self.data {
            Data::Bool(all) => write::<BoolType>(column, all, defined, repeated)?,
            Data::Int(all) => write::<Int32Type>(column, all, defined, repeated)?,
            Data::Long(all) => write::<Int64Type>(column, all, defined, repeated)?,
            Data::Float(all) => write::<FloatType>(column, all, defined, repeated)?,
            Data::Double(all) => write::<DoubleType>(column, all, defined, repeated)?,
            Data::Bytes(all) => write::<ByteArrayType>(column, all, defined, repeated)?,
        }
        self.defined.clear();
        self.repeated.clear();
        Ok(())
    }
}

fn write<T: DataType>(
    column: &mut SerializedColumnWriter<'_>,
    all: &mut Vec<T::T>,
    defined: Option<&[i16]>,
    repeated: Option<&[i16]>,
) -> Result<(), ParquetError> {
    column.typed::<T>().write_batch(all, defined, repeated)?;
    all.clear();
    Ok(())
}

impl Data {
    /// Adds a value that fits the column; returns its approximate bytes.
    fn add(&mut self, value: &Value) -> Option<usize> {
        match (self, value) {
            (_, Value::Null) => return None,
            (Data::Bool(all), Value::Bool(value)) => all.push(*value),
            // Parquet's integers are signed: unsigned ones have the same bits.
            (Data::Int(all), Value::U64(value)) => all.push(*value as u32 as i32),
            (Data::Int(all), Value::I64(value)) => all.push(*value as i32),
            (Data::Long(all), Value::U64(value)) => all.push(*value as i64),
            (Data::Long(all), Value::I64(value)) => all.push(*value),
            (Data::Float(all), Value::F32(value)) => all.push(*value),
            (Data::Double(all), Value::F64(value)) => all.push(*value),
            (Data::Bytes(all), value) => {
                let bytes = match value {
                    Value::Bytes(bytes) => bytes.clone(),
                    Value::Str(text) => text.clone().into_bytes(),
                    Value::Label { name: Some(name), .. } => name.as_bytes().to_vec(),
                    Value::Char(value) => value.to_string().into_bytes(),
                    other => other.to_string().into_bytes(),
                };
                let len = bytes.len() + size_of::<ByteArray>() + 16;
                all.push(bytes.into());
                return Some(len);
            }
            _ => return None,
        }
        Some(8)
    }
}
