// Tiers, precisions, streams by number, settings. Part of gpumem.hpp; include that.
// SPDX-License-Identifier: Apache-2.0 OR MIT
#ifndef GPUMEM_HPP_WORDS
#define GPUMEM_HPP_WORDS

#include "status.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace gpumem {
inline namespace GPUMEM_HPP_ABI {

/// A number that isn't set.
inline constexpr std::uint64_t unset = GPUMEM_UNSET;
/// What every block is aligned to at least.
inline constexpr std::size_t default_alignment = 512;

enum class tier : std::int32_t {
    not_set = 0,  ///< temporary in a tag; found out in a graph
    persistent = GPUMEM_TIER_PERSISTENT,
    cyclic = GPUMEM_TIER_CYCLIC,
    temporary = GPUMEM_TIER_TEMPORARY
};

enum class precision : std::int32_t {
    unknown = GPUMEM_PRECISION_UNKNOWN,
    fp64 = GPUMEM_PRECISION_FP64,
    fp32 = GPUMEM_PRECISION_FP32,
    tf32 = GPUMEM_PRECISION_TF32,
    fp16 = GPUMEM_PRECISION_FP16,
    bf16 = GPUMEM_PRECISION_BF16,
    fp8 = GPUMEM_PRECISION_FP8,
    fp4 = GPUMEM_PRECISION_FP4,
    int64 = GPUMEM_PRECISION_INT64,
    int32 = GPUMEM_PRECISION_INT32,
    int16 = GPUMEM_PRECISION_INT16,
    int8 = GPUMEM_PRECISION_INT8,
    boolean = GPUMEM_PRECISION_BOOL
};

/// A stream of the device, by number. Owns nothing.
class stream_ref {
public:
    /// The default stream.
    constexpr stream_ref() noexcept = default;
    constexpr explicit stream_ref(std::uint64_t number) noexcept : number_(number) {}
    /// A driver's handle of a stream, such as cudaStream_t, which points to a struct: its number is its address.
    template <class T, class = std::enable_if_t<std::is_class_v<T>>>
    stream_ref(T *native) noexcept : number_(reinterpret_cast<std::uintptr_t>(native)) {}
    /// Anything with a `get()` that is such a handle and that owns nothing, such as cuda::stream_ref.
    template <class T, class = std::enable_if_t<
                           std::is_trivially_copyable_v<T> &&
                           std::is_class_v<std::remove_pointer_t<decltype(std::declval<const T &>().get())>>>>
    stream_ref(const T &native) noexcept : stream_ref(native.get()) {}

    constexpr std::uint64_t number() const noexcept { return number_; }
    friend constexpr bool operator==(stream_ref a, stream_ref b) noexcept { return a.number_ == b.number_; }
    friend constexpr bool operator!=(stream_ref a, stream_ref b) noexcept { return a.number_ != b.number_; }

private:
    std::uint64_t number_ = GPUMEM_STREAM_DEFAULT;
};

inline constexpr stream_ref default_stream{std::uint64_t{GPUMEM_STREAM_DEFAULT}};
/// For freeing: the stream a block was asked for on, and all that were recorded as using it.
inline constexpr stream_ref home_stream{std::uint64_t{GPUMEM_STREAM_HOME}};
/// For synchronizing: the whole device.
inline constexpr stream_ref all_streams{std::uint64_t{GPUMEM_STREAM_ALL}};

/// How a device or a pool is to be; what isn't set comes from the environment or is the default. See gpumem_config.
struct config {
    std::string settings{};  ///< `key=value;key=value`; the fields below win
    std::string device{};    ///< `host` or `sim`
    std::uint64_t capacity_bytes = unset;
    std::uint64_t hard_budget_bytes = unset;
    std::uint64_t soft_budget_bytes = unset;
    std::uint64_t initial_bytes = unset;
    std::optional<bool> guard{};
    std::optional<bool> separate_precisions{};

    /// The same for C; it points into this object.
    [[nodiscard]] gpumem_config view() const noexcept {
        gpumem_config raw = GPUMEM_CONFIG_INIT;
        raw.settings = detail::or_null(settings);
        raw.device = detail::or_null(device);
        raw.capacity_bytes = capacity_bytes;
        raw.hard_budget_bytes = hard_budget_bytes;
        raw.soft_budget_bytes = soft_budget_bytes;
        raw.initial_bytes = initial_bytes;
        raw.guard = detail::on_or_off(guard);
        raw.separate_precisions = detail::on_or_off(separate_precisions);
        return raw;
    }
};

/// Every setting that `config` and the environment come to, with its source, as a JSON list.
[[nodiscard]] inline result<std::string> try_settings(const config &config) noexcept {
    const gpumem_config raw = config.view();
    return detail::text([&](char *to, std::size_t capacity, std::size_t *size) {
        return gpumem_config_settings(&raw, to, capacity, size);
    });
}
[[nodiscard]] inline std::string settings(const config &config) { return try_settings(config).take(); }

}  // namespace GPUMEM_HPP_ABI
}  // namespace gpumem

#endif
