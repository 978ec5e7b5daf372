/*
 * gpumem.h: plans, allocates and explains the memory of deep-learning programs.
 * Made from the sources by ci/header.sh; don't change it here. SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Stable from 1.0, and not before: until then a minor version may change names, numbers and structs.
 *
 * RULES, for every function:
 * - It answers with a status, 0 for success, unless it can't fail. gpumem_last_error says why the last call of this thread
 *   that failed did so. A refused call changed nothing, and results it would have written are as they were, except
 *   pointers and handles, which are set to null first.
 * - Handles are opaque. Null, one of another kind and one that was destroyed are refused with
 *   GPUMEM_STATUS_INVALID_HANDLE; destroying null does nothing. Nobody destroys a handle while another call uses it.
 * - A pointer is null or points to what the function says, for as long as the call. Null is refused where something is
 *   needed. Texts are UTF-8 and end with a zero; null is none where that is allowed.
 * - A struct whose first field is struct_size begins with its initializer macro, which fills that in. Zero and
 *   GPUMEM_UNSET mean 'not set' in its numbers; its switches are GPUMEM_DEFAULT, GPUMEM_OFF or GPUMEM_ON. Fields are only
 *   ever added at the end, and all earlier sizes are taken.
 * - The first words of each comment say which threads may call it. 'Any thread' means several at once, on the same handle.
 * - Callbacks are called without any lock of ours held. They may call this library, except where their comment says
 *   otherwise, and must not unwind (no longjmp, no exception) into it.
 * - Nothing is written to standard output or error, no signal handler is installed, nothing is torn down at exit. The one
 *   exception is a bug of ours: before GPUMEM_STATUS_INTERNAL tells of a panic, Rust's own line about it goes to standard
 *   error. (What a program in Rust does about panics is its own choice, which a library must not change.)
 * - After fork, the child may call everything that needs no device of the parent; what does is refused with
 *   GPUMEM_STATUS_FORKED. The bytes of a host device are shared: what the child writes to its parent's blocks, the parent
 *   sees.
 * - Strings and JSON that a call writes into a buffer of the caller: the size needed, with the closing zero, is written
 *   to `size` whether it fits or not; with a null buffer that is all that happens.
 * - Running out of device memory is a status. Running out of the HOST's memory, in a call that needs some, ends the process
 *   (abort), as in any Rust program. Handing out and taking back blocks that are at hand, and reporting an error, need none.
 */


#ifndef GPUMEM_H
#define GPUMEM_H

#include <stddef.h>
#include <stdint.h>

/** The version of this header as one number; gpumem_version() is the library's. */
#define GPUMEM_VERSION (GPUMEM_VERSION_MAJOR * 10000 + GPUMEM_VERSION_MINOR * 100 + GPUMEM_VERSION_PATCH)

/** What a gpumem_config begins with: nothing is set. */
#define GPUMEM_CONFIG_INIT { sizeof(gpumem_config), NULL, NULL, GPUMEM_UNSET, GPUMEM_UNSET, GPUMEM_UNSET, GPUMEM_UNSET, 0, 0 }

/** What a gpumem_device_info begins with. */
#define GPUMEM_DEVICE_INFO_INIT { sizeof(gpumem_device_info), 0, 0, 0, 0, 0, 0, 0 }

/** What a gpumem_tag begins with. */
#define GPUMEM_TAG_INIT { sizeof(gpumem_tag), { 0, 0, 0, 0 } }

/** What a gpumem_block_info begins with. */
#define GPUMEM_BLOCK_INFO_INIT { sizeof(gpumem_block_info), 0, 0, 0, { 0, 0, 0, 0 }, 0, 0 }

#define GPUMEM_LEVEL_INIT { 0, 0, 0 }
#define GPUMEM_QUANTILES_INIT { 0, 0, 0, 0, 0, 0 }

/** What a gpumem_statistics begins with. */
#define GPUMEM_STATISTICS_INIT { sizeof(gpumem_statistics), GPUMEM_LEVEL_INIT, GPUMEM_LEVEL_INIT, GPUMEM_LEVEL_INIT, \
    GPUMEM_LEVEL_INIT, { GPUMEM_LEVEL_INIT, GPUMEM_LEVEL_INIT, GPUMEM_LEVEL_INIT }, \
    { GPUMEM_LEVEL_INIT, GPUMEM_LEVEL_INIT, GPUMEM_LEVEL_INIT, GPUMEM_LEVEL_INIT, GPUMEM_LEVEL_INIT, GPUMEM_LEVEL_INIT, \
      GPUMEM_LEVEL_INIT, GPUMEM_LEVEL_INIT, GPUMEM_LEVEL_INIT, GPUMEM_LEVEL_INIT, GPUMEM_LEVEL_INIT, GPUMEM_LEVEL_INIT, \
      GPUMEM_LEVEL_INIT }, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, GPUMEM_QUANTILES_INIT, GPUMEM_QUANTILES_INIT, \
    GPUMEM_QUANTILES_INIT, GPUMEM_QUANTILES_INIT, GPUMEM_QUANTILES_INIT, 0, 0, 0, 0, 0, 0, 0, { 0, 0, 0, 0, 0 }, 0 }

/** What a gpumem_tensor begins with. */
#define GPUMEM_TENSOR_INIT { sizeof(gpumem_tensor), NULL, 0, 0, 0, 0, GPUMEM_NO_TENSOR, 0 }

/** What a gpumem_op begins with. */
#define GPUMEM_OP_INIT { sizeof(gpumem_op), NULL, NULL, NULL, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, 0, 0, 0, 0 }

/** What a gpumem_plan_options begins with: nothing is set. */
#define GPUMEM_PLAN_OPTIONS_INIT { sizeof(gpumem_plan_options), GPUMEM_UNSET, GPUMEM_UNSET, GPUMEM_UNSET, GPUMEM_UNSET, \
    GPUMEM_UNSET, NULL, NULL, 0, 0 }

/** What a gpumem_plan_info begins with. */
#define GPUMEM_PLAN_INFO_INIT { sizeof(gpumem_plan_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/** What a gpumem_placement begins with. */
#define GPUMEM_PLACEMENT_INIT { sizeof(gpumem_placement), 0, 0, 0, 0, 0, 0, 0 }


/**
 * The default stream of every device.
 */
#define GPUMEM_STREAM_DEFAULT 0

/**
 * For `gpumem_allocator_free` alone: the stream that the block was asked for on, and all that were recorded as using it.
 */
#define GPUMEM_STREAM_HOME 18446744073709551615ull

/**
 * For synchronizing alone: the whole device.
 */
#define GPUMEM_STREAM_ALL 18446744073709551615ull

/**
 * Number of no tensor.
 */
#define GPUMEM_NO_TENSOR 4294967295

/**
 * A trained weight.
 */
#define GPUMEM_TENSOR_PARAMETER 1

/**
 * State of a module that isn't trained.
 */
#define GPUMEM_TENSOR_MODULE_STATE 2

/**
 * State of the optimizer.
 */
