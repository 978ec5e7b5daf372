// Devices, streams, events. Part of gpumem.hpp; include that.
// SPDX-License-Identifier: Apache-2.0 OR MIT
#ifndef GPUMEM_HPP_DEVICE
#define GPUMEM_HPP_DEVICE

#include "words.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace gpumem {
inline namespace GPUMEM_HPP_ABI {

/// A device that memory comes from.
class device : public detail::handle<gpumem_device, gpumem_device_destroy> {
public:
    using handle::handle;
    device() noexcept = default;
    explicit device(const config &config) : device(try_make(config).take()) {}
    static result<device> try_make(const config &config) noexcept {
        const gpumem_config raw = config.view();
        gpumem_device *made = nullptr;
        const gpumem_status answer = gpumem_device_create(&raw, &made);
        return {answer, device(made)};
    }

    result<gpumem_device_info> try_query() const noexcept {
        gpumem_device_info info = GPUMEM_DEVICE_INFO_INIT;
        const gpumem_status answer = gpumem_device_query(get(), &info);
        return {answer, info};
    }
    gpumem_device_info query() const { return try_query().take(); }

    result<std::string> try_name() const noexcept {
        return detail::text([this](char *to, std::size_t capacity, std::size_t *size) {
            return gpumem_device_name(get(), to, capacity, size);
        });
    }
    std::string name() const { return try_name().take(); }

    /// Whether all work queued on the stream so far has finished.
    result<bool> try_is_finished(stream_ref stream) const noexcept {
        std::int32_t yes = 0;
        const gpumem_status answer = gpumem_device_stream_query(get(), stream.number(), &yes);
        return {answer, yes != 0};
    }
    bool is_finished(stream_ref stream) const { return try_is_finished(stream).take(); }

    /// Waits for one stream, or for all.
    status try_synchronize(stream_ref stream = all_streams) const noexcept {
        return static_cast<status>(stream == all_streams ? gpumem_device_synchronize(get())
                                                         : gpumem_device_stream_synchronize(get(), stream.number()));
    }
    void synchronize(stream_ref stream = all_streams) const { detail::require(try_synchronize(stream)); }

    /// Copies between two places on the device, in order of the stream.
    status try_copy(void *to, const void *from, std::uint64_t bytes, stream_ref stream) const noexcept {
        return static_cast<status>(gpumem_device_copy(get(), to, from, bytes, stream.number()));
    }
    void copy(void *to, const void *from, std::uint64_t bytes, stream_ref stream) const {
        detail::require(try_copy(to, from, bytes, stream));
    }

    /// Copies the host's bytes to the device before it returns, in no stream's order.
    status try_write(void *to, const void *from, std::size_t bytes) const noexcept {
        return static_cast<status>(gpumem_device_write(get(), to, from, bytes));
    }
    void write(void *to, const void *from, std::size_t bytes) const { detail::require(try_write(to, from, bytes)); }

    /// Copies from the device to the host before it returns, in no stream's order.
    status try_read(const void *from, void *to, std::size_t bytes) const noexcept {
        return static_cast<status>(gpumem_device_read(get(), from, to, bytes));
    }
    void read(const void *from, void *to, std::size_t bytes) const { detail::require(try_read(from, to, bytes)); }
};

class pool;

namespace detail {

/// The only owner of a stream or event, which the device and, if there is one, a pool are told of when it goes.
template <gpumem_status (*Create)(const gpumem_device *, std::uint64_t *),
          gpumem_status (*Destroy)(const gpumem_device *, std::uint64_t),
          gpumem_status (*Tell)(const gpumem_allocator *, std::uint64_t)>
class owned_number {
public:
    owned_number() noexcept = default;
    owned_number(owned_number &&other) noexcept
        : device_(std::exchange(other.device_, nullptr)), told_(other.told_), number_(other.number_) {}
    owned_number &operator=(owned_number &&other) noexcept {
        const gpumem_device *device = std::exchange(other.device_, nullptr);  // before the old one goes, as in `handle`
        reset();
        device_ = device;
        told_ = other.told_;
        number_ = other.number_;
        return *this;
    }
    owned_number(const owned_number &) = delete;
    owned_number &operator=(const owned_number &) = delete;
    ~owned_number() { reset(); }

    explicit operator bool() const noexcept { return device_ != nullptr; }
    std::uint64_t number() const noexcept { return number_; }
    /// Gives it up and is null.
    void reset() noexcept {
        const gpumem_device *device = std::exchange(device_, nullptr);
        if (device == nullptr) return;
        if (told_ != nullptr) (void)Tell(told_, number_);
        (void)Destroy(device, number_);
    }

protected:
    status create(const gpumem_device *device, const gpumem_allocator *told) noexcept {
        const gpumem_status answer = Create(device, &number_);
        if (answer == GPUMEM_STATUS_OK) {
            device_ = device;
            told_ = told;
        }
        return static_cast<status>(answer);
    }
    const gpumem_device *owner() const noexcept { return device_; }

private:
    const gpumem_device *device_ = nullptr;
    const gpumem_allocator *told_ = nullptr;
    std::uint64_t number_ = 0;
};

}  // namespace detail

/// A stream of its own. Device and pool must outlive it; the pool, if given, is told when the stream goes.
class stream : public detail::owned_number<gpumem_device_stream_create, gpumem_device_stream_destroy,
                                           gpumem_allocator_stream_destroyed> {
public:
    stream() noexcept = default;
    explicit stream(const device &device) : stream(try_make(device).take()) {}
    inline stream(const device &device, const pool &told);
    static result<stream> try_make(const device &device) noexcept { return make(device, nullptr); }
    static inline result<stream> try_make(const device &device, const pool &told) noexcept;
    operator stream_ref() const noexcept { return stream_ref(number()); }

private:
    static result<stream> make(const device &device, const gpumem_allocator *told) noexcept {
        stream made;
        const status answer = made.create(device.get(), told);
        if (answer != status::ok) return answer;
        return made;
    }
};

/// An event. Device and pool must outlive it; the pool, if given, is told when the event goes. What is recorded and waited
/// for here the pool isn't told: see `pool::record` and `pool::wait`, which do both.
class event : public detail::owned_number<gpumem_device_event_create, gpumem_device_event_destroy,
                                          gpumem_allocator_event_destroyed> {
public:
    event() noexcept = default;
    explicit event(const device &device) : event(try_make(device).take()) {}
    inline event(const device &device, const pool &told);
    static result<event> try_make(const device &device) noexcept { return make(device, nullptr); }
    static inline result<event> try_make(const device &device, const pool &told) noexcept;

    /// Puts the event behind all work queued on the stream so far.
    status try_record(stream_ref stream) const noexcept {
        return static_cast<status>(gpumem_device_event_record(owner(), number(), stream.number()));
    }
    void record(stream_ref stream) const { detail::require(try_record(stream)); }

    /// Work queued on the stream from now on starts only once the last record has happened.
    status try_wait(stream_ref stream) const noexcept {
        return static_cast<status>(gpumem_device_event_wait(owner(), number(), stream.number()));
    }
    void wait(stream_ref stream) const { detail::require(try_wait(stream)); }

    status try_synchronize() const noexcept {
        return static_cast<status>(gpumem_device_event_synchronize(owner(), number()));
    }
    void synchronize() const { detail::require(try_synchronize()); }

    result<bool> try_has_happened() const noexcept {
        std::int32_t yes = 0;
        const gpumem_status answer = gpumem_device_event_query(owner(), number(), &yes);
        return {answer, yes != 0};
    }
    bool has_happened() const { return try_has_happened().take(); }

private:
    static result<event> make(const device &device, const gpumem_allocator *told) noexcept {
        event made;
        const status answer = made.create(device.get(), told);
        if (answer != status::ok) return answer;
        return made;
    }
};

}  // namespace GPUMEM_HPP_ABI
}  // namespace gpumem

#endif
