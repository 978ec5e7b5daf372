//! Making plans: options, progress, and the search on a thread of its own while the caller's is asked.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use coloring::{GRAPH_ALIGNMENT, Options, PlacedBuffer, Planned, Progress, Request, Status};
use lifetime::{Analysis, AnalysisOptions, Bytes, Graph, HalfStep, LiveRange, Offset, Order, Tier};

use crate::boundary::{Caller, boundary, versioned};
use crate::config::number;
use crate::failure::{Failure, Result};
use crate::graph::{GraphHandle, gpumem_graph};
use crate::handles::hand_out;
use crate::plan::{PlanHandle, gpumem_plan};
use crate::status::gpumem_status;
use crate::version::GPUMEM_UNSET;

/// Ops in the order of the graph; 0 says the same.
pub const GPUMEM_ORDER_GIVEN: i32 = 1;
/// Ops in an order that keeps every dependency and lowers the most bytes live at one moment.
pub const GPUMEM_ORDER_MEMORY: i32 = 2;

/// How far planning is.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(non_camel_case_types)] // the C name
pub struct gpumem_plan_progress {
    /// The library's `sizeof(gpumem_plan_progress)`: at least that of the header the program was built with.
    pub struct_size: usize,
    /// Peak of the best plan so far; `GPUMEM_UNSET` before the first.
    pub peak_bytes: u64,
    /// What no plan can beat, as far as is known.
    pub lower_bound_bytes: u64,
    /// Work spent so far, as in the `node_limit` of the options.
    pub nodes: u64,
    /// 1 if this is news, 0 if it is only time to ask.
    pub is_better: i32,
    /// Always 0.
    pub reserved: i32,
}

/// Called on the thread that plans, whenever a better plan was found and some twenty times a second. Returns 0 to go on,
/// anything else to stop: planning then fails with `GPUMEM_STATUS_CANCELLED`.
#[allow(non_camel_case_types)] // the C name
pub type gpumem_plan_callback =
    Option<unsafe extern "C-unwind" fn(progress: *const gpumem_plan_progress, data: *mut c_void) -> i32>;

/// How to plan. Begin with `GPUMEM_PLAN_OPTIONS_INIT`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(non_camel_case_types)] // the C name
pub struct gpumem_plan_options {
    /// `sizeof(gpumem_plan_options)`.
    pub struct_size: usize,
    /// Work to spend after the first answer. Equal limits give equal plans on any machine, with any number of threads.
    pub node_limit: u64,
    /// Time to spend, in ns. What was found by then depends on the machine.
    pub time_limit_ns: u64,
    /// Bytes available. A plan that needs more is refused with `GPUMEM_STATUS_OUT_OF_MEMORY`.
    pub capacity_bytes: u64,
    /// What offsets are multiples of where the graph says nothing; 256 if not set.
    pub alignment: u64,
    /// Seed of whatever is random.
    pub seed: u64,
    /// Told of progress; null for nobody.
    pub progress: gpumem_plan_callback,
    /// Handed to `progress`.
    pub progress_data: *mut c_void,
    /// Threads to use; 0 takes one per core.
    pub threads: u32,
    /// `GPUMEM_ORDER_GIVEN` or `GPUMEM_ORDER_MEMORY`.
    pub order: i32,
}

versioned!(
    gpumem_plan_options,
    [72],
    "GPUMEM_PLAN_OPTIONS_INIT",
    gpumem_plan_options {
        struct_size: size_of::<gpumem_plan_options>(),
        node_limit: GPUMEM_UNSET,
        time_limit_ns: GPUMEM_UNSET,
        capacity_bytes: GPUMEM_UNSET,
        alignment: GPUMEM_UNSET,
        seed: GPUMEM_UNSET,
        progress: None,
        progress_data: ptr::null_mut(),
        threads: 0,
        order: 0,
    }
);

/// Bytes that are needed for a time, to be placed by `gpumem_plan_create_for_buffers`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(non_camel_case_types)] // the C name
pub struct gpumem_buffer {
    /// First moment at which it is live; any unit.
    pub birth: u64,
    /// First moment at which it no longer is.
    pub death: u64,
    /// How many.
    pub bytes: u64,
    /// What its offset is a multiple of; 0 is 1. Need not be a power of two.
    pub alignment: u64,
    /// The offset it must have, or `GPUMEM_UNSET`.
    pub fixed_offset: u64,
}

/// Most threads that are taken.
const MAX_THREADS: u32 = 1024;

/// How often the callback is asked while there is nothing to tell.
const ASKED_EVERY: Duration = Duration::from_millis(50);

/// Room for what planning does outside its own pool of threads.
const STACK_BYTES: usize = 8 << 20;

/// What the options come to.
struct Wish {
    options: Options,
    alignment: u64,
    capacity: Option<Bytes>,
    order: Order,
    progress: gpumem_plan_callback,
    data: *mut c_void,
}

