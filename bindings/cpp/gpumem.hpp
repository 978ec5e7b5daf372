// gpumem.hpp: gpumem for C++17 and later. Header-only, over gpumem.h and nothing else; no CUDA header is needed.
// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Like gpumem.h it is stable from 1.0, and not before.
//
// TWO FORMS. Each operation has a name, and the same name behind `try_`:
// - `pool.step()` throws what is wrong, or returns what was asked for.
// - `pool.try_step()` is noexcept and returns a `status`, or a `result` with a status and a value.
// Scopes, which can't be returned, take std::nothrow instead and have a `status()`.
// With -fno-exceptions the first form ends the process (std::abort) where it would throw. -fno-rtti changes nothing.
//
// WHAT IS THROWN. `out_of_memory`, a std::bad_alloc, when memory runs out; `error`, a std::runtime_error, for all else.
// Both are also a `failure`, which has the status. There is one std::exception in each, so a handler for that works too;
// this is why `out_of_memory` isn't an `error`.
// A status form that runs out of the host's own memory ends the process, as the library itself does.
//
// HANDLES. device, pool, graph, plan, captured_tags, notice, stream, event, block: each is the only owner of its handle,
// can be moved and not copied, and gives the handle up when it dies. One that was default-constructed, moved from,
// released or reset is null: `if (handle)` is false, and every operation on it fails with status::invalid_handle, which
// also happens to a pool that is used by a block or resource after its end. Moving an object onto itself changes nothing.
// Threads: as gpumem.h says of the handle; an object itself is moved, assigned and reset by one thread at a time.

#ifndef GPUMEM_HPP
#define GPUMEM_HPP

#include "gpumem/graph.hpp"
#include "gpumem/pool.hpp"
#include "gpumem/resource.hpp"

#endif
