//! Tags: what requests say about themselves, from a stack that each thread has.

use std::cell::RefCell;
use std::ffi::c_char;

use pools::{Precision, Tag, TagScope, TagStack, Tier};

use crate::boundary::{boundary, versioned};
use crate::failure::{Failure, Result};
use crate::graph::{GPUMEM_TIER_CYCLIC, GPUMEM_TIER_PERSISTENT, GPUMEM_TIER_TEMPORARY};
use crate::handles::{hand_out, handled};
use crate::status::gpumem_status;

/// Not said.
pub const GPUMEM_PRECISION_UNKNOWN: i32 = 0;
/// 64-bit floats.
pub const GPUMEM_PRECISION_FP64: i32 = 1;
/// 32-bit floats.
pub const GPUMEM_PRECISION_FP32: i32 = 2;
/// 32-bit floats multiplied with 19 bits.
pub const GPUMEM_PRECISION_TF32: i32 = 3;
/// 16-bit IEEE floats.
pub const GPUMEM_PRECISION_FP16: i32 = 4;
/// 16-bit floats with the range of 32.
pub const GPUMEM_PRECISION_BF16: i32 = 5;
/// 8-bit floats.
pub const GPUMEM_PRECISION_FP8: i32 = 6;
/// 4-bit floats.
pub const GPUMEM_PRECISION_FP4: i32 = 7;
/// 64-bit integers.
pub const GPUMEM_PRECISION_INT64: i32 = 8;
/// 32-bit integers.
pub const GPUMEM_PRECISION_INT32: i32 = 9;
/// 16-bit integers.
pub const GPUMEM_PRECISION_INT16: i32 = 10;
/// 8-bit integers.
pub const GPUMEM_PRECISION_INT8: i32 = 11;
/// Booleans.
pub const GPUMEM_PRECISION_BOOL: i32 = 12;

/// What a request says about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[allow(non_camel_case_types)] // the C name
pub struct gpumem_tag_values {
    /// `GPUMEM_TIER_PERSISTENT` and so on; 0 is temporary.
    pub tier: i32,
    /// `GPUMEM_PRECISION_FP32` and so on.
    pub precision: i32,
    /// The operator, as `gpumem_op_number` numbers it; 0 is none.
    pub op: u32,
    /// Who it belongs to, by a number of the program's choice; 0 is nobody.
    pub owner: u32,
}

/// A tag. Begin with `GPUMEM_TAG_INIT`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(non_camel_case_types)] // the C name
pub struct gpumem_tag {
    /// `sizeof(gpumem_tag)`.
    pub struct_size: usize,
    /// What it says.
    pub values: gpumem_tag_values,
}

versioned!(
    gpumem_tag,
    [24],
    "GPUMEM_TAG_INIT",
    gpumem_tag {
        struct_size: size_of::<gpumem_tag>(),
        values: gpumem_tag_values { tier: 0, precision: 0, op: 0, owner: 0 },
    }
);

/// Tags that were in force on a thread, to be put in force on another one.
#[derive(Debug)]
#[allow(non_camel_case_types)] // the C name
pub struct gpumem_tags {
    _opaque: (),
}

/// What a handle of captured tags stands for.
pub(crate) struct TagsHandle(TagStack);

handled!(TagsHandle, gpumem_tags, "tags", 0xa5);

thread_local! {
    /// The captured tags that this thread entered and didn't leave.
    static SCOPES: RefCell<Vec<TagScope>> = const { RefCell::new(Vec::new()) };
}

/// Most captured tags that a thread is in at a time.
const MAX_SCOPES: usize = 1024;

// What the header says of `gpumem_tag_push`.
const _: () = assert!(pools::TAG_DEPTH == 256);

/// Operators have 16-bit numbers.
const MAX_OP: u32 = 65_535;