fn wish(caller: &Caller, options: *const gpumem_plan_options) -> Result<Wish> {
    let from = caller.versioned_if_any(options, "options")?;
    let order = match from.order {
        0 | GPUMEM_ORDER_GIVEN => Order::Given,
        GPUMEM_ORDER_MEMORY => Order::Memory,
        order => {
            let expected = "0 or one of GPUMEM_ORDER_...";
            return Err(Failure::BadNumber { argument: "options.order", value: order.into(), expected });
        }
    };
    if from.threads > MAX_THREADS {
        let (value, expected) = (from.threads.into(), "at most 1024");
        return Err(Failure::BadNumber { argument: "options.threads", value, expected });
    }
    let alignment = number(from.alignment).unwrap_or(GRAPH_ALIGNMENT);
    if alignment > formats::MAX_ALIGNMENT {
        let expected = "an alignment of at most 2^62";
        return Err(Failure::BadNumber { argument: "options.alignment", value: alignment as i64, expected });
    }
    let default = Options::default();
    Ok(Wish {
        options: Options {
            node_limit: number(from.node_limit).unwrap_or(default.node_limit),
            time_limit: number(from.time_limit_ns).map(Duration::from_nanos),
            threads: from.threads as usize,
            seed: number(from.seed).unwrap_or(default.seed),
            ..default
        },
        alignment,
        capacity: number(from.capacity_bytes).map(Bytes),
        order,
        progress: from.progress,
        data: from.progress_data,
    })
}

/// What is known of a plan beyond itself.
pub(crate) struct Made {
    pub(crate) planned: Planned,
    /// What each number of a tensor or buffer is in the plan; `u32::MAX` is nothing.
    pub(crate) places: Vec<u32>,
}

/// Lets the planner work on a thread of its own, where there is somebody to ask, and asks.
fn with_progress<R: Send>(
    wish: &Wish,
    work: impl FnOnce(&Options, &mut (dyn FnMut(Progress) + Send)) -> Result<R> + Send,
) -> Result<R> {
    let Some(callback) = wish.progress else { return work(&wish.options, &mut |_| {}) };
    let cancel = Arc::new(AtomicBool::new(false));
    let options = Options { cancel: Some(Arc::clone(&cancel)), ..wish.options.clone() };
    let (tell, told) = mpsc::channel();
    let mut last = gpumem_plan_progress {
        struct_size: size_of::<gpumem_plan_progress>(),
        peak_bytes: GPUMEM_UNSET,
        lower_bound_bytes: 0,
        nodes: 0,
        is_better: 0,
        reserved: 0,
    };
    thread::scope(|scope| {
        let worker = thread::Builder::new()
            .name("gpumem-plan".to_owned())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, move || {
                // Nobody listens once the callback said no.
                work(&options, &mut |progress| _ = tell.send(progress))
            })
            .map_err(Failure::NoThread)?;
        loop {
            match told.recv_timeout(ASKED_EVERY) {
                Ok(progress) => {
                    last.peak_bytes = progress.peak.0;
                    last.lower_bound_bytes = progress.lower_bound.0;
                    last.nodes = progress.nodes;
                    last.is_better = 1;
                }
                Err(RecvTimeoutError::Timeout) => last.is_better = 0,
                // The worker is done: it has dropped its end.
                Err(RecvTimeoutError::Disconnected) => break,
            }
            // Once it said no it isn't asked again.
            if !cancel.load(Ordering::Relaxed) && crate::boundary::call_back(callback, &last, wish.data) != 0 {
                cancel.store(true, Ordering::Relaxed);
            }
        }
        let result = worker.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))?;
        if cancel.load(Ordering::Relaxed) { Err(Failure::Cancelled) } else { Ok(result) }
    })
}

/// Plans a request, and refuses what doesn't fit.
fn plan(request: Request, options: &Options, on_better: &mut (dyn FnMut(Progress) + Send)) -> Result<Planned> {
    let planned = coloring::plan(request, options, on_better)?;
    match (planned.plan.status, planned.plan.capacity) {
        (Status::Infeasible, Some(capacity)) => Err(Failure::DoesNotFit {
            capacity: capacity.0,
            peak: planned.plan.peak.0,
            lower_bound: planned.plan.lower_bound.0,
        }),
        _ => Ok(planned),
    }
}

