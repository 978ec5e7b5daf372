// Owners of a block, and of a notice of a call that is under way. Part of gpumem.hpp; include that.
// SPDX-License-Identifier: Apache-2.0 OR MIT
#ifndef GPUMEM_HPP_BLOCK
#define GPUMEM_HPP_BLOCK

#include "calls.hpp"

#include <cstdint>
#include <utility>

namespace gpumem {
inline namespace GPUMEM_HPP_ABI {

/// A call of the driver that is under way. Commit it once that succeeded; otherwise nothing is learned of it.
class notice : public detail::handle<gpumem_notice, gpumem_notice_drop> {
public:
    notice() noexcept = default;
    notice(const gpumem_allocator *about, gpumem_notice *raw) noexcept : handle(raw), about_(about) {}
    /// It is null afterwards, also if this fails.
    status try_commit() noexcept { return static_cast<status>(gpumem_notice_commit(about_, release())); }
    void commit() { detail::require(try_commit()); }

private:
    const gpumem_allocator *about_ = nullptr;
};

/// A block that is freed when this dies, on its home stream and behind all recorded users. Its pool must outlive it.
class block {
public:
    block() noexcept = default;
    block(const gpumem_allocator *pool, void *data, std::uint64_t bytes) noexcept
        : pool_(pool), data_(data), bytes_(bytes) {}
    block(block &&other) noexcept
        : pool_(other.pool_), data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    block &operator=(block &&other) noexcept {
        block moved(std::move(other));
        std::swap(pool_, moved.pool_);
        std::swap(data_, moved.data_);
        std::swap(bytes_, moved.bytes_);
        return *this;
    }
    block(const block &) = delete;
    block &operator=(const block &) = delete;
    ~block() { (void)try_free(); }

    /// The address on the device.
    void *data() const noexcept { return data_; }
    /// Bytes asked for.
    std::uint64_t size() const noexcept { return bytes_; }
    explicit operator bool() const noexcept { return data_ != nullptr; }
    /// Gives the address to the caller, who frees it, and is null.
    [[nodiscard]] void *release() noexcept {
        bytes_ = 0;
        return std::exchange(data_, nullptr);
    }
    /// Frees it now. It is null afterwards, also if this fails; a null one is nothing.
    status try_free(stream_ref stream = home_stream) noexcept {
        void *data = release();
        if (data == nullptr) return status::ok;
        return detail::free(pool_, data, stream);
    }
    void free(stream_ref stream = home_stream) { detail::require(try_free(stream)); }

private:
    const gpumem_allocator *pool_ = nullptr;
    void *data_ = nullptr;
    std::uint64_t bytes_ = 0;
};

}  // namespace GPUMEM_HPP_ABI
}  // namespace gpumem

#endif