/// The tag that these values are.
pub(crate) fn tag_of(values: &gpumem_tag_values) -> Result<Tag> {
    let tier = match values.tier {
        0 | GPUMEM_TIER_TEMPORARY => Tier::Temporary,
        GPUMEM_TIER_CYCLIC => Tier::Cyclic,
        GPUMEM_TIER_PERSISTENT => Tier::Persistent,
        tier => {
            let expected = "0 or one of GPUMEM_TIER_...";
            return Err(Failure::BadNumber { argument: "tag.tier", value: tier.into(), expected });
        }
    };
    let precision = usize::try_from(values.precision).ok().and_then(|number| Precision::ALL.get(number));
    let Some(&precision) = precision else {
        let expected = "one of GPUMEM_PRECISION_...";
        return Err(Failure::BadNumber { argument: "tag.precision", value: values.precision.into(), expected });
    };
    if values.op > MAX_OP {
        let expected = "a number of gpumem_op_number";
        return Err(Failure::BadNumber { argument: "tag.op", value: values.op.into(), expected });
    }
    Ok(Tag { tier, precision, op: values.op, owner: values.owner })
}

impl From<Tag> for gpumem_tag_values {
    fn from(tag: Tag) -> Self {
        Self {
            tier: match tag.tier {
                Tier::Temporary => GPUMEM_TIER_TEMPORARY,
                Tier::Cyclic => GPUMEM_TIER_CYCLIC,
                Tier::Persistent => GPUMEM_TIER_PERSISTENT,
            },
            precision: tag.precision as i32,
            op: tag.op,
            owner: tag.owner,
        }
    }
}

/// Any thread. The number of an operator's name, the same for the life of the process: ask once and keep it. 0, which
/// means none, for an empty name and once 65 535 names have numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_op_number(name: *const c_char, number: *mut u32) -> gpumem_status {
    boundary!(|caller| {
        let out = caller.out(number, "number")?;
        out.set(pools::op_number(caller.text(name, "name")?));
        Ok(())
    })
}

/// Any thread; about this one. Puts a tag in force until the matching `gpumem_tag_pop`. Beyond 256 tags the one in force
/// stays, and the matching pop takes nothing off.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_tag_push(tag: *const gpumem_tag) -> gpumem_status {
    boundary!(|caller| {
        let tag = tag_of(&caller.versioned(tag, "tag")?.values)?;
        pools::tag_push(tag);
        Ok(())
    })
}

/// Any thread; about this one. Takes off the tag that was pushed last. `GPUMEM_STATUS_INVALID_STATE` if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_tag_pop() -> gpumem_status {
    boundary!(|caller| {
        let is_empty = pools::tags_capture().tags().is_empty();
        pools::tag_pop();
        if is_empty { Err(Failure::NoTag) } else { Ok(()) }
    })
}

/// Any thread; about this one. The tag in force.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_tag_current(tag: *mut gpumem_tag) -> gpumem_status {
    boundary!(|caller| {
        let values = gpumem_tag_values::from(pools::tag_current());
        caller.fill(tag, gpumem_tag { struct_size: 0, values }, "tag")
    })
}

/// Any thread; about this one. Takes hold of the tags in force, for a thread that goes on with the same work.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_tags_capture(tags: *mut *mut gpumem_tags) -> gpumem_status {
    boundary!(|caller| {
        let out = caller.pointer_out(tags, "tags")?;
        out.set(hand_out(TagsHandle(pools::tags_capture()))?);
        Ok(())
    })
}

/// Any thread; about this one. Puts captured tags in force instead of the thread's own, until the matching
/// `gpumem_tags_leave`. The handle may be destroyed meanwhile, and entered by several threads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_tags_enter(tags: *const gpumem_tags) -> gpumem_status {
    boundary!(|caller| {
        let handle = caller.handle::<TagsHandle>(tags, "tags")?;
        SCOPES.with_borrow_mut(|scopes| {
            if scopes.len() >= MAX_SCOPES {
                return Err(Failure::TooMany { argument: "this thread", value: scopes.len(), limit: MAX_SCOPES });
            }
            scopes.push(handle.0.enter());
            Ok(())
        })
    })
}

/// Any thread; about this one. Puts the thread's own tags in force again. `GPUMEM_STATUS_INVALID_STATE` if it didn't
/// enter any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_tags_leave() -> gpumem_status {
    boundary!(|caller| {
        let scope = SCOPES.with_borrow_mut(Vec::pop);
        if scope.is_some() { Ok(()) } else { Err(Failure::NoTag) }
    })
}

/// Any thread, once for each handle. Gives captured tags up; null is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_tags_destroy(tags: *mut gpumem_tags) -> gpumem_status {
    boundary!(|caller| {
        drop(caller.take_back::<TagsHandle>(tags, "tags")?);
        Ok(())
    })
}