fn plan_graph(
    graph: &Graph,
    wish: &WishForGraph,
    options: &Options,
    on_better: &mut (dyn FnMut(Progress) + Send),
) -> Result<Made> {
    let start = Instant::now();
    let mut attempt = |order| {
        let analysis = lifetime::analyse(graph, &AnalysisOptions { order, ..AnalysisOptions::default() })?;
        let request = Request { capacity: wish.capacity, ..Request::from_analysis(graph, &analysis, wish.alignment) };
        let time_limit = options.time_limit.map(|limit| limit.saturating_sub(start.elapsed()));
        let planned = plan(request, &Options { time_limit, ..options.clone() }, on_better);
        planned.map(|planned| Made { planned, places: places(graph, &analysis) })
    };
    let chosen = attempt(wish.order);
    if wish.order == Order::Given {
        return chosen;
    }
    // The load of an order is not all that decides: the order given may still have the lower peak.
    let given = attempt(Order::Given);
    match (chosen, given) {
        (Ok(chosen), Ok(given)) if given.planned.plan.peak < chosen.planned.plan.peak => Ok(given),
        (Ok(chosen), _) => Ok(chosen),
        (Err(_), Ok(given)) => Ok(given),
        (Err(error), Err(_)) => Err(error),
    }
}

/// What of a wish is about graphs; it goes to another thread, unlike the callback's data.
struct WishForGraph {
    alignment: u64,
    capacity: Option<Bytes>,
    order: Order,
}

/// Which buffer each tensor is in.
fn places(graph: &Graph, analysis: &Analysis) -> Vec<u32> {
    let mut places = vec![u32::MAX; graph.tensors.len()];
    for (number, buffer) in (0_u32..).zip(&analysis.buffers) {
        for tensor in &buffer.tensors {
            places[tensor.index()] = number;
        }
    }
    places
}

/// Any thread. Plans a graph: every tensor gets an offset in one arena such that the peak is low; `gpumem_plan_info` says
/// how low, and how far from the lowest that can be. The plan was verified before it is handed out. `options` may be null.
/// While it runs, the graph may be changed and destroyed; the plan is of what it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_plan_create(
    graph: *const gpumem_graph,
    options: *const gpumem_plan_options,
    plan: *mut *mut gpumem_plan,
) -> gpumem_status {
    boundary!(|caller| {
        let out = caller.pointer_out(plan, "plan")?;
        let graph = caller.handle::<GraphHandle>(graph, "graph")?.with(|graph| graph.clone());
        let wish = wish(caller, options)?;
        let about = WishForGraph { alignment: wish.alignment, capacity: wish.capacity, order: wish.order };
        let made = with_progress(&wish, |options, on_better| plan_graph(&graph, &about, options, on_better))?;
        out.set(hand_out(PlanHandle::made(made))?);
        Ok(())
    })
}

/// Any thread. Plans buffers whose live ranges are known; their numbers are their positions. `struct_size` is
/// `sizeof(gpumem_buffer)`. `options` may be null; its `order` says nothing here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpumem_plan_create_for_buffers(
    buffers: *const gpumem_buffer,
    count: usize,
    struct_size: usize,
    options: *const gpumem_plan_options,
    plan: *mut *mut gpumem_plan,
) -> gpumem_status {
    boundary!(|caller| {
        let out = caller.pointer_out(plan, "plan")?;
        const SIZES: &[usize] = &[size_of::<gpumem_buffer>()];
        if !SIZES.contains(&struct_size) {
            let initializer = "sizeof(gpumem_buffer)";
            return Err(Failure::StructSize { argument: "struct_size", found: struct_size, known: SIZES, initializer });
        }
        let list = caller.list(buffers, count, "buffers")?;
        let wish = wish(caller, options)?;
        let mut request = request_of(list)?;
        request.capacity = wish.capacity;
        let places = (0..list.len() as u32).collect();
        let planned = with_progress(&wish, |options, on_better| self::plan(request, options, on_better))?;
        out.set(hand_out(PlanHandle::made(Made { planned, places }))?);
        Ok(())
    })
}

fn request_of(list: &[gpumem_buffer]) -> Result<Request> {
    let limit = u32::MAX as usize - 1;
    if list.len() > limit {
        return Err(Failure::TooMany { argument: "buffers", value: list.len(), limit });
    }
    let mut request = Request { name: "buffers".to_owned(), ..Request::default() };
    for (number, from) in list.iter().enumerate() {
        if from.death <= from.birth {
            let (birth, death) = (from.birth, from.death);
            return Err(coloring::Error::EmptyRange { buffer: number, birth, death }.into());
        }
        let fixed = (from.fixed_offset != GPUMEM_UNSET).then_some(Offset(from.fixed_offset));
        request.end = request.end.max(HalfStep(from.death));
        request.buffers.push(PlacedBuffer {
            id: number.to_string(),
            name: number.to_string(),
            op: None,
            tier: Tier::Temporary,
            offset: fixed.unwrap_or_default(),
            bytes: Bytes(from.bytes),
            alignment: from.alignment.max(1),
            range: LiveRange::new(HalfStep(from.birth), HalfStep(from.death)),
            fixed: fixed.is_some(),
            gaps: Vec::new(),
        });
    }
    Ok(request)
}
