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
 * - Nothing is written to standard output or error, no signal handler is installed, nothing is torn down at exit. After
 *   fork, the child may call everything that needs no device of the parent; what does is refused.
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
 * A device that memory comes from. Made by `gpumem_device_create`, given up with `gpumem_device_destroy`; allocators
 * that were made on it keep it.
 */
typedef struct gpumem_device gpumem_device;

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
 * A file can't be opened, read or written.
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
 * Any thread. The name of a status in lower case, as `out_of_memory`; `unknown` for a number this library doesn't
 * know. Never null; valid forever.
 */
const char *gpumem_status_name(gpumem_status status);

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