#define GPUMEM_TENSOR_OPTIMIZER_STATE 3

/**
 * A value fixed when the graph was made.
 */
#define GPUMEM_TENSOR_CONSTANT 4

/**
 * Handed in anew for every step.
 */
#define GPUMEM_TENSOR_INPUT 5

/**
 * Made by an op of the graph; 0 says the same.
 */
#define GPUMEM_TENSOR_INTERMEDIATE 6

/**
 * Lives across steps.
 */
#define GPUMEM_TIER_PERSISTENT 1

/**
 * Comes back every step.
 */
#define GPUMEM_TIER_CYCLIC 2

/**
 * Lives within a step.
 */
#define GPUMEM_TIER_TEMPORARY 3

/**
 * The peak is the lowest there can be.
 */
#define GPUMEM_PLAN_OPTIMAL 1

/**
 * Nobody knows whether a lower peak exists.
 */
#define GPUMEM_PLAN_FEASIBLE 2

/**
 * The peak is above the capacity asked for; only in plans from files.
 */
#define GPUMEM_PLAN_INFEASIBLE 3

/**
 * The bound is the most bytes live at one moment.
 */
#define GPUMEM_BOUND_LOAD 1

/**
 * The same with sizes rounded up to an alignment that all offsets share.
 */
#define GPUMEM_BOUND_ALIGNED_LOAD 2

/**
 * The bound is the end of a buffer with a fixed offset.
 */
#define GPUMEM_BOUND_FIXED 3

/**
 * A search found no plan below it.
 */
#define GPUMEM_BOUND_SEARCH 4

/**
 * Ops in the order of the graph; 0 says the same.
 */
#define GPUMEM_ORDER_GIVEN 1

/**
 * Ops in an order that keeps every dependency and lowers the most bytes live at one moment.
 */
#define GPUMEM_ORDER_MEMORY 2

/**
 * Not said.
 */
#define GPUMEM_PRECISION_UNKNOWN 0

/**
 * 64-bit floats.
 */
#define GPUMEM_PRECISION_FP64 1

/**
 * 32-bit floats.
 */
#define GPUMEM_PRECISION_FP32 2

/**
 * 32-bit floats multiplied with 19 bits.
 */
#define GPUMEM_PRECISION_TF32 3

/**
 * 16-bit IEEE floats.
 */
#define GPUMEM_PRECISION_FP16 4

/**
 * 16-bit floats with the range of 32.
 */
#define GPUMEM_PRECISION_BF16 5

/**
 * 8-bit floats.
 */
#define GPUMEM_PRECISION_FP8 6

/**
 * 4-bit floats.
 */
#define GPUMEM_PRECISION_FP4 7

/**
 * 64-bit integers.
 */
#define GPUMEM_PRECISION_INT64 8

/**
 * 32-bit integers.
 */
#define GPUMEM_PRECISION_INT32 9

/**
 * 16-bit integers.
 */
#define GPUMEM_PRECISION_INT16 10

/**
 * 8-bit integers.
 */
#define GPUMEM_PRECISION_INT8 11

/**
 * Booleans.
 */
#define GPUMEM_PRECISION_BOOL 12

/**
 * Rises with changes that break programs; the soname follows it. Before 1.0 a rise of `GPUMEM_VERSION_MINOR` may break
 * them too.
 */
#define GPUMEM_VERSION_MAJOR 0

/**
 * Rises with additions.
 */
#define GPUMEM_VERSION_MINOR 1

/**
 * Rises with corrections.
 */
#define GPUMEM_VERSION_PATCH 0

/**
 * A number that says nothing: what it stands for is chosen as if the field weren't there.
 */
#define GPUMEM_UNSET 18446744073709551615ull

/**
 * A switch that says nothing.
 */
#define GPUMEM_DEFAULT 0

/**
 * A switch that is off.
 */
#define GPUMEM_OFF 1

/**
 * A switch that is on.
 */
#define GPUMEM_ON 2

/**
 * An allocator on a device.
 */
typedef struct gpumem_allocator gpumem_allocator;

/**
 * A device that memory comes from. Made by `gpumem_device_create`, given up with `gpumem_device_destroy`; allocators
 * that were made on it keep it.
 */
typedef struct gpumem_device gpumem_device;

/**
 * A computation graph: one step of a program.
 */
typedef struct gpumem_graph gpumem_graph;

/**
 * A call of the driver that is under way.
 */
typedef struct gpumem_notice gpumem_notice;

/**
 * A plan: an offset for everything that needs bytes.
 */
typedef struct gpumem_plan gpumem_plan;

/**
 * Tags that were in force on a thread, to be put in force on another one.
 */
typedef struct gpumem_tags gpumem_tags;

/**
 * What a call answers: 0, or why it was refused. A refused call changed nothing. Numbers are never used again for
 * something else; those of later versions may be unknown to a program, which then takes them as failures.
 */
typedef int32_t gpumem_status;

/**
 * How a device or an allocator is to be. What isn't set is taken from `GPUMEM_CONF`, from variables of the environment
 * that are aliases of single settings, from files named by either, or from the default. Begin with
 * `GPUMEM_CONFIG_INIT`.
 */
typedef struct {
    /**
     * `sizeof(gpumem_config)`.
     */
    size_t struct_size;
    /**
     * Any settings as `key=value;key=value`, sizes with K, M, G or T, and `@file.toml`; null for none. The list of keys
     * is in docs/configuration.md and in `gpumem_config_settings`. The fields below win over it.
     */
    const char *settings;
    /**
     * Name of the device, `host` or `sim`; null if not set.
     */
    const char *device;
    /**
     * Bytes of memory of a host or simulated device.
     */
    uint64_t capacity_bytes;
    /**
     * Most bytes that an allocator holds from the device.
     */
    uint64_t hard_budget_bytes;
    /**
     * Bytes held from the device above which an allocator gives idle memory back first.
     */
    uint64_t soft_budget_bytes;
    /**
     * Bytes that an allocator takes from the device at the start.
     */
    uint64_t initial_bytes;
    /**
     * Whether overruns and uses after a free are looked for: a switch.
     */
    int32_t guard;
    /**
     * Whether blocks of different precisions lie apart: a switch.
     */
    int32_t separate_precisions;
} gpumem_config;

/**
 * What a request says about itself.
 */
typedef struct {
    /**
     * `GPUMEM_TIER_PERSISTENT` and so on; 0 is temporary.
     */
    int32_t tier;
    /**
     * `GPUMEM_PRECISION_FP32` and so on.
     */
    int32_t precision;
    /**
     * The operator, as `gpumem_op_number` numbers it; 0 is none.
     */
    uint32_t op;
    /**
     * Who it belongs to, by a number of the program's choice; 0 is nobody.
     */
    uint32_t owner;
} gpumem_tag_values;

/**
 * A tag. Begin with `GPUMEM_TAG_INIT`.
 */
typedef struct {
    /**
     * `sizeof(gpumem_tag)`.
     */
    size_t struct_size;
    /**
     * What it says.
     */
    gpumem_tag_values values;
} gpumem_tag;

