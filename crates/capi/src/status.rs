//! What every call answers with.

use std::ffi::c_char;

/// What a call answers: 0, or why it was refused. A refused call changed nothing. Numbers are never used again for
/// something else; those of later versions may be unknown to a program, which then takes them as failures.
#[allow(non_camel_case_types)] // the C name
pub type gpumem_status = i32;

macro_rules! statuses {
    ($($(#[$doc:meta])* $constant:ident = $number:literal $name:literal,)+) => {
        /// Every status with its name. A test holds the constants against it, which stand below one by one for cbindgen.
        pub(crate) const ALL: &[(gpumem_status, &std::ffi::CStr)] = &[$(($constant, $name),)+];

        #[cfg(test)]
        const NUMBERS: &[gpumem_status] = &[$($number,)+];
    };
}

/// It worked.
pub const GPUMEM_STATUS_OK: gpumem_status = 0;
/// A value can't be right: null where something is needed, a size out of range, text that isn't UTF-8.
pub const GPUMEM_STATUS_INVALID_ARGUMENT: gpumem_status = 1;
/// The handle is null, was never handed out as this kind of thing, or was destroyed.
pub const GPUMEM_STATUS_INVALID_HANDLE: gpumem_status = 2;
/// `struct_size` is not a size that this library knows: not set, or from a newer header.
pub const GPUMEM_STATUS_STRUCT_SIZE: gpumem_status = 3;
/// Right values at the wrong time.
pub const GPUMEM_STATUS_INVALID_STATE: gpumem_status = 4;
/// The device, a budget or a plan's capacity has no room. `gpumem_last_error` says who holds what and what would help.
pub const GPUMEM_STATUS_OUT_OF_MEMORY: gpumem_status = 5;
/// The pointer doesn't belong to the allocator.
pub const GPUMEM_STATUS_FOREIGN_POINTER: gpumem_status = 6;
/// The pointer lies inside a block and not at its start.
pub const GPUMEM_STATUS_INTERIOR_POINTER: gpumem_status = 7;
/// The block was freed before.
pub const GPUMEM_STATUS_DOUBLE_FREE: gpumem_status = 8;
/// A file can't be opened, read or written, or the system gave no thread.
pub const GPUMEM_STATUS_IO: gpumem_status = 9;
/// A file or text isn't what it should be, or contradicts itself.
pub const GPUMEM_STATUS_CORRUPT: gpumem_status = 10;
/// The driver or the device failed.
pub const GPUMEM_STATUS_DEVICE: gpumem_status = 11;
/// This device, or this build, can't do it.
pub const GPUMEM_STATUS_UNSUPPORTED: gpumem_status = 12;
/// The caller's buffer is too short; the size needed was written.
pub const GPUMEM_STATUS_BUFFER_TOO_SMALL: gpumem_status = 13;
/// Nothing has that name or number.
pub const GPUMEM_STATUS_NOT_FOUND: gpumem_status = 14;
/// A callback asked to stop.
pub const GPUMEM_STATUS_CANCELLED: gpumem_status = 15;
/// The process was forked since: the child can't use its parent's device.
pub const GPUMEM_STATUS_FORKED: gpumem_status = 16;
/// Bytes outside a block, or of a freed one, were written; `guard` found it.
pub const GPUMEM_STATUS_OVERRUN: gpumem_status = 17;
/// The plan doesn't hold: buffers overlap, or it isn't a plan of that graph.
pub const GPUMEM_STATUS_PLAN_DEFECT: gpumem_status = 18;
/// A key or value of the configuration is wrong; the message names it and where it came from.
pub const GPUMEM_STATUS_CONFIGURATION: gpumem_status = 19;
/// A bug in gpumem, caught before it could do harm.
pub const GPUMEM_STATUS_INTERNAL: gpumem_status = 20;

statuses! {
    GPUMEM_STATUS_OK = 0 c"ok",
    GPUMEM_STATUS_INVALID_ARGUMENT = 1 c"invalid_argument",
    GPUMEM_STATUS_INVALID_HANDLE = 2 c"invalid_handle",
    GPUMEM_STATUS_STRUCT_SIZE = 3 c"struct_size",
    GPUMEM_STATUS_INVALID_STATE = 4 c"invalid_state",
    GPUMEM_STATUS_OUT_OF_MEMORY = 5 c"out_of_memory",
    GPUMEM_STATUS_FOREIGN_POINTER = 6 c"foreign_pointer",
    GPUMEM_STATUS_INTERIOR_POINTER = 7 c"interior_pointer",
    GPUMEM_STATUS_DOUBLE_FREE = 8 c"double_free",
    GPUMEM_STATUS_IO = 9 c"io",
    GPUMEM_STATUS_CORRUPT = 10 c"corrupt",
    GPUMEM_STATUS_DEVICE = 11 c"device",
    GPUMEM_STATUS_UNSUPPORTED = 12 c"unsupported",
    GPUMEM_STATUS_BUFFER_TOO_SMALL = 13 c"buffer_too_small",
    GPUMEM_STATUS_NOT_FOUND = 14 c"not_found",
    GPUMEM_STATUS_CANCELLED = 15 c"cancelled",
    GPUMEM_STATUS_FORKED = 16 c"forked",
    GPUMEM_STATUS_OVERRUN = 17 c"overrun",
    GPUMEM_STATUS_PLAN_DEFECT = 18 c"plan_defect",
    GPUMEM_STATUS_CONFIGURATION = 19 c"configuration",
    GPUMEM_STATUS_INTERNAL = 20 c"internal",
}

/// Any thread. The name of a status in lower case, as `out_of_memory`; `unknown` for a number this library doesn't
/// know. Never null; valid forever.
#[unsafe(no_mangle)]
pub extern "C" fn gpumem_status_name(status: gpumem_status) -> *const c_char {
    ALL.iter().find(|known| known.0 == status).map_or(c"unknown", |known| known.1).as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_table_and_never_given_twice() {
        for (index, (status, name)) in ALL.iter().enumerate() {
            assert_eq!(*status, NUMBERS[index], "{name:?}");
            assert_eq!(ALL.iter().filter(|other| other.0 == *status || other.1 == *name).count(), 1, "{name:?}");
        }
    }
}
