//! Which version this is.

use std::ffi::{CStr, c_char};

/// Rises with changes that break programs; the soname follows it. Before 1.0 a rise of `GPUMEM_VERSION_MINOR` may break
/// them too.
pub const GPUMEM_VERSION_MAJOR: u32 = 0;
/// Rises with additions.
pub const GPUMEM_VERSION_MINOR: u32 = 1;
/// Rises with corrections.
pub const GPUMEM_VERSION_PATCH: u32 = 0;

/// A number that says nothing: what it stands for is chosen as if the field weren't there.
pub const GPUMEM_UNSET: u64 = 0xffff_ffff_ffff_ffff;

/// A switch that says nothing.
pub const GPUMEM_DEFAULT: i32 = 0;
/// A switch that is off.
pub const GPUMEM_OFF: i32 = 1;
/// A switch that is on.
pub const GPUMEM_ON: i32 = 2;

const TEXT: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(text) => text,
    Err(_) => c"",
};

/// Any thread. The library's version as one number, to be compared with `GPUMEM_VERSION`, the header's: 10000 for each
/// major, 100 for each minor, 1 for each patch.
#[unsafe(no_mangle)]
pub extern "C" fn gpumem_version() -> u32 {
    GPUMEM_VERSION_MAJOR * 10_000 + GPUMEM_VERSION_MINOR * 100 + GPUMEM_VERSION_PATCH
}

/// Any thread. The library's version as text, as `0.1.0`. Never null; valid forever.
#[unsafe(no_mangle)]
pub extern "C" fn gpumem_version_text() -> *const c_char {
    TEXT.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_macros_are_the_version_of_the_package() {
        let macros = format!("{GPUMEM_VERSION_MAJOR}.{GPUMEM_VERSION_MINOR}.{GPUMEM_VERSION_PATCH}");
        assert_eq!(macros, env!("CARGO_PKG_VERSION"));
        assert_eq!(TEXT.to_str(), Ok(macros.as_str()));
    }
}