/**
 * What is known about a live block. Begin with `GPUMEM_BLOCK_INFO_INIT`.
 */
typedef struct {
    /**
     * `sizeof(gpumem_block_info)`.
     */
    size_t struct_size;
    /**
     * Bytes asked for.
     */
    uint64_t requested_bytes;
    /**
     * Bytes it takes up.
     */
    uint64_t bytes;
    /**
     * Its home stream.
     */
    uint64_t stream;
    /**
     * What its request said about itself.
     */
    gpumem_tag_values tag;
    /**
     * References to it.
     */
    uint32_t references;
    /**
     * Always 0.
     */
    uint32_t reserved;
} gpumem_block_info;

/**
 * What a device is. Begin with `GPUMEM_DEVICE_INFO_INIT`.
 */
typedef struct {
    /**
     * `sizeof(gpumem_device_info)`.
     */
    size_t struct_size;
    /**
     * All bytes of memory it has.
     */
    uint64_t total_bytes;
    /**
     * Bytes nobody holds now, by the device's own account.
     */
    uint64_t free_bytes;
    /**
     * Plain memory takes a multiple of this many bytes.
     */
    uint64_t plain_granule_bytes;
    /**
     * Addresses of plain memory are multiples of this.
     */
    uint64_t plain_alignment_bytes;
    /**
     * Sizes and addresses of virtual memory are multiples of this; 0 without virtual memory.
     */
    uint64_t page_bytes;
    /**
     * 1 if memory keeps what is written to it; 0 for a device of addresses only.
     */
    int32_t has_bytes;
    /**
     * 1 if device addresses may be read and written by the host as they are; 0 if not.
     */
    int32_t is_host_accessible;
} gpumem_device_info;

/**
 * A level in bytes.
 */
typedef struct {
    /**
     * Now.
     */
    uint64_t current_bytes;
    /**
     * At its highest; while several streams allocate an upper bound.
     */
    uint64_t peak_bytes;
    /**
     * All that ever came in.
     */
    uint64_t cumulative_bytes;
} gpumem_level;

/**
 * How long calls took, in ns, within 3.2 %.
 */
typedef struct {
    /**
     * How many calls these stand for.
     */
    uint64_t count;
    /**
     * Half of them took at most this.
     */
    uint64_t p50_ns;
    /**
     * Nine in ten took at most this.
     */
    uint64_t p90_ns;
    /**
     * 99 in 100 took at most this.
     */
    uint64_t p99_ns;
    /**
     * 999 in 1000 took at most this.
     */
    uint64_t p999_ns;
    /**
     * The longest that was timed.
     */
    uint64_t max_ns;
} gpumem_quantiles;

/**
 * What an allocator has done and holds: live <= allocated <= active <= reserved. While other threads allocate, figures
 * are of slightly different moments. Begin with `GPUMEM_STATISTICS_INIT`.
 */
typedef struct {
    /**
     * `sizeof(gpumem_statistics)`.
     */
    size_t struct_size;
    /**
     * Bytes requested and not freed by the host.
     */
    gpumem_level live;
    /**
     * The same after rounding.
     */
    gpumem_level allocated;
    /**
     * Allocated, or freed by the host and still in use by streams.
     */
    gpumem_level active;
    /**
     * Bytes held from the device.
     */
    gpumem_level reserved;
    /**
     * Live bytes: temporary, cyclic, persistent.
     */
    gpumem_level tiers[3];
    /**
     * Live bytes by precision, in the order of `GPUMEM_PRECISION_UNKNOWN` and so on.
     */
    gpumem_level precisions[13];
    /**
     * Bytes that nothing uses, except those kept for threads.
     */
    uint64_t free_bytes;
    /**
     * The largest of these in one piece.
     */
    uint64_t largest_free_bytes;
    /**
     * (1 - largest free block / all free bytes) x 100.
     */
    double fragmentation_percent;
    /**
     * Bytes freed by the host that streams may still use.
     */
    uint64_t pending_bytes;
    /**
     * Bytes of freed blocks kept for the threads that freed them.
     */
    uint64_t cached_bytes;
    /**
     * Requests answered.
     */
    uint64_t allocs;
    /**
     * Blocks dropped.
     */
    uint64_t frees;
    /**
     * Requests answered by what their thread kept.
     */
    uint64_t cache_hits;
    /**
     * Small requests that weren't.
     */
    uint64_t cache_misses;
    /**
     * One in how many quick calls is timed.
     */
    uint64_t sampled_every;
    /**
     * Requests, quick ones weighted by how many they stand for.
     */
    gpumem_quantiles alloc_ns;
    /**
     * Requests that were answered at once.
     */
    gpumem_quantiles alloc_hit_ns;
    /**
     * All other requests; each is timed.
     */
    gpumem_quantiles alloc_slow_ns;
    /**
     * Frees that were done at once.
     */
    gpumem_quantiles free_hit_ns;
    /**
     * Frees of blocks with users, references or guards; each is timed.
     */
    gpumem_quantiles free_slow_ns;
    /**
     * Requests that found nothing at hand.
     */
    uint64_t slow_requests;
    /**
     * Requests that failed.
     */
    uint64_t failed_requests;
    /**
     * Calls of the device that take or give back memory.
     */
    uint64_t driver_calls;
    /**
     * Of these, those that it refused.
     */
    uint64_t driver_refusals;
    /**
     * Reservations of plain memory that are held.
     */
    uint64_t segments;
    /**
     * Handles of physical memory that are held.
     */
    uint64_t handles;
    /**
     * Times that a step's end tidied up.
     */
    uint64_t defragmentations;
    /**
     * Cyclic blocks by references: 1, 2, 3, 4 to 7, and more.
     */
    uint64_t cyclic_references[5];
    /**
     * Bytes of host memory that the allocator takes.
     */
    uint64_t host_bytes;
} gpumem_statistics;

/**
 * A tensor to be added. Begin with `GPUMEM_TENSOR_INIT`.
 */
typedef struct {
    /**
     * `sizeof(gpumem_tensor)`.
     */
    size_t struct_size;
    /**
     * Its name; null for none.
     */
    const char *name;
    /**
     * Size of its storage; of an alias, how much of the other's storage it needs.
     */
    uint64_t bytes;
    /**
     * What the storage's offset is a multiple of, a power of two.
     */
    uint64_t alignment;
    /**
     * `GPUMEM_TENSOR_PARAMETER` and so on; 0 for one that an op makes.
     */
    int32_t kind;
    /**
     * `GPUMEM_TIER_PERSISTENT` and so on; 0 to have it found out.
     */
    int32_t tier;
    /**
     * The tensor whose storage it shares, or `GPUMEM_NO_TENSOR`.
     */
    uint32_t alias_of;
    /**
     * 1 if it stays live past the last op, as the loss does; 0 if not.
     */
    int32_t is_result;
} gpumem_tensor;

/**
 * An op to be added. Ops are added in the order in which the program issues them. Begin with `GPUMEM_OP_INIT`.
 */
