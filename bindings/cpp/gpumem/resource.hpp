// What the standard library and libraries for GPUs call memory resources and allocators. Part of gpumem.hpp; include that.
// SPDX-License-Identifier: Apache-2.0 OR MIT
#ifndef GPUMEM_HPP_RESOURCE
#define GPUMEM_HPP_RESOURCE

#include "pool.hpp"

#include <cstddef>
#include <limits>
#include <memory>
#include <memory_resource>
#include <new>
#include <type_traits>

namespace gpumem {
inline namespace GPUMEM_HPP_ABI {

namespace detail {

/// A pool, with a stream that nobody queues work on. Memory asked for on that stream may be used at once, by the host and
/// by every stream: whatever other streams still do with a block keeps it from this one.
class quiet_stream {
public:
    static result<quiet_stream> try_make(const pool &pool) noexcept {
        result<device> its_device = pool.try_device();
        if (!its_device) return its_device.status();
        result<stream> quiet = stream::try_make(*its_device, pool);
        if (!quiet) return quiet.status();
        quiet_stream made;
        made.pool_ = pool.get();
        made.device_ = std::move(*its_device);
        made.stream_ = std::move(*quiet);
        return made;
    }

    const device &on() const noexcept { return device_; }

    gpumem_status alloc(std::size_t bytes, std::size_t alignment, void **block) const noexcept {
        return detail::alloc(pool_, bytes, alignment, stream_, block);
    }
    status free(void *block) const noexcept {
        return detail::free(pool_, block, home_stream);
    }

    quiet_stream() noexcept = default;

private:
    gpumem_allocator *pool_ = nullptr;
    device device_;  // outlives the stream
    stream stream_;
};

}  // namespace detail

/// Memory for the standard library's containers, from a pool on a device whose memory the host can use, such as `host`.
/// The pool must outlive it. It is equal to itself alone. Any thread.
///
/// Every block takes at least 512 bytes. For containers of many small nodes put a std::pmr::unsynchronized_pool_resource
/// in between.
class memory_resource final : public std::pmr::memory_resource {
public:
    explicit memory_resource(const pool &pool) : memory_resource(pool, std::nothrow) { detail::require(status_); }
    /// If `status()` isn't ok then, every request fails.
    memory_resource(const pool &pool, std::nothrow_t) noexcept {
        result<detail::quiet_stream> from = detail::quiet_stream::try_make(pool);
        status_ = from.status();
        if (!from) return;
        const result<gpumem_device_info> info = from->on().try_query();
        status_ = !info ? info.status() : info->is_host_accessible == 1 ? gpumem::status::ok : gpumem::status::unsupported;
        if (status_ == gpumem::status::ok) from_ = std::move(*from);
    }
    memory_resource(const memory_resource &) = delete;
    memory_resource &operator=(const memory_resource &) = delete;

    gpumem::status status() const noexcept { return status_; }

    /// `allocate` as a status.
    [[nodiscard]] result<void *> try_allocate(std::size_t bytes,
                                              std::size_t alignment = alignof(std::max_align_t)) noexcept {
        void *block = nullptr;
        const gpumem_status answer = from_.alloc(bytes, alignment, &block);
        return detail::try_block(answer, block);
    }
    /// `deallocate` as a status: that one has no way to say that something is wrong.
    gpumem::status try_deallocate(void *block) noexcept { return from_.free(block); }

private:
    void *do_allocate(std::size_t bytes, std::size_t alignment) override {
        void *block = nullptr;
        const gpumem_status answer = from_.alloc(bytes, alignment, &block);
        return detail::block_or_throw(answer, block);
    }
    void do_deallocate(void *block, std::size_t, std::size_t) override { (void)from_.free(block); }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override { return this == &other; }

    gpumem::status status_ = gpumem::status::ok;
    detail::quiet_stream from_;
};

/// The standard's allocator over a `memory_resource`, which must outlive it. Containers that are moved or swapped take
/// their allocators along; a copy that is constructed uses that of its source, one that is assigned keeps its own.
template <class T>
class allocator {
public:
    using value_type = T;
    using propagate_on_container_copy_assignment = std::false_type;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;
    using is_always_equal = std::false_type;

    allocator(memory_resource &from) noexcept : from_(&from) {}
    template <class U>
    allocator(const allocator<U> &other) noexcept : from_(other.resource()) {}

    /// Throws std::bad_array_new_length, `out_of_memory` or `error`.
    [[nodiscard]] T *allocate(std::size_t count) {
        if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) too_long();
        return static_cast<T *>(from_->allocate(count * sizeof(T), alignof(T)));
    }
    [[nodiscard]] result<T *> try_allocate(std::size_t count) noexcept {
        if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) return gpumem::status::invalid_argument;
        const result<void *> made = from_->try_allocate(count * sizeof(T), alignof(T));
        if (!made) return made.status();
        return static_cast<T *>(*made);
    }
    void deallocate(T *block, std::size_t count) noexcept {
        from_->deallocate(block, count * sizeof(T), alignof(T));
    }
    gpumem::status try_deallocate(T *block) noexcept { return from_->try_deallocate(block); }

