// Statuses, exceptions, results, and what owns a handle. Part of gpumem.hpp; include that.
// SPDX-License-Identifier: Apache-2.0 OR MIT
#ifndef GPUMEM_HPP_STATUS
#define GPUMEM_HPP_STATUS

#include <gpumem.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

// Objects that were built with exceptions and without may be linked into one program.
#if defined(__cpp_exceptions)
#define GPUMEM_HPP_ABI throwing
#else
#define GPUMEM_HPP_ABI aborting
#endif

namespace gpumem {
inline namespace GPUMEM_HPP_ABI {

/// What a call answers. A later library may answer with a number that has no name here: take it as a failure.
enum class [[nodiscard]] status : std::int32_t {
    ok = GPUMEM_STATUS_OK,
    invalid_argument = GPUMEM_STATUS_INVALID_ARGUMENT,
    invalid_handle = GPUMEM_STATUS_INVALID_HANDLE,
    struct_size = GPUMEM_STATUS_STRUCT_SIZE,
    invalid_state = GPUMEM_STATUS_INVALID_STATE,
    out_of_memory = GPUMEM_STATUS_OUT_OF_MEMORY,
    foreign_pointer = GPUMEM_STATUS_FOREIGN_POINTER,
    interior_pointer = GPUMEM_STATUS_INTERIOR_POINTER,
    double_free = GPUMEM_STATUS_DOUBLE_FREE,
    io = GPUMEM_STATUS_IO,
    corrupt = GPUMEM_STATUS_CORRUPT,
    device = GPUMEM_STATUS_DEVICE,
    unsupported = GPUMEM_STATUS_UNSUPPORTED,
    buffer_too_small = GPUMEM_STATUS_BUFFER_TOO_SMALL,
    not_found = GPUMEM_STATUS_NOT_FOUND,
    cancelled = GPUMEM_STATUS_CANCELLED,
    forked = GPUMEM_STATUS_FORKED,
    overrun = GPUMEM_STATUS_OVERRUN,
    plan_defect = GPUMEM_STATUS_PLAN_DEFECT,
    configuration = GPUMEM_STATUS_CONFIGURATION,
    internal = GPUMEM_STATUS_INTERNAL
};

/// The name of a status in lower case; `unknown` for one that the library doesn't know.
[[nodiscard]] inline const char *name(status which) noexcept {
    return gpumem_status_name(static_cast<gpumem_status>(which));
}

/// Why the last call of this thread that failed did so; empty if none did. Valid until the next one that fails.
[[nodiscard]] inline const char *last_error() noexcept { return gpumem_last_error(); }

/// What both exceptions are: catch this for all of them.
class failure {
public:
    failure(const failure &) noexcept = default;
    failure &operator=(const failure &) noexcept = default;
    virtual ~failure() = default;
    /// Why; never ok.
    gpumem::status status() const noexcept { return status_; }
    /// The library's own words, as `what()` of the exception has them.
    virtual const char *message() const noexcept = 0;

protected:
    explicit failure(gpumem::status why) noexcept : status_(why) {}

private:
    gpumem::status status_;
};

/// Anything but running out of memory.
class error : public std::runtime_error, public failure {
public:
    error(gpumem::status why, const char *text) : std::runtime_error(text), failure(why) {}
    const char *message() const noexcept override { return what(); }
};

/// The device, a budget or a plan's capacity has no room. `what()` says who holds what and what would help.
class out_of_memory : public std::bad_alloc, public failure {
public:
    explicit out_of_memory(const char *text, std::exception_ptr cause = nullptr)
        : failure(gpumem::status::out_of_memory), text_(text), cause_(std::move(cause)) {}
    const char *what() const noexcept override { return text_.what(); }
    const char *message() const noexcept override { return what(); }
    /// What the pool's out-of-memory callback threw while it was asked about this request; null if it threw nothing.
    const std::exception_ptr &cause() const noexcept { return cause_; }

private:
    std::runtime_error text_;  // a string whose copies can't throw
    std::exception_ptr cause_;
};

namespace detail {

/// What a callback threw on this thread, on its way around the C library.
inline std::exception_ptr &thrown() noexcept {
    static thread_local std::exception_ptr thrown;
    return thrown;
}

/// Calls a callback of the program's for the C library, which no exception may cross.
template <class Call>
std::int32_t guarded(Call call, std::int32_t otherwise) noexcept {
#if defined(__cpp_exceptions)
    try {
        return call();
    } catch (...) {
        thrown() = std::current_exception();
        return otherwise;
    }
#else
    (void)otherwise;
    return call();
#endif
}

[[noreturn]] inline void fail(status why) {
#if defined(__cpp_exceptions)
    std::exception_ptr cause = std::exchange(thrown(), nullptr);
    const bool has_text = gpumem_last_error_status() == static_cast<gpumem_status>(why);
    const char *text = has_text ? gpumem_last_error() : gpumem_status_name(static_cast<gpumem_status>(why));
    if (why == status::out_of_memory) throw out_of_memory(text, std::move(cause));
    throw error(why, text);
#else
    (void)why;
    std::abort();
#endif
}

inline void require(status answer) {
    if (answer != status::ok) fail(answer);
}

inline status drop_thrown(gpumem_status answer) noexcept {
    thrown() = nullptr;
    return static_cast<status>(answer);
}

}  // namespace detail

/// A status and, if that is ok, a value; otherwise the value is a T{}. As a condition it is the status, also where the
/// value is a bool.
template <class T>
class [[nodiscard]] result {
public:
    result(T value) noexcept : status_(gpumem::status::ok), value_(std::move(value)) {}
    result(gpumem::status why) noexcept : status_(why), value_() {}
    result(gpumem_status answer, T value) noexcept
        : status_(static_cast<gpumem::status>(answer)), value_(answer == GPUMEM_STATUS_OK ? std::move(value) : T()) {}

    gpumem::status status() const noexcept { return status_; }
    explicit operator bool() const noexcept { return status_ == gpumem::status::ok; }
    T &value() noexcept { return value_; }
    const T &value() const noexcept { return value_; }
    T &operator*() noexcept { return value_; }
    const T &operator*() const noexcept { return value_; }
    T *operator->() noexcept { return &value_; }
    const T *operator->() const noexcept { return &value_; }
    /// The value moved out, or the exception that the throwing form would have thrown.
    T take() {
        detail::require(status_);
        return std::move(value_);
    }

private:
    gpumem::status status_;
    T value_;
};

namespace detail {

/// The only owner of a handle of the library's.
template <class T, gpumem_status (*Destroy)(T *)>
class handle {
public:
    constexpr handle() noexcept = default;
    explicit handle(T *raw) noexcept : raw_(raw) {}
    handle(handle &&other) noexcept : raw_(other.release()) {}
    handle &operator=(handle &&other) noexcept {
        T *raw = other.release();  // before the old one goes: `other` may be this
        reset(raw);
        return *this;
    }
    handle(const handle &) = delete;
    handle &operator=(const handle &) = delete;
    ~handle() { reset(); }

    /// The C handle, for functions of gpumem.h; still owned.
    T *get() const noexcept { return raw_; }
    explicit operator bool() const noexcept { return raw_ != nullptr; }
    /// Gives the C handle to the caller and is null.
    [[nodiscard]] T *release() noexcept { return std::exchange(raw_, nullptr); }
    /// Gives the handle up, and owns another or none.
    void reset(T *raw = nullptr) noexcept {
        if (T *old = std::exchange(raw_, raw); old != nullptr) (void)Destroy(old);
    }
    /// Gives the handle up and says what that answered; afterwards it is null in any case.
    status try_close() noexcept { return static_cast<status>(Destroy(release())); }
    void close() { require(try_close()); }

private:
    T *raw_ = nullptr;
};

/// What a function writes into a buffer of the caller's.
template <class Write>
result<std::string> text(Write write) noexcept {
    std::size_t size = 0;
    gpumem_status answer = write(nullptr, std::size_t{0}, &size);
    if (answer != GPUMEM_STATUS_OK) return static_cast<status>(answer);
    std::string text;
    do {
        text.resize(size + size / 8);  // it may grow meanwhile
        answer = write(text.data(), text.size(), &size);
    } while (answer == GPUMEM_STATUS_BUFFER_TOO_SMALL);
    if (answer != GPUMEM_STATUS_OK) return static_cast<status>(answer);
    text.resize(size - 1);
    return text;
}

inline const char *or_null(const std::string &text) noexcept { return text.empty() ? nullptr : text.c_str(); }

inline std::int32_t on_or_off(const std::optional<bool> &is_on) noexcept {
    return !is_on ? GPUMEM_DEFAULT : *is_on ? GPUMEM_ON : GPUMEM_OFF;
}

}  // namespace detail

}  // namespace GPUMEM_HPP_ABI
}  // namespace gpumem

#endif
