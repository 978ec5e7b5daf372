// Graphs and plans. Part of gpumem.hpp; include that.
// SPDX-License-Identifier: Apache-2.0 OR MIT
#ifndef GPUMEM_HPP_GRAPH
#define GPUMEM_HPP_GRAPH

#include "words.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gpumem {
inline namespace GPUMEM_HPP_ABI {

enum class tensor_kind : std::int32_t {
    not_set = 0,  ///< made by an op
    parameter = GPUMEM_TENSOR_PARAMETER,
    module_state = GPUMEM_TENSOR_MODULE_STATE,
    optimizer_state = GPUMEM_TENSOR_OPTIMIZER_STATE,
    constant = GPUMEM_TENSOR_CONSTANT,
    input = GPUMEM_TENSOR_INPUT,
    intermediate = GPUMEM_TENSOR_INTERMEDIATE
};

enum class op_order : std::int32_t { given = GPUMEM_ORDER_GIVEN, memory = GPUMEM_ORDER_MEMORY };

inline constexpr std::uint32_t no_tensor = GPUMEM_NO_TENSOR;

/// A tensor to be added to a graph.
struct tensor {
    std::string name{};
    std::uint64_t bytes = 0;
    tensor_kind kind = tensor_kind::not_set;
    gpumem::tier tier = gpumem::tier::not_set;
    std::uint64_t alignment = 0;
    std::uint32_t alias_of = no_tensor;
    bool is_result = false;
};

/// An op to be added to a graph; the numbers are those that adding gave.
struct op {
    std::string name{};
    std::string kind{};
    std::vector<std::uint32_t> inputs{};
    std::vector<std::uint32_t> outputs{};
    /// Pairs of an input and an output that may share bytes.
    std::vector<std::pair<std::uint32_t, std::uint32_t>> in_place{};
    std::vector<std::uint32_t> waits{};    ///< events
    std::vector<std::uint32_t> records{};  ///< events
    std::vector<std::uint32_t> after{};    ///< earlier ops
    std::uint64_t workspace_bytes = 0;
    std::uint64_t duration_ns = 0;
    std::uint32_t stream = 0;
    std::optional<bool> mutates{};
};

/// One step of a program.
class graph : public detail::handle<gpumem_graph, gpumem_graph_destroy> {
public:
    using handle::handle;
    /// Null.
    graph() noexcept = default;
    /// An empty graph with this name.
    explicit graph(const std::string &name) : graph(try_make(name).take()) {}
    static result<graph> try_make(const std::string &name) noexcept {
        gpumem_graph *made = nullptr;
        const gpumem_status answer = gpumem_graph_create(detail::or_null(name), &made);
        return {answer, graph(made)};
    }

    static result<graph> try_load(const char *path) noexcept {
        gpumem_graph *made = nullptr;
        const gpumem_status answer = gpumem_graph_load(path, &made);
        return {answer, graph(made)};
    }
    [[nodiscard]] static graph load(const char *path) { return try_load(path).take(); }
    status try_save(const char *path) const noexcept { return static_cast<status>(gpumem_graph_save(get(), path)); }
    void save(const char *path) const { detail::require(try_save(path)); }

    /// Each `add` gives the number of what was added.
    result<std::uint32_t> try_add_stream(const char *name) noexcept {
        std::uint32_t number = 0;
        const gpumem_status answer = gpumem_graph_stream_add(get(), name, &number);
        return {answer, number};
    }
    std::uint32_t add_stream(const char *name) { return try_add_stream(name).take(); }
    result<std::uint32_t> try_add_event(const char *name) noexcept {
        std::uint32_t number = 0;
        const gpumem_status answer = gpumem_graph_event_add(get(), name, &number);
        return {answer, number};
    }
    std::uint32_t add_event(const char *name) { return try_add_event(name).take(); }

    result<std::uint32_t> try_add(const tensor &tensor) noexcept {
        gpumem_tensor raw = GPUMEM_TENSOR_INIT;
        raw.name = detail::or_null(tensor.name);
        raw.bytes = tensor.bytes;
        raw.alignment = tensor.alignment;
        raw.kind = static_cast<std::int32_t>(tensor.kind);
        raw.tier = static_cast<std::int32_t>(tensor.tier);
        raw.alias_of = tensor.alias_of;
        raw.is_result = tensor.is_result ? 1 : 0;
        std::uint32_t number = 0;
        const gpumem_status answer = gpumem_graph_tensor_add(get(), &raw, &number);
        return {answer, number};
    }
    std::uint32_t add(const tensor &tensor) { return try_add(tensor).take(); }

    result<std::uint32_t> try_add(const op &op) noexcept {
        std::vector<std::uint32_t> pairs;
        pairs.reserve(2 * op.in_place.size());
        for (const auto &[input, output] : op.in_place) {
            pairs.push_back(input);
            pairs.push_back(output);
        }
        gpumem_op raw = GPUMEM_OP_INIT;
        raw.name = detail::or_null(op.name);
        raw.kind = detail::or_null(op.kind);
        raw.inputs = op.inputs.data();
        raw.input_count = op.inputs.size();
        raw.outputs = op.outputs.data();
        raw.output_count = op.outputs.size();
        raw.in_place = pairs.data();
        raw.in_place_count = op.in_place.size();
        raw.waits = op.waits.data();
        raw.wait_count = op.waits.size();
        raw.records = op.records.data();
        raw.record_count = op.records.size();
        raw.after = op.after.data();
        raw.after_count = op.after.size();
        raw.workspace_bytes = op.workspace_bytes;
        raw.duration_ns = op.duration_ns;
        raw.stream = op.stream;
        raw.mutates = detail::on_or_off(op.mutates);
        std::uint32_t number = 0;
        const gpumem_status answer = gpumem_graph_op_add(get(), &raw, &number);
        return {answer, number};
    }
    std::uint32_t add(const op &op) { return try_add(op).take(); }

    /// Names the tensor at which forward turns into backward.
    status try_set_loss(std::uint32_t tensor) noexcept {
        return static_cast<status>(gpumem_graph_loss_set(get(), tensor));
    }
    void set_loss(std::uint32_t tensor) { detail::require(try_set_loss(tensor)); }

    /// Whether the graph makes sense.
    status try_check() const noexcept { return static_cast<status>(gpumem_graph_check(get())); }
    void check() const { detail::require(try_check()); }
};

/// How to plan.
struct plan_options {
    std::uint64_t node_limit = unset;
    std::uint64_t time_limit_ns = unset;
    std::uint64_t capacity_bytes = unset;
    std::uint64_t alignment = unset;
    std::uint64_t seed = unset;
    std::uint32_t threads = 0;
    op_order order = op_order::given;
    /// Told of better plans, and asked some twenty times a second whether to go on: false ends planning with
    /// status::cancelled. What it throws does so too, and comes out of the throwing form; the status form drops it.
    std::function<bool(const gpumem_plan_progress &)> progress{};
};

/// An offset for everything that needs bytes.
class plan : public detail::handle<gpumem_plan, gpumem_plan_destroy> {
public:
    using handle::handle;
    plan() noexcept = default;
    explicit plan(const graph &graph, const plan_options &options = {}) {
        asked about(options.progress);
        finish(of_graph(graph, options, about), about);
    }
    /// Of buffers whose live ranges are known; their numbers are their positions.
    explicit plan(const std::vector<gpumem_buffer> &buffers, const plan_options &options = {}) {
        asked about(options.progress);
        finish(of_buffers(buffers, options, about), about);
    }
    static result<plan> try_make(const graph &graph, const plan_options &options = {}) noexcept {
        asked about(options.progress);
        return of_graph(graph, options, about);
    }
    static result<plan> try_make(const std::vector<gpumem_buffer> &buffers, const plan_options &options = {}) noexcept {
        asked about(options.progress);
        return of_buffers(buffers, options, about);
    }

    static result<plan> try_load(const char *path) noexcept {
        gpumem_plan *made = nullptr;
        const gpumem_status answer = gpumem_plan_load(path, &made);
        return {answer, plan(made)};
    }
    [[nodiscard]] static plan load(const char *path) { return try_load(path).take(); }
    status try_save(const char *path) const noexcept { return static_cast<status>(gpumem_plan_save(get(), path)); }
    void save(const char *path) const { detail::require(try_save(path)); }

    /// Checks the plan without the code that made it, and whether it is one of the graph.
    status try_verify() const noexcept { return static_cast<status>(gpumem_plan_verify(get(), nullptr)); }
    void verify() const { detail::require(try_verify()); }
    status try_verify(const graph &graph) const noexcept {
        if (!graph) return status::invalid_handle;
        return static_cast<status>(gpumem_plan_verify(get(), graph.get()));
    }
    void verify(const graph &graph) const { detail::require(try_verify(graph)); }

    result<gpumem_plan_info> try_query() const noexcept {
        gpumem_plan_info info = GPUMEM_PLAN_INFO_INIT;
        const gpumem_status answer = gpumem_plan_query(get(), &info);
        return {answer, info};
    }
    gpumem_plan_info query() const { return try_query().take(); }

    /// Where a tensor lies, in bytes from the arena's start.
    result<std::uint64_t> try_offset(std::uint32_t tensor) const noexcept {
        std::uint64_t offset = 0;
        const gpumem_status answer = gpumem_plan_offset(get(), tensor, &offset);
        return {answer, offset};
    }
    std::uint64_t offset(std::uint32_t tensor) const { return try_offset(tensor).take(); }

    /// The number of the buffer that a tensor is in.
    result<std::uint64_t> try_buffer_of(std::uint32_t tensor) const noexcept {
        std::uint64_t buffer = 0;
        const gpumem_status answer = gpumem_plan_buffer_of(get(), tensor, &buffer);
        return {answer, buffer};
    }
    std::uint64_t buffer_of(std::uint32_t tensor) const { return try_buffer_of(tensor).take(); }

    /// The number of the buffer with this identifier, as files have it.
    result<std::uint64_t> try_find_buffer(const char *id) const noexcept {
        std::uint64_t buffer = 0;
        const gpumem_status answer = gpumem_plan_buffer_find(get(), id, &buffer);
        return {answer, buffer};
    }
    std::uint64_t find_buffer(const char *id) const { return try_find_buffer(id).take(); }

    result<gpumem_placement> try_placement(std::uint64_t buffer) const noexcept {
        gpumem_placement placement = GPUMEM_PLACEMENT_INIT;
        const gpumem_status answer = gpumem_plan_placement(get(), buffer, &placement);
        return {answer, placement};
    }
    gpumem_placement placement(std::uint64_t buffer) const { return try_placement(buffer).take(); }

    result<std::string> try_buffer_name(std::uint64_t buffer) const noexcept {
        return detail::text([this, buffer](char *to, std::size_t capacity, std::size_t *size) {
            return gpumem_plan_buffer_name(get(), buffer, to, capacity, size);
        });
    }
    std::string buffer_name(std::uint64_t buffer) const { return try_buffer_name(buffer).take(); }

private:
    /// The program's callback, and what it threw.
    struct asked {
        explicit asked(const std::function<bool(const gpumem_plan_progress &)> &of) noexcept : progress(of) {}
        const std::function<bool(const gpumem_plan_progress &)> &progress;
        std::exception_ptr thrown{};
    };

    static std::int32_t tell(const gpumem_plan_progress *progress, void *data) noexcept {
        auto &about = *static_cast<asked *>(data);
        const std::int32_t stop = detail::guarded([&] { return about.progress(*progress) ? 0 : 1; }, -1);
        if (stop < 0) about.thrown = std::exchange(detail::thrown(), nullptr);
        return stop;
    }
    static gpumem_plan_options view(const plan_options &options, asked &about) noexcept {
        gpumem_plan_options raw = GPUMEM_PLAN_OPTIONS_INIT;
        raw.node_limit = options.node_limit;
        raw.time_limit_ns = options.time_limit_ns;
        raw.capacity_bytes = options.capacity_bytes;
        raw.alignment = options.alignment;
        raw.seed = options.seed;
        raw.threads = options.threads;
        raw.order = static_cast<std::int32_t>(options.order);
        if (options.progress) {
            raw.progress = &tell;
            raw.progress_data = &about;
        }
        return raw;
    }
    static result<plan> of_graph(const graph &graph, const plan_options &options, asked &about) noexcept {
        const gpumem_plan_options raw = view(options, about);
        gpumem_plan *made = nullptr;
        const gpumem_status answer = gpumem_plan_create(graph.get(), &raw, &made);
        return {answer, plan(made)};
    }
    static result<plan> of_buffers(const std::vector<gpumem_buffer> &buffers, const plan_options &options,
                                   asked &about) noexcept {
        const gpumem_plan_options raw = view(options, about);
        gpumem_plan *made = nullptr;
        const gpumem_status answer =
            gpumem_plan_create_for_buffers(buffers.data(), buffers.size(), sizeof(gpumem_buffer), &raw, &made);
        return {answer, plan(made)};
    }
    void finish(result<plan> made, const asked &about) {
#if defined(__cpp_exceptions)
        if (about.thrown) std::rethrow_exception(about.thrown);
#else
        (void)about;
#endif
        *this = made.take();
    }
};

}  // namespace GPUMEM_HPP_ABI
}  // namespace gpumem

#endif