typedef struct {
    /**
     * `sizeof(gpumem_op)`.
     */
    size_t struct_size;
    /**
     * Its name; null for none.
     */
    const char *name;
    /**
     * What it computes, as `matmul`; null for none.
     */
    const char *kind;
    /**
     * Tensors it reads, `input_count` of them.
     */
    const uint32_t *inputs;
    /**
     * How many.
     */
    size_t input_count;
    /**
     * Tensors it makes, `output_count` of them; each is made by one op.
     */
    const uint32_t *outputs;
    /**
     * How many.
     */
    size_t output_count;
    /**
     * Pairs of an input and an output that may share bytes, one after the other: `2 * in_place_count` numbers.
     */
    const uint32_t *in_place;
    /**
     * How many pairs.
     */
    size_t in_place_count;
    /**
     * Events its stream waits for before it runs, `wait_count` of them.
     */
    const uint32_t *waits;
    /**
     * How many.
     */
    size_t wait_count;
    /**
     * Events recorded on its stream after it, `record_count` of them.
     */
    const uint32_t *records;
    /**
     * How many.
     */
    size_t record_count;
    /**
     * Earlier ops that must come before it without handing it a tensor, `after_count` of them.
     */
    const uint32_t *after;
    /**
     * How many.
     */
    size_t after_count;
    /**
     * Bytes needed only while it runs.
     */
    uint64_t workspace_bytes;
    /**
     * How long it runs, in ns.
     */
    uint64_t duration_ns;
    /**
     * The stream it runs on: 0, or what `gpumem_graph_stream_add` gave.
     */
    uint32_t stream;
    /**
     * Whether it writes into the storage of an input that it shares with an output: a switch.
     */
    int32_t mutates;
} gpumem_op;

/**
 * What is known of a plan. Begin with `GPUMEM_PLAN_INFO_INIT`.
 */
typedef struct {
    /**
     * `sizeof(gpumem_plan_info)`.
     */
    size_t struct_size;
    /**
     * Bytes of the arena: the highest end of a buffer.
     */
    uint64_t peak_bytes;
    /**
     * No plan has a lower peak.
     */
    uint64_t lower_bound_bytes;
    /**
     * Most bytes live at one moment.
     */
    uint64_t max_load_bytes;
    /**
     * The capacity asked for, or `GPUMEM_UNSET`.
     */
    uint64_t capacity_bytes;
    /**
     * Buffers it places; their numbers are those below.
     */
    uint64_t buffer_count;
    /**
     * The moment after the step.
     */
    uint64_t end;
    /**
     * Work spent on it, or `GPUMEM_UNSET` for a plan from a file.
     */
    uint64_t nodes;
    /**
     * `GPUMEM_PLAN_OPTIMAL` and so on.
     */
    int32_t quality;
    /**
     * What the lower bound rests on: `GPUMEM_BOUND_LOAD` and so on.
     */
    int32_t bound_kind;
    /**
     * 1 if the same input and options give the same plan again, 0 if not, -1 if not known.
     */
    int32_t is_deterministic;
    /**
     * Always 0.
     */
    int32_t reserved;
} gpumem_plan_info;

/**
 * A buffer of a plan: what needs bytes once tensors that share a storage are taken together. Begin with
 * `GPUMEM_PLACEMENT_INIT`.
 */
typedef struct {
    /**
     * `sizeof(gpumem_placement)`.
     */
    size_t struct_size;
    /**
     * Where it lies, in bytes from the arena's start.
     */
    uint64_t offset;
    /**
     * How many bytes it takes.
     */
    uint64_t bytes;
    /**
     * What its offset is a multiple of.
     */
    uint64_t alignment;
    /**
     * First moment at which it is live: the op at position i makes its outputs at 2 * i and lets go of its inputs at
     * 2 * i + 1.
     */
    uint64_t birth;
    /**
     * First moment at which it no longer is.
     */
    uint64_t death;
    /**
     * `GPUMEM_TIER_PERSISTENT` and so on.
     */
    int32_t tier;
    /**
     * 1 if the offset was asked for, 0 if it was chosen.
     */
    int32_t is_fixed;
} gpumem_placement;

/**
 * How far planning is.
 */
typedef struct {
    /**
     * The library's `sizeof(gpumem_plan_progress)`: at least that of the header the program was built with.
     */
    size_t struct_size;
    /**
     * Peak of the best plan so far; `GPUMEM_UNSET` before the first.
     */
    uint64_t peak_bytes;
    /**
     * What no plan can beat, as far as is known.
     */
    uint64_t lower_bound_bytes;
    /**
     * Work spent so far, as in the `node_limit` of the options.
     */
    uint64_t nodes;
    /**
     * 1 if this is news, 0 if it is only time to ask.
     */
    int32_t is_better;
    /**
     * Always 0.
     */
    int32_t reserved;
} gpumem_plan_progress;

/**
 * Called on the thread that plans, whenever a better plan was found and some twenty times a second. Returns 0 to go on,
 * anything else to stop: planning then fails with `GPUMEM_STATUS_CANCELLED`.
 */
typedef int32_t (*gpumem_plan_callback)(const gpumem_plan_progress *progress, void *data);

/**
 * How to plan. Begin with `GPUMEM_PLAN_OPTIONS_INIT`.
 */
typedef struct {
    /**
     * `sizeof(gpumem_plan_options)`.
     */
    size_t struct_size;
    /**
     * Work to spend after the first answer. Equal limits give equal plans on any machine, with any number of threads.
     */
    uint64_t node_limit;
    /**
     * Time to spend, in ns. What was found by then depends on the machine.
     */
    uint64_t time_limit_ns;
    /**
     * Bytes available. A plan that needs more is refused with `GPUMEM_STATUS_OUT_OF_MEMORY`.
     */
    uint64_t capacity_bytes;
    /**
     * What offsets are multiples of where the graph says nothing; 256 if not set.
     */
    uint64_t alignment;
    /**
     * Seed of whatever is random.
     */
    uint64_t seed;
    /**
     * Told of progress; null for nobody.
     */
    gpumem_plan_callback progress;
    /**
     * Handed to `progress`.
     */
    void *progress_data;
    /**
     * Threads to use; 0 takes one per core.
     */
    uint32_t threads;
    /**
     * `GPUMEM_ORDER_GIVEN` or `GPUMEM_ORDER_MEMORY`.
     */
    int32_t order;
} gpumem_plan_options;

/**
 * Bytes that are needed for a time, to be placed by `gpumem_plan_create_for_buffers`.
 */
typedef struct {
    /**
     * First moment at which it is live; any unit.
     */
    uint64_t birth;
    /**
     * First moment at which it no longer is.
     */
    uint64_t death;
    /**
     * How many.
     */
    uint64_t bytes;
    /**
     * What its offset is a multiple of; 0 is 1. Need not be a power of two.
     */
    uint64_t alignment;
    /**
     * The offset it must have, or `GPUMEM_UNSET`.
     */
    uint64_t fixed_offset;
} gpumem_buffer;

/**
 * Why a request would fail. Valid only during the call that gets it.
 */
