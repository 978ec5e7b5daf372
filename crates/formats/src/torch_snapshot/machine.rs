//! Runs a pickle: a stack, marks and a memo, and nothing that leaves them.

use hashbrown::HashMap;

use super::opcodes as op;
use super::problem::SnapshotProblem as Problem;
use super::source::Source;
use super::store::Store;
use super::value::Value;

/// Values by number, as picklers give them: one after the other.
#[derive(Default)]
struct Memo {
    dense: Vec<Option<Value>>,
    sparse: HashMap<u32, Value>,
    count: u64,
}

impl Memo {
    /// A file that skips numbers can't make the dense part much larger than what it stores.
    const SPARE: u64 = 1024;

    fn put(&mut self, index: u32, value: Value) {
        let at = index as usize;
        let old = if at < self.dense.len() {
            self.dense[at].replace(value)
        } else if u64::from(index) <= 2 * self.count + Self::SPARE {
            self.dense.resize(at, None);
            self.dense.push(Some(value));
            self.sparse.remove(&index)
        } else {
            self.sparse.insert(index, value)
        };
        self.count += u64::from(old.is_none());
    }

    fn get(&self, index: u32) -> Option<Value> {
        let dense = self.dense.get(index as usize).copied().flatten();
        dense.or_else(|| self.sparse.get(&index).copied())
    }
}

/// A pickle being run.
pub(super) struct Machine<'i, 'a> {
    source: Source<'i, 'a>,
    store: Store,
    stack: Vec<Value>,
    /// Where on the stack each mark is.
    marks: Vec<usize>,
    memo: Memo,
    apart: Vec<u8>,
}

/// Where and why a pickle was refused.
pub(super) struct Stop {
    pub(super) offset: u64,
    pub(super) problem: Problem,
}

impl<'i, 'a> Machine<'i, 'a> {
    pub(super) fn new(source: Source<'i, 'a>, store: Store) -> Self {
        Self { source, store, stack: Vec::new(), marks: Vec::new(), memo: Memo::default(), apart: Vec::new() }
    }

    /// Runs to STOP; gives what is then on top, where everything else is, and how many bytes follow.
    pub(super) fn run(mut self) -> Result<(Value, Store, u64), Stop> {
        let mut offset;
        let result = loop {
            offset = self.source.offset();
            self.store.offset = offset;
            let opcode = match self.source.byte() {
                Ok(op::STOP) => break self.pop("STOP").and_then(|top| self.store.settle(top, false)),
                Ok(opcode) => opcode,
                Err(problem) => break Err(problem),
            };
            if let Err(problem) = self.step(opcode) {
                break Err(problem);
            }
        };
        match result {
            Ok(top) => Ok((top, self.store, self.source.drain())),
            Err(Problem::CutOff) => Err(Stop { offset: self.source.offset(), problem: Problem::CutOff }),
            Err(problem) => Err(Stop { offset, problem }),
        }
    }

