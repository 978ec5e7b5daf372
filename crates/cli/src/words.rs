//! What the planner and the verifier say about buffers by number, with identifiers instead.

use coloring::{Defect, Error};

fn id(ids: &[String], number: usize) -> String {
    ids.get(number).map_or_else(|| number.to_string(), |id| format!("`{id}`"))
}

/// Why a problem was refused. `ids` may be empty.
pub(crate) fn error_in_words(error: &Error, ids: &[String]) -> String {
    match *error {
        Error::FixedOverlap { first, second } => format!(
            "{} and {} are pinned on overlapping bytes while both are live; --ignore-offsets plans them anew",
            id(ids, first),
            id(ids, second)
        ),
        Error::MisalignedFixed { buffer, offset, alignment } => format!(
            "{} is pinned at offset {offset}, which is not a multiple of the alignment {alignment}",
            id(ids, buffer)
        ),
        Error::BadGap { buffer, gap, reason } => format!("gap {} of {} {reason}", gap + 1, id(ids, buffer)),
        ref other => other.to_string(),
    }
}

/// What is wrong with a plan.
pub(crate) fn defect_in_words(defect: &Defect, ids: &[String]) -> String {
    match *defect {
        Defect::Overlap { first, second, from, to, at } => {
            let when = at.map(|t| format!(" at time {t}")).unwrap_or_default();
            format!("{} and {} overlap in bytes [{from}, {to}){when}", id(ids, first), id(ids, second))
        }
        Defect::Misaligned { buffer, offset, alignment } => {
            format!("{} at offset {offset} is not aligned to {alignment}", id(ids, buffer))
        }
        Defect::Moved { buffer, offset, wanted } => {
            format!("{} must lie at offset {wanted} but lies at {offset}", id(ids, buffer))
        }
        Defect::Overflow { buffer, offset } => format!("{} at offset {offset} ends beyond 2^64", id(ids, buffer)),
        Defect::Peak { stated, found } => {
            format!("the plan states a peak of {} bytes but its highest end is {}", stated.0, found.0)
        }
        Defect::Bound { what, stated, found } => {
            format!("the plan states a {what} of {} bytes but it is {}", stated.0, found.0)
        }
        Defect::Problem(ref error) => error_in_words(error, ids),
        ref other => other.to_string(),
    }
}