typedef struct {
    /**
     * The library's `sizeof(gpumem_shortage)`: at least that of the header the program was built with.
     */
    size_t struct_size;
    /**
     * All there is to say, in words.
     */
    const char *text;
    /**
     * Bytes asked for.
     */
    uint64_t requested_bytes;
    /**
     * Alignment asked for.
     */
    uint64_t alignment;
    /**
     * Stream that asked.
     */
    uint64_t stream;
    /**
     * The largest block that the stream could have had.
     */
    uint64_t largest_free_bytes;
    /**
     * Bytes held from the device that nothing uses.
     */
    uint64_t idle_bytes;
    /**
     * Of these, what may not pass to this stream yet.
     */
    uint64_t idle_elsewhere_bytes;
    /**
     * Bytes freed by the host that streams may still use.
     */
    uint64_t pending_bytes;
    /**
     * Bytes requested and not freed.
     */
    uint64_t live_bytes;
    /**
     * Bytes held from the device.
     */
    uint64_t reserved_bytes;
    /**
     * Bytes free on the device, or `GPUMEM_UNSET`.
     */
    uint64_t device_free_bytes;
    /**
     * All bytes of the device.
     */
    uint64_t device_total_bytes;
    /**
     * The hard budget, or `GPUMEM_UNSET`.
     */
    uint64_t budget_bytes;
    /**
     * What the request said about itself.
     */
    gpumem_tag_values tag;
} gpumem_shortage;

/**
 * Called before a request fails, on the thread that asked and outside every lock: it may allocate, free and trim. Returns
 * 0 to let it fail, anything else to have it tried again, which ends after 16 times. It isn't called about requests that it
 * makes itself, and doesn't destroy the allocator.
 */
typedef int32_t (*gpumem_out_of_memory_callback)(const gpumem_shortage *shortage, void *data);

/**
 * Called with a callback's data once the callback is not called any more.
 */
typedef void (*gpumem_drop_callback)(void *data);

/**
 * It worked.
 */
#define GPUMEM_STATUS_OK 0

/**
 * A value can't be right: null where something is needed, a size out of range, text that isn't UTF-8.
 */
#define GPUMEM_STATUS_INVALID_ARGUMENT 1

/**
 * The handle is null, was never handed out as this kind of thing, or was destroyed.
 */
#define GPUMEM_STATUS_INVALID_HANDLE 2

/**
 * `struct_size` is not a size that this library knows: not set, or from a newer header.
 */
#define GPUMEM_STATUS_STRUCT_SIZE 3

/**
 * Right values at the wrong time.
 */
#define GPUMEM_STATUS_INVALID_STATE 4

/**
 * The device, a budget or a plan's capacity has no room. `gpumem_last_error` says who holds what and what would help.
 */
#define GPUMEM_STATUS_OUT_OF_MEMORY 5

/**
 * The pointer doesn't belong to the allocator.
 */
#define GPUMEM_STATUS_FOREIGN_POINTER 6

/**
 * The pointer lies inside a block and not at its start.
 */
#define GPUMEM_STATUS_INTERIOR_POINTER 7

/**
 * The block was freed before.
 */
#define GPUMEM_STATUS_DOUBLE_FREE 8

/**
 * A file can't be opened, read or written, or the system gave no thread.
 */
#define GPUMEM_STATUS_IO 9

/**
 * A file or text isn't what it should be, or contradicts itself.
 */
#define GPUMEM_STATUS_CORRUPT 10

/**
 * The driver or the device failed.
 */
#define GPUMEM_STATUS_DEVICE 11

/**
 * This device, or this build, can't do it.
 */
#define GPUMEM_STATUS_UNSUPPORTED 12

/**
 * The caller's buffer is too short; the size needed was written.
 */
#define GPUMEM_STATUS_BUFFER_TOO_SMALL 13

/**
 * Nothing has that name or number.
 */
#define GPUMEM_STATUS_NOT_FOUND 14

/**
 * A callback asked to stop.
 */
#define GPUMEM_STATUS_CANCELLED 15

/**
 * The process was forked since: the child can't use its parent's device.
 */
#define GPUMEM_STATUS_FORKED 16

/**
 * Bytes outside a block, or of a freed one, were written; `guard` found it.
 */
#define GPUMEM_STATUS_OVERRUN 17

/**
 * The plan doesn't hold: buffers overlap, or it isn't a plan of that graph.
 */
#define GPUMEM_STATUS_PLAN_DEFECT 18

/**
 * A key or value of the configuration is wrong; the message names it and where it came from.
 */
#define GPUMEM_STATUS_CONFIGURATION 19

/**
 * A bug in gpumem, caught before it could do harm.
 */
#define GPUMEM_STATUS_INTERNAL 20

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Any thread. Makes an allocator on `device`, or, if that is null, on a device of its own that `config` and the
 * environment name. `config` may be null. The device's handle may be destroyed any time.
 */
gpumem_status gpumem_allocator_create(const gpumem_device *device,
                                      const gpumem_config *config,
                                      gpumem_allocator **allocator);

/**
 * Any thread. The process's own allocator, which all parts of the program share: made at the first call from the
 * environment's settings. Can't be destroyed.
 */
gpumem_status gpumem_allocator_default(gpumem_allocator **allocator);

/**
 * Any thread, once for each handle. Gives the allocator up with all its blocks; null is nothing. Work that still uses
 * its blocks has to be over. A trace that is on is finished; an error in that is returned, and the allocator is gone all
 * the same.
 */
gpumem_status gpumem_allocator_destroy(gpumem_allocator *allocator);

/**
 * Any thread. A handle of the device that the allocator is on; to be destroyed like any other.
 */
gpumem_status gpumem_allocator_device(const gpumem_allocator *allocator, gpumem_device **device);

/**
 * Any thread. Memory of at least `bytes` bytes for work that is queued on `stream` from now on, tagged with the thread's
 * current tag. `alignment` is a power of two; 0 means 512, as anything below does. A request for 0 bytes gets an address
 * of its own. `GPUMEM_STATUS_OUT_OF_MEMORY` comes once nothing helped, the callback included; the last error then says
 * who holds what.
 */
gpumem_status gpumem_allocator_alloc(const gpumem_allocator *allocator,
                                     uint64_t bytes,
                                     uint64_t alignment,
                                     uint64_t stream,
                                     void **block);

/**
 * Any thread. The same with a tag for this request alone; null is the thread's current one.
 */
gpumem_status gpumem_allocator_alloc_tagged(const gpumem_allocator *allocator,
                                            uint64_t bytes,
                                            uint64_t alignment,
                                            uint64_t stream,
                                            const gpumem_tag *tag,
                                            void **block);

/**
 * Any thread, also another one than asked for it. Drops a block; of one with several references, one of them. Null is
 * nothing. Its memory goes to other requests once all work that may use it is over: with `GPUMEM_STREAM_HOME` what its
 * home stream and all recorded users have queued so far; with a stream what that has queued so far (and recorded
 * users), as with cudaFreeAsync. Makes no driver call.
 */
