//! Writing pickles (protocol 2): the few instructions that checkpoints and vocabularies need.

/// A pickle that is being written.
pub struct PickleWriter(Vec<u8>);

impl PickleWriter {
    /// The pickle of one value, which `write` writes.
    pub fn pickle(write: impl FnOnce(&mut Self)) -> Vec<u8> {
        let mut out = Self(b"\x80\x02".to_vec());
        write(&mut out);
        out.0.push(b'.');
        out.0
    }

    /// Text.
    pub fn text(&mut self, text: &str) {
        self.0.push(b'X');
        self.0.extend((text.len() as u32).to_le_bytes());
        self.0.extend(text.as_bytes());
    }

    /// A whole number.
    pub fn int(&mut self, number: usize) {
        match i32::try_from(number) {
            Ok(number) => {
                self.0.push(b'J');
                self.0.extend(number.to_le_bytes());
            }
            Err(_) => {
                self.0.extend([0x8a, 8]);
                self.0.extend((number as i64).to_le_bytes());
            }
        }
    }

    /// A number.
    pub fn float(&mut self, number: f64) {
        self.0.push(b'G');
        self.0.extend(number.to_be_bytes());
    }

    /// `True` or `False`.
    pub fn bool(&mut self, yes: bool) {
        self.0.push(if yes { 0x88 } else { 0x89 });
    }

    /// A dictionary; `fill` writes keys and values in turn.
    pub fn dict(&mut self, fill: impl FnOnce(&mut Self)) {
        self.0.extend(b"}(");
        fill(self);
        self.0.push(b'u');
    }

    /// A tuple; `fill` writes its items.
    pub fn tuple(&mut self, fill: impl FnOnce(&mut Self)) {
        self.0.push(b'(');
        fill(self);
        self.0.push(b't');
    }

    /// A list; `fill` writes its items.
    pub fn list(&mut self, fill: impl FnOnce(&mut Self)) {
        self.0.extend(b"](");
        fill(self);
        self.0.push(b'e');
    }

    /// The name of a class or a function.
    fn global(&mut self, module: &str, name: &str) {
        self.0.extend(format!("c{module}\n{name}\n").as_bytes());
    }

    /// A contiguous f32 tensor whose elements are in the archive's file `data/{index}`:
    /// `_rebuild_tensor_v2(storage, 0, shape, strides, False, OrderedDict())`.
    pub fn tensor(&mut self, index: usize, shape: &[usize]) {
        self.global("torch._utils", "_rebuild_tensor_v2");
        self.tuple(|out| {
            out.tuple(|out| {
                out.text("storage");
                out.global("torch", "FloatStorage");
                out.text(&index.to_string());
                out.text("cpu");
                out.int(shape.iter().product());
            });
            out.0.push(b'Q'); // a persistent id: what is kept outside of the pickle
            out.int(0);
            out.tuple(|out| shape.iter().for_each(|&size| out.int(size)));
            out.tuple(|out| (1..=shape.len()).for_each(|dim| out.int(shape[dim..].iter().product())));
            out.bool(false);
            out.global("collections", "OrderedDict");
            out.0.extend(b")R"); // called with no arguments
        });
        self.0.push(b'R');
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Value, read};
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let bytes = PickleWriter::pickle(|out| {
            out.dict(|out| {
                out.text("你");
                out.tuple(|out| [0, 70_000, 1 << 40].into_iter().for_each(|number| out.int(number)));
                out.text("b");
                out.bool(true);
                out.text("f");
                out.float(-2.5);
            });
        });
        let value = read(&bytes).unwrap();
        let numbers: Vec<_> =
            value.get("你").unwrap().as_list().unwrap().iter().map(Value::as_size).collect();
        assert_eq!(numbers, [Some(0), Some(70_000), Some(1 << 40)]);
        assert_eq!((value.get("b"), value.get("f")), (Some(&Value::Bool(true)), Some(&Value::Float(-2.5))));
    }
}
