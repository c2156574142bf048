//! The instructions of a pickle, as far as data needs them.

use super::{PickleError, PickleProblem};
use std::cell::RefCell;
use std::rc::Rc;

/// Values that a pickle may make in all: one that makes more is no checkpoint.
const MOST_VALUES: usize = 20_000_000;
/// How deep values may lie inside each other.
const DEEPEST: usize = 200;

type Result<T> = std::result::Result<T, PickleProblem>;

/// What a pickle describes.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `None`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// Text.
    Str(Rc<str>),
    /// Bytes.
    Bytes(Rc<[u8]>),
    /// A list, a tuple or a set.
    List(Rc<[Value]>),
    /// A dictionary, in its order.
    Dict(Rc<[(Value, Value)]>),
    /// The name of something: a class, a function.
    Name(Rc<str>),
    /// What would be called, and with what.
    Call(Rc<(Value, Value)>),
    /// What is kept outside of the pickle.
    Outside(Rc<Value>),
}

impl Value {
    /// The value of a key that is text.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let Value::Dict(items) = self else { return None };
        items.iter().find(|(name, _)| name.as_str() == Some(key)).map(|(_, value)| value)
    }

    /// Its text, if it is text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Str(text) => Some(text),
            _ => None,
        }
    }

    /// Its number, if it is a whole one that is not negative.
    pub fn as_size(&self) -> Option<usize> {
        match self {
            Value::Int(number) => usize::try_from(*number).ok(),
            _ => None,
        }
    }

    /// Its items, if it is a list.
    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Value::List(items) => Some(items),
            _ => None,
        }
    }
}

/// Reads the first value of a pickle.
pub fn read(bytes: &[u8]) -> std::result::Result<Value, PickleError> {
    Machine { bytes, at: 0, stack: Vec::new(), memo: Vec::new(), containers: Vec::new(), made: 0 }.run()
}

/// What stands on the stack. Containers are filled after they were put there, so they are not yet values.
#[derive(Debug, Clone)]
enum Item {
    Mark,
    /// A value, and how many others lie inside each other in it.
    Value(Value, usize),
    List(Open<Item>),
    Dict(Open<(Item, Item)>),
}

/// A container that can still be filled, from every place that knows it.
type Open<T> = Rc<RefCell<Vec<T>>>;

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    stack: Vec<Item>,
    memo: Vec<Option<Item>>,
    /// All containers, for the end.
    containers: Vec<Item>,
    made: usize,
}

impl Drop for Machine<'_> {
    /// A container may hold itself, and would never be freed; and one in another, a million deep, would be freed by a
    /// million calls inside one another.
    fn drop(&mut self) {
        for container in &self.containers {
            match container {
                Item::List(items) => items.borrow_mut().clear(),
                Item::Dict(pairs) => pairs.borrow_mut().clear(),
                Item::Mark | Item::Value(..) => {}
            }
        }
    }
}