gpumem_status gpumem_allocator_free(const gpumem_allocator *allocator, void *block, uint64_t stream);

/**
 * Any thread. Says that work of `stream` also uses a block: all of it that is queued by the time of the free.
 */
gpumem_status gpumem_allocator_record_use(const gpumem_allocator *allocator, void *block, uint64_t stream);

/**
 * Any thread. Says that work of `stream` that was queued so far is the last that uses the block, of a stream that was
 * recorded as using it.
 */
gpumem_status gpumem_allocator_use_done(const gpumem_allocator *allocator, void *block, uint64_t stream);

/**
 * Any thread. Adds a reference to a block. How many there are then is written to `references`, unless that is null.
 */
gpumem_status gpumem_allocator_retain(const gpumem_allocator *allocator, void *block, uint32_t *references);

/**
 * Any thread. Takes a reference away; with the last one the block is dropped, as by `gpumem_allocator_free` with
 * `GPUMEM_STREAM_HOME`. How many are left is written to `references`, unless that is null.
 */
gpumem_status gpumem_allocator_release(const gpumem_allocator *allocator, void *block, uint32_t *references);

/**
 * Any thread. What is known about a live block.
 */
gpumem_status gpumem_allocator_block(const gpumem_allocator *allocator, const void *block, gpumem_block_info *info);

/**
 * Any thread. The allocator's settings as `gpumem_config_settings` writes them.
 */
gpumem_status gpumem_allocator_settings(const gpumem_allocator *allocator, char *buffer, size_t capacity, size_t *size);

/**
 * Any thread. Every setting that `config` (null for none) and the environment come to, as a JSON list: name, value (null
 * for none), source (`the call`, `GPUMEM_CONF`, a variable's or a file's name, `the default`) and what it does.
 */
gpumem_status gpumem_config_settings(const gpumem_config *config,
                                     char *buffer,
                                     size_t capacity,
                                     size_t *size);

/**
 * Any thread. Opens a device: by `device` and `capacity_bytes` of `config`, or of the environment; null sets nothing.
 */
gpumem_status gpumem_device_create(const gpumem_config *config, gpumem_device **device);

/**
 * Any thread, once for each handle. Gives the handle up; null is nothing. The device itself goes with its last user.
 */
gpumem_status gpumem_device_destroy(gpumem_device *device);

/**
 * Any thread. What the device is and how much memory is free now.
 */
gpumem_status gpumem_device_query(const gpumem_device *device, gpumem_device_info *info);

/**
 * Any thread. What a person calls the device, with a closing zero.
 */
gpumem_status gpumem_device_name(const gpumem_device *device, char *buffer, size_t capacity, size_t *size);

/**
 * Any thread. A new stream. 0 is the default stream, which every device has from the start.
 */
gpumem_status gpumem_device_stream_create(const gpumem_device *device, uint64_t *stream);

/**
 * Any thread. Gives a stream up; work it still has runs to its end. Tell allocators with
 * `gpumem_allocator_stream_destroyed`.
 */
gpumem_status gpumem_device_stream_destroy(const gpumem_device *device, uint64_t stream);

/**
 * Any thread. Whether all work queued on the stream so far has finished: 1 or 0.
 */
gpumem_status gpumem_device_stream_query(const gpumem_device *device, uint64_t stream, int32_t *is_finished);

/**
 * Any thread. Waits until all work queued on the stream so far has finished.
 */
gpumem_status gpumem_device_stream_synchronize(const gpumem_device *device, uint64_t stream);

/**
 * Any thread. A new event. Until it is recorded it counts as having happened.
 */
gpumem_status gpumem_device_event_create(const gpumem_device *device, uint64_t *event);

/**
 * Any thread. Gives an event up. Waits that were queued for it hold. Tell allocators with
 * `gpumem_allocator_event_destroyed`.
 */
gpumem_status gpumem_device_event_destroy(const gpumem_device *device, uint64_t event);

/**
 * Any thread. Puts the event behind all work queued on the stream so far.
 */
gpumem_status gpumem_device_event_record(const gpumem_device *device, uint64_t event, uint64_t stream);

/**
 * Any thread. Whether the event's last record has happened: 1 or 0.
 */
gpumem_status gpumem_device_event_query(const gpumem_device *device, uint64_t event, int32_t *has_happened);

/**
 * Any thread. Waits until the event's last record has happened.
 */
gpumem_status gpumem_device_event_synchronize(const gpumem_device *device, uint64_t event);

/**
 * Any thread. Work queued on `stream` from now on starts only once the event's last record has happened.
 */
gpumem_status gpumem_device_event_wait(const gpumem_device *device, uint64_t event, uint64_t stream);

/**
 * Any thread. Waits until all streams have finished.
 */
gpumem_status gpumem_device_synchronize(const gpumem_device *device);

/**
 * Any thread. Copies `bytes` bytes between two places on the device, which don't overlap, in order of the stream.
 */
gpumem_status gpumem_device_copy(const gpumem_device *device,
                                 void *to,
                                 const void *from,
                                 uint64_t bytes,
                                 uint64_t stream);

/**
 * Any thread. Copies the host's bytes to the device before it returns, in no stream's order: the caller sees to it that
 * no work uses the place.
 */
gpumem_status gpumem_device_write(const gpumem_device *device, void *to, const void *from, size_t bytes);

/**
 * Any thread. Copies from the device to the host's bytes before it returns, in no stream's order.
 */
gpumem_status gpumem_device_read(const gpumem_device *device, const void *from, void *to, size_t bytes);

/**
 * Any thread. What the allocator has done and holds.
 */
gpumem_status gpumem_allocator_statistics(const gpumem_allocator *allocator, gpumem_statistics *statistics);

/**
 * Any thread. The same and more as a JSON object, gpumem-statistics/1. Its size may change from one call to the next:
 * leave some room.
 */
gpumem_status gpumem_allocator_statistics_json(const gpumem_allocator *allocator,
                                               char *buffer,
                                               size_t capacity,
                                               size_t *size);

/**
 * Any thread. All segments and blocks as a JSON object, gpumem-snapshot/1. Requests of other threads go on meanwhile, and
 * its size may change from one call to the next: leave some room.
 */
gpumem_status gpumem_allocator_snapshot(const gpumem_allocator *allocator,
                                        char *buffer,
                                        size_t capacity,
                                        size_t *size);

/**
 * Any thread. The same into a file; gzip if its name ends in `.gz`, zstd if in `.zst`. The file is in its place only once
 * it is whole.
 */
gpumem_status gpumem_allocator_snapshot_save(const gpumem_allocator *allocator,
                                             const char *path);

/**
 * Any thread. An empty graph with this name; null for none.
 */
gpumem_status gpumem_graph_create(const char *name, gpumem_graph **graph);

/**
 * Any thread, once for each handle. Gives the graph up; null is nothing. Plans made of it stay.
 */
gpumem_status gpumem_graph_destroy(gpumem_graph *graph);

/**
 * Any thread. Reads a graph from a file in the form gpumem-graph/1, plain, gzip or zstd.
 */