    memory_resource *resource() const noexcept { return from_; }
    template <class U>
    friend bool operator==(const allocator &a, const allocator<U> &b) noexcept {
        return a.from_ == b.resource();
    }
    template <class U>
    friend bool operator!=(const allocator &a, const allocator<U> &b) noexcept {
        return a.from_ != b.resource();
    }

private:
    [[noreturn]] static void too_long() {
#if defined(__cpp_exceptions)
        throw std::bad_array_new_length();
#else
        std::abort();
#endif
    }

    memory_resource *from_;
};

/// Properties of a resource's memory.
struct device_accessible {};
struct host_accessible {};

/// Which types name the property that work of the device can use the memory. A program that hands a `stream_resource` to
/// libraries with tags of their own specialises it for those, such as cuda::mr::device_accessible.
template <class Property>
struct is_device_accessible_tag : std::is_same<Property, device_accessible> {};

/// Memory in order of streams, in the shape of cuda::mr's concepts: `resource` and `async_resource` of CCCL 2, and
/// `synchronous_resource` and `resource` of CCCL 3. Copies are equal and share what they hold; the pool must outlive them.
/// Any thread.
///
/// Memory from a call without a stream may be used at once and by every stream. Whoever gives it back without a stream has
/// waited for all work that uses it.
class stream_resource {
public:
    /// Null: requests fail.
    stream_resource() noexcept = default;
    explicit stream_resource(const pool &pool) : stream_resource(try_make(pool).take()) {}
    static result<stream_resource> try_make(const pool &pool) noexcept {
        result<detail::quiet_stream> from = detail::quiet_stream::try_make(pool);
        if (!from) return from.status();
        stream_resource made;
        made.pool_ = pool.get();
        made.from_ = std::make_shared<const detail::quiet_stream>(std::move(*from));
        return made;
    }

    // In order of a stream.

    [[nodiscard]] result<void *> try_allocate_async(std::size_t bytes, std::size_t alignment,
                                                    stream_ref stream) const noexcept {
        void *block = nullptr;
        const gpumem_status answer = detail::alloc(pool_, bytes, alignment, stream, &block);
        return detail::try_block(answer, block);
    }
    [[nodiscard]] void *allocate_async(std::size_t bytes, std::size_t alignment, stream_ref stream) const {
        void *block = nullptr;
        const gpumem_status answer = detail::alloc(pool_, bytes, alignment, stream, &block);
        return detail::block_or_throw(answer, block);
    }
    [[nodiscard]] void *allocate_async(std::size_t bytes, stream_ref stream) const {
        return allocate_async(bytes, default_alignment, stream);
    }
    /// Behind all that the stream has queued so far.
    status try_deallocate_async(void *block, stream_ref stream) const noexcept {
        return detail::free(pool_, block, stream);
    }
    void deallocate_async(void *block, std::size_t, std::size_t, stream_ref stream) const noexcept {
        (void)try_deallocate_async(block, stream);
    }
    void deallocate_async(void *block, std::size_t, stream_ref stream) const noexcept {
        (void)try_deallocate_async(block, stream);
    }

    // Without a stream.

    [[nodiscard]] result<void *> try_allocate(std::size_t bytes,
                                              std::size_t alignment = default_alignment) const noexcept {
        if (from_ == nullptr) return status::invalid_handle;
        void *block = nullptr;
        const gpumem_status answer = from_->alloc(bytes, alignment, &block);
        return detail::try_block(answer, block);
    }
    [[nodiscard]] void *allocate(std::size_t bytes, std::size_t alignment = default_alignment) const {
        if (from_ == nullptr) detail::fail(status::invalid_handle);
        void *block = nullptr;
        const gpumem_status answer = from_->alloc(bytes, alignment, &block);
        return detail::block_or_throw(answer, block);
    }
    status try_deallocate(void *block) const noexcept {
        return from_ == nullptr ? status::invalid_handle : from_->free(block);
    }
    void deallocate(void *block, std::size_t, std::size_t = default_alignment) const noexcept {
        (void)try_deallocate(block);
    }

    // The same by the names of CCCL 3.

    [[nodiscard]] void *allocate(stream_ref stream, std::size_t bytes, std::size_t alignment = default_alignment) const {
        return allocate_async(bytes, alignment, stream);
    }
    void deallocate(stream_ref stream, void *block, std::size_t, std::size_t = default_alignment) const noexcept {
        (void)try_deallocate_async(block, stream);
    }
    [[nodiscard]] void *allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment) const {
        return allocate(bytes, alignment);
    }
    void deallocate_sync(void *block, std::size_t, std::size_t = default_alignment) const noexcept {
        (void)try_deallocate(block);
    }

    /// Whether one may give back what the other handed out.
    friend bool operator==(const stream_resource &a, const stream_resource &b) noexcept { return a.pool_ == b.pool_; }
    friend bool operator!=(const stream_resource &a, const stream_resource &b) noexcept { return a.pool_ != b.pool_; }

    template <class Property, class = std::enable_if_t<is_device_accessible_tag<Property>::value>>
    friend constexpr void get_property(const stream_resource &, Property) noexcept {}

private:
    const gpumem_allocator *pool_ = nullptr;
    std::shared_ptr<const detail::quiet_stream> from_;
};

}  // namespace GPUMEM_HPP_ABI
}  // namespace gpumem

#endif
