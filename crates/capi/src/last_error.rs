//! The last error of each thread, in a buffer that is there before anything goes wrong: saying what went wrong must not
//! need memory.

use std::cell::{Cell, RefCell};
use std::ffi::c_char;
use std::fmt::{self, Write};

use crate::status::{GPUMEM_STATUS_OK, gpumem_status};

/// Bytes of a message with its closing zero. A report of who holds what fits.
const BYTES: usize = 8192;

/// What a message that doesn't fit ends with.
const CUT: &str = "...";

// In this order, so that its address is that of the text.
#[repr(C)]
pub(crate) struct Message {
    bytes: [u8; BYTES],
    length: usize,
}

impl Message {
    /// No text.
    pub(crate) const EMPTY: Self = Self { bytes: [0; BYTES], length: 0 };

    /// Takes this text in place of what there was. What is too long is cut, and ends in `...`.
    pub(crate) fn show(&mut self, text: &dyn fmt::Display) {
        self.length = 0;
        if write!(self, "{text}").is_err() {
            let length = self.length;
            self.bytes[length..length + CUT.len()].copy_from_slice(CUT.as_bytes());
            self.length += CUT.len();
        }
        self.bytes[self.length] = 0;
    }

    /// The text, for as long as the message isn't changed or moved.
    pub(crate) fn as_ptr(&self) -> *const c_char {
        self.bytes.as_ptr().cast()
    }
}

impl Write for Message {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = BYTES - 1 - CUT.len() - self.length;
        let mut taken = text.len().min(room);
        while !text.is_char_boundary(taken) {
            taken -= 1;
        }
        // A zero would end the text for C.
        for (to, &from) in self.bytes[self.length..].iter_mut().zip(&text.as_bytes()[..taken]) {
            *to = if from == 0 { b'?' } else { from };
        }
        self.length += taken;
        if taken == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

thread_local! {
    // Without a destructor: both can be used until the thread is gone.
    static MESSAGE: RefCell<Message> = const { RefCell::new(Message::EMPTY) };
    static STATUS: Cell<gpumem_status> = const { Cell::new(GPUMEM_STATUS_OK) };
}

/// Keeps the message for this thread. What is too long is cut, and ends in `...`.
#[cold]
pub(crate) fn set(status: gpumem_status, text: &dyn fmt::Display) {
    STATUS.with(|last| last.set(status));
    MESSAGE.with(|message| {
        // Taken already if showing `text` failed in here: then the text of that failure is what there is.
        let Ok(mut message) = message.try_borrow_mut() else { return };
        message.show(text);
    });
}

/// Any thread. Why the last call of this thread that failed did so, in words, UTF-8; empty if none failed yet. A call
/// that succeeds leaves it as it is, so look at it only after a failure. Never null; valid until the next call of this
/// thread that fails, or its end.
#[unsafe(no_mangle)]
pub extern "C" fn gpumem_last_error() -> *const c_char {
    MESSAGE.with(|message| message.as_ptr().cast())
}

/// Any thread. The status of the last call of this thread that failed; `GPUMEM_STATUS_OK` if none did.
#[unsafe(no_mangle)]
pub extern "C" fn gpumem_last_error_status() -> gpumem_status {
    STATUS.with(Cell::get)
}