gpumem_status gpumem_graph_load(const char *path, gpumem_graph **graph);

/**
 * Any thread. Writes the graph to a file in the form gpumem-graph/1; gzip if its name ends in `.gz`, zstd if in `.zst`.
 * The file is in its place only once it is whole.
 */
gpumem_status gpumem_graph_save(const gpumem_graph *graph, const char *path);

/**
 * Any thread. Adds a stream and gives its number. Stream 0 is there from the start.
 */
gpumem_status gpumem_graph_stream_add(gpumem_graph *graph, const char *name, uint32_t *stream);

/**
 * Any thread. Adds an event and gives its number. One op at most records it.
 */
gpumem_status gpumem_graph_event_add(gpumem_graph *graph, const char *name, uint32_t *event);

/**
 * Any thread. Adds a tensor and gives its number, from 0 in the order of adding.
 */
gpumem_status gpumem_graph_tensor_add(gpumem_graph *graph, const gpumem_tensor *tensor, uint32_t *number);

/**
 * Any thread. Adds an op and gives its number, from 0 in the order of adding, which is that in which the program issues
 * them. Whether the graph makes sense is said when it is planned or checked.
 */
gpumem_status gpumem_graph_op_add(gpumem_graph *graph, const gpumem_op *op, uint32_t *number);

/**
 * Any thread. Names the tensor at which forward turns into backward; without, it is found out.
 */
gpumem_status gpumem_graph_loss_set(gpumem_graph *graph, uint32_t tensor);

/**
 * Any thread. Whether the graph makes sense: every tensor is made once and before it is read, aliases and streams lead
 * somewhere, nothing runs in a circle.
 */
gpumem_status gpumem_graph_check(const gpumem_graph *graph);

/**
 * Any thread. Why the last call of this thread that failed did so, in words, UTF-8; empty if none failed yet. A call
 * that succeeds leaves it as it is, so look at it only after a failure. Never null; valid until the next call of this
 * thread that fails, or its end.
 */
const char *gpumem_last_error(void);

/**
 * Any thread. The status of the last call of this thread that failed; `GPUMEM_STATUS_OK` if none did.
 */
gpumem_status gpumem_last_error_status(void);

/**
 * Any thread. `by` was made to wait for all that `of` has queued, by whatever calls.
 */
gpumem_status gpumem_allocator_stream_waited(const gpumem_allocator *allocator, uint64_t of, uint64_t by);

/**
 * Any thread. An event was recorded on a stream. Events are known by a number of the program's choice, such as their
 * handle.
 */
gpumem_status gpumem_allocator_event_recorded(const gpumem_allocator *allocator, uint64_t event, uint64_t stream);

/**
 * Any thread. A stream was made to wait for an event.
 */
gpumem_status gpumem_allocator_event_waited(const gpumem_allocator *allocator, uint64_t event, uint64_t stream);

/**
 * Any thread. The host waited for an event, or asked and heard that it has happened.
 */
gpumem_status gpumem_allocator_event_synchronized(const gpumem_allocator *allocator, uint64_t event);

/**
 * Any thread. An event is about to be destroyed, or was changed in a way that no other call here says.
 */
gpumem_status gpumem_allocator_event_destroyed(const gpumem_allocator *allocator, uint64_t event);

/**
 * Any thread. A stream is about to be destroyed; its number may come back for another one.
 */
gpumem_status gpumem_allocator_stream_destroyed(const gpumem_allocator *allocator, uint64_t stream);

/**
 * Any thread. The host waited for a stream, or for all with `GPUMEM_STREAM_ALL`, or asked and heard that it is finished.
 */
gpumem_status gpumem_allocator_synchronized(const gpumem_allocator *allocator,
                                            uint64_t stream);

/**
 * Any thread. Work was queued on a stream. Only matters where the setting `sees_all_work` is on.
 */
gpumem_status gpumem_allocator_work_queued(const gpumem_allocator *allocator, uint64_t stream);

/**
 * Any thread. Before an event is recorded on a stream.
 */
gpumem_status gpumem_notice_record(const gpumem_allocator *allocator,
                                   uint64_t event,
                                   uint64_t stream,
                                   gpumem_notice **notice);

/**
 * Any thread. Before an event is recorded in a way that says nothing of order: in a capture, or by a form of record that
 * has no function here. Afterwards the event stands for nothing, whether the call succeeds or not.
 */
gpumem_status gpumem_notice_unmodelled_record(const gpumem_allocator *allocator,
                                              uint64_t event,
                                              gpumem_notice **notice);

/**
 * Any thread. Before a stream is made to wait for an event.
 */
gpumem_status gpumem_notice_wait(const gpumem_allocator *allocator,
                                 uint64_t event,
                                 uint64_t stream,
                                 gpumem_notice **notice);

/**
 * Any thread. Before `by` is made to wait for all that `of` has queued.
 */
gpumem_status gpumem_notice_stream_wait(const gpumem_allocator *allocator,
                                        uint64_t of,
                                        uint64_t by,
                                        gpumem_notice **notice);

/**
 * Any thread. Before the host waits for an event, or asks whether it has happened.
 */
gpumem_status gpumem_notice_event_synchronize(const gpumem_allocator *allocator,
                                              uint64_t event,
                                              gpumem_notice **notice);

/**
 * Any thread. Before the host waits for a stream, or for all with `GPUMEM_STREAM_ALL`, or asks whether it is finished.
 */
gpumem_status gpumem_notice_synchronize(const gpumem_allocator *allocator, uint64_t stream, gpumem_notice **notice);

/**
 * Any thread. The driver's call succeeded. The notice is gone afterwards, also if this fails; null is nothing.
 */
gpumem_status gpumem_notice_commit(const gpumem_allocator *allocator, gpumem_notice *notice);

/**
 * Any thread. The driver's call failed or wasn't made: nothing is learned of it. Null is nothing.
 */
gpumem_status gpumem_notice_drop(gpumem_notice *notice);

/**
 * Any thread, once for each handle. Gives the plan up; null is nothing.
 */
gpumem_status gpumem_plan_destroy(gpumem_plan *plan);

/**
 * Any thread. Peak, bound and all else that is known of the plan.
 */
gpumem_status gpumem_plan_query(const gpumem_plan *plan, gpumem_plan_info *info);

/**
 * Any thread. Where a tensor of the graph, or a buffer of the list, lies, in bytes from the arena's start. What takes no
 * bytes is `GPUMEM_STATUS_NOT_FOUND`. For a plan from a file, `tensor` is looked for as the identifier of a buffer.
 */
gpumem_status gpumem_plan_offset(const gpumem_plan *plan,
                                 uint32_t tensor,
                                 uint64_t *offset);

/**
 * Any thread. The number in the plan of the buffer that a tensor is in.
 */
gpumem_status gpumem_plan_buffer_of(const gpumem_plan *plan, uint32_t tensor, uint64_t *buffer);

/**
 * Any thread. The number in the plan of the buffer with this identifier, as files have it: a tensor's number, or `op`
 * and the number of the op whose workspace it is.
 */