impl Machine<'_> {
    fn run(mut self) -> std::result::Result<Value, PickleError> {
        loop {
            let at = self.at;
            if let Some(value) = self.step().map_err(|problem| PickleError { problem, at })? {
                return Ok(value);
            }
        }
    }

    /// Runs one instruction; the last one gives the value.
    fn step(&mut self) -> Result<Option<Value>> {
        let code = self.take(1)?[0];
        match code {
            b'.' => return Ok(Some(self.pop_value()?.0)),
            0x80 => drop(self.take(1)?),         // PROTO
            0x95 => drop(self.take(8)?),         // FRAME
            b'(' => self.stack.push(Item::Mark), // MARK
            b'N' => self.push(Value::None)?,
            0x88 => self.push(Value::Bool(true))?,
            0x89 => self.push(Value::Bool(false))?,
            b'K' => {
                let number = self.take(1)?[0];
                self.push(Value::Int(number.into()))?;
            }
            b'M' => {
                let number = self.number::<2>()?;
                self.push(Value::Int(u16::from_le_bytes(number).into()))?;
            }
            b'J' => {
                let number = self.number::<4>()?;
                self.push(Value::Int(i32::from_le_bytes(number).into()))?;
            }
            0x8a => self.long()?,
            b'G' => {
                let number = self.number::<8>()?;
                self.push(Value::Float(f64::from_be_bytes(number)))?;
            }
            b'X' => self.text(4)?,
            0x8c => self.text(1)?,
            0x8d => self.text(8)?,
            b'T' | b'B' => self.raw(4)?,
            b'U' | b'C' => self.raw(1)?,
            b']' => self.container(Item::List(Rc::default()))?,
            b'}' => self.container(Item::Dict(Rc::default()))?,
            b')' => self.push(Value::List(Rc::new([])))?,
            b'a' => {
                let item = self.pop()?;
                self.top_list()?.borrow_mut().push(item);
            }
            b'e' => {
                let items = self.pop_to_mark()?;
                self.top_list()?.borrow_mut().extend(items);
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.top_dict()?.borrow_mut().push((key, value));
            }
            b'u' => {
                let items = self.pop_to_mark()?;
                let dict = self.top_dict()?;
                let (pairs, []) = items.as_chunks::<2>() else { return Err(PickleProblem::KeyWithoutValue) };
                dict.borrow_mut().extend(pairs.iter().map(|[key, value]| (key.clone(), value.clone())));
            }
            b't' => {
                let items = self.pop_to_mark()?;
                self.tuple(&items)?;
            }
            0x85..=0x87 => {
                let count = usize::from(code - 0x84);
                let start = self.stack.len().checked_sub(count).ok_or(PickleProblem::MissingValue)?;
                let items = self.stack.split_off(start);
                self.tuple(&items)?;
            }
            b'q' => {
                let slot = usize::from(self.take(1)?[0]);
                self.keep(slot)?;
            }
            b'r' => {
                let slot = u32::from_le_bytes(self.number()?) as usize;
                self.keep(slot)?;
            }
            0x94 => self.keep(self.memo.len())?,
            b'h' => {
                let slot = usize::from(self.take(1)?[0]);
                self.recall(slot)?;
            }
            b'j' => {
                let slot = u32::from_le_bytes(self.number()?) as usize;
                self.recall(slot)?;
            }
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.push(Value::Name(format!("{module}.{name}").into()))?;
            }
            0x93 => {
                let ((name, _), (module, _)) = (self.pop_value()?, self.pop_value()?);
                let (Some(name), Some(module)) = (name.as_str(), module.as_str()) else {
                    return Err(PickleProblem::NameNotText);
                };
                let name = format!("{module}.{name}");
                self.push(Value::Name(name.into()))?;
            }
            b'R' | 0x81 => self.call()?,
            b'b' => {
                // BUILD: what would be set on an object. Data needs none of it.
                self.pop()?;
            }
            b'Q' => {
                let (id, height) = self.pop_value()?;
                self.push_around(Value::Outside(Rc::new(id)), height)?;
            }
            b'0' => drop(self.pop()?),
            other => return Err(PickleProblem::Instruction(other)),
        }
        Ok(None)
    }

    fn take(&mut self, count: usize) -> Result<&[u8]> {
        let end = self.at.checked_add(count).filter(|&end| end <= self.bytes.len());
        let end = end.ok_or(PickleProblem::EndsEarly)?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn number<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| PickleProblem::EndsEarly)
    }

    /// Bytes with their length before them, in so many bytes.
    fn counted(&mut self, width: usize) -> Result<&[u8]> {
        let mut length = [0; 8];
        length[..width].copy_from_slice(self.take(width)?);
        let length =
            usize::try_from(u64::from_le_bytes(length)).map_err(|_| PickleProblem::LengthTooLarge)?;
        self.take(length)
    }

    fn text(&mut self, width: usize) -> Result<()> {
        let text: Rc<str> = match std::str::from_utf8(self.counted(width)?) {
            Ok(text) => text.into(),
            Err(_) => return Err(PickleProblem::TextNotUtf8),
        };
        self.push(Value::Str(text))
    }

    fn raw(&mut self, width: usize) -> Result<()> {
        let bytes: Rc<[u8]> = self.counted(width)?.into();
        self.push(Value::Bytes(bytes))
    }

    fn long(&mut self) -> Result<()> {
        let bytes = self.counted(1)?;
        let sign = if bytes.last().is_some_and(|byte| byte & 0x80 != 0) { 0xff } else { 0 };
        let mut number = [sign; 8];
        number.get_mut(..bytes.len()).ok_or(PickleProblem::NumberTooLarge)?.copy_from_slice(bytes);
        self.push(Value::Int(i64::from_le_bytes(number)))
    }

    fn line(&mut self) -> Result<String> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|&byte| byte == b'\n').ok_or(PickleProblem::NameWithoutEnd)?;
        let line = std::str::from_utf8(&rest[..end]).map_err(|_| PickleProblem::NameNotUtf8)?.to_owned();
        self.at += end + 1;
        Ok(line)
    }

    fn count(&mut self, values: usize) -> Result<()> {
        self.made += values;
        if self.made > MOST_VALUES { Err(PickleProblem::TooManyValues) } else { Ok(()) }
    }

    fn push(&mut self, value: Value) -> Result<()> {
        self.container(Item::Value(value, 0))
    }

    /// Pushes a value that holds others, of which the highest has this height. A tower of them would be freed by as many
    /// calls inside one another.
    fn push_around(&mut self, value: Value, height: usize) -> Result<()> {
        let item = Item::Value(value, height + 1);
        if height >= DEEPEST { Err(PickleProblem::TooDeep) } else { self.container(item) }
    }

    fn container(&mut self, item: Item) -> Result<()> {
        self.containers.push(item.clone());
        self.count(1)?;
        self.stack.push(item);
        Ok(())
    }

    fn pop(&mut self) -> Result<Item> {
        match self.stack.pop() {
            None | Some(Item::Mark) => Err(PickleProblem::MissingValue),
            Some(item) => Ok(item),
        }
    }

    fn pop_value(&mut self) -> Result<(Value, usize)> {
        let item = self.pop()?;
        self.finished(&item, 0)
    }

    fn pop_to_mark(&mut self) -> Result<Vec<Item>> {
        let mark = self
            .stack
            .iter()
            .rposition(|item| matches!(item, Item::Mark))
            .ok_or(PickleProblem::MissingMark)?;
        let items = self.stack.split_off(mark + 1);
        self.stack.pop();
        Ok(items)
    }

    fn top_list(&self) -> Result<Open<Item>> {
        match self.stack.last() {
            Some(Item::List(list)) => Ok(list.clone()),
            _ => Err(PickleProblem::NotAList),
        }
    }

    fn top_dict(&self) -> Result<Open<(Item, Item)>> {
        match self.stack.last() {
            Some(Item::Dict(dict)) => Ok(dict.clone()),
            _ => Err(PickleProblem::NotADictionary),
        }
    }

    fn tuple(&mut self, items: &[Item]) -> Result<()> {
        let items = items.iter().map(|item| self.finished(item, 0)).collect::<Result<Vec<_>>>()?;
        let (list, height) = list(items);
        self.push_around(list, height)
    }

    /// A call is kept, not made; but for an empty dictionary that remembers its order, which is a dictionary.
    fn call(&mut self) -> Result<()> {
        let ((arguments, below), (what, beside)) = (self.pop_value()?, self.pop_value()?);
        if matches!(&what, Value::Name(name) if &**name == "collections.OrderedDict") {
            return self.container(Item::Dict(Rc::default()));
        }
        self.push_around(Value::Call(Rc::new((what, arguments))), below.max(beside))
    }

    fn keep(&mut self, slot: usize) -> Result<()> {
        let item = self.stack.last().cloned().ok_or(PickleProblem::MissingValue)?;
        // Slots are given in order; one far beyond the last would only ask for memory.
        if slot > self.memo.len() + 1024 {
            return Err(PickleProblem::SlotOutOfRange);
        }
        if slot >= self.memo.len() {
            self.memo.resize(slot + 1, None);
        }
        self.memo[slot] = Some(item);
        Ok(())
    }

    fn recall(&mut self, slot: usize) -> Result<()> {
        let item = self.memo.get(slot).cloned().flatten().ok_or(PickleProblem::SlotEmpty)?;
        self.container(item)
    }

    /// The value of an item, with all that lies inside, and its height. Counted, because a pickle can put one list into
    /// another many times, and deep, because it can put it into itself.
    fn finished(&mut self, item: &Item, depth: usize) -> Result<(Value, usize)> {
        if depth > DEEPEST {
            return Err(PickleProblem::TooDeep);
        }
        match item {
            Item::Mark => Err(PickleProblem::MissingValue),
            Item::Value(_, height) if depth + height > DEEPEST => Err(PickleProblem::TooDeep),
            Item::Value(value, height) => Ok((value.clone(), *height)),
            Item::List(open) => {
                let items = open.borrow().clone();
                self.count(items.len())?;
                let items = items.iter().map(|item| self.finished(item, depth + 1));
                let (list, height) = list(items.collect::<Result<_>>()?);
                Ok((list, height + 1))
            }
            Item::Dict(dict) => {
                let items = dict.borrow().clone();
                self.count(items.len())?;
                let mut pairs = Vec::with_capacity(items.len());
                let mut highest = 0;
                for (key, value) in &items {
                    let (key, below) = self.finished(key, depth + 1)?;
                    let (value, beside) = self.finished(value, depth + 1)?;
                    highest = highest.max(below).max(beside);
                    pairs.push((key, value));
                }
                Ok((Value::Dict(pairs.into()), highest + 1))
            }
        }
    }
}

