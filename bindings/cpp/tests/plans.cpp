// Graphs and plans: built, planned, saved, loaded, verified, cancelled.
#include "check.hpp"

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using gpumem::status;

static gpumem::graph small_graph() {
    gpumem::graph graph("small");
    gpumem::tensor spec;
    spec.name = "weight";
    spec.bytes = 4096;
    spec.kind = gpumem::tensor_kind::parameter;
    const auto weight = graph.add(spec);
    spec = {};
    spec.name = "hidden";
    spec.bytes = 10000;
    const auto hidden = graph.add(spec);
    spec.name = "loss";
    spec.bytes = 4;
    spec.is_result = true;
    const auto loss = graph.add(spec);
    gpumem::op op;
    op.name = "matmul";
    op.inputs = {weight};
    op.outputs = {hidden};
    op.workspace_bytes = 20000;
    CHECK(graph.add(op) == 0);
    op = {};
    op.name = "sum";
    op.inputs = {hidden};
    op.outputs = {loss};
    CHECK(graph.add(op) == 1);
    graph.set_loss(loss);
    graph.check();
    return graph;
}

static void a_graph_is_planned() {
    gpumem::graph graph = small_graph();
    gpumem::plan plan(graph);
    const gpumem_plan_info info = plan.query();
    CHECK(info.quality == GPUMEM_PLAN_OPTIMAL && info.peak_bytes >= info.lower_bound_bytes);
    CHECK(info.peak_bytes >= 34096 && info.peak_bytes < 36000);
    plan.verify();
    plan.verify(graph);
    const gpumem_placement hidden = plan.placement(plan.buffer_of(1));
    CHECK(hidden.offset == plan.offset(1) && hidden.bytes == 10000 && plan.buffer_name(plan.buffer_of(1)) == "hidden");
    CHECK(plan.find_buffer("1") == plan.buffer_of(1));
    IS(not_found, plan.try_offset(99).status());
    IS(invalid_handle, plan.try_verify(gpumem::graph()));
    plan.save("cpp-test.plan.json");
    graph.save("cpp-test.graph.json");
    gpumem::plan loaded = gpumem::plan::load("cpp-test.plan.json");
    loaded.verify(gpumem::graph::load("cpp-test.graph.json"));
    CHECK(loaded.query().peak_bytes == info.peak_bytes);
    gpumem::plan moved = std::move(loaded);
    CHECK(!loaded && moved);
    gpumem::graph other("other");
    CHECK(plan.try_verify(other) != status::ok);
    IS(io, gpumem::plan::try_load("no such file").status());
    THROWS(gpumem::error, gpumem::graph::load("no such file"), thrown.status() == status::io);
}

static void streams_and_events_are_part_of_a_graph() {
    gpumem::graph graph("streams");
    const auto stream = graph.add_stream("copies");
    const auto event = graph.add_event("copied");
    gpumem::tensor spec;
    spec.bytes = 1000;
    const auto a = graph.add(spec), b = graph.add(spec);
    gpumem::op op;
    op.stream = stream;
    op.outputs = {a};
    op.records = {event};
    const auto first = graph.add(op);
    op = {};
    op.inputs = {a};
    op.outputs = {b};
    op.waits = {event};
    op.after = {first};
    op.in_place = {{a, b}};
    op.mutates = false;
    graph.add(op);
    graph.check();
    gpumem::plan(graph).verify(graph);
    op.inputs = {12345};
    CHECK(graph.try_add(op).status() != status::ok || graph.try_check() != status::ok);
}

static void too_little_room_is_out_of_memory() {
    gpumem::plan_options options;
    options.capacity_bytes = 1000;
    THROWS(std::bad_alloc, gpumem::plan(small_graph(), options), thrown.what()[0] != 0);
    IS(out_of_memory, gpumem::plan::try_make(small_graph(), options).status());
}

// Random buffers that aren't planned at once.
static std::vector<gpumem_buffer> hard() {
    std::vector<gpumem_buffer> buffers;
    std::uint64_t state = 1;
    const auto next = [&] { return (state = state * 6364136223846793005u + 1442695040888963407u) >> 33; };
    for (int i = 0; i < 300; ++i) {
        const std::uint64_t birth = next() % 100;
        buffers.push_back({birth, birth + 1 + next() % 20, 1 + next() % 100000, 1, gpumem::unset});
    }
    return buffers;
}

static void progress_is_told_and_stops_planning() {
    gpumem::plan_options options;
    options.threads = 1;
    options.node_limit = 20000;
    int told = 0;
    options.progress = [&](const gpumem_plan_progress &progress) {
        told += progress.is_better;
        return true;
    };
    gpumem::plan plan(hard(), options);
    plan.verify();
    CHECK(told > 0);
    options.progress = [](const gpumem_plan_progress &) { return false; };
    IS(cancelled, gpumem::plan::try_make(hard(), options).status());
    THROWS(gpumem::error, gpumem::plan(hard(), options), thrown.status() == status::cancelled);
    // The program's own exception comes out, on this side of the library.
    options.progress = [](const gpumem_plan_progress &) -> bool { throw std::logic_error("enough"); };
    THROWS(std::logic_error, gpumem::plan(hard(), options), std::string(thrown.what()) == "enough");
    IS(cancelled, gpumem::plan::try_make(hard(), options).status());
}

int main() {
    a_graph_is_planned();
    streams_and_events_are_part_of_a_graph();
    too_little_room_is_out_of_memory();
    progress_is_told_and_stops_planning();
    return 0;
}
