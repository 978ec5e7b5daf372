//! Plans: what they say, and saving, loading and verifying them.

use std::ffi::c_char;

use coloring::{BoundKind, PlacedBuffer, Plan, Request, Status};
use formats::{Content, Limits};

use crate::boundary::{boundary, versioned};
use crate::failure::{Failure, Result};
use crate::graph::{GraphHandle, gpumem_graph, save, tier_number};
use crate::handles::{hand_out, handled};
use crate::planning::Made;
use crate::status::gpumem_status;
use crate::version::GPUMEM_UNSET;

/// A plan: an offset for everything that needs bytes.
#[derive(Debug)]
#[allow(non_camel_case_types)] // the C name
pub struct gpumem_plan {
    _opaque: (),
}

/// What a handle of a plan stands for. Never changes.
pub(crate) struct PlanHandle {
    plan: Plan,
    /// What each number of a tensor or buffer is in the plan; `None` for a plan from a file.
    places: Option<Vec<u32>>,
    is_deterministic: Option<bool>,
    nodes: Option<u64>,
}

handled!(PlanHandle, gpumem_plan, "plan", 0xa3);

impl PlanHandle {
    pub(crate) fn made(made: Made) -> Self {
        Self {
            plan: made.planned.plan,
            places: Some(made.places),
            is_deterministic: Some(made.planned.is_deterministic),
            nodes: Some(made.planned.nodes),
        }
    }

    /// The buffer with this number in the plan.
    fn buffer(&self, number: u64) -> Result<&PlacedBuffer> {
        let count = self.plan.buffers.len();
        let found = usize::try_from(number).ok().and_then(|number| self.plan.buffers.get(number));
        found.ok_or(Failure::NoSuch { kind: "buffer", number, count })
    }

    /// The number of the buffer that a tensor is in.
    fn place_of(&self, tensor: u32) -> Result<u64> {
        let absent = || Failure::NotInPlan { kind: "tensor", name: tensor.to_string() };
        match &self.places {
            Some(places) => match places.get(tensor as usize) {
                Some(&place) if place != u32::MAX => Ok(place.into()),
                // Its storage is empty, or nothing makes or reads it.
                Some(_) => Err(absent()),
                None => Err(Failure::NoSuch { kind: "tensor", number: tensor.into(), count: places.len() }),
            },
            None => self.find(&tensor.to_string()).ok_or_else(absent),
        }
    }

    fn find(&self, id: &str) -> Option<u64> {
        self.plan.buffers.iter().position(|buffer| buffer.id == id).map(|at| at as u64)
    }
}

/// The peak is the lowest there can be.
pub const GPUMEM_PLAN_OPTIMAL: i32 = 1;
/// Nobody knows whether a lower peak exists.
pub const GPUMEM_PLAN_FEASIBLE: i32 = 2;
/// The peak is above the capacity asked for; only in plans from files.
pub const GPUMEM_PLAN_INFEASIBLE: i32 = 3;

/// The bound is the most bytes live at one moment.
pub const GPUMEM_BOUND_LOAD: i32 = 1;
/// The same with sizes rounded up to an alignment that all offsets share.
pub const GPUMEM_BOUND_ALIGNED_LOAD: i32 = 2;
/// The bound is the end of a buffer with a fixed offset.
pub const GPUMEM_BOUND_FIXED: i32 = 3;
/// A search found no plan below it.
pub const GPUMEM_BOUND_SEARCH: i32 = 4;

/// What is known of a plan. Begin with `GPUMEM_PLAN_INFO_INIT`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(non_camel_case_types)] // the C name
pub struct gpumem_plan_info {
    /// `sizeof(gpumem_plan_info)`.
    pub struct_size: usize,
    /// Bytes of the arena: the highest end of a buffer.
    pub peak_bytes: u64,
    /// No plan has a lower peak.
    pub lower_bound_bytes: u64,
    /// Most bytes live at one moment.
    pub max_load_bytes: u64,
    /// The capacity asked for, or `GPUMEM_UNSET`.
    pub capacity_bytes: u64,
    /// Buffers it places; their numbers are those below.
    pub buffer_count: u64,
    /// The moment after the step.
    pub end: u64,
    /// Work spent on it, or `GPUMEM_UNSET` for a plan from a file.
    pub nodes: u64,
    /// `GPUMEM_PLAN_OPTIMAL` and so on.
    pub quality: i32,
    /// What the lower bound rests on: `GPUMEM_BOUND_LOAD` and so on.
    pub bound_kind: i32,
    /// 1 if the same input and options give the same plan again, 0 if not, -1 if not known.
    pub is_deterministic: i32,
    /// Always 0.
    pub reserved: i32,
}