/// A list, and the height of its highest item.
fn list(items: Vec<(Value, usize)>) -> (Value, usize) {
    let highest = items.iter().map(|(_, height)| *height).max().unwrap_or(0);
    (Value::List(items.into_iter().map(|(item, _)| item).collect()), highest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `pickle.dumps({"a": [1, -2, 2.5, None, True], "你": (300, 70000, "x")}, protocol=2)`, and with protocol 4.
    const PROTOCOL_2: &[u8] = b"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01]q\x02(K\x01J\xfe\xff\xff\xffG@\x04\x00\x00\x00\x00\x00\x00N\x88eX\x03\x00\x00\x00\xe4\xbd\xa0q\x03M,\x01Jp\x11\x01\x00X\x01\x00\x00\x00xq\x04\x87q\x05u.";
    const PROTOCOL_4: &[u8] = b"\x80\x04\x954\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01a\x94]\x94(K\x01J\xfe\xff\xff\xffG@\x04\x00\x00\x00\x00\x00\x00N\x88e\x8c\x03\xe4\xbd\xa0\x94M,\x01Jp\x11\x01\x00\x8c\x01x\x94\x87\x94u.";

    #[test]
    fn data_is_read_in_every_protocol() {
        for bytes in [PROTOCOL_2, PROTOCOL_4] {
            let value = read(bytes).unwrap();
            let list = value.get("a").unwrap().as_list().unwrap();
            let want = [Value::Int(1), Value::Int(-2), Value::Float(2.5), Value::None, Value::Bool(true)];
            assert_eq!(list, want);
            let tuple = value.get("你").unwrap().as_list().unwrap();
            assert_eq!(
                (tuple[0].as_size(), tuple[1].as_size(), tuple[2].as_str()),
                (Some(300), Some(70000), Some("x"))
            );
        }
    }

    #[test]
    fn a_call_is_kept_and_never_made() {
        // os.system("touch /tmp/hacked")
        let hostile = b"\x80\x02cos\nsystem\nX\x11\x00\x00\x00touch /tmp/hacked\x85R.";
        let Value::Call(call) = read(hostile).unwrap() else { panic!("not a call") };
        assert_eq!(call.0, Value::Name("os.system".into()));
        assert_eq!(call.1.as_list().unwrap()[0].as_str(), Some("touch /tmp/hacked"));
    }

    #[test]
    fn what_is_malformed_or_hostile_is_refused() {
        let refused = |bytes: &[u8]| read(bytes).unwrap_err().problem;
        for end in 0..PROTOCOL_2.len() {
            assert_eq!(refused(&PROTOCOL_2[..end]), PickleProblem::EndsEarly);
        }
        assert_eq!(refused(b"\x80\x02X\xff\xff\xff\xffa."), PickleProblem::EndsEarly);
        assert_eq!(refused(b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffa."), PickleProblem::EndsEarly);
        assert_eq!(refused(b"Nr\xff\xff\xff\xff."), PickleProblem::SlotOutOfRange);
        assert_eq!(refused(b"i"), PickleProblem::Instruction(0x69));
        assert!(
            read(b"Ni")
                .unwrap_err()
                .to_string()
                .ends_with("instruction 0x69 is not allowed: data does not need it (at byte 1)")
        );
        // A list in itself.
        assert_eq!(refused(b"]q\x00h\x00a."), PickleProblem::TooDeep);
        // Each list holds the one before ten times: 10^30 values in 300 bytes.
        let mut bomb = b"]q\x00".to_vec();
        for i in 1..30u8 {
            bomb.extend([b']', b'q', i, b'(']);
            bomb.extend((0..10).flat_map(|_| [b'h', i - 1]));
            bomb.push(b'e');
        }
        bomb.push(b'.');
        assert_eq!(refused(&bomb), PickleProblem::TooManyValues);
        // A tuple in a tuple in a tuple, a call of a call: 300 KB that would take the stack when they are freed.
        let tower = |start: &[u8], link: &[u8]| [start, &link.repeat(300_000 / link.len()), b"."].concat();
        assert_eq!(refused(&tower(b")", b"\x85")), PickleProblem::TooDeep);
        assert_eq!(refused(&tower(b"N", b"Q")), PickleProblem::TooDeep);
        assert_eq!(refused(&tower(b"N", b")R")), PickleProblem::TooDeep);
        // A list in a tuple in a list.
        assert_eq!(refused(&tower(b"]", b"q\x00]h\x00\x85a")), PickleProblem::TooDeep);
        assert!(read(&[&b")"[..], &[0x85; 200], b"."].concat()).is_ok());
    }
}
