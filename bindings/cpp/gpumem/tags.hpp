// What requests say about themselves. Part of gpumem.hpp; include that.
// SPDX-License-Identifier: Apache-2.0 OR MIT
#ifndef GPUMEM_HPP_TAGS
#define GPUMEM_HPP_TAGS

#include "words.hpp"

#include <cstdint>
#include <new>

namespace gpumem {
inline namespace GPUMEM_HPP_ABI {

/// The number of an operator's name, the same for the life of the process; 0 is none.
[[nodiscard]] inline result<std::uint32_t> try_op_number(const char *name) noexcept {
    std::uint32_t number = 0;
    const gpumem_status answer = gpumem_op_number(name, &number);
    return {answer, number};
}
[[nodiscard]] inline std::uint32_t op_number(const char *name) { return try_op_number(name).take(); }

/// What a request says about itself.
struct tag {
    gpumem::tier tier = gpumem::tier::not_set;
    gpumem::precision precision = gpumem::precision::unknown;
    std::uint32_t op = 0;     ///< as `op_number` gives it
    std::uint32_t owner = 0;  ///< a number of the program's choice

    [[nodiscard]] gpumem_tag view() const noexcept {
        gpumem_tag raw = GPUMEM_TAG_INIT;
        raw.values.tier = static_cast<std::int32_t>(tier);
        raw.values.precision = static_cast<std::int32_t>(precision);
        raw.values.op = op;
        raw.values.owner = owner;
        return raw;
    }
    [[nodiscard]] static tag from(const gpumem_tag_values &values) noexcept {
        return {static_cast<gpumem::tier>(values.tier), static_cast<gpumem::precision>(values.precision), values.op,
                values.owner};
    }
};

/// The tag in force on this thread.
[[nodiscard]] inline result<tag> try_current_tag() noexcept {
    gpumem_tag raw = GPUMEM_TAG_INIT;
    const gpumem_status answer = gpumem_tag_current(&raw);
    return {answer, tag::from(raw.values)};
}
[[nodiscard]] inline tag current_tag() { return try_current_tag().take(); }

/// A tag is in force on this thread while this lives. Scopes end in the reverse order of their beginning, on their thread.
class [[nodiscard]] tag_scope {
public:
    explicit tag_scope(const tag &tag) : tag_scope(tag, std::nothrow) { detail::require(status_); }
    tag_scope(const tag &tag, std::nothrow_t) noexcept {
        const gpumem_tag raw = tag.view();
        status_ = static_cast<gpumem::status>(gpumem_tag_push(&raw));
    }
    tag_scope(const tag_scope &) = delete;
    tag_scope &operator=(const tag_scope &) = delete;
    ~tag_scope() {
        if (status_ == gpumem::status::ok) (void)gpumem_tag_pop();
    }
    gpumem::status status() const noexcept { return status_; }

private:
    gpumem::status status_ = gpumem::status::ok;
};

/// The tags that were in force on the thread that captured them.
class captured_tags : public detail::handle<gpumem_tags, gpumem_tags_destroy> {
public:
    using handle::handle;
    captured_tags() noexcept = default;
    static result<captured_tags> try_capture() noexcept {
        gpumem_tags *made = nullptr;
        const gpumem_status answer = gpumem_tags_capture(&made);
        return {answer, captured_tags(made)};
    }
    [[nodiscard]] static captured_tags capture() { return try_capture().take(); }
};

/// Captured tags are in force on this thread, instead of its own, while this lives.
class [[nodiscard]] captured_scope {
public:
    explicit captured_scope(const captured_tags &tags) : captured_scope(tags, std::nothrow) { detail::require(status_); }
    captured_scope(const captured_tags &tags, std::nothrow_t) noexcept
        : status_(static_cast<gpumem::status>(gpumem_tags_enter(tags.get()))) {}
    captured_scope(const captured_scope &) = delete;
    captured_scope &operator=(const captured_scope &) = delete;
    ~captured_scope() {
        if (status_ == gpumem::status::ok) (void)gpumem_tags_leave();
    }
    gpumem::status status() const noexcept { return status_; }

private:
    gpumem::status status_;
};

}  // namespace GPUMEM_HPP_ABI
}  // namespace gpumem

#endif
