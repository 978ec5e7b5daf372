//! Why a call is refused: the facts, their one text, and the status each maps to.

use crate::status::*;

/// Result of a call's body.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// Why a call is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{argument} is null")]
    Null { argument: &'static str },
    #[error("{argument} is at {address:#x}, which is not aligned to {alignment} bytes")]
    Misaligned { argument: &'static str, address: usize, alignment: usize },
    #[error("{argument} is not UTF-8")]
    NotUtf8 { argument: &'static str },
    #[error("{argument} is {value}, which is not {expected}")]
    BadNumber { argument: &'static str, value: i64, expected: &'static str },
    #[error("{argument} has {value}; at most {limit} are taken")]
    TooMany { argument: &'static str, value: usize, limit: usize },
    #[error("{argument} says struct_size {found}, and this library knows {known:?}; begin with {initializer}")]
    StructSize { argument: &'static str, found: usize, known: &'static [usize], initializer: &'static str },
    #[error("{argument} ({token:#x}) is no {kind}: null, of another kind, or destroyed")]
    Handle { argument: &'static str, token: usize, kind: &'static str },
    #[error("no more than {limit} {kind}s can exist at a time")]
    TooManyHandles { kind: &'static str, limit: usize },
    #[error("the buffer has {capacity} bytes and {needed} are needed")]
    BufferTooSmall { needed: usize, capacity: usize },
    #[error(transparent)]
    Runtime(#[from] runtime::Error),
    #[error(transparent)]
    Device(#[from] device::Error),
    #[error("a panic in gpumem, which is a bug: {0}")]
    Panic(String),
}

impl Failure {
    /// The status it maps to.
    pub(crate) fn status(&self) -> gpumem_status {
        match self {
            Self::Null { .. }
            | Self::Misaligned { .. }
            | Self::NotUtf8 { .. }
            | Self::BadNumber { .. }
            | Self::TooMany { .. } => GPUMEM_STATUS_INVALID_ARGUMENT,
            Self::StructSize { .. } => GPUMEM_STATUS_STRUCT_SIZE,
            Self::Handle { .. } => GPUMEM_STATUS_INVALID_HANDLE,
            Self::TooManyHandles { .. } => GPUMEM_STATUS_INVALID_STATE,
            Self::BufferTooSmall { .. } => GPUMEM_STATUS_BUFFER_TOO_SMALL,
            Self::Runtime(error) => of_runtime(error),
            Self::Device(error) => of_device(error),
            Self::Panic(_) => GPUMEM_STATUS_INTERNAL,
        }
    }
}

fn of_runtime(error: &runtime::Error) -> gpumem_status {
    match error {
        runtime::Error::UnknownKey { .. }
        | runtime::Error::BadValue { .. }
        | runtime::Error::BadItem { .. }
        | runtime::Error::Twice { .. }
        | runtime::Error::Toml { .. } => GPUMEM_STATUS_CONFIGURATION,
        runtime::Error::File { .. } => GPUMEM_STATUS_IO,
        runtime::Error::UnknownDevice { .. } => GPUMEM_STATUS_NOT_FOUND,
        runtime::Error::Device(error) => of_device(error),
        _ => GPUMEM_STATUS_INTERNAL,
    }
}

fn of_device(error: &device::Error) -> gpumem_status {
    match error {
        device::Error::OutOfMemory { .. } => GPUMEM_STATUS_OUT_OF_MEMORY,
        device::Error::InvalidValue(_) => GPUMEM_STATUS_INVALID_ARGUMENT,
        device::Error::InvalidState(_) | device::Error::Contract { .. } => GPUMEM_STATUS_INVALID_STATE,
        device::Error::Unsupported(_) => GPUMEM_STATUS_UNSUPPORTED,
        device::Error::Device(_) => GPUMEM_STATUS_DEVICE,
        _ => GPUMEM_STATUS_INTERNAL,
    }
}
