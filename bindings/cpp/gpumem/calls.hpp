// The two calls that everything here allocates and frees with. Part of gpumem.hpp; include that.
// SPDX-License-Identifier: Apache-2.0 OR MIT
#ifndef GPUMEM_HPP_CALLS
#define GPUMEM_HPP_CALLS

#include "words.hpp"

#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_THREAD__)
#define GPUMEM_HPP_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define GPUMEM_HPP_TSAN 1
#endif
#endif

#if defined(GPUMEM_HPP_TSAN)
extern "C" void __tsan_acquire(void *);
extern "C" void __tsan_release(void *);
#endif

namespace gpumem {
inline namespace GPUMEM_HPP_ABI {
namespace detail {

#if defined(GPUMEM_HPP_TSAN)
// ThreadSanitizer doesn't see inside the library, so it can't know that what one thread did with a block comes before
// the free, and that before another thread gets the memory. Told here, for each 2 MiB that the block touches.
inline char handed_over[4096];

template <class Tell>
void tell_of(void *block, std::uint64_t bytes, Tell tell) noexcept {
    const auto first = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(block));
    for (std::uint64_t part = first >> 21; part <= (first + bytes) >> 21; ++part) tell(&handed_over[part % 4096]);
}
inline void handed_out(void *block, std::uint64_t bytes) noexcept { tell_of(block, bytes, __tsan_acquire); }
inline void handed_back(const gpumem_allocator *pool, void *block) noexcept {
    gpumem_block_info info = GPUMEM_BLOCK_INFO_INIT;
    if (gpumem_allocator_block(pool, block, &info) == GPUMEM_STATUS_OK) {
        tell_of(block, info.requested_bytes, __tsan_release);
    }
}
// The same for the data of a callback, which the library hands from thread to thread.
inline void passed_on(void *data) noexcept { __tsan_release(data); }
inline void taken_over(void *data) noexcept { __tsan_acquire(data); }
#else
inline void handed_out(void *, std::uint64_t) noexcept {}
inline void handed_back(const gpumem_allocator *, void *) noexcept {}
inline void passed_on(void *) noexcept {}
inline void taken_over(void *) noexcept {}
#endif

inline gpumem_status alloc(const gpumem_allocator *pool, std::uint64_t bytes, std::uint64_t alignment,
                           stream_ref stream, void **block) noexcept {
    const gpumem_status answer = gpumem_allocator_alloc(pool, bytes, alignment, stream.number(), block);
    if (answer == GPUMEM_STATUS_OK) handed_out(*block, bytes);
    return answer;
}

inline status free(const gpumem_allocator *pool, void *block, stream_ref stream) noexcept {
    handed_back(pool, block);
    return static_cast<status>(gpumem_allocator_free(pool, block, stream.number()));
}

/// Both forms of an answer to a request.
inline result<void *> try_block(gpumem_status answer, void *block) noexcept {
    if (answer != GPUMEM_STATUS_OK) return drop_thrown(answer);
    return block;
}
inline void *block_or_throw(gpumem_status answer, void *block) {
    if (answer != GPUMEM_STATUS_OK) fail(static_cast<status>(answer));
    return block;
}

}  // namespace detail
}  // namespace GPUMEM_HPP_ABI
}  // namespace gpumem

#endif