    fn step(&mut self, opcode: u8) -> Result<(), Problem> {
        match opcode {
            op::BINGET => {
                let index = self.source.byte()?;
                self.get(u32::from(index))
            }
            op::LONG_BINGET => {
                let index = u32::from_le_bytes(self.source.array()?);
                self.get(index)
            }
            op::MEMOIZE => self.put(self.memo.count),
            op::BINPUT => {
                let index = self.source.byte()?;
                self.put(u64::from(index))
            }
            op::LONG_BINPUT => {
                let index = u32::from_le_bytes(self.source.array()?);
                self.put(u64::from(index))
            }
            op::MARK => {
                // Marks nest as the values do; a writer has at most a list and a dict of each level open.
                if self.marks.len() as u64 >= 2 * self.store.limits.max_nesting {
                    return Err(Problem::TooDeep { limit: self.store.limits.max_nesting });
                }
                self.marks.push(self.stack.len());
                Ok(())
            }
            op::EMPTY_DICT | op::EMPTY_LIST => {
                let value = self.store.open(opcode == op::EMPTY_DICT)?;
                self.push(value)
            }
            op::SETITEMS => self.fill_marked(true, "SETITEMS"),
            op::APPENDS => self.fill_marked(false, "APPENDS"),
            op::SETITEM => self.fill_last(2, true, "SETITEM"),
            op::APPEND => self.fill_last(1, false, "APPEND"),
            op::BININT1 => {
                let number = self.source.byte()?;
                self.push(Value::Int(u64::from(number)))
            }
            op::BININT2 => {
                let number = u16::from_le_bytes(self.source.array()?);
                self.push(Value::Int(u64::from(number)))
            }
            op::BININT => {
                let number = i32::from_le_bytes(self.source.array()?);
                self.push(integer(i64::from(number)))
            }
            op::LONG1 => {
                let count = self.source.byte()?;
                self.long(u64::from(count))
            }
            op::LONG4 => {
                let count = self.length()?;
                self.long(count)
            }
            op::BINFLOAT => {
                let number = f64::from_be_bytes(self.source.array()?);
                self.push(Value::Float(number))
            }
            op::SHORT_BINUNICODE | op::SHORT_BINSTRING => {
                let count = self.source.byte()?;
                self.text(u64::from(count))
            }
            op::BINUNICODE => {
                let count = u32::from_le_bytes(self.source.array()?);
                self.text(u64::from(count))
            }
            op::BINUNICODE8 => {
                let count = u64::from_le_bytes(self.source.array()?);
                self.text(count)
            }
            op::BINSTRING => {
                let count = self.length()?;
                self.text(count)
            }
            op::NONE => self.push(Value::None),
            op::NEWTRUE => self.push(Value::Bool(true)),
            op::NEWFALSE => self.push(Value::Bool(false)),
            _ => self.seldom(opcode),
        }
    }

    /// Opcodes that snapshots have little or nothing of.
    fn seldom(&mut self, opcode: u8) -> Result<(), Problem> {
        match opcode {
            op::FRAME => self.source.array::<8>().map(|_| ()),
            op::PROTO => match self.source.byte()? {
                2..=5 => Ok(()),
                other => Err(Problem::Protocol(other)),
            },
            op::EMPTY_TUPLE => self.push(Value::Empty),
            op::TUPLE => {
                let start = self.pop_mark("TUPLE")?;
                self.tuple(start)
            }
            op::TUPLE1 => self.tuple_of(1, "TUPLE1"),
            op::TUPLE2 => self.tuple_of(2, "TUPLE2"),
            op::TUPLE3 => self.tuple_of(3, "TUPLE3"),
            op::LIST | op::DICT => {
                let (is_dict, name) = if opcode == op::DICT { (true, "DICT") } else { (false, "LIST") };
                let start = self.pop_mark(name)?;
                let target = self.store.open(is_dict)?;
                let is_in_list = self.is_in_list();
                let target = self.store.fill(target, &mut self.stack[start..], is_dict, is_in_list, name)?;
                self.stack.truncate(start);
                self.push(target)
            }
            op::POP => {
                if self.stack.len() > self.floor() {
                    let value = self.pop("POP")?;
                    self.store.forget(value);
                    return Ok(());
                }
                self.marks.pop().map(|_| ()).ok_or(Problem::Underflow { name: "POP" })
            }
            op::POP_MARK => {
                let start = self.pop_mark("POP_MARK")?;
                self.stack.truncate(start);
                Ok(())
            }
            op::DUP => {
                let value = self.top("DUP")?;
                self.store.share(value);
                self.push(value)
            }
            op::BINBYTES8 | op::BYTEARRAY8 => {
                let count = u64::from_le_bytes(self.source.array()?);
                self.bytes(count)
            }
            op::BINBYTES => {
                let count = u32::from_le_bytes(self.source.array()?);
                self.bytes(u64::from(count))
            }
            op::SHORT_BINBYTES => {
                let count = self.source.byte()?;
                self.bytes(u64::from(count))
            }
            op::EMPTY_SET => self.push(Value::Set),
            op::FROZENSET => {
                let start = self.pop_mark("FROZENSET")?;
                self.stack.truncate(start);
                self.push(Value::Set)
            }
            op::ADDITEMS => {
                let start = self.pop_mark("ADDITEMS")?;
                self.stack.truncate(start);
                match self.top("ADDITEMS")? {
                    Value::Set => Ok(()),
                    other => Err(Problem::WrongTarget { name: "ADDITEMS", found: other.found() }),
                }
            }
            other => Err(match (op::code(other), op::old(other)) {
                (Some(name), _) => Problem::Code { name },
                (_, Some(name)) => Problem::OldOpcode { name },
                _ => Problem::UnknownOpcode { byte: other },
            }),
        }
    }

