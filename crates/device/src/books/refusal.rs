//! Why a call can't be done, before it is known as whose error.

use crate::error::codes;
use crate::{Attempt, Error, Failure, Violation};
use std::borrow::Cow;

#[derive(Debug)]
pub(crate) enum Refusal {
    /// The device is full.
    NoRoom,
    /// Something else than the device's memory ran out.
    NoAddresses {
        free_bytes: u64,
        total_bytes: u64,
    },
    /// A limit of the system was reached, which the reason names.
    Limit {
        reason: Cow<'static, str>,
        free_bytes: u64,
        total_bytes: u64,
    },
    /// Too many ids.
    TooMany(&'static str),
    Value(Cow<'static, str>),
    /// An id that names nothing.
    Id(&'static str),
    /// Right values at the wrong time.
    State(Cow<'static, str>),
    Unsupported(&'static str),
    /// The system failed, in a way that no limit explains.
    System(String),
    Contract(Box<Violation>),
    /// Any of them, of one entry of a batch.
    At(usize, Box<Refusal>),
}

impl Refusal {
    pub(crate) fn value(reason: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal::Value(reason.into())
    }

    pub(crate) fn at(self, index: usize) -> Refusal {
        Refusal::At(index, Box::new(self))
    }

    /// The error of entry `index` of a batch, or of the entry that the refusal names. `attempt` says what an entry was.
    pub(crate) fn into_error(
        self,
        attempt: &dyn Fn(usize) -> Attempt,
        index: usize,
        free_bytes: u64,
        total_bytes: u64,
    ) -> Error {
        let failure = |code, reason| Box::new(Failure::new(attempt(index), code, reason));
        match self {
            Refusal::NoRoom => Error::OutOfMemory {
                failure: failure(codes::OUT_OF_MEMORY, Cow::Borrowed("the device has no room for it")),
                free_bytes,
                total_bytes,
            },
            Refusal::NoAddresses { free_bytes, total_bytes } => Error::OutOfMemory {
                failure: failure(codes::OUT_OF_MEMORY, Cow::Borrowed("no addresses or locked pages are left for it")),
                free_bytes,
                total_bytes,
            },
            Refusal::Limit { reason, free_bytes, total_bytes } => {
                Error::OutOfMemory { failure: failure(codes::OUT_OF_MEMORY, reason), free_bytes, total_bytes }
            }
            Refusal::TooMany(what) => Error::OutOfMemory {
                failure: failure(codes::OUT_OF_MEMORY, Cow::Borrowed(what)),
                free_bytes: 0,
                total_bytes: 0,
            },
            Refusal::Value(reason) => Error::InvalidValue(failure(codes::INVALID_VALUE, reason)),
            Refusal::Id(reason) => Error::InvalidValue(failure(codes::INVALID_HANDLE, Cow::Borrowed(reason))),
            Refusal::State(reason) => Error::InvalidState(failure(codes::ILLEGAL_STATE, reason)),
            Refusal::System(reason) => Error::Device(failure(codes::UNKNOWN, Cow::Owned(reason))),
            Refusal::Unsupported(reason) => Error::Unsupported(failure(codes::NOT_SUPPORTED, Cow::Borrowed(reason))),
            Refusal::Contract(violation) => {
                let reason = Cow::Borrowed("the caller broke the contract of memory in use");
                let failure = Failure::new(attempt(index), codes::CONTRACT, reason).with_sticky(true);
                Error::Contract { failure: Box::new(failure), violation }
            }
            Refusal::At(index, refusal) => refusal.into_error(attempt, index, free_bytes, total_bytes),
        }
    }
}