versioned!(
    gpumem_plan_info,
    [80],
    "GPUMEM_PLAN_INFO_INIT",
    gpumem_plan_info {
        struct_size: size_of::<gpumem_plan_info>(),
        peak_bytes: 0,
        lower_bound_bytes: 0,
        max_load_bytes: 0,
        capacity_bytes: 0,
        buffer_count: 0,
        end: 0,
        nodes: 0,
        quality: 0,
        bound_kind: 0,
        is_deterministic: 0,
        reserved: 0,
    }
);

/// A buffer of a plan: what needs bytes once tensors that share a storage are taken together. Begin with
/// `GPUMEM_PLACEMENT_INIT`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(non_camel_case_types)] // the C name
pub struct gpumem_placement {
    /// `sizeof(gpumem_placement)`.
    pub struct_size: usize,
    /// Where it lies, in bytes from the arena's start.
    pub offset: u64,
    /// How many bytes it takes.
    pub bytes: u64,
    /// What its offset is a multiple of.
    pub alignment: u64,
    /// First moment at which it is live: the op at position i makes its outputs at 2 * i and lets go of its inputs at
    /// 2 * i + 1.
    pub birth: u64,
    /// First moment at which it no longer is.
    pub death: u64,
    /// `GPUMEM_TIER_PERSISTENT` and so on.
    pub tier: i32,
    /// 1 if the offset was asked for, 0 if it was chosen.
    pub is_fixed: i32,
}

versioned!(
    gpumem_placement,
    [56],
    "GPUMEM_PLACEMENT_INIT",
    gpumem_placement {
        struct_size: size_of::<gpumem_placement>(),
        offset: 0,
        bytes: 0,
        alignment: 0,
        birth: 0,
        death: 0,
        tier: 0,
        is_fixed: 0,
    }
);

/// Any thread, once for each handle. Gives the plan up; null is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_plan_destroy(plan: *mut gpumem_plan) -> gpumem_status {
    boundary!(|caller| {
        drop(caller.take_back::<PlanHandle>(plan, "plan")?);
        Ok(())
    })
}

/// Any thread. Peak, bound and all else that is known of the plan.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_plan_query(plan: *const gpumem_plan, info: *mut gpumem_plan_info) -> gpumem_status {
    boundary!(|caller| {
        let handle = caller.handle::<PlanHandle>(plan, "plan")?;
        let plan = &handle.plan;
        let found = gpumem_plan_info {
            struct_size: 0,
            peak_bytes: plan.peak.0,
            lower_bound_bytes: plan.lower_bound.0,
            max_load_bytes: plan.max_load.0,
            capacity_bytes: plan.capacity.map_or(GPUMEM_UNSET, |bytes| bytes.0),
            buffer_count: plan.buffers.len() as u64,
            end: plan.end.0,
            nodes: handle.nodes.unwrap_or(GPUMEM_UNSET),
            quality: match plan.status {
                Status::Optimal => GPUMEM_PLAN_OPTIMAL,
                Status::Feasible => GPUMEM_PLAN_FEASIBLE,
                Status::Infeasible => GPUMEM_PLAN_INFEASIBLE,
            },
            bound_kind: match plan.bound_kind {
                BoundKind::Load => GPUMEM_BOUND_LOAD,
                BoundKind::AlignedLoad => GPUMEM_BOUND_ALIGNED_LOAD,
                BoundKind::Fixed => GPUMEM_BOUND_FIXED,
                BoundKind::Search => GPUMEM_BOUND_SEARCH,
            },
            is_deterministic: handle.is_deterministic.map_or(-1, i32::from),
            reserved: 0,
        };
        caller.fill(info, found, "info")
    })
}

/// Any thread. Where a tensor of the graph, or a buffer of the list, lies, in bytes from the arena's start. What takes no
/// bytes is `GPUMEM_STATUS_NOT_FOUND`. For a plan from a file, `tensor` is looked for as the identifier of a buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_plan_offset(plan: *const gpumem_plan, tensor: u32, offset: *mut u64) -> gpumem_status {
    boundary!(|caller| {
        let handle = caller.handle::<PlanHandle>(plan, "plan")?;
        let out = caller.out(offset, "offset")?;
        out.set(handle.buffer(handle.place_of(tensor)?)?.offset.0);
        Ok(())
    })
}