gpumem_status gpumem_plan_buffer_find(const gpumem_plan *plan, const char *id, uint64_t *buffer);

/**
 * Any thread. Where a buffer lies, and when it is live; `buffer` is 0 to `buffer_count` - 1.
 */
gpumem_status gpumem_plan_placement(const gpumem_plan *plan, uint64_t buffer, gpumem_placement *placement);

/**
 * Any thread. What a buffer is called, with a closing zero.
 */
gpumem_status gpumem_plan_buffer_name(const gpumem_plan *plan,
                                      uint64_t buffer,
                                      char *text,
                                      size_t capacity,
                                      size_t *size);

/**
 * Any thread. Writes the plan to a file in the form gpumem-plan/1; gzip if its name ends in `.gz`, zstd if in `.zst`. The
 * file is in its place only once it is whole.
 */
gpumem_status gpumem_plan_save(const gpumem_plan *plan,
                               const char *path);

/**
 * Any thread. Reads a plan from a file in the form gpumem-plan/1, plain, gzip or zstd. Whether it holds is for
 * `gpumem_plan_verify` to say.
 */
gpumem_status gpumem_plan_load(const char *path, gpumem_plan **plan);

/**
 * Any thread. Checks the plan, without the code that made it: no two buffers share bytes at one time, offsets are
 * aligned, every figure is what it says. With a graph (null for none), also whether it is a plan of that graph. What
 * doesn't hold is `GPUMEM_STATUS_PLAN_DEFECT`.
 */
gpumem_status gpumem_plan_verify(const gpumem_plan *plan, const gpumem_graph *graph);

/**
 * Any thread. Plans a graph: every tensor gets an offset in one arena such that the peak is low; `gpumem_plan_info` says
 * how low, and how far from the lowest that can be. The plan was verified before it is handed out. `options` may be null.
 * While it runs, the graph may be changed and destroyed; the plan is of what it was.
 */
gpumem_status gpumem_plan_create(const gpumem_graph *graph,
                                 const gpumem_plan_options *options,
                                 gpumem_plan **plan);

/**
 * Any thread. Plans buffers whose live ranges are known; their numbers are their positions. `struct_size` is
 * `sizeof(gpumem_buffer)`. `options` may be null; its `order` says nothing here.
 */
gpumem_status gpumem_plan_create_for_buffers(const gpumem_buffer *buffers,
                                             size_t count,
                                             size_t struct_size,
                                             const gpumem_plan_options *options,
                                             gpumem_plan **plan);

/**
 * Any thread. The name of a status in lower case, as `out_of_memory`; `unknown` for a number this library doesn't
 * know. Never null; valid forever.
 */
const char *gpumem_status_name(gpumem_status status);

/**
 * Any thread. The number of an operator's name, the same for the life of the process: ask once and keep it. 0, which
 * means none, for an empty name and once 65 535 names have numbers.
 */
gpumem_status gpumem_op_number(const char *name, uint32_t *number);

/**
 * Any thread; about this one. Puts a tag in force until the matching `gpumem_tag_pop`. Beyond 256 tags the one in force
 * stays, and the matching pop takes nothing off.
 */
gpumem_status gpumem_tag_push(const gpumem_tag *tag);

/**
 * Any thread; about this one. Takes off the tag that was pushed last. `GPUMEM_STATUS_INVALID_STATE` if there is none.
 */
gpumem_status gpumem_tag_pop(void);

/**
 * Any thread; about this one. The tag in force.
 */
gpumem_status gpumem_tag_current(gpumem_tag *tag);

/**
 * Any thread; about this one. Takes hold of the tags in force, for a thread that goes on with the same work.
 */
gpumem_status gpumem_tags_capture(gpumem_tags **tags);

/**
 * Any thread; about this one. Puts captured tags in force instead of the thread's own, until the matching
 * `gpumem_tags_leave`. The handle may be destroyed meanwhile, and entered by several threads.
 */
gpumem_status gpumem_tags_enter(const gpumem_tags *tags);

/**
 * Any thread; about this one. Puts the thread's own tags in force again. `GPUMEM_STATUS_INVALID_STATE` if it didn't
 * enter any.
 */
gpumem_status gpumem_tags_leave(void);

/**
 * Any thread, once for each handle. Gives captured tags up; null is nothing.
 */
gpumem_status gpumem_tags_destroy(gpumem_tags *tags);

/**
 * Any thread. Who is asked before a request fails, in place of whoever was. `drop` may be null. With a null `callback`
 * nobody is asked, and `data` and `drop` say nothing.
 */
gpumem_status gpumem_allocator_on_out_of_memory(const gpumem_allocator *allocator,
                                                gpumem_out_of_memory_callback callback,
                                                void *data,
                                                gpumem_drop_callback drop);

/**
 * Any thread. A step of the program has ended: guards are checked, and memory is given back where too much is idle or
 * where it lies in too many pieces.
 */
gpumem_status gpumem_allocator_step(const gpumem_allocator *allocator);

/**
 * Any thread. Gives idle memory back to the device until at most `keep_bytes` are held, or nothing more is idle. How much
 * went is written to `released_bytes`, unless that is null.
 */
gpumem_status gpumem_allocator_trim(const gpumem_allocator *allocator,
                                    uint64_t keep_bytes,
                                    uint64_t *released_bytes);

/**
 * Any thread. Most bytes held from the device, and bytes above which idle memory is given back first; 0 or
 * `GPUMEM_UNSET` is no bound.
 */
gpumem_status gpumem_allocator_budget_set(const gpumem_allocator *allocator, uint64_t hard_bytes, uint64_t soft_bytes);

/**
 * Any thread. Verifies every invariant of the allocator's own state. A broken one, `GPUMEM_STATUS_INTERNAL`, is a bug.
 */
gpumem_status gpumem_allocator_check(const gpumem_allocator *allocator);

/**
 * Any thread. Looks whether bytes around live blocks were written; waits for the device. Needs the setting `guard`.
 */
gpumem_status gpumem_allocator_check_guards(const gpumem_allocator *allocator);

/**
 * Any thread. Writes all requests from now on to a file in the form gpumem-trace/1, in place of an earlier trace, which
 * is finished; an error in that is returned, and the new one is on all the same. Uses, waits of streams,
 * synchronizations and work are written as they are told. Requests take longer meanwhile.
 */
gpumem_status gpumem_allocator_trace_start(const gpumem_allocator *allocator, const char *path);

/**
 * Any thread. Ends the trace and finishes its file; says if some of it couldn't be written. Without a trace nothing
 * happens.
 */
gpumem_status gpumem_allocator_trace_stop(const gpumem_allocator *allocator);

/**
 * Any thread. The library's version as one number, to be compared with `GPUMEM_VERSION`, the header's: 10000 for each
 * major, 100 for each minor, 1 for each patch.
 */
uint32_t gpumem_version(void);

/**
 * Any thread. The library's version as text, as `0.1.0`. Never null; valid forever.
 */
const char *gpumem_version_text(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* GPUMEM_H */
