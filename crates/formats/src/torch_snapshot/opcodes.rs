//! Opcodes of pickle protocols 2 to 5 that build plain values, and the names of all others.

pub(super) const PROTO: u8 = 0x80;
pub(super) const FRAME: u8 = 0x95;
pub(super) const STOP: u8 = b'.';
pub(super) const MARK: u8 = b'(';
pub(super) const POP: u8 = b'0';
pub(super) const POP_MARK: u8 = b'1';
pub(super) const DUP: u8 = b'2';
pub(super) const NONE: u8 = b'N';
pub(super) const NEWTRUE: u8 = 0x88;
pub(super) const NEWFALSE: u8 = 0x89;
pub(super) const BININT: u8 = b'J';
pub(super) const BININT1: u8 = b'K';
pub(super) const BININT2: u8 = b'M';
pub(super) const LONG1: u8 = 0x8a;
pub(super) const LONG4: u8 = 0x8b;
pub(super) const BINFLOAT: u8 = b'G';
pub(super) const BINSTRING: u8 = b'T';
pub(super) const SHORT_BINSTRING: u8 = b'U';
pub(super) const BINUNICODE: u8 = b'X';
pub(super) const SHORT_BINUNICODE: u8 = 0x8c;
pub(super) const BINUNICODE8: u8 = 0x8d;
pub(super) const BINBYTES: u8 = b'B';
pub(super) const SHORT_BINBYTES: u8 = b'C';
pub(super) const BINBYTES8: u8 = 0x8e;
pub(super) const BYTEARRAY8: u8 = 0x96;
pub(super) const EMPTY_TUPLE: u8 = b')';
pub(super) const TUPLE: u8 = b't';
pub(super) const TUPLE1: u8 = 0x85;
pub(super) const TUPLE2: u8 = 0x86;
pub(super) const TUPLE3: u8 = 0x87;
pub(super) const EMPTY_LIST: u8 = b']';
pub(super) const LIST: u8 = b'l';
pub(super) const APPEND: u8 = b'a';
pub(super) const APPENDS: u8 = b'e';
pub(super) const EMPTY_DICT: u8 = b'}';
pub(super) const DICT: u8 = b'd';
pub(super) const SETITEM: u8 = b's';
pub(super) const SETITEMS: u8 = b'u';
pub(super) const EMPTY_SET: u8 = 0x8f;
pub(super) const ADDITEMS: u8 = 0x90;
pub(super) const FROZENSET: u8 = 0x91;
pub(super) const BINPUT: u8 = b'q';
pub(super) const LONG_BINPUT: u8 = b'r';
pub(super) const MEMOIZE: u8 = 0x94;
pub(super) const BINGET: u8 = b'h';
pub(super) const LONG_BINGET: u8 = b'j';

/// Opcodes that make Python import, build or run something, or need something from outside the file.
const CODE: [(u8, &str); 15] = [
    (b'c', "GLOBAL"),
    (0x93, "STACK_GLOBAL"),
    (b'i', "INST"),
    (b'o', "OBJ"),
    (0x81, "NEWOBJ"),
    (0x92, "NEWOBJ_EX"),
    (b'R', "REDUCE"),
    (b'b', "BUILD"),
    (0x82, "EXT1"),
    (0x83, "EXT2"),
    (0x84, "EXT4"),
    (b'P', "PERSID"),
    (b'Q', "BINPERSID"),
    (0x97, "NEXT_BUFFER"),
    (0x98, "READONLY_BUFFER"),
];

/// Opcodes that write their value as a line of text.
const OLD: [(u8, &str); 7] =
    [(b'I', "INT"), (b'L', "LONG"), (b'F', "FLOAT"), (b'S', "STRING"), (b'V', "UNICODE"), (b'g', "GET"), (b'p', "PUT")];

fn named(table: &[(u8, &'static str)], opcode: u8) -> Option<&'static str> {
    table.iter().find(|(code, _)| *code == opcode).map(|(_, name)| *name)
}

/// The name of an opcode that is refused because of what it does.
pub(super) fn code(opcode: u8) -> Option<&'static str> {
    named(&CODE, opcode)
}

/// The name of an opcode of an older protocol.
pub(super) fn old(opcode: u8) -> Option<&'static str> {
    named(&OLD, opcode)
}