    fn push(&mut self, value: Value) -> Result<(), Problem> {
        let limit = self.store.limits.max_values;
        if self.stack.len() as u64 >= limit {
            return Err(Problem::TooMany { what: "values on the stack", limit });
        }
        self.stack.push(value);
        Ok(())
    }

    /// Where the values above the last mark begin: an opcode may not reach below.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    /// Whether what lies above the last mark is going into a list.
    fn is_in_list(&self) -> bool {
        let below = self.floor().checked_sub(1).map(|at| self.stack[at]);
        below.is_some_and(|value| self.store.is_open_list(value))
    }

    fn top(&self, name: &'static str) -> Result<Value, Problem> {
        match self.stack.last() {
            Some(value) if self.stack.len() > self.floor() => Ok(*value),
            _ => Err(Problem::Underflow { name }),
        }
    }

    fn pop(&mut self, name: &'static str) -> Result<Value, Problem> {
        let value = self.top(name)?;
        self.stack.pop();
        Ok(value)
    }

    fn pop_mark(&mut self, name: &'static str) -> Result<usize, Problem> {
        self.marks.pop().ok_or(Problem::NoMark { name })
    }

    /// Where the last `count` values begin.
    fn last(&self, count: usize, name: &'static str) -> Result<usize, Problem> {
        let start = self.stack.len().checked_sub(count).filter(|start| *start >= self.floor());
        start.ok_or(Problem::Underflow { name })
    }

    fn put(&mut self, index: u64) -> Result<(), Problem> {
        let limit = self.store.limits.max_memo_entries;
        let value = self.top("MEMOIZE")?;
        let index = u32::try_from(index).ok().filter(|_| self.memo.count < limit);
        let Some(index) = index else { return Err(Problem::TooMany { what: "memo entries", limit }) };
        self.store.share(value);
        self.memo.put(index, value);
        Ok(())
    }

    fn get(&mut self, index: u32) -> Result<(), Problem> {
        match self.memo.get(index) {
            Some(value) => self.push(value),
            None => Err(Problem::NoMemo(u64::from(index))),
        }
    }

    fn fill_marked(&mut self, is_dict: bool, name: &'static str) -> Result<(), Problem> {
        let start = self.pop_mark(name)?;
        self.fill(start, is_dict, name)
    }

    fn fill_last(&mut self, count: usize, is_dict: bool, name: &'static str) -> Result<(), Problem> {
        let start = self.last(count, name)?;
        self.fill(start, is_dict, name)
    }

    /// Puts what lies on the stack from `start` into what lies below it.
    fn fill(&mut self, start: usize, is_dict: bool, name: &'static str) -> Result<(), Problem> {
        let Some(at) = start.checked_sub(1).filter(|at| *at >= self.floor()) else {
            return Err(Problem::Underflow { name });
        };
        let target = self.stack[at];
        let is_in_list = self.is_in_list();
        let filled = self.store.fill(target, &mut self.stack[start..], is_dict, is_in_list, name)?;
        self.stack.truncate(start);
        self.stack[at] = filled;
        Ok(())
    }