/// Any thread. The number in the plan of the buffer that a tensor is in.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_plan_buffer_of(
    plan: *const gpumem_plan,
    tensor: u32,
    buffer: *mut u64,
) -> gpumem_status {
    boundary!(|caller| {
        let handle = caller.handle::<PlanHandle>(plan, "plan")?;
        let out = caller.out(buffer, "buffer")?;
        out.set(handle.place_of(tensor)?);
        Ok(())
    })
}

/// Any thread. The number in the plan of the buffer with this identifier, as files have it: a tensor's number, or `op`
/// and the number of the op whose workspace it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_plan_buffer_find(
    plan: *const gpumem_plan,
    id: *const c_char,
    buffer: *mut u64,
) -> gpumem_status {
    boundary!(|caller| {
        let handle = caller.handle::<PlanHandle>(plan, "plan")?;
        let id = caller.text(id, "id")?;
        let out = caller.out(buffer, "buffer")?;
        out.set(handle.find(id).ok_or_else(|| Failure::NotInPlan { kind: "buffer", name: id.to_owned() })?);
        Ok(())
    })
}

/// Any thread. Where a buffer lies, and when it is live; `buffer` is 0 to `buffer_count` - 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_plan_placement(
    plan: *const gpumem_plan,
    buffer: u64,
    placement: *mut gpumem_placement,
) -> gpumem_status {
    boundary!(|caller| {
        let buffer = caller.handle::<PlanHandle>(plan, "plan")?.buffer(buffer)?;
        let found = gpumem_placement {
            struct_size: 0,
            offset: buffer.offset.0,
            bytes: buffer.bytes.0,
            alignment: buffer.alignment,
            birth: buffer.range.birth.0,
            death: buffer.range.death.0,
            tier: tier_number(buffer.tier),
            is_fixed: buffer.fixed.into(),
        };
        caller.fill(placement, found, "placement")
    })
}

/// Any thread. What a buffer is called, with a closing zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_plan_buffer_name(
    plan: *const gpumem_plan,
    buffer: u64,
    text: *mut c_char,
    capacity: usize,
    size: *mut usize,
) -> gpumem_status {
    boundary!(|caller| {
        let buffer = caller.handle::<PlanHandle>(plan, "plan")?.buffer(buffer)?;
        caller.write_text(&buffer.name, text, capacity, size)
    })
}

/// Any thread. Writes the plan to a file in the form gpumem-plan/1; gzip if its name ends in `.gz`, zstd if in `.zst`. The
/// file is in its place only once it is whole.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_plan_save(plan: *const gpumem_plan, path: *const c_char) -> gpumem_status {
    boundary!(|caller| {
        let handle = caller.handle::<PlanHandle>(plan, "plan")?;
        save(caller.text(path, "path")?, |out| formats::write_plan(&handle.plan, out))
    })
}

/// Any thread. Reads a plan from a file in the form gpumem-plan/1, plain, gzip or zstd. Whether it holds is for
/// `gpumem_plan_verify` to say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_plan_load(path: *const c_char, plan: *mut *mut gpumem_plan) -> gpumem_status {
    boundary!(|caller| {
        let out = caller.pointer_out(plan, "plan")?;
        let path = caller.text(path, "path")?;
        match formats::read_path(path, &Limits::default())?.content {
            Content::Plan(plan) => {
                let handle = PlanHandle { plan, places: None, is_deterministic: None, nodes: None };
                out.set(hand_out(handle)?);
                Ok(())
            }
            other => Err(Failure::WrongContent { path: path.to_owned(), wanted: "a plan", found: other.kind() }),
        }
    })
}

/// Any thread. Checks the plan, without the code that made it: no two buffers share bytes at one time, offsets are
/// aligned, every figure is what it says. With a graph (null for none), also whether it is a plan of that graph. What
/// doesn't hold is `GPUMEM_STATUS_PLAN_DEFECT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_plan_verify(plan: *const gpumem_plan, graph: *const gpumem_graph) -> gpumem_status {
    boundary!(|caller| {
        let plan = &caller.handle::<PlanHandle>(plan, "plan")?.plan;
        if graph.is_null() {
            coloring::verify_plan(plan)?;
            return Ok(());
        }
        let graph = caller.handle::<GraphHandle>(graph, "graph")?.with(|graph| graph.clone());
        coloring::verify_plan(plan)?;
        coloring::compare(plan, &Request::in_order_of(&graph, plan)?, false)?;
        Ok(())
    })
}
