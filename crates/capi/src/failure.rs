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
    #[error("{argument} is 2^64 - 1, GPUMEM_STREAM_HOME or GPUMEM_STREAM_ALL; one stream is needed")]
    NotOneStream { argument: &'static str },
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
    #[error("there is no {kind} {number}; there are {count}")]
    NoSuch { kind: &'static str, number: u64, count: usize },
    #[error("{kind} `{name}` is not in the plan")]
    NotInPlan { kind: &'static str, name: String },
    #[error("{path} holds {found}, not {wanted}")]
    WrongContent { path: String, wanted: &'static str, found: &'static str },
    #[error("the callback asked to stop")]
    Cancelled,
    #[error(
        "no plan fits into {capacity} bytes: the best found needs {peak}, and none needs less than {lower_bound}; plan \
         without a capacity to see it"
    )]
    DoesNotFit { capacity: u64, peak: u64, lower_bound: u64 },
    #[error("the system gave no thread to plan on: {0}")]
    NoThread(std::io::Error),
    #[error("the process's own allocator stays until the process ends")]
    DefaultStays,
    #[error("there is no tag of this thread to take off")]
    NoTag,
    #[error("a snapshot can't be written: {source}")]
    Unwritable { source: std::io::Error },
    #[error(transparent)]
    Pools(#[from] pools::Error),
    #[error(transparent)]
    Lifetime(#[from] lifetime::Error),
    #[error(transparent)]
    Coloring(#[from] coloring::Error),
    #[error("the plan doesn't hold: {0}")]
    Defect(#[from] coloring::Defect),
    #[error("not a plan of this graph: {0}")]
    Difference(#[from] coloring::Difference),
    #[error(transparent)]
    Formats(#[from] formats::Error),
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
            | Self::NotOneStream { .. }
            | Self::TooMany { .. } => GPUMEM_STATUS_INVALID_ARGUMENT,
            Self::StructSize { .. } => GPUMEM_STATUS_STRUCT_SIZE,
            Self::Handle { .. } => GPUMEM_STATUS_INVALID_HANDLE,
            Self::TooManyHandles { .. } => GPUMEM_STATUS_INVALID_STATE,
            Self::BufferTooSmall { .. } => GPUMEM_STATUS_BUFFER_TOO_SMALL,
            Self::NoSuch { .. } | Self::NotInPlan { .. } => GPUMEM_STATUS_NOT_FOUND,
            Self::WrongContent { .. } => GPUMEM_STATUS_CORRUPT,
            Self::Cancelled => GPUMEM_STATUS_CANCELLED,
            Self::DoesNotFit { .. } => GPUMEM_STATUS_OUT_OF_MEMORY,
            Self::NoThread(_) | Self::Unwritable { .. } | Self::Coloring(coloring::Error::NoThreads { .. }) => {
                GPUMEM_STATUS_IO
            }
            Self::DefaultStays | Self::NoTag => GPUMEM_STATUS_INVALID_STATE,
            Self::Pools(error) => of_pools(error),
            Self::Lifetime(lifetime::Error::Internal { .. }) | Self::Coloring(coloring::Error::Internal { .. }) => {
                GPUMEM_STATUS_INTERNAL
            }
            Self::Lifetime(_) | Self::Coloring(_) => GPUMEM_STATUS_INVALID_ARGUMENT,
            Self::Defect(_) | Self::Difference(_) => GPUMEM_STATUS_PLAN_DEFECT,
            Self::Formats(formats::Error::Io { .. }) => GPUMEM_STATUS_IO,
            Self::Formats(formats::Error::NotBuiltIn { .. } | formats::Error::NotCarried { .. }) => {
                GPUMEM_STATUS_UNSUPPORTED
            }
            Self::Formats(_) => GPUMEM_STATUS_CORRUPT,
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
        runtime::Error::Pools(error) => of_pools(error),
        runtime::Error::Trace { .. } | runtime::Error::File { .. } => GPUMEM_STATUS_IO,
        runtime::Error::UnknownDevice { .. } => GPUMEM_STATUS_NOT_FOUND,
        runtime::Error::Device(error) => of_device(error),
        _ => GPUMEM_STATUS_INTERNAL,
    }
}

fn of_pools(error: &pools::Error) -> gpumem_status {
    match error {
        pools::Error::OutOfMemory(_) => GPUMEM_STATUS_OUT_OF_MEMORY,
        pools::Error::TooLarge { .. } | pools::Error::BadAlignment { .. } | pools::Error::BadSetting { .. } => {
            GPUMEM_STATUS_INVALID_ARGUMENT
        }
        pools::Error::ForeignPointer { .. } => GPUMEM_STATUS_FOREIGN_POINTER,
        pools::Error::InteriorPointer { .. } => GPUMEM_STATUS_INTERIOR_POINTER,
        pools::Error::DoubleFree { .. } => GPUMEM_STATUS_DOUBLE_FREE,
        pools::Error::TooManyReferences { .. } | pools::Error::NoSuchUse { .. } | pools::Error::TooMany { .. } => {
            GPUMEM_STATUS_INVALID_STATE
        }
        pools::Error::Guard(_) => GPUMEM_STATUS_OVERRUN,
        pools::Error::Device(error) => of_device(error),
        pools::Error::Forked => GPUMEM_STATUS_FORKED,
        pools::Error::Unsupported { .. } => GPUMEM_STATUS_UNSUPPORTED,
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
        device::Error::Forked(_) => GPUMEM_STATUS_FORKED,
        _ => GPUMEM_STATUS_INTERNAL,
    }
}