    fn tuple_of(&mut self, count: usize, name: &'static str) -> Result<(), Problem> {
        let start = self.last(count, name)?;
        self.tuple(start)
    }

    fn tuple(&mut self, start: usize) -> Result<(), Problem> {
        let tuple = self.store.tuple(&mut self.stack[start..])?;
        self.stack.truncate(start);
        self.push(tuple)
    }

    fn length(&mut self) -> Result<u64, Problem> {
        let count = i32::from_le_bytes(self.source.array()?);
        u64::try_from(count).map_err(|_| Problem::NegativeLength(i64::from(count)))
    }

    fn text(&mut self, count: u64) -> Result<(), Problem> {
        let limit = self.store.limits.max_name_bytes;
        if (self.store.texts.text_bytes() as u64).saturating_add(count) > limit {
            return Err(Problem::TooMany { what: "bytes of text", limit });
        }
        let value = self.store.text(self.source.slice(count, &mut self.apart)?);
        self.push(value)
    }

    fn bytes(&mut self, count: u64) -> Result<(), Problem> {
        self.source.skip(count)?;
        self.push(Value::Bytes)
    }

    fn long(&mut self, count: u64) -> Result<(), Problem> {
        let limit = self.store.limits.max_name_bytes;
        if count > limit {
            return Err(Problem::TooMany { what: "bytes of a number", limit });
        }
        let value = long(self.source.slice(count, &mut self.apart)?);
        self.push(value)
    }
}

fn integer(number: i64) -> Value {
    u64::try_from(number).map_or(Value::Negative(number), Value::Int)
}

/// A number in two's complement, lowest byte first.
fn long(bytes: &[u8]) -> Value {
    let is_negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let (low, high) = bytes.split_at(bytes.len().min(8));
    let filler = if is_negative { 0xff } else { 0 };
    let mut word = [filler; 8];
    word[..low.len()].copy_from_slice(low);
    if high.iter().any(|byte| *byte != filler) {
        // What is too far below 0 is refused as negative wherever a number is needed.
        return if is_negative { Value::Negative(i64::MIN) } else { Value::Huge };
    }
    let number = i64::from_le_bytes(word);
    match is_negative {
        true if number < 0 => Value::Negative(number),
        true => Value::Negative(i64::MIN),
        false => Value::Int(number.cast_unsigned()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn longs_are_read_to_64_bits_and_told_from_larger_ones() {
        assert_eq!(long(&[]), Value::Int(0));
        assert_eq!(long(&[0xff]), Value::Negative(-1));
        assert_eq!(long(&[0xff, 0]), Value::Int(255));
        assert_eq!(long(&[0xff; 9]), Value::Negative(-1));
        assert_eq!(long(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0]), Value::Int(u64::MAX));
        assert_eq!(long(&[0, 0, 0, 0, 0, 0, 0, 0, 1]), Value::Huge);
        assert_eq!(long(&[0, 0, 0, 0, 0, 0, 0, 0x80]), Value::Negative(i64::MIN));
        assert_eq!(long(&[0, 0, 0, 0, 0, 0, 0, 0x70, 0xff]), Value::Negative(i64::MIN));
        assert_eq!(long(&[5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Value::Int(5));
    }

    #[test]
    fn a_memo_with_wide_gaps_stays_small() {
        let mut memo = Memo::default();
        for index in [0, 1, 40, u32::MAX, 1 << 30, 2] {
            memo.put(index, Value::Int(u64::from(index)));
        }
        memo.put(1, Value::None);
        assert_eq!(memo.count, 6);
        assert_eq!(memo.get(1 << 30), Some(Value::Int(1 << 30)));
        assert_eq!((memo.get(1), memo.get(39), memo.get(3000)), (Some(Value::None), None, None));
        assert!(memo.dense.len() <= 41);
    }
}
